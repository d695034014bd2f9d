//! Linux: runs the mapped row by copying into a shared mapping and calling msync(2) on that range.
//!
//! Invariants: the mapping covers exactly `journal_bytes`, and the file is at least that long when it is
//! made; no reference into the mapping is ever formed, only raw copies, because other processes may write it.

use crate::Commit;
use crate::commit::{OpenError, Target, uninterrupted};
use crate::error::{Error, Result};
use crate::os::unix::check;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr::NonNull;

const PAGE: u64 = 4096;

pub(super) struct Map {
    base: NonNull<u8>,
    bytes: usize,
    path: PathBuf,
    last: Range<u64>,
}

// SAFETY: the mapping belongs to this value alone and is used through `&mut self` only.
unsafe impl Send for Map {}

pub(super) fn open(file: &File, target: &Target) -> std::result::Result<Map, OpenError> {
    let path = target.path.clone();
    let length = file.metadata().map_err(|error| Error::new("fstat", &path, error))?.len();
    if length < target.journal_bytes {
        return Err(OpenError::unavailable(
            "a mapping cannot extend the file: the journal must be preallocated",
        ));
    }
    let Ok(bytes) = usize::try_from(target.journal_bytes) else {
        return Err(OpenError::unavailable("the journal does not fit into the address space"));
    };
    // SAFETY: a new shared mapping at an address of the kernel's choice, of an open file that is long enough.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(Error::last_os("mmap", &path).into());
    }
    let base = NonNull::new(base.cast()).ok_or_else(|| Error::last_os("mmap", &path))?;
    Ok(Map { base, bytes, path, last: 0..0 })
}

impl Map {
    /// The address and length of the whole pages around `range`, clipped to the mapping.
    fn pages(&self, range: &Range<u64>) -> Option<(*mut libc::c_void, usize)> {
        let start = usize::try_from(range.start / PAGE * PAGE).ok()?;
        let end = usize::try_from(range.end).ok()?.min(self.bytes);
        let bytes = end.checked_sub(start)?;
        // `start` is below `bytes` of the mapping, so the address stays inside.
        Some((self.base.as_ptr().wrapping_add(start).cast(), bytes))
    }

    fn outside(&self, operation: &'static str) -> Error {
        let cause = io::Error::new(io::ErrorKind::InvalidInput, "the range lies outside the mapping");
        Error::new(operation, &self.path, cause)
    }
}

impl Commit for Map {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let start = usize::try_from(offset).map_err(|_| self.outside("copy"))?;
        let end = start.checked_add(bytes.len()).filter(|end| *end <= self.bytes);
        let Some(_) = end else { return Err(self.outside("copy")) };
        let target = self.base.as_ptr().wrapping_add(start);
        // SAFETY: `start + len` was checked to lie inside the mapping, and a private slice cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        self.last = offset..offset + bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let (address, bytes) = self.pages(&self.last).ok_or_else(|| self.outside("msync"))?;
        uninterrupted("msync", &self.path, || {
            // SAFETY: the pages lie inside the mapping that this value owns.
            check(unsafe { libc::msync(address, bytes, libc::MS_SYNC) })
        })
    }

    fn warm(&mut self, range: Range<u64>) -> Result<()> {
        let (address, bytes) = self.pages(&range).ok_or_else(|| self.outside("madvise"))?;
        if bytes == 0 {
            return Ok(());
        }
        uninterrupted("madvise", &self.path, || {
            // SAFETY: the pages lie inside the mapping that this value owns; populating them changes no byte.
            check(unsafe { libc::madvise(address, bytes, libc::MADV_POPULATE_READ) })
        })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open` with this length, and nothing refers to it any more.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
