//! Linux: reads around the page cache, reserves space and advises the kernel about a file.
//!
//! Invariant: a file system without `O_DIRECT` (`EINVAL` at open) is opened through the cache; no acknowledged record
//! is written here.

pub(crate) use crate::os::unix::store::{read_at, sync_directory, write_at};

use crate::directory::{Create, Directory, OpenHow};
use crate::os::unix::{open_with, repeat};
use rustix::fs::{Advice, FallocateFlags, IFlags, fadvise, fallocate, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
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
    advise(file, Advice::DontNeed);
}

pub(crate) fn read_no_more(file: &File) {
    advise(file, Advice::Random);
}

/// The result of the call does not matter: it is advice.
fn advise(file: &File, advice: Advice) {
    let _ = fadvise(file, 0, None, advice);
}

pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    match rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, bytes)) {
        // Without fallocate a full disk shows when the file is filled.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        result => Ok(result?),
    }
}

/// Makes a file system that copies on write (btrfs) write this file, which must be empty, in place: otherwise every
/// commit needs new blocks, and a full disk is met by a commit instead of by the preparation of a segment. Others
/// refuse the attribute because they write in place anyway.
pub(crate) fn write_in_place(file: &File) {
    if let Ok(flags) = repeat(|| ioctl_getflags(file)) {
        let _ = repeat(|| ioctl_setflags(file, flags | IFlags::NOCOW));
    }
}
