//! Refuses foreign files that have the name of a segment; they are never touched.
//!
//! ```text
//! prepared anew    zeros
//! recycled         starts with the header of the segment that it was, or ends with that header's copy
//! being started    as above, and a part of what was written last
//! ```
//!
//! So a segment that waits to be started starts or ends with zeros, or holds a valid header of any segment, or the start
//! of a batch after it; any other file is foreign. One end is enough, so that a single rotten block keeps no log from
//! opening. A file of zeros is taken for a prepared segment.

use crate::error::{Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::{BATCH_MAGIC, BLOCK_SIZES, SEGMENT_HEADER_BYTES, SegmentHeader, segment_name};
use crate::recovery::directory::READ_BLOCK_BYTES;
use crate::segment::Spare;
use crate::storage::disk::{Access, Disk, FileId, open, read_full};

/// Refuses the first foreign file among these, which hold no header of their own.
pub(crate) fn refuse_foreign<D: Disk>(disk: &mut D, unstarted: &[Spare]) -> Result<()> {
    for spare in unstarted {
        let name = segment_name(spare.number);
        let file = open(disk, &name, Access::Direct)?;
        let ours = is_ours(disk, &name, file, spare.bytes);
        disk.close(file);
        if !ours? {
            return Err(Error::ForeignFile { path: name.into() });
        }
    }
    Ok(())
}

fn is_ours<D: Disk>(disk: &mut D, name: &str, file: FileId, file_bytes: u64) -> Result<bool> {
    let mut blocks = AlignedBuf::zeroed(2 * READ_BLOCK_BYTES);
    let filled = read_full(disk, name, file, 0, blocks.bytes_mut())?;
    let front = &blocks.bytes()[..filled];
    let first = &front[..filled.min(READ_BLOCK_BYTES)];
    // After the header lies the first batch. Whether a segment that lost its header was started is decided elsewhere.
    let has_batch =
        |block: &u16| front.get(usize::from(*block)..).is_some_and(|rest| rest.starts_with(&BATCH_MAGIC));
    if first.iter().all(|byte| *byte == 0) || is_header(first, 0, 0) || BLOCK_SIZES.iter().any(has_batch) {
        return Ok(true);
    }
    // Of the smallest block the last one, which may be cut short by the end of the file.
    let end = file_bytes.saturating_sub(READ_BLOCK_BYTES as u64);
    let start = end - end % READ_BLOCK_BYTES as u64;
    let filled = read_full(disk, name, file, start, blocks.bytes_mut())?;
    let last = &blocks.bytes()[..filled];
    let place = |block: &u16| usize::try_from((file_bytes - start).checked_sub(u64::from(*block))?).ok();
    let found = |at: usize| is_header(last, at, 1);
    Ok(last.iter().all(|byte| *byte == 0) || BLOCK_SIZES.iter().filter_map(place).any(found))
}

/// Whether copy `copy` of a segment header, of whatever segment, starts at `at` in `bytes`.
fn is_header(bytes: &[u8], at: usize, copy: u32) -> bool {
    let header = bytes.get(at..).map(|rest| &rest[..rest.len().min(SEGMENT_HEADER_BYTES)]);
    header.is_some_and(|header| SegmentHeader::decode_unplaced(header, copy).is_ok())
}
