//! Tests the log's public interface on the real file system.

use std::path::Path;

use crate::fixture::{Task, change, new_log, payloads, poll, scratch, segments, until, until_prepared};
use seawall::{Error, Log, Lsn, Options, Tail};

fn small() -> Options {
    Options::default().segment_bytes(256 << 10).batch_bytes(64 << 10).memory_bytes(512 << 10)
}

fn open(dir: &Path) -> Log {
    Log::open(dir, small()).expect("opens")
}

#[test]
fn what_was_committed_is_there_after_a_clean_close_and_after_a_drop() {
    let (dir, log) = new_log(small());
    assert_eq!(log.opened().tail, Tail::New);
    for i in 0..100_u32 {
        log.append_commit(&i.to_le_bytes()).expect("commits");
    }
    log.append(b"never committed").expect("appends");
    drop(log);
    let log = open(dir.path());
    assert_eq!(log.opened().tail, Tail::Torn);
    let expected: Vec<Vec<u8>> = (0..100_u32).map(|i| i.to_le_bytes().to_vec()).collect();
    assert_eq!(payloads(&log), expected);
    log.append(b"committed by close").expect("appends");
    log.close().expect("closes");
    let log = open(dir.path());
    assert_eq!(log.opened().tail, Tail::Clean);
    assert_eq!(payloads(&log).last().map(Vec::as_slice), Some(&b"committed by close"[..]));
}

#[test]
fn records_of_every_length_come_back() {
    let (dir, log) = new_log(small());
    let lengths = [0, 1, 4091, 4092, 4093, 5000, 65_000, 65_536, 200_000, 300_000, 1 << 20, 3, 0];
    for (i, length) in lengths.iter().enumerate() {
        let byte = u8::try_from(i).expect("few");
        log.append_commit(&vec![byte; *length]).expect("commits");
    }
    let check = |log: &Log| {
        let records = payloads(log);
        assert_eq!(records.len(), lengths.len());
        for (i, (record, length)) in records.iter().zip(lengths).enumerate() {
            assert!(record.len() == length && record.iter().all(|byte| usize::from(*byte) == i), "{i}");
        }
    };
    check(&log);
    log.close().expect("closes");
    check(&open(dir.path()));
}

/// A log that is read ahead: over segments, while it grows, from the middle, and up to damage in an older segment.
#[test]
fn a_long_log_is_read_in_order_while_it_grows_and_up_to_damage() {
    const RECORD: usize = 3000;
    let record =
        |i: u64| [&i.to_le_bytes()[..], &vec![u8::try_from(i % 251).expect("small"); RECORD]].concat();
    let dir = scratch();
    let options = || Options::default().segment_bytes(6 << 20).batch_bytes(256 << 10).memory_bytes(1 << 20);
    let log = Log::open(dir.path(), options()).expect("opens");
    let mut reader = log.read(Lsn::ZERO).expect("reads");
    let (mut written, mut seen) = (0, 0);
    let mut middle = Lsn::ZERO;
    for part in 0..4 {
        let mut end = Lsn::ZERO;
        for _ in 0..2000 {
            end = log.append(&record(written)).expect("appends").end;
            written += 1;
        }
        log.commit(end).expect("commits");
        while let Some(found) = reader.next_record().expect("is sound") {
            assert!(*found.payload == record(seen), "record {seen}");
            seen += 1;
        }
        assert_eq!(seen, written, "part {part}");
        middle = if part == 1 { end } else { middle };
    }
    let from_middle = log.read(middle).expect("reads").map(|found| found.expect("is sound"));
    let count =
        from_middle.zip(4000..).inspect(|(found, i)| assert!(*found.payload == record(*i), "record {i}"));
    assert_eq!(count.count(), 4000);
    log.close().expect("closes");
    let third = dir.path().join(format!("{:020}.seg", 3));
    change(&third, |bytes| bytes[5 << 20] ^= 4);
    let log = Log::open(dir.path(), options()).expect("an older segment is not looked at");
    let mut reader = log.read(Lsn::ZERO).expect("reads");
    let mut before = 0;
    let found = loop {
        match reader.next_record() {
            Ok(Some(found)) => assert!(*found.payload == record(before), "record {before}"),
            other => break other,
        }
        before += 1;
    };
    let Err(Error::Corrupt(damage)) = found else { panic!("{found:?}") };
    assert_eq!(damage.path, third);
    assert!((4 << 20..=5 << 20).contains(&damage.offset), "{damage:?}");
    assert!((4000..8000).contains(&before), "{before}");
}

#[test]
fn many_threads_share_the_log_and_every_record_is_there_once() {
    let (_dir, log) = new_log(small());
    std::thread::scope(|scope| {
        for thread in 0..16_u64 {
            let log = &log;
            scope.spawn(move || {
                for i in 0..200_u64 {
                    let lsn = log.append_commit(&(thread << 32 | i).to_le_bytes()).expect("commits").end;
                    assert!(log.durable_lsn() >= lsn);
                }
            });
        }
    });
    let mut seen: Vec<u64> = payloads(&log)
        .into_iter()
        .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
        .collect();
    let in_order = |thread: u64| {
        let of_thread: Vec<u64> = seen.iter().filter(|n| **n >> 32 == thread).copied().collect();
        of_thread.is_sorted()
    };
    assert!((0..16).all(in_order));
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3200);
    assert!(log.stats().batches < 3200, "commits share writes");
}

#[test]
fn a_transaction_is_one_and_an_abandoned_one_is_none() {
    let (_dir, log) = new_log(small());
    let end = log
        .transaction::<Error>(|tx| (0..300_u32).try_for_each(|i| tx.append(&[7; 500][..(i % 500) as usize])));
    let end = end.expect("appends");
    let refused = log.transaction::<Error>(|tx| {
        tx.append(b"gone")?;
        Err(Error::WouldBlock)
    });
    assert!(matches!(refused, Err(Error::WouldBlock)));
    log.commit(end).expect("commits");
    let ends: Vec<bool> =
        log.read(Lsn::ZERO).expect("reads").map(|record| record.expect("sound").ends_transaction).collect();
    assert_eq!(ends.len(), 300);
    assert!(ends[299] && !ends[..299].contains(&true));
}

#[test]
fn only_what_is_durable_is_read_and_followed() {
    let (_dir, log) = new_log(small());
    let lsn = log.append(b"one").expect("appends").end;
    assert!(payloads(&log).is_empty());
    log.commit(lsn).expect("commits");
    assert_eq!(payloads(&log), [b"one"]);
    std::thread::scope(|scope| {
        let mut follower = log.follow(Lsn::ZERO).expect("follows");
        let reading = scope.spawn(move || {
            let mut seen = 0;
            while seen < 1001 {
                if follower.next_record().expect("sound").is_some() {
                    seen += 1;
                }
            }
            seen
        });
        for i in 0..1000_u32 {
            log.append_commit(&i.to_le_bytes()).expect("commits");
        }
        assert_eq!(reading.join().expect("follows to the end"), 1001);
    });
}

#[test]
fn trimmed_segments_are_recycled_and_the_rest_stays() {
    let (dir, log) = new_log(small());
    let mut ends = Vec::new();
    for i in 0..400_u32 {
        let mut record = vec![0_u8; 5000];
        record[..4].copy_from_slice(&i.to_le_bytes());
        ends.push(log.append_commit(&record).expect("commits"));
        if i % 50 == 49 {
            log.trim(ends[i as usize - 20].end).expect("trims");
        }
    }
    let first = log.trim(ends[389].end).expect("trims");
    assert_eq!(first, ends[389].end);
    assert!(matches!(log.read(Lsn::ZERO), Err(Error::Trimmed { .. })));
    assert_eq!(payloads(&log).len(), 10);
    log.close().expect("closes");
    let segments = segments(dir.path()).len();
    assert!(segments < 12, "{segments} segments are left of 2 MB of records in 256 KiB segments");
    let log = open(dir.path());
    assert_eq!(log.first_lsn(), first);
    assert_eq!(payloads(&log).len(), 10);
}

#[test]
fn segments_are_filled_while_the_log_grows_and_not_when_it_is_trimmed_in_time() {
    let (_dir, log) = new_log(small());
    let record = [7; 5000];
    let rotate = || {
        until_prepared(&log);
        let started = log.stats().segments_started;
        while log.stats().segments_started == started {
            log.append_commit(&record).expect("commits");
        }
    };
    let trim = || {
        log.append_commit(&record).expect("commits");
        log.trim(log.durable_lsn()).expect("trims");
        log.append_commit(&record).expect("states the first LSN");
        until("the rest goes", || log.stats().segments == 1 && log.is_prepared());
    };
    // The first segment is made before the log is open; a spare for it, and one with each that is started.
    for started in 0..4 {
        until("a spare is filled", || log.stats().segments_filled == started + 1);
        rotate();
    }
    until("a spare is filled", || log.stats().segments_filled == 5);
    for _ in 0..6 {
        trim();
        rotate();
    }
    trim();
    assert_eq!(log.stats().segments_filled, 5);
}

#[test]
fn records_as_large_as_the_memory_do_not_wait_for_a_commit_that_never_comes() {
    let (dir, log) = new_log(small());
    for i in 0..4_u8 {
        log.append(&vec![i; 400 << 10]).expect("appends");
    }
    for i in 0..100_u8 {
        log.append(&vec![i; 60 << 10]).expect("appends");
    }
    log.close().expect("closes");
    assert_eq!(payloads(&open(dir.path())).len(), 104);
}

#[test]
fn a_follower_sees_the_last_record_before_the_end() {
    let (_dir, log) = new_log(small());
    let mut follower = log.follow(Lsn::ZERO).expect("follows");
    let reading = std::thread::spawn(move || {
        let mut seen = 0;
        while follower.next_record().expect("sound").is_some() {
            seen += 1;
        }
        seen
    });
    log.append_commit(b"one").expect("commits");
    log.append(b"two, committed by close").expect("appends");
    log.close().expect("closes");
    assert_eq!(reading.join().expect("ends"), 2);
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let dir = scratch();
    assert!(matches!(Log::open(dir.path(), small().create(false)), Err(Error::NotALog { .. })));
    let log = Log::open(dir.path(), small().record_bytes_max(100)).expect("opens");
    for refused in [log.append(&[0; 101]), log.append_no_wait(&[0; 101])] {
        assert!(matches!(refused, Err(Error::TooLong { bytes: 101, bytes_max: 100 })));
    }
    assert!(matches!(log.commit(Lsn::new(1)), Err(Error::BeyondEnd { .. })));
    assert!(matches!(log.read(Lsn::new(1)), Err(Error::BeyondEnd { .. })));
    log.append_commit(b"still works").expect("commits");
}

#[test]
fn a_commit_that_outlives_its_log_fails_and_writes_nothing() {
    let (dir, log) = new_log(small());
    log.append_commit(b"durable").expect("commits");
    let done = log.commit_async(log.durable_lsn());
    let lsn = log.append(b"never committed").expect("appends").end;
    let (late, mut pending) = (log.commit_async(lsn), log.commit_async(lsn));
    let task = Task::new();
    let polled = poll(&mut pending, &task);
    drop(log);
    // Polling requests a commit of the writer, so this one may have become durable before the log was let go; but it must
    // not be left without an answer.
    assert!(polled.is_ready() || task.woken() > 0);
    let was_durable = pending.is_durable();
    assert!(done.wait().is_ok(), "what was durable stays so");
    let again = open(dir.path());
    let late = late.wait();
    assert_eq!(late.is_ok(), was_durable, "nothing becomes durable behind the log's back: {late:?}");
    assert!(was_durable || matches!(late, Err(Error::Closed)), "{late:?}");
    assert_eq!(payloads(&again).len(), if was_durable { 2 } else { 1 });
}

/// The writer thread writes full batches and then gathers: a commit that comes meanwhile must not rely on it to lead.
#[test]
fn a_commit_behind_a_full_batch_never_sleeps_for_ever() {
    let dir = scratch();
    let options = Options::default().batch_bytes(4096).memory_bytes(64 << 10).segment_bytes(4 << 20);
    let log = Log::open(dir.path(), options).expect("opens");
    let (done, stop) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let shared = &log;
        scope.spawn(move || {
            // A thread that hangs cannot be joined: this test would never end, instead of failing.
            if stop.recv_timeout(std::time::Duration::from_mins(2)).is_err() {
                eprintln!("a commit sleeps for ever: {:?}", shared.stats());
                std::process::abort();
            }
        });
        for i in 0..2000 {
            let mut end = Lsn::ZERO;
            // Six of these fill a batch.
            for _ in 0..=i % 20 {
                end = log.append(&[7; 600]).expect("appends").end;
            }
            log.commit(end).expect("commits");
            assert!(log.durable_lsn() >= end);
        }
        done.send(()).expect("the receiver waits");
    });
}
