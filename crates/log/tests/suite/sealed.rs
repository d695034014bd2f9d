//! Tests that the pieces of a log make the same log elsewhere, that nothing else passes for it, and that holds stop trims.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fixture::{id, new_log, scratch};
use seawall::{
    Error, Hold, Log, Lsn, Options, Rebuild, RebuildTo, SealedBatch, SealedCheck, Tail, View, verify,
};

const NOW: Duration = Duration::ZERO;

fn options() -> Options {
    let options = Options::default().segment_bytes(64 << 10).block_bytes(512).batch_bytes(8 << 10);
    options.idle_mark(Duration::from_millis(1))
}

/// A log of several segments, opened three times and once not closed, with streams, long records, marks and transactions.
fn written(dir: &Path) -> Lsn {
    for round in 0..3_u8 {
        let log = Log::open(dir, options()).expect("opens");
        for i in 0..40_u8 {
            log.append_commit(&vec![i ^ round; usize::from(i) * 37]).expect("commits");
            if i % 16 == 3 {
                let stream = log.stream(id(i.into()));
                stream.append(b"of a stream").expect("appends");
                log.append_commit(&vec![7; 20_000]).expect("commits");
                // Time for a mark.
                std::thread::sleep(Duration::from_millis(4));
            }
        }
        let both = log.transaction::<Error>(|open| open.append(b"a").and_then(|()| open.append(b"b")));
        log.commit(both.expect("appends")).expect("commits");
        if round == 1 {
            drop(log);
        } else {
            log.close().expect("closes");
        }
    }
    View::open(dir).expect("opens").end_lsn()
}

fn batches(dir: &Path, from: Lsn) -> Vec<SealedBatch> {
    let mut follower = View::open(dir).expect("opens").follow_sealed(from).expect("follows");
    std::iter::from_fn(|| follower.next_batch(NOW).expect("reads")).collect()
}

fn piece(batch: &SealedBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    batch.append_to(&mut bytes);
    bytes
}

fn pieces(batches: &[SealedBatch]) -> Vec<Vec<u8>> {
    batches.iter().map(piece).collect()
}

fn rebuilt(to: &Path, pieces: &[Vec<u8>], until: RebuildTo) -> seawall::Result<seawall::Report> {
    let mut rebuild = Rebuild::begin(to, until)?;
    for piece in pieces {
        if !rebuild.push(piece)? {
            break;
        }
    }
    rebuild.finish()
}

/// The segments that were started, by name.
fn segments(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read(path).expect("reads"))
    };
    let all = crate::fixture::segments(dir).into_iter().map(read);
    all.filter(|(_, bytes)| bytes.starts_with(b"SWLS")).collect()
}

#[test]
fn a_rebuilt_log_has_the_same_bytes_the_same_identity_and_goes_on() {
    let dir = scratch();
    let (from, to) = (dir.path().join("log"), dir.path().join("again"));
    let end = written(&from);
    let batches = batches(&from, Lsn::ZERO);
    assert!(batches.iter().filter(|batch| batch.segment.is_some()).count() >= 4, "several segments");
    assert!(batches.iter().filter(|batch| batch.records == 0).count() >= 6, "marks, closes and opens");
    let report = rebuilt(&to, &pieces(&batches), RebuildTo::default()).expect("rebuilds");
    assert_eq!((report.end, report.tail), (end, Tail::Torn));
    assert_eq!(report, verify(&to).expect("verifies"));
    assert!(!to.with_extension("partial").exists());
    let (original, copy) = (segments(&from), segments(&to));
    assert_eq!(original.len(), copy.len());
    for ((name, original), (same, copy)) in original.iter().zip(&copy).take(original.len() - 1) {
        assert!(name == same && original == copy, "{name} differs");
    }
    // Of the last one everything up to the close mark, which no record follows.
    let (last, copied) = (&original[original.len() - 1].1, &copy[copy.len() - 1].1);
    let differs = last.iter().zip(copied).position(|(a, b)| a != b).expect("the close mark");
    assert_eq!(&last[differs..differs + 4], b"SWLB");
    assert!(copied[differs..copied.len() - 512].iter().all(|byte| *byte == 0));
    let all = |dir: &Path| {
        let view = View::open(dir).expect("opens");
        let records = view.read(view.first_lsn()).expect("reads").map(|record| record.expect("sound"));
        records.map(|record| (record.lsn, record.payload.to_vec(), record.stream)).collect::<Vec<_>>()
    };
    assert_eq!(all(&from), all(&to));
    let (old, new) = (View::open(&from).expect("opens").log_id(), View::open(&to).expect("opens").log_id());
    assert_eq!(old, new);
    let log = Log::open(&to, options()).expect("opens");
    assert_eq!(log.opened().epoch, 4, "a later epoch than any before");
    assert!(log.append_commit(b"goes on").expect("commits").end > end);
}

#[test]
fn a_follower_goes_on_where_any_batch_ended() {
    let dir = scratch();
    written(dir.path());
    let all = batches(dir.path(), Lsn::ZERO);
    let with_records: Vec<usize> = (0..all.len()).filter(|at| all[*at].records > 0).collect();
    for at in with_records {
        let mut follower =
            View::open(dir.path()).expect("opens").follow_sealed(all[at].end).expect("follows");
        assert_eq!((follower.lsn(), follower.link()), (all[at].end, all[at].link));
        let next = follower.next_batch(NOW).expect("reads");
        assert_eq!(next.map(|next| next.link), all.get(at + 1).map(|next| next.link), "behind batch {at}");
    }
    let inside = Lsn::new(all.iter().find(|batch| batch.records > 0).expect("one").end.get() - 1);
    let refused = View::open(dir.path()).expect("opens").follow_sealed(inside);
    assert!(matches!(refused, Err(Error::NoBatch { lsn }) if lsn == inside), "{refused:?}");
    let beyond = View::open(dir.path()).expect("opens").follow_sealed(Lsn::MAX);
    assert!(matches!(beyond, Err(Error::BeyondEnd { .. })), "{beyond:?}");
}

#[test]
fn a_follower_of_an_open_log_gets_what_is_durable_and_nothing_else() {
    let (dir, log) = new_log(options());
    let first = log.append_commit(b"one").expect("commits").end;
    let mut follower = View::open(dir.path()).expect("opens").follow_sealed(Lsn::ZERO).expect("follows");
    let limit = Duration::from_secs(20);
    let batch = follower.next_batch(limit).expect("reads").expect("it is durable");
    assert_eq!((batch.lsn, batch.end, batch.records), (Lsn::ZERO, first, 1));
    log.append(b"not committed").expect("appends");
    assert!(follower.next_batch(NOW).expect("reads").is_none());
    let end = log.append_commit(b"committed").expect("commits").end;
    let mut seen = first;
    while seen < end {
        let batch = follower.next_batch(limit).expect("reads").expect("it is durable");
        assert_eq!(batch.lsn, seen);
        seen = batch.end;
    }
    assert_eq!(seen, end);
}

#[test]
fn a_log_is_rebuilt_to_a_position_or_a_time() {
    let dir = scratch();
    let from = dir.path().join("log");
    written(&from);
    let all = batches(&from, Lsn::ZERO);
    let pieces = pieces(&all);
    for (number, at) in [3, all.len() / 2, all.len() - 1].into_iter().enumerate() {
        let to = dir.path().join(format!("lsn-{number}"));
        let lsn = all[at].end;
        let report = rebuilt(&to, &pieces, RebuildTo { lsn, ..RebuildTo::default() }).expect("rebuilds");
        assert_eq!(report.end, lsn);
        let to = dir.path().join(format!("within-{number}"));
        let within = Lsn::new(lsn.get() + 1);
        let report = rebuilt(&to, &pieces, RebuildTo { lsn: within, ..RebuildTo::default() });
        assert_eq!(report.expect("rebuilds").end, lsn, "whole batches only");
        let time_us = all[at].time_us;
        let last = all.iter().take_while(|batch| batch.records == 0 || batch.time_us <= time_us).last();
        let to = dir.path().join(format!("time-{number}"));
        let report = rebuilt(&to, &pieces, RebuildTo { time_us, ..RebuildTo::default() }).expect("rebuilds");
        assert_eq!(report.end, last.expect("some").end);
    }
    let refused = rebuilt(&dir.path().join("none"), &[], RebuildTo::default());
    assert!(matches!(refused, Err(Error::NotALog { .. })), "{refused:?}");
    let there = rebuilt(&from, &pieces, RebuildTo::default());
    assert!(matches!(there, Err(Error::InvalidOption { .. })), "{there:?}");
}

/// Every piece left out, sent twice, exchanged with the next one, cut short, or with any one bit changed.
#[test]
fn pieces_that_are_not_those_of_the_log_are_refused() {
    let dir = scratch();
    written(dir.path());
    let pieces = pieces(&batches(dir.path(), Lsn::ZERO));
    let sound = |pieces: &[Vec<u8>]| {
        let mut check = SealedCheck::new();
        pieces.iter().try_for_each(|piece| check.check(piece)).map(|()| check)
    };
    let whole = sound(&pieces).expect("is sound");
    assert_eq!(whole.batches(), pieces.len() as u64);
    let mut refused = 0;
    for at in 0..pieces.len() - 1 {
        let mut missing = pieces.clone();
        missing.remove(at);
        let mut twice = pieces.clone();
        twice.insert(at, pieces[at].clone());
        let mut exchanged = pieces.clone();
        exchanged.swap(at, at + 1);
        let mut short = pieces.clone();
        short[at].pop();
        for (what, wrong) in
            [("missing", missing), ("twice", twice), ("exchanged", exchanged), ("short", short)]
        {
            assert!(matches!(sound(&wrong), Err(Error::Corrupt(_))), "piece {at} {what}");
            refused += 1;
        }
    }
    let mut rng = seawall::sim::rng::Rng::new(7);
    for _ in 0..400 {
        let at = rng.index(pieces.len());
        let mut wrong = pieces.clone();
        let bit = rng.index(wrong[at].len() * 8);
        wrong[at][bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(sound(&wrong), Err(Error::Corrupt(_))), "piece {at} bit {bit}");
        refused += 1;
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn a_rebuilt_log_that_was_trimmed_has_what_the_log_has() {
    let dir = scratch();
    let (from, to) = (dir.path().join("log"), dir.path().join("again"));
    let log = Log::open(&from, options()).expect("opens");
    let mut follower = View::open(&from).expect("opens").follow_sealed(Lsn::ZERO).expect("follows");
    let mut pieces = Vec::new();
    let mut last = Lsn::ZERO;
    for i in 0..60_u8 {
        last = log.append_commit(&vec![i; 4000]).expect("commits").end;
        if i == 50 {
            log.trim(last).expect("trims");
        }
        while let Some(batch) = follower.next_batch(NOW).expect("reads") {
            pieces.push(piece(&batch));
        }
    }
    while follower.lsn() < last {
        let batch = follower.next_batch(Duration::from_secs(20)).expect("reads").expect("it is durable");
        pieces.push(piece(&batch));
    }
    let report = rebuilt(&to, &pieces, RebuildTo::default()).expect("rebuilds");
    assert_eq!((report.first, report.end), (log.first_lsn(), last));
    assert!(report.segments <= 3, "{report:?}: what was trimmed is not kept");
    let half = pieces.iter().position(|piece| piece.starts_with(b"SWLS")).expect("a segment");
    let late = pieces.iter().skip(half + 1).position(|piece| piece.starts_with(b"SWLS")).expect("another");
    // Without the oldest segment what is before the trim lacks records.
    let to = dir.path().join("lacks");
    let early = RebuildTo { lsn: Lsn::new(last.get() / 2), ..RebuildTo::default() };
    let lacking = rebuilt(&to, &pieces[half + 1 + late..], early);
    assert!(matches!(lacking, Err(Error::Corrupt(_))), "{lacking:?}");
}

#[test]
fn a_hold_stops_trims_of_any_process_until_it_is_moved_or_removed() {
    let (dir, log) = new_log(options());
    let ends: Vec<Lsn> = (0..40).map(|i| log.append_commit(&vec![i; 10_000]).expect("commits").end).collect();
    assert_eq!(Hold::read(dir.path(), "a").expect("reads"), None);
    let hold = Hold { lsn: ends[5], note: "of a test\nin two lines".to_owned() };
    hold.write(dir.path(), "a").expect("writes");
    assert_eq!(Hold::read(dir.path(), "a").expect("reads"), Some(hold.clone()));
    assert_eq!(log.trim(ends[3]).expect("trims"), ends[3]);
    assert_eq!(log.trim(ends[30]).expect("trims"), ends[5]);
    assert_eq!(log.stats().pinned, Some(ends[5]));
    Hold { lsn: ends[8], ..hold.clone() }.write(dir.path(), "b").expect("writes");
    Hold { lsn: ends[20], ..hold }.write(dir.path(), "a").expect("writes");
    assert_eq!(log.trim(ends[30]).expect("trims"), ends[8], "the lowest of two");
    Hold::remove(dir.path(), "b").expect("removes");
    assert_eq!(log.trim(ends[30]).expect("trims"), ends[20]);
    log.close().expect("closes");
    let log = Log::open(dir.path(), options()).expect("opens");
    assert_eq!(log.opened().foreign_files, Vec::<String>::new());
    assert_eq!(log.stats().pinned, Some(ends[20]), "it is looked at when the log is opened");
    std::fs::write(dir.path().join("HOLD-c"), "rubbish").expect("writes");
    let refused = log.trim(ends[30]).expect_err("it may hold anything").to_string();
    assert!(refused.contains("HOLD-c"), "{refused}");
    assert_eq!(log.first_lsn(), ends[20]);
    Hold::remove(dir.path(), "c").expect("removes");
    Hold::remove(dir.path(), "a").expect("removes");
    Hold::remove(dir.path(), "a").expect("there is none to remove");
    assert_eq!(log.trim(ends[30]).expect("trims"), ends[30]);
    assert!(matches!(Hold::read(dir.path(), "../x"), Err(Error::InvalidOption { .. })));
}
