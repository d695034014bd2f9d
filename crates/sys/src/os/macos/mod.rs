//! macOS: opens rows of the method table as positional writes, with `fcntl` where fsync(2) is not enough.
//!
//! Apple's fsync(2): data goes to the drive, which may keep it in its cache; `F_FULLFSYNC` asks the drive to
//! flush it, `F_BARRIERFSYNC` (fcntl(2)) to keep the order.

pub(crate) mod inspect;

pub(crate) use crate::os::fallback::crash_memory;
#[cfg(feature = "testing")]
pub use crate::os::posix::mistakes;
pub(crate) use crate::os::posix::{
    DEVICE_ERRORS, WRITE_VECTOR, counters, directory, fork, is_block_device, layout, local_socket, memory,
    open_file, open_to_sync, raw_device, residency, rings, scratch, shared_memory, signal, store, thread,
};
pub(crate) use atomic_wait as wait;

use crate::commit::{OpenError, SyncCall, Target};
use crate::directory::Directory;
use crate::flush::Flush;
use crate::method::{Cache, Method, OpenSync, Sync, System, Write};
use crate::os::posix::Positional;
use crate::os::unix::{FSYNC, check};
use crate::{CommitHandle, Error};
use std::os::fd::AsRawFd;

pub(crate) const SYSTEM: System = System::MacOs;

const FULL_FSYNC: SyncCall = SyncCall {
    name: "fcntl(F_FULLFSYNC)",
    // SAFETY: takes no pointer; a stale descriptor is an error, not undefined behaviour.
    call: |file| check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_FULLFSYNC) }),
};

const BARRIER_FSYNC: SyncCall = SyncCall {
    name: "fcntl(F_BARRIERFSYNC)",
    // SAFETY: takes no pointer; a stale descriptor is an error, not undefined behaviour.
    call: |file| check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_BARRIERFSYNC) }),
};

pub(crate) const SYNC_CALLS: &[(Flush, SyncCall)] = &[(Flush::Fsync, FSYNC)];

pub(crate) fn open(
    method: &'static Method,
    target: &Target,
    directory: Option<&Directory>,
) -> Result<Box<dyn CommitHandle>, OpenError> {
    let sync = match method.sync {
        Sync::None => None,
        Sync::Fsync => Some(FSYNC),
        Sync::FullFsync => Some(FULL_FSYNC),
        Sync::BarrierFsync => Some(BARRIER_FSYNC),
        other => return Err(OpenError::unavailable(format!("{other:?} is not macOS'"))),
    };
    if method.write != Write::Positional || method.open_sync != OpenSync::None {
        return Err(OpenError::unavailable("macOS rows are positional writes without open flags"));
    }
    let file = target.file(directory, 0)?;
    if method.cache == Cache::NoCache {
        // SAFETY: takes an integer argument; a stale descriptor is an error, not undefined behaviour.
        check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_NOCACHE, 1) })
            .map_err(|error| Error::new("fcntl(F_NOCACHE)", &target.path, error))?;
    }
    Ok(Box::new(Positional { file, path: target.path.clone(), sync }))
}
