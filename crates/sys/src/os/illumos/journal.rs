//! illumos: reserves, zeroes, evicts from the cache and maps out a file's blocks.

use crate::commit::OpenError;
use crate::error::{Error, Result};
use crate::journal::Layout;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `posix_fallocate`; ZFS refuses it, because it would promise space that copy-on-write cannot keep.
pub(crate) fn reserve(file: &File, path: &Path, bytes: u64) -> std::result::Result<(), OpenError> {
    // SAFETY: takes integers only; wrong ones are errors, not undefined behaviour.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes.cast_signed()) } {
        0 => Ok(()),
        libc::EINVAL | libc::EOPNOTSUPP => {
            Err(OpenError::unavailable("this file system cannot reserve blocks"))
        }
        errno => Err(OpenError::Failed(Error::new(
            "posix_fallocate",
            path,
            std::io::Error::from_raw_os_error(errno),
        ))),
    }
}

pub(crate) fn write_zeroes(_: &File, _: &Path, _: u64) -> std::result::Result<(), OpenError> {
    Err(OpenError::unavailable("FALLOC_FL_WRITE_ZEROES is Linux'"))
}

/// illumos has no call to drop a file's pages.
#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) fn drop_cache(_: &File, _: &Path) -> Result<()> {
    Ok(())
}

/// illumos does not tell unwritten extents apart.
#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) fn layout(_: &File, _: &Path) -> Result<Option<Layout>> {
    Ok(None)
}
