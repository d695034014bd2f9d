//! Windows: reserves a file's blocks.
//!
//! NTFS keeps two lengths: the file's size, and the *valid data length*, up to which it has been written.
//! `SetEndOfFile` moves the first and gives the clusters; the second stays behind. Bytes past it read as zeros,
//! and a write past it makes NTFS fill the gap with zeros first: this is Windows' *unwritten* state, and a
//! journal written in order pays for it by a metadata change at each write.

pub(crate) use crate::os::fallback::journal::{drop_cache, write_zeroes};

use seawall_sys::{Error, OpenError};
use std::fs::File;
use std::path::Path;

/// `SetEndOfFile`: the clusters are given, the valid data length stays behind.
pub(crate) fn reserve(file: &File, path: &Path, bytes: u64) -> std::result::Result<(), OpenError> {
    file.set_len(bytes).map_err(|error| Error::new("SetEndOfFile", path, error).into())
}
