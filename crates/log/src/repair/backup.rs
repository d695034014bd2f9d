//! Copies a log, even while it is written, into a folder that opens as the same log.
//!
//! ```text
//! first backup   TO.partial: stage each segment, publish, verify all -> rename TO.partial to TO -> sync what holds TO
//!                or, in a TO that is there and empty: REBUILDING -> the same in TO -> remove REBUILDING
//! later ones     in TO:      stage what differs, verify it -> per segment, oldest first: replace n.seg, sync TO
//!                            -> per trimmed segment, oldest first: remove, sync TO -> verify all
//! stage          create n.new -> copy -> sync -> read back past the cache and check every batch
//! ```
//!
//! A segment of the backup is kept if its header and that of the one after it are those of the log, and all of its
//! batches are intact up to the LSN and the link with which the next one starts: the link is a chain of checksums, so
//! the same link means the same batches. The newest segment is copied again each time.
//!
//! Invariants: a segment is taken only if it still had its name after it was read, because a trimmed one is renamed before
//! it is overwritten and no number is given twice; nothing after what is known to be durable is copied, because a copy of
//! half of what is in flight may hold a later batch and not an earlier one; whatever names a backup without the file REBUILDING has at
//! any moment, they make a whole log that is at least as new as the backup before.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seawall_sys::directory::Directory;

use crate::error::{Damage, Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::cursor::Cursor;
use crate::format::{BatchHeader, SegmentHeader, file_role, preparing_name, segment_name};
use crate::lock::{Lock, make_dir, open_any_dir, open_dir};
use crate::lsn::Lsn;
use crate::options::Options;
use crate::read::view::View;
use crate::recovery::directory::{is_ours, open_cold, scan_directory, split_members};
use crate::recovery::remove_staging;
use crate::recovery::tail::{Window, walk_while};
use crate::repair::unfinished::{self, is_free};
use crate::repair::verify::{Report, in_dir, look};
use crate::storage::disk::{Access, Disk, FileId, has_name, read_full, remove, sync, sync_dir, write_all};
use crate::storage::os_disk::OsDisk;

/// One read and one write, in bytes.
const COPY_BYTES: usize = 1 << 20;

/// The most looks at a log that trims faster than it is copied; segments that were copied once are not copied again.
const LOOKS_MAX: u32 = 64;

/// What [`backup`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// What [`crate::verify`] says of the copy: no damage, its first LSN and its end.
    pub report: Report,
    /// Segments copied.
    pub copied: u64,
    /// Segments that an earlier backup had copied, checked again.
    pub kept: u64,
    /// Segments that the log had trimmed, removed from the backup.
    pub removed: u64,
}

/// Copies the log in `from`, even while another process writes it, into the folder `to`, with the same LSNs. The copy is
/// a log: open, view, verify and salvage it like any other.
///
/// While a log is written, the backup has everything that the log itself proves durable, as [`View`] shows it;
/// otherwise everything. It is read back and checked before it gets its name, and durable when this returns. A new
/// backup is built beside `to`, in `to.partial`, and renamed: an interrupted one never has
/// the name. If `to` is empty, such as the mount point of a new disk, it is filled in place, and is not a log before it is
/// complete ([`Error::Rebuilding`]). An existing backup of the same log gets only segments that are new, changed or damaged, and
/// trimmed ones are removed; an interrupted update leaves a complete backup that is at least as new as before. Only the owner may read
/// the files.
///
/// # Errors
/// [`Error::Corrupt`] if the log is damaged: `salvage` copies what is intact. [`Error::InvalidOption`] if `to` holds other
/// files, another log's backup, one that was written to, or one so old that the log no longer continues it: name a
/// new folder. [`Error::Locked`] if another process writes to `to`. [`Error::NotALog`], [`Error::DiskFull`], [`Error::Io`].
pub fn backup(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Backup> {
    let from = from.as_ref();
    let dir = open_dir(from)?;
    backup_of(&dir, to.as_ref(), &|| Lsn::ZERO).map_err(|error| error.in_dir(from))
}

/// As [`backup`], of the log in `from` that has everything before `durable()` durable.
pub(crate) fn backup_of(from: &Arc<Directory>, to: &Path, durable: &dyn Fn() -> Lsn) -> Result<Backup> {
    let to = std::path::absolute(to).map_err(|source| Error::io("open", to, source))?;
    let same = |a: &Path, b: &Path| a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b));
    if same(from.path(), &to) {
        return Err(refusal(&to, "is the log itself"));
    }
    let is_free = is_free(&to)?;
    if is_free || holds_log(&to)? {
        let filled = if is_free { Filled::Empty } else { Filled::Backup };
        let done = backup_into(from, &to, durable, filled)?.0;
        return Ok(done);
    }
    let mut partial = to.clone().into_os_string();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    make_dir(&partial, &Options::default())?;
    let (done, lock) = backup_into(from, &partial, durable, Filled::Partial)?;
    // Windows renames no directory that is open.
    let lock = (!cfg!(windows)).then_some(lock);
    std::fs::rename(&partial, &to).map_err(|source| Error::io("rename", &partial, source))?;
    drop(lock);
    let parent = to.parent().unwrap_or(Path::new("."));
    let synced = seawall_sys::store::sync_directory(parent);
    synced.map_err(|error| Error::io("sync", parent, error.into_source()))?;
    Ok(Backup { report: in_dir(done.report, &to), ..done })
}

fn refusal(to: &Path, why: &str) -> Error {
    let reason = format!("{} {why}: name a new folder", to.display());
    Error::InvalidOption { option: "to", reason }
}

/// Whether there is a backup to continue with; refuses a folder of other things.
fn holds_log(to: &Path) -> Result<bool> {
    let names = match std::fs::read_dir(to) {
        Ok(names) => names,
        // A folder cannot be renamed to a link that leads nowhere.
        Err(error) if error.kind() == ErrorKind::NotFound && to.symlink_metadata().is_err() => {
            return Ok(false);
        }
        Err(source) => return Err(Error::io("list", to, source)),
    };
    let mut holds = (false, false);
    for entry in names {
        let name = entry.map_err(|source| Error::io("list", to, source))?.file_name();
        let name = name.to_string_lossy();
        holds.0 |= file_role(&name).is_some();
        holds.1 |= file_role(&name).is_none() && !is_ours(&name);
    }
    match holds {
        (true, _) => Ok(true),
        (false, true) => Err(refusal(to, "contains other files and no backup")),
        (false, false) => Ok(false),
    }
}

/// What the folder is that a copy goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// A whole backup.
    Backup,
    /// What an interrupted copy may have left, under a name that no backup has.
    Partial,
    /// Empty, and no log before all of it is there.
    Empty,
}

/// Brings the folder `to` up to date, or fills a new one, which is no log meanwhile; returns the lock on it.
fn backup_into(
    from: &Arc<Directory>,
    to: &Path,
    durable: &dyn Fn() -> Lsn,
    filled: Filled,
) -> Result<(Backup, Lock)> {
    let options = Options::default();
    let is_new = filled == Filled::Empty;
    let held = if is_new { open_any_dir(to)? } else { open_dir(to)? };
    let lock = Lock::take(&held, &options)?;
    let mut target = OsDisk::new(Arc::clone(&held), options.permissions);
    if is_new {
        // Once more under the lock.
        if !is_free(to)? {
            return Err(refusal(to, "was filled by another program"));
        }
        unfinished::begin(&held, &mut target)?;
    }
    let done =
        copy_log(from, &mut target, (to, filled), durable).map_err(|error| error.in_dir(held.path()))?;
    if let Some(damage) = done.report.damage.first() {
        return Err(Error::Corrupt(damage.clone()).in_dir(held.path()));
    }
    if is_new {
        unfinished::remove(&held)?;
    }
    Ok((Backup { report: in_dir(done.report, held.path()), ..done }, lock))
}

/// Brings the backup on `target` up to date.
pub(crate) fn copy_log<T: Disk>(
    from: &Arc<Directory>,
    target: &mut T,
    to: (&Path, Filled),
    durable: &dyn Fn() -> Lsn,
) -> Result<Backup> {
    Copying::new(from, target, to)?.run(durable)
}

/// Walks through a segment as far as batches are valid and `wanted`.
fn walk_from_start<D: Disk>(
    disk: &mut D,
    place: (&str, FileId),
    segment: SegmentHeader,
    wanted: impl Fn(&Cursor, &BatchHeader) -> bool,
) -> Result<Cursor> {
    let mut cursor = Cursor::start(segment);
    walk_while(disk, &mut Window::new(COPY_BYTES), place, &mut cursor, wanted)?;
    Ok(cursor)
}

/// A backup while it is made.
struct Copying<'a, T: Disk> {
    from: &'a Arc<Directory>,
    source: OsDisk,
    target: &'a mut T,
    to: (&'a Path, Filled),
    /// What the backup holds of the log from before, oldest first.
    old: Vec<SegmentHeader>,
    /// Every number that has a file in the backup from before.
    files: BTreeSet<u64>,
    /// The segments that are copied and not published; the newest one is copied again with each look.
    staged: BTreeMap<u64, SegmentHeader>,
    /// The segments of the backup that were found to be the log's.
    kept: BTreeSet<u64>,
}

impl<'a, T: Disk> Copying<'a, T> {
    fn new(from: &'a Arc<Directory>, target: &'a mut T, to: (&'a Path, Filled)) -> Result<Self> {
        let found = scan_directory(target)?;
        remove_staging(target, &found.staging)?;
        let (old, _) = split_members(&found.started)?;
        let started = found.started.iter().map(|header| header.number);
        let files = started.chain(found.unstarted.iter().map(|spare| spare.number)).collect();
        let (staged, kept) = (BTreeMap::new(), BTreeSet::new());
        let source = OsDisk::read_only(Arc::clone(from));
        Ok(Self { from, source, target, to, old, files, staged, kept })
    }

    fn run(mut self, durable: &dyn Fn() -> Lsn) -> Result<Backup> {
        for _ in 0..LOOKS_MAX {
            // Before the look, so that no segment is started in between.
            let durable = durable();
            let view = View::open_in(self.from).map_err(|error| self.of_source(error))?;
            if self.take(view.headers(), durable.max(view.end_lsn()))? {
                return self.publish(view.headers());
            }
        }
        let busy = std::io::Error::other("it is trimmed faster than it can be copied: retry");
        Err(Error::io("copy", self.from.path(), busy))
    }

    /// An error of the log, not of its copy.
    fn of_source(&self, error: Error) -> Error {
        error.in_dir(self.from.path())
    }

    /// Stages what the backup lacks of these segments, up to `end`; `false` if one of them is trimmed meanwhile.
    fn take(&mut self, segments: &[SegmentHeader], end: Lsn) -> Result<bool> {
        if !self.is_continued_by(segments)? {
            return Ok(false);
        }
        for (index, segment) in segments.iter().enumerate() {
            let next = segments.get(index + 1).copied();
            let there = next.is_some() && self.staged.get(&segment.number) == Some(segment);
            if there || self.keeps(*segment, next)? {
                continue;
            }
            let first = segments[0].first_lsn;
            if !self.stage(*segment, next, (first, end))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Refuses a log that does not continue what the backup holds; `false` if that is unknown, because it is trimmed.
    fn is_continued_by(&mut self, segments: &[SegmentHeader]) -> Result<bool> {
        let Some(newest) = self.old.last().copied() else { return Ok(true) };
        let (to, filled) = self.to;
        let refuse = |why: &str| Err(refusal(to, why));
        let Some(same) = segments.iter().find(|segment| segment.number == newest.number) else {
            let trimmed = segments.first().is_some_and(|first| first.number > newest.number);
            let of_log = segments.first().is_some_and(|first| first.log_id == newest.log_id);
            if trimmed && of_log && filled == Filled::Partial {
                // No backup has that name: it is begun again.
                self.old.clear();
                for number in std::mem::take(&mut self.files) {
                    remove(self.target, &segment_name(number))?;
                }
                return Ok(true);
            }
            let why = if trimmed {
                "ends before the first segment that the log still has"
            } else {
                "contains what the log does not have"
            };
            return refuse(why);
        };
        if *same != newest {
            return refuse("was written to since the backup, or belongs to another log");
        }
        let name = segment_name(newest.number);
        let file = open_cold(self.target, &name)?;
        let ended = walk_from_start(self.target, (&name, file), newest, |_, _| true)?;
        self.target.close(file);
        let Some(file) = self.open_source(&name)? else { return Ok(false) };
        let before = |cursor: &Cursor, _: &BatchHeader| cursor.offset < ended.offset;
        let walked = walk_from_start(&mut self.source, (&name, file), newest, before);
        self.source.close(file);
        let walked = walked.map_err(|error| self.of_source(error))?;
        if (walked.offset, walked.link) == (ended.offset, ended.link) {
            return Ok(true);
        }
        if self.is_left(&name)? {
            refuse("was written to since the backup, or the log is damaged")
        } else {
            Ok(false)
        }
    }

    /// A segment of the log; `None` if it was trimmed.
    fn open_source(&mut self, name: &str) -> Result<Option<FileId>> {
        match self.source.open(name, Access::Direct) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.of_source(Error::io("open", name, source))),
        }
    }

    /// Whether a segment of the log that was read still has its name, so that nothing of it was overwritten.
    fn is_left(&mut self, name: &str) -> Result<bool> {
        has_name(&mut self.source, name).map_err(|error| error.in_dir(self.from.path()))
    }

    /// Whether the backup has this segment, whole and intact.
    fn keeps(&mut self, segment: SegmentHeader, next: Option<SegmentHeader>) -> Result<bool> {
        let Some(next) = next else { return Ok(false) };
        if self.kept.contains(&segment.number) {
            return Ok(true);
        }
        if !(self.old.contains(&segment) && self.old.contains(&next)) {
            return Ok(false);
        }
        let name = segment_name(segment.number);
        let file = open_cold(self.target, &name)?;
        let due = (next.first_lsn, next.link);
        let walked = walk_from_start(self.target, (&name, file), segment, |at, _| (at.lsn, at.link) != due);
        self.target.close(file);
        let walked = walked?;
        let whole = (walked.lsn, walked.link) == due;
        if whole {
            self.kept.insert(segment.number);
        }
        Ok(whole)
    }

    /// Copies a segment under a name of its own: all of one with a `next`, of the newest one what is known to be durable.
    /// That is what lies before `end`, and the batch whose trim let segments before `first` go, which was durable before
    /// they went. `false` if the segment is trimmed meanwhile.
    fn stage(
        &mut self,
        segment: SegmentHeader,
        next: Option<SegmentHeader>,
        (first, end): (Lsn, Lsn),
    ) -> Result<bool> {
        let name = segment_name(segment.number);
        let staging = preparing_name(segment.number);
        let Some(file) = self.open_source(&name)? else { return Ok(false) };
        let (due, cut) = if let Some(next) = next {
            ((next.first_lsn, next.link), segment.data_end())
        } else {
            let wanted = |cursor: &Cursor, batch: &BatchHeader| batch.end() <= end || cursor.trim < first;
            let walked = walk_from_start(&mut self.source, (&name, file), segment, wanted);
            let walked = walked.map_err(|error| self.of_source(error))?;
            ((walked.lsn, walked.link), walked.offset)
        };
        if self.staged.remove(&segment.number).is_some() {
            remove(self.target, &staging)?;
        }
        let copied = self.copy(segment, (&name, file), (&staging, cut));
        self.source.close(file);
        copied?;
        self.staged.insert(segment.number, segment);
        let reached = next.is_some() || due.0 >= end;
        let copy = open_cold(self.target, &staging)?;
        // What lies after that was abandoned when the next segment was started.
        let walked =
            walk_from_start(self.target, (&staging, copy), segment, |at, _| (at.lsn, at.link) != due);
        self.target.close(copy);
        let walked = walked?;
        let sound = reached && (walked.lsn, walked.link) == due;
        if self.is_left(&name)? {
            let what =
                "this part cannot be backed up: `verify` lists the damage, `salvage` copies what is intact";
            let damage = Damage::in_segment(segment.number, walked.offset, walked.lsn, what);
            return if sound { Ok(true) } else { Err(self.of_source(Error::Corrupt(damage))) };
        }
        self.staged.remove(&segment.number);
        remove(self.target, &staging)?;
        Ok(false)
    }

    /// Copies a file, with zeros between `cut` and the second copy of the header.
    fn copy(
        &mut self,
        segment: SegmentHeader,
        (name, file): (&str, FileId),
        (staging, cut): (&str, u64),
    ) -> Result<()> {
        let bytes = segment.data_end() + u64::from(segment.block_bytes);
        let copy = self.target.create(staging).map_err(|source| Error::io("create", staging, source))?;
        self.target
            .allocate(copy, bytes)
            .map_err(|source| Error::io("reserve space for", staging, source))?;
        let mut buf = AlignedBuf::zeroed(COPY_BYTES);
        let mut at = 0;
        while at < bytes {
            let wanted = usize::try_from(bytes - at).unwrap_or(COPY_BYTES).min(COPY_BYTES);
            let piece = &mut buf.bytes_mut()[..wanted];
            let read = read_full(&mut self.source, name, file, at, piece);
            let read = read.map_err(|error| error.in_dir(self.from.path()))?;
            piece[read..].fill(0);
            let within = |place: u64| usize::try_from(place.saturating_sub(at)).unwrap_or(wanted).min(wanted);
            piece[within(cut)..within(segment.data_end())].fill(0);
            write_all(self.target, staging, (copy, at), piece, false)?;
            at += wanted as u64;
        }
        sync(self.target, staging, copy)?;
        self.target.close(copy);
        Ok(())
    }

    /// Gives everything that is staged its name, oldest first, and removes what the log does not have any more.
    fn publish(self, segments: &[SegmentHeader]) -> Result<Backup> {
        let live: BTreeSet<u64> = segments.iter().map(|segment| segment.number).collect();
        for number in self.staged.keys() {
            let staging = preparing_name(*number);
            if !live.contains(number) {
                remove(self.target, &staging)?;
                continue;
            }
            let named = self.target.replace(&staging, &segment_name(*number));
            named.map_err(|source| Error::io("rename", staging, source))?;
            sync_dir(self.target)?;
        }
        let gone: Vec<u64> = self.files.difference(&live).copied().collect();
        for number in &gone {
            remove(self.target, &segment_name(*number))?;
            sync_dir(self.target)?;
        }
        let report = look(self.target)?;
        let copied = self.staged.keys().filter(|number| live.contains(number)).count() as u64;
        let kept = live.len() as u64 - copied;
        Ok(Backup { report, copied, kept, removed: gone.len() as u64 })
    }
}
