//! Unix: syncs a file through a descriptor of its own, opened for reading as the published test opens it.
//!
//! Invariant: each method makes exactly the call that its name states; macOS' fsync is fsync, not `F_FULLFSYNC`.

use super::unix::FSYNC;
use crate::flush::Flush;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// A sync call with its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) call: fn(&File) -> io::Result<()>,
}

/// The call; `None` if this system has no such.
pub(crate) fn call(flush: Flush) -> Option<Call> {
    match flush {
        Flush::Fsync => Some(Call { name: FSYNC.name, call: |file| (FSYNC.call)(file.as_raw_fd()) }),
        #[cfg(any(target_os = "linux", target_os = "illumos"))]
        Flush::Fdatasync => Some(Call {
            name: "fdatasync",
            // SAFETY: takes any integer; a stale descriptor is an error, not undefined behaviour.
            call: |file| super::unix::check(unsafe { libc::fdatasync(file.as_raw_fd()) }),
        }),
        #[cfg(target_os = "linux")]
        // A length of 0 means: to the end of the file.
        Flush::Range => Some(Call {
            name: "sync_file_range",
            call: |file| super::linux::sync_file_range(file.as_raw_fd(), 0, 0),
        }),
        #[allow(unreachable_patterns, reason = "on Linux nothing is left")]
        _ => None,
    }
}

pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}
