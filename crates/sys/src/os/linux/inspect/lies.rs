//! Detects layers that ignore syncs: mount options, preloaded libraries and system-call filters.
//!
//! Swallowed syncs are tested directly, by syncs that must fail: that of no descriptor, and that of a pipe. If libc's
//! function succeeds where the bare system call fails, that function is not the C library's, whatever the name of its
//! library; if the bare system call succeeds without a descriptor, a filter in the kernel answers (`systemd-nspawn
//! --suppress-sync`).
//!
//! Invariant: every lie has its evidence; nothing is read but the one property that only the `zfs` tool reports.

use super::mounts::Mount;
use super::roots::Roots;
use crate::durability::Lie;
use crate::inspect::FoundLie;

/// Who answered with success to a sync that must fail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Swallowed {
    /// libc's function, where the system call fails.
    pub(super) by_libc: bool,
    /// The bare system call.
    pub(super) by_kernel: bool,
}

/// A mount option that is a lie, on the file systems that know it. `*` stands for all, a name that ends in `.`
/// for those that begin so.
struct Row {
    kinds: &'static [&'static str],
    names: &'static [&'static str],
    lie: Lie,
}

const OPTIONS: [Row; 6] = [
    Row { kinds: &["*"], names: &["nobarrier", "barrier=0", "barrier=none"], lie: Lie::BarriersOff },
    Row { kinds: &["f2fs"], names: &["fsync_mode=nobarrier"], lie: Lie::BarriersOff },
    Row { kinds: &["overlay"], names: &["volatile", "fsync=volatile"], lie: Lie::SyncDisabled },
    Row { kinds: &["bcachefs"], names: &["journal_flush_disabled"], lie: Lie::SyncDisabled },
    Row { kinds: &["cifs", "smb3"], names: &["nostrictsync"], lie: Lie::SyncDisabled },
    Row {
        kinds: &["fuse", "fuseblk", "fuse.", "zfs"],
        names: &["fsync=0", "nofsync", "nosync", "nosyncfile", "sync=disabled"],
        lie: Lie::SyncDisabled,
    },
];

/// Parts of the names of libraries that exist to swallow syncs.
const LIBRARIES: [&str; 3] = ["eatmydata", "nosync", "nofsync"];

pub(super) fn of_mount(mount: &Mount, roots: &Roots) -> Vec<FoundLie> {
    let options = mount.options();
    let rows = OPTIONS.iter().filter(|row| row.kinds.iter().any(|kind| is_kind(&mount.kind, kind)));
    let found = |row: &Row| {
        let named =
            |options: &[String]| options.iter().find(|option| row.names.contains(&option.as_str())).cloned();
        let at = format!("{} on {}", mount.kind, mount.point.display());
        let evidence = match (named(&options), named(&mount.unlisted_options)) {
            (Some(option), _) => format!("{at} is mounted with {option}"),
            (None, Some(option)) => format!("{at} has {option} by its superblock, which mount does not list"),
            (None, None) => return None,
        };
        Some(FoundLie { lie: row.lie, evidence })
    };
    let mut lies: Vec<_> = rows.filter_map(found).collect();
    if mount.kind == "zfs" {
        let dataset = mount.source.to_string_lossy();
        if (roots.zfs_sync)(&dataset).as_deref() == Some("disabled") {
            lies.push(FoundLie {
                lie: Lie::SyncDisabled,
                evidence: format!("the ZFS dataset {dataset} has sync=disabled"),
            });
        }
    }
    lies
}

/// The lies that this process meets: `maps` is `/proc/self/maps`, `preload` the value of `LD_PRELOAD`.
pub(super) fn of_process(maps: Option<&str>, preload: Option<&str>, swallowed: Swallowed) -> Vec<FoundLie> {
    let mut lies = Vec::new();
    if swallowed.by_kernel {
        let evidence = "the system call fsync(-1) succeeded: a filter in the kernel answers for it";
        lies.push(FoundLie { lie: Lie::SyncDisabled, evidence: evidence.to_owned() });
    }
    let library = maps.and_then(|maps| maps.lines().filter_map(mapped_file).find(|file| is_swallower(file)));
    // The loader passes over what it cannot load of LD_PRELOAD; maps shows what it did load.
    let wished = || preload.filter(|_| maps.is_none())?.split([':', ' ']).find(|file| is_swallower(file));
    let evidence = match (library, wished()) {
        (Some(library), _) => Some(format!("{library} is loaded into this process")),
        (None, Some(library)) => Some(format!("LD_PRELOAD asks for {library}")),
        (None, None) if swallowed.by_libc => {
            let evidence =
                "a sync that must fail succeeded: the function of that name is not the C library's";
            Some(evidence.to_owned())
        }
        (None, None) => None,
    };
    lies.extend(evidence.map(|evidence| FoundLie { lie: Lie::Preload, evidence }));
    lies
}

fn is_kind(kind: &str, row: &str) -> bool {
    row == "*" || kind == row || (row.ends_with('.') && kind.starts_with(row))
}

fn mapped_file(line: &str) -> Option<&str> {
    line.find('/').map(|start| &line[start..])
}

fn is_swallower(file: &str) -> bool {
    let base = file.rsplit('/').next().unwrap_or(file);
    base.contains(".so") && LIBRARIES.iter().any(|library| base.contains(library))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HONEST: Swallowed = Swallowed { by_libc: false, by_kernel: false };
    const MAPS: &str = "\
55d0-55d1 r-xp 00000000 fe:00 12 /usr/bin/seawall
7f00-7f01 r-xp 00000000 fe:00 34                  /usr/lib/x86_64-linux-gnu/libc.so.6
7f02-7f03 rw-p 00000000 00:00 0                   [stack]";

    fn mounted(kind: &str, option: &str) -> Mount {
        Mount { super_options: vec![option.to_owned()], ..Mount::unlisted((0, 1), kind) }
    }

    fn found(kind: &str, option: &str) -> Vec<Lie> {
        let roots = Roots {
            root: "/".into(),
            proc: "/proc".into(),
            sys: "/sys".into(),
            attributes: |_| 0,
            zfs_sync: |_| None,
            zpool_status: |_| None,
            dm_table: |_| None,
        };
        of_mount(&mounted(kind, option), &roots).iter().map(|found| found.lie).collect()
    }

    #[test]
    fn every_option_of_the_table_is_a_lie_on_its_file_systems_and_on_no_other() {
        for row in &OPTIONS {
            for name in row.names {
                for kind in row.kinds {
                    let kind = if *kind == "*" { "ext4" } else { kind };
                    assert_eq!(found(kind, name), [row.lie], "{kind} with {name}");
                }
                let is_everywhere = row.kinds.contains(&"*");
                assert_eq!(!found("minix", name).is_empty(), is_everywhere, "minix with {name}");
            }
        }
        for honest in ["barrier=1", "barrier", "nobarriers", "sync=standard", "fsync=strict", "volatiles", ""]
        {
            for kind in ["ext4", "overlay", "zfs", "fuse.x"] {
                assert_eq!(found(kind, honest), [], "{kind} with {honest}");
            }
        }
    }

    #[test]
    fn a_swallowing_library_is_named_and_an_honest_process_is_not_accused() {
        let eaten = format!("{MAPS}\n7f04-7f05 r-xp 00000000 fe:00 56 /usr/lib/libeatmydata.so.1.3.0");
        let nosync = format!("{MAPS}\n7f04-7f05 r-xp 00000000 fe:00 56 /usr/lib64/nosync/nosync.so");
        let folder = format!("{MAPS}\n7f04-7f05 r-xp 00000000 fe:00 56 /home/eatmydata/journal");
        let libc_lies = Swallowed { by_libc: true, by_kernel: false };
        let kernel_lies = Swallowed { by_libc: false, by_kernel: true };
        let rows: [(_, _, _, &[Lie]); 9] = [
            (Some(MAPS), None, HONEST, &[]),
            (Some(eaten.as_str()), None, HONEST, &[Lie::Preload]),
            (Some(eaten.as_str()), Some("libeatmydata.so"), libc_lies, &[Lie::Preload]),
            (Some(nosync.as_str()), None, HONEST, &[Lie::Preload]),
            (Some(folder.as_str()), None, HONEST, &[]),
            (Some(MAPS), Some("/absent/libeatmydata.so"), HONEST, &[]),
            (None, Some("libfoo.so:libeatmydata.so"), HONEST, &[Lie::Preload]),
            (Some(MAPS), None, libc_lies, &[Lie::Preload]),
            (Some(MAPS), None, kernel_lies, &[Lie::SyncDisabled]),
        ];
        for (maps, preload, swallowed, expected) in rows {
            let lies = of_process(maps, preload, swallowed);
            let found: Vec<_> = lies.iter().map(|lie| lie.lie).collect();
            assert_eq!(found, expected, "{maps:?} {preload:?} {swallowed:?}");
            assert!(lies.iter().all(|lie| !lie.evidence.is_empty()));
        }
    }
}
