//! Tests compaction: a rebuild reads few objects and finds the same, whatever becomes of a pack.

use std::io::ErrorKind;
use std::path::Path;

use crate::common::{LIMIT, Watched, append, copy, drill, files, folders, options, rebuild, records};
use seawall::{Log, Lsn, RebuildTo};
use seawall_ship::Error;
use seawall_ship::archive::{Archive, ArchiveSettings};
use seawall_ship::destination::Destination as _;
use seawall_ship::destination::Keep;
use seawall_ship::folder::Folder;
use seawall_ship::restore::Drill;
use seawall_ship::shipping::{Settings, Shipping};

fn archive(kept: &Path) -> Archive<Watched> {
    dying(kept, usize::MAX)
}

fn dying(kept: &Path, changes_left: usize) -> Archive<Watched> {
    let folder = Watched::new(Folder::open(kept).expect("opens"));
    let settings = ArchiveSettings { object_bytes: 64 << 10, ..ArchiveSettings::default() };
    Archive::new(folder.ends_after(changes_left, ErrorKind::NotConnected), settings)
}

/// Ships a log that is quiet: an object for each record; a few of them are large.
fn quiet(from: &Path, kept: &Path, records: u64) -> Lsn {
    let log = Log::open(from, options()).expect("opens");
    let settings = Settings { gather_time: std::time::Duration::ZERO, ..Settings::default() };
    let shipping = Shipping::start(from, Box::new(archive(kept)), settings).expect("starts");
    let mut end = Lsn::ZERO;
    for record in 0..records {
        end = if (60..63).contains(&(record % 100)) {
            log.append_commit(&vec![7; 50 << 10]).expect("commits").end
        } else {
            append(&log, 1)
        };
        shipping.wait(end, LIMIT).expect("is acknowledged");
    }
    shipping.finish(LIMIT).expect("ships");
    end
}

/// Whether the messages from `position` on are those that lie there; on this thread.
fn reads_what_lies_there(kept: &Path, position: u64) -> bool {
    let mut next = position;
    let mut same = true;
    let end = archive(kept).read_on(position, &mut |at, bytes| {
        let lies_there = std::fs::read(kept.join(format!("messages/{at:020}"))).unwrap_or_default();
        same &= at == next && bytes == lies_there;
        next += 1;
        Ok(same)
    });
    let all = files(kept.join("messages")).len() as u64;
    same && end.expect("reads") == all + 1
}

/// What a drill finds, and how many objects it reads.
fn drilled(kept: &Path) -> (Drill, usize) {
    let mut archive = archive(kept);
    let drilled = drill(&mut archive, None).expect("is sound");
    let read = archive.store().read;
    (drilled, read)
}

fn same(one: &Drill, other: &Drill) -> bool {
    let of = |drill: &Drill| {
        (drill.records, drill.first, drill.end, drill.epoch, drill.read.messages, drill.read.ignored)
    };
    of(one) == of(other)
}

#[test]
fn a_compacted_archive_is_read_in_few_objects_and_holds_the_same() {
    let (dir, [from, kept, to]) = folders(["log", "kept", "again"]);
    quiet(&from, &kept, 260);
    let (before, all) = drilled(&kept);
    let dry = archive(&kept).compact(true).expect("looks");
    assert!(files(kept.join("packs")).is_empty(), "a dry run makes nothing");
    let made = archive(&kept).compact(false).expect("compacts");
    assert!(made == dry && made.packs >= 3 && made.messages > 150 && made.left > 0, "{made:?}");
    let (after, read) = drilled(&kept);
    assert!(same(&before, &after), "{before:?} {after:?}");
    assert!(read < all / 2, "{read} of {all} objects");
    let again = archive(&kept).compact(false).expect("looks");
    assert_eq!((again.packs, again.left), (0, 0), "nothing is made twice");
    let last = files(kept.join("messages")).len() as u64;
    for position in [1, 2, 31, 33, 34, 100, last - 1, last, last + 1] {
        assert!(reads_what_lies_there(&kept, position), "from {position} on");
    }
    // What is written on, taken over and rebuilt.
    let end = quiet(&from, &kept, 20);
    let copied = copy(&mut archive(&kept), dir.path().join("copy"), RebuildTo::default());
    assert_eq!(copied.expect("copies").report.end, end);
    rebuild(&mut archive(&kept), &to).expect("takes over");
    assert!(records(&to) == records(&from) && !records(&to).is_empty());
    quiet(&to, &kept, 90);
    archive(&kept).compact(false).expect("compacts across epochs");
    drill(&mut archive(&kept), Some(&to)).expect("the chain holds");
}

/// A pack is a copy: without it, or with any byte of it changed, its messages are read.
#[test]
fn a_pack_that_is_missing_or_changed_costs_nothing_but_reads() {
    let (_dir, [from, kept]) = folders(["log", "kept"]);
    quiet(&from, &kept, 200);
    archive(&kept).compact(false).expect("compacts");
    let (before, _) = drilled(&kept);
    let packs: Vec<_> = files(kept.join("packs"));
    assert!(packs.len() >= 2, "{packs:?}");
    for (at, path) in packs.iter().enumerate() {
        let good = std::fs::read(path).expect("reads");
        std::fs::remove_file(path).expect("removes");
        assert!(same(&drilled(&kept).0, &before), "without {path:?}");
        if good.is_empty() {
            std::fs::write(path, good).expect("writes");
            continue;
        }
        for part in 0..7 {
            let mut bad = good.clone();
            let byte = (part * good.len() / 7 + at * 13) % good.len();
            bad[byte] ^= 0x20;
            std::fs::write(path, &bad).expect("writes");
            assert!(reads_what_lies_there(&kept, 1), "byte {byte} of {path:?}");
            std::fs::write(path, &good[..byte]).expect("writes");
            assert!(same(&drilled(&kept).0, &before), "{byte} bytes of {path:?}");
        }
        std::fs::write(path, good).expect("writes");
    }
}

#[test]
fn a_compaction_that_is_interrupted_anywhere_is_gone_on_with() {
    let (_dir, [from, kept]) = folders(["log", "kept"]);
    quiet(&from, &kept, 200);
    let (before, _) = drilled(&kept);
    for changes in 0..8 {
        let ended = dying(&kept, changes).compact(false);
        assert!(same(&drilled(&kept).0, &before), "after {changes} changes: {ended:?}");
    }
    let whole = archive(&kept).compact(false).expect("finishes");
    assert_eq!(whole.packs, 0, "what was made before is not made again");
    // Packs go with their messages.
    let removed = archive(&kept).retain(&Keep::default(), false).expect("looks");
    let first = files(kept.join("messages"))
        .first()
        .and_then(|path| path.file_name())
        .map(|name| name.to_string_lossy().into_owned());
    let first: u64 = first.expect("some").parse().expect("a position");
    assert_eq!(removed.objects, first - 1);
    for pack in files(kept.join("packs")) {
        let name = pack.file_name().expect("a name").to_string_lossy().into_owned();
        let to: u64 = name.split('-').nth(1).expect("an end").parse().expect("a position");
        assert!(to >= first, "{name} is left of what is gone");
    }
}

/// A message that is not sound is named, and no copy of it is made.
#[test]
fn what_is_damaged_is_not_compacted() {
    let (_dir, [from, kept]) = folders(["log", "kept"]);
    quiet(&from, &kept, 120);
    let path = kept.join(format!("messages/{:020}", 30));
    let mut bytes = std::fs::read(&path).expect("reads");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).expect("writes");
    let refused = archive(&kept).compact(false);
    assert!(matches!(refused, Err(Error::Damaged { position: 30, .. })), "{refused:?}");
    std::fs::remove_file(&path).expect("removes");
    let refused = archive(&kept).compact(false);
    assert!(matches!(refused, Err(Error::Damaged { position: 30, .. })), "{refused:?}");
}

#[cfg(feature = "mutants")]
#[test]
fn each_planted_bug_is_found() {
    use seawall::mutant::{Mutant, finds};
    let tests: [(Mutant, fn()); 2] = [
        (Mutant::PackUnchecked, a_pack_that_is_missing_or_changed_costs_nothing_but_reads),
        (Mutant::PackLeavesGap, a_compacted_archive_is_read_in_few_objects_and_holds_the_same),
    ];
    for (mutant, test) in tests {
        assert!(finds(mutant, test), "{mutant:?} is not found");
    }
}
