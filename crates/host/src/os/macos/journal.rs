//! macOS: reserves a file's blocks.

pub(crate) use crate::os::fallback::journal::{drop_cache, write_zeroes};

use crate::os::unix::check;
use seawall_sys::{Error, OpenError};
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
