//! The log's access to its directory apart from commits: uncached reads, space reservation, directory syncs.
//!
//! Acknowledged records are written by the commit methods of the table; this file holds the log's other system calls.
//!
//! Invariants: every error names call and path; a directory is durable only after [`sync_directory`] (a no-op on
//! systems that journal names themselves and offer no sync of them, which `os/*/store.rs` documents).

use crate::commit::{self, again};
use crate::directory::{Create, Directory, OpenHow, Permissions};
use crate::durability::FileState;
use crate::error::{Error, Result};
use crate::os::store;
use crate::planted;
use crate::residency;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What is read at once to fill holes, in bytes.
const FILL_BYTES: usize = 64 << 10;
/// No file has a hole that is smaller.
const SECTOR_BYTES: usize = 512;

/// Whether a [`StoreFile`] goes through the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Through the page cache.
    Cached,
    /// Around it where the file system can, which [`StoreFile::reads_past_cache`] says; addresses, offsets and lengths
    /// must be multiples of its block.
    Direct,
}

/// A file that is read and written at positions, by any number of threads.
#[derive(Debug)]
pub struct StoreFile {
    file: File,
    path: PathBuf,
    past_cache: bool,
}

impl StoreFile {
    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// The failed call and the path.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        Self::with(OpenOptions::new().read(true).write(true), path, access)
    }

    /// Opens an existing file for reading only.
    ///
    /// # Errors
    /// The failed call and the path.
    pub fn open_read_only(path: &Path, access: Access) -> Result<Self> {
        Self::with(OpenOptions::new().read(true), path, access)
    }

    /// As [`StoreFile::open`], by a name in a directory that is held. Must be a regular file.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_in(directory: &Directory, name: &str, access: Access) -> io::Result<Self> {
        Self::open_how(directory, name, OpenHow { write: true, create: Create::No, flags: 0 }, access)
    }

    /// As [`StoreFile::open_read_only`], by a name in a directory that is held. Must be a regular file.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_read_only_in(directory: &Directory, name: &str, access: Access) -> io::Result<Self> {
        Self::open_how(directory, name, OpenHow { write: false, create: Create::No, flags: 0 }, access)
    }

    /// Creates a file, which must not exist, by its name in a directory that is held.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken, and the system's other errors.
    pub fn create_in(
        directory: &Directory,
        name: &str,
        access: Access,
        permissions: Permissions,
    ) -> io::Result<Self> {
        let how = OpenHow { write: true, create: Create::New(permissions), flags: 0 };
        let created = Self::open_how(directory, name, how, access)?;
        store::write_in_place(&created.file);
        Ok(created)
    }

    fn open_how(directory: &Directory, name: &str, how: OpenHow, access: Access) -> io::Result<Self> {
        let (file, past_cache) = match access {
            Access::Cached => (directory.open_with(name, how)?, false),
            Access::Direct => store::open_direct_in(directory, name, how)?,
        };
        Ok(Self { file, path: directory.path().join(name), past_cache })
    }

    fn with(options: &OpenOptions, path: &Path, access: Access) -> Result<Self> {
        let file = match access {
            Access::Cached => options.open(path).map(|file| (file, false)),
            Access::Direct => store::open_direct(options, path),
        };
        let (file, past_cache) = file.map_err(|error| Error::new("open", path, error))?;
        Ok(Self { file, path: path.to_path_buf(), past_cache })
    }

    /// Reads at `offset` (bytes) into `buf`; returns the bytes read, 0 at the end of the file.
    ///
    /// # Errors
    /// The system's error.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        store::read_at(&self.file, offset, buf)
    }

    /// Whether reads go around the page cache.
    #[must_use]
    pub fn reads_past_cache(&self) -> bool {
        self.past_cache
    }

    /// Drops the clean cached pages of the file, where the system takes such advice (Linux). After a failed write-back
    /// they show what the disk never got, and btrfs has been seen to answer direct reads from them.
    pub fn forget_cached(&self) {
        store::forget_cached(&self.file);
    }

    /// Bytes of the `length` bytes from byte `offset` on that are in the page cache, in whole pages; `None` where the
    /// system does not report it.
    ///
    /// # Errors
    /// The failed call and the path.
    pub fn cached_bytes(&self, offset: u64, length: u64) -> Result<Option<u64>> {
        residency::cached_bytes_of(&self.file, &self.path, offset, length)
    }

    /// Turns read-ahead of the file off, where the system takes such advice (Linux).
    pub fn read_no_more(&self) {
        store::read_no_more(&self.file);
    }

    /// Writes `buf` at `offset` (bytes); returns the bytes written, which may be fewer.
    ///
    /// # Errors
    /// The system's error.
    pub fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        store::write_at(&self.file, offset, buf)
    }

    /// Makes everything written to the file durable, by the call that reaches the medium on this system.
    ///
    /// # Errors
    /// The system's error. A second call that succeeds proves nothing.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Reserves blocks for the first `bytes` bytes, where the system can; elsewhere nothing happens and a full disk
    /// shows when the file is filled.
    ///
    /// # Errors
    /// `StorageFull` and the system's other errors.
    pub fn reserve(&self, bytes: u64) -> io::Result<()> {
        store::reserve(&self.file, bytes)
    }

    /// Has every block of these bytes be written, so that later writes there change no metadata: programs that copy files leave
    /// blocks out that read as zeros, or reserve them only. Writes zeros over zeros, and what it wrote is durable. Returns the bytes
    /// that it wrote: none where the file system does not report what is written (see [`crate::layout::Layout`]).
    ///
    /// # Errors
    /// `StorageFull` and the system's other errors.
    pub fn fill_holes(&self, bytes: Range<u64>) -> Result<u64> {
        let failed = |operation| move |error| Error::new(operation, &self.path, error);
        let is_written = || {
            let layout = crate::layout::layout(&self.file, &self.path)?;
            Ok(layout.is_none_or(|layout| layout.agrees_with(FileState::ZeroFilled, bytes.end)))
        };
        if is_written()? {
            return Ok(0);
        }
        // What was just written may have no place on the device yet.
        self.sync().map_err(failed("fsync"))?;
        if planted!(HolesBelieved, is_written()?) {
            return Ok(0);
        }
        let (mut at, mut filled) = (bytes.start, 0);
        let mut piece = vec![0; FILL_BYTES];
        while at < bytes.end {
            let most = usize::try_from(bytes.end - at).unwrap_or(FILL_BYTES).min(FILL_BYTES);
            let read = again(|| self.read_at(at, &mut piece[..most])).map_err(failed("read"))?;
            if read == 0 {
                break;
            }
            let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
            let step = if is_zero(&piece[..read]) { read } else { SECTOR_BYTES };
            for part in piece[..read].chunks(step) {
                if is_zero(part) {
                    commit::write_all("write", &self.path, at, part, |at, bytes| self.write_at(at, bytes))?;
                    filled += part.len() as u64;
                }
                at += part.len() as u64;
            }
        }
        self.sync().map_err(failed("fsync"))?;
        Ok(filled)
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes the names in `directory` durable.
///
/// # Errors
/// The failed call and the path.
pub fn sync_directory(directory: &Path) -> Result<()> {
    store::sync_directory(directory).map_err(|error| Error::new("sync", directory, error))
}
