//! macOS: the calls on a directory's descriptor that Unix systems do not share.

use crate::os::unix::check;
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;

pub(in crate::os) use libc::__error as errno_location;

/// Renames unless the new name is taken.
pub(in crate::os) fn rename_new(directory: RawFd, from: &CStr, to: &CStr) -> io::Result<()> {
    let (from, to, flag) = (from.as_ptr(), to.as_ptr(), libc::RENAME_EXCL);
    // SAFETY: both names are zero-terminated and outlive the call.
    check(unsafe { libc::renameatx_np(directory, from, directory, to, flag) })
}

/// The name of the network file system on which the directory lies; `None` for a local one.
pub(in crate::os) fn network_file_system(directory: RawFd) -> io::Result<Option<&'static str>> {
    // SAFETY: a structure of integers, for which zeros are valid.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is writable and outlives the call.
    check(unsafe { libc::fstatfs(directory, &raw mut stat) })?;
    let local = stat.f_flags & u32::try_from(libc::MNT_LOCAL).unwrap_or(0) != 0;
    Ok((!local).then_some("a network file system"))
}
