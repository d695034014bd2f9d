//! Runs a JVM's block of the `path` scenario: files are made here, and the JVM opens, writes and times.
//!
//! Invariants: files are at rest before the JVM opens them and again after it has closed them; the JVM creates and
//! removes no file.

use super::super::Until;
use super::{Kind, RealStage};
use crate::scenario::path::jvm::{Order, Shape};
use crate::scenario::path::{FILE_BYTES, Trace};
use seawall_sys::scratch::for_children;
use seawall_sys::{Error, OpenError};
use std::io;
use std::path::PathBuf;

pub(super) fn run(stage: &mut RealStage, order: &Order<'_>, until: Until<'_>) -> Result<Trace, OpenError> {
    let file_bytes = FILE_BYTES.max(order.bytes as u64);
    let filled = Kind::Filled { bytes: file_bytes, fill_bytes: order.fill_bytes };
    let files: Vec<PathBuf> = match order.row.shape {
        Shape::Growing => vec![stage.fresh_file("jvm-append", Kind::Growing, until)?],
        // A direct write drops the pages of what it writes; no other way is to pay for that.
        Shape::Aligned => pair(stage, ["jvm-direct-0", "jvm-direct-1"], filled, until)?,
        Shape::Fixed => pair(stage, ["jvm-0", "jvm-1"], filled, until)?,
    };
    let before = stage.counts_of(0);
    let machine = stage.machines.get_mut(order.machine).ok_or_else(|| {
        let absent = io::Error::other("no such JVM was started");
        Error::new("start", "java", absent)
    })?;
    let seen: Vec<PathBuf> = files.iter().map(|file| for_children(file)).collect();
    let mut trace = machine.write(order, file_bytes, &seen, until)?;
    trace.counts = before.zip(stage.counts_of(0)).map(|(before, after)| after.since(&before));
    for file in &files {
        RealStage::rest(file)?;
    }
    Ok(trace)
}

/// Two files, so that the loop has one to roll to.
fn pair(
    stage: &mut RealStage,
    names: [&str; 2],
    kind: Kind,
    until: Until<'_>,
) -> Result<Vec<PathBuf>, OpenError> {
    names.into_iter().map(|name| stage.file(0, name, kind, until)).collect()
}
