//! Tests that appending and committing allocate nothing on the heap.
//!
//! The hot path works in the buffers that the log allocated when it was opened. Allocations of the calling thread are
//! counted, so that the count is exact on any machine; a transaction that outgrows its buffer shows that the counter
//! counts.

use seawall::{Durability, Log, Options, ProcessCrashCommits};

const RECORD: [u8; 256] = [0x5A; 256];
static LARGE: [u8; 1 << 18] = [0x5A; 1 << 18];

/// How many allocations `work` made on a log that has committed before in either way, and where weak commits went.
fn allocations<T>(work: fn(&Log) -> T, times: u32) -> (u64, ProcessCrashCommits) {
    let dir = tempfile::tempdir().expect("a directory");
    let log = Log::open(dir.path(), Options::default().memory_bytes(64 << 20)).expect("opens");
    while !log.is_prepared() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    log.append_commit(&RECORD).expect("commits");
    commit_weakly(&log);
    let counted = allocation_counter::measure(|| (0..times).for_each(|_| _ = work(&log)));
    let served = log.stats().process_crash;
    log.close().expect("closes");
    (counted.count_total, served)
}

fn commit_weakly(log: &Log) {
    let lsn = log.append(&RECORD).expect("there is memory").end;
    log.commit_as(lsn, Durability::ProcessCrash).expect("commits");
}

#[test]
fn appends_allocate_nothing() {
    assert_eq!(allocations(|log| log.append(&RECORD).expect("there is memory"), 100_000).0, 0);
}

#[test]
fn commits_allocate_nothing() {
    assert_eq!(allocations(|log| log.append_commit(&RECORD).expect("commits"), 500).0, 0);
}

#[test]
fn commits_that_outlive_the_process_only_allocate_nothing() {
    let (counted, served) = allocations(commit_weakly, 50_000);
    assert_eq!(counted, 0);
    assert_eq!(served == ProcessCrashCommits::InMemory, cfg!(target_os = "linux"), "{served:?}");
}

#[test]
fn a_transaction_that_outgrows_its_buffer_is_counted() {
    let large = |log: &Log| {
        let end = log.transaction::<seawall::Error>(|tx| (0..16).try_for_each(|_| tx.append(&LARGE)));
        end.expect("fits");
    };
    assert!(allocations(large, 1).0 > 0, "nothing was counted");
}
