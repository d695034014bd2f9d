//! illumos: the calls on a directory's descriptor that Unix systems do not share.

use crate::os::unix::{check, text};
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;

pub(in crate::os) use libc::___errno as errno_location;

/// illumos has no rename that leaves alone what is there.
pub(in crate::os) fn rename_new(_: RawFd, _: &CStr, _: &CStr) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The name of the network file system on which the directory lies; `None` for a local one.
pub(in crate::os) fn network_file_system(directory: RawFd) -> io::Result<Option<&'static str>> {
    // SAFETY: a structure of integers, for which zeros are valid.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is writable and outlives the call.
    check(unsafe { libc::fstatvfs(directory, &raw mut stat) })?;
    Ok(match text(&stat.f_basetype).as_str() {
        "nfs" | "nfs3" | "nfs4" => Some("NFS"),
        "smbfs" => Some("SMB"),
        _ => None,
    })
}
