//! Tests relaxed commits: those that request less durability than the log's class.
//!
//! The tests use rows whose relaxed rows are the same on every machine: `dsync`, whose writes sync nothing but
//! themselves, and `buffered+fdatasync`, whose sync covers the whole file. The relaxed row of both is `buffered`.
#![cfg(all(feature = "simulation", target_os = "linux"))]

use std::sync::Arc;
use std::time::Duration;

use seawall::Durability::{PowerLoss, ProcessCrash, SystemCrash};
use seawall::faults::Faults;
use seawall::{Error, Log, Lsn, MethodChoice, Options};

const OWN: [&str; 2] = ["dsync", "buffered+fdatasync"];

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on the file system of the build")
}

fn options(own: &str) -> Options {
    Options::default()
        .segment_bytes(128 << 10)
        .batch_bytes(16 << 10)
        .memory_bytes(128 << 10)
        // No settlement but those that the tests ask for.
        .idle_mark(Duration::from_mins(10))
        .method(MethodChoice::Named(own.to_owned()))
}

fn count(log: &Log) -> usize {
    let records = log.read(log.first_lsn()).expect("reads");
    records.inspect(|record| assert!(record.is_ok(), "{record:?}")).count()
}

#[test]
fn a_weaker_commit_is_not_durable_until_a_stricter_one_is() {
    for own in OWN {
        let dir = scratch();
        let log = Log::open(dir.path(), options(own)).expect("opens");
        let weak = log.append(b"weak").expect("appends");
        log.commit_as(weak, ProcessCrash).expect("commits");
        assert_eq!((log.durable_lsn(), log.safe_lsn(ProcessCrash)), (Lsn::ZERO, weak));
        assert_eq!(log.safe_lsn(PowerLoss), Lsn::ZERO);
        assert_eq!(count(&log), 0, "readers show what is durable");
        let stats = log.stats();
        assert_eq!((stats.batches, stats.weak_batches, stats.settlements), (1, 1, 0), "{own}");
        // Nothing is left to be written: this is a settlement and no batch.
        log.commit(weak).expect("commits");
        assert_eq!((log.durable_lsn(), count(&log)), (weak, 1));
        let stats = log.stats();
        assert_eq!((stats.batches, stats.weak_batches, stats.settlements), (1, 1, 1), "{own}");
        // A later batch in full settles as it goes.
        let weak = log.append(b"weak").expect("appends");
        log.commit_as(weak, ProcessCrash).expect("commits");
        log.append_commit(b"strict").expect("commits");
        let stats = log.stats();
        assert_eq!((stats.batches, stats.weak_batches, stats.settlements), (3, 2, 2), "{own}");
        assert_eq!(count(&log), 3);
        // And where there is no debt nothing is settled.
        log.append_commit(b"strict").expect("commits");
        assert_eq!(log.stats().settlements, 2);
    }
}

#[test]
fn what_the_process_wrote_is_there_when_it_is_gone_and_segments_rotate_on_firm_ground() {
    for own in OWN {
        let dir = scratch();
        let log = Log::open(dir.path(), options(own)).expect("opens");
        for i in 0..100_u8 {
            let lsn = log.append(&[i; 5000]).expect("appends");
            log.commit_as(lsn, ProcessCrash).expect("commits");
        }
        let stats = log.stats();
        assert!(stats.segments_started >= 4, "{stats:?}");
        assert_eq!(stats.settlements, stats.segments_started, "each start settles the segment before it");
        assert_eq!(stats.weak_batches + stats.segments_started, stats.batches, "and is firm itself");
        drop(log);
        let log = Log::open(dir.path(), options(own)).expect("opens");
        assert_eq!(count(&log), 100, "{own}");
        assert_eq!(log.durable_lsn(), log.appended_lsn(), "an opening syncs what it shows");
    }
}

#[test]
fn closing_settles_and_an_idle_log_settles_itself() {
    let dir = scratch();
    let log = Log::open(dir.path(), options("dsync").idle_mark(Duration::from_millis(1))).expect("opens");
    let weak = log.append(b"weak").expect("appends");
    log.commit_as(weak, ProcessCrash).expect("commits");
    let mut waited = 0;
    while log.durable_lsn() < weak {
        std::thread::sleep(Duration::from_millis(2));
        waited += 1;
        assert!(waited < 30_000, "an idle log settles what it owes");
    }
    let weak = log.append(b"weak").expect("appends");
    log.commit_as(weak, ProcessCrash).expect("commits");
    log.close().expect("closes");
    let log = Log::open(dir.path(), options("dsync")).expect("opens");
    assert_eq!((log.opened().tail, count(&log)), (seawall::Tail::Clean, 2));
}

#[test]
fn a_settlement_that_fails_ends_the_log_and_everyone_is_told() {
    let dir = scratch();
    let faults = Arc::new(Faults::default());
    let log = Log::open(dir.path(), options("dsync").faults(Arc::clone(&faults))).expect("opens");
    let weak = log.append(b"weak").expect("appends");
    log.commit_as(weak, ProcessCrash).expect("commits");
    faults.fail_settlement(0);
    let later = log.append(b"strict").expect("appends");
    std::thread::scope(|scope| {
        for i in 0..6 {
            let log = &log;
            scope.spawn(move || {
                let told = match i % 3 {
                    0 => log.commit(later),
                    1 => log.commit_async(later).wait().map(drop),
                    _ => log.commit(weak),
                };
                assert!(matches!(told, Err(Error::Failed { .. })), "{told:?}");
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
    let dir = scratch();
    let log = Log::open(dir.path(), options("buffered").durability(ProcessCrash)).expect("opens");
    let lsn = log.append(b"record").expect("appends");
    for class in [SystemCrash, PowerLoss] {
        let refused = log.commit_as(lsn, class);
        assert!(matches!(refused, Err(Error::BeyondPromise { promised: ProcessCrash, .. })), "{refused:?}");
        assert!(matches!(log.commit_async_as(lsn, class), Err(Error::BeyondPromise { .. })));
    }
    log.commit_as(lsn, ProcessCrash).expect("commits");
    assert_eq!((log.stats().weak_batches, log.durable_lsn()), (0, lsn));
    assert!(matches!(log.commit_as(Lsn::MAX, ProcessCrash), Err(Error::BeyondEnd { .. })));
    drop(log);
    let dir = scratch();
    let log = Log::open(dir.path(), options("buffered+fdatasync")).expect("opens");
    let lsn = log.append(b"record").expect("appends");
    log.commit_as(lsn, SystemCrash).expect("commits");
    assert_eq!(
        (log.stats().weak_batches, log.durable_lsn()),
        (0, lsn),
        "no drivable row lies between the two"
    );
    assert!(matches!(log.commit_as(Lsn::MAX, ProcessCrash), Err(Error::BeyondEnd { .. })));
}

#[test]
fn futures_of_every_grade_are_woken_and_a_group_honours_its_strictest_member() {
    for own in OWN {
        let dir = scratch();
        let log = Log::open(dir.path(), options(own)).expect("opens");
        std::thread::scope(|scope| {
            for thread in 0..6_u8 {
                let log = &log;
                scope.spawn(move || {
                    for i in 0..150_u8 {
                        let lsn = log.append(&[thread, i]).expect("appends");
                        match (i.wrapping_add(thread)) % 5 {
                            0 => log.commit(lsn).expect("commits"),
                            1 => drop(log.commit_async(lsn).wait().expect("commits")),
                            2 => drop(futures::wait(log.commit_async(lsn)).expect("commits")),
                            3 => {
                                let weak = log.commit_async_as(lsn, ProcessCrash).expect("a known class");
                                futures::wait(weak).expect("commits");
                            }
                            _ => log.commit_as(lsn, ProcessCrash).expect("commits"),
                        }
                        let strict = (i.wrapping_add(thread)) % 5 < 3;
                        assert!(!strict || log.durable_lsn() >= lsn);
                        assert!(log.safe_lsn(ProcessCrash) >= lsn);
                    }
                });
            }
        });
        drop(log);
        let log = Log::open(dir.path(), options(own)).expect("opens");
        assert_eq!(count(&log), 900, "{own}");
    }
}

/// Waits for a future without a runtime.
mod futures {
    use std::future::Future;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread::Thread;

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    pub(crate) fn wait<F: Future + Unpin>(mut future: F) -> F::Output {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            match std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}
