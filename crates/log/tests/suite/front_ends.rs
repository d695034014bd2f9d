//! Tests what front ends in other languages build on: appends that wait for nothing, the durable word, waits with an end.

use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

#[cfg(target_os = "linux")]
use crate::fixture::count;
use crate::fixture::{LIMIT, Released, id, new_faulty, new_log, scratch};
use seawall::{Error, Log, Lsn, MethodChoice, Options, View};

fn small() -> Options {
    let options = Options::default().segment_bytes(256 << 10).batch_bytes(16 << 10).memory_bytes(64 << 10);
    options.idle_mark(Duration::from_mins(10)).method(MethodChoice::Named("buffered+fdatasync".to_owned()))
}

fn refused<T: std::fmt::Debug>(result: &seawall::Result<T>) {
    assert!(matches!(result, Err(Error::WouldBlock)), "{result:?}");
}

/// What an append gives that does not wait for the log's lock; nothing if it was refused, and then a moment later.
fn tried<T>(append: impl Fn() -> seawall::Result<T>) -> Option<T> {
    match append() {
        Err(Error::WouldBlock) => {
            std::thread::sleep(Duration::from_millis(1));
            None
        }
        answer => Some(answer.expect("there is room")),
    }
}

/// The same of an append for which there is room: one of the log's threads may hold the lock for a moment.
fn granted<T>(append: impl Fn() -> seawall::Result<T>) -> T {
    std::iter::repeat_with(|| tried(&append)).take(1_000).flatten().next().expect("there is room")
}

#[test]
fn an_append_that_waits_for_nothing_is_refused_where_it_would_have_to() {
    let (dir, faults, log) = new_faulty(small().record_bytes_max(1 << 20));
    let released = Released(&faults);
    assert_eq!(granted(|| log.try_append(b"one")).end, Lsn::new(7));
    refused(&log.try_append(&[0; 16 << 10]));
    assert!(matches!(log.try_append(&vec![0; (1 << 20) + 1]), Err(Error::TooLong { .. })));
    // Streams need a thread of the log, which the first append that may wait starts.
    refused(&log.stream(id(1)).try_append(b"x"));
    log.stream(id(1)).append(b"x").expect("appends");
    let appended = granted(|| log.stream(id(1)).try_append(b"y"));
    assert_eq!((appended.seq, appended.end), (1, log.appended_lsn()));
    refused(&log.stream(id(1)).try_append(&[0; 16 << 10]));
    // On a disk that hangs the memory fills, however often that is tried, and an append that may wait finds room once it goes on.
    // One refusal may be the lock's, five in a row are the memory's.
    faults.hang_commits(true);
    let record = [7; 1000];
    let mut accepted = 3_u64;
    while (0..5).any(|_| tried(|| log.try_append(&record)).is_some()) {
        accepted += 1;
        assert!(accepted < 100_000, "the memory never fills");
    }
    refused(&log.stream(id(1)).try_append(&record));
    assert_eq!(log.stats().stalls, 0, "an append waited");
    drop(released);
    log.append(&record).expect("waits for room");
    log.commit(log.appended_lsn()).expect("commits");
    granted(|| log.try_append(b"two"));
    assert_eq!(log.stats().records, accepted + 2);
    log.close_async().wait().expect("closes");
    log.close_async().wait().expect("is closed");
    assert!(matches!(log.try_append(b"x"), Err(Error::Closed)));
    assert!(matches!(log.stream(id(1)).try_append(b"x"), Err(Error::Closed)));
    let again = Log::open(dir.path(), small()).expect("opens again");
    assert_eq!((again.opened().tail, again.opened().end), (seawall::Tail::Clean, log.durable_lsn()));
}

/// How often this thread has given up the processor because it waited.
#[cfg(target_os = "linux")]
fn waits() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("is there");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("is listed").trim().parse().expect("a number")
}

#[cfg(target_os = "linux")]
#[test]
fn an_append_that_waits_for_nothing_hardly_ever_gives_up_the_processor_and_loses_nothing() {
    const RECORDS: u64 = 20_000;
    let dir = scratch();
    let log = Arc::new(Log::open(dir.path(), small().memory_bytes(16 << 20)).expect("opens"));
    let (busy, waited) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..RECORDS {
                    let before = waits();
                    let tried = log.try_append(b"a record");
                    waited.fetch_add(waits() - before, Ordering::Relaxed);
                    if matches!(tried, Err(Error::WouldBlock)) {
                        busy.fetch_add(1, Ordering::Relaxed);
                        log.append(b"a record").expect("appends");
                    }
                }
            });
        }
    });
    // A page that the system hands out may wait for a mapping of another thread; a lock would have waited thousands of times.
    assert!(waited.load(Ordering::Relaxed) < RECORDS / 1000, "{waited:?}, refused {busy:?} times");
    log.commit(log.appended_lsn()).expect("commits");
    assert_eq!(count(&log) as u64, 3 * RECORDS);
}

#[test]
fn a_follower_of_a_stream_waits_no_longer_than_it_may() {
    let dir = scratch();
    let log = Arc::new(Log::open(dir.path(), small()).expect("opens"));
    let end = log.stream(id(1)).append(b"one").expect("appends").end;
    let mut follower = log.stream(id(1)).follow(0).expect("follows");
    // Appended and not durable.
    let early = follower.next_record_timeout(Duration::from_millis(10));
    assert!(matches!(early, Err(Error::TimedOut { lsn: Lsn::ZERO, .. })), "{early:?}");
    log.commit(end).expect("commits");
    let next =
        |follower: &mut seawall::StreamFollower| follower.next_record_timeout(LIMIT).expect("no error");
    assert_eq!(&*next(&mut follower).expect("is there").payload, b"one");
    let late = follower.next_record_timeout(Duration::ZERO);
    assert!(matches!(late, Err(Error::TimedOut { lsn, .. }) if lsn == end), "{late:?}");
    let writer = Arc::clone(&log);
    let thread = std::thread::spawn(move || {
        // Others become durable first: they are none of this stream's.
        for _ in 0..20 {
            writer.append_commit(b"other").expect("commits");
        }
        writer.stream(id(1)).append_commit(b"two").expect("commits");
    });
    let found = next(&mut follower).expect("is woken");
    assert_eq!((&*found.payload, found.stream.map(|at| at.seq)), (&b"two"[..], Some(1)));
    thread.join().expect("ends");
    let writer = Arc::clone(&log);
    let thread = std::thread::spawn(move || writer.close_async().wait());
    assert!(next(&mut follower).is_none(), "the end of the log ends it");
    thread.join().expect("ends").expect("closes");
}

/// Other languages pass numbers on as they get them: at both ends each is taken, or refused as one past the end.
#[test]
fn every_number_and_time_is_taken_or_refused_at_both_of_its_ends() {
    let (dir, log) = new_log(small());
    log.stream(id(1)).append(b"of a stream").expect("appends");
    let end = log.append_commit(b"one").expect("commits").end;
    for time in [Duration::ZERO, Duration::from_nanos(u64::MAX), Duration::MAX] {
        let lsn = log.append(b"x").expect("appends").end;
        match log.commit_async(lsn).wait_timeout(time) {
            Err(Error::TimedOut { .. }) if time.is_zero() => log.commit(lsn).expect("commits"),
            done => assert_eq!(done.expect("commits"), lsn),
        }
        let mut followers =
            (log.follow(Lsn::ZERO).expect("follows"), log.stream(id(1)).follow(0).expect("follows"));
        let found = (followers.0.next_record_timeout(time), followers.1.next_record_timeout(time));
        if time > Duration::ZERO {
            assert!(matches!(found, (Ok(Some(_)), Ok(Some(_)))), "{found:?}");
        }
        let view = View::open(dir.path()).expect("opens");
        let mut follower = view.follow(Lsn::ZERO).expect("follows");
        let found = follower.next_record_timeout(time);
        let late = matches!(found, Err(Error::TimedOut { .. })) && time.is_zero();
        assert!(matches!(found, Ok(Some(_))) || late, "{found:?}");
        let far = SystemTime::UNIX_EPOCH.checked_add(time);
        assert!(far.is_none_or(|far| log.lsn_at(far).is_ok()));
    }
    let past = |result: Result<(), Error>| {
        matches!(result, Err(Error::BeyondEnd { .. } | Error::StreamEnd { .. })).then_some(())
    };
    for number in [u64::MAX, u64::MAX / 2 + 1, u64::MAX / 2, end.get() + (1 << 40)] {
        let (lsn, stream) = (Lsn::new(number), log.stream(id(1)));
        let calls = [
            log.commit(lsn),
            log.commit_async(lsn).wait_timeout(Duration::MAX).map(drop),
            log.commit_as(lsn, seawall::Durability::ProcessCrash),
            log.commit_async(lsn).wait().map(drop),
            log.read(lsn).map(drop),
            log.read_at(lsn).map(drop),
            log.read_before(lsn).map(drop),
            log.follow(lsn).map(drop),
            log.pin(lsn).map(drop),
            log.trim(lsn).map(drop),
            log.truncate_after(lsn).map(drop),
            stream.get(number).map(drop),
            stream.read(number).map(drop),
            stream.follow(number).map(drop),
            stream.trim(number).map(drop),
            stream.truncate(number).map(drop),
        ];
        let taken: Vec<usize> = calls
            .into_iter()
            .enumerate()
            .filter_map(|(at, call)| past(call).is_none().then_some(at))
            .collect();
        assert_eq!(taken, [0; 0], "{number}");
    }
}
