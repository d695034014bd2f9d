//! What macOS and illumos share: rows are positional writes and at most one sync call, and the rest is POSIX.
//!
//! Invariant: the sync call is chosen once, at open, from the row alone.

pub(crate) mod inspect;

#[cfg(feature = "testing")]
pub use crate::os::fallback::mistakes;
pub(crate) use crate::os::fallback::{
    WRITE_VECTOR, counters, layout, memory, raw_device, residency, rings, shared_memory,
};
pub(crate) use crate::os::unix::{
    DEVICE_ERRORS, directory, fork, is_block_device, local_socket, open_file, open_to_sync, signal, thread,
};

use crate::CommitHandle;
use crate::commit::{SyncCall, write_all};
use crate::error::Result;
use std::ffi::c_char;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Folders are private, and are reached by their names.
pub(crate) mod scratch {
    pub(crate) use crate::os::fallback::scratch::{hold, named, path_for_children};
    pub(crate) use crate::os::unix::scratch::{is_own_folder, make_folder, private};
}

/// Files are read through the cache.
pub(crate) mod store {
    pub(crate) use crate::os::fallback::store::*;
    pub(crate) use crate::os::unix::store::*;
}

pub(crate) fn text(array: &[c_char]) -> String {
    // A letter is signed on some processors and unsigned on others.
    let bytes: Vec<u8> =
        array.iter().map(|unit| unit.to_le_bytes()[0]).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Positional writes, then at most one sync call on the same descriptor.
pub(crate) struct Positional {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) sync: Option<SyncCall>,
}

impl CommitHandle for Positional {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        write_all("pwrite", &self.path, offset, bytes, |offset, bytes| self.file.write_at(bytes, offset))
    }

    fn sync(&mut self) -> Result<()> {
        self.sync.map_or(Ok(()), |sync| sync.run(&self.file, &self.path))
    }
}
