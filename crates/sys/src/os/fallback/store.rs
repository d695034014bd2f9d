//! Systems that take no advice about a file's pages and blocks, and have no uncached reads.

use crate::directory::{Directory, OpenHow};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// The file, which is read through the cache.
pub(crate) fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
    options.open(path).map(|file| (file, false))
}

/// As [`open_direct`], in a directory that is held.
pub(crate) fn open_direct_in(directory: &Directory, name: &str, how: OpenHow) -> io::Result<(File, bool)> {
    directory.open_with(name, how).map(|file| (file, false))
}

pub(crate) fn forget_cached(_: &File) {}

pub(crate) fn read_no_more(_: &File) {}

/// A full disk shows when the file is filled.
pub(crate) fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

pub(crate) fn write_in_place(_: &File) {}
