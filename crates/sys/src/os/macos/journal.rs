//! macOS: reserves, zeroes, evicts from the cache and maps out a file's blocks.

use crate::commit::OpenError;
use crate::error::{Error, Result};
use crate::journal::Layout;
use crate::os::unix::check;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `F_PREALLOCATE` reserves, `ftruncate` gives the length; APFS reads the blocks as zeros.
pub(crate) fn reserve(file: &File, path: &Path, bytes: u64) -> std::result::Result<(), OpenError> {
    let mut store = libc::fstore_t {
        fst_flags: libc::F_ALLOCATEALL,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: bytes.cast_signed(),
        fst_bytesalloc: 0,
    };
    // SAFETY: the pointer is to a live structure of the type that the command wants.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &raw mut store) })
        .map_err(|error| Error::new("fcntl(F_PREALLOCATE)", path, error))?;
    file.set_len(bytes).map_err(|error| Error::new("ftruncate", path, error))?;
    Ok(())
}

pub(crate) fn write_zeroes(_: &File, _: &Path, _: u64) -> std::result::Result<(), OpenError> {
    Err(OpenError::unavailable("FALLOC_FL_WRITE_ZEROES is Linux'"))
}

/// macOS has no call to drop a file's pages; `F_NOCACHE` rows go around them.
#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) fn drop_cache(_: &File, _: &Path) -> Result<()> {
    Ok(())
}

/// macOS does not tell unwritten extents apart.
#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) fn layout(_: &File, _: &Path) -> Result<Option<Layout>> {
    Ok(None)
}
