//! Defines [`Disk`], the storage interface of recovery and segment housekeeping.
//!
//! A disk is one directory of files. Writes and syncs are submitted and complete later, in any order; a sync covers
//! only the writes whose completion was reaped before it was submitted. Every other operation is complete when it
//! returns, which does not make it durable: names are durable after [`Disk::sync_dir`]. The trait is used as a
//! generic parameter only, so it costs nothing in production, and the same recovery and housekeeping code runs on the
//! simulated disk.

use std::io;

use crate::error::{Error, Result};
pub use seawall_sys::store::Access;

/// An open file of a [`Disk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A submitted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// What can be submitted.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// Write `buf` at `offset`; with `dsync` it is durable on completion, if it completed in full.
    Write {
        /// Where to.
        file: FileId,
        /// Where in the file, in bytes.
        offset: u64,
        /// The bytes.
        buf: &'a [u8],
        /// Whether completion means durable.
        dsync: bool,
    },
    /// Make every completed write to `file` durable.
    Sync {
        /// Which file.
        file: FileId,
    },
}

/// The end of a submitted operation: for a write the bytes written, which may be fewer than requested.
#[derive(Debug)]
pub struct Completion {
    /// Which operation.
    pub token: Token,
    /// How it ended.
    pub result: io::Result<usize>,
}

/// One name in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The file's name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// One directory of files on some disk.
#[allow(clippy::missing_errors_doc, reason = "the operating system's, but where a method names its own")]
pub trait Disk {
    /// The files in the directory, in any order.
    fn list(&mut self) -> io::Result<Vec<DirEntry>>;

    /// Opens an existing file for reading and writing. With [`Access::Direct`] its reads show what the disk has, as far as
    /// the system can; with [`Access::Cached`] they show what the page cache has.
    fn open(&mut self, name: &str, access: Access) -> io::Result<FileId>;

    /// Drops what the page cache holds of a file, so that reading it shows what the disk has even where a direct read
    /// may be answered from the cache. Nothing to do for a disk without a cache.
    fn forget_cached(&mut self, _file: FileId) {}

    /// Whether reading this file shows what the disk has, not what the page cache holds.
    fn reads_past_cache(&self, _file: FileId) -> bool {
        true
    }

    /// Creates an empty file; fails with `AlreadyExists` if the name is taken.
    fn create(&mut self, name: &str) -> io::Result<FileId>;

    /// Forgets an open file.
    fn close(&mut self, file: FileId);

    /// Gives a file another name; fails with `AlreadyExists` if that is taken.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file another name, replacing what had that name.
    fn replace(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Makes every change to names durable.
    fn sync_dir(&mut self) -> io::Result<()>;

    /// Reserves blocks for the first `bytes` bytes of a file, where the file system can, so that a full disk shows, as
    /// `StorageFull`, before anything is written.
    fn allocate(&mut self, file: FileId, bytes: u64) -> io::Result<()>;

    /// Reads as the file was opened; returns the bytes read, 0 at the end of the file.
    fn read_direct(&mut self, file: FileId, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Starts an operation.
    fn submit(&mut self, op: Op<'_>) -> Token;

    /// The next operation that ended; waits for one if `block` and any is in flight.
    fn complete(&mut self, block: bool) -> Option<Completion>;
}

/// Submits `op` and waits for it. Only for code that has no other operation in flight.
fn run<D: Disk>(disk: &mut D, op: Op<'_>) -> io::Result<usize> {
    let token = disk.submit(op);
    while let Some(done) = disk.complete(true) {
        if done.token == token {
            return done.result;
        }
    }
    Err(io::Error::other("the disk lost an operation"))
}

pub(crate) fn open<D: Disk>(disk: &mut D, name: &str, access: Access) -> Result<FileId> {
    disk.open(name, access).map_err(|source| Error::io("open", name, source))
}

pub(crate) fn has_name<D: Disk>(disk: &mut D, name: &str) -> Result<bool> {
    let entries = disk.list().map_err(|source| Error::io("list", ".", source))?;
    Ok(entries.iter().any(|entry| entry.name == name))
}

pub(crate) fn remove<D: Disk>(disk: &mut D, name: &str) -> Result<()> {
    disk.remove(name).map_err(|source| Error::io("remove", name, source))
}

/// Writes all of `buf`, continuing after short writes.
pub(crate) fn write_all<D: Disk>(
    disk: &mut D,
    name: &str,
    (file, mut offset): (FileId, u64),
    mut buf: &[u8],
    dsync: bool,
) -> Result<()> {
    while !buf.is_empty() {
        let written = run(disk, Op::Write { file, offset, buf, dsync });
        let written = written.map_err(|source| Error::io("write", name, source))?;
        if written == 0 {
            return Err(Error::io("write", name, io::ErrorKind::WriteZero.into()));
        }
        buf = buf.get(written..).unwrap_or_default();
        offset = offset.saturating_add(written as u64);
    }
    Ok(())
}

pub(crate) fn sync<D: Disk>(disk: &mut D, name: &str, file: FileId) -> Result<()> {
    run(disk, Op::Sync { file }).map(drop).map_err(|source| Error::io("sync", name, source))
}

pub(crate) fn sync_dir<D: Disk>(disk: &mut D) -> Result<()> {
    // Never `DiskFull`, whatever the system says: the names have changed already, so that nothing may be tried again.
    disk.sync_dir().map_err(|source| Error::Io { operation: "sync", path: ".".into(), source })
}

/// Fills `buf` by `read`, which is given an offset and what is left of the buffer, from `offset` on and as far as the file
/// goes; returns the bytes read.
pub(crate) fn fill(
    offset: u64,
    buf: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match read(offset.saturating_add(filled as u64), &mut buf[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Fills `buf` from `offset` on, as far as the file goes; returns the bytes read.
pub(crate) fn read_full<D: Disk>(
    disk: &mut D,
    name: &str,
    file: FileId,
    offset: u64,
    buf: &mut [u8],
) -> Result<usize> {
    fill(offset, buf, |at, rest| disk.read_direct(file, at, rest))
        .map_err(|source| Error::io("read", name, source))
}
