//! Looks up by a file system's name where it keeps its data and whether it overwrites in place.
//!
//! Invariant: a name that is not in the table states nothing; the medium then follows from the device below.

use crate::durability::{Medium, WeakCalls};
use crate::planted;

/// What follows from a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    /// Where the data is kept; `None` where the devices under it decide.
    pub(super) medium: Option<Medium>,
    /// Whether overwrites go to new blocks unless an option says otherwise.
    pub(super) copy_on_write: bool,
    /// Whether files may come to share blocks, or have theirs moved, without their writer's knowledge.
    pub(super) shares_extents: bool,
    /// Calls that do less, whatever the options.
    pub(super) weak_calls: WeakCalls,
    /// Whether the option `sync` and the attribute of that name are known to sync each write.
    pub(super) can_be_synchronous: bool,
}

/// Reflinks, deduplication, snapshots, or cleaning that moves blocks. XFS and OCFS2 do so only if made with reflinks, which
/// the mount table does not say.
const SHARES_EXTENTS: [&str; 6] = ["xfs", "btrfs", "bcachefs", "zfs", "f2fs", "ocfs2"];

/// Kept in memory.
const MEMORY: [&str; 5] = ["tmpfs", "ramfs", "rootfs", "devtmpfs", "hugetlbfs"];

/// Kept by a server, another kernel or a FUSE process. Names that begin with `fuse.` belong here too.
const SERVER: [&str; 23] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "virtiofs",
    "ceph",
    "fuse",
    "fuseblk",
    "lustre",
    "afs",
    "coda",
    "beegfs",
    "glusterfs",
    "orangefs",
    "pvfs2",
    "gpfs",
    "ncpfs",
    "vboxsf",
    "vmhgfs",
    "prl_fs",
    "drvfs",
];

/// Never overwrite in place, or not always: trees of new blocks, and logs.
const COPY_ON_WRITE: [&str; 7] = ["btrfs", "zfs", "bcachefs", "nilfs2", "f2fs", "ubifs", "jffs2"];

/// File systems whose syncfs(2) ends with a flush, or at the server: seen at the device, or by the source of the kernel (`zfs`,
/// `bcachefs`, `ceph`, NFS). An overlay's is that of its upper folder. All others count as such that need not flush: those of
/// `xfs`, `vfat`, `9p` and FUSE were seen not to.
const SYNCFS_FLUSHES: [&str; 11] =
    ["ext3", "ext4", "btrfs", "f2fs", "nilfs2", "overlay", "zfs", "bcachefs", "ceph", "nfs", "nfs4"];

/// Those that sync each write where they are mounted `sync`: seen at the device.
const SYNCHRONOUS: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];

/// Without a block device of their own that `st_dev` names, yet on one.
const ON_BLOCKS: [&str; 5] = ["btrfs", "zfs", "bcachefs", "ubifs", "jffs2"];

/// Names by the magic number of statfs(2), as in `linux/magic.h` and the file systems' own sources.
const NAME_BY_MAGIC: [(u32, &str); 24] = [
    (0x0000_EF53, "ext2/3/4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0xF2F5_2010, "f2fs"),
    (0x2FC1_2FC1, "zfs"),
    (0xCA45_1A4E, "bcachefs"),
    (0x794C_7630, "overlay"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x0000_6969, "nfs"),
    (0x6573_5546, "fuse"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb3"),
    (0x0102_1997, "9p"),
    (0x00C3_6400, "ceph"),
    (0x0000_517B, "smbfs"),
    (0x5346_414F, "afs"),
    (0x6B41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x0000_564C, "ncpfs"),
    (0x0BD0_0BD0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0x786F_4256, "vboxsf"),
];

pub(super) fn name_by_magic(magic: Option<u32>) -> &'static str {
    NAME_BY_MAGIC.iter().find(|(number, _)| Some(*number) == magic).map_or("unknown", |(_, name)| name)
}

/// The name of a file system whose files lie with another machine. FUSE may be either.
pub(super) fn network_by_magic(magic: u32) -> Option<&'static str> {
    let name = name_by_magic(Some(magic));
    (SERVER.contains(&name) && name != "fuse").then_some(name)
}

/// What follows from `name`.
pub(super) fn kind(name: &str) -> Kind {
    let medium = if MEMORY.contains(&name) {
        Some(Medium::Memory)
    } else if SERVER.contains(&name) || name.starts_with("fuse.") {
        Some(Medium::Server)
    } else if ON_BLOCKS.contains(&name) {
        Some(Medium::Block)
    } else {
        None
    };
    let is_fuse = matches!(name, "fuse" | "fuseblk") || name.starts_with("fuse.");
    Kind {
        weak_calls: WeakCalls {
            syncfs: planted!(SyncfsBelieved(name == "xfs" || is_fuse), !SYNCFS_FLUSHES.contains(&name)),
            // Seen at the device too: an overlay's file has no pages.
            sync_file_range: name == "overlay" || is_fuse,
            direct_write: is_fuse,
            // Seen at the device: `docs/verified.md`.
            late_direct: name == "f2fs",
            queued_dsync: false,
            fsync: false,
        },
        can_be_synchronous: SYNCHRONOUS.contains(&name),
        medium,
        copy_on_write: COPY_ON_WRITE.contains(&name),
        shares_extents: SHARES_EXTENTS.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_numbers_have_one_name_each() {
        for (at, (magic, name)) in NAME_BY_MAGIC.iter().enumerate() {
            assert_eq!(name_by_magic(Some(*magic)), *name);
            assert!(NAME_BY_MAGIC[..at].iter().all(|(other, _)| other != magic), "{name}");
        }
        // ext4, xfs, btrfs, tmpfs, f2fs, zfs, overlay, FUSE.
        let local = [
            0xEF53,
            0x5846_5342,
            0x9123_683E,
            0x0102_1994,
            0xF2F5_2010,
            0x2FC1_2FC1,
            0x794C_7630,
            0x6573_5546,
        ];
        assert_eq!(local.map(network_by_magic), [None; 8]);
        let network = NAME_BY_MAGIC.iter().filter(|(magic, _)| network_by_magic(*magic).is_some());
        assert_eq!(network.count(), 14);
        assert_eq!(name_by_magic(Some(1)), "unknown");
        assert_eq!(name_by_magic(None), "unknown");
    }

    #[test]
    fn names_tell_the_medium_and_copy_on_write() {
        let rows = [
            ("tmpfs", Some(Medium::Memory), false, false),
            ("nfs4", Some(Medium::Server), false, false),
            ("fuse.sshfs", Some(Medium::Server), false, false),
            ("fusectl", None, false, false),
            ("btrfs", Some(Medium::Block), true, true),
            ("zfs", Some(Medium::Block), true, true),
            ("f2fs", None, true, true),
            ("xfs", None, false, true),
            ("ext4", None, false, false),
            ("overlay", None, false, false),
            ("", None, false, false),
        ];
        for (name, medium, copy_on_write, shares_extents) in rows {
            let found = kind(name);
            assert_eq!(
                (found.medium, found.copy_on_write, found.shares_extents),
                (medium, copy_on_write, shares_extents),
                "{name}"
            );
        }
        for (name, [syncfs, sync_file_range, direct_write, late_direct]) in [
            ("ext4", [false, false, false, false]),
            ("xfs", [true, false, false, false]),
            ("f2fs", [false, false, false, true]),
            ("overlay", [false, true, false, false]),
            ("nfs4", [false, false, false, false]),
            ("fuseblk", [true, true, true, false]),
            ("fuse.sshfs", [true, true, true, false]),
            ("fusectl", [true, false, false, false]),
            ("vfat", [true, false, false, false]),
            ("exfat", [true, false, false, false]),
            ("9p", [true, false, false, false]),
            ("btrfs", [false, false, false, false]),
        ] {
            assert_eq!(
                kind(name).weak_calls,
                WeakCalls { syncfs, sync_file_range, direct_write, late_direct, ..WeakCalls::default() },
                "{name}"
            );
        }
    }
}
