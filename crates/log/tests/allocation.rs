//! Tests that appending and committing allocate nothing on the heap.
//!
//! The hot path works in the buffers that the log allocated when it was opened. Allocations of the calling thread are
//! counted, so that the count is exact on any machine; a transaction that outgrows its buffer shows that the counter
//! counts.

use seawall::{Durability, Log, Options, ProcessCrashCommits};

fn log() -> (tempfile::TempDir, Log) {
    let dir = tempfile::tempdir().expect("a directory");
    let log = Log::open(dir.path(), Options::default().memory_bytes(64 << 20)).expect("opens");
    while !log.is_prepared() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    (dir, log)
}

#[test]
fn appends_allocate_nothing() {
    let (_dir, log) = log();
    let record = [0x5A; 256];
    log.append_commit(&record).expect("commits");
    let counted = allocation_counter::measure(|| {
        for _ in 0..100_000 {
            log.append(&record).expect("there is memory");
        }
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");
    log.close().expect("closes");
}

#[test]
fn commits_allocate_nothing() {
    let (_dir, log) = log();
    let record = [0x5A; 256];
    log.append_commit(&record).expect("commits");
    let counted = allocation_counter::measure(|| {
        for _ in 0..500 {
            log.append_commit(&record).expect("commits");
        }
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");
    log.close().expect("closes");
}

#[test]
fn commits_that_outlive_the_process_only_allocate_nothing() {
    let (_dir, log) = log();
    let record = [0x5A; 256];
    let commit = || {
        let lsn = log.append(&record).expect("there is memory").end;
        log.commit_as(lsn, Durability::ProcessCrash).expect("commits");
    };
    // The first one makes the memory.
    commit();
    let counted = allocation_counter::measure(|| (0..50_000).for_each(|_| commit()));
    assert_eq!(counted.count_total, 0, "{counted:?}");
    let served = log.stats().process_crash;
    assert_eq!(served == ProcessCrashCommits::InMemory, cfg!(target_os = "linux"), "{served:?}");
    log.close().expect("closes");
}

#[test]
fn a_transaction_that_outgrows_its_buffer_is_counted() {
    let (_dir, log) = log();
    let record = vec![0x5A; 1 << 20];
    let counted = allocation_counter::measure(|| {
        let end = log.transaction::<seawall::Error>(|tx| (0..4).try_for_each(|_| tx.append(&record)));
        end.expect("fits");
    });
    assert!(counted.count_total > 0, "nothing was counted: {counted:?}");
    log.close().expect("closes");
}
