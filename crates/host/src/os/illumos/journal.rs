//! illumos: reserves a file's blocks.

pub(crate) use crate::os::fallback::journal::{drop_cache, write_zeroes};

use seawall_sys::{Error, OpenError};
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
