//! What a system provides that lacks something: refusals with their reason, and substitutes that promise nothing.

use std::fs::File;
use std::io;

/// Whether both are the same file, which is not known by their handles here.
pub(crate) fn is_same(_: &File, _: &File) -> io::Result<bool> {
    Ok(false)
}

/// Blocks are not zeroed by the device, nor files evicted from the cache.
pub(crate) mod journal {
    use seawall_sys::{OpenError, Result};
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
}

/// Nothing is reported of a process.
pub(crate) mod process {
    use crate::process::Usage;

    pub(crate) fn usage() -> Option<Usage> {
        None
    }

    /// Windows has no such limit.
    pub(crate) fn outlive_the_file_size_limit() {}

    /// A write finds out.
    pub(crate) fn is_standard_output_closed() -> bool {
        false
    }
}

/// The run-queue wait of a thread is not reported, and some systems cannot pin one.
pub(crate) mod thread {
    use crate::thread::Pinned;
    use seawall_sys::{Error, Result};

    pub(crate) struct RunQueue;

    impl RunQueue {
        pub(crate) fn open() -> Self {
            Self
        }

        #[allow(clippy::unused_self, reason = "Linux reads a file of its own")]
        pub(crate) fn wait_ns(&self) -> Option<u64> {
            None
        }
    }

    /// macOS takes hints about threads that share data and has no way to name a CPU.
    pub(crate) fn pin(_: usize) -> Result<Pinned> {
        Err(Error::new("pin", "thread", std::io::ErrorKind::Unsupported.into()))
    }
}
