//! Tests that a log trims itself by its rules, keeps what pins hold, and never takes more of the disk than its cap.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixture::{new_log, scratch, tiny, until};
use seawall::{Error, Log, Lsn, OnFull, Options, Retention};

const SEGMENT: u64 = 64 << 10;
const CAP: u64 = 8 * SEGMENT;

fn options() -> Options {
    tiny().batch_bytes(16 << 10).idle_mark(Duration::from_millis(1))
}

/// What the files take that are or become segments. A file that is just being renamed is seen under one name, or missed.
fn taken(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("lists").flatten();
    let counted =
        |name: &str| Path::new(name).extension().is_some_and(|ending| ending == "seg" || ending == "new");
    let counted = entries.filter(|entry| counted(&entry.file_name().to_string_lossy()));
    counted.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Commits records until the log has started this many segments.
fn start(log: &Log, segments: u64) {
    let before = log.stats().segments_started;
    while log.stats().segments_started < before + segments {
        log.append_commit(&[7; 9000]).expect("commits");
    }
}

#[test]
fn a_log_keeps_so_many_bytes_and_what_a_pin_holds() {
    let dir = scratch();
    let log =
        Log::open(dir.path(), options().retention(Retention::default().bytes(3 * SEGMENT))).expect("opens");
    start(&log, 8);
    until("trimmed", || log.stats().segments <= 3);
    assert!(log.first_lsn() > Lsn::ZERO);
    let first = log.first_lsn();
    let mut pin = log.pin(first).expect("is there");
    start(&log, 6);
    let held = log.read(first).expect("is held").next().expect("a record").expect("is sound");
    assert_eq!((log.first_lsn(), held.lsn), (first, first));
    assert!(log.stats().segments >= 6);
    // A reader that goes on lets more go, without anything else happening.
    pin.advance(log.durable_lsn());
    until("trimmed once the pin has gone on", || log.stats().segments <= 3);
    let second = log.first_lsn();
    assert!(second > first);
    drop(pin);
    log.close().expect("closes");
    // The rules of an opening count from the opening on.
    let log = Log::open(dir.path(), options().retention(Retention::default().bytes(1))).expect("opens");
    until("trimmed at opening", || log.stats().segments <= 1);
    assert!(log.first_lsn() > second);
}

#[test]
fn segments_go_when_their_newest_record_is_too_old() {
    let (dir, log) = new_log(options());
    start(&log, 6);
    log.close().expect("closes");
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365);
    let segment = |number| dir.path().join(format!("{number:020}.seg"));
    let made: Vec<_> = (1..=3).map(segment).collect();
    for path in &made {
        let file = std::fs::File::options().write(true).open(path).expect("is a segment");
        file.set_modified(old).expect("is set");
    }
    let week = Retention::default().age(Duration::from_hours(24 * 7));
    let log = Log::open(dir.path(), options().retention(week)).expect("opens");
    until("trimmed", || made.iter().all(|path| !path.exists()));
    assert!(segment(4).exists(), "that is younger");
    let first = log.read(log.first_lsn()).expect("reads").next().expect("a record").expect("is sound");
    assert_eq!(first.lsn, log.first_lsn());
}

#[test]
fn a_full_log_holds_appends_back_until_a_trim_and_never_exceeds_its_cap() {
    let (dir, log) = new_log(options().disk_bytes_max(CAP));
    let over = AtomicBool::new(false);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                if taken(dir.path()) > CAP || log.stats().disk_bytes > CAP {
                    over.store(true, Ordering::SeqCst);
                }
            }
        });
        let writer = scope.spawn(|| start(&log, 40));
        let mut trims = 0;
        while !writer.is_finished() {
            let full = || {
                let before = log.appended_lsn();
                std::thread::sleep(Duration::from_millis(20));
                log.appended_lsn() == before
            };
            until("full or done", || writer.is_finished() || full());
            // It is as full as records may make it.
            assert!(log.stats().disk_bytes <= CAP - SEGMENT);
            log.trim(log.durable_lsn()).expect("trims");
            trims += 1;
        }
        assert!(trims > 5, "{trims}");
        writer.join().expect("appended everything");
        ended.store(true, Ordering::SeqCst);
    });
    assert!(!over.load(Ordering::SeqCst));
}

/// Appends until the log is full; returns what the append got then.
fn fill(log: &Log) -> Error {
    loop {
        match log.append_commit(&[7; 9000]) {
            Ok(_) => {}
            Err(full) => return full,
        }
    }
}

#[test]
fn a_full_log_returns_a_typed_error_where_that_was_chosen_and_goes_on_after_a_trim() {
    let dir = scratch();
    let capped = || options().disk_bytes_max(CAP).on_full(OnFull::Error);
    let log = Log::open(dir.path(), capped()).expect("opens");
    for _ in 0..3 {
        let full = fill(&log);
        let Error::DiskCap { path, bytes_max, disk_bytes, needed } = &full else { panic!("{full}") };
        assert_eq!((path.as_path(), *bytes_max, *disk_bytes), (log.dir(), CAP, log.stats().disk_bytes));
        assert!(*needed <= SEGMENT && full.to_string().contains("trim"), "{full}");
        assert!(taken(dir.path()) <= CAP);
        until("refused without waiting", || {
            matches!(log.append_no_wait(&[7; 9000]), Err(Error::DiskCap { .. }))
        });
        // What is there is not dropped for what comes.
        assert!(log.read(log.first_lsn()).expect("reads").all(|record| record.is_ok()));
        let trimmed = log.durable_lsn();
        log.trim(trimmed).expect("trims");
        until("room", || log.append_commit(&[7; 9000]).is_ok());
        assert_eq!(log.first_lsn(), trimmed);
    }
    fill(&log);
    drop(log);
    // Cut off and full: it opens, reads and trims under the same cap, and under one that leaves it nothing. How many of the two
    // segments that are left to trims are prepared already is a matter of time.
    let takes = taken(dir.path());
    assert!((CAP - 2 * SEGMENT..CAP).contains(&takes), "{takes}");
    let smaller = Log::open(dir.path(), capped().disk_bytes_max(takes)).expect("opens");
    assert!(smaller.read(smaller.first_lsn()).expect("reads").all(|record| record.is_ok()));
    drop(smaller);
    let log = Log::open(dir.path(), capped()).expect("opens");
    assert!(taken(dir.path()) <= CAP);
    assert!(log.read(log.first_lsn()).expect("reads").all(|record| record.is_ok()));
    fill(&log);
    log.trim(log.durable_lsn()).expect("trims");
    until("room", || log.append_commit(&[7; 9000]).is_ok());
}

#[test]
fn a_log_that_trims_itself_does_not_come_to_its_cap() {
    let dir = scratch();
    let rules = Retention::default().bytes(2 * SEGMENT);
    let log = Log::open(dir.path(), options().retention(rules).disk_bytes_max(CAP)).expect("opens");
    start(&log, 60);
    assert!(log.stats().disk_bytes <= CAP && log.stats().segments_started >= 60);
}

#[test]
fn a_record_that_never_fits_is_refused_by_a_log_that_waits_too() {
    let dir = scratch();
    let cap = 12 * SEGMENT;
    let log = Log::open(dir.path(), options().disk_bytes_max(cap)).expect("opens");
    let refused = log.append(&vec![1; usize::try_from(cap / 2).expect("small")]).expect_err("never fits");
    assert!(matches!(refused, Error::DiskCap { needed, .. } if needed > cap / 2), "{refused}");
    let large = log.append_commit(&vec![1; usize::try_from(2 * SEGMENT).expect("small")]).expect("fits").end;
    assert!(log.stats().disk_bytes <= cap);
    log.trim(large).expect("trims");
    start(&log, 3);
}
