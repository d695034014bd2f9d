//! illumos: opens rows of the method table as positional writes with the POSIX sync calls and flags.
//!
//! On ZFS each of them is a commit of the intent log, open(2) and `O_DSYNC` there.

pub(crate) mod inspect;
pub(crate) mod journal;
pub(crate) mod thread;

pub(crate) use super::no_counters as counters;
use super::posix::Positional;
use super::unix::{FSYNC, SyncCall, check};
use crate::Commit;
use crate::commit::{OpenError, Target};
use crate::directory::Directory;
use crate::method::{Method, OpenSync, Sync, System, Write};

pub(crate) const SYSTEM: System = System::Illumos;

const FDATASYNC: SyncCall = SyncCall {
    name: "fdatasync",
    // SAFETY: takes any integer; a stale descriptor is an error, not undefined behaviour.
    call: |fd| check(unsafe { libc::fdatasync(fd) }),
};

pub(crate) fn open(
    method: &'static Method,
    target: &Target,
    directory: Option<&Directory>,
) -> Result<Box<dyn Commit>, OpenError> {
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
