//! Rebuilds a log from its pieces: the same segments, byte by byte, with the same identity and LSNs.
//!
//! ```text
//! TO.partial: n.seg ◄─ header, batches at their places, zeros, header ─► sync ─► … ─► verify all ─► rename to TO
//! TO:         the same, saved now and then so that it goes on after any end  ─► … ─► verify all ─► remove REBUILDING
//! ```
//!
//! The second way is that of a standby: [`Rebuild::follow`] and [`Rebuild::save`]. What was written after the last save is
//! written again, with the same bytes. A TO that is there and empty, as the mount point of a new disk, is filled in place too.
//!
//! A segment that lies before the first LSN of a later one is not needed any more and goes at once, so that the disk holds what
//! the log held.
//!
//! Invariants: nothing has the name TO without the file REBUILDING before all of it was synced, read back and found intact; a
//! batch is written only after it was checked against the one before it; no segment goes that the last save needs; after a
//! write that failed nothing is saved, because what was checked is then ahead of the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use seawall_sys::directory::Directory;
use seawall_sys::planted;

use crate::error::{Damage, Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::cursor::Cursor;
use crate::format::names::{LOCK_FILE, is_hold, is_rebuild_marker};
use crate::format::{FileRole, SEGMENT_HEADER_BYTES, SegmentHeader, file_role, segment_name};
use crate::lock::{Lock, make_dir, open_any_dir};
use crate::lsn::Lsn;
use crate::options::Options;
use crate::read::sealed::{Piece, Saved, SealedCheck, padded};
use crate::recovery::directory::{READ_BLOCK_BYTES, is_ours};
use crate::recovery::tail::{Window, walk_while};
use crate::repair::unfinished::{self, LOST_AND_FOUND, is_free};
use crate::repair::verify::{Report, in_dir, look};
use crate::storage::disk::{Access, Disk, FileId, open, read_full, remove, sync, sync_dir, write_all};
use crate::storage::os_disk::OsDisk;

/// One write, in bytes.
const WRITE_BYTES: usize = 1 << 20;

/// Up to where a log is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildTo {
    /// No batch that ends after this LSN.
    pub lsn: Lsn,
    /// No batch that was gathered later, microseconds since 1970.
    pub time_us: u64,
}

impl Default for RebuildTo {
    /// Everything there is.
    fn default() -> Self {
        Self { lsn: Lsn::MAX, time_us: u64::MAX }
    }
}

/// A log that is being rebuilt; the folder is not a log before [`Rebuild::finish`].
#[derive(Debug)]
pub struct Rebuild {
    to: PathBuf,
    /// Where it is made: `TO.partial`, or `TO` itself.
    partial: PathBuf,
    held: Arc<Directory>,
    disk: OsDisk,
    lock: Lock,
    check: SealedCheck,
    until: RebuildTo,
    segment: Option<SegmentWriter>,
    /// The segments that are written, oldest first.
    written: Vec<SegmentHeader>,
    ended: bool,
    /// A write failed: the last save stands, and nothing continues from here.
    failed: bool,
    /// What [`Rebuild::prove`] found, for as long as nothing is added.
    proven: Option<Report>,
    /// Whether [`Rebuild::save`] was called, or is to be: then only that removes segments.
    saves: bool,
}

impl Rebuild {
    /// Begins to rebuild the log in the folder `to`, which must be missing or empty. Its parent must exist.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if it is not empty, `TO.partial` is something else, or the parent is missing; [`Error::Locked`],
    /// [`Error::Io`].
    pub fn begin(to: impl AsRef<Path>, until: RebuildTo) -> Result<Self> {
        let to = std::path::absolute(to.as_ref()).map_err(|source| Error::io("open", to.as_ref(), source))?;
        // A folder above it that is made up would hide a mistyped path, or a disk that is not mounted.
        if !to.parent().is_some_and(Path::is_dir) {
            return Err(refusal(&to, "is in a folder that does not exist: create that one first"));
        }
        let partial = if to.symlink_metadata().is_err() {
            let mut partial = to.clone().into_os_string();
            partial.push(".partial");
            PathBuf::from(partial)
        } else if is_free(&to)? {
            to.clone()
        } else {
            return Err(refusal(&to, "exists already: name a new or an empty folder"));
        };
        make_dir(&partial, &Options::default())?;
        let mut rebuild = Self::in_folder(to, partial, until, false)?;
        let names = rebuild.names()?;
        if names.iter().any(|name| file_role(name).is_none() && !is_ours(name) && name != LOST_AND_FOUND) {
            return Err(refusal(&rebuild.partial, "holds other files: remove it, or name another folder"));
        }
        unfinished::begin(&rebuild.held, &mut rebuild.disk)?;
        Ok(rebuild)
    }

    /// Continues to rebuild the log in the folder `to` from the last [`Rebuild::save`], or begins if there is none; `make`
    /// creates the folder. Returns the saved note.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the folder holds something else, [`Error::Corrupt`] if what was saved is damaged: remove the
    /// folder and start over; [`Error::Locked`], [`Error::Io`].
    pub fn follow(to: impl AsRef<Path>, make: bool) -> Result<(Self, String)> {
        let to = std::path::absolute(to.as_ref()).map_err(|source| Error::io("open", to.as_ref(), source))?;
        if make {
            make_dir(&to, &Options::default())?;
        }
        // Also before the lock, which is a file: what is refused stays as it is.
        let before = open_any_dir(&to)?;
        marked(&to, &before, make)?;
        drop(before);
        let mut rebuild = Self::in_folder(to.clone(), to, RebuildTo::default(), true)?;
        let (saved, note) = if let Some(marked) = marked(&rebuild.to, &rebuild.held, make)? {
            marked
        } else {
            unfinished::write(&rebuild.held, None, "")?;
            (None, String::new())
        };
        let names = rebuild.names()?;
        rebuild.resume(saved, &names).map_err(|error| error.in_dir(&rebuild.to))?;
        Ok((rebuild, note))
    }

    fn in_folder(to: PathBuf, partial: PathBuf, until: RebuildTo, saves: bool) -> Result<Self> {
        let held = open_any_dir(&partial)?;
        let lock = Lock::take(&held, &Options::default())?;
        let disk = OsDisk::new(Arc::clone(&held), Options::default().permissions);
        let (check, written) = (SealedCheck::new(), Vec::new());
        Ok(Self {
            to,
            partial,
            held,
            disk,
            lock,
            check,
            until,
            segment: None,
            written,
            ended: false,
            failed: false,
            proven: None,
            saves,
        })
    }

    fn names(&mut self) -> Result<Vec<String>> {
        let entries = self.disk.list().map_err(|source| Error::io("list", &self.partial, source))?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    /// Stands where the rebuild was saved; what lies after goes.
    fn resume(&mut self, saved: Option<Saved>, names: &[String]) -> Result<()> {
        let number = |name: &String| match file_role(name) {
            Some(FileRole::Segment(number)) => Some(number),
            _ => None,
        };
        let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        let last = saved.map_or(0, |saved| saved.segment);
        // Of a take-over that was interrupted.
        for name in names.iter().filter(|name| is_hold(name)) {
            remove(&mut self.disk, name)?;
        }
        for number in numbers {
            if number > last {
                remove(&mut self.disk, &segment_name(number))?;
                continue;
            }
            let file = open(&mut self.disk, &segment_name(number), Access::Direct)?;
            let header = first_header(&mut self.disk, number, file)?;
            self.written.push(header);
            match saved.filter(|saved| saved.segment == number) {
                Some(saved) => {
                    let cursor = stand(&mut self.disk, file, header, saved)?;
                    self.segment = Some(SegmentWriter::at(header, file, cursor.offset));
                    self.check = SealedCheck::at(cursor);
                }
                None => self.disk.close(file),
            }
        }
        match saved {
            Some(saved) if self.segment.is_none() => Err(lost(saved.segment, "the saved segment is missing")),
            _ => Ok(()),
        }
    }

    /// Makes everything that came durable, with a note, and removes what the log no longer needs: [`Rebuild::follow`] continues here.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::DiskFull`]; [`Error::InvalidOption`] after a write that failed: the last save stands.
    pub fn save(&mut self, note: &str) -> Result<()> {
        self.is_whole()?;
        let saved = self.save_whole(note);
        self.kept(saved)
    }

    /// `done`, remembered if it failed, its error with the whole path of the file.
    fn kept<T>(&mut self, done: Result<T>) -> Result<T> {
        self.failed |= done.is_err();
        done.map_err(|error| error.in_dir(&self.partial))
    }

    /// Nothing is done after a write that failed.
    fn is_whole(&self) -> Result<()> {
        let why = "was not written completely: restart it, and it continues from its last save";
        if planted!(StandbySavesFailed, self.failed) { Err(refusal(&self.to, why)) } else { Ok(()) }
    }

    fn save_whole(&mut self, note: &str) -> Result<()> {
        self.saves = true;
        if let Some(segment) = &mut self.segment {
            planted!(StandbySavesUnwritten, segment.flush(&mut self.disk)?);
            sync(&mut self.disk, &segment.name, segment.file)?;
        }
        sync_dir(&mut self.disk)?;
        unfinished::write(&self.held, self.check.saved(), note)?;
        self.forget_trimmed()
    }

    /// Adds whole pieces; returns whether more are wanted.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if one is not valid or does not follow the one before it, [`Error::DiskFull`], [`Error::Io`]. After an error only
    /// a new [`Rebuild::follow`] continues.
    pub fn push(&mut self, pieces: &[u8]) -> Result<bool> {
        self.push_sent(pieces, 0)
    }

    /// As [`Rebuild::push`], for pieces that were sent by `sent_us`, microseconds since 1970, 0 if unknown: no batch counts as
    /// later than that, whatever the log's own clock said.
    ///
    /// # Errors
    /// As [`Rebuild::push`].
    pub fn push_sent(&mut self, pieces: &[u8], sent_us: u64) -> Result<bool> {
        self.is_whole()?;
        let pushed = self.push_whole(pieces, if sent_us == 0 { u64::MAX } else { sent_us });
        self.kept(pushed)
    }

    fn push_whole(&mut self, mut pieces: &[u8], sent_us: u64) -> Result<bool> {
        self.proven = None;
        while !pieces.is_empty() && !self.ended {
            let before = self.check.clone();
            match self.check.next(&mut pieces)? {
                Piece::Segment(header) => self.start(header)?,
                Piece::Batch(header, bytes) => {
                    let late = header.records > 0 && header.time_us.min(sent_us) > self.until.time_us;
                    if header.end() > self.until.lsn || late {
                        (self.check, self.ended) = (before, true);
                        break;
                    }
                    let Some(segment) = &mut self.segment else { break };
                    let padded = padded(bytes, segment.header.block_bytes);
                    segment.put(&mut self.disk, header.offset, &padded)?;
                    if planted!(StandbyForgetsEarly, !self.saves) {
                        self.forget_trimmed()?;
                    }
                }
            }
        }
        Ok(!self.ended)
    }

    fn start(&mut self, header: SegmentHeader) -> Result<()> {
        self.end_segment()?;
        self.segment = Some(SegmentWriter::begin(&mut self.disk, header)?);
        self.written.push(header);
        Ok(())
    }

    fn end_segment(&mut self) -> Result<()> {
        self.segment.take().map_or(Ok(()), |segment| segment.end(&mut self.disk))
    }

    /// Removes the segments that the log does not need any more.
    fn forget_trimmed(&mut self) -> Result<()> {
        while self.written.get(1).is_some_and(|next| next.first_lsn <= self.check.first()) {
            let oldest = self.written.remove(0);
            remove(&mut self.disk, &segment_name(oldest.number))?;
        }
        Ok(())
    }

    /// The folder that becomes the log: `TO.partial`, or `TO` itself. A [`crate::Hold`] that is written there belongs to the log from its
    /// beginning.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.partial
    }

    /// What came so far.
    #[must_use]
    pub fn progress(&self) -> &SealedCheck {
        &self.check
    }

    /// Makes everything that came durable, reads it back and checks it, as [`Rebuild::finish`] requires: before a change
    /// elsewhere that needs a valid log. More may be added afterwards.
    ///
    /// # Errors
    /// As [`Rebuild::finish`].
    pub fn prove(&mut self) -> Result<()> {
        self.is_whole()?;
        if self.proven.is_some() {
            return Ok(());
        }
        if self.written.is_empty() {
            return Err(Error::NotALog { path: self.to.clone() });
        }
        planted!(StandbyIsLogEarly(&self.held));
        let proven = self.read_back();
        self.proven = Some(self.kept(proven)?);
        Ok(())
    }

    fn read_back(&mut self) -> Result<Report> {
        if let Some(segment) = &mut self.segment {
            segment.rest(&mut self.disk)?;
        }
        if !self.saves {
            self.forget_trimmed()?;
        }
        sync_dir(&mut self.disk)?;
        let report = look(&mut self.disk)?;
        if let Some(damage) = report.damage.first() {
            return Err(Error::Corrupt(damage.clone()));
        }
        if report.end != self.check.lsn() {
            let what = format!("it reads back only up to LSN {} of {}", report.end, self.check.lsn());
            return Err(Error::Corrupt(Damage::in_segment(0, 0, report.end, what)));
        }
        Ok(report)
    }

    /// Makes everything durable, reads it back, checks it and gives it its name. Returns what [`crate::verify`] says of it.
    ///
    /// # Errors
    /// [`Error::NotALog`] if nothing came, [`Error::Corrupt`] if records are missing that the log must have, such as when the oldest
    /// pieces no longer exist, or if what was written does not read back; [`Error::Io`].
    pub fn finish(mut self) -> Result<Report> {
        self.prove()?;
        let ended = self.end_segment().and_then(|()| self.forget_trimmed());
        let ended = ended.and_then(|()| sync_dir(&mut self.disk));
        self.kept(ended)?;
        let Some(report) = self.proven.take() else { return Err(Error::NotALog { path: self.to }) };
        // Last: from now on it is a log.
        unfinished::remove(&self.held)?;
        if self.partial == self.to {
            return Ok(in_dir(report, &self.to));
        }
        // Windows renames no directory that is open.
        let lock = (!cfg!(windows)).then_some(self.lock);
        drop((self.disk, self.held));
        std::fs::rename(&self.partial, &self.to)
            .map_err(|source| Error::io("rename", &self.partial, source))?;
        drop(lock);
        let parent = self.to.parent().unwrap_or(Path::new("."));
        let synced = seawall_sys::store::sync_directory(parent);
        synced.map_err(|error| Error::io("sync", parent, error.into_source()))?;
        Ok(in_dir(report, &self.to))
    }
}

fn refusal(to: &Path, why: &str) -> Error {
    Error::InvalidOption { option: "to", reason: format!("{} {why}", to.display()) }
}

/// What the marker of a standby in `dir` says; none in a folder that is to be made one and is empty.
fn marked(to: &Path, dir: &Directory, make: bool) -> Result<Option<(Option<Saved>, String)>> {
    let marked = unfinished::read(dir)?;
    if marked.is_some() {
        return Ok(marked);
    }
    if !make {
        return Err(refusal(to, "is not a standby's folder: name one"));
    }
    let entries = dir.list().map_err(|source| Error::io("list", to, source))?;
    let is_new = entries.iter().all(|entry| is_rebuild_marker(&entry.name) || entry.name == LOCK_FILE);
    is_new.then_some(None).ok_or_else(|| refusal(to, "holds something else: name a new folder"))
}

fn lost(segment: u64, what: &str) -> Error {
    let what = format!("{what}: remove the folder, and begin again");
    Error::Corrupt(Damage::in_segment(segment, 0, Lsn::ZERO, what))
}

/// The header of a segment that may not be finished.
fn first_header(disk: &mut OsDisk, number: u64, file: FileId) -> Result<SegmentHeader> {
    let mut block = AlignedBuf::zeroed(READ_BLOCK_BYTES);
    let filled = read_full(disk, &segment_name(number), file, 0, block.bytes_mut())?;
    let header = SegmentHeader::decode_unplaced(&block.bytes()[..filled.min(SEGMENT_HEADER_BYTES)], 0).ok();
    header.filter(|header| header.number == number).ok_or_else(|| lost(number, "its header is damaged"))
}

/// Walks to the place that was saved: everything up to there must be sound.
fn stand(disk: &mut OsDisk, file: FileId, header: SegmentHeader, saved: Saved) -> Result<Cursor> {
    let mut cursor = Cursor::start(header);
    let name = segment_name(header.number);
    let window = &mut Window::new(WRITE_BYTES);
    walk_while(disk, window, (&name, file), &mut cursor, |at, _| at.offset < saved.offset)?;
    if (cursor.offset, cursor.link) == (saved.offset, saved.link) {
        Ok(cursor)
    } else {
        Err(lost(header.number, "it lacks what was saved"))
    }
}

/// One segment that is being written, in order.
#[derive(Debug)]
struct SegmentWriter {
    header: SegmentHeader,
    name: String,
    file: FileId,
    buf: AlignedBuf,
    /// Where the buffer lies in the file, and how much of it is used, in bytes.
    start: u64,
    used: usize,
}

impl SegmentWriter {
    fn begin(disk: &mut OsDisk, header: SegmentHeader) -> Result<Self> {
        let name = segment_name(header.number);
        let file = disk.create(&name).map_err(|source| Error::io("create", &name, source))?;
        let reserved = disk.allocate(file, header.segment_bytes);
        reserved.map_err(|source| Error::io("reserve space for", &name, source))?;
        let mut writer = Self { header, name, file, buf: AlignedBuf::zeroed(WRITE_BYTES), start: 0, used: 0 };
        writer.put_header(disk, 0, 0)?;
        Ok(writer)
    }

    /// Goes on at byte `start` of a segment.
    fn at(header: SegmentHeader, file: FileId, start: u64) -> Self {
        let name = segment_name(header.number);
        Self { header, name, file, buf: AlignedBuf::zeroed(WRITE_BYTES), start, used: 0 }
    }

    fn put_header(&mut self, disk: &mut OsDisk, at: u64, copy: u32) -> Result<()> {
        let mut block = vec![0; self.header.block_bytes.into()];
        self.header.encode(copy, &mut block);
        self.put(disk, at, &block)
    }

    /// Writes `bytes` at `offset`, with zeros in between.
    fn put(&mut self, disk: &mut OsDisk, offset: u64, mut bytes: &[u8]) -> Result<()> {
        while self.start + (self.used as u64) < offset {
            let gap = usize::try_from(offset - self.start - self.used as u64).unwrap_or(usize::MAX);
            let zeros = gap.min(WRITE_BYTES - self.used);
            self.buf.bytes_mut()[self.used..self.used + zeros].fill(0);
            self.advance(disk, zeros)?;
        }
        while !bytes.is_empty() {
            let fits = bytes.len().min(WRITE_BYTES - self.used);
            self.buf.bytes_mut()[self.used..self.used + fits].copy_from_slice(&bytes[..fits]);
            bytes = &bytes[fits..];
            self.advance(disk, fits)?;
        }
        Ok(())
    }

    fn advance(&mut self, disk: &mut OsDisk, bytes: usize) -> Result<()> {
        self.used += bytes;
        if self.used == WRITE_BYTES { self.flush(disk) } else { Ok(()) }
    }

    fn flush(&mut self, disk: &mut OsDisk) -> Result<()> {
        let filled = &self.buf.bytes()[..self.used];
        write_all(disk, &self.name, (self.file, self.start), filled, false)?;
        self.start += self.used as u64;
        self.used = 0;
        Ok(())
    }

    /// Ends the file as [`SegmentWriter::end`] does, and continues where it stood.
    fn rest(&mut self, disk: &mut OsDisk) -> Result<()> {
        // Zeros after what came, and the second copy of the header: what comes is written over them.
        self.flush(disk)?;
        let mut ending = Self::at(self.header, self.file, self.start);
        ending.put_header(disk, self.header.data_end(), 1)?;
        ending.flush(disk)?;
        sync(disk, &self.name, self.file)
    }

    fn end(mut self, disk: &mut OsDisk) -> Result<()> {
        self.put_header(disk, self.header.data_end(), 1)?;
        self.flush(disk)?;
        sync(disk, &self.name, self.file)?;
        disk.close(self.file);
        Ok(())
    }
}
