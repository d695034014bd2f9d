//! Linux: reads around the page cache, reserves space and advises the kernel about a file.
//!
//! Invariant: a file system without `O_DIRECT` (`EINVAL` at open) is opened through the cache; no acknowledged record
//! is written here.

pub(crate) use crate::os::unix::store::{read_at, sync_directory, write_at};

use crate::directory::{Create, Directory, OpenHow};
use crate::os::unix::{open_with, repeat};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The file, and whether reads of it go around the cache.
pub(crate) fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
    match open_with(options.clone().custom_flags(libc::O_DIRECT), path) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // open(2) creates the file before it finds that the file system lacks O_DIRECT.
            open_with(options.clone().create_new(false).create(false), path).map(|file| (file, false))
        }
        result => result.map(|file| (file, true)),
    }
}

/// As [`open_direct`], in a directory that is held.
pub(crate) fn open_direct_in(directory: &Directory, name: &str, how: OpenHow) -> io::Result<(File, bool)> {
    match directory.open_with(name, OpenHow { flags: how.flags | libc::O_DIRECT, ..how }) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // As above: the file is there by now.
            directory.open_with(name, OpenHow { create: Create::No, ..how }).map(|file| (file, false))
        }
        result => result.map(|file| (file, true)),
    }
}

/// Pages that cannot be dropped are dirty and still to be written back.
pub(crate) fn forget_cached(file: &File) {
    advise(file, libc::POSIX_FADV_DONTNEED);
}

pub(crate) fn read_no_more(file: &File) {
    advise(file, libc::POSIX_FADV_RANDOM);
}

/// The result of the call does not matter: it is advice.
fn advise(file: &File, advice: libc::c_int) {
    // SAFETY: takes any integers; a wrong descriptor is an error, not undefined behaviour.
    let _ = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) };
}

pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    // SAFETY: fallocate takes any integers; a stale descriptor is an error, not undefined behaviour.
    match repeat(|| unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) }) {
        // Without fallocate a full disk shows when the file is filled.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => Ok(()),
        result => result.map(drop),
    }
}

/// Makes a file system that copies on write (btrfs) write this file, which must be empty, in place: otherwise every
/// commit needs new blocks, and a full disk is met by a commit instead of by the preparation of a segment. Others
/// refuse the attribute because they write in place anyway.
pub(crate) fn write_in_place(file: &File) {
    const FS_NOCOW_FL: libc::c_int = 0x0080_0000;
    // The request's number says `long`, the kernel reads and writes an `int`: room for both.
    let mut flags: [libc::c_int; 2] = [0; 2];
    // SAFETY: the request writes at most a `long`, for which the array has room.
    let got = repeat(|| unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, flags.as_mut_ptr()) });
    if got.is_ok() {
        flags[0] |= FS_NOCOW_FL;
        // SAFETY: the request reads at most a `long`, which the array holds.
        let _ = repeat(|| unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, flags.as_ptr()) });
    }
}
