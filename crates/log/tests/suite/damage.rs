//! Tests opening on the real file system after damage to every single field and after every truncation.
//!
//! The rule is the same for all of them: either the log opens with everything that was acknowledged, or it refuses
//! with an error that names the file. It never opens with less, and never hands out a changed record.

use std::path::{Path, PathBuf};

use crate::fixture::{new_log, payloads};
use crate::written::{
    BLOCK, PER_SEGMENT, RECORD_BYTES, RECORDS, SEGMENT, options, record, with_bytes, written,
};
use seawall::format::{BATCH_HEADER_BYTES, SEGMENT_HEADER_BYTES, segment_name};
use seawall::{Error, Log, Lsn};

/// Opens the damaged log; whatever happens, it must not pass over the damage in silence.
fn judge(dir: &Path, damaged: &Path, what: &str) -> bool {
    match Log::open(dir, options()) {
        Ok(log) => {
            let records = log.read(Lsn::ZERO).expect("reads").map_while(Result::ok);
            let found: Vec<Vec<u8>> = records.map(|record| record.payload.to_vec()).collect();
            let expected: Vec<Vec<u8>> = (0..RECORDS).map(record).collect();
            assert!(found == expected, "{what}: opened with {} of {RECORDS} records", found.len());
            true
        }
        Err(error) => {
            let path = match &error {
                Error::Corrupt(damage) => &damage.path,
                Error::NewerFormat { path, .. } | Error::ForeignSegment { path } => path,
                other => panic!("{what}: {other}"),
            };
            assert_eq!(path, damaged, "{what}: {error}");
            assert!(error.to_string().contains(damaged.to_str().expect("is text")), "{what}: {error}");
            false
        }
    }
}

/// Everything in the directory before the first test, to be put back after one that opened the log.
fn restore(dir: &Path, files: &[(PathBuf, Vec<u8>)]) {
    for entry in std::fs::read_dir(dir).expect("lists") {
        let path = entry.expect("lists").path();
        if !files.iter().any(|(known, _)| *known == path) {
            std::fs::remove_file(path).expect("removes");
        }
    }
    for (path, bytes) in files {
        std::fs::write(path, bytes).expect("writes");
    }
}

fn snapshot(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = std::fs::read_dir(dir).expect("lists").map(|entry| entry.expect("lists").path());
    paths.map(|path| (path.clone(), std::fs::read(&path).expect("reads"))).collect()
}

/// Peers: four silently drop everything after a flipped byte in the middle; four hand out garbage.
#[test]
fn every_field_of_a_batch_header_in_the_last_segment() {
    let (dir, names) = written();
    let last = names.last().expect("some");
    let before = snapshot(dir.path());
    for field_byte in 0..BATCH_HEADER_BYTES {
        with_bytes(
            last,
            |bytes| bytes[BLOCK + field_byte] ^= 1 << (field_byte % 8),
            || {
                let opened = judge(dir.path(), last, &format!("byte {field_byte}"));
                assert!(!opened, "byte {field_byte} of an acknowledged batch is damaged unnoticed");
            },
        );
    }
    restore(dir.path(), &before);
    assert!(judge(dir.path(), last, "undamaged"));
}

/// Record header (length, and the bit that says more follow), payload, padding to the block: all under the checksum.
#[test]
fn every_part_of_a_record_in_the_last_segment() {
    let (dir, names) = written();
    let last = names.last().expect("some");
    let before = snapshot(dir.path());
    let record = BLOCK + BATCH_HEADER_BYTES;
    let end = record + 4 + RECORD_BYTES;
    // The close mark is a witness also of the very last one.
    let last_record = record + (PER_SEGMENT - 1) * 2 * BLOCK;
    let places = [record + 4, record + 2500, end - 1, end, 3 * BLOCK - 1, last_record + 4];
    let places = (record..record + 4).chain(places);
    for (place, bit) in places.flat_map(|place| [(place, 0), (place, 7)]) {
        with_bytes(
            last,
            |bytes| bytes[place] ^= 1 << bit,
            || {
                let opened = judge(dir.path(), last, &format!("bit {bit} of byte {place}"));
                assert!(!opened, "bit {bit} of byte {place} of an acknowledged batch is damaged unnoticed");
            },
        );
    }
    restore(dir.path(), &before);
    assert!(judge(dir.path(), last, "undamaged"));
}

#[test]
fn every_field_of_a_segment_header() {
    let (dir, names) = written();
    let before = snapshot(dir.path());
    for segment in &names {
        for byte in (0..SEGMENT_HEADER_BYTES).step_by(4).chain([SEGMENT_HEADER_BYTES - 1]) {
            let flip = |bytes: &mut Vec<u8>, copies: &[usize]| {
                for copy in copies {
                    bytes[*copy + byte] ^= 0x10;
                }
            };
            let what = format!("byte {byte} of {}", segment.display());
            with_bytes(
                segment,
                |bytes| flip(bytes, &[0]),
                || {
                    assert!(judge(dir.path(), segment, &what), "{what}: the other copy is sound");
                },
            );
            restore(dir.path(), &before);
            with_bytes(
                segment,
                |bytes| flip(bytes, &[0, SEGMENT - BLOCK]),
                || {
                    assert!(!judge(dir.path(), segment, &what), "{what} in both copies");
                },
            );
            restore(dir.path(), &before);
        }
    }
}

/// Found by the fuzzer: with its open mark gone, a batch after a close mark was forgotten, and came back with the next
/// opening, which wrote the very same mark again.
#[test]
fn a_damaged_open_mark_does_not_make_what_follows_it_forgotten() {
    let (dir, log) = new_log(options());
    log.append_commit(b"before").expect("commits");
    log.close().expect("closes");
    let log = Log::open(dir.path(), options()).expect("opens");
    log.append_commit(b"behind").expect("commits");
    drop(log);
    // Header, record, close mark, open mark.
    let (segment, open_mark) = (dir.path().join(segment_name(1)), 3 * BLOCK);
    with_bytes(
        &segment,
        |bytes| bytes[open_mark + 30] ^= 1,
        || match Log::open(dir.path(), options()) {
            Err(Error::Corrupt(damage)) => {
                assert_eq!((&damage.path, damage.offset), (&segment, open_mark as u64));
            }
            other => panic!("{other:?}"),
        },
    );
    let log = Log::open(dir.path(), options()).expect("opens");
    assert_eq!(payloads(&log), [b"before", b"behind"]);
}

/// Damage in an older segment shows when it is read, at the latest.
#[test]
fn a_damaged_record_in_an_older_segment_is_never_handed_out() {
    let (dir, names) = written();
    for offset in [BLOCK, BLOCK + BATCH_HEADER_BYTES + 10, 3 * BLOCK + 4000] {
        with_bytes(
            &names[0],
            |bytes| bytes[offset] ^= 0x40,
            || {
                let log = match Log::open(dir.path(), options()) {
                    Ok(log) => log,
                    Err(Error::Corrupt(damage)) => return assert_eq!(damage.path, names[0]),
                    Err(other) => panic!("{other}"),
                };
                let mut due = 0;
                let mut reader = log.read(Lsn::ZERO).expect("reads");
                let error = loop {
                    match reader.next_record() {
                        Ok(Some(found)) => assert_eq!(found.payload.to_vec(), record(due)),
                        Ok(None) => panic!("byte {offset}: the log ends before the damage without a word"),
                        Err(error) => break error,
                    }
                    due += 1;
                };
                match error {
                    Error::Corrupt(damage) => {
                        let batch = (offset - BLOCK) / (2 * BLOCK) * (2 * BLOCK) + BLOCK;
                        assert_eq!((damage.path, damage.offset), (names[0].clone(), batch as u64));
                    }
                    other => panic!("{other}"),
                }
                // Left open: a close would write after the damage, which is of no interest here.
            },
        );
    }
}
