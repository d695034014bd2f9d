//! Runs a JVM's block of the `path` scenario: files are made here, and the JVM opens, writes and times.
//!
//! Invariants: files are at rest before the JVM opens them and again after it has closed them; the JVM creates and
//! removes no file.

use super::super::{BlockRequest, FILE_BYTES, Trace};
use super::java::Jvm;
use super::{Shape, Way};
use crate::testbed::real::{Content, RealTestbed};
use crate::testbed::{BlockError, Until};
use seawall_sys::scratch::for_children;
use seawall_sys::{OpenError, Unavailable};
use std::path::PathBuf;

pub(super) fn run(
    testbed: &mut RealTestbed,
    jvm: &mut Jvm,
    request: &BlockRequest<'_, &Way>,
    until: Until<'_>,
) -> Result<Trace, BlockError> {
    let java = jvm.java.as_mut().map_err(|why| OpenError::Unavailable(Unavailable(why.to_string())))?;
    let file_bytes = FILE_BYTES.max(request.settings.bytes as u64);
    let filled = Content::Filled { bytes: file_bytes, fill_bytes: request.settings.journal.fill_bytes };
    let files: Vec<PathBuf> = match request.way.shape {
        Shape::Growing => vec![testbed.fresh_file("jvm-append", Content::Growing, until)?],
        // A direct write drops the pages of what it writes; no other way is to pay for that.
        Shape::Aligned => pair(testbed, ["jvm-direct-0", "jvm-direct-1"], filled, until)?,
        Shape::Fixed => pair(testbed, ["jvm-0", "jvm-1"], filled, until)?,
    };
    let before = testbed.counts_of(0);
    let seen: Vec<PathBuf> = files.iter().map(|file| for_children(file)).collect();
    let mut trace = java.write(request, file_bytes, &seen, until)?;
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
