//! Tests that a log goes on when it is opened with segments of another size than before.

use std::sync::OnceLock;
use std::time::Duration;

use crate::fixture::{count, new_log, payloads, scratch, segments, until_prepared};
use seawall::{Log, MethodChoice, Options};

const SIZES: [u64; 4] = [64 << 10, 128 << 10, 256 << 10, 1 << 20];

/// The method that a probe finds, so that one probe does for all logs.
fn method() -> MethodChoice {
    static METHOD: OnceLock<&str> = OnceLock::new();
    let probed = || Log::open(scratch().path(), Options::default()).expect("opens").opened().method;
    MethodChoice::Named((*METHOD.get_or_init(probed)).to_owned())
}

fn options(segment_bytes: u64) -> Options {
    Options::default().segment_bytes(segment_bytes).batch_bytes(4096).memory_bytes(64 << 10).method(method())
}

fn goes_on(before: u64, after: u64, closed: bool, bytes: usize) {
    let (dir, log) = new_log(options(before));
    log.append_commit(b"first").expect("commits");
    until_prepared(&log);
    if closed {
        log.close().expect("closes");
    } else {
        drop(log);
    }
    let log = Log::open(dir.path(), options(after)).expect("opens");
    let lengths = [bytes, 10, bytes];
    for length in lengths {
        log.append_commit(&vec![7; length]).expect("commits");
    }
    let read: Vec<usize> = payloads(&log).iter().map(Vec::len).collect();
    assert_eq!(read, [&[5], &lengths[..]].concat());
    log.close().expect("closes");
}

/// Records that fit the spare which the first opening left, that need a little more, and that fit no ordinary segment.
#[test]
fn records_of_any_length_find_a_segment_whatever_the_opening_before_left() {
    let (done, ended) = std::sync::mpsc::channel();
    let work = std::thread::spawn(move || {
        for (before, after) in SIZES.into_iter().flat_map(|before| SIZES.map(|after| (before, after))) {
            let smaller = usize::try_from(before.min(after)).expect("small");
            for bytes in [smaller / 2, smaller, smaller + (32 << 10), 2 * smaller] {
                for closed in [true, false] {
                    done.send((before, after, closed, bytes)).expect("the receiver waits");
                    goes_on(before, after, closed, bytes);
                }
            }
        }
    });
    let mut last = None;
    loop {
        match ended.recv_timeout(Duration::from_mins(1)) {
            Ok(next) => last = Some(next),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("hangs: {last:?}"),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    work.join().expect("every pair goes on");
}

const SEGMENT: u64 = 4 << 20;

/// What a log takes on the disk after this many lives, each of which commits `bytes` and crashes, by the size of its files; and all
/// that it holds.
fn after_lives(lives: u64, bytes: usize, cap: Option<u64>) -> (u64, u64) {
    let dir = scratch();
    let mut records = 0;
    for _ in 0..lives {
        let options = options(SEGMENT);
        let options = if let Some(cap) = cap { options.disk_bytes_max(cap) } else { options };
        let log = Log::open(dir.path(), options).expect("opens");
        for _ in 0..bytes.div_ceil(4000) {
            log.append_commit(&vec![1; bytes.min(4000)]).expect("commits");
        }
        records = count(&log) as u64;
        drop(log);
    }
    let lengths = segments(dir.path()).into_iter().map(|path| path.metadata().expect("is there").len());
    (lengths.sum(), records)
}

#[test]
fn a_service_that_crashes_in_a_loop_takes_what_it_writes_and_no_segment_a_life() {
    const LIVES: u64 = 40;
    for (bytes, a_life) in [(6, 128 << 10), (100_000, 9 * (100_000 + 100_000) + (64 << 10))] {
        let (taken, records) = after_lives(LIVES, bytes, None);
        assert_eq!(records, LIVES * bytes.div_ceil(4000) as u64, "{bytes}");
        assert!(taken < 2 * SEGMENT + LIVES * a_life, "{bytes} a life: {taken}");
    }
    // Under a cap of ten segments.
    after_lives(LIVES, 6, Some(10 * SEGMENT));
    #[cfg(feature = "mutants")]
    {
        use seawall::mutant::{Mutant, set};
        let (mutant, lives) = (Mutant::CrashTakesSegment, 8);
        set(Some(mutant));
        let (taken, _) = after_lives(lives, 6, None);
        set(None);
        assert!(taken >= lives * SEGMENT, "{taken}");
    }
}
