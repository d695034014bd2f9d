//! Reads a log while it is written, up to the durable end.
//!
//! A [`Reader`] hands out records in order, up to the durable LSN of that moment and never beyond; a later call
//! continues where it stopped. The bytes of a record lie in the buffer they were read into, which lives as long as the
//! record does.

use std::ops::{Deref, Range};
use std::sync::Arc;

use seawall_sys::directory::Directory;

use crate::commit::group::Group;
use crate::commit::state::Core;
use crate::error::{Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::cursor::Cursor;
use crate::format::{RawRecord, Records, SegmentHeader, Tag, TagKind, segment_name};
use crate::lsn::Lsn;
use crate::read::readahead::{Chunk, Readahead};
use crate::read::scan::{Scan, ScannedBatch, Source};
use crate::read::sealed::SealedBatch;
use crate::read::segment_file::SegmentFile;
use crate::stream::cuts::CutList;
use crate::stream::{StreamId, StreamPosition};
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
/// A payload shares the buffer that it was read into, and keeps all of it, megabytes, in memory:
/// [`Payload::detach`] what you keep for long.
#[derive(Clone)]
pub struct Payload(Bytes);

impl Payload {
    /// A copy of these bytes.
    pub(crate) fn own(bytes: &[u8]) -> Self {
        Self(Bytes::Own(bytes.into()))
    }

    /// The same bytes in their own memory, copied unless they are there already.
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
    /// Where it ends, exclusive: the end of what `append` returned.
    pub end: Lsn,
    /// Whether it is the last one of its transaction.
    pub ends_transaction: bool,
    /// Its bytes.
    pub payload: Payload,
    /// Its place in its stream, if it belongs to one.
    pub stream: Option<StreamPosition>,
}

/// A record as it lies in the log, and what kind it is.
#[derive(Clone, Debug)]
pub(crate) struct ReadRecord {
    /// As a reader hands it out.
    pub(crate) record: Record,
    /// What its tag says, if it has one.
    pub(crate) kind: Option<TagKind>,
}

impl ReadRecord {
    /// `raw`, which starts at `lsn`; `payload` holds its bytes.
    #[inline]
    pub(crate) fn of(lsn: Lsn, raw: &RawRecord<'_>, payload: Payload) -> Self {
        let end = lsn.saturating_add(raw.bytes() as u64);
        let position = |tag: Tag| Some(StreamPosition::new(StreamId::new(tag.stream)?, tag.number));
        let in_stream = |tag: &Tag| matches!(tag.kind, TagKind::Data | TagKind::Copy);
        let stream = raw.tag.filter(in_stream).and_then(position);
        let record = Record { lsn, end, ends_transaction: !raw.more, payload, stream };
        Self { record, kind: raw.tag.map(|tag| tag.kind) }
    }

    /// Whether readers of the log hand it out: a record that was appended and is not cut off.
    #[inline]
    pub(crate) fn is_shown(&self, cuts: Option<&CutList>) -> bool {
        match self.kind {
            None => planted!(CutsNotRead, !cuts.is_some_and(|cuts| cuts.hides(self.record.lsn))),
            Some(kind) => kind == TagKind::Data,
        }
    }
}

/// What a reader needs to know about the log.
pub(crate) trait SegmentLookup {
    /// The started segment after segment `number`.
    fn successor(&self, number: u64) -> Option<SegmentHeader>;

    /// What is cut off the log now, `None` if nothing is.
    fn cuts(&self) -> Option<Arc<CutList>>;

    /// Counts the changes of that.
    fn cut_changes(&self) -> u64;

    /// From where on it says what is cut: what was trimmed is left out.
    fn cuts_known_from(&self) -> Lsn {
        Lsn::ZERO
    }
}

impl SegmentLookup for Group {
    fn successor(&self, number: u64) -> Option<SegmentHeader> {
        let segments = self.housekeeping.inventory();
        let at = segments.segments.partition_point(|header| header.number <= number);
        segments.segments.get(at).copied()
    }

    fn cuts(&self) -> Option<Arc<CutList>> {
        Group::cuts(self)
    }

    #[inline]
    fn cut_changes(&self) -> u64 {
        Group::cut_changes(self)
    }

    fn cuts_known_from(&self) -> Lsn {
        self.core().trim()
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

    #[inline]
    pub(crate) fn next(&mut self) -> Option<ReadRecord> {
        let batch = self.batch.as_ref()?;
        let Some(raw) = Records::new(&batch.buf.bytes()[self.at..batch.end]).next() else {
            self.batch = None;
            return None;
        };
        let end = self.at + raw.bytes();
        let payload = Payload(Bytes::Batch(Arc::clone(&batch.buf), end - raw.payload.len()..end));
        let record = ReadRecord::of(self.lsn, &raw, payload);
        (self.at, self.lsn) = (end, record.record.end);
        Some(record)
    }
}

/// Walks the records of a log from one on, up to an end that each step names.
#[derive(Debug)]
pub(crate) struct RecordScan<S> {
    pub(crate) files: Files<S>,
    scan: Scan,
    unpacked: Unpacked,
    /// What is cut off, and which change of it that is.
    cuts: Option<Arc<CutList>>,
    cut_changes: u64,
    cuts_known_from: Lsn,
    from: Lsn,
    /// Whether records of streams that were rewritten are handed out where they are now.
    pub(crate) shows_copies: bool,
}

impl<S: Deref<Target: SegmentLookup>> RecordScan<S> {
    /// Begins with the first record at or after `from`, which lies in `segment`, by reads of `read_bytes`; also says
    /// whether that record could be reached.
    pub(crate) fn new(
        mut files: Files<S>,
        (segment, read_bytes): (SegmentHeader, usize),
        from: Lsn,
        limit: Lsn,
    ) -> (Self, Result<()>) {
        let mut scan = Scan::new(segment, read_bytes);
        let sought = scan.seek(&mut files, from, limit);
        let unpacked = Unpacked::default();
        let (cut_changes, cuts_known_from) = (0, Lsn::ZERO);
        let (cuts, shows_copies) = (None, false);
        (Self { files, scan, unpacked, cuts, cut_changes, cuts_known_from, from, shows_copies }, sought)
    }

    /// The next record before `limit`.
    #[inline]
    pub(crate) fn next(&mut self, limit: impl Fn() -> Lsn) -> Result<Option<Record>> {
        loop {
            if let Some(record) = self.next_in_memory() {
                return Ok(Some(record));
            }
            if !self.read_batch(limit())? {
                return Ok(None);
            }
        }
    }

    /// The next record of the batch that was read last.
    #[inline]
    fn next_in_memory(&mut self) -> Option<Record> {
        // A cut takes effect at once, also on what was read before.
        if self.cut_changes != self.files.segments.cut_changes() {
            self.look_at_cuts();
        }
        if self.overtaken().is_some() {
            return None;
        }
        let (from, cuts, copies) = (self.from, self.cuts.as_deref(), self.shows_copies);
        let copy = |read: &ReadRecord| copies && read.kind == Some(TagKind::Copy);
        let shown = |read: &ReadRecord| read.record.lsn >= from && (read.is_shown(cuts) || copy(read));
        std::iter::from_fn(|| self.unpacked.next()).find(shown).map(|read| read.record)
    }

    #[cold]
    fn look_at_cuts(&mut self) {
        // In this order, so that a change in between is looked at again.
        self.cut_changes = self.files.segments.cut_changes();
        self.cuts = self.files.segments.cuts();
        // After the cuts, so that they leave out nothing from there on.
        self.cuts_known_from =
            self.cuts.as_ref().map_or(Lsn::ZERO, |_| self.files.segments.cuts_known_from());
    }

    /// Where a trim has overtaken it in a batch that was read, of which it cannot be said any more what is cut.
    fn overtaken(&self) -> Option<Lsn> {
        let place = self.unpacked.place()?.max(self.from);
        planted!(CutsPrunedUnseen, (place < self.cuts_known_from).then_some(place))
    }

    /// Reads the next batch before `limit`; returns whether there is one.
    fn read_batch(&mut self, limit: Lsn) -> Result<bool> {
        if let Some(lsn) = self.overtaken() {
            return Err(Error::Trimmed { lsn, first: self.cuts_known_from });
        }
        let Some(batch) = self.scan.next_batch(&mut self.files, limit)? else { return Ok(false) };
        self.look_at_cuts();
        self.unpacked.load(batch);
        Ok(true)
    }

    /// The next batch before `limit` as it lies on the disk, marks included.
    pub(crate) fn next_sealed(&mut self, limit: Lsn) -> Result<Option<SealedBatch>> {
        let Some(batch) = self.scan.next_sealed(&mut self.files, limit)? else { return Ok(None) };
        Ok(Some(SealedBatch::of(&batch, &self.scan.cursor)))
    }

    /// Where it stands, and what the next batch is linked to.
    pub(crate) fn cursor(&self) -> &Cursor {
        &self.scan.cursor
    }

    /// Where the next record starts, or lies after.
    pub(crate) fn place(&self) -> Lsn {
        self.unpacked.place().unwrap_or_else(|| self.at()).max(self.from)
    }

    /// The number of the segment that is being read.
    pub(crate) fn segment(&self) -> u64 {
        self.scan.cursor.segment.number
    }

    /// Reads everything from the next batch on again, because what was read may not have been durable yet.
    pub(crate) fn forget(&mut self) {
        self.scan.forget(&mut self.files);
        self.files.open = None;
    }

    /// Where the next batch starts.
    pub(crate) fn at(&self) -> Lsn {
        self.scan.cursor.lsn
    }

    /// Adds where it reads to what `{:?}` shows.
    pub(crate) fn show(&self, shown: &mut std::fmt::DebugStruct<'_, '_>) {
        shown.field("dir", &self.files.dir.path()).field("from", &self.from).field("at", &self.at());
    }
}

/// Reads durable records in order.
///
/// As an iterator it ends when it first finds no further record, and after the first error;
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

/// Looks at the segments before a reader gives up: each further one needs a segment that goes meanwhile.
const LOOKS_MAX: u32 = 64;

/// Refuses an LSN at which the log has nothing: trimmed, or not yet appended.
pub(crate) fn check_within(core: &Core, lsn: Lsn) -> Result<()> {
    let (first, end) = (core.trim(), core.appended());
    if lsn < first {
        return Err(Error::Trimmed { lsn, first });
    }
    if lsn > end { Err(Error::BeyondEnd { lsn, end }) } else { Ok(()) }
}

/// The segment in which the first record at or after `from` lies. The first LSN and the segments are one look: a trim
/// between two looks would take that segment away, and a later record would be read as if it were the requested one.
pub(crate) fn segment_of(group: &Group, from: Lsn) -> Result<Option<SegmentHeader>> {
    let core = group.core();
    check_within(&core, from)?;
    let core = planted!(TrimDuringRead(core), Some(core));
    let inventory = group.housekeeping.inventory();
    drop(core);
    // In order of their numbers and of their LSNs, and a log may have thousands.
    let behind = inventory.segments.partition_point(|header| header.first_lsn <= from);
    if planted!(TrimDuringRead, behind == 0) {
        return Ok(None);
    }
    Ok(inventory.segments.get(behind.saturating_sub(1)).copied())
}

impl Reader {
    /// Starts with the first record at or after `from`.
    pub(crate) fn new(group: &Arc<Group>, dir: &Arc<Directory>, from: Lsn) -> Result<Self> {
        let mut looks = 0;
        loop {
            looks += 1;
            let segment = segment_of(group, from)?;
            let segment = segment.ok_or_else(|| Error::NotALog { path: dir.path().to_path_buf() })?;
            let files = Files::new(Arc::clone(dir), Arc::clone(group));
            let (records, sought) = RecordScan::new(files, (segment, READ_BYTES), from, group.durable());
            let reader = Self { group: Arc::clone(group), records, ended: false };
            match sought.map_err(|error| reader.explain(error)) {
                // A segment that ends at `from` was removed while it was read: what begins there is in the next one.
                Err(Error::Trimmed { .. }) if looks < LOOKS_MAX && from >= group.core().trim() => {}
                sought => return sought.map(|()| reader),
            }
        }
    }

    /// Whether it has handed out all that was appended to the log: if not, [`Reader::next_record`] returns `None` because what follows is
    /// not durable yet.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.records.place() >= self.group.core().appended()
    }

    /// The next durable record, or `None` if there is none yet, which [`Reader::is_at_end`] tells apart from the end; a later call may find
    /// more.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the place of damaged data, [`Error::Trimmed`] if the log was trimmed past this
    /// reader, [`Error::Io`].
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        self.records.next(|| self.group.durable()).map_err(|error| self.explain(error))
    }

    /// The next record, if that needs no look at the disk.
    pub(crate) fn next_in_memory(&mut self) -> Option<Record> {
        self.records.next_in_memory()
    }

    /// Reads the next durable batch into memory, if there is one.
    pub(crate) fn read_batch(&mut self) -> Result<()> {
        #[cfg(feature = "simulation")]
        if let Some(faults) = &self.group.writers.faults {
            faults.read();
        }
        self.records.read_batch(self.group.durable()).map(drop).map_err(|error| self.explain(error))
    }

    /// Whether a durable batch has not been read yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.group.durable() > self.at()
    }

    pub(crate) fn at(&self) -> Lsn {
        self.records.at()
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
