//! illumos: reads the thread's accounts, and syncs data; the rest is as on every Unix.

pub(crate) mod journal;
pub(crate) mod thread;

pub(crate) use super::fallback::{WRITE_VECTOR, raw_device};
pub(crate) use super::unix::{is_same, open_to_sync, process, write_at};

use super::unix::{FSYNC, check};
use crate::flush::{Flush, SyncCall};
use std::os::fd::AsRawFd as _;

pub(crate) const SYNC_CALLS: &[SyncCall] = &[FSYNC, FDATASYNC];

const FDATASYNC: SyncCall = SyncCall {
    flush: Flush::Fdatasync,
    name: "fdatasync",
    // SAFETY: takes any integer; a stale descriptor is an error, not undefined behaviour.
    call: |file| check(unsafe { libc::fdatasync(file.as_raw_fd()) }),
};
