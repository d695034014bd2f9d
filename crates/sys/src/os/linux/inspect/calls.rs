//! Makes the system calls of inspection, for the facts that no file in `/proc` shows.
//!
//! Invariant: no call changes anything.

use super::lies::Swallowed;
use crate::error::{Error, Result};
use crate::os::unix::repeat;
use rustix::fs::{StatFs, StatVfsMountFlags};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(super) struct Space {
    pub(super) block_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) total_bytes: u64,
    pub(super) read_only: bool,
}

/// statvfs(3).
pub(super) fn space(path: &Path) -> Result<Space> {
    let stat = repeat(|| rustix::fs::statvfs(path)).map_err(|error| Error::new("statvfs", path, error))?;
    let unit = if stat.f_frsize == 0 { stat.f_bsize } else { stat.f_frsize };
    Ok(Space {
        block_bytes: stat.f_bsize,
        free_bytes: unit.saturating_mul(stat.f_bavail),
        total_bytes: unit.saturating_mul(stat.f_blocks),
        read_only: stat.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

/// The magic number that statfs(2) gives for the file system of `path`.
pub(super) fn magic(path: &Path) -> Option<u32> {
    repeat(|| rustix::fs::statfs(path)).ok().map(|stat| number(&stat))
}

/// The same for that of an open file.
pub(in crate::os) fn magic_of(file: &File) -> io::Result<u32> {
    repeat(|| rustix::fs::fstatfs(file)).map(|stat| number(&stat))
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unnecessary_cast,
    reason = "the number has 32 bits, and some systems extend its sign"
)]
fn number(stat: &StatFs) -> u32 {
    stat.f_type as u32
}

/// The id of the mount that a path is on, as `/proc/self/mountinfo` counts them.
pub(super) fn mount_id(path: &Path, proc: &Path) -> Option<u64> {
    let handle =
        OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path).ok()?;
    let info = std::fs::read_to_string(proc.join(format!("self/fdinfo/{}", handle.as_raw_fd()))).ok()?;
    info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// The attribute "no copy on write" (`chattr +C`), which new files in a folder inherit as they do the two below.
pub(super) const NO_COPY_ON_WRITE: u32 = 0x0080_0000;
/// The attribute "data journaled" (`chattr +j`).
pub(super) const JOURNALED_DATA: u32 = 0x0000_4000;
/// The attribute "encrypted" (fscrypt).
pub(super) const ENCRYPTED: u32 = 0x0000_0800;

/// The attribute "synchronous" (`chattr +S`).
pub(super) const SYNCHRONOUS: u32 = 0x0000_0008;

/// The attributes of a folder or file (`lsattr`), 0 where there are none.
pub(super) fn attributes(path: &Path) -> u32 {
    // Without O_NONBLOCK a pipe would wait here for its writer.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path);
    let Ok(file) = opened else { return 0 };
    repeat(|| rustix::fs::ioctl_getflags(&file)).map_or(0, |flags| flags.bits())
}

/// A sync call that must fail; the result is its return code.
type Sync = fn(RawFd) -> libc::c_long;

/// Each sync call as libc offers it, and bare.
const SYNCS: [(Sync, Sync); 2] = [
    (
        // SAFETY: takes any integer; a wrong descriptor is an error, not undefined behaviour.
        |fd| libc::c_long::from(unsafe { libc::fsync(fd) }),
        // SAFETY: as above; the number goes with its one integer argument.
        |fd| unsafe { libc::syscall(libc::SYS_fsync, fd) },
    ),
    (
        // SAFETY: as above.
        |fd| libc::c_long::from(unsafe { libc::fdatasync(fd) }),
        // SAFETY: as above.
        |fd| unsafe { libc::syscall(libc::SYS_fdatasync, fd) },
    ),
];

/// Which syncs succeed that must fail: of no descriptor, and of a pipe, which cannot be synced.
pub(super) fn swallowed_syncs() -> Swallowed {
    let pipe = io::pipe().ok();
    let descriptors = [Some(-1), pipe.as_ref().map(|(reader, _)| reader.as_raw_fd())];
    let differs = |fd: RawFd| SYNCS.iter().any(|(libc, bare)| libc(fd) == 0 && bare(fd) != 0);
    Swallowed {
        by_libc: descriptors.into_iter().flatten().any(differs),
        by_kernel: SYNCS.iter().any(|(_, bare)| bare(-1) == 0),
    }
}
