//! Stores the trims and cuts of streams for which a log at its cap has no block, in the file `TRIMS`.
//!
//! ```text
//!   magic 4 | checksum 4 | log id 16 | LSN 8 | count 4 | 0 4 | tag 12 | tag 12 | …     zeros up to a whole block
//! ```
//!
//! They hold at that LSN, before every record after it: an opening applies them when it comes there. So a file that
//! is older than what was stated after it changes nothing; one that names an LSN which the log does not reach, or
//! has trimmed, is of no use and removed.
//!
//! Invariants: everything before the LSN was committed before the file was made; the file is whole, by a rename, so one that does
//! not read as such is damaged.

use crate::error::{Damage, Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::checksum::crc32c;
use crate::format::{LogId, TAG_BYTES, Tag};
use crate::lsn::Lsn;
use crate::recovery::directory::{READ_BLOCK_BYTES, open_cold};
use crate::storage::disk::{Disk, has_name, read_full, remove, sync, sync_dir, write_all};
use crate::stream::state::HeldTrims;
use seawall_sys::planted;

pub(crate) const HELD_FILE: &str = "TRIMS";
/// Its name while it is written.
pub(crate) const HELD_STAGING: &str = "TRIMS.new";

const MAGIC: [u8; 4] = *b"SWT1";
const HEAD_BYTES: usize = 40;

/// Puts `held` in the place of what the file held before.
pub(crate) fn write<D: Disk>(disk: &mut D, log_id: LogId, held: &HeldTrims) -> Result<()> {
    if has_name(disk, HELD_STAGING)? {
        remove(disk, HELD_STAGING)?;
    }
    let file = disk.create(HELD_STAGING).map_err(|source| Error::io("create", HELD_STAGING, source))?;
    let bytes = encode(log_id, held);
    let written = write_all(disk, HELD_STAGING, (file, 0), bytes.bytes(), false)
        .and_then(|()| sync(disk, HELD_STAGING, file));
    disk.close(file);
    written?;
    let named = disk.replace(HELD_STAGING, HELD_FILE);
    named.map_err(|source| Error::io("rename", HELD_STAGING, source))?;
    sync_dir(disk)
}

/// What the file holds of this log, if there is one.
pub(crate) fn read<D: Disk>(disk: &mut D, log_id: LogId) -> Result<Option<HeldTrims>> {
    let entries = disk.list().map_err(|source| Error::io("list", ".", source))?;
    let Some(entry) = entries.into_iter().find(|entry| entry.name == HELD_FILE) else { return Ok(None) };
    let file = open_cold(disk, HELD_FILE)?;
    let bytes = usize::try_from(entry.bytes).unwrap_or(usize::MAX).next_multiple_of(READ_BLOCK_BYTES);
    let read = AlignedBuf::try_zeroed(bytes)
        .map_err(|source| Error::io("read", HELD_FILE, source))
        .and_then(|mut buf| read_full(disk, HELD_FILE, file, 0, buf.bytes_mut()).map(|_| buf));
    disk.close(file);
    let Some((of, held)) = decode(read?.bytes()) else {
        let what = "the postponed trims of streams at the cap cannot be read: move the file away to open the log without them";
        return Err(Error::Corrupt(Damage {
            path: HELD_FILE.into(),
            offset: 0,
            lsn: Lsn::ZERO,
            what: what.into(),
        }));
    };
    Ok(planted!(HeldTrimsForgotten, Some(held)).filter(|_| of == log_id))
}

/// Removes what an earlier writer left, unless the log still holds it back.
pub(crate) fn tidy<D: Disk>(disk: &mut D, holds: bool) -> Result<()> {
    for (name, keep) in [(HELD_STAGING, false), (HELD_FILE, holds)] {
        if !keep && has_name(disk, name)? {
            remove(disk, name)?;
            sync_dir(disk)?;
        }
    }
    Ok(())
}

fn encode(log_id: LogId, held: &HeldTrims) -> AlignedBuf {
    let used = HEAD_BYTES + held.tags.len() * TAG_BYTES;
    let mut buf = AlignedBuf::zeroed(used.next_multiple_of(READ_BLOCK_BYTES));
    let bytes = buf.bytes_mut();
    bytes[8..24].copy_from_slice(&log_id.0);
    bytes[24..32].copy_from_slice(&held.at.get().to_le_bytes());
    bytes[32..36].copy_from_slice(&u32::try_from(held.tags.len()).unwrap_or(u32::MAX).to_le_bytes());
    for (tag, into) in held.tags.iter().zip(bytes[HEAD_BYTES..].chunks_mut(TAG_BYTES)) {
        into.copy_from_slice(&tag.encode());
    }
    let sum = crc32c(&bytes[8..]);
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    buf
}

fn decode(bytes: &[u8]) -> Option<(LogId, HeldTrims)> {
    let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
    let sum = u32::from_le_bytes(head[4..8].try_into().ok()?);
    if head[..4] != MAGIC || sum != crc32c(&bytes[8..]) {
        return None;
    }
    let count = u32::from_le_bytes(head[32..36].try_into().ok()?) as usize;
    let (tags, _) = bytes[HEAD_BYTES..].as_chunks::<TAG_BYTES>();
    let tags: Vec<Tag> = tags.get(..count)?.iter().map(|tag| Tag::decode(*tag)).collect::<Option<_>>()?;
    let at = Lsn::new(u64::from_le_bytes(head[24..32].try_into().ok()?));
    Some((LogId(head[8..24].try_into().ok()?), HeldTrims { at, tags }))
}
