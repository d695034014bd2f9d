//! macOS and illumos: runs rows by positional writes and at most one sync call.
//!
//! Invariant: the sync call is chosen once, at open, from the row alone.

pub(crate) mod inspect;

use crate::Commit;
use crate::commit::{uninterrupted, write_all};
use crate::error::Result;
use crate::os::unix::SyncCall;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Positional writes, then at most one sync call on the same descriptor.
pub(crate) struct Positional {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) sync: Option<SyncCall>,
}

impl Commit for Positional {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        write_all("pwrite", &self.path, offset, bytes, |offset, bytes| self.file.write_at(bytes, offset))
    }

    fn sync(&mut self) -> Result<()> {
        let Some(sync) = self.sync else { return Ok(()) };
        uninterrupted(sync.name, &self.path, || (sync.call)(self.file.as_raw_fd()))
    }
}
