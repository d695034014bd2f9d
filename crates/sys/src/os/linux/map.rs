//! Linux: maps a file by mmap(2), syncs its pages by msync(2) and populates them by madvise(2).

use crate::commit::uninterrupted;
use crate::error::{Error, Result};
use crate::os::mapping::Calls;
use crate::os::unix::check;
use std::fs::File;
use std::path::Path;
use std::ptr::NonNull;

/// The mapping keeps the file open by itself.
pub(super) struct Shared;

impl Calls for Shared {
    const SYNC: &'static str = "msync";
    const WARM: &'static str = "madvise";

    fn map(file: File, path: &Path, bytes: usize) -> Result<(NonNull<u8>, Self)> {
        let mapped = super::shared_memory::map(&file, bytes, true);
        Ok((mapped.map_err(|error| Error::new("mmap", path, error))?, Self))
    }

    fn sync(&self, path: &Path, address: *mut u8, bytes: usize) -> Result<()> {
        uninterrupted(Self::SYNC, path, || {
            // SAFETY: the pages lie inside the mapping.
            check(unsafe { libc::msync(address.cast(), bytes, libc::MS_SYNC) })
        })
    }

    fn warm(&self, path: &Path, address: *mut u8, bytes: usize) -> Result<()> {
        uninterrupted(Self::WARM, path, || {
            // SAFETY: the pages lie inside the mapping; populating them changes no byte.
            check(unsafe { libc::madvise(address.cast(), bytes, libc::MADV_POPULATE_READ) })
        })
    }

    fn unmap(&self, base: NonNull<u8>, bytes: usize) {
        // SAFETY: the mapping was made by `map` with this length, and nothing refers to it any more.
        let _ = unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
    }
}
