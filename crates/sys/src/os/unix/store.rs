//! Unix: reads and writes at positions, and syncs directories.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) fn read_at(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    file.read_at(buf, offset)
}

pub(crate) fn write_at(file: &File, offset: u64, buf: &[u8]) -> io::Result<usize> {
    file.write_at(buf, offset)
}

pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    crate::os::unix::open_to_sync(directory)?.sync_all()
}
