//! Linux: the calls on a directory's descriptor that Unix systems do not share.

use crate::os::unix::check;
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;

pub(in crate::os) use libc::__errno_location as errno_location;

/// Renames unless the new name is taken: renameat2(2) by its number, because older C libraries have no such function.
pub(in crate::os) fn rename_new(directory: RawFd, from: &CStr, to: &CStr) -> io::Result<()> {
    let (from, to, flag) = (from.as_ptr(), to.as_ptr(), libc::RENAME_NOREPLACE);
    // SAFETY: both names are zero-terminated and outlive the call.
    let code = unsafe { libc::syscall(libc::SYS_renameat2, directory, from, directory, to, flag) };
    check(if code == 0 { 0 } else { -1 })
}

/// Magic numbers of statfs(2) that stand for a file system whose files lie with another machine, as in `linux/magic.h`
/// and the file systems' own sources.
const NETWORK: [(u32, &str); 14] = [
    (0x0000_6969, "NFS"),
    (0x0000_517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB"),
    (0x0102_1997, "9p"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0000_564C, "NCP"),
    (0x00C3_6400, "Ceph"),
    (0x0BD0_0BD0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x786F_4256, "a folder shared by VirtualBox"),
];

fn network_by_magic(magic: u32) -> Option<&'static str> {
    NETWORK.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

/// The name of the network file system on which the directory lies; `None` for a local one.
pub(in crate::os) fn network_file_system(directory: RawFd) -> io::Result<Option<&'static str>> {
    // SAFETY: a structure of integers, for which zeros are valid.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is writable and outlives the call.
    check(unsafe { libc::fstatfs(directory, &raw mut stat) })?;
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the number has 32 bits, some systems extend its sign"
    )]
    #[allow(clippy::cast_sign_loss, reason = "as above")]
    let magic = stat.f_type as u32;
    Ok(network_by_magic(magic))
}

#[cfg(test)]
mod tests {
    use super::{NETWORK, network_by_magic};

    #[test]
    fn network_file_systems_are_distinguished_from_local_ones() {
        for (at, (magic, name)) in NETWORK.iter().enumerate() {
            assert_eq!(network_by_magic(*magic), Some(*name));
            assert!(NETWORK[at + 1..].iter().all(|(other, _)| other != magic), "{magic:#x}");
        }
        // ext4, xfs, btrfs, tmpfs, f2fs, zfs, overlay.
        for local in [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0xF2F5_2010, 0x2FC1_2FC1, 0x794C_7630] {
            assert_eq!(network_by_magic(local), None, "{local:#x}");
        }
    }
}
