//! Tests recovery of headers with forged fields and correct checksums.
//!
//! Every 2, 4 and 8 bytes of every header of the small logs in the fuzzer's corpus get every value of a table, in one
//! header and in two at once, and every file every length. In every case recovery ends with a log or with an error;
//! of a log it returns the records without a gap up to the end, and the same ones after a second recovery.

use std::panic::catch_unwind;

use seawall::format::{preparing_name, segment_name};
use seawall::sim::arbitrary::recover_files;
use seawall::sim::forged::{files, mend_segment};

/// Inputs of the corpus, with files of 4096 bytes in blocks of 512.
const LOGS: [&[u8]; 5] = [
    include_bytes!("../../fuzz/corpus/recovery/torn"),
    include_bytes!("../../fuzz/corpus/recovery/closed"),
    include_bytes!("../../fuzz/corpus/recovery/reopened"),
    include_bytes!("../../fuzz/corpus/recovery/into-the-next-segment"),
    include_bytes!("../../fuzz/corpus/recovery/streams"),
];
const BLOCK: usize = 512;
/// What programs trip over: nothing, one, a block, a segment, the ends of what 16, 32 and 64 bits hold.
const VALUES: [u64; 17] = [
    0,
    1,
    2,
    3,
    4,
    96,
    512,
    513,
    1024,
    4096,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    u64::MAX / 2,
    u64::MAX - 1,
    u64::MAX,
];
const CHECKSUM_AT: usize = 124;

type Files = Vec<(String, Vec<u8>)>;

/// Each of the logs, and the first segment of each alone.
fn logs() -> Vec<(usize, Files)> {
    let all = LOGS.iter().map(|bytes| files(bytes)).flat_map(|files| [files.clone(), files[..1].to_vec()]);
    all.enumerate().collect()
}

/// Where headers start: file and byte.
fn headers(files: &Files) -> Vec<(usize, usize)> {
    let starts = |bytes: &[u8]| bytes.starts_with(b"SWLB") || bytes.starts_with(b"SWLS");
    let of_file = |(file, (_, bytes)): (usize, &(String, Vec<u8>))| {
        let at = (0..bytes.len()).step_by(BLOCK).filter(|at| starts(&bytes[*at..])).collect::<Vec<_>>();
        at.into_iter().map(move |at| (file, at))
    };
    files.iter().enumerate().flat_map(of_file).collect()
}

/// Fields that a header could have after magic and version: place and width in bytes.
fn fields() -> impl Iterator<Item = (usize, usize)> {
    let of_width =
        |width: usize| (6..CHECKSUM_AT).filter(move |at| at % width == 0).map(move |at| (at, width));
    [2, 4, 8].into_iter().flat_map(of_width).filter(|(at, width)| at + width <= CHECKSUM_AT)
}

fn put(files: &mut Files, (file, at): (usize, usize), (field, width): (usize, usize), value: u64) {
    files[file].1[at + field..][..width].copy_from_slice(&value.to_le_bytes()[..width]);
}

/// Recovers what `change` made of the files; what broke, if a promise was.
fn broken(base: &Files, change: impl FnOnce(&mut Files)) -> Option<String> {
    let mut forged = base.clone();
    change(&mut forged);
    for (_, bytes) in &mut forged {
        mend_segment(bytes);
    }
    let caught = catch_unwind(|| drop(recover_files(&forged))).err()?;
    let text = caught.downcast_ref::<String>().cloned();
    Some(text.or_else(|| caught.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
}

fn none_broken(found: &[String]) {
    assert!(found.is_empty(), "{} broken, of which: {:#?}", found.len(), &found[..found.len().min(20)]);
}

/// Puts every value into the fields of `width` in all of `places` at once.
fn every_value(
    (log, base): (usize, &Files),
    places: &[(usize, usize)],
    width: impl Fn(usize) -> bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for field in fields().filter(|(_, bytes)| width(*bytes)) {
        for value in VALUES {
            let why = broken(base, |files| places.iter().for_each(|place| put(files, *place, field, value)));
            found.extend(why.map(|why| format!("log {log} {places:?} {field:?} = {value}: {why}")));
        }
    }
    found
}

#[test]
fn every_field_of_one_header() {
    let mut found = Vec::new();
    for (log, base) in logs() {
        for place in headers(&base) {
            found.extend(every_value((log, &base), &[place], |_| true));
        }
    }
    none_broken(&found);
}

/// Two headers that agree on the same lie, as the two copies of a segment header or a batch and the one after it.
#[test]
fn the_same_field_of_two_headers() {
    let mut found = Vec::new();
    for (log, base) in logs() {
        let places = headers(&base);
        for (i, first) in places.iter().enumerate() {
            for second in &places[i + 1..] {
                found.extend(every_value((log, &base), &[*first, *second], |bytes| bytes == 8));
            }
        }
    }
    none_broken(&found);
}

/// Files of every length, their headers gone, in a log whose blocks may be larger than they are.
#[test]
fn prepared_files_of_any_length() {
    let mut found = Vec::new();
    for (log, base) in logs() {
        for block in [512_u16, 1024, 2048] {
            for length in (0..20).map(|n| n * 256).chain([1, 127, 128, 129, 511, 513, 4095]) {
                for name in [segment_name(1), segment_name(3), segment_name(7), preparing_name(3)] {
                    let why = broken(&base, |files| {
                        for place in headers(files) {
                            put(files, place, (6, 2), block.into());
                        }
                        files.retain(|(other, _)| *other != name);
                        files.push((name.clone(), vec![0; length]));
                    });
                    found.extend(
                        why.map(|why| format!("log {log} block {block} {name} {length} long: {why}")),
                    );
                }
            }
        }
    }
    none_broken(&found);
}

#[test]
fn the_table_reaches_what_it_is_about() {
    assert_eq!(fields().map(|(at, width)| at + width).max(), Some(CHECKSUM_AT));
    for (log, base) in logs() {
        assert!(headers(&base).len() >= 4, "log {log}");
        // The last two are forged already.
        assert!(recover_files(&base).is_ok_and(|found| !found.records.is_empty()) || log >= 6, "log {log}");
    }
}
