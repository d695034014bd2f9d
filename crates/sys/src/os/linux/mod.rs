//! Linux: opens rows of the method table as positional writes, a shared mapping or an `io_uring`.
//!
//! Invariant: the open flags come from the row alone; each call's flags too.

mod call;
pub(crate) mod counters;
pub(crate) mod crash_memory;
pub(crate) mod inspect;
pub(crate) mod layout;
mod map;
pub(crate) mod memory;
#[cfg(feature = "testing")]
pub mod mistakes;
mod positional;
mod queue;
pub(crate) mod raw_device;
pub(crate) mod residency;
mod ring;
pub(crate) mod rings;
pub(crate) mod scratch;
pub(crate) mod shared_memory;
pub(crate) mod store;
pub(crate) mod wait;

pub(crate) use crate::os::unix::{
    DEVICE_ERRORS, directory, fork, is_block_device, local_socket, open_file, open_to_sync, signal, thread,
};

use crate::commit::{OpenError, SyncCall, Target};
use crate::directory::Directory;
use crate::flush::Flush;
use crate::method::{Cache, Method, OpenSync, System, Write, WriteFlag};
use crate::os::mapping::Map;
use crate::os::unix::FSYNC;
use crate::write_call::Put;
use crate::{CommitHandle, Error};
use rustix::io::ReadWriteFlags;
use std::fs::File;

pub(crate) const SYSTEM: System = System::Linux;

pub(crate) const WRITE_VECTOR: Option<Put> =
    Some(|file, offset, bytes| call::write_vector(file, offset, bytes, ReadWriteFlags::empty()));

pub(crate) const SYNC_CALLS: &[(Flush, SyncCall)] =
    &[(Flush::Fsync, FSYNC), (Flush::Fdatasync, call::FDATASYNC), (Flush::Range, call::SYNC_FILE_RANGE)];

pub(crate) fn open(
    method: &'static Method,
    target: &Target,
    directory: Option<&Directory>,
) -> Result<Box<dyn CommitHandle>, OpenError> {
    let file = open_journal(method, target, directory)?;
    match method.write {
        Write::Positional => Ok(Box::new(positional::open(file, ReadWriteFlags::empty(), method, target)?)),
        Write::Flagged(flag) => Ok(Box::new(positional::open(file, rwf(flag), method, target)?)),
        Write::Mapped => Ok(Box::new(Map::<map::Shared>::open(file, target)?)),
        Write::Ring { flag, registered, poll } => {
            let settings = queue::Settings { rw_flags: rwf(flag), registered, poll, sync: method.sync };
            Ok(Box::new(ring::open(file, settings, target)?))
        }
        Write::Overlapped => Err(OpenError::unavailable("overlapped I/O is Windows'")),
    }
}

/// Opens with the row's flags. `EINVAL` from `open` with `O_DIRECT` is how a file system says it has none.
fn open_journal(method: &Method, target: &Target, directory: Option<&Directory>) -> Result<File, OpenError> {
    let cache = match method.cache {
        Cache::Direct => libc::O_DIRECT,
        Cache::Buffered | Cache::NoCache => 0,
    };
    let sync = match method.open_sync {
        OpenSync::None | OpenSync::WriteThrough => 0,
        OpenSync::Data => libc::O_DSYNC,
        OpenSync::Full => libc::O_SYNC,
    };
    target.file(directory, cache | sync).map_err(|error| no_direct(method, error))
}

fn no_direct(method: &Method, error: Error) -> OpenError {
    if method.cache == Cache::Direct && error.raw_os_error() == Some(libc::EINVAL) {
        OpenError::unavailable("this file system has no O_DIRECT")
    } else {
        OpenError::Failed(error)
    }
}

/// The kernel's `RWF_*` bit for a flag (`linux/fs.h`).
fn rwf(flag: WriteFlag) -> ReadWriteFlags {
    match flag {
        WriteFlag::None => ReadWriteFlags::empty(),
        WriteFlag::Dsync => ReadWriteFlags::DSYNC,
        WriteFlag::Sync => ReadWriteFlags::SYNC,
        WriteFlag::DontCache => ReadWriteFlags::from_bits_retain(0x80),
        WriteFlag::Atomic => ReadWriteFlags::from_bits_retain(0x40),
    }
}

/// The kernel's release, as uname(2) returns it.
fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}
