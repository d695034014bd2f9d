//! Runs a JVM's block of the `path` scenario: files are made here, and the JVM opens, writes and times.
//!
//! Invariants: files are at rest before the JVM opens them and again after it has closed them; the JVM creates and
//! removes no file.

use super::super::{FILE_BYTES, Trace};
use super::{BlockRequest, Shape, StartedJvms};
use crate::testbed::real::{Content, RealTestbed};
use crate::testbed::{BlockError, Until};
use seawall_sys::Error;
use seawall_sys::scratch::for_children;
use std::io;
use std::path::PathBuf;

pub(super) fn run(
    testbed: &mut RealTestbed,
    request: &BlockRequest,
    until: Until<'_>,
) -> Result<Trace, BlockError> {
    let file_bytes = FILE_BYTES.max(request.bytes as u64);
    let filled = Content::Filled { bytes: file_bytes, fill_bytes: request.fill_bytes };
    let files: Vec<PathBuf> = match request.way.shape {
        Shape::Growing => vec![testbed.fresh_file("jvm-append", Content::Growing, until)?],
        // A direct write drops the pages of what it writes; no other way is to pay for that.
        Shape::Aligned => pair(testbed, ["jvm-direct-0", "jvm-direct-1"], filled, until)?,
        Shape::Fixed => pair(testbed, ["jvm-0", "jvm-1"], filled, until)?,
    };
    let before = testbed.counts_of(0);
    let machine = testbed
        .attached::<StartedJvms>()
        .and_then(|machines| machines.0.get_mut(request.machine)?.as_mut())
        .ok_or_else(|| {
            let absent = io::Error::other("no such JVM was started");
            Error::new("start", "java", absent)
        })?;
    let seen: Vec<PathBuf> = files.iter().map(|file| for_children(file)).collect();
    let mut trace = machine.write(request, file_bytes, &seen, until)?;
    trace.counts = before.zip(testbed.counts_of(0)).map(|(before, after)| after.since(&before));
    for file in &files {
        RealTestbed::rest(file)?;
    }
    Ok(trace)
}

/// Two files, so that the loop has one to roll to.
fn pair(
    testbed: &mut RealTestbed,
    names: [&str; 2],
    content: Content,
    until: Until<'_>,
) -> Result<Vec<PathBuf>, BlockError> {
    names.into_iter().map(|name| testbed.file(0, name, content, until)).collect()
}
