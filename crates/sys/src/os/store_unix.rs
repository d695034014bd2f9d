//! Unix: reads around the page cache, reserves space and syncs directories.
//!
//! Invariant: a file system without `O_DIRECT` (`EINVAL` at open) is opened through the cache; no acknowledged record
//! is written here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[cfg(target_os = "linux")]
use crate::directory::Make;
use crate::directory::{Directory, Wish};

pub(crate) fn read_at(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    file.read_at(buf, offset)
}

pub(crate) fn write_at(file: &File, offset: u64, buf: &[u8]) -> io::Result<usize> {
    file.write_at(buf, offset)
}

pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(target_os = "linux")]
/// The file, and whether reads of it go around the cache.
pub(crate) fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
    use std::os::unix::fs::OpenOptionsExt;
    match options.clone().custom_flags(libc::O_DIRECT).open(path) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // open(2) creates the file before it finds that the file system lacks O_DIRECT.
            options.clone().create_new(false).create(false).open(path).map(|file| (file, false))
        }
        result => result.map(|file| (file, true)),
    }
}

/// As [`open_direct`], in a directory that is held.
#[cfg(target_os = "linux")]
pub(crate) fn wish_direct(directory: &Directory, name: &str, wish: Wish) -> io::Result<(File, bool)> {
    match directory.wish(name, Wish { flags: wish.flags | libc::O_DIRECT, ..wish }) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // As above: the file is there by now.
            directory.wish(name, Wish { make: Make::No, ..wish }).map(|file| (file, false))
        }
        result => result.map(|file| (file, true)),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn wish_direct(directory: &Directory, name: &str, wish: Wish) -> io::Result<(File, bool)> {
    directory.wish(name, wish).map(|file| (file, false))
}

/// Pages that cannot be dropped are dirty, and those the disk will get.
#[cfg(target_os = "linux")]
pub(crate) fn forget_cached(file: &File) {
    advise(file, libc::POSIX_FADV_DONTNEED);
}

#[cfg(target_os = "linux")]
pub(crate) fn read_no_more(file: &File) {
    advise(file, libc::POSIX_FADV_RANDOM);
}

/// What the call answers does not matter: it is advice.
#[cfg(target_os = "linux")]
fn advise(file: &File, advice: libc::c_int) {
    use std::os::fd::AsRawFd;
    // SAFETY: takes any integers; a wrong descriptor is an error, not undefined behaviour.
    let _ = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn forget_cached(_file: &File) {}

#[cfg(not(target_os = "linux"))]
pub(crate) fn read_no_more(_file: &File) {}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<(File, bool)> {
    options.open(path).map(|file| (file, false))
}

#[cfg(target_os = "linux")]
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let length = libc::off_t::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    loop {
        // SAFETY: fallocate takes any integers; a stale descriptor is an error, not undefined behaviour.
        let code = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) };
        match super::unix::check(code) {
            // Without fallocate a full disk shows when the file is filled.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Asks a file system that copies on write (btrfs) to write this file, which must be empty, in place: otherwise every
/// commit needs new blocks, and a full disk is met by a commit instead of by the preparation of a segment. Others
/// refuse the attribute because they write in place anyway.
#[cfg(target_os = "linux")]
pub(crate) fn write_in_place(file: &File) {
    use std::os::fd::AsRawFd;
    const FS_NOCOW_FL: libc::c_int = 0x0080_0000;
    // The request's number says `long`, the kernel reads and writes an `int`: room for both.
    let mut flags: [libc::c_int; 2] = [0; 2];
    // SAFETY: the request writes at most a `long`, for which the array has room.
    let got = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, flags.as_mut_ptr()) };
    if got == 0 {
        flags[0] |= FS_NOCOW_FL;
        // SAFETY: the request reads at most a `long`, which the array holds.
        let _ = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, flags.as_ptr()) };
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn write_in_place(_: &File) {}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "the same shape on every system")]
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let _ = (file, bytes);
    Ok(())
}
