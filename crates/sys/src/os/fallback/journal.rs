//! Systems that neither zero blocks by the device, nor evict a file from the cache, nor report its extents.

use crate::OpenError;
use crate::error::Result;
use crate::journal::Layout;
use std::fs::File;
use std::path::Path;

/// Windows' `SetFileValidData` is no substitute: it shows what the disk held before, and zeroes nothing.
pub(crate) fn write_zeroes(_: &File, _: &Path, _: u64) -> std::result::Result<(), OpenError> {
    Err(OpenError::unavailable("FALLOC_FL_WRITE_ZEROES is Linux'"))
}

/// No documented call drops a file's pages; rows with `NO_BUFFERING` and `F_NOCACHE` go around them.
pub(crate) fn drop_cache(_: &File, _: &Path) -> Result<()> {
    Ok(())
}

/// macOS and illumos do not distinguish unwritten extents; Windows reports a file's valid data length to privileged
/// programs only.
pub(crate) fn layout(_: &File, _: &Path) -> Result<Option<Layout>> {
    Ok(None)
}
