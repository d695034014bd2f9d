//! Keeps what this process has found out by probing, so that all its logs on one disk share one probe.
//!
//! What a probe finds depends on the kernel, the file system with its mount, the devices below it, the rows that were tried
//! and the size of the writes. Logs that agree in all of these take the method that the first of them found; openings at the
//! same time wait for one probe instead of disturbing each other. What is remembered in a log's own directory goes first:
//! see `select.rs`.
//!
//! Invariant: only figures are shared. Which rows a log may use is found out at every opening.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seawall_sys::inspect::Environment;
use seawall_sys::method::Method;

use crate::error::Result;

/// The rows that a probe found, the one to use first; empty before the first probe.
type Found = Arc<Mutex<Vec<&'static Method>>>;

/// Disks that are remembered; a process that opens logs on more of them begins anew.
const PLACES_MAX: usize = 256;

static PLACES: Mutex<BTreeMap<String, Found>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that a probe of `rows` with writes of `bytes` depends on.
fn place(environment: &Environment, rows: &[&'static Method], bytes: usize) -> String {
    let Environment { system, file_system, devices, .. } = environment;
    let (kind, source, options) = (&file_system.kind, &file_system.source, &file_system.options);
    let size = (file_system.total_bytes, file_system.block_bytes, file_system.copy_on_write);
    let rows: Vec<&str> = rows.iter().map(|row| row.id).collect();
    format!("{system} {kind} {source} {options:?} {size:?} {devices:?} {rows:?} {bytes}")
}

/// What a probe of these rows has found in this process, and whether that was found now, by `probe`; `again` if it is to be
/// found anew.
pub(crate) fn found(
    environment: &Environment,
    (rows, bytes): (&[&'static Method], usize),
    again: bool,
    probe: impl FnOnce() -> Result<Vec<&'static Method>>,
) -> Result<(Vec<&'static Method>, bool)> {
    let place = place(environment, rows, bytes);
    let mut places = lock(&PLACES);
    if places.len() >= PLACES_MAX && !places.contains_key(&place) {
        places.clear();
    }
    let found = Arc::clone(places.entry(place).or_default());
    drop(places);
    let mut found = lock(&found);
    let probes = again || found.is_empty();
    if probes {
        *found = probe()?;
    }
    Ok((found.clone(), probes))
}
