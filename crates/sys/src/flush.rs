//! Syncs a file through a descriptor of its own, for a thread that writes nothing.
//!
//! The `stall` scenario measures how such syncs delay the writer. The calls are those of the method table, made on a
//! descriptor that is opened for nothing else.
//!
//! Invariant: a call that the system lacks is refused with a reason; a sync call is never replaced by another.

use crate::commit::SyncCall;
use crate::error::{Error, Result};
use crate::{OpenError, os};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A call that syncs a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// fsync, or `FlushFileBuffers`.
    Fsync,
    /// fdatasync.
    Fdatasync,
    /// `sync_file_range` over the whole file, waiting: data only, and no flush of the device.
    Range,
}

/// A descriptor that only syncs.
#[derive(Debug)]
pub struct Flusher {
    file: File,
    path: PathBuf,
    call: SyncCall,
}

impl Flusher {
    /// Opens the existing file at `path` for syncing by `flush`.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`] if this system lacks the call; the failed call otherwise.
    pub fn open(path: &Path, flush: Flush) -> std::result::Result<Self, OpenError> {
        let call = os::SYNC_CALLS.iter().find(|(of, _)| *of == flush).map(|(_, call)| *call);
        let call =
            call.ok_or_else(|| OpenError::unavailable(format!("this system has no {}", flush.name())))?;
        let file = os::open_to_sync(path).map_err(|error| Error::new("open", path, error))?;
        Ok(Self { file, path: path.to_path_buf(), call })
    }

    /// Syncs.
    ///
    /// # Errors
    /// The failed call. What was written before it is in an unknown state.
    pub fn flush(&self) -> Result<()> {
        self.call.run(&self.file, &self.path)
    }
}

impl Flush {
    /// The call's name on POSIX systems.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::Range => "sync_file_range",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_syncs_or_is_refused_and_a_missing_file_is_reported() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("journal");
        std::fs::write(&path, b"data").expect("written");
        for flush in [Flush::Fsync, Flush::Fdatasync, Flush::Range] {
            match Flusher::open(&path, flush) {
                Ok(flusher) => flusher.flush().expect("synced"),
                Err(OpenError::Unavailable(reason)) => assert!(reason.0.contains(flush.name()), "{reason}"),
                Err(OpenError::Failed(error)) => panic!("{error}"),
            }
        }
        let missing = Flusher::open(&dir.path().join("missing"), Flush::Fsync);
        assert!(matches!(missing, Err(OpenError::Failed(error)) if error.operation() == "open"));
    }
}
