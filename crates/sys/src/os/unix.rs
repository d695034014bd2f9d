//! What Linux, macOS and illumos share: turns a `-1` into an error, opens files, syncs.
//!
//! Invariants: every call's return code passes through [`check`]; what a signal interrupts is called again; no descriptor that is
//! kept has the number of standard input, output or error.

pub(crate) mod directory;
pub(crate) mod fork;
pub(crate) mod local_socket;
pub(crate) mod scratch;
pub(crate) mod signal;
pub(crate) mod store;
pub(crate) mod thread;

use crate::commit::SyncCall;
use crate::error::{Error, Result};
use crate::planted;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

pub(crate) fn check(code: libc::c_int) -> io::Result<()> {
    if code == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a call again while a signal interrupts it.
pub(crate) fn repeat<T>(call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    rustix::io::retry_on_intr(call).map_err(io::Error::from)
}

/// Takes the numbers of standard input, output and error, if a program has closed these, by the root directory: the next file that
/// is opened would get them, and whatever is printed afterwards would be written into it. A write to a directory fails, as one to
/// a closed stream does. Before each open, because a program may close them at any time.
pub(crate) fn take_low_descriptors() {
    let mut fd = 0;
    while planted!(LowDescriptors, fd <= libc::STDERR_FILENO) {
        // SAFETY: fcntl takes any integer.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1 {
            fd += 1;
            continue;
        }
        // SAFETY: the path is zero-terminated.
        let taken =
            unsafe { libc::open(c"/".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
        if taken > libc::STDERR_FILENO {
            // SAFETY: it was made just now and belongs to nobody else: another thread opened a file in between.
            drop(unsafe { OwnedFd::from_raw_fd(taken) });
        } else if taken == -1 {
            return;
        }
    }
}

/// The file that `open` opens: where every file is opened by a call.
pub(crate) fn opened(open: impl FnMut() -> rustix::io::Result<OwnedFd>) -> io::Result<File> {
    take_low_descriptors();
    repeat(open).map(File::from)
}

/// The same by the standard library, which opens again when a signal interrupts it.
pub(crate) fn open_with(options: &OpenOptions, path: &Path) -> io::Result<File> {
    take_low_descriptors();
    options.open(path)
}

/// fsync(2), exactly: the standard library's `sync_all` is `F_FULLFSYNC` on macOS.
pub(crate) const FSYNC: SyncCall = SyncCall {
    name: "fsync",
    // SAFETY: fsync takes any integer; a stale descriptor is an error, not undefined behaviour.
    call: |file| check(unsafe { libc::fsync(file.as_raw_fd()) }),
};

/// The error numbers by which a device reports that it failed.
pub(crate) const DEVICE_ERRORS: &[i32] = &[libc::EIO];

/// Opens the journal with extra `open` flags; it must exist.
pub(crate) fn open_file(path: &Path, flags: libc::c_int) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags | libc::O_CLOEXEC);
    open_with(&options, path).map_err(|error| Error::new("open", path, error))
}

/// Opens a file to sync it: fsync(2) needs no right to write.
pub(crate) fn open_to_sync(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

pub(crate) fn is_block_device(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_block_device()
}
