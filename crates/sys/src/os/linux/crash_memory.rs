//! Linux: maps a file of the log by mmap(2), shared, so that the page cache keeps it when the process is gone.
//!
//! Invariants: the file is filled through write(2) before it is mapped, so that a full disk is an error and not a signal;
//! the mapping is not inherited by fork(2).

use super::store::{reserve, write_in_place};
use crate::commit::{OpenError, again};
use crate::crash_memory::WORD_BYTES;
use crate::directory::{Create, Directory, OpenHow, Permissions};
use crate::error::Error;
use crate::fork::Home;
use std::fs::File;
use std::io::{self, Write as _};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Written at a time, bytes.
const FILL_BYTES: usize = 1 << 20;

/// A file, mapped as memory that outlives its process.
#[derive(Debug)]
pub struct CrashMapping {
    base: NonNull<u8>,
    bytes: usize,
    home: Home,
}

// SAFETY: the mapping belongs to this value alone and is changed through `&mut self` only.
unsafe impl Send for CrashMapping {}

impl CrashMapping {
    /// Makes the file `name`, which must not be there, of `bytes` zeros and maps it. On an error it is removed again.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] where this system or file system has no such memory or no room for it.
    pub fn make_in(
        directory: &Directory,
        name: &str,
        permissions: Permissions,
        bytes: usize,
    ) -> Result<Self, OpenError> {
        let path = directory.path().join(name);
        let failed = |operation| {
            let path = path.clone();
            move |error| OpenError::Failed(Error::new(operation, path, error))
        };
        let how = OpenHow { write: true, create: Create::New(permissions), flags: 0 };
        let file = directory.open_with(name, how).map_err(failed("create"))?;
        let made = Self::fill(&file, bytes).and_then(|()| Self::map(&file, bytes));
        made.map_err(|error| {
            // Nobody knows of it yet.
            let _ = directory.remove(name);
            match error.raw_os_error() {
                Some(libc::ENODEV | libc::EOPNOTSUPP) => {
                    OpenError::unavailable(format!("this file system maps no files: {error}"))
                }
                Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::ENOMEM) => {
                    OpenError::unavailable(format!("there is no room for {bytes} bytes: {error}"))
                }
                _ => failed("map")(error),
            }
        })
    }

    /// Maps the file `name`; `None` if it is not there. An empty one, whose maker ended before it had filled it, is removed: it would
    /// be in the way of the next one.
    ///
    /// # Errors
    /// The system's, and `Unsupported` where it has no such memory.
    pub fn open_in(directory: &Directory, name: &str) -> io::Result<Option<Self>> {
        let file = match directory.open_with(name, OpenHow { write: true, create: Create::No, flags: 0 }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let bytes = usize::try_from(again(|| file.metadata())?.len()).unwrap_or(usize::MAX);
        if bytes > 0 {
            return Self::map(&file, bytes).map(Some);
        }
        directory.remove(name).map(|()| None)
    }

    fn fill(mut file: &File, bytes: usize) -> io::Result<()> {
        write_in_place(file);
        reserve(file, bytes as u64)?;
        let zeros = vec![0; FILL_BYTES.min(bytes)];
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(zeros.len());
            file.write_all(&zeros[..piece])?;
            left -= piece;
        }
        Ok(())
    }

    fn map(file: &File, bytes: usize) -> io::Result<Self> {
        let base = super::shared_memory::map(file, bytes, true)?;
        let mapping = Self { base, bytes, home: Home::here() };
        mapping.advise(libc::MADV_DONTFORK)?;
        // Otherwise the first store into each page takes a page fault. Kernels before 5.14 do not know it.
        let _ = mapping.advise(libc::MADV_POPULATE_WRITE);
        Ok(mapping)
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: all of the mapping; neither advice changes a byte of it.
        crate::os::unix::check(unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, advice) })
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of `bytes` bytes at `at`.
    #[inline]
    fn at(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at <= self.bytes && bytes <= self.bytes - at, "{bytes} bytes at {at} of {}", self.bytes);
        self.base.as_ptr().wrapping_add(at)
    }

    /// Stores `bytes` at `at`.
    ///
    /// # Panics
    /// If they do not lie inside.
    #[inline]
    pub fn store(&mut self, at: usize, bytes: &[u8]) {
        let target = self.at(at, bytes.len());
        // SAFETY: the target lies inside the mapping, and a slice of this process cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    }

    /// Stores one word, after everything that this thread stored before: what finds the word finds that as well.
    ///
    /// # Panics
    /// If it does not lie inside or is not aligned.
    #[inline]
    pub fn publish(&mut self, at: usize, word: u64) {
        let target = self.at(at, WORD_BYTES);
        assert!(at.is_multiple_of(WORD_BYTES), "a word at {at} could be torn");
        // SAFETY: inside the mapping, which starts at a page, and aligned; this process uses it through `&mut self` only.
        let target = unsafe { AtomicU64::from_ptr(target.cast()) };
        target.store(word.to_le(), Ordering::Release);
    }

    /// Has the processor fetch `bytes` bytes at `at`, which are about to be stored, while other work goes on.
    #[inline]
    pub fn about_to_store(&self, at: usize, bytes: usize) {
        // A hint, wherever that is.
        crate::os::buffer::about_to_write(self.base.as_ptr().wrapping_add(at), bytes);
    }

    /// Copies what lies at `at`.
    ///
    /// # Panics
    /// If it does not lie inside.
    pub fn load(&self, at: usize, into: &mut [u8]) {
        let source = self.at(at, into.len());
        // SAFETY: the source lies inside the mapping, and a slice of this process cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(source, into.as_mut_ptr(), into.len()) };
    }
}

impl Drop for CrashMapping {
    fn drop(&mut self) {
        // In a process that was forked off something else may lie at these addresses.
        if self.home.is_here() {
            // SAFETY: the mapping was made by `map` with this length, and nothing refers to it any more.
            let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
        }
    }
}
