//! Unix: turns a `-1` into an error, syncs, opens the journal and reads CPU clocks.
//!
//! Invariant: every call's return code passes through [`check`].

use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

/// Turns a C return code into a result.
pub(crate) fn check(code: libc::c_int) -> io::Result<()> {
    if code == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A sync call on a descriptor: its name for errors, and the call itself.
#[derive(Clone, Copy)]
pub(crate) struct SyncCall {
    pub(crate) name: &'static str,
    pub(crate) call: fn(RawFd) -> io::Result<()>,
}

/// fsync(2), exactly: the standard library's `sync_all` is `F_FULLFSYNC` on macOS.
pub(crate) const FSYNC: SyncCall = SyncCall {
    name: "fsync",
    // SAFETY: fsync takes any integer; a stale descriptor is an error, not undefined behaviour.
    call: |fd| check(unsafe { libc::fsync(fd) }),
};

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

/// Whether the metadata are a block device's.
pub(crate) fn is_block_device(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_block_device()
}

/// CPU time of the calling thread: `clock_gettime(CLOCK_THREAD_CPUTIME_ID)`.
pub(crate) fn cpu_ns() -> Option<u64> {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of the process: `clock_gettime(CLOCK_PROCESS_CPUTIME_ID)`.
pub(crate) fn process_cpu_ns() -> Option<u64> {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read_clock(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live, writable structure of the right type.
    let code = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let (seconds, ns) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    (code == 0).then_some(seconds * 1_000_000_000 + ns)
}

/// Ignores `SIGXFSZ`: write(2) then answers `EFBIG`.
pub(crate) fn outlive_the_file_size_limit() {
    // SAFETY: SIG_IGN is a disposition that every signal but KILL and STOP can have; no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
