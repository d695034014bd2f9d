//! Runs the mapped rows: copies into a shared mapping of the journal and syncs the pages of the copies since the last sync.
//!
//! Invariants: the mapping covers exactly `journal_bytes`, and the file is at least that long when it is made; no
//! reference into the mapping is ever formed, only raw copies, because other processes may write it. An I/O error behind
//! a page ends the process: with `SIGBUS` on Unix, with an in-page exception on Windows.

use crate::CommitHandle;
use crate::commit::{OpenError, Target, again, extend};
use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;

const PAGE: u64 = 4096;

/// The calls of a system on a mapping of a file. The addresses that they get are those of pages inside it.
pub(super) trait Calls: Send + Sized {
    /// What the first call of [`Calls::sync`] is named in errors.
    const SYNC: &'static str;
    /// What the call of [`Calls::warm`] is named in errors.
    const WARM: &'static str;

    /// Maps the first `bytes` bytes of the file at `path`, which is at least as long.
    fn map(file: File, path: &Path, bytes: usize) -> Result<(NonNull<u8>, Self)>;

    /// Makes the pages durable.
    fn sync(&self, path: &Path, address: *mut u8, bytes: usize) -> Result<()>;

    /// Brings the pages, of which there is at least one, into memory.
    fn warm(&self, path: &Path, address: *mut u8, bytes: usize) -> Result<()>;

    /// Takes the mapping away, to which nothing refers any more.
    fn unmap(&self, base: NonNull<u8>, bytes: usize);
}

pub(super) struct Map<C: Calls> {
    base: NonNull<u8>,
    bytes: usize,
    path: std::path::PathBuf,
    /// From the first to the last byte that was copied since the last sync.
    unsynced: Range<u64>,
    calls: C,
}

// SAFETY: the mapping belongs to this value alone and is used through `&mut self` only.
unsafe impl<C: Calls> Send for Map<C> {}

impl<C: Calls> Map<C> {
    /// Maps `file`, which is that of `target`.
    pub(super) fn open(file: File, target: &Target) -> std::result::Result<Self, OpenError> {
        let path = target.path.clone();
        let length = again(|| file.metadata()).map_err(|error| Error::new("stat", &path, error))?.len();
        if length < target.journal_bytes {
            return Err(OpenError::unavailable(
                "a mapping cannot extend the file: the journal must be preallocated",
            ));
        }
        let Ok(bytes) = usize::try_from(target.journal_bytes) else {
            return Err(OpenError::unavailable("the journal does not fit into the address space"));
        };
        let (base, calls) = C::map(file, &path, bytes)?;
        Ok(Self { base, bytes, path, unsynced: 0..0, calls })
    }

    /// The address and length of the whole pages around `range`, clipped to the mapping.
    fn pages(&self, range: &Range<u64>, operation: &'static str) -> Result<(*mut u8, usize)> {
        let pages = || {
            let start = usize::try_from(range.start / PAGE * PAGE).ok()?;
            let end = usize::try_from(range.end).ok()?.min(self.bytes);
            let bytes = end.checked_sub(start)?;
            // `start` is below `bytes` of the mapping, so the address stays inside.
            Some((self.base.as_ptr().wrapping_add(start), bytes))
        };
        pages().ok_or_else(|| self.outside(operation))
    }

    fn outside(&self, operation: &'static str) -> Error {
        let cause = io::Error::new(io::ErrorKind::InvalidInput, "the range lies outside the mapping");
        Error::new(operation, &self.path, cause)
    }
}

impl<C: Calls> CommitHandle for Map<C> {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let start = usize::try_from(offset).map_err(|_| self.outside("copy"))?;
        let end = start.checked_add(bytes.len()).filter(|end| *end <= self.bytes);
        let Some(_) = end else { return Err(self.outside("copy")) };
        let target = self.base.as_ptr().wrapping_add(start);
        // SAFETY: `start + len` was checked to lie inside the mapping, and a private slice cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        extend(&mut self.unsynced, offset..offset + bytes.len() as u64);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let unsynced = std::mem::take(&mut self.unsynced);
        let (address, bytes) = self.pages(&unsynced, C::SYNC)?;
        self.calls.sync(&self.path, address, bytes)
    }

    fn warm(&mut self, range: Range<u64>) -> Result<()> {
        let (address, bytes) = self.pages(&range, C::WARM)?;
        if bytes == 0 { Ok(()) } else { self.calls.warm(&self.path, address, bytes) }
    }
}

impl<C: Calls> Drop for Map<C> {
    fn drop(&mut self) {
        self.calls.unmap(self.base, self.bytes);
    }
}
