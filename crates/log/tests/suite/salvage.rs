//! Tests `verify` and `salvage` on damaged logs.
//!
//! The rule: damage to one segment costs what was damaged of it and nothing of another one, all of it is listed, and
//! the copy holds the intact records in order, without trimmed ones.

use std::path::Path;

use crate::fixture::{change, new_log, payloads, scratch};
use crate::written::{BLOCK, PER_SEGMENT, RECORD_BYTES, RECORDS, SEGMENT, options, with_bytes, written};
use seawall::format::{BATCH_HEADER_BYTES, segment_name};
use seawall::{Error, Log, Lsn, Salvaged, View, salvage, verify};

/// The first bytes of the records of a log.
fn content(dir: &Path) -> Vec<u8> {
    let log = Log::open(dir, options().create(false)).expect("opens");
    payloads(&log).iter().map(|payload| payload[0]).collect()
}

/// Salvages a log; what was done, and the first bytes of the records of the copy.
fn salvaged(from: &Path, what: &str) -> (Salvaged, Vec<u8>) {
    let to = scratch();
    let to = to.path().join("log");
    let done = salvage(from, &to, options()).unwrap_or_else(|error| panic!("{what}: {error}"));
    (done, content(&to))
}

/// Both ways of looking name `damaged` and nothing else, and find all records but those `lost`.
fn judge(dir: &Path, damaged: &Path, lost: std::ops::Range<usize>, what: &str) {
    let left: Vec<u8> = (0..RECORDS).filter(|i| !lost.contains(&usize::from(*i))).collect();
    let report = verify(dir).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(!report.damage.is_empty(), "{what}");
    assert!(report.damage.iter().all(|damage| damage.path == damaged), "{what}: {:?}", report.damage);
    assert_eq!(report.records, left.len() as u64, "{what}");
    let (done, copied) = salvaged(dir, what);
    assert_eq!(copied, left, "{what}");
    assert_eq!(done.records, left.len() as u64, "{what}");
    assert_eq!(done.report, report, "{what}: what was left out is named as verify names it");
    let refused = Log::open(dir, options()).expect_err("opening refuses");
    assert!(matches!(&refused, Error::Corrupt(damage) if damage.path == damaged), "{what}: {refused}");
    assert!(refused.to_string().contains(damaged.to_str().expect("is text")), "{what}: {refused}");
}

/// The records of the segment at `index`.
fn held(index: usize) -> std::ops::Range<usize> {
    index * PER_SEGMENT..((index + 1) * PER_SEGMENT).min(usize::from(RECORDS))
}

#[test]
fn a_segment_that_was_cut_costs_what_was_cut_off_it_and_no_other_one() {
    let (dir, names) = written();
    for (index, segment) in names.iter().enumerate() {
        for bytes in [0, 1, 95, 512, BLOCK, 3 * BLOCK, 30_000, SEGMENT / 2, SEGMENT - BLOCK, SEGMENT - 1] {
            let what = format!("{} cut to {bytes} bytes", segment.display());
            let whole = (bytes / BLOCK).saturating_sub(1) / 2;
            let all = held(index);
            let lost = (all.start + whole).min(all.end)..all.end;
            with_bytes(segment, |all| all.truncate(bytes), || judge(dir.path(), segment, lost, &what));
        }
    }
}

/// Two neighbours, one of them gone altogether.
#[test]
fn damage_to_neighbours_costs_no_third_one() {
    let (dir, names) = written();
    let empty = |bytes: &mut Vec<u8>| bytes.clear();
    let wiped = |bytes: &mut Vec<u8>| wipe(bytes);
    with_bytes(&names[1], empty, || {
        with_bytes(&names[2], wiped, || {
            let report = verify(dir.path()).expect("verifies");
            let damaged: Vec<&Path> = report.damage.iter().map(|damage| damage.path.as_path()).collect();
            assert_eq!(damaged, [&names[1], &names[2]]);
            assert_eq!(report.damage[0].lsn, Lsn::new((PER_SEGMENT * (RECORD_BYTES + 4)) as u64));
            let left: Vec<u8> = (0..RECORDS).filter(|i| !held(1).contains(&usize::from(*i))).collect();
            assert_eq!(salvaged(dir.path(), "neighbours").1, left);
        });
    });
}

/// Wipes both copies of a segment's header.
fn wipe(bytes: &mut [u8]) {
    bytes[..BLOCK].fill(0);
    bytes[SEGMENT - BLOCK..].fill(0);
}

#[test]
fn a_segment_without_a_header_is_walked_by_its_batches() {
    let (dir, names) = written();
    for (index, segment) in names.iter().enumerate() {
        let what = format!("{} without its header", segment.display());
        with_bytes(segment, |bytes| wipe(bytes), || judge(dir.path(), segment, 0..0, &what));
        // And without what is damaged of it besides.
        for damaged in 0..2 {
            let what = format!("{what} and record {damaged} of it");
            let at = BLOCK + damaged * 2 * BLOCK + BATCH_HEADER_BYTES + 100;
            let change = |bytes: &mut Vec<u8>| {
                wipe(bytes);
                bytes[at] ^= 1;
            };
            let lost = held(index).start + damaged..held(index).start + damaged + 1;
            with_bytes(segment, change, || judge(dir.path(), segment, lost, &what));
        }
    }
}

/// No header of a segment is left: what the batches say of log and blocks is enough.
#[test]
fn a_log_without_any_header_is_walked_by_its_batches() {
    for (records, least) in [(3, 1), (25, 3)] {
        for block in [512, 1024, 4096] {
            let what = format!("{records} records, blocks of {block} bytes");
            let (dir, log) = new_log(options().block_bytes(block));
            for i in 0..records {
                log.append_commit(&crate::written::record(i)).expect("commits");
            }
            let segments = log.stats().segments;
            assert!(segments >= least && (least > 1 || segments == 1), "{what}: {segments} segments");
            log.close().expect("closes");
            let paths: Vec<_> = (1..=segments).map(|number| dir.path().join(segment_name(number))).collect();
            for path in &paths {
                change(path, |bytes| {
                    for at in [0, SEGMENT - usize::from(block)] {
                        bytes[at..at + 96].iter_mut().for_each(|byte| *byte ^= 0x5A);
                    }
                });
            }
            let report = verify(dir.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
            let damaged: Vec<_> = report.damage.iter().map(|damage| damage.path.clone()).collect();
            assert_eq!((damaged, report.class), (paths, None), "{what}: {:?}", report.damage);
            assert_eq!((report.records, report.block_bytes), (records.into(), block), "{what}");
            let (done, copied) = salvaged(dir.path(), &what);
            assert_eq!(copied, (0..records).collect::<Vec<_>>(), "{what}");
            assert_eq!((done.left_out, done.report.segments), (Vec::new(), segments), "{what}");
            for refused in [View::open(dir.path()).err(), Log::open(dir.path(), options()).err()] {
                assert!(matches!(refused, Some(Error::Corrupt(_))), "{what}: {refused:?}");
            }
        }
    }
}

#[test]
fn what_was_trimmed_does_not_come_back() {
    let (dir, log) = new_log(options());
    // Many records in one batch: the log begins in the middle of it.
    let starts: Vec<Lsn> = (0..8).map(|i| log.append(&[i; 100]).expect("appends").end).collect();
    log.commit(*starts.last().expect("some")).expect("commits");
    let first = log.trim(starts[4]).expect("trims");
    log.append_commit(&[8; 100]).expect("commits");
    log.close().expect("closes");
    let log = Log::open(dir.path(), options()).expect("opens");
    assert_eq!(log.opened().first, first);
    let left: Vec<u8> = payloads(&log).iter().map(|payload| payload[0]).collect();
    log.close().expect("closes");
    assert!(left.len() < 9 && left.ends_with(&[8]), "{left:?}");
    assert_eq!(salvaged(dir.path(), "trimmed").1, left);
}

#[test]
fn records_of_any_length_are_copied() {
    let dir = scratch();
    let bound = 3 << 20;
    let log = Log::open(dir.path(), options().record_bytes_max(bound)).expect("opens");
    log.append_commit(&vec![1; bound - 4]).expect("commits");
    let pieces = |transaction: &mut seawall::Transaction| {
        (2..5).try_for_each(|i| transaction.append(&vec![i; 900_000]))
    };
    let end = log.transaction::<Error>(pieces).expect("appends");
    log.commit(end).expect("commits");
    log.close().expect("closes");
    let to = scratch();
    let done = salvage(dir.path(), to.path(), options().record_bytes_max(1000)).expect("salvages");
    assert_eq!((done.records, done.end), (4, end));
    assert_eq!(content(to.path()), [1, 2, 3, 4]);
}

/// A source that cannot be read leaves the target as it was: not there, or with what was there.
#[test]
fn a_target_is_left_alone_when_nothing_can_be_copied() {
    let dir = scratch();
    let (nothing, target) = (dir.path().join("nope"), dir.path().join("made/for/it"));
    let refusal = salvage(&nothing, &target, options()).expect_err("there is no source").to_string();
    assert!(refusal.contains("nope"), "{refusal}");
    assert!(!dir.path().join("made").exists());
    // A directory without a log, and a target with a foreign file.
    std::fs::create_dir_all(&target).expect("makes");
    std::fs::write(target.join("note"), b"mine").expect("writes");
    let refused = salvage(dir.path(), &target, options());
    assert!(matches!(refused, Err(Error::NotALog { .. })), "{refused:?}");
    let names = || -> Vec<_> {
        std::fs::read_dir(&target).expect("lists").map(|entry| entry.expect("lists").file_name()).collect()
    };
    assert_eq!(names(), ["note"]);
    // Nor is a log opened that is there: opening writes to it.
    let (source, segments) = written();
    let before = std::fs::read(segments.last().expect("some")).expect("reads");
    let refused = salvage(source.path(), source.path(), options());
    assert!(matches!(refused, Err(Error::InvalidOption { option: "to", .. })), "{refused:?}");
    assert_eq!(std::fs::read(segments.last().expect("some")).expect("reads"), before);
    // What was there already stays next to the copy.
    salvage(source.path(), &target, options()).expect("salvages");
    assert!(names().len() > 1 && target.join("note").exists());
}

/// The target is made and cannot be used: what was made of it goes.
#[test]
#[cfg(unix)]
fn a_target_that_cannot_be_made_is_cleared_away() {
    let (source, _) = written();
    let dir = scratch();
    let target = dir.path().join("made/for/it");
    let impossible = options().method(seawall::MethodChoice::Named("no such method".to_owned()));
    salvage(source.path(), &target, impossible).expect_err("there is no such method");
    assert!(!dir.path().join("made").exists());
}
