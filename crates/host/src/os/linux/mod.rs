//! Linux: reads `/proc`, syncs and writes by single calls, and sets apart, filters and follows programs.

#[cfg(feature = "testing")]
pub mod confinement;
pub mod isolation;
pub(crate) mod journal;
pub mod notification;
pub(crate) mod process;
pub mod ptrace;
pub(crate) mod raw_device;
pub mod seccomp;
pub(crate) mod thread;

pub(crate) use super::unix::{is_same, open_to_sync, write_at};

use super::unix::{FSYNC, check};
use crate::flush::{Flush, SyncCall};
use crate::write_call::Put;
use rustix::io::{ReadWriteFlags, pwritev2};
use std::io::IoSlice;
use std::os::fd::AsRawFd as _;

pub(crate) const WRITE_VECTOR: Option<Put> =
    Some(|file, offset, bytes| Ok(pwritev2(file, &[IoSlice::new(bytes)], offset, ReadWriteFlags::empty())?));

pub(crate) const SYNC_CALLS: &[SyncCall] = &[FSYNC, FDATASYNC, SYNC_FILE_RANGE];

const FDATASYNC: SyncCall = SyncCall {
    flush: Flush::Fdatasync,
    name: "fdatasync",
    // SAFETY: takes any integer; a stale descriptor is an error, not undefined behaviour.
    call: |file| check(unsafe { libc::fdatasync(file.as_raw_fd()) }),
};

/// Of the whole file: a length of 0 means to its end. Waits for writeback in progress, starts its own, waits for that.
const SYNC_FILE_RANGE: SyncCall = SyncCall {
    flush: Flush::Range,
    name: "sync_file_range",
    call: |file| {
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: takes any integers; wrong ones are errors, not undefined behaviour.
        check(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) })
    },
};
