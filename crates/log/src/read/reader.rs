//! Reads a log while it is written: [`Reader`] up to the durable end, [`Follower`] waiting for more.
//!
//! A [`Reader`] hands out records in order, up to the durable LSN of that moment and never beyond; a later call
//! continues where it stopped. A [`Follower`] waits for more records. The bytes of a record lie in the buffer they
//! were read into, which lives as long as the record does.

use std::ops::{Deref, Range};
use std::sync::Arc;

use seawall_sys::directory::Directory;

use crate::commit::group::Group;
use crate::commit::state::Core;
use crate::error::{Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::{RECORD_HEADER_BYTES, Records, SegmentHeader, segment_name};
use crate::lsn::Lsn;
use crate::read::readahead::{Chunk, Readahead};
use crate::read::scan::{Scan, ScannedBatch, Source};
use crate::read::segment_file::SegmentFile;
use seawall_sys::planted;

/// Where the bytes of a record lie.
#[derive(Clone)]
enum Bytes {
    /// In the buffer that its batch was read into, with what was read with it.
    Batch(Arc<AlignedBuf>, Range<usize>),
    /// In memory of their own.
    Own(Arc<[u8]>),
}

/// The bytes of one record. `{:?}` prints their number, not the bytes.
///
/// What a reader returns lies in the buffer that it was read into, and keeps all of that, megabytes, in memory:
/// [`Payload::detach`] what is to be kept for long.
#[derive(Clone)]
pub struct Payload(Bytes);

impl Payload {
    /// A copy of these bytes.
    pub(crate) fn own(bytes: &[u8]) -> Self {
        Self(Bytes::Own(bytes.into()))
    }

    /// The same bytes in memory of their own, copied unless they lie there already.
    #[must_use]
    pub fn detach(self) -> Self {
        match self.0 {
            Bytes::Own(_) => self,
            Bytes::Batch(..) => Self::own(&self),
        }
    }
}

impl Deref for Payload {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Batch(buf, range) => &buf.bytes()[range.clone()],
            Bytes::Own(bytes) => bytes,
        }
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Payload").field("bytes", &self.len()).finish()
    }
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// One durable record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// Where it starts.
    pub lsn: Lsn,
    /// Where it ends, exclusive: what `append` returned for it.
    pub end: Lsn,
    /// Whether it is the last one of its transaction.
    pub ends_transaction: bool,
    /// Its bytes.
    pub payload: Payload,
}

/// What a reader needs to know about the log.
pub(crate) trait SegmentLookup {
    /// The started segment behind segment `number`.
    fn successor(&self, number: u64) -> Option<SegmentHeader>;
}

impl SegmentLookup for Group {
    fn successor(&self, number: u64) -> Option<SegmentHeader> {
        let segments = self.housekeeping().inventory();
        segments.segments().iter().find(|header| header.number > number).copied()
    }
}

/// The files of a log, opened when they are read.
#[derive(Debug)]
pub(crate) struct Files<S> {
    pub(crate) dir: Arc<Directory>,
    pub(crate) segments: S,
    open: Option<(u64, Arc<SegmentFile>)>,
    ahead: Readahead,
}

impl<S> Files<S> {
    pub(crate) fn new(dir: Arc<Directory>, segments: S) -> Self {
        Self { dir, segments, open: None, ahead: Readahead::default() }
    }

    fn file(&mut self, number: u64) -> Result<&Arc<SegmentFile>> {
        let open = if let Some(open) = self.open.take().filter(|(open, _)| *open == number) {
            open
        } else {
            (number, Arc::new(SegmentFile::open(&self.dir, &segment_name(number))?))
        };
        Ok(&self.open.insert(open).1)
    }

    fn cannot_read(&self, number: u64, source: std::io::Error) -> Error {
        Error::io("read", self.dir.path().join(segment_name(number)), source)
    }
}

impl<S: Deref<Target: SegmentLookup>> Source for Files<S> {
    const READS_AHEAD: bool = true;

    fn read(&mut self, number: u64, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let filled = self.file(number)?.read(offset, buf);
        filled.map_err(|error| self.cannot_read(number, error))
    }

    fn begin(&mut self, piece: Chunk) -> Option<Chunk> {
        // A file that cannot be opened is reported by the read that needs it.
        let Ok(file) = self.file(piece.number).cloned() else { return Some(piece) };
        self.ahead.begin(file, piece)
    }

    fn finish(&mut self) -> Option<Result<Chunk>> {
        let fetched = self.ahead.finish()?;
        Some(fetched.map_err(|(number, error)| self.cannot_read(number, error)))
    }

    fn successor(&mut self, number: u64) -> Option<SegmentHeader> {
        self.segments.successor(number)
    }
}

/// Records out of batches, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    batch: Option<ScannedBatch>,
    at: usize,
    lsn: Lsn,
}

impl Unpacked {
    /// Starts with a new batch.
    pub(crate) fn load(&mut self, batch: ScannedBatch) {
        self.at = batch.start;
        self.lsn = batch.header.lsn;
        self.batch = Some(batch);
    }

    /// Where the next record of the batch starts, if a batch is loaded.
    fn place(&self) -> Option<Lsn> {
        self.batch.as_ref().map(|_| self.lsn)
    }

    /// The next record of the batch.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Record> {
        let batch = self.batch.as_ref()?;
        let Some(raw) = Records::new(&batch.buf.bytes()[self.at..batch.end]).next() else {
            self.batch = None;
            return None;
        };
        let start = self.at + RECORD_HEADER_BYTES;
        let end = start + raw.payload.len();
        let lsn = self.lsn;
        self.lsn = lsn.saturating_add((end - self.at) as u64);
        self.at = end;
        let payload = Payload(Bytes::Batch(Arc::clone(&batch.buf), start..end));
        Some(Record { lsn, end: self.lsn, ends_transaction: !raw.more, payload })
    }
}

/// Walks the records of a log from one on, up to an end that each step names.
#[derive(Debug)]
pub(crate) struct RecordScan<S> {
    pub(crate) files: Files<S>,
    scan: Scan,
    unpacked: Unpacked,
    from: Lsn,
}

impl<S: Deref<Target: SegmentLookup>> RecordScan<S> {
    /// Begins with the first record at or behind `from`, which lies in `segment`, by reads of `read_bytes`; also says
    /// whether that record could be reached.
    pub(crate) fn new(
        mut files: Files<S>,
        (segment, read_bytes): (SegmentHeader, usize),
        from: Lsn,
        limit: Lsn,
    ) -> (Self, Result<()>) {
        let mut scan = Scan::new(segment, read_bytes);
        let sought = scan.seek(&mut files, from, limit);
        (Self { files, scan, unpacked: Unpacked::default(), from }, sought)
    }

    /// The next record before `limit`.
    #[inline]
    pub(crate) fn next(&mut self, limit: impl Fn() -> Lsn) -> Result<Option<Record>> {
        loop {
            while let Some(record) = self.unpacked.next() {
                if record.lsn >= self.from {
                    return Ok(Some(record));
                }
            }
            match self.scan.next_batch(&mut self.files, limit())? {
                Some(batch) => self.unpacked.load(batch),
                None => return Ok(None),
            }
        }
    }

    /// Where the next record starts, or lies behind.
    pub(crate) fn place(&self) -> Lsn {
        self.unpacked.place().unwrap_or_else(|| self.at()).max(self.from)
    }

    /// The number of the segment that is being read.
    pub(crate) fn segment(&self) -> u64 {
        self.scan.cursor().segment.number
    }

    /// Reads everything from the next batch on again, because what was read may not have been durable yet.
    pub(crate) fn forget(&mut self) {
        self.scan.forget(&mut self.files);
        self.files.open = None;
    }

    /// Where the next batch starts.
    pub(crate) fn at(&self) -> Lsn {
        self.scan.cursor().lsn
    }

    /// Adds where it reads to what `{:?}` shows.
    pub(crate) fn show(&self, shown: &mut std::fmt::DebugStruct<'_, '_>) {
        shown.field("dir", &self.files.dir.path()).field("from", &self.from).field("at", &self.at());
    }
}

/// Reads durable records in order.
///
/// As an iterator it ends where it first finds no further record, and behind the first error;
/// [`Reader::next_record`] continues whenever it is called.
pub struct Reader {
    group: Arc<Group>,
    records: RecordScan<Arc<Group>>,
    /// The iterator has ended.
    ended: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Reader");
        self.records.show(&mut shown);
        shown.finish_non_exhaustive()
    }
}

/// One read of a segment, in bytes: a large page, and small enough to be still in the processor's cache when its
/// checksums are computed.
const READ_BYTES: usize = 2 << 20;

/// Refuses an LSN at which the log has nothing: trimmed, or not yet appended.
pub(crate) fn check_within(core: &Core, lsn: Lsn) -> Result<()> {
    let (first, end) = (core.trim(), core.appended());
    if lsn < first {
        return Err(Error::Trimmed { lsn, first });
    }
    if lsn > end { Err(Error::BeyondEnd { lsn, end }) } else { Ok(()) }
}

/// The segment in which the first record at or behind `from` lies. The first LSN and the segments are one look: a trim
/// between two looks would take that segment away, and a later record would be read as if it were the requested one.
pub(crate) fn segment_of(group: &Group, from: Lsn) -> Result<Option<SegmentHeader>> {
    let core = group.core();
    check_within(&core, from)?;
    let inventory = planted!(
        TrimDuringRead,
        {
            drop(core);
            group.housekeeping().inventory()
        },
        {
            let inventory = group.housekeeping().inventory();
            drop(core);
            inventory
        }
    );
    let before = inventory.segments().iter().rev().find(|header| header.first_lsn <= from);
    let found = planted!(TrimDuringRead, before.or(inventory.segments().front()), before);
    Ok(found.copied())
}

impl Reader {
    /// Starts with the first record at or behind `from`.
    pub(crate) fn new(group: Arc<Group>, dir: Arc<Directory>, from: Lsn) -> Result<Self> {
        let segment =
            segment_of(&group, from)?.ok_or_else(|| Error::NotALog { path: dir.path().to_path_buf() })?;
        let files = Files::new(dir, Arc::clone(&group));
        let (records, sought) = RecordScan::new(files, (segment, READ_BYTES), from, group.durable());
        let reader = Self { group, records, ended: false };
        sought.map_err(|error| reader.explain(error))?;
        Ok(reader)
    }

    /// The next durable record, or `None` if there is none yet; a later call may find more.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the place of damaged data, [`Error::Trimmed`] if the log was trimmed past this
    /// reader, [`Error::Io`].
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        self.records.next(|| self.group.durable()).map_err(|error| self.explain(error))
    }

    /// Reports a segment that was recycled during the read as trimmed: it looks damaged, and is not.
    fn explain(&self, error: Error) -> Error {
        let (lsn, first) = (self.records.at(), self.group.core().trim());
        if lsn < first { Error::Trimmed { lsn, first } } else { error.in_dir(self.records.files.dir.path()) }
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_record().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl std::iter::FusedIterator for Reader {}

/// Reads durable records as they come.
pub struct Follower {
    reader: Reader,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("reader", &self.reader).finish()
    }
}

impl Follower {
    pub(crate) fn new(reader: Reader) -> Self {
        Self { reader }
    }

    /// The next durable record if there is one now.
    ///
    /// # Errors
    /// As [`Reader::next_record`].
    pub fn poll_record(&mut self) -> Result<Option<Record>> {
        self.reader.next_record()
    }

    /// The next durable record; waits for it. `None` when the log was closed and everything has been handed out.
    ///
    /// # Errors
    /// As [`Reader::next_record`], and [`Error::Failed`] when the log has failed and everything durable has been
    /// handed out.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        loop {
            let group = Arc::clone(&self.reader.group);
            let gate = group.waiters().follower_gate();
            let ticket = gate.ticket();
            // Before the look for a record: what becomes durable last does so before either is true.
            let (failed, stopping) = (group.status().failed(), group.status().is_stopping());
            let found = self.reader.next_record();
            if !matches!(found, Ok(None)) {
                gate.leave();
                return found;
            }
            if let Some(failed) = failed {
                gate.leave();
                return Err(failed);
            }
            if stopping {
                gate.leave();
                return Ok(None);
            }
            gate.wait(ticket);
        }
    }
}
