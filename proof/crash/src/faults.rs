//! Tests the log on real file systems whose disk fails, fills up or turns read-only.
//!
//! Each check runs on a fresh ext4, xfs or btrfs whose disk fails on demand:
//!
//! | check | what must hold |
//! | --- | --- |
//! | `fsync_table` | fsync fails with EIO, the next one succeeds, buffered reads show the new data, direct reads the old: why the log never tries a sync again and recovers past the page cache |
//! | `full_disk` | running out of space at rotation is reported, does not fail the log, and ends when there is space again |
//! | `torn_and_full` | a log with a torn tail and no segment prepared, on a disk without a byte left: opening works or reports that the disk is full, every acknowledged record can be read, and with space again it opens |
//! | `dead_disk` | when every write fails the log fails for good; after a remount every acknowledged record is there |
//! | `read_only` | on a file system that was remounted read-only opening is refused with EROFS; ext4 that turns read-only under a running log fails it for good; writable again, every acknowledged record is there |
//! | `failed_then_cut` | a commit fails, the process dies, another one reopens while the page cache still shows unwritten data, and then the power goes |
//!
//! Invariant: a check that did not see its fault happen fails.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall::oracle::{Issued, Ledger, judge_records};
use seawall::sim::outside::record_bytes;
use seawall::{Error, Log, View};

use crate::blocks::campaign::{self, Counts, DiskPool, Finding, Search, by_library, log_options};
use crate::blocks::file::Failing;
use crate::blocks::volume::{FileSystem, Mounted, Volume};
use crate::blocks::window::Recording;
use crate::scene::Scene;
use crate::victim::{VictimKind, VictimOptions};

const O_DIRECT: i32 = 0o40000;
const PAGE: usize = 4096;

/// One row of the table of failing syncs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct FsyncRow {
    pub(crate) file_system: &'static str,
    /// The error number of the first fsync, 0 if it succeeded.
    pub(crate) first: i32,
    /// The same for the second one.
    pub(crate) second: i32,
    /// What a buffered read shows: `new` or `old`.
    pub(crate) buffered: &'static str,
    /// What a direct read shows.
    pub(crate) direct: &'static str,
}

impl FsyncRow {
    /// The row as measured on Linux 6.18 for all three file systems.
    pub(crate) fn expected(file_system: &'static str) -> Self {
        Self { file_system, first: 5, second: 0, buffered: "new", direct: "old" }
    }
}

fn aligned_page(fill: &[u8]) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page[..fill.len()].copy_from_slice(fill);
    page
}

fn number(result: io::Result<()>) -> i32 {
    result.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0)
}

fn shown(page: &[u8]) -> &'static str {
    match page.get(..3) {
        Some(b"NEW") => "new",
        Some(b"OLD") => "old",
        _ => "neither",
    }
}

/// Measures one row.
pub(crate) fn fsync_table(file_system: &'static FileSystem) -> io::Result<FsyncRow> {
    let volume = Volume::new(file_system, 1)?;
    volume.make()?;
    let mounted = volume.mount()?;
    let path = mounted.path.join("file");
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
    file.write_all_at(&aligned_page(b"OLD"), 0)?;
    file.sync_all()?;
    rustix::fs::syncfs(&file)?;
    volume.file.fail(Failing { pages: Some(b"NEW".to_vec()), ..Failing::default() });
    file.write_all_at(&aligned_page(b"NEW"), 0)?;
    let first = number(file.sync_all());
    let failed = volume.file.fail(Failing::default());
    if failed == 0 {
        return Err(io::Error::other("no write reached the disk, so none failed"));
    }
    let second = number(file.sync_all());
    let mut page = vec![0; PAGE];
    file.read_exact_at(&mut page, 0)?;
    let buffered = shown(&page);
    let mut room = vec![0; 2 * PAGE];
    let start = room.as_ptr().align_offset(PAGE);
    let direct = File::options().read(true).custom_flags(O_DIRECT).open(&path)?;
    direct.read_exact_at(&mut room[start..start + PAGE], 0)?;
    let direct = shown(&room[start..]);
    Ok(FsyncRow { file_system: file_system.name, first, second, buffered, direct })
}

/// The method of the logs here.
const METHOD: &str = "direct+dsync";

/// Appends and commits one record of 3000 bytes and enters it into the ledger.
fn commit_one(log: &Log, ledger: &mut Ledger) -> Result<(), Error> {
    let start = log.appended_lsn();
    let fill = u8::try_from(ledger.issued.len() % 251).unwrap_or(0);
    let payload = vec![fill; 3000];
    let end = start.saturating_add(record_bytes(payload.len()));
    ledger.issued.retain(|record| record.end <= start);
    ledger.issued.push(Issued {
        start,
        end,
        ends_transaction: true,
        tagged: false,
        payload: payload.clone(),
    });
    let lsn = log.append_commit(&payload)?.end;
    ledger.acknowledged = lsn;
    Ok(())
}

/// Opens the log in `dir` and holds what it hands out against the ledger.
fn judge_log(dir: &Path, ledger: &Ledger) -> io::Result<()> {
    by_library(dir, METHOD, ledger).map(drop).map_err(io::Error::other)
}

fn fill_up(path: &Path, leave: u64) -> io::Result<()> {
    let filler = File::create(path)?;
    let free = rustix::fs::statvfs(path.parent().unwrap_or(path))?;
    let mut bytes = (free.f_bavail * free.f_frsize).saturating_sub(leave);
    while bytes >= 64 << 10 {
        match rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Ok(()) => break,
            Err(rustix::io::Errno::NOSPC) => bytes -= bytes / 16 + 4096,
            Err(error) => return Err(error.into()),
        }
    }
    filler.sync_all()
}

/// Fills the disk, writes until a segment is missing, makes room, writes on. Gives the commits before and after.
pub(crate) fn full_disk(file_system: &'static FileSystem) -> io::Result<(u64, u64)> {
    const TRIES: u64 = 4000;
    // They go in this order, the last ones first.
    let InUse { volume: _volume, mounted, dir, mut ledger, log } = in_use(file_system, 2)?;
    let filler = mounted.path.join("filler");
    fill_up(&filler, 1 << 20)?;
    let mut before = 0;
    let mut full = false;
    while before < TRIES && !full {
        match commit_one(&log, &mut ledger) {
            Ok(()) => before += 1,
            Err(Error::DiskFull { .. }) => full = true,
            Err(error) => return Err(io::Error::other(format!("a full disk was reported as: {error}"))),
        }
    }
    if !full {
        return Err(io::Error::other(format!("{TRIES} commits fit on a full disk")));
    }
    std::fs::remove_file(&filler)?;
    rustix::fs::syncfs(File::open(&mounted.path)?)?;
    let mut after = 0;
    for _ in 0..200 {
        match commit_one(&log, &mut ledger) {
            Ok(()) => after += 1,
            // Space comes back when the file system says so.
            Err(Error::DiskFull { .. }) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(io::Error::other(format!("with space again: {error}"))),
        }
    }
    if after < 100 {
        return Err(io::Error::other(format!("only {after} of 200 commits worked with space again")));
    }
    log.close().map_err(io::Error::other)?;
    judge_log(&dir, &ledger)?;
    Ok((before, after))
}

/// A log in use on a file system of its own. Destructure it from the volume up, so that the parts are dropped from the
/// log down.
struct InUse {
    ledger: Ledger,
    log: Log,
    dir: PathBuf,
    mounted: Mounted,
    volume: Volume,
}

/// Commits of a log in use.
const COMMITS: u64 = 20;

/// A log with some commits on a healthy disk.
fn in_use(file_system: &'static FileSystem, seed: u64) -> io::Result<InUse> {
    let volume = Volume::new(file_system, seed)?;
    volume.make()?;
    let mounted = volume.mount()?;
    let dir = mounted.path.join("log");
    let mut ledger = Ledger::default();
    let log = Log::open(&dir, log_options(METHOD)).map_err(io::Error::other)?;
    for _ in 0..COMMITS {
        commit_one(&log, &mut ledger).map_err(io::Error::other)?;
    }
    Ok(InUse { ledger, log, dir, mounted, volume })
}

/// Judges the log once its file system has been unmounted and mounted again.
fn judge_remounted(volume: &Volume, mounted: Mounted, dir: &Path, ledger: &Ledger) -> io::Result<()> {
    mounted.unmount()?;
    let mounted = volume.mount()?;
    judge_log(dir, ledger)?;
    mounted.unmount()
}

/// Removes the segments that are prepared and not started, as if they had never been.
fn remove_spares(dir: &Path) -> io::Result<()> {
    let started = View::open(dir).map_err(io::Error::other)?.segments();
    let entries = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let mut segments: Vec<PathBuf> =
        entries.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "seg")).collect();
    segments.sort();
    segments.iter().skip(started).try_for_each(std::fs::remove_file)
}

/// Leaves a torn tail and no spare on a full disk, opens, makes room, opens again. Gives how the first opening went.
pub(crate) fn torn_and_full(file_system: &'static FileSystem) -> io::Result<String> {
    let InUse { volume, mounted, dir, ledger, log } = in_use(file_system, 5)?;
    // Not closed: its tail counts as torn.
    drop(log);
    remove_spares(&dir)?;
    let filler = mounted.path.join("filler");
    // A disk without a byte left has none for a name either.
    let mut crumbs = File::create(mounted.path.join("crumbs"))?;
    fill_up(&filler, 0)?;
    // The file system keeps some of what it calls free until it is needed.
    while crumbs.write_all(&[0xA5; PAGE]).and_then(|()| crumbs.sync_data()).is_ok() {}
    let first = match Log::open(&dir, log_options(METHOD)) {
        // It took the last room there was; whether all is there is looked at below, without opening it once more.
        Ok(log) => {
            drop(log);
            "opened"
        }
        Err(error @ Error::DiskFull { .. }) if error.raw_os_error() == Some(ENOSPC) => {
            "refused as a full disk"
        }
        Err(error) => return Err(io::Error::other(format!("a full disk was reported as: {error}"))),
    };
    let view = View::open(&dir).map_err(io::Error::other)?;
    let records = view.read(view.first_lsn()).map_err(io::Error::other)?;
    judge_records(&ledger, records, view.end_lsn()).map_err(io::Error::other)?;
    // It holds the directory, and so the file system.
    drop(view);
    drop(crumbs);
    std::fs::remove_file(&filler)?;
    std::fs::remove_file(mounted.path.join("crumbs"))?;
    rustix::fs::syncfs(File::open(&mounted.path)?)?;
    judge_log(&dir, &ledger)?;
    mounted.unmount()?;
    drop(volume);
    Ok(format!("{first}, everything readable, opened when there was space again"))
}

/// Fails every write for good, then remounts a healthy disk. Gives the commits before.
pub(crate) fn dead_disk(file_system: &'static FileSystem) -> io::Result<u64> {
    let InUse { volume, mounted, dir, mut ledger, log } = in_use(file_system, 3)?;
    volume.file.fail(Failing { writes: true, flushes: true, pages: None });
    let acknowledged = ledger.acknowledged;
    let failed = commit_one(&log, &mut ledger);
    if failed.is_ok() {
        return Err(io::Error::other("a commit was acknowledged while every write fails"));
    }
    volume.file.fail(Failing::default());
    // Healthy again, or read-only by the file system's own choice: the log must not go on in either case.
    if commit_one(&log, &mut ledger).is_ok() || log.durable_lsn() > acknowledged {
        return Err(io::Error::other("a commit was acknowledged after a failure"));
    }
    drop(log);
    judge_remounted(&volume, mounted, &dir, &ledger)?;
    Ok(COMMITS)
}

const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EIO: i32 = 5;

/// Makes the file system read-only, before opening and (ext4) under a running log, and writable again. Returns the
/// error of the running log.
pub(crate) fn read_only(file_system: &'static FileSystem) -> io::Result<String> {
    let InUse { volume, mounted, dir, mut ledger, log } = in_use(file_system, 4)?;
    log.close().map_err(io::Error::other)?;
    mounted.remount("ro")?;
    match Log::open(&dir, log_options(METHOD)) {
        Err(error) if error.raw_os_error() == Some(EROFS) => {}
        other => return Err(io::Error::other(format!("opened on a read-only file system: {other:?}"))),
    }
    mounted.remount("rw")?;
    judge_log(&dir, &ledger)?;
    if file_system.name != "ext4" {
        return Ok("refused with EROFS, all there when writable again".to_owned());
    }
    let log = Log::open(&dir, log_options(METHOD)).map_err(io::Error::other)?;
    commit_one(&log, &mut ledger).map_err(io::Error::other)?;
    // What ext4 does to itself after an error in its journal.
    mounted.remount("abort")?;
    let errno = match commit_one(&log, &mut ledger) {
        Err(error) => error.raw_os_error().unwrap_or(-1),
        Ok(()) => return Err(io::Error::other("a commit was acknowledged on a read-only file system")),
    };
    if ![EROFS, EIO].contains(&errno) || commit_one(&log, &mut ledger).is_ok() {
        return Err(io::Error::other(format!("errno {errno}, or a commit was acknowledged after a failure")));
    }
    drop(log);
    judge_remounted(&volume, mounted, &dir, &ledger)?;
    Ok(format!(
        "refused with EROFS; under the running log: errno {errno}, failed for good, all there after a remount"
    ))
}

/// Transactions of the victim of [`failed_then_cut`], far more than it gets to.
pub(crate) const TRANSACTIONS: u64 = 400;

/// The batches of one life fail, the next life opens while the page cache lies, reading past it or not
/// (`cached_reads`), and the power goes at every moment. Gives the recording and what was found in it.
pub(crate) fn failed_then_cut(
    file_system: &'static FileSystem,
    (seed, cached_reads): (u64, bool),
    binary: &Path,
    jobs: usize,
    counts: &mut Counts,
) -> io::Result<(Recording, Option<Finding>)> {
    let scene = Scene::honest(VictimKind::Library, "buffered+fdatasync", seed, 0, TRANSACTIONS);
    let recording = campaign::record_script(file_system, &scene, |volume, dir| {
        let first = VictimOptions { quiet: true, ..scene.victim(dir, Some(volume.marks())) };
        let mut child = first.spawn(binary)?;
        std::thread::sleep(Duration::from_millis(10 + seed % 10));
        let pages = Some(seawall::format::BATCH_MAGIC.to_vec());
        volume.file.fail(Failing { pages, ..Failing::default() });
        let status = child.wait()?;
        let failed = volume.file.fail(Failing::default());
        if status.success() || failed == 0 {
            return Err(io::Error::other("no commit failed"));
        }
        let mut second = scene.victim(dir, Some(volume.marks()));
        (second.life, second.scene.transactions, second.cached_reads) = (2, 12, cached_reads);
        second.run(binary).map_err(|error| io::Error::other(format!("the log did not open again: {error}")))
    })?;
    let pool = DiskPool::new(file_system);
    let search = Search { recording: &recording, pool: &pool, jobs, one_in: 1, only: None, nested: false };
    let found = search.run(counts)?;
    Ok((recording, found))
}
