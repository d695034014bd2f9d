//! Finds the end of the log and decides whether it may end there: clean, torn tail or lost data.
//!
//! The last segment is walked batch by batch, and the first place where the next batch is not valid is judged:
//!
//! | the last valid batch | a witness after the tail says it was durable | conclusion |
//! | --- | --- | --- |
//! | a close mark | no | clean: continue in the same segment |
//! | any other, or none | no | torn tail: the log ends here, continue in a new segment |
//! | any | only that it was acknowledged, in a log of a class below power loss | lost: the same, and say so |
//! | any | yes | corruption of acknowledged data: refuse |
//!
//! A witness is a self-valid batch header whose durable LSN lies past the end that was found, or, after a close mark,
//! one of a later epoch: the open mark between the two had been durable before it was written. In a log of class power
//! loss the acknowledged LSN of a header counts as much; in a lower one what lies between the two was never synced, so
//! that a power cut may have taken any part of it, and the records after the first hole go with it. The segment after the
//! last started one is searched for witnesses too: if it holds a batch of its own number, its header was lost after
//! it had been durable.
//!
//! Invariants: nothing is changed; one visit per block of the tail.

use crate::error::{Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::cursor::{Cursor, check_in_pieces};
use crate::format::{
    BATCH_HEADER_BYTES, BLOCK_SIZES, BatchHeader, BatchKind, Fault, SegmentHeader, segment_name,
};
use crate::lsn::Lsn;
use crate::recovery::directory::{LOST_HEADER, READ_BLOCK_BYTES, damage, in_segment};
use crate::segment::Spare;
use crate::storage::disk::{Disk, FileId, read_full};
use seawall_sys::planted;

/// How the log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tail {
    /// There was no log.
    New,
    /// It had been closed.
    Clean,
    /// It had not been closed. What was being written when it ended is lost unless it arrived whole.
    Torn,
    /// It had not been closed, and something happened that its durability class does not promise to outlive: a power cut
    /// where it promised to outlive the end of the process. Acknowledged records are lost; everything
    /// before them is intact. A log of class power loss never ends like this: there such a loss is damage.
    Lost {
        /// Where the log ends: the LSN of the first record that is gone.
        from: Lsn,
        /// Everything before this had been acknowledged, as far as the remaining batches show.
        to: Lsn,
    },
}

/// Reads a file forward through one buffer.
#[derive(Debug)]
pub(crate) struct Window {
    buf: AlignedBuf,
    start: u64,
    filled: usize,
    /// One read in bytes.
    pub(crate) read_bytes: usize,
    /// Memory for a batch that is checked in pieces, once there was one.
    pieces: Option<AlignedBuf>,
}

impl Window {
    /// Reads `bytes` at a time.
    pub(crate) fn new(bytes: usize) -> Self {
        let read_bytes = bytes.next_multiple_of(READ_BLOCK_BYTES);
        Self { buf: AlignedBuf::zeroed(read_bytes), start: 0, filled: 0, read_bytes, pieces: None }
    }

    /// The bytes from `offset` on, `wanted` of them or as many as the file has.
    pub(crate) fn get<D: Disk>(
        &mut self,
        disk: &mut D,
        place: (&str, FileId),
        offset: u64,
        wanted: usize,
    ) -> Result<&[u8]> {
        let end = offset.saturating_add(wanted as u64);
        if offset < self.start || end > self.start + self.filled as u64 {
            // Also where a batch starts in the middle of a sector.
            self.start = offset - offset % READ_BLOCK_BYTES as u64;
            let needed = usize::try_from(offset - self.start).unwrap_or(0).saturating_add(wanted);
            if needed > self.buf.capacity() {
                self.buf = memory(place.0, needed.next_multiple_of(READ_BLOCK_BYTES))?;
            }
            self.filled = 0;
            self.filled = read_full(disk, place.0, place.1, self.start, self.buf.bytes_mut())?;
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX).min(self.filled);
        let to = from.saturating_add(wanted).min(self.filled);
        Ok(&self.buf.bytes()[from..to])
    }

    /// Rules 11 and 12 for the batch at `offset`; the window stays where it is, and takes no memory for the batch.
    pub(crate) fn check<D: Disk>(
        &mut self,
        disk: &mut D,
        (name, file): (&str, FileId),
        (offset, block_bytes): (u64, u16),
        batch: &BatchHeader,
    ) -> Result<std::result::Result<(), Fault>> {
        let end = offset.saturating_add(batch.disk_bytes(block_bytes));
        if offset >= self.start && end <= self.start + self.filled as u64 {
            let place = |at: u64| usize::try_from(at - self.start).unwrap_or(usize::MAX);
            return Ok(Cursor::check_batch(batch, &self.buf.bytes()[place(offset)..place(end)]));
        }
        let mut pieces = self.pieces.take().map_or_else(|| memory(name, self.read_bytes), Ok)?;
        let read = |at: u64, buf: &mut [u8]| read_full(disk, name, file, at, buf);
        let checked = check_in_pieces(batch, (offset, block_bytes), pieces.bytes_mut(), read);
        self.pieces = Some(pieces);
        checked
    }

    /// The same for a batch after which the walk continues: if it fits, the window moves to it.
    pub(crate) fn check_next<D: Disk>(
        &mut self,
        disk: &mut D,
        place: (&str, FileId),
        (offset, block_bytes): (u64, u16),
        batch: &BatchHeader,
    ) -> Result<std::result::Result<(), Fault>> {
        let bytes = usize::try_from(batch.disk_bytes(block_bytes)).unwrap_or(usize::MAX);
        if bytes > self.read_bytes {
            return self.check(disk, place, (offset, block_bytes), batch);
        }
        Ok(Cursor::check_batch(batch, self.get(disk, place, offset, bytes)?))
    }
}

/// Memory for a length that a file claims: if there is not enough, reading fails instead of ending the process.
fn memory(name: &str, bytes: usize) -> Result<AlignedBuf> {
    AlignedBuf::try_zeroed(bytes).map_err(|source| Error::io("read", name, source))
}

/// Walks on from `cursor` as far as batches are valid; returns why the next one is not, `None` if there is no room for
/// one.
pub(crate) fn walk<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    file: FileId,
    cursor: &mut Cursor,
) -> Result<Option<Fault>> {
    let name = segment_name(cursor.segment.number);
    walk_while(disk, window, (&name, file), cursor, |_, _| true)
}

/// The same in a segment that may have another name, as far as batches are `wanted`, too.
pub(crate) fn walk_while<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    place: (&str, FileId),
    cursor: &mut Cursor,
    wanted: impl Fn(&Cursor, &BatchHeader) -> bool,
) -> Result<Option<Fault>> {
    while cursor.has_room() {
        let (batch, checksum) =
            match cursor.check_header(window.get(disk, place, cursor.offset, BATCH_HEADER_BYTES)?) {
                Ok(valid) => valid,
                Err(fault) => return Ok(Some(fault)),
            };
        if !wanted(cursor, &batch) {
            return Ok(None);
        }
        let at = (cursor.offset, cursor.segment.block_bytes);
        if let Err(fault) = window.check_next(disk, place, at, &batch)? {
            return Ok(Some(fault));
        }
        cursor.advance(&batch, checksum);
    }
    Ok(None)
}

/// Searches from `from` to the end of the segment for a self-valid batch header that `says` something; returns it.
pub(crate) fn find_witness<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    file: FileId,
    (segment, from): (&SegmentHeader, u64),
    mut says: impl FnMut(&BatchHeader) -> bool,
) -> Result<Option<BatchHeader>> {
    let name = segment_name(segment.number);
    let end = planted!(WitnessNextBlockOnly(from, segment), segment.data_end());
    let mut offset = from;
    while offset < end {
        let bytes = window.get(disk, (&name, file), offset, BATCH_HEADER_BYTES)?;
        match Cursor::self_valid(segment, offset, bytes) {
            Ok((header, _)) if says(&header) => return Ok(Some(header)),
            _ => offset += u64::from(segment.block_bytes),
        }
    }
    Ok(None)
}

/// What the tail of an existing log means.
#[derive(Debug)]
pub(crate) struct Judged {
    /// Where the log ends.
    pub(crate) cursor: Cursor,
    /// Whether it had been closed.
    pub(crate) clean: bool,
    /// The end of what had been acknowledged, if it lies after the end of the log and the class allows that loss.
    pub(crate) lost: Option<Lsn>,
}

impl Judged {
    pub(crate) fn tail(&self) -> Tail {
        match planted!(LossInSilence, self.lost) {
            Some(to) => Tail::Lost { from: self.cursor.lsn, to },
            _ if self.clean => Tail::Clean,
            _ => Tail::Torn,
        }
    }
}

/// Walks the last segment and decides by the table at the top of this file.
pub(crate) fn judge<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    file: FileId,
    header: SegmentHeader,
    unstarted: &[Spare],
) -> Result<Judged> {
    let mut cursor = Cursor::start(header);
    let fault = walk(disk, window, file, &mut cursor)?;
    let end = cursor.lsn;
    let mut acknowledged = end;
    let contradicts = |batch: &BatchHeader| {
        acknowledged = acknowledged.max(batch.acknowledged);
        let contradicted = cursor.is_contradicted_by(batch);
        planted!(CryWolf(contradicted, batch.durable == end), contradicted)
    };
    let from = (&cursor.segment, cursor.offset);
    let witness = planted!(TakeDamageForTail, find_witness(disk, window, file, from, contradicts)?);
    if let Some(witness) = witness {
        let said = cursor.durable_claim(&witness);
        let what = match fault {
            Some(fault) => {
                format!("{fault}, but a later batch says that LSN {said} was durable")
            }
            None => format!("a later batch says that LSN {said} was durable"),
        };
        return Err(damage(header.number, cursor.offset, end, what));
    }
    let closed = cursor.last == Some(BatchKind::Close);
    let clean = planted!(MarkIsClose(closed, cursor.last == Some(BatchKind::Mark)), closed);
    // After a close mark the log continues in the same segment as long as there is room.
    let full = planted!(TrustCloseWithoutRoom, !has_room_to_resume(&cursor));
    if (!clean || full)
        && let Some(spare) = unstarted.iter().find(|spare| spare.number > header.number)
    {
        planted!(SkipUnstarted, check_unstarted(disk, window, *spare, &header)?);
    }
    Ok(Judged { cursor, clean, lost: (acknowledged > end).then_some(acknowledged) })
}

/// Whether an open mark, one batch and a close mark still fit after `cursor`.
pub(crate) fn has_room_to_resume(cursor: &Cursor) -> bool {
    cursor.offset.saturating_add(3 * u64::from(cursor.segment.block_bytes)) <= cursor.segment.data_end()
}

/// Refuses if `spare`, which has no valid header, holds a batch that was written for it.
fn check_unstarted<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    spare: Spare,
    like: &SegmentHeader,
) -> Result<()> {
    let header = SegmentHeader { number: spare.number, segment_bytes: spare.bytes, ..*like };
    let start = u64::from(header.block_bytes);
    *window = Window::new(window.read_bytes);
    let witness = in_segment(disk, spare.number, |disk, (_, file)| {
        find_witness(disk, window, file, (&header, start), |_| true)
    });
    match witness? {
        Some(batch) => Err(damage(spare.number, 0, batch.lsn, LOST_HEADER)),
        None => Ok(()),
    }
}

/// As [`check_unstarted`], for a directory without any valid header: the identity of the log and the size of its blocks
/// are therefore unknown.
pub(crate) fn check_orphans<D: Disk>(disk: &mut D, window: &mut Window, unstarted: &[Spare]) -> Result<()> {
    for spare in unstarted {
        *window = Window::new(window.read_bytes);
        let orphan = in_segment(disk, spare.number, |disk, place| find_orphan(disk, window, place, *spare));
        if let Some(batch) = orphan? {
            return Err(damage(spare.number, 0, batch.lsn, LOST_HEADER));
        }
    }
    Ok(())
}

fn find_orphan<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    place: (&str, FileId),
    spare: Spare,
) -> Result<Option<BatchHeader>> {
    // Every block starts at a multiple of the smallest one.
    let block = u64::from(BLOCK_SIZES[0]);
    let mut offset = block;
    while offset < spare.bytes.saturating_sub(block) {
        let bytes = window.get(disk, place, offset, BATCH_HEADER_BYTES)?;
        if let Ok((header, _)) = BatchHeader::decode(bytes)
            && header.segment == spare.number
            && header.offset == offset
        {
            return Ok(Some(header));
        }
        offset += block;
    }
    Ok(None)
}
