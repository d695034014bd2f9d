//! Linux: makes the write and sync system calls.
//!
//! Invariant: each call is named as its man page is, because the name ends up in error messages and the
//! strace tests look for it.

use crate::commit::SyncCall;
use crate::os::unix::check;
use rustix::io::ReadWriteFlags;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

pub(super) const FDATASYNC: SyncCall = SyncCall {
    name: "fdatasync",
    // SAFETY: takes any integer; a stale descriptor is an error, not undefined behaviour.
    call: |file| check(unsafe { libc::fdatasync(file.as_raw_fd()) }),
};

pub(super) const SYNCFS: SyncCall = SyncCall {
    name: "syncfs",
    // SAFETY: takes any integer; a stale descriptor is an error, not undefined behaviour.
    call: |file| check(unsafe { libc::syncfs(file.as_raw_fd()) }),
};

/// `sync_file_range(2)` of the whole file: a length of 0 means to its end.
pub(super) const SYNC_FILE_RANGE: SyncCall =
    SyncCall { name: "sync_file_range", call: |file| sync_file_range(file, 0, 0) };

/// `sync_file_range(2)`: waits for writeback in progress, starts its own, waits for that.
pub(super) fn sync_file_range(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    const FLAGS: libc::c_uint =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: takes any integers; wrong ones are errors, not undefined behaviour.
    check(unsafe {
        libc::sync_file_range(file.as_raw_fd(), offset.cast_signed(), bytes.cast_signed(), FLAGS)
    })
}

/// pwritev2(2) of one buffer. With `flags` 0 plain pwrite(2), so that the row's calls are what they say.
pub(super) fn write_at(file: &File, offset: u64, bytes: &[u8], flags: ReadWriteFlags) -> io::Result<usize> {
    if flags.is_empty() { file.write_at(bytes, offset) } else { write_vector(file, offset, bytes, flags) }
}

/// pwritev2(2) of one buffer, whatever the flags.
pub(super) fn write_vector(
    file: &File,
    offset: u64,
    bytes: &[u8],
    flags: ReadWriteFlags,
) -> io::Result<usize> {
    rustix::io::pwritev2(file, &[IoSlice::new(bytes)], offset, flags).map_err(io::Error::from)
}
