//! Replays the file operations of a product's commit without the product.
//!
//! ```text
//!   PostgreSQL        a client's request; 8 KiB page of a recycled 16 MiB segment, the same page until it is full;
//!                     sync by the setting; the answer
//!   SQLite WAL        frame header 24 B, page 4 KiB; sync (FULL). At 1000 frames: sync, pages to the database, sync;
//!                     the next commit starts at the front: header 32 B, sync
//!   SQLite DELETE     journal: create, header, two pages with number and checksum; sync, sync of the folder,
//!                     [count into the header, sync (FULL)]; two pages of the database, sync; unlink
//! ```
//!
//! The operations were traced with strace at PostgreSQL 15.18 and SQLite 3.40.1. The result is a difference: the same
//! operations with the syncs, and with sleeps in their place that are subtracted, so that the cost of the writes into
//! the cache and of waking up, which the product's own work includes, cancels out. The client is there for the same
//! reason.
//!
//! Invariants: every write and sync runs through a row of the method table; files lie in the given folder and are
//! removed.

use crate::error::{Error, Result};
use seawall_sys::buffer::Aligned;
use seawall_sys::clock::monotonic_ns;
use seawall_sys::durability::FileState;
use seawall_sys::journal::{Recipe, make};
use seawall_sys::method::Method;
use seawall_sys::store::sync_directory;
use seawall_sys::{CommitHandle, Target, methods, open};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SEGMENT_BYTES: u64 = 16 << 20;
const PAGE_BYTES: usize = 8 << 10;
/// Commits of one small row that share a page: about 190 bytes of WAL each.
const COMMITS_A_PAGE: u64 = 42;

/// What pgbench sends for a prepared statement, and what it gets.
const REQUEST_BYTES: usize = 40;
const ANSWER_BYTES: usize = 32;

const SQLITE_PAGE: usize = 4 << 10;
/// Pages of the database that the commits touch, one each.
pub(super) const TABLE_PAGES: u64 = 25;
/// `wal_autocheckpoint`.
const CHECKPOINT_FRAMES: u64 = 1000;

/// The time that a replay took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replayed {
    pub(super) commits: u64,
    pub(super) elapsed_ns: u64,
    pub(super) syncs: u64,
    /// Part of `elapsed_ns`: in calls that sync, or asleep in their place.
    pub(super) in_syncs_ns: u64,
}

/// What a replay does where the product syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syncs {
    /// It syncs.
    Made,
    /// It sleeps for so many nanoseconds.
    Slept(u64),
}

impl Replayed {
    /// Nanoseconds a commit.
    pub(super) fn mean_ns(self) -> f64 {
        self.elapsed_ns as f64 / self.commits.max(1) as f64
    }

    /// Nanoseconds a commit, without what was spent in syncs or asleep.
    pub(super) fn awake_ns(self) -> f64 {
        (self.elapsed_ns - self.in_syncs_ns) as f64 / self.commits.max(1) as f64
    }

    /// Nanoseconds a sync.
    pub(super) fn sync_ns(self) -> u64 {
        self.in_syncs_ns / self.syncs.max(1)
    }
}

fn row(id: &str) -> Result<&'static Method> {
    methods::find(id).ok_or_else(|| Error::lacking(format!("this system has no method {id}")))
}

/// A file of one replay, written by one row, and the count of its syncs.
struct Written {
    commit: Box<dyn CommitHandle>,
    bytes: Aligned,
    stamp: u64,
    how: Syncs,
    syncs: u64,
    in_syncs_ns: u64,
}

/// Syncs or sleeps; gives how long that took, nanoseconds.
fn sync_or_sleep(how: Syncs, sync: impl FnOnce() -> Result<(), seawall_sys::Error>) -> Result<u64> {
    let began_ns = monotonic_ns();
    match how {
        Syncs::Made => sync().map_err(Error::at("a sync"))?,
        Syncs::Slept(ns) => std::thread::sleep(Duration::from_nanos(ns)),
    }
    Ok(monotonic_ns() - began_ns)
}

impl Written {
    fn open(path: &Path, id: &str, bytes: u64, how: Syncs) -> Result<Self> {
        let target = Target { path: path.to_path_buf(), journal_bytes: bytes, write_bytes: PAGE_BYTES };
        let commit = open(row(id)?, &target).map_err(Error::at(path.display()))?;
        let mut data = Aligned::zeroed(PAGE_BYTES);
        data.as_mut_slice().iter_mut().zip((0..=250_u8).cycle()).for_each(|(byte, value)| *byte = value);
        Ok(Self { commit, bytes: data, stamp: 0, how, syncs: 0, in_syncs_ns: 0 })
    }

    fn write(&mut self, at: u64, bytes: usize) -> Result {
        self.stamp += 1;
        let stamp = self.stamp.to_le_bytes();
        let len = bytes.min(stamp.len());
        self.bytes.as_mut_slice()[..len].copy_from_slice(&stamp[..len]);
        self.commit.write(at, &self.bytes.as_slice()[..bytes]).map_err(Error::at("a write"))
    }

    fn sync(&mut self) -> Result {
        self.syncs += 1;
        self.in_syncs_ns += sync_or_sleep(self.how, || self.commit.sync())?;
        Ok(())
    }
}

/// Removes a file when dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // The folder is removed as a whole afterwards.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A segment of PostgreSQL's log, recycled, its pages in the cache as the server left them.
pub(super) struct Segment(Removed);

impl Segment {
    pub(super) fn make(folder: &Path) -> Result<Self> {
        let path = folder.join("replayed-segment");
        let fill_bytes = PAGE_BYTES as u64;
        let recipe =
            Recipe { state: FileState::Recycled, bytes: SEGMENT_BYTES, fill_bytes, keep_cached: true };
        make(&path, &recipe, &mut |_| true).map_err(Error::at(path.display()))?;
        Ok(Self(Removed(path)))
    }

    /// Commits by the row `id` for `time_ns` nanoseconds, each asked for by a client.
    pub(super) fn replay(&self, id: &str, how: Syncs, time_ns: u64) -> Result<Replayed> {
        let failed = |error: io::Error| Error::at("a pipe between client and server")(error);
        let (mut requests, ask) = io::pipe().map_err(failed)?;
        let (answers, mut answer) = io::pipe().map_err(failed)?;
        let mut file = Written::open(&self.0.0, id, SEGMENT_BYTES, how)?;
        std::thread::scope(|scope| {
            scope.spawn(move || client(ask, answers));
            let mut request = [0; REQUEST_BYTES];
            let (began_ns, mut commits, mut elapsed_ns) = (monotonic_ns(), 0, 0);
            while elapsed_ns < time_ns {
                requests.read_exact(&mut request).map_err(failed)?;
                let page = commits / COMMITS_A_PAGE % (SEGMENT_BYTES / PAGE_BYTES as u64);
                file.write(page * PAGE_BYTES as u64, PAGE_BYTES)?;
                file.sync()?;
                answer.write_all(&[0; ANSWER_BYTES]).map_err(failed)?;
                commits += 1;
                elapsed_ns = monotonic_ns() - began_ns;
            }
            // Both ends go before the client is waited for, so that it sees the end.
            drop((requests, answer));
            Ok(Replayed { commits, elapsed_ns, syncs: file.syncs, in_syncs_ns: file.in_syncs_ns })
        })
    }
}

/// Asks and waits for the answer until the server has gone.
fn client(mut ask: io::PipeWriter, mut answers: io::PipeReader) {
    let mut answer = [0; ANSWER_BYTES];
    while ask.write_all(&[0; REQUEST_BYTES]).and_then(|()| answers.read_exact(&mut answer)).is_ok() {}
}

/// How SQLite keeps its promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Journal {
    /// `journal_mode = WAL`.
    Wal,
    /// `journal_mode = DELETE`.
    Delete,
}

/// `PRAGMA synchronous`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Synchronous {
    /// `NORMAL`.
    Normal,
    /// `FULL`.
    Full,
}

/// SQLite's file operations for `commits` commits of one changed row each, on files of its own in `folder`.
pub(super) fn sqlite(
    folder: &Path,
    journal: Journal,
    synchronous: Synchronous,
    how: Syncs,
    commits: u64,
) -> Result<Replayed> {
    let database = Removed(folder.join("replayed-database"));
    let bytes = (TABLE_PAGES + 2) * SQLITE_PAGE as u64;
    let fill_bytes = SQLITE_PAGE as u64;
    let recipe = Recipe { state: FileState::Recycled, bytes, fill_bytes, keep_cached: true };
    make(&database.0, &recipe, &mut |_| true).map_err(Error::at(database.0.display()))?;
    let mut table = Written::open(&database.0, "buffered+fdatasync", bytes, how)?;
    match journal {
        Journal::Wal => wal(folder, &mut table, synchronous, commits),
        Journal::Delete => rollback(folder, &mut table, synchronous, commits),
    }
}

/// The page of the table that a commit changes.
fn page_of(commit: u64) -> u64 {
    (1 + commit * 7 % TABLE_PAGES) * SQLITE_PAGE as u64
}

fn wal(folder: &Path, table: &mut Written, synchronous: Synchronous, commits: u64) -> Result<Replayed> {
    const HEADER: u64 = 32;
    const FRAME_HEADER: u64 = 24;
    let frame = FRAME_HEADER + SQLITE_PAGE as u64;
    let path = Removed(folder.join("replayed-database-wal"));
    let began_ns = monotonic_ns();
    File::create_new(&path.0).map_err(Error::at(path.0.display()))?;
    let bytes = HEADER + frame * (CHECKPOINT_FRAMES + 1);
    let mut log = Written::open(&path.0, "buffered+fdatasync", bytes, table.how)?;
    let mut frames = 0;
    for commit in 0..commits {
        if frames == 0 {
            log.write(0, 32)?;
            log.sync()?;
        }
        let at = HEADER + frames * frame;
        log.write(at, 24)?;
        log.write(at + FRAME_HEADER, SQLITE_PAGE)?;
        if synchronous == Synchronous::Full {
            log.sync()?;
        }
        frames += 1;
        if frames == CHECKPOINT_FRAMES || commit + 1 == commits {
            log.sync()?;
            (0..TABLE_PAGES.min(frames)).try_for_each(|page| table.write(page_of(page), SQLITE_PAGE))?;
            table.sync()?;
            frames = 0;
        }
    }
    drop(path);
    let (syncs, in_syncs_ns) = (log.syncs + table.syncs, log.in_syncs_ns + table.in_syncs_ns);
    Ok(Replayed { commits, elapsed_ns: monotonic_ns() - began_ns, syncs, in_syncs_ns })
}

fn rollback(folder: &Path, table: &mut Written, synchronous: Synchronous, commits: u64) -> Result<Replayed> {
    /// The journal's header, then each page with its number before and its checksum behind it.
    const RECORDS: [(u64, usize); 7] =
        [(0, 512), (512, 4), (516, SQLITE_PAGE), (4612, 4), (4616, 4), (4620, SQLITE_PAGE), (8716, 4)];
    let path = folder.join("replayed-database-journal");
    let (began_ns, mut syncs, mut in_syncs_ns) = (monotonic_ns(), 0, 0);
    for commit in 0..commits {
        let removed = Removed(path.clone());
        File::create_new(&path).map_err(Error::at(path.display()))?;
        let mut journal = Written::open(&path, "buffered+fdatasync", 16 << 10, table.how)?;
        RECORDS.into_iter().try_for_each(|(at, bytes)| journal.write(at, bytes))?;
        if synchronous == Synchronous::Full {
            journal.sync()?;
        } else {
            journal.write(0, 12)?;
            journal.sync()?;
        }
        in_syncs_ns += sync_or_sleep(table.how, || sync_directory(folder))?;
        syncs += 1;
        if synchronous == Synchronous::Full {
            journal.write(0, 12)?;
            journal.sync()?;
        }
        table.write(0, SQLITE_PAGE)?;
        table.write(page_of(commit), SQLITE_PAGE)?;
        table.sync()?;
        syncs += journal.syncs;
        in_syncs_ns += journal.in_syncs_ns;
        drop(journal);
        drop(removed);
    }
    let (syncs, in_syncs_ns) = (syncs + table.syncs, in_syncs_ns + table.in_syncs_ns);
    Ok(Replayed { commits, elapsed_ns: monotonic_ns() - began_ns, syncs, in_syncs_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_syncs_as_often_as_sqlite_was_seen_to() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path();
        let syncs = |journal, synchronous, commits| {
            let made = sqlite(folder, journal, synchronous, Syncs::Made, commits).expect("replayed");
            let slept = sqlite(folder, journal, synchronous, Syncs::Slept(1000), commits).expect("replayed");
            assert_eq!(made.syncs, slept.syncs, "asleep it does the same");
            assert!(slept.in_syncs_ns >= 1000 * slept.syncs && slept.in_syncs_ns <= slept.elapsed_ns);
            made.syncs
        };
        assert_eq!(syncs(Journal::Delete, Synchronous::Normal, 3), 3 * 3);
        assert_eq!(syncs(Journal::Delete, Synchronous::Full, 3), 3 * 4);
        // A header and two ends of a checkpoint each time the log starts at the front.
        assert_eq!(syncs(Journal::Wal, Synchronous::Normal, 1500), 2 * 3);
        assert_eq!(syncs(Journal::Wal, Synchronous::Full, 1500), 2 * 3 + 1500);
        let left = std::fs::read_dir(folder).expect("readable").count();
        assert_eq!(left, 0, "files of a replay are removed");
    }
}
