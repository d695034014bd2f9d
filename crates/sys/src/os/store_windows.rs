//! Windows: reads around the cache and reserves space; a directory cannot be synced there.
//!
//! NTFS journals names and offers no sync of a directory, so [`sync_directory`] has nothing to call. Handles opened
//! without buffering bypass the cache, as Microsoft's "File Buffering" describes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::directory::{Directory, Wish};
use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_NO_BUFFERING;

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

/// The file, and whether reads of it go around the cache.
pub(crate) fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
    options.clone().custom_flags(FILE_FLAG_NO_BUFFERING).open(path).map(|file| (file, true))
}

/// As [`open_direct`], in a directory that is held.
pub(crate) fn wish_direct(directory: &Directory, name: &str, wish: Wish) -> io::Result<(File, bool)> {
    let flags = wish.flags | FILE_FLAG_NO_BUFFERING.cast_signed();
    directory.wish(name, Wish { flags, ..wish }).map(|file| (file, true))
}

pub(crate) fn write_in_place(_: &File) {}

#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

pub(crate) fn forget_cached(_file: &File) {}

pub(crate) fn read_no_more(_file: &File) {}
