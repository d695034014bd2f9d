//! Tests that no own file of a log, of whatever length up to its header, makes an opening panic, hang or lose anything.
//!
//! A table: every file of the directory × every length × how the bytes came about × every way to open the log.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::fixture::{copy, scratch};
use seawall::Durability::ProcessCrash;
use seawall::format::{FileRole, file_role};
use seawall::{
    Error, Hold, Log, Lsn, MethodChoice, Options, ProcessCrashCommits, Rebuild, View, backup, salvage, verify,
};

/// What a segment begins with is read in these lengths; beyond that only where blocks end.
const HEADER_BYTES: usize = 136;
const LONGER: [usize; 4] = [511, 512, 4095, 4096];
const RECORDS: usize = 40;
const GARBAGE: u8 = 0xA5;

fn options() -> Options {
    Options::default()
        .segment_bytes(64 << 10)
        .batch_bytes(4096)
        .memory_bytes(64 << 10)
        .crash_memory_bytes(64 << 10)
        .idle_mark(Duration::from_mins(10))
        .method(MethodChoice::Named("buffered+fdatasync".to_owned()))
}

/// What is opened there promises to outlive the process: there are thousands of openings, and nothing depends on a disk.
fn in_memory() -> Options {
    options().durability(ProcessCrash)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| scratch())
}

/// Puts a log into `to` with a hold, memory of a process that ended, and two segments and a spare.
fn log(to: &Path) {
    let made = scratch();
    let dir = made.path();
    let log = Log::open(dir, options()).expect("opens");
    for _ in 1..RECORDS {
        log.append_commit(&[7; 2500]).expect("commits");
    }
    let end = log.append(b"in memory").expect("appends").end;
    log.commit_as(end, ProcessCrash).expect("commits");
    assert_eq!(log.stats().process_crash, ProcessCrashCommits::InMemory);
    Hold { lsn: Lsn::ZERO, note: "a note".to_owned() }.write(dir, "copy").expect("writes");
    // As a kill leaves it.
    copy(dir, to);
    for staging in ["00000000000000000009.new", "HOLD.new-copy"] {
        fs::write(to.join(staging), [0; 4096]).expect("writes");
    }
}

/// Opens the log in one way; returns how many records it finds.
type Opening = fn(&Path, &Path) -> Result<usize, Error>;

fn count<T>(records: impl Iterator<Item = Result<T, Error>>) -> Result<usize, Error> {
    records.map(|record| record.map(drop)).collect::<Result<Vec<()>, _>>().map(|found| found.len())
}

const OPENINGS: [(&str, Opening); 7] = [
    ("open", |dir, _| {
        let log = Log::open(dir, in_memory())?;
        // It was drained or is worth nothing, unless it is no memory of a log.
        assert!(fs::read(dir.join("MEMORY")).map_or(true, |left| left[0] == GARBAGE));
        log.append_commit(b"another")?;
        Ok(count(log.read(log.first_lsn())?)? - 1)
    }),
    ("view", |dir, _| {
        let view = View::open(dir)?;
        let _ = (view.method(), view.has_writer());
        count(view.read(view.first_lsn())?)
    }),
    ("verify", |dir, _| verify(dir).map(|report| usize::try_from(report.records).unwrap_or(0))),
    ("salvage", |dir, to| {
        salvage(dir, to, in_memory()).map(|done| usize::try_from(done.records).unwrap_or(0))
    }),
    ("backup", |dir, to| {
        backup(dir, to)?;
        let view = View::open(to)?;
        count(view.read(view.first_lsn())?)
    }),
    ("rebuild", |dir, _| Rebuild::follow(dir, false).map(|_| 0)),
    ("follow", |dir, _| {
        let view = View::open(dir)?;
        let mut follower = view.follow(view.first_lsn())?;
        count(std::iter::from_fn(|| follower.try_next_record().transpose()))
    }),
];

/// What an opening of the folder with one file changed may do.
fn check(opening: &str, name: &str, found: Result<usize, Error>, folder: &Path, what: &str) -> bool {
    let is_log = matches!(file_role(name), Some(FileRole::Segment(_)));
    match found {
        // What only memory holds is shown by the opening that takes it.
        Ok(found) => {
            assert!(is_log || opening == "rebuild" || found >= RECORDS - 1, "{what}: {found} records");
            false
        }
        Err(error) => {
            let text = error.to_string();
            let names_it = text.contains(name) || text.contains(&*folder.to_string_lossy());
            assert!(names_it, "{what} names nothing: {text}");
            let may = is_log || opening == "rebuild" || name.starts_with("HOLD") || name == "REBUILDING";
            assert!(may, "{what}: {text}");
            true
        }
    }
}

/// Every file of the folder in every length; returns how many openings that were, and how many were refused.
fn table(whole: &Path) -> (usize, usize) {
    let names = fs::read_dir(whole).expect("lists").flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name().into_string().expect("ours")).collect();
    names.sort();
    let (mut tried, mut refused) = (0, 0);
    for name in &names {
        let bytes = fs::read(whole.join(name)).expect("reads");
        let lengths =
            (0..=bytes.len().min(HEADER_BYTES)).chain(LONGER).filter(|length| *length <= bytes.len());
        for length in lengths {
            for (how, filled) in [("cut", None), ("zeros", Some(0)), ("garbage", Some(GARBAGE))] {
                let content = filled.map_or_else(|| bytes[..length].to_vec(), |byte| vec![byte; length]);
                for (opening, open) in OPENINGS {
                    // The writer's own opening is tried with every length, the others with fewer.
                    let every = opening == "open" && filled.is_none();
                    if !every && length > 16 && !length.is_multiple_of(16) {
                        continue;
                    }
                    let (dir, to) = (folder(), folder());
                    copy(whole, dir.path());
                    fs::write(dir.path().join(name), &content).expect("writes");
                    let what = format!("{name} of {length} bytes ({how}), {opening}");
                    let found = open(dir.path(), &to.path().join("new"));
                    tried += 1;
                    refused += usize::from(check(opening, name, found, dir.path(), &what));
                }
            }
        }
    }
    println!("{tried} openings of {names:?}, {refused} refused");
    (tried, refused)
}

#[test]
fn no_own_file_of_any_length_makes_an_opening_panic_or_lose_anything() {
    let whole = folder();
    log(whole.path());
    let (tried, refused) = table(whole.path());
    assert!(tried > 3000 && refused > 100, "{tried} openings, {refused} refused");
    // The file that marks a rebuild is looked at by every opening, and alone.
    let rebuilt = folder();
    fs::write(rebuilt.path().join("REBUILDING"), "rebuilding 3 8192 17\na note").expect("writes");
    let (tried, refused) = table(rebuilt.path());
    assert!(refused > tried / 2, "{tried} openings, {refused} refused");
}

/// What a process left that ended while it made the memory is in the way of no later one.
#[test]
fn memory_of_any_length_is_replaced() {
    for length in [0, 1, 4, 7, 8, 127, 128, 4096] {
        for magic in [&b""[..], b"SWM1"] {
            let dir = scratch();
            drop(Log::open(dir.path(), options()).expect("opens"));
            let mut content = vec![0; length];
            let magic = &magic[..magic.len().min(length)];
            content[..magic.len()].copy_from_slice(magic);
            fs::write(dir.path().join("MEMORY"), content).expect("writes");
            let log = Log::open(dir.path(), options()).expect("opens");
            let end = log.append(b"a record").expect("appends").end;
            log.commit_as(end, ProcessCrash).expect("commits");
            assert_eq!(log.stats().process_crash, ProcessCrashCommits::InMemory, "{length} bytes");
        }
    }
}
