//! Collects records in memory until they are written together as one batch.
//!
//! A [`Batch`] is a buffer with room for a header, the records after it, and the checksum of the records so far.
//!
//! Invariants: `summed <= used <= room`; the checksum is that of the records up to `summed`.

use seawall_sys::buffer::about_to_write;

use crate::format::buffer::AlignedBuf;
use crate::format::checksum::crc32c_more;
use crate::format::{BATCH_HEADER_BYTES, BatchKind, Tag, TagKind};
use crate::lsn::Lsn;
use crate::segment::Place;

/// Records of up to this many bytes are small; for larger ones the processor prefetches memory by itself.
const SMALL_BYTES: usize = 512;
/// How far behind a small record memory is fetched for later ones, in bytes: the time of a few records.
const FETCH_BYTES: usize = 1024;
/// Records are added to the checksum when there are this many bytes: fewer are cheaper together.
const SUM_BYTES: usize = 2048;
/// The same for small records, because the record that completes the bytes waits for the sum of all.
const SUM_SMALL_BYTES: usize = 1024;

/// The start of a segment that goes with its first batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) bytes: u64,
    pub(crate) previous: u64,
    /// From which segments on streams and cuts are read, 0 for none.
    pub(crate) streams_from: u64,
    pub(crate) cuts_from: u64,
}

/// A batch under assembly, and afterwards until it is sealed.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Counts batches from 1, in order of issue.
    pub(crate) id: u64,
    pub(crate) kind: BatchKind,
    /// Header room, records, room for padding.
    pub(crate) buf: AlignedBuf,
    /// Bytes used, header room included.
    pub(crate) used: usize,
    pub(crate) records: u32,
    /// The LSN of its first record.
    pub(crate) lsn: Lsn,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    /// The checksum of the records up to `summed`.
    pub(crate) sum: u32,
    /// How far the checksum reaches, in bytes from the start of the buffer.
    pub(crate) summed: usize,
    /// The most it may use in bytes.
    pub(crate) room: usize,
    /// Set if its segment is to be started first.
    pub(crate) start: Option<Start>,
    /// Whether some record has a tag.
    pub(crate) tagged: bool,
    /// Whether some record says what of the log is cut.
    pub(crate) cuts: bool,
    /// How many of its records cut the log.
    pub(crate) log_cuts: u64,
    /// What records take in it that were rewritten, bytes.
    pub(crate) rewritten: u64,
}

impl Batch {
    /// A batch without records at `place`, which may fill its buffer.
    pub(crate) fn empty(id: u64, kind: BatchKind, buf: AlignedBuf, lsn: Lsn, place: Place) -> Self {
        Self {
            id,
            kind,
            room: buf.capacity(),
            buf,
            used: BATCH_HEADER_BYTES,
            records: 0,
            lsn,
            segment: place.segment,
            offset: place.offset,
            sum: 0,
            summed: BATCH_HEADER_BYTES,
            start: None,
            tagged: false,
            cuts: false,
            log_cuts: 0,
            rewritten: 0,
        }
    }

    /// The LSN after its last record.
    pub(crate) fn end(&self) -> Lsn {
        self.lsn.saturating_add((self.used - BATCH_HEADER_BYTES) as u64)
    }

    /// Notes that it holds a record with this tag, of this many bytes.
    pub(crate) fn note(&mut self, tag: &Tag, bytes: usize) {
        self.tagged = true;
        self.cuts |= matches!(tag.kind, TagKind::LogCut | TagKind::LogCuts);
        self.log_cuts += u64::from(tag.kind == TagKind::LogCut);
        self.rewritten += if tag.kind == TagKind::Copy { bytes as u64 } else { 0 };
    }

    /// Puts `parts`, `records` records with their headers, after what it holds, for which there must be room.
    ///
    /// They are added to the checksum here, because the thread that copied them still has them in its processor's cache and
    /// the thread that writes them may run on another processor.
    #[inline]
    pub(crate) fn put(&mut self, parts: [&[u8]; 2], records: u32) {
        let from = self.used;
        for part in parts {
            self.buf.bytes_mut()[self.used..self.used + part.len()].copy_from_slice(part);
            self.used += part.len();
        }
        self.records += records;
        let bytes = self.used - from;
        let small = bytes <= SMALL_BYTES;
        if self.used - self.summed >= if small { SUM_SMALL_BYTES } else { SUM_BYTES } {
            self.sum = crc32c_more(self.sum, &self.buf.bytes()[self.summed..self.used]);
            self.summed = self.used;
        }
        let next = self.used + FETCH_BYTES;
        if small && let Some(next) = self.buf.bytes_mut().get_mut(next..next + bytes) {
            about_to_write(next);
        }
    }
}
