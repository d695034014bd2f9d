//! How does Windows read around the cache, reserve space and make names durable?
//!
//! NTFS journals names and lets nobody sync a directory, so [`sync_directory`] has nothing to call. Reads go through
//! the cache, and say so.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::FileExt;
use std::path::Path;

pub(crate) fn read_at(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    match file.seek_read(buf, offset) {
        // ERROR_HANDLE_EOF
        Err(error) if error.raw_os_error() == Some(38) => Ok(0),
        result => result,
    }
}

pub(crate) fn write_at(file: &File, offset: u64, buf: &[u8]) -> io::Result<usize> {
    file.seek_write(buf, offset)
}

#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
    options.open(path).map(|file| (file, false))
}

pub(crate) fn write_in_place(_: &File) {}

#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

pub(crate) fn forget_cached(_file: &File) {}
