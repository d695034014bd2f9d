//! Explains a refused transfer by the sector size of the disk.
//!
//! A disk with sectors of 4096 bytes takes direct writes in multiples of those only; a log with smaller blocks, made
//! elsewhere or requested here, gets "invalid argument" there. Reading it works: recovery reads whole sectors.
//!
//! Invariant: any other failure is returned unchanged.

use std::io;
use std::path::Path;

use crate::error::Error;
use crate::recovery::directory::scan_directory;
use crate::storage::os_disk::OsDisk;

/// `error`, met in `dir`, or what it means if the sectors of the disk are larger than the blocks of the log there: of
/// the one that exists, or else of the one that was to be made with blocks of `new_block_bytes`.
pub(crate) fn explain(error: Error, dir: &Path, new_block_bytes: Option<u16>) -> Error {
    let Error::Io { path, source, .. } = &error else { return error };
    if source.kind() != io::ErrorKind::InvalidInput {
        return error;
    }
    let existing =
        crate::lock::open_dir(dir).and_then(|dir| scan_directory(&mut OsDisk::read_only(dir))).ok();
    let existing = existing.and_then(|found| found.started.last().map(|header| header.block_bytes));
    let Some(block_bytes) = existing.or(new_block_bytes) else { return error };
    let Ok(environment) = seawall_sys::inspect::environment(dir) else { return error };
    let sector_bytes = environment.logical_block_bytes();
    if sector_bytes <= u64::from(block_bytes) {
        return error;
    }
    Error::BlocksTooSmall { path: path.clone(), block_bytes, sector_bytes }
}
