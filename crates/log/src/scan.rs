//! How are records read back?
//!
//! A [`Scan`] goes through the segments batch by batch, in large reads, and checks every batch by the full validity
//! rule before it hands out a byte of it. Batches stay where they were read to; whoever keeps one keeps the buffer
//! alive.
//!
//! Invariants: nothing at or past the limit given by the caller (the durable LSN) is ever looked at, and bytes read
//! under an older limit are read again before anything past that limit is believed.

use std::sync::Arc;

use crate::buffer::AlignedBuf;
use crate::error::{Damage, Error, Result};
use crate::format::{BATCH_HEADER_BYTES, BatchHeader, Fault, SegmentHeader, segment_name};
use crate::lsn::Lsn;
use crate::walk::Cursor;

/// Where segments are read from.
pub(crate) trait Source {
    /// Fills `buf` from byte `offset` of segment `number` on, as far as the segment goes; returns the bytes read.
    fn read(&mut self, number: u64, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// The header of the segment behind segment `number`, if it has been started.
    fn successor(&mut self, number: u64) -> Option<SegmentHeader>;
}

/// One batch that was found valid.
#[derive(Clone, Debug)]
pub(crate) struct ScannedBatch {
    /// Its header.
    pub(crate) header: BatchHeader,
    /// The buffer it lies in.
    pub(crate) buf: Arc<AlignedBuf>,
    /// Where its records start in the buffer.
    pub(crate) start: usize,
    /// Where they end.
    pub(crate) end: usize,
}

/// A walk through the log.
#[derive(Debug)]
pub(crate) struct Scan {
    cursor: Cursor,
    buf: Arc<AlignedBuf>,
    read_bytes: usize,
    /// The part of the segment that the buffer holds.
    start: u64,
    filled: usize,
    /// The limit that held when it was read.
    read_limit: Lsn,
}

impl Scan {
    /// Starts at the beginning of a segment; reads `read_bytes` at a time.
    pub(crate) fn new(segment: SegmentHeader, read_bytes: usize) -> Self {
        let read_bytes = read_bytes.next_multiple_of(4096);
        Self {
            cursor: Cursor::start(segment),
            buf: Arc::new(AlignedBuf::zeroed(read_bytes)),
            read_bytes,
            start: 0,
            filled: 0,
            read_limit: Lsn::ZERO,
        }
    }

    /// Where the scan stands.
    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
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
            if let Some(next) = source.successor(self.cursor.segment.number)
                && next.first_lsn == self.cursor.lsn
            {
                self.cursor = Cursor::start(next);
                self.filled = 0;
                continue;
            }
            if let Some(batch) = self.step(source, limit)? {
                return Ok(Some(batch));
            }
        }
    }

    /// Skips batches that end at or before `lsn` without checking their records, as long as their headers are sound.
    pub(crate) fn seek<S: Source>(&mut self, source: &mut S, lsn: Lsn, limit: Lsn) -> Result<()> {
        while self.cursor.lsn < lsn.min(limit) {
            if let Some(next) = source.successor(self.cursor.segment.number)
                && next.first_lsn == self.cursor.lsn
            {
                self.cursor = Cursor::start(next);
                self.filled = 0;
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

    fn header<S: Source>(
        &mut self,
        source: &mut S,
        limit: Lsn,
    ) -> Result<std::result::Result<(BatchHeader, u32), Fault>> {
        if !self.cursor.has_room() {
            return Ok(Err(Fault::Short));
        }
        self.ensure(source, BATCH_HEADER_BYTES, limit)?;
        let at = self.place();
        Ok(self.cursor.check_header(&self.buf.bytes()[at..self.filled.min(at + BATCH_HEADER_BYTES)]))
    }

    /// Checks the batch at the cursor and steps behind it; `None` if it carries no records.
    fn step<S: Source>(&mut self, source: &mut S, limit: Lsn) -> Result<Option<ScannedBatch>> {
        let checked = self.header(source, limit)?;
        let (header, checksum) = checked.map_err(|fault| self.damage(fault))?;
        // The end of the log and the start of the next segment lie between batches: none reaches past them.
        let next = source.successor(self.cursor.segment.number);
        if header.end() > next.map_or(limit, |next| next.first_lsn.min(limit)) {
            return Err(self.damage(Fault::Lsn));
        }
        let bytes = usize::try_from(header.disk_bytes(self.cursor.segment.block_bytes)).unwrap_or(usize::MAX);
        self.ensure(source, bytes, limit)?;
        let at = self.place();
        let batch = &self.buf.bytes()[at..self.filled.min(at + bytes)];
        Cursor::check_batch(&header, batch).map_err(|fault| self.damage(fault))?;
        self.cursor.advance(&header, checksum);
        if header.records == 0 {
            return Ok(None);
        }
        let start = at + BATCH_HEADER_BYTES;
        let end = start + header.body_bytes as usize;
        Ok(Some(ScannedBatch { header, buf: Arc::clone(&self.buf), start, end }))
    }

    /// Where in the buffer the cursor is.
    fn place(&self) -> usize {
        usize::try_from(self.cursor.offset - self.start).unwrap_or(usize::MAX).min(self.filled)
    }

    /// Makes sure that the buffer holds `wanted` bytes at the cursor, or as many as there are.
    fn ensure<S: Source>(&mut self, source: &mut S, wanted: usize, limit: Lsn) -> Result<()> {
        let from = self.cursor.offset;
        let end = self.start + self.filled as u64;
        let current = self.cursor.lsn < self.read_limit && (self.start..end).contains(&from);
        if current && from + wanted as u64 <= end {
            return Ok(());
        }
        // What is there of the wanted batch stays: the batch began below the limit when it was read, so all of it was
        // durable then.
        let kept = if current { self.place()..self.filled } else { 0..0 };
        let capacity = wanted.next_multiple_of(4096).max(self.read_bytes);
        if let Some(own) = Arc::get_mut(&mut self.buf).filter(|buf| buf.capacity() >= capacity) {
            own.bytes_mut().copy_within(kept.clone(), 0);
        } else {
            // Somebody keeps records of this buffer.
            let mut fresh = AlignedBuf::zeroed(capacity);
            fresh.bytes_mut()[..kept.len()].copy_from_slice(&self.buf.bytes()[kept.clone()]);
            self.buf = Arc::new(fresh);
        }
        (self.start, self.filled, self.read_limit) = (from, kept.len(), limit);
        let left = usize::try_from(self.cursor.segment.segment_bytes - from).unwrap_or(usize::MAX);
        let Some(buf) = Arc::get_mut(&mut self.buf) else { return Ok(()) };
        let room = buf.capacity().min(left);
        let rest = &mut buf.bytes_mut()[kept.len()..room];
        self.filled += source.read(self.cursor.segment.number, from + kept.len() as u64, rest)?;
        Ok(())
    }

    fn damage(&self, fault: Fault) -> Error {
        Error::Corrupt(Damage {
            path: segment_name(self.cursor.segment.number).into(),
            offset: self.cursor.offset,
            lsn: self.cursor.lsn,
            what: fault.to_string(),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Scan, Source};
    use crate::asked::Grade;
    use crate::core::{Beginning, Core, Place, Shape};
    use crate::error::{Error, Result};
    use crate::format::{LogId, SegmentHeader};
    use crate::lsn::Lsn;
    use crate::seal::Chain;

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
        SegmentHeader {
            block_bytes: BLOCK,
            log_id: LogId([3; 16]),
            epoch: 1,
            number,
            segment_bytes: 1 << 14,
            first_lsn,
            trim_lsn: Lsn::ZERO,
            previous: number - 1,
            link: 0,
        }
    }

    /// A segment with two batches of one record each; the ends of both.
    fn written() -> (Memory, [Lsn; 2]) {
        let (log_id, bytes) = (LogId([3; 16]), vec![0; 1 << 14]);
        let shape =
            Shape { log_id, epoch: 1, block_bytes: BLOCK, batch_bytes: 1024, depth: 1, memory_bytes: 4096 };
        let place = Place { segment: 1, offset: BLOCK.into(), data_end: (1 << 14) - u64::from(BLOCK) };
        let mut core =
            Core::new(shape, Beginning { end: Lsn::ZERO, trim: Lsn::ZERO, place, spares: Vec::new() });
        let (mut chain, mut memory) = (Chain { link: 0 }, Memory { bytes, next: None });
        let ends = [b"one".as_slice(), b"two"].map(|record| {
            let end = core.append(record).expect("there is room");
            core.want(Grade::Full, end);
            let job = chain.seal(&shape, core.issue().expect("there is a batch"));
            for write in job.phases().flat_map(|phase| phase.writes()) {
                let at = usize::try_from(write.offset).expect("small");
                memory.bytes[at..at + write.bytes.len()].copy_from_slice(write.bytes);
            }
            core.done(job.id, job.into_buffer());
            end
        });
        (memory, ends)
    }

    #[test]
    fn a_batch_that_reaches_past_the_end_or_into_the_next_segment_is_damage() {
        let (_, [first, last]) = written();
        let within = Lsn::new(first.get() - 1);
        for (limit, next, batches) in [
            (last, None, 2),
            (first, None, 1),
            (first, Some(first), 1),
            (last, Some(last), 2),
            (within, None, 0),
            (Lsn::MAX, Some(within), 0),
        ] {
            let (mut memory, _) = written();
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
}
