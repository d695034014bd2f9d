//! Scans segments batch by batch in large reads and validates each batch before handing out its records.
//!
//! A [`Scan`] checks every batch by the full validity rule before it hands out a byte of it. A batch stays in the
//! buffer that it was read into, and keeps that buffer alive.
//!
//! A sequential scan has the next piece read while the current one is checked, where the source supports it.
//!
//! Invariants: nothing at or past the limit given by the caller (the durable LSN) is ever read, and bytes read under
//! an older limit are read again before anything past that limit is believed.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::cursor::{Cursor, check_in_pieces};
use crate::format::{BATCH_HEADER_BYTES, BatchHeader, Fault, SegmentHeader, segment_name};
use crate::lsn::Lsn;
use crate::read::readahead::Chunk;
use crate::recovery::directory::damage;

/// Where segments are read from.
pub(crate) trait Source {
    /// Whether it can read a piece while the caller continues; otherwise no memory is taken for that.
    const READS_AHEAD: bool = false;

    /// Fills `buf` from byte `offset` of segment `number` on, as far as the segment goes; returns the bytes read.
    fn read(&mut self, number: u64, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// The header of the segment after segment `number`, if it has been started.
    fn successor(&mut self, number: u64) -> Option<SegmentHeader>;

    /// Begins to read a piece while the caller continues; gives it back if that cannot be done.
    fn begin(&mut self, piece: Chunk) -> Option<Chunk> {
        Some(piece)
    }

    /// Waits for the piece that was begun, if one was.
    fn finish(&mut self) -> Option<Result<Chunk>> {
        None
    }
}

/// Room in front of a piece that is read ahead, in bytes: for the beginning of a batch that ends in it.
const PIECE_FRONT_BYTES: usize = 1 << 20;
/// A batch of more bytes than this is checked piece by piece before memory is taken for it.
const CHECKED_FIRST_BYTES: usize = 8 << 20;
/// One of these pieces in bytes.
const CHECKED_PIECE_BYTES: usize = 1 << 20;
/// A read near the limit takes this many bytes more than twice the records before it: headers and padding.
const NEAR_END_BYTES: usize = 16 << 10;
/// Readahead begins after this many pieces, because a scan that got there will probably continue.
const PIECES_BEFORE_READAHEAD: u32 = 2;

/// One batch that was found valid.
#[derive(Clone, Debug)]
pub(crate) struct ScannedBatch {
    pub(crate) header: BatchHeader,
    pub(crate) buf: Arc<AlignedBuf>,
    /// Where its records start in the buffer.
    pub(crate) start: usize,
    /// Where they end.
    pub(crate) end: usize,
}

/// A walk through the log.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) cursor: Cursor,
    buf: Arc<AlignedBuf>,
    read_bytes: usize,
    /// The part of the segment that the buffer holds, and where in the buffer it lies.
    start: u64,
    base: usize,
    filled: usize,
    /// The limit that held when it was read.
    read_limit: Lsn,
    /// How many pieces were read.
    pieces: u32,
    /// Memory for the next piece, if no record in it is still in use.
    idle: Option<AlignedBuf>,
}

impl Scan {
    /// Starts at the beginning of a segment; reads `read_bytes` at a time.
    pub(crate) fn new(segment: SegmentHeader, read_bytes: usize) -> Self {
        Self::at(Cursor::start(segment), read_bytes)
    }

    /// Starts where an earlier one stood.
    pub(crate) fn at(cursor: Cursor, read_bytes: usize) -> Self {
        let read_bytes = read_bytes.next_multiple_of(4096);
        Self {
            cursor,
            buf: Arc::new(AlignedBuf::zeroed(read_bytes)),
            read_bytes,
            start: 0,
            base: 0,
            filled: 0,
            read_limit: Lsn::ZERO,
            pieces: 0,
            idle: None,
        }
    }

    /// Forgets what was read of the batches from the cursor on.
    pub(crate) fn forget<S: Source>(&mut self, source: &mut S) {
        drop(source.finish());
        self.filled = 0;
    }

    /// The next batch with records below `limit`, or `None` if there is none yet.
    pub(crate) fn next_batch<S: Source>(
        &mut self,
        source: &mut S,
        limit: Lsn,
    ) -> Result<Option<ScannedBatch>> {
        loop {
            if self.cursor.lsn >= limit {
                return Ok(None);
            }
            if let Some(next) = self.next_segment(source) {
                self.enter(next);
                continue;
            }
            let batch = self.step(source, limit)?;
            if batch.header.records > 0 {
                return Ok(Some(batch));
            }
        }
    }

    /// The next batch below `limit`, marks included, which [`Scan::next_batch`] steps over; `None` if there is none yet. What it
    /// stands in is the segment of the cursor.
    pub(crate) fn next_sealed<S: Source>(
        &mut self,
        source: &mut S,
        limit: Lsn,
    ) -> Result<Option<ScannedBatch>> {
        if self.cursor.lsn >= limit {
            return Ok(None);
        }
        // A segment may end with marks: the link says which batch was its last one.
        while let Some(next) = self.next_segment(source).filter(|next| next.link == self.cursor.link) {
            self.enter(next);
        }
        self.step(source, limit).map(Some)
    }

    /// Skips batches that end at or before `lsn` without checking their records, as long as their headers are sound.
    pub(crate) fn seek<S: Source>(&mut self, source: &mut S, lsn: Lsn, limit: Lsn) -> Result<()> {
        while self.cursor.lsn < lsn.min(limit) {
            if let Some(next) = self.next_segment(source) {
                self.enter(next);
                continue;
            }
            let checked = self.header(source, limit)?;
            let (header, checksum) = checked.map_err(|fault| self.damage(fault))?;
            if header.end() > lsn {
                return Ok(());
            }
            self.cursor.advance(&header, checksum);
        }
        Ok(())
    }

    /// Steps over the next batch of the segment below `limit` by its header alone, which it returns; `None` where the next
    /// segment begins.
    pub(crate) fn step_over<S: Source>(&mut self, source: &mut S, limit: Lsn) -> Result<Option<BatchHeader>> {
        if self.next_segment(source).is_some() {
            return Ok(None);
        }
        let checked = self.header(source, limit)?;
        let (header, checksum) = checked.map_err(|fault| self.damage(fault))?;
        self.cursor.advance(&header, checksum);
        Ok(Some(header))
    }

    /// The next segment, if it begins at the cursor.
    fn next_segment<S: Source>(&self, source: &mut S) -> Option<SegmentHeader> {
        source.successor(self.cursor.segment.number).filter(|next| next.first_lsn == self.cursor.lsn)
    }

    fn enter(&mut self, segment: SegmentHeader) {
        self.cursor = Cursor::start(segment);
        self.filled = 0;
    }

    fn header<S: Source>(
        &mut self,
        source: &mut S,
        limit: Lsn,
    ) -> Result<std::result::Result<(BatchHeader, u32), Fault>> {
        if !self.cursor.has_room() {
            return Ok(Err(Fault::Short));
        }
        self.ensure(source, BATCH_HEADER_BYTES, limit)?;
        Ok(self.cursor.check_header(self.held(BATCH_HEADER_BYTES)))
    }

    /// Checks the batch at the cursor and steps after it.
    fn step<S: Source>(&mut self, source: &mut S, limit: Lsn) -> Result<ScannedBatch> {
        let checked = self.header(source, limit)?;
        let (header, checksum) = checked.map_err(|fault| self.damage(fault))?;
        // The end of the log and the start of the next segment lie between batches: none reaches past them.
        let next = source.successor(self.cursor.segment.number);
        if header.end() > next.map_or(limit, |next| next.first_lsn.min(limit)) {
            return Err(self.damage(Fault::Lsn));
        }
        let bytes = usize::try_from(header.disk_bytes(self.cursor.segment.block_bytes)).unwrap_or(usize::MAX);
        if bytes > CHECKED_FIRST_BYTES {
            self.check_first(source, &header)?;
        }
        self.ensure(source, bytes, limit)?;
        let at = self.place();
        Cursor::check_batch(&header, self.held(bytes)).map_err(|fault| self.damage(fault))?;
        self.cursor.advance(&header, checksum);
        let start = at + BATCH_HEADER_BYTES;
        let end = start + header.body_bytes as usize;
        Ok(ScannedBatch { header, buf: Arc::clone(&self.buf), start, end })
    }

    /// Checks a long batch at the cursor before memory is taken for it, because its header may claim anything.
    fn check_first<S: Source>(&self, source: &mut S, header: &BatchHeader) -> Result<()> {
        let segment = &self.cursor.segment;
        let mut pieces = self.memory(CHECKED_PIECE_BYTES)?;
        let place = (self.cursor.offset, segment.block_bytes);
        let read = |at: u64, buf: &mut [u8]| source.read(segment.number, at, buf);
        check_in_pieces(header, place, pieces.bytes_mut(), read)?.map_err(|fault| self.damage(fault))
    }

    /// Memory for what the file claims to hold.
    fn memory(&self, bytes: usize) -> Result<AlignedBuf> {
        let name = || segment_name(self.cursor.segment.number);
        AlignedBuf::try_zeroed(bytes).map_err(|source| Error::io("read", name(), source))
    }

    /// Where in the buffer the cursor is.
    fn place(&self) -> usize {
        let into = usize::try_from(self.cursor.offset - self.start).unwrap_or(usize::MAX);
        self.base + into.min(self.filled)
    }

    /// The bytes at the cursor, `wanted` of them or as many as the buffer holds.
    fn held(&self, wanted: usize) -> &[u8] {
        let (at, end) = (self.place(), self.base + self.filled);
        &self.buf.bytes()[at..end.min(at.saturating_add(wanted))]
    }

    /// The part of the buffer that belongs to what is wanted at the cursor: that batch began below the limit when it
    /// was read, so all of it was durable then.
    fn kept(&self) -> Range<usize> {
        let part = self.start..self.start + self.filled as u64;
        let current = self.cursor.lsn < self.read_limit && part.contains(&self.cursor.offset);
        if current { self.place()..self.base + self.filled } else { 0..0 }
    }

    /// Makes sure that the buffer holds `wanted` bytes at the cursor, or as many as there are.
    fn ensure<S: Source>(&mut self, source: &mut S, wanted: usize, limit: Lsn) -> Result<()> {
        if wanted <= self.kept().len() {
            return Ok(());
        }
        self.take_readahead(source)?;
        if wanted > self.kept().len() {
            self.read_now(source, wanted, limit)?;
        }
        self.pieces = self.pieces.saturating_add(1);
        self.begin_readahead(source, limit);
        Ok(())
    }

    /// Reads from the cursor on.
    fn read_now<S: Source>(&mut self, source: &mut S, wanted: usize, limit: Lsn) -> Result<()> {
        let (from, kept) = (self.cursor.offset, self.kept());
        let capacity = wanted.next_multiple_of(4096).max(self.read_bytes);
        if let Some(own) = Arc::get_mut(&mut self.buf).filter(|buf| buf.capacity() >= capacity) {
            own.bytes_mut().copy_within(kept.clone(), 0);
        } else {
            // Records in this buffer are still in use.
            let mut fresh = self.memory(capacity)?;
            fresh.bytes_mut()[..kept.len()].copy_from_slice(&self.buf.bytes()[kept.clone()]);
            self.buf = Arc::new(fresh);
        }
        (self.start, self.base, self.filled, self.read_limit) = (from, 0, kept.len(), limit);
        let left = usize::try_from(self.cursor.segment.segment_bytes - from).unwrap_or(usize::MAX);
        let Some(buf) = Arc::get_mut(&mut self.buf) else { return Ok(()) };
        // Bytes after the limit would only be read again: at the end of a log little is left before it, and a batch of
        // it takes a block more than its records.
        let before_limit = usize::try_from(limit.since(self.cursor.lsn)).unwrap_or(usize::MAX);
        let useful = before_limit.saturating_mul(2).saturating_add(NEAR_END_BYTES).clamp(wanted, capacity);
        let room = left.min(useful.next_multiple_of(4096));
        let rest = &mut buf.bytes_mut()[kept.len()..room];
        self.filled += source.read(self.cursor.segment.number, from + kept.len() as u64, rest)?;
        Ok(())
    }

    /// Continues in the piece that was read ahead, if it is the one that follows what is kept.
    fn take_readahead<S: Source>(&mut self, source: &mut S) -> Result<()> {
        let Some(piece) = source.finish() else { return Ok(()) };
        let mut piece = piece?;
        let (from, kept) = (self.cursor.offset, self.kept());
        let follows = piece.number == self.cursor.segment.number
            && piece.offset == from + kept.len() as u64
            && kept.len() <= piece.at;
        if !follows {
            self.idle = Some(piece.buf);
            return Ok(());
        }
        let base = piece.at - kept.len();
        piece.buf.bytes_mut()[base..piece.at].copy_from_slice(&self.buf.bytes()[kept.clone()]);
        let used = std::mem::replace(&mut self.buf, Arc::new(piece.buf));
        self.idle = Arc::try_unwrap(used).ok();
        (self.start, self.base, self.filled, self.read_limit) =
            (from, base, kept.len() + piece.bytes, piece.limit);
        Ok(())
    }

    /// Has the piece after the buffer read if all of both lies below the limit.
    fn begin_readahead<S: Source>(&mut self, source: &mut S, limit: Lsn) {
        let due = S::READS_AHEAD
            && self.pieces >= PIECES_BEFORE_READAHEAD
            && limit.since(self.cursor.lsn) >= (self.filled + self.read_bytes) as u64;
        if !due {
            return;
        }
        let segment = &self.cursor.segment;
        let behind = self.start + self.filled as u64;
        let next = if behind < segment.data_end() {
            Some((segment.number, behind, segment.segment_bytes - behind))
        } else {
            let next = source.successor(segment.number);
            next.map(|next| (next.number, next.data_start(), next.segment_bytes - next.data_start()))
        };
        let Some((number, offset, left)) = next else { return };
        let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(self.read_bytes);
        let capacity = PIECE_FRONT_BYTES + self.read_bytes;
        let idle = self.idle.take().filter(|buf| buf.capacity() == capacity);
        let buf = idle.unwrap_or_else(|| AlignedBuf::zeroed(capacity));
        let back = source.begin(Chunk { number, offset, limit, buf, at: PIECE_FRONT_BYTES, bytes });
        self.idle = back.map(|piece| piece.buf);
    }

    fn damage(&self, fault: Fault) -> Error {
        damage(self.cursor.segment.number, self.cursor.offset, self.cursor.lsn, fault.to_string())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Scan, Source};
    use crate::commit::seal::Chain;
    use crate::error::{Error, Result};
    use crate::format::SegmentHeader;
    use crate::lsn::Lsn;
    use crate::method::ack_level::AckLevel;
    use crate::read::readahead::Chunk;
    use crate::segment::Place;
    use crate::testing::fixtures;

    const BLOCK: u16 = 512;

    /// One segment in memory, and what is said to follow it.
    struct Memory {
        bytes: Vec<u8>,
        next: Option<SegmentHeader>,
    }

    impl Source for Memory {
        fn read(&mut self, _: u64, offset: u64, buf: &mut [u8]) -> Result<usize> {
            let from = usize::try_from(offset).expect("small").min(self.bytes.len());
            let read = buf.len().min(self.bytes.len() - from);
            buf[..read].copy_from_slice(&self.bytes[from..from + read]);
            Ok(read)
        }

        fn successor(&mut self, _: u64) -> Option<SegmentHeader> {
            self.next
        }
    }

    fn header(number: u64, first_lsn: Lsn) -> SegmentHeader {
        fixtures::segment(number, BLOCK, 1 << 14, first_lsn)
    }

    /// Segment 1 of `segment_bytes` bytes with a batch for each of `records`, as many as fit; the ends of the batches.
    fn written(
        segment_bytes: u64,
        batch_bytes: usize,
        records: impl IntoIterator<Item = Vec<u8>>,
    ) -> (Memory, SegmentHeader, Vec<Lsn>) {
        let segment = SegmentHeader { segment_bytes, ..header(1, Lsn::ZERO) };
        let config = fixtures::config(BLOCK, batch_bytes, 1);
        let place = Place { segment: 1, offset: BLOCK.into(), data_end: segment.data_end() };
        let mut core = fixtures::core(config, place);
        let mut chain = Chain::new(0);
        let (mut bytes, mut ends) = (vec![0; usize::try_from(segment_bytes).expect("small")], Vec::new());
        for record in records {
            let Ok(end) = core.append(&record) else { break };
            core.request(AckLevel::Full, end);
            let Some(issue) = core.issue() else { break };
            let job = chain.seal(&config, issue);
            for write in job.writes() {
                let at = usize::try_from(write.offset).expect("small");
                bytes[at..at + write.bytes.len()].copy_from_slice(write.bytes);
            }
            core.done(job.id, job.into_buffer());
            ends.push(end);
        }
        (Memory { bytes, next: None }, segment, ends)
    }

    #[test]
    fn a_batch_that_reaches_past_the_end_or_into_the_next_segment_is_damage() {
        let two = || written(1 << 14, 1024, [b"one".to_vec(), b"two".to_vec()]);
        let [first, last] = two().2[..] else { panic!("two batches fit") };
        let within = Lsn::new(first.get() - 1);
        for (limit, next, batches) in [
            (last, None, 2),
            (first, None, 1),
            (first, Some(first), 1),
            (last, Some(last), 2),
            (within, None, 0),
            (Lsn::MAX, Some(within), 0),
        ] {
            let (mut memory, ..) = two();
            memory.next = next.map(|first_lsn| header(2, first_lsn));
            let mut scan = Scan::new(header(1, Lsn::ZERO), 4096);
            let mut seen = 0;
            let end = loop {
                match scan.next_batch(&mut memory, limit) {
                    Ok(Some(_)) => seen += 1,
                    other => break other,
                }
            };
            assert_eq!(seen, batches, "{limit} {next:?}");
            assert_eq!(matches!(end, Err(Error::Corrupt(_))), batches == 0, "{limit} {next:?}: {end:?}");
        }
    }

    /// A long segment that can be read ahead, on the spot; `spoil` changes what was read before it is handed out.
    struct Eager<F> {
        memory: Memory,
        begun: Option<Chunk>,
        spoil: F,
        taken: u32,
    }

    impl<F: Fn(&mut Chunk)> Source for Eager<F> {
        const READS_AHEAD: bool = true;

        fn read(&mut self, number: u64, offset: u64, buf: &mut [u8]) -> Result<usize> {
            self.memory.read(number, offset, buf)
        }

        fn successor(&mut self, number: u64) -> Option<SegmentHeader> {
            self.memory.successor(number)
        }

        fn begin(&mut self, mut piece: Chunk) -> Option<Chunk> {
            let wanted = &mut piece.buf.bytes_mut()[piece.at..][..piece.bytes];
            piece.bytes = self.memory.read(piece.number, piece.offset, wanted).expect("is memory");
            (self.spoil)(&mut piece);
            self.begun.replace(piece)
        }

        fn finish(&mut self) -> Option<Result<Chunk>> {
            self.taken += u32::from(self.begun.is_some());
            self.begun.take().map(Ok)
        }
    }

    /// A segment full of batches whose records have the lengths 0, `step`, twice `step` and so on, modulo 6000.
    fn long(step: usize) -> (Memory, SegmentHeader, Lsn) {
        let record = |i| vec![u8::try_from(i % 251).expect("small"); i * step % 6000];
        let (memory, segment, ends) = written(1 << 18, 8192, (0..).map(record));
        (memory, segment, ends.last().copied().unwrap_or_default())
    }

    /// The records of a scan to its end, by place and content.
    fn all<S: Source>(source: &mut S, segment: SegmentHeader, limit: Lsn) -> Vec<(Lsn, Vec<u8>)> {
        let mut scan = Scan::new(segment, 4096);
        let mut seen = Vec::new();
        while let Some(batch) = scan.next_batch(source, limit).expect("is sound") {
            seen.push((batch.header.lsn, batch.buf.bytes()[batch.start..batch.end].to_vec()));
        }
        seen
    }

    #[test]
    fn readahead_yields_the_same_records_as_plain_reads() {
        for step in [0, 1, 37, 333, 512, 1001, 4093, 5999] {
            let (memory, segment, end) = long(step);
            let mut plain = Memory { bytes: memory.bytes.clone(), next: None };
            let expected = all(&mut plain, segment, end);
            assert!(expected.len() > 20, "{step}");
            let mut eager = Eager { memory, begun: None, spoil: |_: &mut Chunk| (), taken: 0 };
            assert!(all(&mut eager, segment, end) == expected, "{step}");
            assert!(eager.taken > 30 || step == 0, "{step}: {} pieces", eager.taken);
        }
    }

    /// A piece of another segment or place, or one that was read before it was durable, is left alone.
    #[test]
    fn a_readahead_piece_that_is_not_the_next_one_is_discarded() {
        // A scan that takes the piece all the same reads rubbish.
        let rubbish = |piece: &mut Chunk| piece.buf.bytes_mut().fill(0xA5);
        let spoils: [fn(&mut Chunk); 4] = [
            |piece| piece.number += 1,
            |piece| piece.offset += 512,
            |piece| piece.limit = Lsn::ZERO,
            |piece| piece.at = 0,
        ];
        for (row, spoil) in spoils.into_iter().enumerate() {
            let (memory, segment, end) = long(1001);
            let mut plain = Memory { bytes: memory.bytes.clone(), next: None };
            let expected = all(&mut plain, segment, end);
            let spoil = move |piece: &mut Chunk| {
                spoil(piece);
                rubbish(piece);
            };
            let mut eager = Eager { memory, begun: None, spoil, taken: 0 };
            assert!(all(&mut eager, segment, end) == expected, "row {row}");
            assert!(eager.taken > 5, "row {row}");
        }
    }
}
