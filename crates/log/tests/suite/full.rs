//! Tests that a log at its cap goes on after every kind of trim, and that everything which waits there is woken.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(target_os = "linux")]
use crate::fixture::nameless;
use crate::fixture::{LIMIT, Task, id, new_log, poll, scratch, until, until_in, wait, woken};
use seawall::{AppendFuture, Error, Log, Lsn, OnFull, Options};

const SEGMENT: u64 = 64 << 10;
/// The least cap: records fill three segments.
const CAP: u64 = 6 * SEGMENT;
/// With its header it fills a block.
const RECORD: [u8; 3000] = [7; 3000];

/// A log at whose cap nothing happens because time passes.
fn options(full: OnFull) -> Options {
    Options::default()
        .segment_bytes(SEGMENT)
        .batch_bytes(64 << 10)
        .memory_bytes(256 << 10)
        .idle_mark(Duration::from_mins(10))
        .disk_bytes_max(CAP)
        .on_full(full)
}

fn open(dir: &tempfile::TempDir, full: OnFull) -> Log {
    Log::open(dir.path(), options(full)).expect("opens")
}

/// Appends with `append` until the log is full to the last block.
fn fill(mut append: impl FnMut() -> seawall::Result<()>) {
    loop {
        match append() {
            Ok(()) => {}
            Err(Error::DiskCap { .. }) => return,
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_cut_that_is_stated_again_leaves_a_trim_its_segment() {
    let dir = scratch();
    let log = open(&dir, OnFull::Error);
    let (mut begins, mut second) = (Lsn::ZERO, None);
    for _ in 0..6 {
        fill(|| {
            begins = log.append_commit(&RECORD)?.end;
            let cut = log.truncate_after(Lsn::new(begins.get() - RECORD.len() as u64))?;
            log.commit(cut)?;
            if log.stats().segments_started > 0 {
                second = second.or(Some(cut));
            }
            Ok(())
        });
        // The oldest segment can go; the newest cuts must be stated in the segment that makes the trim durable.
        let at = second.take().expect("more than a segment was filled");
        log.trim(at.max(log.first_lsn())).expect("trims");
        let started = log.stats().segments_started;
        until("room behind a trim in front of the cuts", || log.append_no_wait(&RECORD).is_ok());
        assert!(log.stats().disk_bytes <= CAP);
        second = (log.stats().segments_started > started).then(|| log.durable_lsn());
    }
}

/// Polls an append that finds no room, until it sleeps.
fn asleep(append: &mut AppendFuture<'_>, task: &Arc<Task>) -> u64 {
    loop {
        let seen = task.woken();
        assert!(poll(append, task).is_pending());
        std::thread::sleep(Duration::from_millis(50));
        if task.woken() == seen {
            return seen;
        }
    }
}

#[test]
fn an_append_future_at_the_cap_is_woken_to_be_refused() {
    let dir = scratch();
    let log = open(&dir, OnFull::Error);
    fill(|| log.append_commit(&RECORD).map(drop));
    for _ in 0..3 {
        let refused = wait(log.append_async(&RECORD), &Task::new());
        assert!(matches!(refused, Err(Error::DiskCap { .. })), "{refused:?}");
    }
}

#[test]
fn an_append_future_at_the_cap_is_woken_when_removed_segments_make_room() {
    let dir = scratch();
    let log = open(&dir, OnFull::Error);
    fill(|| log.append_commit(&RECORD).map(drop));
    log.close().expect("closes");
    let log = open(&dir, OnFull::Wait);
    // Opened again the log keeps no trimmed segment for reuse. Its first one is not full: larger records leave some of it to
    // the mark that makes the trim durable, which would otherwise take the spare, and a trimmed segment would replace that.
    let (large, mut refused) = (vec![7; 20_000], 0);
    while refused < 40 {
        match log.append_no_wait(&large) {
            Ok(at) => log.commit(at.end).expect("commits"),
            Err(Error::WouldBlock) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let (mut append, task) = (log.append_async(&large), Task::new());
    let seen = asleep(&mut append, &task);
    log.trim(log.durable_lsn()).expect("trims");
    woken(&mut append, &task, seen).expect("appends");
    log.append_commit(&RECORD).expect("commits");
}

/// Fills a log with one stream and keeps appending to it on a thread; returns how many appends of that thread came through.
fn waiting_appends(log: &Arc<Log>) -> Arc<AtomicU64> {
    let done = Arc::<AtomicU64>::default();
    let (counted, appends) = (Arc::clone(&done), Arc::clone(log));
    // It is not joined: one that waits for ever must not keep the test from failing.
    std::thread::spawn(move || {
        while appends.stream(id(1)).append_commit(&RECORD).is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    until("the log is full", || {
        let before = done.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        before > 0 && done.load(Ordering::SeqCst) == before
    });
    done
}

/// Closes a log that another thread appends to.
fn close(log: &Log) {
    wait(log.close_async(), &Task::new()).expect("closes");
}

#[test]
fn appends_that_wait_go_on_when_a_stream_is_trimmed_committed_or_not() {
    for commits in [true, false] {
        let dir = scratch();
        let log = Arc::new(open(&dir, OnFull::Wait));
        let done = waiting_appends(&log);
        let before = done.load(Ordering::SeqCst);
        let stream = log.stream(id(1));
        let trim = stream.trim(stream.next_seq()).expect("is accepted at the cap");
        if commits {
            log.commit(trim).expect("commits");
        }
        until("appends go on behind the trim of the stream", || done.load(Ordering::SeqCst) > before);
        close(&log);
    }
}

#[test]
fn a_pin_that_is_released_lets_go_what_streams_do_not_need() {
    // With and without an append that waits; a log without a cap gives the disk back as well.
    for capped in [true, false] {
        let dir = scratch();
        let options = options(OnFull::Wait);
        let options = if capped {
            options
        } else {
            options.disk_bytes_max(1 << 30).idle_mark(Duration::from_millis(1))
        };
        let log = Arc::new(Log::open(dir.path(), options).expect("opens"));
        let mut pin = log.pin(Lsn::ZERO).expect("pins");
        let stream = log.stream(id(1));
        let done = if capped {
            waiting_appends(&log)
        } else {
            while log.stats().segments_started < 4 {
                stream.append_commit(&RECORD).expect("commits");
            }
            Arc::default()
        };
        log.commit(stream.trim(stream.next_seq()).expect("trims")).expect("commits");
        // The trim may have started a segment, whose rest records get.
        std::thread::sleep(Duration::from_millis(200));
        let before = done.load(Ordering::SeqCst);
        assert_eq!(log.first_lsn(), Lsn::ZERO, "the pin holds all of it");
        if capped {
            drop(pin);
            until("appends go on without the pin", || done.load(Ordering::SeqCst) > before);
        } else {
            pin.advance(log.durable_lsn());
            until("segments go without the pin", || log.stats().segments == 1);
        }
        close(&log);
    }
}

#[test]
fn records_leave_the_end_of_the_last_segment_to_marks() {
    let dir = scratch();
    let log = open(&dir, OnFull::Error);
    let [behind, held] = [log.stream(id(1)), log.stream(id(2))];
    for stream in [behind, held] {
        for _ in 0..3 {
            stream.append_commit(b"small").expect("commits");
        }
    }
    fill(|| log.append_commit(&RECORD).map(drop));
    // The first trim of a stream starts the segment before the last one, the second one the last: neither frees anything.
    log.commit(behind.trim(1).expect("is accepted")).expect("commits");
    fill(|| log.append_commit(&RECORD).map(drop));
    behind.trim(2).expect("is accepted");
    fill(|| log.append(&vec![7; 40_000]).map(drop));
    fill(|| log.append(&RECORD).map(drop));
    log.commit(log.appended_lsn()).expect("commits");
    log.trim(log.durable_lsn()).expect("trims");
    behind.remove().expect("is accepted");
    log.commit(held.remove().expect("is accepted")).expect("commits");
    until("room", || log.append_commit(&RECORD).is_ok());
    log.close().expect("closes");
    open(&dir, OnFull::Error).append_commit(&RECORD).expect("goes on");
}

#[test]
#[cfg(target_os = "linux")]
fn a_segment_that_streams_let_go_is_held_open_by_no_index() {
    let dir = scratch();
    let open = || Log::open(dir.path(), options(OnFull::Wait).disk_bytes_max(1 << 30)).expect("opens");
    let log = open();
    while log.stats().segments_started < 8 {
        log.stream(id(1)).append_commit(&RECORD).expect("commits");
    }
    log.close().expect("closes");
    // Opened again the log keeps no trimmed segment for reuse: they are removed.
    let log = open();
    let stream = log.stream(id(1));
    for seq in 0..stream.next_seq() {
        stream.get(seq).expect("reads");
    }
    log.commit(stream.trim(stream.next_seq()).expect("trims")).expect("commits");
    log.append_commit(&RECORD).expect("holds nothing that was let go before it");
    until("the first LSN moves", || log.first_lsn() > Lsn::ZERO);
    log.append_commit(&RECORD).expect("makes the trim durable");
    until("segments go", || log.stats().segments <= 2);
    until("no segment that is gone is held open", || nameless(dir.path()) == 0);
}

/// A log of streams at its cap, which are in all of its segments, so that most trims free nothing.
fn full_of_streams(dir: &Path, streams: u32) -> Log {
    let log = Log::open(dir, of_streams()).expect("opens");
    let mut committed = 0;
    for at in 0.. {
        let stream = log.stream(id(at % streams));
        match stream.append(&[1; 900]) {
            Ok(appended) if at - committed == 20 => {
                log.commit(appended.end).expect("commits");
                committed = at;
            }
            Ok(_) => {}
            Err(Error::DiskCap { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    log.commit(log.appended_lsn()).expect("commits");
    log
}

fn of_streams() -> Options {
    let options = Options::default().segment_bytes(SEGMENT).disk_bytes_max(2 * CAP);
    options.on_full(OnFull::Error).idle_mark(Duration::from_millis(5))
}

#[test]
fn at_the_cap_any_number_of_streams_is_trimmed_one_by_one() {
    for (streams, killed) in [(3, false), (40, true), (400, false), (400, true)] {
        let what = format!("{streams} streams, killed: {killed}");
        let dir = scratch();
        let mut log = full_of_streams(dir.path(), streams);
        let mut firsts = Vec::new();
        for number in 0..streams {
            let stream = log.stream(id(number));
            let next = stream.next_seq();
            let end = match number % 3 {
                0 => {
                    stream.truncate(next.saturating_sub(1)).and_then(|_| stream.trim(next.saturating_sub(1)))
                }
                _ => stream.trim(next),
            };
            log.commit(end.unwrap_or_else(|error| panic!("{what}, trim {number}: {error}")))
                .expect("commits");
            firsts.push((stream.first_seq(), stream.next_seq()));
            if killed && number == streams / 2 {
                drop(log);
                log = Log::open(dir.path(), of_streams()).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
        }
        let bounds = |log: &Log, number: u32| {
            let stream = log.stream(id(number));
            (stream.first_seq(), stream.next_seq())
        };
        let found: Vec<_> = (0..streams).map(|number| bounds(&log, number)).collect();
        assert_eq!(found, firsts, "{what}");
        let last = log.stream(id(streams - 1));
        log.commit(last.remove().expect("removes")).expect("commits");
        log.close().expect("closes");
        let log = Log::open(dir.path(), of_streams()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found: Vec<_> = (0..streams - 1).map(|number| bounds(&log, number)).collect();
        assert_eq!(found, firsts[..firsts.len() - 1], "{what}");
        // What a trim lets go is removed by a thread.
        until(&what, || log.stream(id(0)).append_commit(&[2; 100]).is_ok());
    }
}

/// Trims logs that are full to the last block, in whose first segment an idle stream is; gives up after `limit`.
fn full_logs_of_an_idle_stream(limit: Duration) {
    for (bytes_max, is_empty) in [(CAP, true), (CAP, false), (2 * CAP, true), (2 * CAP, false)] {
        let (_dir, log) = new_log(options(OnFull::Error).disk_bytes_max(bytes_max));
        let stream = log.stream(id(1));
        stream.append(b"idle").expect("appends");
        if is_empty {
            stream.trim(1).expect("trims");
        }
        fill(|| log.append(&RECORD).and_then(|at| log.commit(at.end)));
        until_in(limit, &format!("a cap of {bytes_max}, empty: {is_empty}"), || {
            log.trim(log.durable_lsn()).expect("trims");
            log.first_lsn() > Lsn::ZERO
        });
        until("records are let in", || log.append(&RECORD).is_ok());
        assert_eq!((stream.first_seq(), stream.next_seq()), (u64::from(is_empty), 1));
        assert_eq!(stream.get(0).is_ok(), !is_empty);
    }
}

#[test]
fn a_full_log_is_trimmed_though_an_idle_stream_is_in_its_first_segment() {
    full_logs_of_an_idle_stream(LIMIT);
}

#[cfg(feature = "mutants")]
#[test]
fn a_rewriter_that_sleeps_at_the_cap_is_found() {
    use seawall::mutant::{Mutant, finds};
    assert!(finds(Mutant::RewriterSleepsAtCap, || full_logs_of_an_idle_stream(Duration::from_secs(3))));
}
