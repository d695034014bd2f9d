//! Windows under Wine: identifies the Linux host's file system behind a path.
//!
//! It reads the folder's `st_dev` and `/proc/self/mountinfo` through the path prefix `\\?\unix\`. Together they name
//! what is mounted, where Wine itself would report `NTFS`.
//!
//! ```text
//!   FSCTL_GET_OBJECT_ID under Wine     st_dev u64 | st_ino u64 | …           (Windows: an object's own number)
//!   a line of mountinfo, proc(5)       36 35 98:0 /root /mount options … - type source super-options
//! ```
//!
//! Invariant: nothing is concluded unless the second half of the answer is the file's index, which is `st_ino` under
//! Wine: otherwise a Wine that answers differently would yield the wrong file system.

use super::call::check;
use super::storage::ask;
use crate::durability::{Lie, Medium};
use crate::inspect::FoundLie;
use std::fs::{File, OpenOptions};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, GetFileInformationByHandle,
};
use windows_sys::Win32::System::Ioctl::FSCTL_GET_OBJECT_ID;

const MOUNTINFO: &str = r"\\?\unix\proc\self\mountinfo";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) kind: String,
    pub(super) source: String,
    /// The super block's options; those of a single mount point are not among them.
    pub(super) options: Vec<String>,
}

/// The mount that holds `folder`; `None` if the host is not Linux, or the file system numbers its devices by
/// itself, as btrfs does.
pub(super) fn mount(folder: &Path) -> Option<Mount> {
    let folder = OpenOptions::new().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(folder).ok()?;
    let answer = ask(&folder, FSCTL_GET_OBJECT_ID, &[])?;
    let number = |offset: usize| answer.get(offset..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk));
    let (device, inode) = (number(0)?, number(8)?);
    if inode != file_index(&folder)? {
        return None;
    }
    let mountinfo = std::fs::read_to_string(MOUNTINFO).ok()?;
    find(&mountinfo, device)
}

fn file_index(file: &File) -> Option<u64> {
    let mut information = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open for as long as `file` is borrowed, and the structure is live.
    check(unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut information) }).ok()?;
    Some((u64::from(information.nFileIndexHigh) << 32) | u64::from(information.nFileIndexLow))
}

/// The first mount of the device with this `st_dev`.
fn find(mountinfo: &str, device: u64) -> Option<Mount> {
    // makedev(3) of the GNU C library: the low bits of both numbers first, then the rest of each.
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & 0xffff_f000);
    let minor = (device & 0xff) | ((device >> 12) & 0xffff_ff00);
    let wanted = format!("{major}:{minor}");
    let line = mountinfo.lines().find(|line| line.split(' ').nth(2) == Some(wanted.as_str()))?;
    let mut fields = line.split_once(" - ")?.1.split(' ');
    let (kind, source) = (fields.next()?.to_owned(), fields.next()?.to_owned());
    let options = fields.next().unwrap_or_default().split(',').map(str::to_owned).collect();
    Some(Mount { kind, source, options })
}

impl Mount {
    /// Where it keeps its data, as far as its type shows.
    pub(super) fn medium(&self) -> Medium {
        match self.kind.as_str() {
            "tmpfs" | "ramfs" => Medium::Memory,
            "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" | "afs" => Medium::Server,
            kind if kind.starts_with("fuse") => Medium::Server,
            _ if self.source.starts_with("/dev/") => Medium::Block,
            _ => Medium::Unknown,
        }
    }

    pub(super) fn copies_on_write(&self) -> bool {
        matches!(self.kind.as_str(), "btrfs" | "zfs" | "bcachefs")
    }

    /// The options that turn the host's fsync, and with it `FlushFileBuffers`, into less.
    pub(super) fn lies(&self) -> impl Iterator<Item = FoundLie> {
        const OPTIONS: [(&str, Lie); 3] = [
            ("nobarrier", Lie::BarriersOff),
            ("barrier=0", Lie::BarriersOff),
            ("volatile", Lie::SyncDisabled),
        ];
        let found = OPTIONS.into_iter().filter(|(option, _)| self.options.iter().any(|here| here == option));
        found.map(|(option, lie)| FoundLie {
            lie,
            evidence: format!("{} is mounted with {option}", self.kind),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,nobarrier
23 22 0:22 / /dev/shm rw - tmpfs tmpfs rw,size=24682416k
24 22 0:300 / /merged rw - overlay overlay rw,volatile
25 22 259:65537 / /data rw,noatime master:3 - xfs /dev/nvme0n1p1 rw
";

    #[test]
    fn a_device_number_finds_its_mount() {
        let found = |device| {
            find(MOUNTS, device).map(|mount| {
                let lies: Vec<Lie> = mount.lies().map(|found| found.lie).collect();
                (mount.kind.clone(), mount.medium(), lies)
            })
        };
        let block = |kind: &str, lies| Some((kind.to_owned(), Medium::Block, lies));
        assert_eq!(found(0xfe00), block("ext4", vec![Lie::BarriersOff]));
        assert_eq!(found(0x16), Some(("tmpfs".to_owned(), Medium::Memory, vec![])));
        assert_eq!(found(0x10_002c), Some(("overlay".to_owned(), Medium::Unknown, vec![Lie::SyncDisabled])));
        assert_eq!(found(0x1001_0301), block("xfs", vec![]), "minor numbers above 255 lie around the major");
        assert_eq!(found(0xfe01), None);
    }
}
