//! Test fixture: a log of several segments whose every byte is known, for the tests of damage.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall::Options;
use seawall::format::segment_name;

use crate::fixture::{new_log, tiny};

pub(crate) const RECORDS: u8 = 30;
pub(crate) const RECORD_BYTES: usize = 5000;
pub(crate) const BLOCK: usize = 4096;
pub(crate) const SEGMENT: usize = 64 << 10;
/// Each record fills two of a segment's 16 blocks; its header takes two, and the last batch leaves room for a mark.
pub(crate) const PER_SEGMENT: usize = 6;

pub(crate) fn options() -> Options {
    // No idle marks: they would move the batches that these tests aim at.
    tiny().batch_bytes(16 << 10).idle_mark(Duration::from_mins(10))
}

pub(crate) fn record(i: u8) -> Vec<u8> {
    vec![i; RECORD_BYTES]
}

/// A log over several segments, every record acknowledged in a batch of its own, closed; each fills two blocks. And its
/// segments.
pub(crate) fn written() -> (tempfile::TempDir, Vec<PathBuf>) {
    let (dir, log) = new_log(options());
    for i in 0..RECORDS {
        log.append_commit(&record(i)).expect("commits");
    }
    let started = usize::try_from(log.stats().segments).expect("few");
    log.close().expect("closes");
    let names = (1..=started as u64).map(|number| dir.path().join(segment_name(number))).collect();
    (dir, names)
}

/// Changes a file for the time of one test and brings it back.
pub(crate) fn with_bytes(path: &Path, change: impl FnOnce(&mut Vec<u8>), test: impl FnOnce()) {
    let good = std::fs::read(path).expect("reads");
    let mut bad = good.clone();
    change(&mut bad);
    std::fs::write(path, bad).expect("writes");
    test();
    std::fs::write(path, good).expect("writes");
}
