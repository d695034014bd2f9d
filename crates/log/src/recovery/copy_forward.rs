//! Copies the newest segment at recovery where no read bypasses the page cache, so that only synced data is served.
//!
//! After a failed write-back the cache shows batches that the disk never got, and a sync of that file succeeds
//! without writing them. A read cannot distinguish them from others, and rewriting them in place would endanger the
//! acknowledged batches next to them. So the segment that may hold such batches is copied into a new file:
//!
//! ```text
//! remove stale n.new -> create n.new -> reserve -> copy -> sync -> rename to n.seg -> sync dir
//! ```
//!
//! One segment is enough: a segment is started only when everything before it is durable, so only the newest started
//! one can differ from what the cache shows.
//!
//! Invariants: the segment itself is never written to; whenever the power goes, the name stands for the old file or for
//! a copy that is whole and synced; a copy whose sync failed is never used; what is judged afterwards is read from the
//! copy, because the cache may drop what it showed at any time.

use crate::error::{Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::{SegmentHeader, preparing_name, segment_name};
use crate::storage::disk::{
    Access, Disk, FileId, has_name, open, read_full, remove, sync, sync_dir, write_all,
};
use seawall_sys::planted;

/// Copies the newest started segment unless the disk is read past the page cache; whether it did.
pub(crate) fn copy_forward<D: Disk>(
    disk: &mut D,
    newest: &SegmentHeader,
    buffer_bytes: usize,
) -> Result<bool> {
    let name = segment_name(newest.number);
    let old = open(disk, &name, Access::Direct)?;
    if planted!(TrustCache, disk.reads_past_cache(old)) {
        disk.close(old);
        return Ok(false);
    }
    let staging = preparing_name(newest.number);
    let copied = copy(disk, (&name, old), &staging, newest.segment_bytes, buffer_bytes);
    // Some systems do not rename over a file that is open.
    disk.close(old);
    copied?;
    disk.replace(&staging, &name).map_err(|source| Error::io("rename", &staging, source))?;
    sync_dir(disk)?;
    Ok(true)
}

/// Makes the staging file: everything of the old file, synced.
fn copy<D: Disk>(
    disk: &mut D,
    (name, old): (&str, FileId),
    staging: &str,
    bytes: u64,
    buffer_bytes: usize,
) -> Result<()> {
    if has_name(disk, staging)? {
        remove(disk, staging)?;
    }
    let new = disk.create(staging).map_err(|source| Error::io("create", staging, source))?;
    let filled = fill(disk, (name, old), (staging, new), bytes, buffer_bytes);
    disk.close(new);
    filled
}

fn fill<D: Disk>(
    disk: &mut D,
    (name, old): (&str, FileId),
    (staging, new): (&str, FileId),
    bytes: u64,
    buffer_bytes: usize,
) -> Result<()> {
    disk.allocate(new, bytes).map_err(|source| Error::io("reserve space for", staging, source))?;
    let mut buffer = AlignedBuf::zeroed(buffer_bytes);
    let mut at = 0;
    while at < bytes {
        let wanted = usize::try_from(bytes - at).unwrap_or(usize::MAX).min(buffer_bytes);
        let chunk = &mut buffer.bytes_mut()[..wanted];
        let read = read_full(disk, name, old, at, chunk)?;
        if read == 0 {
            return Err(Error::io("read", name, std::io::ErrorKind::UnexpectedEof.into()));
        }
        write_all(disk, staging, (new, at), &chunk[..read], false)?;
        at += read as u64;
    }
    planted!(CopyWithoutSync, sync(disk, staging, new))
}
