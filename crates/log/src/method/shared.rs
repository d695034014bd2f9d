//! Caches probe results, so that all logs of this process on one disk share one probe.
//!
//! What a probe finds depends on the kernel, the file system with its mount, the devices below it, the rows that were tried
//! and the size of the writes. Logs that agree in all of these take the method that the first of them found; openings at the
//! same time wait for one probe instead of disturbing each other. What is remembered in a log's own directory goes first:
//! see `select.rs`.
//!
//! Invariant: only figures and counts are shared. Which rows a log may use is found out at every opening.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seawall_sys::durability::Durability;
use seawall_sys::inspect::{Environment, mount_instance};
use seawall_sys::method::Method;

use crate::error::Result;
use crate::method::evidence::Evidence;

/// The rows that a probe found, the one to use first, each with its evidence.
pub(crate) type Ranked = Vec<(&'static Method, Evidence)>;
/// The same, empty before the first probe.
type Found = Arc<Mutex<Ranked>>;

/// Disks that are remembered; a process that opens logs on more of them begins again.
const PLACES_MAX: usize = 256;

static PLACES: Mutex<BTreeMap<String, Found>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a probe depends on.
pub(crate) struct Place<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) environment: &'a Environment,
    pub(crate) rows: &'a [&'static Method],
    /// Of each write.
    pub(crate) bytes: usize,
    /// What they are to outlive.
    pub(crate) class: Durability,
}

impl Place<'_> {
    fn key(&self) -> String {
        let rows: Vec<&str> = self.rows.iter().map(|row| row.id).collect();
        let (under, mount) = (under(self.environment), mount_instance(self.dir));
        format!("{under} {mount:?} {rows:?} {} {:?}", self.bytes, self.class)
    }
}

/// The system, the file system with its mount, and the devices below it.
pub(crate) fn under(environment: &Environment) -> String {
    let Environment { system, file_system, devices, lies, .. } = environment;
    let (kind, source, options) = (&file_system.kind, &file_system.source, &file_system.options);
    let size = (file_system.total_bytes, file_system.block_bytes, file_system.copy_on_write);
    format!("{system} {kind} {source} {options:?} {size:?} {devices:?} {lies:?}")
}

/// What a probe of these rows has found in this process, and whether that was found now, by `probe`; `again` if it is to be
/// found again.
pub(crate) fn found(
    place: &Place<'_>,
    again: bool,
    probe: impl FnOnce() -> Result<Ranked>,
) -> Result<(Ranked, bool)> {
    let place = place.key();
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
