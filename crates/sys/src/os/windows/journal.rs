//! Windows: reserves, zeroes, evicts from the cache and maps out a file's blocks.
//!
//! NTFS keeps two lengths: the file's size, and the *valid data length*, up to which it has been written.
//! `SetEndOfFile` moves the first and gives the clusters; the second stays behind. Bytes past it read as zeros,
//! and a write past it makes NTFS fill the gap with zeros first: this is Windows' *unwritten* state, and a
//! journal written in order pays for it by a metadata change at each write.

use crate::commit::OpenError;
use crate::error::{Error, Result};
use crate::journal::Layout;
use std::fs::File;
use std::path::Path;

/// `SetEndOfFile`: the clusters are given, the valid data length stays behind.
pub(crate) fn reserve(file: &File, path: &Path, bytes: u64) -> std::result::Result<(), OpenError> {
    file.set_len(bytes).map_err(|error| Error::new("SetEndOfFile", path, error).into())
}

/// `SetFileValidData` would move the valid data length, but it shows what the disk held before and needs a
/// privilege for that reason; it zeroes nothing.
pub(crate) fn write_zeroes(_: &File, _: &Path, _: u64) -> std::result::Result<(), OpenError> {
    Err(OpenError::unavailable("FALLOC_FL_WRITE_ZEROES is Linux'"))
}

/// Windows documents no call that drops a file's pages; `NO_BUFFERING` rows go around them.
#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) fn drop_cache(_: &File, _: &Path) -> Result<()> {
    Ok(())
}

/// Windows does not tell the valid data length of a file to a program without privileges.
#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) fn layout(_: &File, _: &Path) -> Result<Option<Layout>> {
    Ok(None)
}
