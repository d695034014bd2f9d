//! Tests backups of open, closed, trimmed, damaged and restored logs on a real file system.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixture::{Stops, change, payloads, scratch, segments, until};
use crate::written::{BLOCK, RECORDS, options, record, with_bytes, written};
use seawall::format::segment_name;
use seawall::{Error, Log, Lsn, Tail, View, backup, verify};

/// The records of a log that is opened.
fn content(dir: &Path) -> Vec<Vec<u8>> {
    payloads(&Log::open(dir, options().create(false)).expect("opens"))
}

/// Commits the records of [`written`]; where each lies.
fn append(log: &Log) -> Vec<Range<Lsn>> {
    (0..RECORDS).map(|i| log.append_commit(&record(i)).expect("commits")).collect()
}

fn files(dir: &Path) -> Vec<String> {
    let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    segments(dir).into_iter().map(name).collect()
}

#[test]
fn a_closed_log_is_copied_with_its_lsns_and_ends_clean() {
    let (dir, names) = written();
    let to = scratch();
    let to = to.path().join("saved");
    let done = backup(dir.path(), &to).expect("backs up");
    assert_eq!((done.copied, done.kept, done.removed), (names.len() as u64, 0, 0));
    assert_eq!(done.report.tail, Tail::Clean);
    assert_eq!(done.report, verify(&to).expect("verifies"), "what is returned is what verify finds");
    let original = View::open(dir.path()).expect("opens");
    let copy = View::open(&to).expect("opens");
    assert_eq!((copy.first_lsn(), copy.end_lsn()), (original.first_lsn(), original.end_lsn()));
    assert_eq!(copy.log_id(), original.log_id());
    assert!(!to.with_extension("partial").exists());
    let expected: Vec<Vec<u8>> = (0..RECORDS).map(record).collect();
    assert_eq!(content(&to), expected);
}

#[test]
fn an_open_log_is_copied_up_to_what_is_durable_and_nothing_behind_it() {
    let dir = scratch();
    let (from, to) = (dir.path().join("log"), dir.path().join("saved"));
    let log = Log::open(&from, options()).expect("opens");
    append(&log);
    let durable = log.durable_lsn();
    log.append(b"not committed").expect("appends");
    let done = log.backup(&to).expect("backs up");
    assert_eq!((done.report.end, done.report.records), (durable, u64::from(RECORDS)));
    let expected: Vec<Vec<u8>> = (0..RECORDS).map(record).collect();
    assert_eq!(content(&to), expected);
}

#[test]
fn a_second_backup_copies_what_changed_and_removes_what_was_trimmed() {
    let dir = scratch();
    let (from, to) = (dir.path().join("log"), dir.path().join("saved"));
    let log = Log::open(&from, options().idle_mark(Duration::from_millis(1))).expect("opens");
    let ends = append(&log);
    let first = log.backup(&to).expect("backs up");
    let again = log.backup(&to).expect("backs up");
    assert_eq!(
        (again.copied, again.kept, again.removed),
        (1, first.copied - 1, 0),
        "the newest is copied anew"
    );
    let kept =
        std::fs::metadata(to.join(segment_name(2))).and_then(|meta| meta.modified()).expect("is there");
    append(&log);
    let grown = log.backup(&to).expect("backs up");
    assert_eq!((grown.kept, grown.removed), (first.copied - 1, 0));
    assert_eq!(
        std::fs::metadata(to.join(segment_name(2))).and_then(|meta| meta.modified()).expect("is there"),
        kept
    );
    let cut = ends[usize::from(RECORDS) - 1].end;
    let segments = log.stats().segments;
    log.trim(cut).expect("trims");
    until("trimmed segments go", || log.stats().segments < segments);
    until("the trim is durable", || verify(&from).expect("verifies").first >= cut);
    let trimmed = log.backup(&to).expect("backs up");
    assert!(trimmed.removed > 0, "{trimmed:?}");
    assert_eq!((trimmed.report.first, trimmed.report.end), (cut, log.durable_lsn()));
    assert_eq!(files(&to).len() as u64, trimmed.report.segments);
    assert_eq!(content(&to).len(), usize::from(RECORDS));
}

/// A copy that was interrupted, and that the log does not continue any more: nobody was promised a backup there.
#[test]
fn what_an_interrupted_copy_left_is_begun_anew_when_the_log_is_trimmed_past_it() {
    let dir = scratch();
    let (from, to) = (dir.path().join("log"), dir.path().join("saved"));
    let log = Log::open(&from, options().idle_mark(Duration::from_millis(1))).expect("opens");
    append(&log);
    let (partial, old) = (dir.path().join("saved.partial"), dir.path().join("old"));
    for left in [&partial, &old] {
        log.backup(left).expect("backs up");
    }
    let last = View::open(&partial).expect("opens").end_lsn();
    append(&log);
    log.trim(log.durable_lsn()).expect("trims");
    while verify(&from).expect("verifies").first < last || files(&from).contains(&segment_name(1)) {
        append(&log);
        log.trim(log.durable_lsn()).expect("trims");
        std::thread::sleep(Duration::from_millis(2));
    }
    let refused = log.backup(&old).expect_err("a backup is not thrown away");
    assert!(refused.to_string().contains(&*old.to_string_lossy()), "{refused}");
    let done = log.backup(&to).expect("backs up");
    assert!(!partial.exists());
    assert_eq!((done.report.end, files(&to).len() as u64), (log.durable_lsn(), done.report.segments));
}

#[test]
fn a_damaged_segment_of_a_backup_is_copied_anew() {
    let (dir, names) = written();
    let to = scratch();
    let to = to.path().join("saved");
    backup(dir.path(), &to).expect("backs up");
    let name = names[1].file_name().expect("a name");
    change(&to.join(name), |bytes| bytes[2 * BLOCK + 100] ^= 1);
    assert!(!verify(&to).expect("verifies").damage.is_empty());
    let done = backup(dir.path(), &to).expect("backs up");
    assert_eq!(done.copied, 2, "the damaged one and the newest");
    assert!(verify(&to).expect("verifies").damage.is_empty());
}

#[test]
fn a_damaged_log_is_refused_and_leaves_an_earlier_backup_as_it_was() {
    let (dir, names) = written();
    let to = scratch();
    let (saved, fresh) = (to.path().join("saved"), to.path().join("fresh"));
    backup(dir.path(), &saved).expect("backs up");
    let before = verify(&saved).expect("verifies");
    for name in [&names[0], names.last().expect("one")] {
        let damage = |bytes: &mut Vec<u8>| bytes[2 * BLOCK + 100] ^= 1;
        with_bytes(name, damage, || {
            let refused = backup(dir.path(), &fresh).expect_err("is damaged");
            assert!(matches!(&refused, Error::Corrupt(damage) if damage.path == *name), "{refused}");
            assert!(!fresh.exists(), "nothing looks like a backup");
            // What the backup has of a segment that was sealed is intact, and stays.
            assert_eq!(backup(dir.path(), &saved).is_ok(), name == &names[0]);
        });
    }
    assert_eq!(verify(&saved).expect("verifies"), before);
    assert_eq!(
        backup(dir.path(), &fresh).expect("what was left over is gone on with").report.end,
        before.end
    );
}

/// The files of `from`, in a new folder.
fn copied(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("made");
    for name in files(from) {
        std::fs::copy(from.join(&name), to.join(&name)).expect("copied");
    }
}

#[test]
fn each_state_that_an_interrupted_backup_leaves_is_whole_and_is_gone_on_with() {
    let dir = scratch();
    let (from, old, new) = (dir.path().join("log"), dir.path().join("old"), dir.path().join("new"));
    let log = Log::open(&from, options()).expect("opens");
    let ends = append(&log);
    let before = log.backup(&old).expect("backs up").report.end;
    log.trim(ends[20].end).expect("trims");
    append(&log);
    log.close().expect("closes");
    backup(&from, &new).expect("backs up");
    let (had, mut has) = (files(&old), files(&new));
    // What the log trimmed may not have been removed yet.
    let newest = had.last().expect("one");
    for name in had.iter().take(2) {
        let _ = std::fs::remove_file(from.join(name));
        let _ = std::fs::remove_file(new.join(name));
        has.retain(|left| left != name);
    }
    // The newest segment of the old backup is replaced, younger ones get their names, then the oldest ones go.
    let named = has.iter().filter(|name| *name >= newest);
    let removed = had.iter().filter(|name| !has.contains(name));
    let steps: Vec<(bool, &String)> =
        named.map(|name| (true, name)).chain(removed.map(|name| (false, name))).collect();
    assert!(steps.iter().any(|(named, _)| !named) && steps.len() > 4, "{steps:?}");
    for done in 0..=steps.len() {
        let state = dir.path().join(format!("state-{done}"));
        copied(&old, &state);
        for (named, name) in &steps[..done] {
            if *named {
                std::fs::copy(new.join(name), state.join(name)).expect("copied");
            } else {
                std::fs::remove_file(state.join(name)).expect("removed");
            }
        }
        // What comes next is staged.
        if let Some((true, name)) = steps.get(done) {
            std::fs::write(state.join(name).with_extension("new"), b"half").expect("written");
        }
        let report = verify(&state).expect("verifies");
        assert!(report.damage.is_empty() && report.end >= before, "{done} steps: {report:?}");
        let finished = backup(&from, &state).expect("is gone on with").report;
        assert_eq!(finished, verify(&new).expect("verifies"), "{done} steps");
        assert_eq!(files(&state), has, "{done} steps");
    }
}

/// A mount point can be filled and not replaced; a part of a copy in it is no log.
#[test]
fn a_folder_that_is_there_and_empty_is_filled_in_place() {
    let (dir, _) = written();
    let to = scratch();
    let disk = to.path().join("disk");
    std::fs::create_dir_all(disk.join("lost+found")).expect("made");
    // What an interrupted one has left.
    std::fs::write(disk.join("REBUILDING"), b"rebuilding\n").expect("written");
    std::fs::copy(dir.path().join(segment_name(1)), disk.join(segment_name(1))).expect("copied");
    assert!(matches!(View::open(&disk), Err(Error::Rebuilding { .. })));
    let done = backup(dir.path(), &disk).expect("backs up");
    assert_eq!(done.report, verify(&disk).expect("verifies"));
    assert_eq!(View::open(&disk).expect("opens").end_lsn(), View::open(dir.path()).expect("opens").end_lsn());
    let names: Vec<_> = std::fs::read_dir(to.path()).expect("lists").collect();
    assert_eq!(names.len(), 1, "nothing lies beside it");
    assert_eq!(backup(dir.path(), &disk).expect("goes on").copied, 1, "the newest is copied anew");
    // A log that is damaged leaves nothing that opens.
    let other = to.path().join("other");
    std::fs::create_dir(&other).expect("made");
    with_bytes(
        &dir.path().join(segment_name(1)),
        |bytes| bytes[2 * BLOCK + 100] ^= 1,
        || {
            assert!(matches!(backup(dir.path(), &other), Err(Error::Corrupt(_))));
        },
    );
    assert!(matches!(verify(&other), Err(Error::Rebuilding { .. })));
    assert_eq!(backup(dir.path(), &other).expect("begins again").report, verify(&other).expect("verifies"));
}

#[test]
fn what_is_no_earlier_backup_of_the_log_is_refused() {
    let (dir, _) = written();
    let (other, _) = written();
    let to = scratch();
    let saved = to.path().join("saved");
    backup(dir.path(), &saved).expect("backs up");
    let refused = |from: &Path, to: &Path| {
        let refused = backup(from, to).expect_err("is refused");
        assert!(matches!(refused, Error::InvalidOption { option: "to", .. }), "{refused}");
    };
    refused(other.path(), &saved);
    refused(dir.path(), dir.path());
    let strange = to.path().join("strange");
    std::fs::create_dir(&strange).expect("made");
    std::fs::write(strange.join("file"), b"x").expect("written");
    refused(dir.path(), &strange);
    // Opened as a log, it goes its own way.
    let log = Log::open(&saved, options()).expect("opens");
    assert!(matches!(backup(dir.path(), &saved), Err(Error::Locked { .. })));
    log.append_commit(b"of its own").expect("commits");
    log.close().expect("closes");
    refused(dir.path(), &saved);
}

#[test]
fn backups_of_a_log_that_is_written_and_trimmed_are_whole_each_time() {
    let dir = scratch();
    let (from, to) = (dir.path().join("log"), dir.path().join("saved"));
    let log = Log::open(&from, options().idle_mark(Duration::from_millis(1))).expect("opens");
    log.append_commit(&0u64.to_le_bytes()).expect("commits");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ends = std::collections::VecDeque::new();
            for number in 1u64.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let mut record = vec![0; 3000];
                record[..8].copy_from_slice(&number.to_le_bytes());
                ends.push_back(log.append_commit(&record).expect("commits"));
                if ends.len() > 300 {
                    log.trim(ends.drain(..150).next_back().expect("some").end).expect("trims");
                }
            }
        });
        let stops = Stops(&done);
        for round in 0..24 {
            let durable = log.durable_lsn();
            let target = if round % 2 == 0 { to.clone() } else { dir.path().join(format!("saved-{round}")) };
            let report = match if round % 4 < 2 { log.backup(&target) } else { backup(&from, &target) } {
                Ok(done) => done.report,
                // The first backup may have been outrun.
                Err(Error::InvalidOption { reason, .. }) if reason.contains("ends before the first") => {
                    continue;
                }
                Err(error) => panic!("round {round}: {error}"),
            };
            assert!(report.damage.is_empty());
            if round % 4 < 2 {
                assert!(report.end >= durable, "round {round}: {} is behind {durable}", report.end);
            }
            let view = View::open(&target).expect("opens");
            let mut last = None;
            for record in view.read(view.first_lsn()).expect("reads") {
                let payload = record.expect("sound").payload;
                let number = u64::from_le_bytes(payload[..8].try_into().expect("eight"));
                assert!(
                    last.is_none_or(|last| number == last + 1),
                    "round {round}: {number} behind {last:?}"
                );
                last = Some(number);
            }
            assert_eq!(view.end_lsn(), report.end);
        }
        drop(stops);
    });
    assert!(verify(&to).expect("verifies").damage.is_empty());
    assert!(log.first_lsn() > Lsn::ZERO);
}
