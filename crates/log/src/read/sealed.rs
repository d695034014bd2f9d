//! Hands out batches as they are on disk, so that a copy elsewhere is the same log, bit by bit.
//!
//! ```text
//! pieces of a log:   segment header, copy 0      128 bytes, in front of the first batch of each segment
//!                    batch                       header and records; the padding is zeros and is left out
//! ```
//!
//! Pieces stand one after the other without anything in between: each begins with its magic, and its header says how long it
//! is. Marks are batches as well, because the next batch is linked to them.
//!
//! [`SealedFollower`] reads the pieces of a log, [`SealedCheck`] holds each against the one before it by the validity rule of
//! the format, and [`crate::Rebuild`] writes the segments that they come from.
//!
//! Invariants: only durable batches are handed out, in order, each once; a follower begins where a batch ended, so that what it
//! hands out follows that batch by its link.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Damage, Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::cursor::Cursor;
use crate::format::{
    BATCH_HEADER_BYTES, BATCH_MAGIC, BatchHeader, Fault, LogId, SEGMENT_HEADER_BYTES, SegmentHeader,
};
use crate::lsn::Lsn;
use crate::read::scan::ScannedBatch;
use crate::read::view::View;
use crate::read::view_follower::{ViewFollower, ViewRecords};

/// How long a follower waits at its beginning for an LSN after what the log itself proves durable.
const PROVEN_WITHIN: Duration = Duration::from_secs(1);

/// Where a rebuild was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) segment: u64,
    /// Everything before this byte of it is durable.
    pub(crate) offset: u64,
    /// The link of the last batch.
    pub(crate) link: u32,
}

/// A batch as it is on disk.
#[derive(Clone)]
#[non_exhaustive]
pub struct SealedBatch {
    /// The header of the segment that begins with this batch.
    pub segment: Option<[u8; SEGMENT_HEADER_BYTES]>,
    /// Where its records start.
    pub lsn: Lsn,
    /// Where they end, exclusive.
    pub end: Lsn,
    /// How many it holds: none if it is a mark.
    pub records: u32,
    /// When it was gathered, microseconds since 1970, 0 if unknown.
    pub time_us: u64,
    /// The checksum of its header, which names it: the next batch states it.
    pub link: u32,
    buf: Arc<AlignedBuf>,
    range: Range<usize>,
}

impl std::fmt::Debug for SealedBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("SealedBatch");
        shown.field("lsn", &self.lsn).field("end", &self.end).field("records", &self.records);
        shown.finish_non_exhaustive()
    }
}

impl SealedBatch {
    /// `batch`, after which `cursor` stands.
    pub(crate) fn of(batch: &ScannedBatch, cursor: &Cursor) -> Self {
        let begins = batch.header.offset == cursor.segment.data_start();
        let segment = begins.then(|| {
            let mut bytes = [0; SEGMENT_HEADER_BYTES];
            cursor.segment.encode(0, &mut bytes);
            bytes
        });
        Self {
            segment,
            lsn: batch.header.lsn,
            end: batch.header.end(),
            records: batch.header.records,
            time_us: batch.header.time_us,
            link: cursor.link,
            buf: Arc::clone(&batch.buf),
            range: batch.start - BATCH_HEADER_BYTES..batch.end,
        }
    }

    /// Its header and its records.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buf.bytes()[self.range.clone()]
    }

    /// Adds its pieces to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        if let Some(segment) = &self.segment {
            out.extend_from_slice(segment);
        }
        out.extend_from_slice(self.bytes());
    }
}

/// Follows a log batch by batch: see [`View::follow_sealed`].
#[derive(Debug)]
pub struct SealedFollower(ViewFollower);

impl SealedFollower {
    pub(crate) fn new(view: View, from: Lsn) -> Result<Self> {
        let (records, end) = (view.scan_sealed(from)?, view.end_lsn());
        let mut follower = Self(ViewFollower::new(view, ViewRecords::new(records)));
        // A writer knows more to be durable than the log itself proves.
        while follower.lsn() < from && end < from {
            if follower.next_batch(PROVEN_WITHIN)?.is_none() {
                return Err(Error::BeyondEnd { lsn: from, end: follower.end() });
            }
        }
        if follower.lsn() == from { Ok(follower) } else { Err(Error::NoBatch { lsn: from }) }
    }

    /// The next durable batch; waits for it at most for `limit`, and returns `None` then. Marks come before the next batch
    /// with records, when that is durable.
    ///
    /// # Errors
    /// [`Error::Trimmed`] if the log was trimmed past this follower, [`Error::Corrupt`], [`Error::OtherLog`], [`Error::Io`].
    pub fn next_batch(&mut self, limit: Duration) -> Result<Option<SealedBatch>> {
        self.0.next_sealed(limit)
    }

    /// Where the next batch lies.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.0.cursor().lsn
    }

    /// The checksum of the header of the batch before it, or what the first segment states of that.
    #[must_use]
    pub fn link(&self) -> u32 {
        self.0.cursor().link
    }

    /// The end of what it knows to be durable.
    #[must_use]
    pub fn end(&self) -> Lsn {
        self.0.known_end()
    }

    /// Whether there was no writer when it looked last.
    #[must_use]
    pub fn has_no_writer(&self) -> bool {
        self.0.has_no_writer()
    }
}

pub(crate) enum Piece<'a> {
    Segment(SegmentHeader),
    Batch(BatchHeader, &'a [u8]),
}

/// Checks the pieces of a log against each other as they come.
#[derive(Clone, Debug, Default)]
pub struct SealedCheck {
    cursor: Option<Cursor>,
    records: u64,
    batches: u64,
}

impl SealedCheck {
    /// Nothing has come yet: the first piece must be the header of a segment.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What came ended at `cursor`.
    pub(crate) fn at(cursor: Cursor) -> Self {
        Self { cursor: Some(cursor), records: 0, batches: 0 }
    }

    /// Where what came ended.
    pub(crate) fn saved(&self) -> Option<Saved> {
        let at = self.cursor.as_ref()?;
        Some(Saved { segment: at.segment.number, offset: at.offset, link: at.link })
    }

    /// Checks whole pieces.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the first that is not valid, or does not follow the one before it.
    pub fn check(&mut self, mut pieces: &[u8]) -> Result<()> {
        while !pieces.is_empty() {
            self.next(&mut pieces)?;
        }
        Ok(())
    }

    /// Checks the piece that `rest` begins with, and returns its bytes; `rest` continues after it.
    ///
    /// # Errors
    /// As [`SealedCheck::check`]; `rest` stays where it is.
    pub fn take<'a>(&mut self, rest: &mut &'a [u8]) -> Result<&'a [u8]> {
        let whole = *rest;
        self.next(rest)?;
        Ok(&whole[..whole.len() - rest.len()])
    }

    /// Takes the piece that `rest` begins with.
    pub(crate) fn next<'a>(&mut self, rest: &mut &'a [u8]) -> Result<Piece<'a>> {
        if rest.starts_with(&BATCH_MAGIC) {
            let (header, bytes) = self.batch(rest)?;
            Ok(Piece::Batch(header, bytes))
        } else {
            let segment = self.segment(rest)?;
            *rest = &rest[SEGMENT_HEADER_BYTES..];
            Ok(Piece::Segment(segment))
        }
    }

    fn segment(&mut self, rest: &[u8]) -> Result<SegmentHeader> {
        let wrong = |what: String| Err(self.damage(what));
        let header = match SegmentHeader::decode_unplaced(rest, 0) {
            Ok(header) => header,
            Err(fault) => return wrong(format!("a segment header was expected: {fault}")),
        };
        if let Some(at) = &self.cursor {
            let follows = header.log_id == at.segment.log_id
                && header.block_bytes == at.segment.block_bytes
                && header.previous == at.segment.number
                && (header.first_lsn, header.link) == (at.lsn, at.link)
                && header.epoch >= at.epoch;
            if !follows {
                return wrong(format!("segment {} does not follow what came before it", header.number));
            }
        }
        self.cursor = Some(Cursor::start(header));
        Ok(header)
    }

    fn batch<'a>(&mut self, rest: &mut &'a [u8]) -> Result<(BatchHeader, &'a [u8])> {
        let Some(at) = &mut self.cursor else {
            return Err(self.damage("a batch came before the header of its segment"));
        };
        let (header, checksum) = at.check_header(rest).map_err(|fault| damage(at, fault))?;
        let used = BATCH_HEADER_BYTES + header.body_bytes as usize;
        let (bytes, behind) = rest.split_at_checked(used).ok_or_else(|| damage(at, Fault::Short))?;
        let padded = padded(bytes, at.segment.block_bytes);
        Cursor::check_batch(&header, &padded).map_err(|fault| damage(at, fault))?;
        at.advance(&header, checksum);
        *rest = behind;
        self.records += u64::from(header.records);
        self.batches += 1;
        Ok((header, bytes))
    }

    fn damage(&self, what: impl Into<String>) -> Error {
        let place = self.cursor.as_ref().map(|at| (at.segment.number, at.offset, at.lsn));
        let (number, offset, lsn) = place.unwrap_or_default();
        Error::Corrupt(Damage::in_segment(number, offset, lsn, what))
    }

    /// Where the last piece ended: its segment, and the byte there. It grows from piece to piece, and is the same in every copy of
    /// a log.
    #[must_use]
    pub fn place(&self) -> (u64, u64) {
        self.cursor.as_ref().map_or((0, 0), |at| (at.segment.number, at.offset))
    }

    /// The log that the pieces are of, once one has come.
    #[must_use]
    pub fn log_id(&self) -> Option<LogId> {
        self.cursor.as_ref().map(|at| at.segment.log_id)
    }

    /// Where the next batch is due.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.cursor.as_ref().map_or(Lsn::ZERO, |at| at.lsn)
    }

    /// The checksum of the header of the last batch.
    #[must_use]
    pub fn link(&self) -> u32 {
        self.cursor.as_ref().map_or(0, |at| at.link)
    }

    /// The first LSN that the log must have, by its last batch.
    #[must_use]
    pub fn first(&self) -> Lsn {
        self.cursor.as_ref().map_or(Lsn::ZERO, |at| at.trim)
    }

    /// The epoch of the last batch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.cursor.as_ref().map_or(0, |at| at.epoch)
    }

    /// The time of the latest batch, microseconds since 1970, 0 if unknown.
    #[must_use]
    pub fn time_us(&self) -> u64 {
        self.cursor.as_ref().map_or(0, |at| at.time_us)
    }

    /// How many records came.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How many batches came, marks included.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.batches
    }
}

fn damage(at: &Cursor, fault: Fault) -> Error {
    Error::Corrupt(Damage::in_segment(at.segment.number, at.offset, at.lsn, fault.to_string()))
}

/// A batch with its padding.
pub(crate) fn padded(bytes: &[u8], block_bytes: u16) -> Vec<u8> {
    let mut padded = Vec::with_capacity(bytes.len().next_multiple_of(block_bytes.into()));
    padded.extend_from_slice(bytes);
    padded.resize(bytes.len().next_multiple_of(block_bytes.into()), 0);
    padded
}
