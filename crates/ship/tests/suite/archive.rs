//! Tests archives in a folder: objects by size and segment, what a store must do, drills, deleted and changed objects, retention.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{
    LIMIT, Watched, append, copy, drill, files, folders, options, rebuild, records, scratch, silent,
    unavailable,
};
use seawall::{Log, Lsn, Options, RebuildTo, View};
use seawall_ship::archive::{Archive, ArchiveSettings, Store};
use seawall_ship::destination::Destination as _;
use seawall_ship::destination::Keep;
use seawall_ship::folder::Folder;
use seawall_ship::manifest::Manifest;
use seawall_ship::restore::{self, Sources};
use seawall_ship::shipping::{Settings, Shipping};
use seawall_ship::writer::Outcome;
use seawall_ship::{Error, Failure, Result};

fn archive(path: &Path) -> Archive<Folder> {
    let settings = ArchiveSettings { object_bytes: 16 << 10, ..ArchiveSettings::default() };
    Archive::new(Folder::open(path).expect("opens"), settings)
}

fn objects(kept: &Path) -> Vec<std::path::PathBuf> {
    files(kept.join("messages"))
}

/// Ships all of a log to an archive.
fn ship(from: &Path, to: &Path) -> Lsn {
    let shipping = Shipping::start(from, Box::new(archive(to)), Settings::default()).expect("starts");
    shipping.finish(LIMIT).expect("ships")
}

#[test]
fn an_archive_gathers_batches_and_the_log_is_rebuilt_from_it() {
    let (_dir, [from, kept, to]) = folders(["log", "kept", "again"]);
    let log = Log::open(&from, options()).expect("opens");
    archive(&kept).probe().expect("a folder is a store");
    assert!(
        objects(&kept).is_empty() && std::fs::read_dir(&kept).expect("lists").count() == 6,
        "an identity"
    );
    // Nothing but size and segments closes an object.
    let settings = Settings { gather_time: Duration::from_hours(1), ..Settings::default() };
    let shipping = Shipping::start(&from, Box::new(archive(&kept)), settings).expect("starts");
    let end = append(&log, 300);
    let waited = shipping.wait(end, Some(Duration::from_millis(300)));
    assert!(matches!(waited, Err(Error::TimedOut { .. })), "waiting forces no object");
    shipping.finish(LIMIT).expect("ships the rest");
    let paths = objects(&kept);
    let batches = 300;
    assert!(paths.len() > 10 && paths.len() < batches / 4, "{} objects", paths.len());
    let segments =
        paths.iter().filter(|path| std::fs::read(path).expect("reads")[160..].starts_with(b"SWLS"));
    assert!(segments.count() as u64 >= log.stats().segments - 1, "a segment begins with an object");
    let drilled = drill(&mut archive(&kept), Some(&from)).expect("drills");
    assert_eq!((drilled.end, drilled.records), (end, 300));
    rebuild(&mut archive(&kept), &to).expect("rebuilds");
    assert_eq!(records(&from), records(&to));
}

#[test]
fn what_is_shipped_at_once_is_gathered_too() {
    let (_dir, [from, kept]) = folders(["log", "kept"]);
    let log = Log::open(&from, options()).expect("opens");
    let end = append(&log, 300);
    assert_eq!(ship(&from, &kept), end);
    let objects = objects(&kept).len();
    assert!(objects > 10 && objects < 300 / 4, "{objects} objects");
}

#[test]
fn objects_are_created_by_age_too() {
    let (_dir, [from, kept]) = folders(["log", "kept"]);
    let log = Log::open(&from, options()).expect("opens");
    let settings = Settings { gather_time: Duration::from_millis(50), ..Settings::default() };
    let shipping = Shipping::start(&from, Box::new(archive(&kept)), settings).expect("starts");
    for _ in 0..3 {
        let end = append(&log, 2);
        shipping.wait(end, LIMIT).expect("is archived after a while");
    }
    assert!(objects(&kept).len() >= 4, "an epoch and three objects");
    let day = archive(&kept).requests_per_day(Duration::from_secs(10), 1 << 30);
    assert_eq!(day, 2 * (8640 + (1 << 30) / (16 << 10)));
}

#[test]
fn a_deleted_object_and_any_flipped_byte_are_found_by_the_next_drill() {
    let (_dir, [from, kept]) = folders(["log", "kept"]);
    let log = Log::open(&from, options()).expect("opens");
    append(&log, 200);
    ship(&from, &kept);
    let look = || drill(&mut archive(&kept), Some(&from));
    look().expect("is sound");
    for (at, path) in objects(&kept).iter().enumerate() {
        let good = std::fs::read(path).expect("reads");
        std::fs::remove_file(path).expect("removes");
        let missing = look();
        let position = at as u64 + 1;
        match missing {
            Err(Error::Damaged { position: named, .. }) => assert_eq!(named, position),
            Err(Error::Lost { .. }) => assert_eq!(at + 1, objects(&kept).len() + 1, "only the last one"),
            other => panic!("object {position}: {other:?}"),
        }
        let mut bad = good.clone();
        let place = at * 7919 % bad.len();
        bad[place] ^= 0x10;
        std::fs::write(path, &bad).expect("writes");
        let changed = look();
        assert!(
            matches!(changed, Err(Error::Damaged { position: named, .. }) if named == position),
            "{changed:?}"
        );
        std::fs::write(path, &good).expect("writes");
    }
    look().expect("is sound again");
}

#[test]
fn an_archive_whose_last_object_ends_with_a_mark_is_gone_on_with() {
    let (_dir, [from, kept]) = folders(["log", "kept"]);
    let log = Log::open(&from, options()).expect("opens");
    // A record, a mark, a record.
    let (first, marked) = loop {
        append(&log, 1);
        std::thread::sleep(Duration::from_millis(30));
        let end = append(&log, 1);
        let mut follower = View::open(&from).expect("opens").follow_sealed(Lsn::ZERO).expect("follows");
        let mut bytes = Vec::new();
        let mut until_mark = None;
        while let Some(batch) = follower.next_batch(Duration::ZERO).expect("reads") {
            if batch.records == 0 && !bytes.is_empty() {
                until_mark.get_or_insert(bytes.len());
            }
            batch.append_to(&mut bytes);
        }
        if let Some(before) = until_mark {
            break (end, before);
        }
    };
    let settings = ArchiveSettings { object_bytes: marked + 1, ..ArchiveSettings::default() };
    let full = Watched::new(Folder::open(&kept).expect("opens")).ends_after(4, ErrorKind::StorageFull);
    let full = Archive::new(full, settings);
    let gather = Settings { gather_time: Duration::from_hours(1), ..Settings::default() };
    let shipping = Shipping::start(&from, Box::new(full), gather).expect("starts");
    let waited = shipping.wait(first, Some(Duration::from_secs(1)));
    assert!(matches!(waited, Err(Error::TimedOut { .. })), "{waited:?}");
    drop(shipping);
    let last = std::fs::read(objects(&kept).pop().expect("an object")).expect("reads");
    assert!(last.len() > 160 + marked, "it ends with the mark: {} bytes, {marked} before it", last.len());
    let shipping = Shipping::start(&from, Box::new(archive(&kept)), gather).expect("goes on");
    assert_eq!(shipping.finish(LIMIT).expect("ships the rest"), first);
    drill(&mut archive(&kept), Some(&from)).expect("is sound");
}

/// The log is trimmed as it grows; what a rebuild to some time needs stays, what it had trimmed by then goes.
#[test]
fn retention_never_breaks_the_chain() {
    let (dir, [from, kept]) = folders(["log", "kept"]);
    let log = Log::open(&from, options()).expect("opens");
    let mut ends = Vec::new();
    for round in 0..6 {
        ends.push(append(&log, 60));
        ship(&from, &kept);
        if round > 0 {
            log.trim(ends[round - 1]).expect("trims");
        }
    }
    let before = objects(&kept).len();
    let nothing = archive(&kept).retain(&Keep { since_us: 0, ..Keep::default() }, false).expect("looks");
    assert_eq!(nothing.objects, 0);
    let many = archive(&kept).retain(&Keep { segments: 1000, ..Keep::default() }, false).expect("looks");
    assert_eq!(many.objects, 0);
    let some = archive(&kept).retain(&Keep { segments: 5, ..Keep::default() }, true).expect("looks");
    let all = archive(&kept).retain(&Keep::default(), true).expect("looks");
    assert!(some.objects > 0 && some.objects < all.objects, "{some:?} of {all:?}");
    assert_eq!(objects(&kept).len(), before, "a dry run changes nothing");
    let removed = archive(&kept).retain(&Keep::default(), false).expect("removes");
    assert_eq!(removed, all, "what would go is what went");
    assert!(removed.objects > 5 && removed.first > Lsn::ZERO, "{removed:?}");
    assert_eq!(objects(&kept).len() as u64 + removed.objects, before as u64);
    let again = archive(&kept).retain(&Keep::default(), false).expect("looks");
    assert_eq!((again.objects, again.first), (0, removed.first));
    let drilled = drill(&mut archive(&kept), Some(&from)).expect("the chain holds");
    assert_eq!(drilled.end, *ends.last().expect("some"));
    let to = dir.path().join("again");
    let rebuilt = copy(&mut archive(&kept), &to, RebuildTo::default()).expect("rebuilds");
    assert_eq!(rebuilt.report.end, drilled.end);
    let view = seawall::View::open(&from).expect("opens");
    let last = records(&to).len();
    assert!(last >= view.read(view.first_lsn()).expect("reads").count());
    // Shipping goes on after it.
    append(&log, 10);
    ship(&from, &kept);
    drill(&mut archive(&kept), Some(&from)).expect("the chain holds");
}

fn manifests(kept: &Path) -> Vec<std::path::PathBuf> {
    files(kept.join("manifests"))
}

fn remove_manifests(kept: &Path) {
    for path in manifests(kept) {
        std::fs::remove_file(path).expect("removes");
    }
}

fn watched(kept: &Path) -> Archive<Watched> {
    Archive::new(Watched::new(Folder::existing(kept).expect("opens")), ArchiveSettings::default())
}

#[test]
fn manifests_spare_listing_and_reading_everything_and_say_the_same() {
    let (dir, [from, kept]) = folders(["log", "kept"]);
    trimmed(&from, &kept);
    let drilled = drill(&mut archive(&kept), Some(&from)).expect("drills");
    let all = objects(&kept).len();
    let segments = manifests(&kept).len();
    assert!(segments >= 4, "{segments} segments");
    assert_eq!((drilled.manifests.sound, drilled.manifests.lacking), (segments as u64, 0));
    let mut counting = watched(&kept);
    assert_eq!(counting.last().expect("lists"), all as u64);
    let listed = counting.store().listed;
    assert!(listed < all, "{listed} of {all} names");
    assert_eq!(counting.last().expect("lists"), all as u64);
    assert_eq!(counting.store().listed, listed + 1, "from there on");
    for segments in 0..6 {
        let keep = Keep { segments, ..Keep::default() };
        let mut counting = watched(&kept);
        let quick = counting.retain(&keep, true).expect("looks");
        let read = counting.store().messages_read;
        assert!(!quick.all_read && read < all as u64 / 2, "{read} of {all} messages");
        let bare = dir.path().join(format!("bare-{segments}"));
        copy_folder(&kept, &bare);
        remove_manifests(&bare);
        let slow = archive(&bare).retain(&keep, true).expect("looks");
        assert!(slow.all_read);
        assert_eq!((quick.objects, quick.first), (slow.objects, slow.first), "{segments} segments kept");
    }
    let removed = archive(&kept).retain(&Keep::default(), false).expect("removes");
    assert!(removed.objects > 0 && manifests(&kept).len() < segments, "manifests go with their segments");
    let drilled = drill(&mut archive(&kept), Some(&from)).expect("drills");
    assert_eq!(drilled.manifests.lacking, 0);
}

/// All of an archive but the history that its log had trimmed.
fn skip<'a>(archive: &'a mut Archive<Folder>, until: &RebuildTo) -> Sources<'a> {
    let mut sources = Sources::new([archive as _]).expect("opens");
    assert!(sources.skip_trimmed(until).expect("looks"), "it is known where to begin");
    sources
}

#[test]
fn a_rebuild_without_history_has_everything_that_the_log_still_had() {
    let (dir, [from, kept, to]) = folders(["log", "kept", "again"]);
    trimmed(&from, &kept);
    let whole = drill(&mut archive(&kept), Some(&from)).expect("drills");
    let extent = Sources::new([&mut archive(&kept) as _]).expect("opens").extent();
    assert_eq!(extent, Some(Lsn::ZERO..whole.end));
    let view = View::open(&from).expect("opens");
    let first = view.first_lsn();
    let everything = RebuildTo::default();
    for lsn in [Lsn::MAX, whole.end] {
        let until = RebuildTo { lsn, ..everything };
        let to = dir.path().join(format!("copy-{lsn}"));
        let copied = restore::copy(skip(&mut archive(&kept), &until), &to, until, &mut silent());
        let copied = copied.expect("copies").outcome;
        assert!(copied.read.bytes < whole.read.bytes / 2, "{:?} of {:?}", copied.read, whole.read);
        assert!(copied.report.first > Lsn::ZERO && copied.report.first <= first);
        let copied: Vec<_> = records(&to).into_iter().filter(|(lsn, _)| *lsn >= first).collect();
        assert_eq!(copied, records(&from));
    }
    // Earlier the log had more.
    let until = RebuildTo { lsn: Lsn::new(whole.end.get() / 4), ..everything };
    let early = dir.path().join("early");
    let copied = restore::copy(skip(&mut archive(&kept), &until), &early, until, &mut silent());
    assert_eq!(copied.expect("copies").outcome.report.first, Lsn::ZERO);
    restore::rebuild(skip(&mut archive(&kept), &everything), &to, &mut silent()).expect("takes over");
    let log = Log::open(&to, options()).expect("opens");
    append(&log, 10);
    ship(&to, &kept);
    drill(&mut archive(&kept), Some(&to)).expect("the chain holds");
    remove_manifests(&kept);
    let mut archive = archive(&kept);
    let is_known = Sources::new([&mut archive as _]).expect("opens").skip_trimmed(&everything);
    assert!(!is_known.expect("looks"));
}

#[test]
fn a_lost_manifest_is_told_and_a_changed_one_is_found() {
    let (_dir, [from, kept, to]) = folders(["log", "kept", "again"]);
    trimmed(&from, &kept);
    let paths = manifests(&kept);
    for (at, path) in paths.iter().enumerate() {
        let good = std::fs::read(path).expect("reads");
        std::fs::remove_file(path).expect("removes");
        let drilled = drill(&mut archive(&kept), None).expect("the log is whole");
        let is_newest = at + 1 == paths.len();
        assert_eq!(drilled.manifests.lacking, u64::from(!is_newest), "manifest {at}");
        let mut bad = good.clone();
        bad[at * 31 % good.len()] ^= 1;
        std::fs::write(path, bad).expect("writes");
        let found = drill(&mut archive(&kept), None);
        assert!(matches!(found, Err(Error::Manifest { .. })), "manifest {at}: {found:?}");
        let retained = archive(&kept).retain(&Keep::default(), true).expect("looks");
        assert!(retained.all_read && retained.objects > 0);
        std::fs::write(path, good).expect("writes");
    }
    remove_manifests(&kept);
    rebuild(&mut archive(&kept), &to).expect("needs none");
    assert_eq!(records(&from).last(), records(&to).last());
}

/// Manifests that are sound by themselves: one of another chain, and one of messages that are gone.
#[test]
fn a_manifest_that_states_what_is_not_there_is_found_and_not_believed() {
    let (dir, [from, kept, to]) = folders(["log", "kept", "again"]);
    trimmed(&from, &kept);
    let forged = dir.path().join("forged");
    copy_folder(&kept, &forged);
    for path in manifests(&forged) {
        let mut manifest = Manifest::open(&std::fs::read(&path).expect("reads")).expect("sound");
        manifest.last[0] ^= 1;
        std::fs::write(&path, manifest.seal()).expect("writes");
    }
    let found = drill(&mut archive(&forged), None);
    assert!(matches!(found, Err(Error::Manifest { .. })), "{found:?}");
    let removed = archive(&forged).retain(&Keep::default(), false).expect("reads all");
    assert!(removed.all_read && removed.objects > 0);
    remove_manifests(&forged);
    drill(&mut archive(&forged), None).expect("the chain holds");
    // The newest segment is lost with all its messages: what is left can be rebuilt.
    let newest = manifests(&kept).pop().expect("one");
    let name = newest.file_name().expect("a name");
    for path in objects(&kept).into_iter().filter(|path| path.file_name().expect("a name") >= name) {
        std::fs::remove_file(path).expect("removes");
    }
    let found = drill(&mut archive(&kept), None);
    assert!(matches!(found, Err(Error::Manifest { .. })), "{found:?}");
    let retained =
        archive(&kept).retain(&Keep { since_us: 1, segments: 2, ..Keep::default() }, true).expect("looks");
    assert!(retained.all_read, "a segment that is gone is not counted");
    rebuild(&mut archive(&kept), &to).expect("rebuilds what is there");
}

/// A log of two rounds, of which the first was trimmed.
fn trimmed(from: &Path, kept: &Path) {
    let log = Log::open(from, options()).expect("opens");
    for _ in 0..2 {
        let end = append(&log, 60);
        ship(from, kept);
        log.trim(end).expect("trims");
    }
    // The trim is stated by what comes next.
    append(&log, 20);
    ship(from, kept);
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("makes");
    for entry in std::fs::read_dir(from).expect("lists").map(|entry| entry.expect("an entry")) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            std::fs::copy(from, to).expect("copies");
        }
    }
}

#[test]
fn a_retention_that_is_interrupted_anywhere_is_finished_by_the_next() {
    let (dir, [from, kept]) = folders(["log", "kept"]);
    trimmed(&from, &kept);
    let end = drill(&mut archive(&kept), None).expect("drills").end;
    let whole = archive(&kept).retain(&Keep::default(), true).expect("looks");
    assert!(whole.objects > 5, "{whole:?}");
    for left in 0..=usize::try_from(whole.objects).expect("small") {
        let here = dir.path().join(format!("kept-{left}"));
        copy_folder(&kept, &here);
        let folder = Folder::existing(&here).expect("opens");
        let dying = Watched::new(folder).ends_after(left, ErrorKind::NotConnected);
        let mut dying = Archive::new(dying, ArchiveSettings::default());
        let ended = dying.retain(&Keep::default(), false);
        assert!(ended.is_err(), "{left}: {ended:?}");
        let drilled = drill(&mut archive(&here), None).expect("the chain holds");
        assert_eq!(drilled.end, end, "after {left} changes");
        let finished = archive(&here).retain(&Keep::default(), false).expect("finishes");
        let leftovers = whole.objects - (left as u64).saturating_sub(1);
        assert_eq!((finished.objects, finished.first), (leftovers, whole.first), "after {left} changes");
        assert_eq!(objects(&here).len() as u64 + whole.objects, objects(&kept).len() as u64);
        drill(&mut archive(&here), None).expect("the chain holds");
    }
}

/// The names behind what the old writer knows are free again: it must not take them for the end of the chain.
#[test]
fn a_writer_that_slept_through_a_retention_is_refused() {
    let dir = scratch();
    let path = |name: &str| dir.path().join(name);
    let (from, kept, to) = (path("log"), path("kept"), path("again"));
    let log = Log::open(&from, options()).expect("opens");
    append(&log, 5);
    ship(&from, &kept);
    rebuild(&mut archive(&kept), &to).expect("rebuilds");
    trimmed(&to, &kept);
    archive(&kept).retain(&Keep::default(), false).expect("removes");
    let left = objects(&kept);
    let refused = Shipping::start(&from, Box::new(archive(&kept)), Settings::default()).map(drop);
    assert!(matches!(refused, Err(Error::Removed { .. })), "{refused:?}");
    // One that was in the middle of it.
    let mut writer = archive(&kept);
    let refused = outcome(&mut writer, 4);
    assert!(matches!(&refused, Outcome::Refused(why) if why.contains("retention")), "{refused:?}");
    assert!(matches!(writer.read(4), Err(Error::Removed { position: 4, .. })));
    assert_eq!(objects(&kept), left, "nothing is left of it");
    // One that does not hear of the retention, and finds what it has created.
    let mut writer = watched(&kept);
    let away = || Err(unavailable("it is away", ErrorKind::NotConnected));
    writer.store().before_starts = Some(Box::new(away));
    let answer = outcome(&mut writer, 4);
    assert!(matches!(answer, Outcome::Unknown(_)), "{answer:?}");
    let read = writer.read(4);
    assert!(matches!(read, Err(Error::Removed { position: 4, .. })), "{read:?}");
    drill(&mut archive(&kept), Some(&to)).expect("the chain holds");
}

/// What becomes of a message at `position`.
fn outcome(writer: &mut Archive<impl Store>, position: u64) -> Outcome {
    let (said, heard) = std::sync::mpsc::channel();
    let answer = Box::new(move |outcome| said.send(outcome).expect("waits"));
    writer.append(position, Arc::from(&b"late"[..]), answer);
    heard.recv().expect("an answer")
}

/// The start that was listed is replaced before it is read: what was just stored stays, and whoever asks tries again.
#[test]
fn a_retention_beside_a_writer_takes_nothing_that_it_stores() {
    let (_dir, [from, kept]) = folders(["log", "kept"]);
    trimmed(&from, &kept);
    let removes = |segments: &usize| {
        let keep = Keep { segments: *segments, ..Keep::default() };
        archive(&kept).retain(&keep, false).expect("removes").objects > 0
    };
    assert!((1..20).rev().find(removes).is_some(), "some of it, and not all that can go");
    let (first, path) = (archive(&kept).begin().expect("a start"), kept.clone());
    let retain = move || {
        archive(&path).retain(&Keep::default(), false).expect("removes more");
    };
    let mut writer = watched(&kept);
    let next = writer.last().expect("lists") + 1;
    writer.store().before_start = Some(Box::new(retain));
    let answer = outcome(&mut writer, next);
    assert!(matches!(answer, Outcome::Unknown(_)), "{answer:?}");
    assert_eq!(writer.read(next).expect("reads").as_deref(), Some(&b"late"[..]));
    assert!(writer.begin().expect("the new one").position > first.position);
}

/// All of it was sent a moment ago, as far as the messages say; now is never far behind the newest one.
#[test]
fn a_clock_that_is_ahead_removes_nothing_by_that_alone() {
    let (_dir, [from, kept]) = folders(["log", "kept"]);
    trimmed(&from, &kept);
    // As a clock that is ten years ahead finds an archive: everything in it is ten years old.
    let years = 10 * 365 * 24 * 3_600_000_000;
    set_back(&kept, years);
    let keep = Keep { age: Some(Duration::from_hours(24)), ..Keep::default() };
    let removed = archive(&kept).retain(&keep, true).expect("looks");
    assert_eq!(removed.objects, 0, "{removed:?}");
    let keep = Keep { age: Some(Duration::ZERO), ..Keep::default() };
    assert!(archive(&kept).retain(&keep, true).expect("looks").objects > 0, "none is kept");
}

/// Has every message and manifest made so long ago.
fn set_back(kept: &Path, us: u64) {
    use seawall_ship::message::{Chain, Header, Kind, Verdict};
    let mut chain = Chain::default();
    remove_manifests(kept);
    for path in objects(kept) {
        let bytes = std::fs::read(&path).expect("reads");
        let (mut header, payload) = Header::open(&bytes).expect("sound");
        if header.kind == Kind::Batches {
            (header.time_us, header.sent_us) = (header.time_us - us, header.sent_us - us);
        }
        header.previous = chain.last;
        let bytes = header.seal(payload);
        assert!(matches!(chain.take(&bytes), Ok(Verdict::Next(..))));
        std::fs::write(&path, &bytes).expect("writes");
    }
}

/// What a file server or a file manager leaves in the folders of an archive.
#[test]
fn names_that_are_no_objects_of_an_archive_are_passed_over() {
    let (_dir, [from, kept, to]) = folders(["log", "kept", "again"]);
    trimmed(&from, &kept);
    archive(&kept).retain(&Keep { segments: 2, ..Keep::default() }, false).expect("removes");
    for part in ["messages", "starts", "manifests"] {
        for name in [".DS_Store", "Thumbs.db", "desktop.ini", "00000000000000000001.tmp", "x"] {
            std::fs::write(kept.join(part).join(name), b"junk").expect("writes");
        }
        for name in ["@eaDir", "lost+found", ".stfolder"] {
            std::fs::create_dir(kept.join(part).join(name)).expect("makes");
        }
    }
    ship(&from, &kept);
    drill(&mut archive(&kept), Some(&from)).expect("is sound");
    archive(&kept).retain(&Keep::default(), false).expect("removes");
    std::fs::create_dir(&to).expect("an empty folder");
    rebuild(&mut archive(&kept), &to).expect("rebuilds into it");
    assert_eq!(records(&from), records(&to));
    assert!(kept.join("messages/Thumbs.db").exists() && kept.join("starts/@eaDir").exists());
}

/// An archive is known by its identity, wherever it is; another one at its place is refused, and one that is away is not made again.
#[test]
fn an_archive_is_known_by_its_identity_and_by_no_other_name() {
    let (_dir, [from, kept, moved]) = folders(["log", "kept", "moved"]);
    let log = Log::open(&from, options()).expect("opens");
    let start = |path: &Path| Shipping::start(&from, Box::new(archive(path)), Settings::default());
    append(&log, 20);
    start(&kept).expect("starts").finish(LIMIT).expect("ships");
    let opening =
        seawall_ship::address::Opening { create: true, log: Some(from.clone()), ..Default::default() };
    let open =
        |path: &Path| seawall_ship::address::open(&format!("folder:{}", path.display()), &opening).map(drop);
    // Away: its disk is not mounted.
    std::fs::rename(&kept, &moved).expect("renames");
    let refused = open(&kept).expect_err("is not there").to_string();
    assert!(refused.contains("mounted") && !kept.exists(), "{refused}");
    std::fs::create_dir(&kept).expect("an empty mount point");
    assert!(open(&kept).is_err() && std::fs::read_dir(&kept).expect("lists").count() == 0);
    // Another one in its place.
    let refused = start(&kept).map(drop);
    assert!(matches!(&refused, Err(Error::Other { .. })), "{refused:?}");
    assert!(objects(&kept).is_empty(), "nothing was stored there");
    std::fs::remove_dir_all(&kept).expect("removes");
    // The same one elsewhere, and by a link.
    append(&log, 20);
    start(&moved).expect("is the same").finish(LIMIT).expect("ships");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&moved, &kept).expect("links");
        append(&log, 20);
        start(&kept).expect("is the same").finish(LIMIT).expect("ships");
    }
    let holds = std::fs::read_dir(&from).expect("lists").flatten();
    let holds = holds.filter(|entry| entry.file_name().to_string_lossy().starts_with("HOLD-")).count();
    assert_eq!(holds, 1, "of one place");
    drill(&mut archive(&moved), Some(&from)).expect("is sound");
    // In the log's own folder, and the reverse.
    for (archive, log) in
        [(from.clone(), from.clone()), (from.join("a"), from.clone()), (from.clone(), from.join("l"))]
    {
        let opening = seawall_ship::address::Opening { create: true, log: Some(log), ..Default::default() };
        std::fs::create_dir_all(from.join("l")).expect("makes");
        let address = format!("folder:{}", archive.display());
        let refused = seawall_ship::address::open(&address, &opening).map(drop);
        assert!(matches!(refused, Err(Error::Option { .. })), "{refused:?}");
    }
    assert!(!from.join("messages").exists() && !from.join("a").exists());
}

/// One batch that is longer than two objects is cut, and every reader puts it together again.
#[test]
fn a_batch_that_is_longer_than_objects_is_cut_into_parts() {
    let (_dir, [from, kept, to]) = folders(["log", "kept", "again"]);
    let log = Log::open(&from, Options::default().record_bytes_max(64 << 20)).expect("opens");
    append(&log, 5);
    log.append_commit(&vec![7; 40 << 20]).expect("commits");
    let end = append(&log, 5);
    ship(&from, &kept);
    let longest = objects(&kept).iter().map(|path| std::fs::metadata(path).expect("is there").len()).max();
    assert!(longest.is_some_and(|bytes| bytes <= (16 << 20) + 160), "{longest:?}");
    assert_eq!(drill(&mut archive(&kept), Some(&from)).expect("is sound").end, end);
    archive(&kept).retain(&Keep::default(), true).expect("reads them too");
    remove_manifests(&kept);
    archive(&kept).retain(&Keep::default(), true).expect("and without manifests");
    rebuild(&mut archive(&kept), &to).expect("rebuilds");
    assert!(records(&from) == records(&to), "the records differ");
}

#[cfg(feature = "mutants")]
#[test]
fn each_planted_bug_is_found() {
    use seawall::mutant::{Mutant, finds};
    let tests: [(Mutant, fn()); 5] = [
        (Mutant::RetainByClockAlone, a_clock_that_is_ahead_removes_nothing_by_that_alone),
        (Mutant::ManifestTrusted, a_manifest_that_states_what_is_not_there_is_found_and_not_believed),
        (Mutant::RetainBeforeStart, a_retention_that_is_interrupted_anywhere_is_finished_by_the_next),
        (Mutant::RetainUntrimmed, retention_never_breaks_the_chain),
        (Mutant::RetainFenceIgnored, a_writer_that_slept_through_a_retention_is_refused),
    ];
    for (mutant, test) in tests {
        assert!(finds(mutant, test), "{mutant:?}");
    }
}

/// A store that lacks one ability.
struct Lame {
    objects: BTreeMap<String, Vec<u8>>,
    lacks: &'static str,
}

impl Store for Lame {
    fn name(&self) -> (String, bool) {
        ("a store".to_owned(), false)
    }

    fn address(&self) -> String {
        "test:".to_owned()
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<bool> {
        if self.objects.contains_key(name) && self.lacks != "create once" {
            return Ok(false);
        }
        self.objects.insert(name.to_owned(), bytes.to_vec());
        Ok(self.lacks != "say so")
    }

    fn get(&mut self, name: &str, limit: Option<usize>) -> Result<Option<Vec<u8>>> {
        let limit = limit.filter(|_| self.lacks != "ranges").unwrap_or(usize::MAX);
        Ok(self.objects.get(name).map(|bytes| bytes[..bytes.len().min(limit)].to_vec()))
    }

    fn list(&mut self, prefix: &str, after: &str) -> Result<Vec<String>> {
        let all = self.objects.keys().filter(|name| name.starts_with(prefix) && name.as_str() > after);
        Ok(if self.lacks == "lists" { Vec::new() } else { all.cloned().collect() })
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        self.objects.remove(name);
        Ok(())
    }
}

#[test]
fn a_store_that_cannot_do_what_an_archive_stands_on_is_refused() {
    let probe = |lacks| {
        let mut archive = Archive::new(Lame { objects: BTreeMap::new(), lacks }, ArchiveSettings::default());
        let outcome = archive.probe();
        let left: Vec<&String> = archive.store().objects.keys().collect();
        assert!(outcome.is_ok() || lacks == "say so" || left.is_empty(), "{lacks}: {left:?}");
        outcome
    };
    probe("").expect("lacks nothing");
    for lacks in ["create once", "say so", "ranges", "lists"] {
        let refused = probe(lacks);
        assert!(matches!(refused, Err(Error::Unfit { .. })), "{lacks}: {refused:?}");
    }
}

#[test]
fn a_folder_on_this_machine_is_no_copy_elsewhere() {
    let dir = scratch();
    let archive = archive(dir.path());
    for failure in Failure::ALL {
        let outlived = archive.facts().outlives(failure).is_ok();
        assert_eq!(outlived, !matches!(failure, Failure::Machine | Failure::Site), "{failure:?}");
    }
}
