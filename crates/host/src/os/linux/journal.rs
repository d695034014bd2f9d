//! Linux: reserves and zeroes a file's blocks, and evicts it from the cache.

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::io::{Errno, retry_on_intr};
use seawall_sys::{Error, OpenError, Result};
use std::fs::File;
use std::path::Path;

/// `FALLOC_FL_WRITE_ZEROES` of `linux/falloc.h`, Linux 6.17.
const WRITE_ZEROES: FallocateFlags = FallocateFlags::from_bits_retain(0x80);

/// Reserves blocks that read as zeros and are marked unwritten: fallocate(2) with mode 0.
pub(crate) fn reserve(file: &File, path: &Path, bytes: u64) -> std::result::Result<(), OpenError> {
    allocate(file, path, FallocateFlags::empty(), bytes, "this file system cannot reserve blocks (fallocate)")
}

pub(crate) fn write_zeroes(file: &File, path: &Path, bytes: u64) -> std::result::Result<(), OpenError> {
    let reason = "FALLOC_FL_WRITE_ZEROES needs Linux 6.17, a file system with it, and a device that zeroes blocks itself";
    allocate(file, path, WRITE_ZEROES, bytes, reason)
}

fn allocate(
    file: &File,
    path: &Path,
    mode: FallocateFlags,
    bytes: u64,
    lacking: &str,
) -> std::result::Result<(), OpenError> {
    retry_on_intr(|| fallocate(file, mode, 0, bytes)).map_err(|error| match error {
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL => OpenError::unavailable(lacking),
        _ => OpenError::Failed(Error::new("fallocate", path, error.into())),
    })
}

pub(crate) fn drop_cache(file: &File, path: &Path) -> Result<()> {
    fadvise(file, 0, None, Advice::DontNeed).map_err(|error| Error::new("posix_fadvise", path, error.into()))
}
