//! Rebuilds a log from its pieces: the same segments, byte by byte, with the same identity and LSNs.
//!
//! ```text
//! TO.partial: n.seg ◄─ header, batches at their places, zeros, header ─► sync ─► … ─► verify all ─► rename to TO
//! ```
//!
//! A segment that lies before the first LSN of a later one is not needed any more and goes at once, so that the disk holds what
//! the log held.
//!
//! Invariants: nothing has the name TO before all of it was synced, read back and found intact; a batch is written only after
//! it was checked against the one before it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Damage, Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::{SegmentHeader, file_role, segment_name};
use crate::lock::{Lock, make_dir, open_dir};
use crate::lsn::Lsn;
use crate::options::Options;
use crate::read::hold::is_hold;
use crate::read::sealed::{Piece, SealedCheck, padded};
use crate::recovery::directory::is_ours;
use crate::repair::verify::{Report, in_dir, look};
use crate::storage::disk::{Disk, FileId, remove, sync, sync_dir, write_all};
use crate::storage::os_disk::OsDisk;

/// One write, in bytes.
const WRITE_BYTES: usize = 1 << 20;

/// How far a log is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildTo {
    /// No batch that ends behind this LSN.
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

/// A log that is being rebuilt; what was made stays in `TO.partial` until [`Rebuild::finish`].
#[derive(Debug)]
pub struct Rebuild {
    to: PathBuf,
    partial: PathBuf,
    disk: OsDisk,
    lock: Lock,
    check: SealedCheck,
    until: RebuildTo,
    segment: Option<SegmentWriter>,
    /// The segments that are written, oldest first.
    written: Vec<SegmentHeader>,
    ended: bool,
}

impl Rebuild {
    /// Begins to rebuild the log in the folder `to`, which must not be there.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if there is something, or something else in `TO.partial`; [`Error::Locked`], [`Error::Io`].
    pub fn begin(to: impl AsRef<Path>, until: RebuildTo) -> Result<Self> {
        let to = std::path::absolute(to.as_ref()).map_err(|source| Error::io("open", to.as_ref(), source))?;
        if to.symlink_metadata().is_ok() {
            return Err(refusal(&to, "is there already: name a new folder"));
        }
        let mut partial = to.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        make_dir(&partial, &Options::default())?;
        let held = open_dir(&partial)?;
        let lock = Lock::take(&held, &Options::default())?;
        let mut disk = OsDisk::new(Arc::clone(&held), Options::default().permissions);
        // What an interrupted one left.
        for entry in disk.list().map_err(|source| Error::io("list", &partial, source))? {
            if file_role(&entry.name).is_some() || is_hold(&entry.name) {
                remove(&mut disk, &entry.name)?;
            } else if !is_ours(&entry.name) {
                return Err(refusal(&partial, "holds other files: remove it, or name another folder"));
            }
        }
        let (segment, written) = (None, Vec::new());
        Ok(Self { to, partial, disk, lock, check: SealedCheck::new(), until, segment, written, ended: false })
    }

    /// Adds whole pieces; returns whether more are wanted.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if one is not valid or does not follow the one before it, [`Error::DiskFull`], [`Error::Io`].
    pub fn push(&mut self, mut pieces: &[u8]) -> Result<bool> {
        while !pieces.is_empty() && !self.ended {
            let before = self.check.clone();
            let piece = self.check.next(&mut pieces).map_err(|error| error.in_dir(&self.partial))?;
            match piece {
                Piece::Segment(header) => self.start(header)?,
                Piece::Batch(header, bytes) => {
                    let late = header.records > 0 && header.time_us > self.until.time_us;
                    if header.end() > self.until.lsn || late {
                        (self.check, self.ended) = (before, true);
                        break;
                    }
                    let Some(segment) = &mut self.segment else { break };
                    let padded = padded(bytes, segment.header.block_bytes);
                    segment.put(&mut self.disk, header.offset, &padded)?;
                    self.forget_trimmed()?;
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

    /// The folder that becomes the log: `TO.partial`. A [`crate::Hold`] that is written there belongs to the log from its
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

    /// Makes everything durable, reads it back, checks it and gives it its name. Returns what [`crate::verify`] says of it.
    ///
    /// # Errors
    /// [`Error::NotALog`] if nothing came, [`Error::Corrupt`] if records are missing that the log must have, as when the oldest
    /// pieces are not there any more, or if what was written does not read back; [`Error::Io`].
    pub fn finish(mut self) -> Result<Report> {
        self.end_segment()?;
        sync_dir(&mut self.disk)?;
        if self.check.batches() == 0 {
            return Err(Error::NotALog { path: self.to });
        }
        let report = look(&mut self.disk).map_err(|error| error.in_dir(&self.partial))?;
        if let Some(damage) = report.damage.first() {
            return Err(Error::Corrupt(damage.clone()).in_dir(&self.partial));
        }
        if report.end != self.check.lsn() {
            let what = format!("it reads back up to LSN {} of {} only", report.end, self.check.lsn());
            return Err(Error::Corrupt(Damage::in_segment(0, 0, report.end, what)).in_dir(&self.partial));
        }
        // Windows renames no directory that is open.
        let lock = (!cfg!(windows)).then_some(self.lock);
        drop(self.disk);
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

    fn end(mut self, disk: &mut OsDisk) -> Result<()> {
        self.put_header(disk, self.header.data_end(), 1)?;
        self.flush(disk)?;
        sync(disk, &self.name, self.file)?;
        disk.close(self.file);
        Ok(())
    }
}
