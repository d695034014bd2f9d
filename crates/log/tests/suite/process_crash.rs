//! Tests commits that outlive the process only: they write nothing, and the next opening finds their records.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use crate::fixture::{
    PLAIN, Task, change, child, copy, faulty, new_faulty, new_log, orders, payloads, payloads_of, scratch,
    until, wait,
};
use futures_lite::future::block_on;
use seawall::Durability::{PowerLoss, ProcessCrash, SystemCrash};
use seawall::{Error, LeftInMemory, Log, Lsn, MethodChoice, Options, ProcessCrashCommits, Tail};

fn options() -> Options {
    Options::default()
        .segment_bytes(1 << 20)
        .batch_bytes(64 << 10)
        .memory_bytes(1 << 20)
        // Nothing is written but what a test requests.
        .idle_mark(Duration::from_mins(10))
        .method(MethodChoice::Named("dsync".to_owned()))
}

fn open(dir: &Path) -> Log {
    Log::open(dir, options()).expect("opens")
}

fn commit(log: &Log, record: &[u8]) -> Lsn {
    let lsn = log.append(record).expect("appends").end;
    log.commit_as(lsn, ProcessCrash).expect("commits");
    lsn
}

fn numbered(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|i| [&i.to_le_bytes()[..], &vec![7; i as usize % 300]].concat()).collect()
}

#[test]
fn such_a_commit_writes_nothing_and_its_record_is_there_when_the_log_is_dropped() {
    let dir = scratch();
    let memory = dir.path().join("MEMORY");
    let log = open(dir.path());
    assert_eq!(log.stats().process_crash, ProcessCrashCommits::NoneYet);
    assert!(!memory.exists(), "it is made by the first commit that needs it");
    let all = numbered(200);
    let mut end = Lsn::ZERO;
    for record in &all {
        end = commit(&log, record);
    }
    assert_eq!((log.lsn_surviving(ProcessCrash), log.durable_lsn()), (end, Lsn::ZERO));
    assert_eq!(log.lsn_surviving(SystemCrash), Lsn::ZERO);
    let stats = log.stats();
    assert_eq!((stats.batches, stats.process_crash), (0, ProcessCrashCommits::InMemory));
    assert!(payloads(&log).is_empty(), "readers show what is durable");
    drop(log);
    let log = open(dir.path());
    assert_eq!(log.opened().left_in_memory, LeftInMemory::Taken { records: 200 });
    assert_eq!((log.opened().end, log.durable_lsn(), log.opened().tail), (end, end, Tail::Torn));
    assert_eq!(payloads(&log), all);
    assert!(!memory.exists(), "it was taken");
    // What is durable is not taken twice, and a log that was closed leaves nothing.
    let end = commit(&log, b"more");
    log.commit(end).expect("commits");
    drop(log);
    let log = open(dir.path());
    assert_eq!(log.opened().left_in_memory, LeftInMemory::Taken { records: 0 });
    assert_eq!(log.opened().end, end);
    commit(&log, b"last");
    log.close().expect("closes");
    assert!(!memory.exists());
    let log = open(dir.path());
    assert_eq!(log.opened().left_in_memory, LeftInMemory::Nothing);
    assert_eq!(payloads(&log).len(), 202);
    // Closed by its own threads it leaves as little.
    commit(&log, b"last");
    assert!(memory.exists());
    block_on(log.close_async()).expect("closes");
    assert!(!memory.exists());
    drop(log);
    assert_eq!(open(dir.path()).opened().left_in_memory, LeftInMemory::Nothing);
}

#[test]
fn a_log_that_promises_no_more_stores_for_commit_as_and_writes_for_commit() {
    let dir = scratch();
    let method = MethodChoice::Named("buffered".to_owned());
    let weak = options().durability(ProcessCrash).method(method);
    let log = Log::open(dir.path(), weak.clone()).expect("opens");
    let end = commit(&log, b"stored");
    let later = log.commit_async_as(end, ProcessCrash).expect("is promised");
    assert!(later.is_durable());
    assert_eq!(block_on(later).expect("commits"), end);
    let stats = log.stats();
    assert_eq!((stats.batches, stats.process_crash), (0, ProcessCrashCommits::InMemory));
    assert_eq!((log.lsn_surviving(ProcessCrash), log.durable_lsn()), (end, Lsn::ZERO));
    assert!(payloads(&log).is_empty(), "readers show what is written");
    // What `commit` has committed they show, though it outlives the process already.
    log.commit(end).expect("commits");
    assert_eq!((log.durable_lsn(), payloads(&log)), (end, vec![b"stored".to_vec()]));
    commit(&log, b"stored too");
    drop(log);
    let log = Log::open(dir.path(), weak).expect("opens");
    assert_eq!(log.opened().left_in_memory, LeftInMemory::Taken { records: 1 });
    assert_eq!(payloads(&log), [b"stored".to_vec(), b"stored too".to_vec()]);
}

#[test]
fn an_idle_log_writes_what_lies_in_memory_only() {
    let (_dir, log) = new_log(options().idle_mark(Duration::from_millis(1)));
    for _ in 0..3 {
        let end = commit(&log, b"record");
        until("an idle log makes it durable", || log.durable_lsn() >= end);
    }
}

#[test]
fn transactions_and_large_records_come_back_whole() {
    let (dir, log) = new_log(options());
    let large = vec![9; 200 << 10];
    let mut all = vec![large.clone(), b"small".to_vec()];
    log.append(&large).expect("appends");
    commit(&log, b"small");
    let pair = [vec![1; 50_000], vec![2; 3]];
    let end = log.transaction::<Error>(|tx| pair.iter().try_for_each(|record| tx.append(record)));
    log.commit_as(end.expect("fits"), ProcessCrash).expect("commits");
    all.extend(pair);
    drop(log);
    let log = open(dir.path());
    assert_eq!(payloads(&log), all);
}

/// What readers of this opening show: from the start, from the end backwards, and whether the record at `cut` is there.
fn shown(log: &Log, cut: Lsn) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, bool) {
    let mut backwards = Vec::new();
    let mut end = log.durable_lsn();
    while let Some(record) = log.read_before(end).expect("reads") {
        end = record.lsn;
        backwards.push(record.payload.to_vec());
    }
    backwards.reverse();
    let mut follower = log.follow(log.first_lsn()).expect("follows");
    let forwards = payloads_of(std::iter::from_fn(|| follower.try_next_record().transpose()));
    assert_eq!(payloads(log), forwards, "a reader and a follower");
    (forwards, backwards, log.read_at(cut).is_ok())
}

/// Only the opening itself may have readers see such a cut: it makes it durable, and no cut follows.
#[test]
fn cuts_that_only_memory_held_are_seen_by_the_opening_that_takes_them() {
    let (dir, log) = new_log(options());
    let kept = log.append_commit(b"kept").expect("commits");
    log.append(b"cut off").expect("appends");
    log.append(b"cut off too").expect("appends");
    let end = log.truncate_after(kept.end).expect("cuts");
    log.append(b"behind it").expect("appends");
    log.commit_as(log.appended_lsn(), ProcessCrash).expect("commits");
    assert!(log.durable_lsn() < end, "the cut lies in memory only");
    drop(log);
    let log = open(dir.path());
    assert_eq!(log.opened().left_in_memory, LeftInMemory::Taken { records: 4 });
    let expected = vec![b"kept".to_vec(), b"behind it".to_vec()];
    assert_eq!(shown(&log, kept.end), (expected.clone(), expected, false));
}

#[cfg(feature = "mutants")]
#[test]
fn the_planted_mistake_is_found() {
    use seawall::mutant::{Mutant, finds};
    let scene = cuts_that_only_memory_held_are_seen_by_the_opening_that_takes_them;
    assert!(finds(Mutant::MemoryCutsUnseen, scene));
}

#[test]
fn what_does_not_fit_is_written_and_no_record_is_lost_between_the_two() {
    for bytes in [64 << 10, 0] {
        let (dir, log) = new_log(options().crash_memory_bytes(bytes));
        let all = numbered(3000);
        for record in &all {
            commit(&log, record);
        }
        let stats = log.stats();
        assert!(stats.batches > 0, "{stats:?}");
        match stats.process_crash {
            ProcessCrashCommits::InMemory => assert!(bytes > 0 && stats.batches < 300, "{stats:?}"),
            ProcessCrashCommits::Written { reason } => {
                assert!(bytes == 0 && reason.contains("turned it off"));
            }
            other => panic!("{other:?}"),
        }
        drop(log);
        let log = open(dir.path());
        assert_eq!(payloads(&log), all);
        assert_eq!(log.opened().left_in_memory == LeftInMemory::Nothing, bytes == 0);
    }
}

#[test]
fn where_it_cannot_be_had_such_commits_are_written_and_the_reason_is_shown_until_it_can_be() {
    let (dir, log) = new_log(options());
    // The name is taken.
    std::fs::create_dir(dir.path().join("MEMORY")).expect("makes it");
    let end = commit(&log, b"record");
    assert_eq!(log.lsn_surviving(ProcessCrash), end);
    let ProcessCrashCommits::Written { reason } = log.stats().process_crash else {
        panic!("it is not there")
    };
    assert!(reason.contains("MEMORY"), "{reason}");
    assert_eq!(log.stats().relaxed_batches, 1);
    std::fs::remove_dir(dir.path().join("MEMORY")).expect("removes it");
    let mut committed = 1;
    until("it is made after all", || {
        commit(&log, b"record");
        committed += 1;
        log.stats().process_crash == ProcessCrashCommits::InMemory
    });
    drop(log);
    assert_eq!(payloads(&open(dir.path())).len(), committed);
}

/// With and without the memory, by rows whose sync is of what they write and of the whole file.
#[test]
fn every_thread_finds_what_it_committed_whatever_else_is_committed() {
    for (bytes, method) in [(128 << 10, "dsync"), (0, "dsync"), (0, "buffered+fdatasync")] {
        let dir = scratch();
        let method = MethodChoice::Named(method.to_owned());
        let log = Log::open(dir.path(), options().crash_memory_bytes(bytes).method(method)).expect("opens");
        let committed = std::thread::scope(|scope| {
            let work = |thread: u32| {
                let log = &log;
                move || (0..600_u32).map(|i| commit_somehow(log, thread, i)).collect::<Vec<Lsn>>()
            };
            let threads: Vec<_> = (0..6).map(|thread| scope.spawn(work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("runs")).collect::<Vec<_>>()
        });
        let safe = log.lsn_surviving(ProcessCrash);
        drop(log);
        let log = open(dir.path());
        assert!(log.durable_lsn() >= safe);
        for (thread, ends) in (0_u32..).zip(committed) {
            for (i, end) in (0_u32..).zip(ends).filter(|(_, end)| *end <= safe) {
                let record = log.read_before(end).expect("reads").expect("is there");
                assert_eq!(&record.payload[..], [thread.to_le_bytes(), i.to_le_bytes()].concat());
            }
        }
    }
}

/// Appends a record and commits it in one of all ways, or does not.
fn commit_somehow(log: &Log, thread: u32, i: u32) -> Lsn {
    let record = [thread.to_le_bytes(), i.to_le_bytes()].concat();
    let lsn = log.append(&record).expect("appends").end;
    let weak = || log.commit_async_as(lsn, ProcessCrash).expect("a known class");
    let way = (thread + i) % 8;
    match way {
        0 => log.commit(lsn),
        1 => log.commit_async(lsn).wait().map(drop),
        2 => wait(log.commit_async(lsn), &Task::new()).map(drop),
        3 => log.commit_as(lsn, SystemCrash),
        4 => weak().wait().map(drop),
        5 => wait(weak(), &Task::new()).map(drop),
        6 => log.commit_as(lsn, ProcessCrash),
        _ => return lsn,
    }
    .expect("commits");
    assert!(way > 2 || log.durable_lsn() >= lsn, "a group honours its strictest member");
    assert!(log.lsn_surviving(ProcessCrash) >= lsn);
    lsn
}

#[test]
fn a_failed_log_stores_nothing_more_and_what_it_had_stored_is_there() {
    let (dir, faults, log) = new_faulty(options());
    let stored = commit(&log, b"stored");
    faults.fail_commit(0);
    let lsn = log.append(b"fails").expect("appends").end;
    assert!(matches!(log.commit(lsn), Err(Error::Io { .. } | Error::Failed { .. })));
    assert!(matches!(log.commit_as(lsn, ProcessCrash), Err(Error::Failed { .. })));
    assert!(log.commit_async_as(lsn, ProcessCrash).expect("begins").wait().is_err());
    assert!(log.commit_as(stored, ProcessCrash).is_ok(), "that promise was kept");
    drop(log);
    let log = open(dir.path());
    assert_eq!(payloads(&log)[0], b"stored");
    assert!(matches!(log.commit_as(Lsn::MAX, ProcessCrash), Err(Error::BeyondEnd { .. })));
}

#[test]
fn a_process_that_was_forked_off_stores_nothing() {
    let (dir, log) = new_log(options());
    commit(&log, b"parent");
    let lsn = log.append(b"not committed").expect("appends").end;
    let child = seawall_sys::fork::Child::run(|| {
        u8::from(!matches!(log.commit_as(lsn, ProcessCrash), Err(Error::Forked)))
    });
    assert_eq!(child.expect("forks").wait().expect("ends"), Some(0));
    assert!(log.lsn_surviving(ProcessCrash) < lsn);
    commit(&log, b"parent again");
    drop(log);
    assert_eq!(payloads(&open(dir.path())).len(), 3);
}

/// Leaves memory with one record in a log of one durable record, and changes the file by `change`.
fn left(change: impl FnOnce(&Path)) -> (LeftInMemory, usize) {
    let (dir, log) = new_log(options());
    log.append_commit(b"durable").expect("commits");
    commit(&log, b"in memory");
    drop(log);
    change(dir.path());
    let log = open(dir.path());
    assert!(!dir.path().join("MEMORY").exists(), "it is removed either way");
    assert!(log.opened().foreign_files.is_empty());
    (log.opened().left_in_memory, payloads(&log).len())
}

#[test]
fn memory_that_is_torn_or_of_another_log_boot_or_epoch_is_never_believed() {
    assert_eq!(left(|_| {}), (LeftInMemory::Taken { records: 1 }, 2));
    // Any byte of the header or of the frame.
    for at in [4, 8, 24, 40, 48, 56, 128, 136, 140, 144, 150] {
        let (left, count) = left(|dir| change(&dir.join("MEMORY"), |bytes| bytes[at] ^= 1));
        assert_eq!(count, 1, "byte {at}");
        assert_eq!(matches!(left, LeftInMemory::Worthless { .. }), at < 128, "byte {at}: {left:?}");
    }
    let (of_other, count) = left(|dir| {
        let other = scratch();
        let log = open(other.path());
        log.append_commit(b"durable").expect("commits");
        commit(&log, b"of another");
        drop(log);
        std::fs::copy(other.path().join("MEMORY"), dir.join("MEMORY")).expect("copies");
    });
    assert!(matches!(of_other, LeftInMemory::Worthless { reason } if reason.contains("another log")));
    assert_eq!(count, 1);
    let (of_epoch, count) = left(|dir| {
        let kept = std::fs::read(dir.join("MEMORY")).expect("reads");
        std::fs::remove_file(dir.join("MEMORY")).expect("removes it");
        drop(open(dir));
        std::fs::write(dir.join("MEMORY"), kept).expect("writes");
    });
    assert!(matches!(of_epoch, LeftInMemory::Worthless { reason } if reason.contains("since")));
    assert_eq!(count, 1);
    let (cut, count) = left(|dir| std::fs::write(dir.join("MEMORY"), [0; 100]).expect("writes"));
    assert!(matches!(cut, LeftInMemory::Worthless { .. }) && count == 1);
}

#[test]
fn a_foreign_file_of_that_name_is_left_alone() {
    let dir = scratch();
    std::fs::write(dir.path().join("MEMORY"), "my own notes").expect("writes");
    let log = open(dir.path());
    assert_eq!(log.opened().left_in_memory, LeftInMemory::Nothing);
    commit(&log, b"record");
    let ProcessCrashCommits::Written { reason } = log.stats().process_crash else {
        panic!("the name is taken")
    };
    assert!(reason.contains("MEMORY"), "{reason}");
    log.close().expect("closes");
    assert_eq!(std::fs::read(dir.path().join("MEMORY")).expect("is there"), b"my own notes");
}

#[test]
fn an_opening_that_fails_leaves_the_memory_for_the_next_one() {
    let (dir, log) = new_log(options());
    commit(&log, b"record");
    // Another writer gets no further than the lock.
    assert!(matches!(Log::open(dir.path(), options()), Err(Error::Locked { .. })));
    drop(log);
    for _ in 0..3 {
        let (faults, options) = faulty(options());
        faults.fail_commit(0);
        assert!(Log::open(dir.path(), options).is_err(), "what it serves is not durable");
    }
    let log = open(dir.path());
    assert_eq!(log.opened().left_in_memory, LeftInMemory::Taken { records: 1 });
    assert_eq!(payloads(&log), [b"record"]);
}

#[test]
fn what_was_accepted_under_a_cap_is_drained_under_it() {
    const SEGMENT: u64 = 64 << 10;
    let capped = || {
        options()
            .segment_bytes(SEGMENT)
            .batch_bytes(32 << 10)
            .memory_bytes(512 << 10)
            .disk_bytes_max(6 * SEGMENT)
    };
    let (dir, faults, log) = new_faulty(capped());
    log.append_commit(b"durable").expect("commits");
    // Nothing is written any more, and records fill the rest of this segment and those that they may start.
    faults.hang_commits(true);
    let mut accepted = 1;
    let mut refused = 0;
    while refused < 100 {
        match log.append_no_wait(&[7; 3000]) {
            Ok(at) => {
                log.commit_as(at.end, ProcessCrash).expect("commits");
                (accepted, refused) = (accepted + 1, 0);
            }
            Err(Error::WouldBlock) => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(other) => panic!("{other}"),
        }
    }
    // What a process that is killed now leaves.
    let left = scratch();
    copy(dir.path(), left.path());
    faults.hang_commits(false);
    let opened = Arc::new(std::sync::OnceLock::new());
    let (into, at) = (Arc::clone(&opened), left.path().to_owned());
    // It is not joined: an opening that waits for ever must not keep the test from failing.
    std::thread::spawn(move || drop(into.set(Log::open(at, capped()))));
    until("the opening ends, though nobody can trim", || opened.get().is_some());
    let log = opened.get().expect("it ended").as_ref().expect("what was accepted fits");
    assert_eq!(payloads(log).len(), accepted);
    // It can be trimmed, and goes on.
    log.trim(log.durable_lsn()).expect("trims");
    log.append_commit(b"goes on").expect("commits");
    assert!(log.stats().disk_bytes <= 6 * SEGMENT);
}

/// What the killed process does: commits numbered records for ever, and says so after each.
#[test]
fn commits_for_ever() {
    let Some(dir) = orders() else { return };
    let log = open(dir.as_ref());
    let mut out = std::io::stdout();
    for i in 0_u32.. {
        commit(&log, &[i.to_le_bytes().as_slice(), &[5; 252]].concat());
        writeln!(out, "committed {i}").expect("the parent reads");
    }
}

#[test]
fn every_acknowledged_record_is_there_after_kill_9() {
    for acknowledged in [1, 37, 2000] {
        let dir = scratch();
        let dir_text = dir.path().to_str().expect("is text");
        let mut child = child(PLAIN, "process_crash::commits_for_ever", dir_text);
        let mut child = child.stdout(Stdio::piped()).spawn().expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
        let mut seen = lines.map(|line| line.expect("reads")).filter(|line| line.starts_with("committed"));
        let last = (0..acknowledged).filter_map(|_| seen.next()).last().expect("it commits");
        child.kill().expect("kills");
        let last = seen.last().unwrap_or(last);
        child.wait().expect("ends");
        let last: u32 = last.split(' ').nth(1).and_then(|number| number.parse().ok()).expect("a number");
        let log = open(dir.path());
        assert!(matches!(log.opened().left_in_memory, LeftInMemory::Taken { records } if records > 0));
        let found = payloads(&log);
        assert!(found.len() > last as usize, "{} of {last}", found.len());
        for (i, record) in (0_u32..).zip(&found) {
            assert_eq!(record[..4], i.to_le_bytes());
        }
        assert_eq!(log.lsn_surviving(PowerLoss), log.appended_lsn());
    }
}
