//! Tests that a trim stops at the lowest pin and at the lowest hold, and goes on when that is moved or gone.

use std::time::Duration;

use crate::fixture::{id, new_log, scratch, until};
use seawall::{Error, Hold, Log, Lsn, Options, Retention, View};

#[test]
fn a_trim_stops_at_the_lowest_pin_until_it_is_moved_or_dropped() {
    let (_dir, log) = new_log(Options::default().segment_bytes(64 << 10));
    let ends: Vec<Lsn> = (0..40).map(|i| log.append_commit(&vec![i; 10_000]).expect("commits").end).collect();
    assert_eq!(log.stats().pinned, None);
    let mut low = log.pin(ends[5]).expect("pins");
    let (high, twin) = (log.pin(ends[20]).expect("pins"), log.pin(ends[20]).expect("pins"));
    assert_eq!((low.lsn(), log.stats().pinned), (ends[5], Some(ends[5])));
    assert_eq!(log.trim(ends[3]).expect("trims"), ends[3], "below any pin");
    assert_eq!(log.trim(ends[30]).expect("trims"), ends[5]);
    low.advance(ends[2]);
    assert_eq!(low.lsn(), ends[5], "never back");
    low.advance(ends[10]);
    assert_eq!(log.trim(ends[30]).expect("trims"), ends[10]);
    drop(low);
    drop(twin);
    assert_eq!(log.trim(ends[30]).expect("trims"), ends[20], "one of two is left there");
    assert_eq!(log.read(high.lsn()).expect("is held").count(), 19);
    drop(high);
    assert_eq!((log.stats().pinned, log.trim(ends[30]).expect("trims")), (None, ends[30]));
    assert!(matches!(log.pin(ends[29]), Err(Error::Trimmed { .. })));
    assert!(matches!(log.pin(Lsn::MAX), Err(Error::BeyondEnd { .. })));
    // It may outlive the log.
    let pin = log.pin(ends[35]).expect("pins");
    log.close().expect("closes");
    drop(pin);
}

/// However the first LSN moves, by a trim, by rules or as streams let go, it stops at a hold that another process wrote, goes on
/// when the hold has moved on, and is free when it is gone. Nothing of that needs another call of the log.
#[test]
fn every_way_to_move_the_first_lsn_stops_at_a_hold_and_goes_on_behind_it() {
    type Free = fn(&Log);
    let options = || Options::default().segment_bytes(64 << 10).idle_mark(Duration::from_millis(5));
    let by_rules = || options().retention(Retention::default().bytes(64 << 10));
    let nothing: Free = |_| {};
    let trim: Free = |log| assert!(log.trim(log.durable_lsn()).expect("trims") == log.first_lsn());
    let trim_stream: Free = |log| {
        let stream = log.stream(id(1));
        log.commit(stream.trim(stream.next_seq()).expect("trims")).expect("commits");
    };
    let ways: [(&str, Options, bool, Free); 3] = [
        ("Log::trim", options(), false, trim),
        ("rules", by_rules(), false, nothing),
        ("streams", options(), true, trim_stream),
    ];
    let row = |(way, options, in_stream, free): (&str, Options, bool, Free), there_at_opening: bool| {
        let dir = scratch();
        let hold = |lsn| Hold { lsn, note: String::new() }.write(dir.path(), "copy").expect("writes");
        let log = if there_at_opening {
            drop(Log::open(dir.path(), options.clone()).expect("opens"));
            hold(Lsn::ZERO);
            Log::open(dir.path(), options.clone()).expect("opens")
        } else {
            let log = Log::open(dir.path(), options.clone()).expect("opens");
            hold(Lsn::ZERO);
            log
        };
        let append = || {
            let stream = log.stream(id(1));
            for _ in 0..40 {
                let record = [7; 5000];
                if in_stream { stream.append(&record).map(drop) } else { log.append(&record).map(drop) }
                    .expect("appends");
            }
            log.commit(log.appended_lsn()).expect("commits");
            free(&log);
        };
        append();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(log.first_lsn(), Lsn::ZERO, "{way}: held from there");
        View::open(dir.path()).expect("looks").follow(Lsn::ZERO).expect("what is held is there");
        let before = log.appended_lsn();
        append();
        hold(before);
        until(way, || {
            free(&log);
            log.first_lsn() > Lsn::ZERO
        });
        std::thread::sleep(Duration::from_millis(200));
        assert!(log.first_lsn() <= before, "{way}: {} behind {before}", log.first_lsn());
        Hold::remove(dir.path(), "copy").expect("removes");
        if way == "Log::trim" {
            free(&log);
        }
        // No call follows.
        until(way, || log.stats().segments <= 2 && log.first_lsn() > before);
    };
    // Side by side, because each mostly waits for the log to look again.
    std::thread::scope(|scope| {
        for (way, there_at_opening) in ways.into_iter().flat_map(|way| [(way.clone(), false), (way, true)]) {
            scope.spawn(move || row(way, there_at_opening));
        }
    });
}

/// What is cut is forgotten of what was trimmed: a reader that has read such a batch says that it was overtaken.
#[test]
fn a_reader_that_a_trim_overtook_shows_nothing_that_was_cut() {
    let (_dir, log) = new_log(Options::default().segment_bytes(64 << 10));
    let kept = log.append(b"kept").expect("appends");
    log.append(b"cut off").expect("appends");
    log.commit(log.append(b"cut off").expect("appends").end).expect("commits");
    let mut reader = log.read(Lsn::ZERO).expect("reads");
    assert!(reader.next_record().expect("reads").is_some_and(|record| &*record.payload == b"kept"));
    log.truncate_after(kept.end).expect("cuts");
    log.trim(log.append_commit(b"behind").expect("commits").end).expect("trims");
    // The next segments state what is cut again, which is nothing that is left.
    for _ in 0..40 {
        log.append_commit(&[7; 5000]).expect("commits");
    }
    let end = log.append_commit(b"another").expect("commits").end;
    log.append_commit(b"cut off").expect("commits");
    log.commit(log.truncate_after(end).expect("cuts")).expect("commits");
    let found = reader.next_record().map(|record| record.map(|record| record.payload.to_vec()));
    assert!(matches!(found, Err(Error::Trimmed { .. })), "{found:?}");
}

#[cfg(feature = "mutants")]
#[test]
fn what_is_forgotten_of_the_cuts_is_found() {
    use seawall::mutant::{Mutant, finds};
    assert!(finds(Mutant::CutsPrunedUnseen, a_reader_that_a_trim_overtook_shows_nothing_that_was_cut));
}
