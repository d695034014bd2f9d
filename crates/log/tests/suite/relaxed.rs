//! Tests relaxed commits: those that request less durability than the log's class.
//!
//! The tests use rows whose relaxed rows are the same on every machine: `dsync`, whose writes sync nothing but
//! themselves, and `buffered+fdatasync`, whose sync covers the whole file. The relaxed row of both is `buffered`.

use std::time::Duration;

use crate::fixture::{change, copy, count, new_faulty, new_log, scratch, until, until_prepared};
use seawall::Durability::{PowerLoss, ProcessCrash, SystemCrash};
use seawall::{Error, Log, Lsn, MethodChoice, Options, Tail, View, verify};

const OWN: [&str; 2] = ["dsync", "buffered+fdatasync"];

fn options(own: &str) -> Options {
    Options::default()
        .segment_bytes(128 << 10)
        .batch_bytes(16 << 10)
        .memory_bytes(128 << 10)
        // Those that are to outlive the process only are written as well.
        .crash_memory_bytes(0)
        // No debt syncs but those that the tests request.
        .idle_mark(Duration::from_mins(10))
        .method(MethodChoice::Named(own.to_owned()))
}

#[test]
fn a_relaxed_commit_is_not_durable_until_a_stricter_one_is() {
    for own in OWN {
        let (_dir, log) = new_log(options(own));
        let weak = log.append(b"weak").expect("appends");
        log.commit_as(weak.end, ProcessCrash).expect("commits");
        assert_eq!((log.durable_lsn(), log.lsn_surviving(ProcessCrash)), (Lsn::ZERO, weak.end));
        assert_eq!(log.lsn_surviving(PowerLoss), Lsn::ZERO);
        assert_eq!(count(&log), 0, "readers show what is durable");
        let stats = log.stats();
        assert_eq!((stats.batches, stats.relaxed_batches, stats.debt_syncs), (1, 1, 0), "{own}");
        // Nothing is left to be written: this is a sync without a batch.
        log.commit(weak.end).expect("commits");
        assert_eq!((log.durable_lsn(), count(&log)), (weak.end, 1));
        let stats = log.stats();
        assert_eq!((stats.batches, stats.relaxed_batches, stats.debt_syncs), (1, 1, 1), "{own}");
        // A later batch in full syncs the debt as well.
        let weak = log.append(b"weak").expect("appends").end;
        log.commit_as(weak, ProcessCrash).expect("commits");
        log.append_commit(b"strict").expect("commits");
        let stats = log.stats();
        assert_eq!((stats.batches, stats.relaxed_batches, stats.debt_syncs), (3, 2, 2), "{own}");
        assert_eq!(count(&log), 3);
        // Without a debt there is no debt sync.
        log.append_commit(b"strict").expect("commits");
        assert_eq!(log.stats().debt_syncs, 2);
    }
}

#[test]
fn what_the_process_wrote_is_there_when_it_is_gone_and_segments_rotate_on_firm_ground() {
    for own in OWN {
        let (dir, log) = new_log(options(own));
        for i in 0..100_u8 {
            let lsn = log.append(&[i; 5000]).expect("appends").end;
            log.commit_as(lsn, ProcessCrash).expect("commits");
        }
        let stats = log.stats();
        assert!(stats.segments_started >= 4, "{stats:?}");
        assert_eq!(stats.debt_syncs, stats.segments_started, "each start syncs the segment before it");
        assert_eq!(stats.relaxed_batches + stats.segments_started, stats.batches, "and is issued in full");
        drop(log);
        let log = Log::open(dir.path(), options(own)).expect("opens");
        assert_eq!(count(&log), 100, "{own}");
        assert_eq!(log.durable_lsn(), log.appended_lsn(), "an opening syncs what it shows");
    }
}

#[test]
fn closing_syncs_what_relaxed_commits_left_and_an_idle_log_does_too() {
    let (dir, log) = new_log(options("dsync").idle_mark(Duration::from_millis(1)));
    let weak = log.append(b"weak").expect("appends");
    log.commit_as(weak.end, ProcessCrash).expect("commits");
    until("an idle log syncs what it owes", || log.durable_lsn() >= weak.end);
    let weak = log.append(b"weak").expect("appends").end;
    log.commit_as(weak, ProcessCrash).expect("commits");
    log.close().expect("closes");
    let log = Log::open(dir.path(), options("dsync")).expect("opens");
    assert_eq!((log.opened().tail, count(&log)), (seawall::Tail::Clean, 2));
}

#[test]
fn a_failed_debt_sync_fails_the_log_and_every_commit() {
    let (_dir, faults, log) = new_faulty(options("dsync"));
    let weak = log.append(b"weak").expect("appends").end;
    log.commit_as(weak, ProcessCrash).expect("commits");
    faults.fail_debt_sync(0);
    let later = log.append(b"strict").expect("appends").end;
    std::thread::scope(|scope| {
        for i in 0..6 {
            let log = &log;
            scope.spawn(move || {
                let result = match i % 3 {
                    0 => log.commit(later),
                    1 => log.commit_async(later).wait().map(drop),
                    _ => log.commit(weak),
                };
                assert!(matches!(result, Err(Error::Failed { .. })), "{result:?}");
            });
        }
    });
    assert_eq!(log.durable_lsn(), Lsn::ZERO);
    assert!(matches!(log.commit_as(later, ProcessCrash), Err(Error::Failed { .. })));
    assert!(log.commit_as(weak, ProcessCrash).is_ok(), "that promise was kept: the kernel has the bytes");
    assert!(matches!(log.append(b"more"), Err(Error::Failed { .. })));
}

#[test]
fn more_than_the_log_promises_is_refused_and_where_nothing_is_cheaper_its_own_row_is_used() {
    let (_dir, log) = new_log(options("buffered").durability(ProcessCrash));
    let lsn = log.append(b"record").expect("appends").end;
    for class in [SystemCrash, PowerLoss] {
        let refused = log.commit_as(lsn, class);
        assert!(matches!(refused, Err(Error::BeyondPromise { promised: ProcessCrash, .. })), "{refused:?}");
        assert!(matches!(log.commit_async_as(lsn, class), Err(Error::BeyondPromise { .. })));
    }
    log.commit_as(lsn, ProcessCrash).expect("commits");
    assert_eq!((log.stats().relaxed_batches, log.durable_lsn()), (0, lsn));
    assert!(matches!(log.commit_as(Lsn::MAX, ProcessCrash), Err(Error::BeyondEnd { .. })));
    drop(log);
    let (_dir, log) = new_log(options("buffered+fdatasync"));
    let lsn = log.append(b"record").expect("appends").end;
    log.commit_as(lsn, SystemCrash).expect("commits");
    assert_eq!(
        (log.stats().relaxed_batches, log.durable_lsn()),
        (0, lsn),
        "no drivable row lies between the two"
    );
    assert!(matches!(log.commit_as(Lsn::MAX, ProcessCrash), Err(Error::BeyondEnd { .. })));
}

/// The files of a log as they are now, as a crash would leave them: without its lock.
fn copied(log: &Log) -> tempfile::TempDir {
    let to = scratch();
    // Housekeeping renames files.
    until_prepared(log);
    copy(log.dir(), to.path());
    std::fs::remove_file(to.path().join("LOCK")).expect("was copied");
    to
}

fn lose_page(dir: &std::path::Path, page: usize) {
    let path = dir.join(seawall::format::segment_name(1));
    change(&path, |bytes| bytes[page * 4096..][..4096].fill(0));
}

/// Records of a bit less than a block, one batch each, so that record `i` lies in page `i + 1`.
const RECORD: usize = 1000;

#[test]
fn a_log_of_a_lower_class_keeps_the_prefix_that_is_left_and_says_what_is_gone() {
    for (class, method) in [(ProcessCrash, "buffered"), (ProcessCrash, "direct"), (SystemCrash, "direct")] {
        let dir = scratch();
        let lower = || options(method).durability(class);
        let log = match Log::open(dir.path(), lower()) {
            // Where files may come to share blocks this row outlives the process only.
            Err(Error::InvalidOption { option: "method", .. }) if class > ProcessCrash => continue,
            opened => opened.expect("opens"),
        };
        for i in 0..20_u8 {
            log.append_commit(&[i; RECORD]).expect("commits");
        }
        let record = (RECORD + 4) as u64;
        let crashed = copied(&log);
        // What lies after the page had arrived, and says that all but the last record had been acknowledged.
        lose_page(crashed.path(), 10);
        let lost = Tail::Lost { from: Lsn::new(9 * record), to: Lsn::new(19 * record) };
        let view = View::open(crashed.path()).expect("looks");
        assert_eq!(
            (view.tail(), view.end_lsn(), view.durability()),
            (Some(lost), Lsn::new(9 * record), class)
        );
        assert_eq!(view.read(Lsn::ZERO).expect("reads").take_while(Result::is_ok).count(), 9);
        let report = verify(crashed.path()).expect("verifies");
        assert_eq!((report.tail, report.class, report.records), (lost, Some(class), 9), "{method}");
        assert_eq!((report.damage.len(), report.end), (0, Lsn::new(9 * record)));
        let again = Log::open(crashed.path(), lower()).expect("opens");
        assert_eq!((again.opened().tail, count(&again)), (lost, 9));
        again.append_commit(b"and on").expect("commits");
        again.close().expect("closes");
        // Reported once: the log has recovered since.
        let again = Log::open(crashed.path(), lower()).expect("opens");
        assert_eq!((again.opened().tail, count(&again)), (Tail::Clean, 10));
        drop(log);
    }
}

#[test]
fn what_a_log_of_a_lower_class_synced_is_damaged_and_not_lost_when_it_is_gone() {
    let dir = scratch();
    let lower = || options("buffered").durability(ProcessCrash);
    let log = Log::open(dir.path(), lower()).expect("opens");
    for i in 0..60_u8 {
        log.append_commit(&[i; RECORD]).expect("commits");
    }
    let stats = log.stats();
    assert!(stats.segments_started >= 1, "{stats:?}");
    assert_eq!((stats.debt_syncs, stats.relaxed_batches), (stats.segments_started, 0), "one sync a segment");
    let full = copied(&log);
    lose_page(full.path(), 10);
    let report = verify(full.path()).expect("verifies");
    assert_eq!(report.damage.len(), 1, "{report:?}");
    log.close().expect("closes");
    // A closed log has nothing left that may be gone.
    let closed = scratch();
    let log = Log::open(closed.path(), lower()).expect("opens");
    for i in 0..20_u8 {
        log.append_commit(&[i; RECORD]).expect("commits");
    }
    log.close().expect("closes");
    lose_page(closed.path(), 10);
    let error = Log::open(closed.path(), lower()).map(drop).expect_err("is damaged");
    assert!(matches!(error, Error::Corrupt(_)), "{error}");
}

#[test]
fn a_log_of_a_lower_class_shows_what_is_acknowledged_and_lets_go_of_what_was_trimmed() {
    let dir = scratch();
    let lower = options("buffered").durability(ProcessCrash).idle_mark(Duration::from_millis(1));
    let log = Log::open(dir.path(), lower).expect("opens");
    let mut end = Lsn::ZERO;
    for i in 0..100_u8 {
        end = log.append_commit(&[i; 5000]).expect("commits").end;
    }
    assert_eq!((log.durable_lsn(), log.stats().durable, count(&log)), (end, end, 100));
    assert!(log.commit_as(end, SystemCrash).is_err(), "more than it promises");
    let before = log.stats().segments;
    log.trim(end).expect("trims");
    until("an idle log says what is acknowledged and what was trimmed", || {
        log.stats().segments < before && View::open(dir.path()).expect("looks").end_lsn() >= end
    });
}

#[test]
fn a_log_that_is_opened_with_another_class_says_so_in_a_new_segment() {
    let dir = scratch();
    let classes = [ProcessCrash, SystemCrash, SystemCrash, PowerLoss, ProcessCrash];
    for (i, class) in classes.into_iter().enumerate() {
        let mut settings = options("direct").durability(class);
        if class == PowerLoss {
            settings = settings.method(MethodChoice::Named("direct+fdatasync".to_owned()));
        }
        let Ok(log) = Log::open(dir.path(), settings) else {
            // A file system on which no row reaches the class.
            assert!(class > ProcessCrash);
            return;
        };
        log.append_commit(b"record").expect("commits");
        assert_eq!(count(&log), i + 1);
        log.close().expect("closes");
        assert_eq!(View::open(dir.path()).expect("looks").durability(), class);
    }
    assert_eq!(verify(dir.path()).expect("verifies").segments, 4, "one for each change");
}
