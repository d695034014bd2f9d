//! Linux: makes the write, sync and cache-dropping system calls.
//!
//! Invariant: each call is named as its man page is, because the name ends up in error messages and the
//! strace tests look for it.

use crate::commit::SyncCall;
use crate::os::unix::check;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};

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
pub(super) fn write_at(fd: RawFd, offset: u64, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
    if flags != 0 {
        return write_vector(fd, offset, bytes, flags);
    }
    // SAFETY: the pointer and length are those of a live slice, which the call only reads.
    let written = unsafe { libc::pwrite(fd, bytes.as_ptr().cast(), bytes.len(), offset.cast_signed()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// pwritev2(2) of one buffer, whatever the flags.
pub(super) fn write_vector(fd: RawFd, offset: u64, bytes: &[u8], flags: libc::c_int) -> io::Result<usize> {
    let vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: one iovec that describes a live slice, which the call only reads.
    let written = unsafe { libc::pwritev2(fd, &raw const vector, 1, offset.cast_signed(), flags) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// `posix_fadvise(2)` with `POSIX_FADV_DONTNEED`: drops the clean pages of the range (0 bytes: to the end).
pub(super) fn drop_pages(fd: RawFd, offset: u64, bytes: u64) -> io::Result<()> {
    // SAFETY: takes any integers; wrong ones are errors, not undefined behaviour.
    let code = unsafe {
        libc::posix_fadvise(fd, offset.cast_signed(), bytes.cast_signed(), libc::POSIX_FADV_DONTNEED)
    };
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
