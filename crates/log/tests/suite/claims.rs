//! Tests that what a header claims costs no memory: logs of a few KiB on disk, read in a process of bounded memory.
//!
//! Segments are sparse and their batch headers sound, but for what they claim to be followed by. Each way of reading
//! ends with an answer or an error and never with the end of the process.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::fixture::{child, orders, scratch, tiny};
use seawall::format::{BatchHeader, BatchKind, LogId, SegmentHeader, segment_name};
use seawall::{Durability, Error, Log, Lsn, View, salvage, verify};

const BLOCK: u16 = 4096;
/// More than the process that reads may have.
const SEGMENT: u64 = 340 << 20;
const MEMORY_KIB: u64 = 256 << 10;
/// As long as the segment allows, as the longest batch, and longer than any.
const CLAIMS: [u32; 3] = [320 << 20, (1 << 30) - 1, 1250 << 20];

fn segment(number: u64, segment_bytes: u64, first_lsn: Lsn, link: u32) -> SegmentHeader {
    SegmentHeader {
        block_bytes: BLOCK,
        log_id: LogId([7; 16]),
        epoch: 1,
        number,
        segment_bytes,
        first_lsn,
        trim_lsn: Lsn::ZERO,
        previous: number - 1,
        link,
        class: Durability::PowerLoss,
        streams_from: 0,
        cuts_from: 0,
    }
}

fn create(dir: &Path, header: &SegmentHeader) -> File {
    let file = File::create(dir.join(segment_name(header.number))).expect("creates");
    file.set_len(header.segment_bytes).expect("is sparse");
    for (copy, at) in [(0, 0), (1, header.data_end())] {
        let mut bytes = [0; 128];
        header.encode(copy, &mut bytes);
        file.write_all_at(&bytes, at).expect("writes");
    }
    file
}

/// A log whose first batch claims `claim` bytes, in its last segment or in the one before.
fn forge(dir: &Path, claim: u32, followed: bool) {
    std::fs::create_dir(dir).expect("makes");
    let first = segment(1, SEGMENT, Lsn::ZERO, 0);
    let file = create(dir, &first);
    let batch = BatchHeader {
        kind: BatchKind::Records,
        log_id: first.log_id,
        epoch: 1,
        segment: 1,
        offset: BLOCK.into(),
        lsn: Lsn::ZERO,
        durable: Lsn::ZERO,
        acknowledged: Lsn::ZERO,
        trim_lsn: Lsn::ZERO,
        body_bytes: claim,
        records: 1,
        link: 0,
        body_checksum: 1,
        tagged: false,
        cuts: false,
        time_us: 0,
    };
    let mut bytes = [0; 128];
    let link = batch.encode(&mut bytes);
    file.write_all_at(&bytes, BLOCK.into()).expect("writes");
    if followed {
        create(dir, &segment(2, 64 << 10, batch.end(), link));
    }
}

fn answers<T>(answer: Result<T, Error>) {
    match answer {
        Ok(_) | Err(Error::Corrupt(_)) => {}
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::OutOfMemory => {}
        Err(other) => panic!("{other}"),
    }
}

/// Every way of reading one log; only in the process that `reading_takes_no_memory_for_claims` starts.
#[test]
fn reads_everything() {
    let Some(dir) = orders() else { return };
    let read = |view: View| view.read(view.first_lsn())?.collect::<Result<Vec<_>, _>>();
    answers(View::open(&dir).and_then(read));
    let report = verify(&dir).expect("verifies");
    assert_eq!(report.records, 0);
    let to = scratch();
    answers(salvage(&dir, to.path().join("copy"), tiny()));
    let log = Log::open(&dir, tiny());
    answers(log.and_then(|log| log.read(log.first_lsn())?.collect::<Result<Vec<_>, _>>()));
}

#[test]
fn reading_takes_no_memory_for_claims() {
    for (claim, followed) in CLAIMS.into_iter().flat_map(|claim| [(claim, false), (claim, true)]) {
        let dir = scratch();
        let log = dir.path().join("log");
        forge(&log, claim, followed);
        let limited = format!("ulimit -v {MEMORY_KIB}; exec");
        let mut child = child(&limited, "claims::reads_everything", log.to_str().expect("is text"));
        // Arenas of several threads would take most of it.
        let done = child.env("MALLOC_ARENA_MAX", "1").output().expect("runs");
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "claim {claim}, followed {followed}: {} {text}", done.status);
        assert!(String::from_utf8_lossy(&done.stdout).contains("1 passed"), "the test has another name");
    }
}
