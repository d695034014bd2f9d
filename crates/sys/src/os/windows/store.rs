//! Windows: reads around the cache; a directory cannot be synced there.
//!
//! NTFS journals names and offers no sync of a directory, so [`sync_directory`] has nothing to call. Handles opened
//! without buffering bypass the cache, as Microsoft's "File Buffering" describes.

pub(crate) use crate::os::fallback::store::{forget_cached, read_no_more, reserve, write_in_place};

use crate::directory::{Directory, OpenHow};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
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

pub(crate) fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
    options.clone().custom_flags(FILE_FLAG_NO_BUFFERING).open(path).map(|file| (file, true))
}

/// As [`open_direct`], in a directory that is held.
pub(crate) fn open_direct_in(directory: &Directory, name: &str, how: OpenHow) -> io::Result<(File, bool)> {
    let flags = how.flags | FILE_FLAG_NO_BUFFERING.cast_signed();
    directory.open_with(name, OpenHow { flags, ..how }).map(|file| (file, true))
}
