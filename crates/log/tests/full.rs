//! Tests that a log at its cap goes on after every kind of trim, and that everything which waits there is woken.

mod scratch;

use std::time::Duration;

use scratch::scratch;
use seawall::{Error, Log, Lsn, OnFull, Options};
use seawall_sys::clock::monotonic_ns;

const LIMIT_NS: u64 = 30_000_000_000;
const SEGMENT: u64 = 64 << 10;
/// The least cap: records fill three segments.
const CAP: u64 = 6 * SEGMENT;
/// With its header it fills a block.
const RECORD: [u8; 3000] = [7; 3000];

/// A log at whose cap nothing happens because time passes.
fn options(full: OnFull) -> Options {
    Options::default()
        .segment_bytes(SEGMENT)
        .batch_bytes(64 << 10)
        .memory_bytes(256 << 10)
        .idle_mark(Duration::from_mins(10))
        .disk_bytes_max(CAP)
        .on_full(full)
}

fn open(dir: &tempfile::TempDir, full: OnFull) -> Log {
    Log::open(dir.path(), options(full)).expect("opens")
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began_ns = monotonic_ns();
    while !holds() {
        assert!(monotonic_ns() - began_ns < LIMIT_NS, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Appends with `append` until the log is full to the last block.
fn fill(mut append: impl FnMut() -> seawall::Result<()>) {
    loop {
        match append() {
            Ok(()) => {}
            Err(Error::DiskCap { .. }) => return,
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_cut_that_is_stated_again_leaves_a_trim_its_segment() {
    let dir = scratch();
    let log = open(&dir, OnFull::Error);
    let (mut begins, mut second) = (Lsn::ZERO, None);
    for _ in 0..6 {
        fill(|| {
            begins = log.append_commit(&RECORD)?;
            let cut = log.truncate_after(Lsn::new(begins.get() - RECORD.len() as u64))?;
            log.commit(cut)?;
            if log.stats().segments_started > 0 {
                second = second.or(Some(cut));
            }
            Ok(())
        });
        // The oldest segment can go; the newest cuts must be stated in the segment that makes the trim durable.
        let at = second.take().expect("more than a segment was filled");
        log.trim(at.max(log.first_lsn())).expect("trims");
        let started = log.stats().segments_started;
        until("room behind a trim in front of the cuts", || log.try_append(&RECORD).is_ok());
        assert!(log.stats().disk_bytes <= CAP);
        second = (log.stats().segments_started > started).then(|| log.durable_lsn());
    }
}
