//! Tests that prepared space is not believed from how it was made: what a copy left out is filled before a commit counts on it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::fixture::{count, scratch, segments, until_prepared};
use seawall::{Log, MethodChoice, Options, backup};
use seawall_sys::layout::{Layout, layout};
use seawall_sys::skip::skipped;

const SEGMENT: u64 = 256 << 10;

fn options() -> Options {
    Options::default()
        .segment_bytes(SEGMENT)
        .batch_bytes(4096)
        .memory_bytes(1 << 20)
        .idle_mark(Duration::from_millis(5))
        .method(MethodChoice::Named("direct+dsync".to_owned()))
}

/// What the segments of a log are, as the file system says.
fn layouts(dir: &Path) -> Vec<(String, Option<Layout>)> {
    let layout_of = |path: PathBuf| {
        let file = File::open(&path).expect("opens");
        file.sync_all().expect("syncs");
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, layout(&file, &path).expect("maps"))
    };
    segments(dir).into_iter().map(layout_of).collect()
}

fn written(layout: Option<Layout>) -> u64 {
    layout.map_or(0, |layout| layout.written_bytes)
}

/// Makes holes of all blocks of zeros.
fn dig(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-r", "--sparse=always"]).arg(from).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "cp copies");
}

/// Reserves the blocks of a file again, so that they are there and not written.
fn reserve_only(path: &Path) {
    let (bytes, length) = (fs::read(path).expect("reads"), fs::metadata(path).expect("is there").len());
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    fs::remove_file(path).expect("removes");
    fs::write(path, &bytes[..used]).expect("writes");
    let grown = Command::new("fallocate").args(["-l", &length.to_string()]).arg(path).status();
    assert!(grown.is_ok_and(|status| status.success()), "fallocate reserves");
}

#[test]
fn what_became_a_hole_is_filled_before_it_is_counted_on() {
    let dir = scratch();
    let [whole, sparse, reserved, backed_up] =
        ["log", "sparse", "reserved", "backup"].map(|name| dir.path().join(name));
    let log = Log::open(&whole, options()).expect("opens");
    for _ in 0..20 {
        log.append_commit(&[7; 1000]).expect("commits");
    }
    until_prepared(&log);
    log.close().expect("closes");
    let made = layouts(&whole);
    if made.iter().any(|(_, layout)| layout.is_none()) {
        return skipped("this file system does not say which blocks are written: holes were not looked for");
    }
    assert!(made.len() >= 2 && made.iter().all(|(_, layout)| written(*layout) >= SEGMENT), "{made:?}");
    dig(&whole, &sparse);
    dig(&whole, &reserved);
    for (name, _) in &made {
        reserve_only(&reserved.join(name));
    }
    backup(&whole, &backed_up).expect("copies");
    for copy in [&sparse, &reserved, &backed_up] {
        let before = layouts(copy);
        let is_backup = copy == &backed_up;
        assert!(is_backup || before.iter().any(|(_, layout)| written(*layout) < SEGMENT), "{before:?}");
        let log = Log::open(copy, options()).expect("opens");
        assert_eq!(count(&log), 20);
        // The one that is written to, and the prepared ones.
        let after = layouts(copy);
        for (name, layout) in after.iter().rev().take(2) {
            assert!(written(*layout) >= SEGMENT, "{}: {name} is {layout:?}", copy.display());
        }
        // A segment that was trimmed is used again: it came from the copy.
        for _ in 0..600 {
            let end = log.append_commit(&[8; 1000]).expect("commits").end;
            log.trim(end).expect("trims");
        }
        log.close().expect("closes");
        for (name, layout) in layouts(copy) {
            assert!(written(layout) >= SEGMENT, "{}: {name} is {layout:?}", copy.display());
        }
    }
}

#[cfg(feature = "mutants")]
#[test]
fn prepared_space_that_is_believed_is_found() {
    use seawall::mutant::{Mutant, finds};
    assert!(finds(Mutant::HolesBelieved, what_became_a_hole_is_filled_before_it_is_counted_on));
}
