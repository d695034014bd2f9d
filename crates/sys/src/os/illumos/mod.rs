//! illumos: opens rows of the method table as positional writes with the POSIX sync calls and flags.
//!
//! On ZFS each of them is a commit of the intent log, open(2) and `O_DSYNC` there.

pub(crate) mod inspect;

pub(crate) use crate::os::fallback::{crash_memory, wait};
#[cfg(feature = "testing")]
pub use crate::os::posix::mistakes;
pub(crate) use crate::os::posix::{
    DEVICE_ERRORS, WRITE_VECTOR, counters, directory, fork, is_block_device, layout, local_socket, memory,
    open_file, open_to_sync, raw_device, residency, rings, scratch, shared_memory, signal, store, thread,
};

use crate::CommitHandle;
use crate::commit::{OpenError, SyncCall, Target};
use crate::directory::Directory;
use crate::flush::Flush;
use crate::method::{Method, OpenSync, Sync, System, Write};
use crate::os::posix::Positional;
use crate::os::unix::{FSYNC, check};
use std::os::fd::AsRawFd;

pub(crate) const SYSTEM: System = System::Illumos;

const FDATASYNC: SyncCall = SyncCall {
    name: "fdatasync",
    // SAFETY: takes any integer; a stale descriptor is an error, not undefined behaviour.
    call: |file| check(unsafe { libc::fdatasync(file.as_raw_fd()) }),
};

pub(crate) const SYNC_CALLS: &[(Flush, SyncCall)] = &[(Flush::Fsync, FSYNC), (Flush::Fdatasync, FDATASYNC)];

pub(crate) fn open(
    method: &'static Method,
    target: &Target,
    directory: Option<&Directory>,
) -> Result<Box<dyn CommitHandle>, OpenError> {
    let sync = match method.sync {
        Sync::None => None,
        Sync::Fsync => Some(FSYNC),
        Sync::Fdatasync => Some(FDATASYNC),
        other => return Err(OpenError::unavailable(format!("{other:?} is not illumos'"))),
    };
    if method.write != Write::Positional {
        return Err(OpenError::unavailable("illumos rows are positional writes"));
    }
    let flags = match method.open_sync {
        OpenSync::None | OpenSync::WriteThrough => 0,
        OpenSync::Data => libc::O_DSYNC,
        OpenSync::Full => libc::O_SYNC,
    };
    let file = target.file(directory, flags)?;
    Ok(Box::new(Positional { file, path: target.path.clone(), sync }))
}
