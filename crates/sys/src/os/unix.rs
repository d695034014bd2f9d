//! What Linux, macOS and illumos share: turns a `-1` into an error, syncs, opens the journal.
//!
//! Invariant: every call's return code passes through [`check`].

pub(crate) mod directory;
pub(crate) mod fork;
pub(crate) mod scratch;
pub(crate) mod store;
pub(crate) mod thread;

use crate::commit::SyncCall;
use crate::error::{Error, Result};
use std::ffi::c_char;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// Turns a C return code into a result.
pub(crate) fn check(code: libc::c_int) -> io::Result<()> {
    if code == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
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
///
/// # Errors
/// `open`, the path and the cause.
pub(crate) fn open_file(path: &Path, flags: libc::c_int) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags | libc::O_CLOEXEC)
        .open(path)
        .map_err(|error| Error::new("open", path, error))
}

/// Opens a file to sync it: fsync(2) needs no right to write.
pub(crate) fn open_to_sync(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Whether the metadata are a block device's.
pub(crate) fn is_block_device(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_block_device()
}

/// What uname(2) returns.
pub(crate) fn uname() -> io::Result<libc::utsname> {
    // SAFETY: all zeros is a valid `utsname`.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live, writable structure of the right type. illumos returns 1 for success.
    check(unsafe { libc::uname(&raw mut name) })?;
    Ok(name)
}

/// The text in a C array, up to its terminating zero.
pub(crate) fn text(array: &[c_char]) -> String {
    // A letter is signed on some processors and unsigned on others.
    let bytes: Vec<u8> =
        array.iter().map(|unit| unit.to_le_bytes()[0]).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Ignores `SIGXFSZ`: write(2) then answers `EFBIG`.
pub(crate) fn outlive_the_file_size_limit() {
    // SAFETY: SIG_IGN is a disposition that every signal but KILL and STOP can have; no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Whether nothing will read from standard output any more: poll(2) reports the error of the next write.
pub(crate) fn is_standard_output_closed() -> bool {
    let mut output = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
    // SAFETY: one structure, which is writable and outlives the call; without a wait.
    let ready = unsafe { libc::poll(&raw mut output, 1, 0) };
    ready == 1 && output.revents & (libc::POLLERR | libc::POLLHUP) != 0
}
