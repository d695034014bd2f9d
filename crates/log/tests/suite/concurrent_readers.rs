//! Tests read-only views of a log while its writer starts, recycles and removes segments.
//!
//! The writer trims behind itself all the time, so that segments go while they are listed, opened and read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixture::{Stops, comes, new_log, scratch, tiny};
use seawall::{Error, Log, Lsn, RECORD_HEADER_BYTES, View, verify};

/// Records that the writer leaves behind what it trims: less than a segment holds.
const KEPT: usize = 8;
/// Looks that are taken at least, and segments that the writer starts meanwhile at least.
const LOOKS_MIN: usize = 60;
const SEGMENTS_MIN: u64 = 24;

/// A record that says at which LSN it starts, long enough that few fill a segment.
fn record(start: Lsn) -> Vec<u8> {
    let mut bytes = vec![0xA5; 7000];
    bytes[..8].copy_from_slice(&start.get().to_le_bytes());
    bytes
}

fn write(log: &Log, stop: &AtomicBool) {
    let mut starts = vec![log.appended_lsn()];
    while !stop.load(Ordering::SeqCst) {
        let start = starts[starts.len() - 1];
        starts.push(log.append_commit(&record(start)).expect("commits").end);
        if starts.len() > KEPT {
            log.trim(starts[starts.len() - KEPT]).expect("trims");
        }
    }
}

/// Runs `look` while a writer goes on, again and again, until the writer has gone through many segments.
fn during_a_writer(mut look: impl FnMut(&Log)) {
    let (_dir, log) = new_log(tiny());
    log.append_commit(&record(Lsn::ZERO)).expect("commits");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&log, &stop));
        let _stops = Stops(&stop);
        let mut looks = 0;
        while looks < LOOKS_MIN || (log.stats().segments_started < SEGMENTS_MIN && !writer.is_finished()) {
            look(&log);
            looks += 1;
        }
    });
    assert!(log.stats().segments_started >= SEGMENTS_MIN);
    log.close().expect("closes");
}

#[test]
fn a_view_finds_a_log_without_a_gap() {
    let mut records = 0;
    during_a_writer(|log| {
        let view = View::open(log.dir()).expect("a log that is being written can be looked at");
        let mut next = None;
        for read in view.read(view.first_lsn()).into_iter().flatten() {
            let read = match read {
                Ok(read) => read,
                // It was trimmed faster than it was read.
                Err(Error::Trimmed { lsn, first }) => {
                    assert!(lsn < first);
                    break;
                }
                Err(error) => panic!("{error}"),
            };
            assert!(next.is_none_or(|next| next == read.lsn), "{next:?} {read:?}");
            assert_eq!(&read.payload[..], &record(read.lsn)[..]);
            next = Some(read.end);
            records += 1;
        }
    });
    assert!(records > 0);
}

#[test]
fn a_view_that_was_trimmed_away_says_so() {
    let (dir, log) = new_log(tiny());
    let end = log.append_commit(&record(Lsn::ZERO)).expect("commits").end;
    log.append_commit(&record(end)).expect("commits");
    let view = View::open(dir.path()).expect("it can be looked at");
    assert!(view.end_lsn() > Lsn::ZERO);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&log, &stop));
        while dir.path().join("00000000000000000001.seg").exists() && !writer.is_finished() {
            std::thread::yield_now();
        }
        let outcome = view.read(view.first_lsn()).and_then(|mut reader| reader.next().transpose());
        stop.store(true, Ordering::SeqCst);
        writer.join().expect("the writer ends well");
        assert!(
            matches!(outcome, Err(Error::Trimmed { first, .. }) if first > view.end_lsn()),
            "{outcome:?}"
        );
    });
}

#[test]
fn verify_calls_nothing_damaged_that_was_only_trimmed() {
    during_a_writer(|log| {
        let report = verify(log.dir()).expect("a log that is being written can be verified");
        assert_eq!(report.damage, Vec::new());
    });
}

/// Segments are started and removed between looks and during them.
#[test]
fn a_view_shows_what_was_durable_before_it() {
    let mut renewed: Option<View> = None;
    during_a_writer(|log| {
        let durable = log.durable_lsn();
        let shown = View::open(log.dir()).expect("opens").end_lsn();
        assert!(shown >= durable, "opened: {shown} of {durable}");
        let renewed = renewed.get_or_insert_with(|| View::open(log.dir()).expect("opens"));
        let durable = log.durable_lsn();
        renewed.renew().expect("renews");
        let shown = renewed.end_lsn();
        assert!(shown >= durable, "renewed: {shown} of {durable}");
    });
}

#[test]
fn single_reads_find_their_record_or_say_that_it_was_trimmed() {
    let mut found = 0;
    during_a_writer(|log| {
        let (first, end) = (log.first_lsn(), log.durable_lsn());
        for start in (first.get()..end.get()).step_by(record(first).len() + RECORD_HEADER_BYTES).map(Lsn::new)
        {
            match log.read_at(start) {
                Ok(read) => {
                    assert_eq!(&read.payload[..], record(start), "{start}");
                    found += 1;
                }
                Err(Error::Trimmed { .. }) => {}
                Err(error) => panic!("{start}: {error}"),
            }
        }
    });
    assert!(found > 0);
}

/// A view takes the lock for an instant, to see whether there is a writer.
#[test]
fn who_only_looks_keeps_no_writer_out() {
    let dir = scratch();
    Log::open(dir.path(), tiny()).expect("opens").close().expect("closes");
    let (begun, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let opened = std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = std::fs::File::open(dir.path().join("LOCK")).expect("opens");
            while !stop.load(Ordering::SeqCst) {
                if file.try_lock_shared().is_ok() {
                    file.unlock().expect("lets go");
                }
                begun.store(true, Ordering::SeqCst);
            }
        });
        while !begun.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let opened = (0..20).map(|_| Log::open(dir.path(), tiny()).and_then(Log::close));
        let opened: Vec<_> = opened.take_while(Result::is_ok).collect();
        stop.store(true, Ordering::SeqCst);
        opened.len()
    });
    assert_eq!(opened, 20, "a writer was kept out");
}

/// Whether a log is opened while something holds its lock for as long as that takes, `limit` at most.
fn opened_while_held(shared: bool, limit: Duration) -> seawall::Result<()> {
    let dir = scratch();
    Log::open(dir.path(), tiny()).expect("opens").close().expect("closes");
    let file = std::fs::File::open(dir.path().join("LOCK")).expect("opens");
    if shared { file.lock_shared() } else { file.lock() }.expect("locks");
    let opened = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            comes(limit, || opened.load(Ordering::SeqCst));
            file.unlock().expect("lets go");
        });
        let log = Log::open(dir.path(), tiny());
        opened.store(true, Ordering::SeqCst);
        log.and_then(Log::close)
    })
}

/// One that looks may be stopped while it shares the lock; one that writes does keep another one out.
#[test]
fn one_that_looks_for_long_keeps_no_writer_out() {
    opened_while_held(true, Duration::from_millis(400)).expect("nobody writes");
    let held = opened_while_held(false, Duration::from_mins(1));
    assert!(matches!(held, Err(Error::Locked { .. })), "{held:?}");
}

#[cfg(feature = "mutants")]
#[test]
fn a_looker_that_is_taken_for_a_writer_is_found() {
    use seawall::mutant::{Mutant, set};
    for (mutant, keeps_out) in [(Mutant::LookerIsWriter, true), (Mutant::AcceptOtherOffset, false)] {
        set(Some(mutant));
        let opened = opened_while_held(true, Duration::from_secs(if keeps_out { 60 } else { 1 }));
        set(None);
        assert_eq!(opened.is_err(), keeps_out, "{opened:?}");
    }
}
