//! Walks from a mount's file system down to its leaf disks.
//!
//! ```text
//!   mount ── st_dev, or the source ──> device ── partition ──────> its disk
//!     │                                  ├────── slaves/ ────────> dm, md, bcache: each of them
//!     │                                  ├────── several paths ──> NVMe: each of them
//!     │                                  ├────── loop ───────────> the mount that its image is on, and so on
//!     │                                  └────── none of these ──> a leaf
//!     ├── btrfs ──> every device of /sys/fs/btrfs/<uuid>/devices
//!     ├── zfs ────> the devices that `zpool status` names
//!     └── overlay > the mount that its upperdir is on
//! ```
//!
//! Invariants: the walk is bounded for any links; each device is listed once, above the devices below it; a property
//! of a lower file system (memory, copy on write, a lie) is one of all above it, because their syncs end there.

use super::calls;
use super::devices;
use super::ext4;
use super::kinds::{Kind, kind};
use super::lies;
use super::mounts::{self, Key, Mount};
use super::roots::{Roots, names, text};
use crate::durability::{DeviceCache, Medium, WeakCalls};
use crate::inspect::{Device, FoundLie};
use crate::planted;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Deeper than any stack that works; a bound against links in a circle.
const DEPTH_MAX: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Below {
    pub(super) medium: Medium,
    pub(super) copy_on_write: bool,
    pub(super) shares_extents: bool,
    pub(super) weak_calls: WeakCalls,
    pub(super) synchronous: bool,
}

pub(super) struct Walk<'a> {
    roots: &'a Roots,
    mounts: &'a [Mount],
    depth: usize,
    /// What was found under each of `devices`.
    below: Vec<Below>,
    pub(super) devices: Vec<Device>,
    pub(super) lies: Vec<FoundLie>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(roots: &'a Roots, mounts: &'a [Mount]) -> Self {
        Self { roots, mounts, depth: 0, below: Vec::new(), devices: Vec::new(), lies: Vec::new() }
    }

    /// Walks down from `mount`; `folder` is the path on it that matters.
    pub(super) fn mount(&mut self, mount: &Mount, folder: &Path) -> Below {
        self.mount_and_tops(mount, folder).0
    }

    /// Walks down from the device whose number is `number`.
    pub(super) fn device(&mut self, number: (u32, u32)) -> Option<Below> {
        let folder = self.roots.block_by_number(number)?;
        Some(self.block(&folder).1)
    }

    /// Also returns the names of the devices that the mount stands on directly.
    fn mount_and_tops(&mut self, mount: &Mount, folder: &Path) -> (Below, Vec<String>) {
        if self.depth >= DEPTH_MAX {
            return (UNKNOWN, Vec::new());
        }
        self.depth += 1;
        let own_devices = devices_of(self.roots, mount);
        let first = own_devices.first().map(|device| devices::name(device)).unwrap_or_default();
        let unlisted_options = planted!(SuperblockUnread, ext4::options(self.roots, mount, &first));
        let mount = &Mount { unlisted_options, ..mount.clone() };
        for lie in lies::of_mount(mount, self.roots) {
            self.add_lie(lie);
        }
        let known = kind(&mount.kind);
        let (below, tops) = match lower_folder(mount) {
            Some(lower) => self.path(&lower).unwrap_or((UNKNOWN, Vec::new())),
            None => self.blocks(&own_devices),
        };
        self.depth -= 1;
        let medium = match known.medium {
            Some(Medium::Block) if tops.is_empty() => Medium::Block,
            Some(Medium::Block) | None => below.medium,
            Some(medium) => medium,
        };
        let copy_on_write = below.copy_on_write || self.copies(mount, known, folder);
        let shares_extents = below.shares_extents || known.shares_extents;
        let weak_calls = self.weak_calls(mount, known, folder).or(below.weak_calls);
        let attribute = (self.roots.attributes)(folder) & calls::SYNCHRONOUS != 0;
        let here = known.can_be_synchronous && (mount.has("sync") || attribute);
        let synchronous = planted!(SyncMountUnseen, here) || below.synchronous;
        (Below { medium, copy_on_write, shares_extents, weak_calls, synchronous }, tops)
    }

    fn weak_calls(&self, mount: &Mount, known: Kind, folder: &Path) -> WeakCalls {
        let attributes = (self.roots.attributes)(folder);
        let journaled = mount.has("data=journal") || attributes & calls::JOURNALED_DATA != 0;
        let is_btrfs = mount.kind == "btrfs";
        // Files with checksums: a buffer that changes on the way would spoil them, so that it is copied first.
        let checksummed = is_btrfs
            && self.copies(mount, known, folder)
            && !mount.has("nodatasum")
            && self.roots.is_kernel_at_least((6, 15));
        let checksummed = planted!(ChecksumsUnseen, checksummed);
        let direct_write = journaled || checksummed || attributes & calls::ENCRYPTED != 0;
        // Cut by cut: lost on 6.1, kept on 6.12 (`docs/verified.md`).
        let queued_dsync = is_btrfs && !self.roots.is_kernel_at_least((6, 12));
        let fsync = ext4::leaves_flush_out(self.roots, &mount.unlisted_options);
        let here = WeakCalls {
            sync_file_range: journaled,
            direct_write,
            queued_dsync,
            fsync,
            ..WeakCalls::default()
        };
        let mut weak = known.weak_calls.or(here);
        // ext2 by the driver of ext4, which alone shows its options.
        weak.syncfs &= mount.kind != "ext2" || mount.unlisted_options.is_empty();
        weak
    }

    fn copies(&self, mount: &Mount, known: Kind, folder: &Path) -> bool {
        let no_cow = (self.roots.attributes)(folder) & calls::NO_COPY_ON_WRITE != 0;
        let in_place = mount.has("nodatacow");
        known.copy_on_write && !(mount.kind == "btrfs" && (in_place || no_cow))
    }

    /// Walks down from the mount that an absolute path is on, if the path is to be seen from here at all: a
    /// container sees the names of its host's images and folders, but not these.
    fn path(&mut self, path: &Path) -> Option<(Below, Vec<String>)> {
        let deleted = path.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(Path::new);
        let path = deleted.unwrap_or(path);
        let real = self.roots.below_root(path);
        let is_seen = if deleted.is_some() { real.parent()?.exists() } else { real.exists() };
        if !is_seen {
            return None;
        }
        let mounts = self.mounts;
        let mount = mounts::find(mounts, &Key { id: None, device: None, path })?;
        Some(self.mount_and_tops(mount, &real))
    }

    fn blocks(&mut self, folders: &[PathBuf]) -> (Below, Vec<String>) {
        let found: Vec<_> = folders.iter().map(|folder| self.block(folder)).collect();
        let below = found.iter().map(|(_, below)| *below).reduce(Below::worse).unwrap_or(UNKNOWN);
        (below, found.into_iter().map(|(name, _)| name).collect())
    }

    fn block(&mut self, folder: &Path) -> (String, Below) {
        let name = devices::name(folder);
        if let Some(known) = self.devices.iter().position(|device| device.name == name) {
            return (name, self.below[known]);
        }
        let at = self.devices.len();
        self.devices.push(devices::read(self.roots, folder));
        self.below.push(UNKNOWN);
        if let Some(lie) = devices::hidden_cache(folder) {
            self.add_lie(lie);
        }
        let (mut below, stands_on) = if self.depth < DEPTH_MAX {
            self.depth += 1;
            let under = self.under(folder, &name);
            self.depth -= 1;
            under
        } else {
            (BLOCK, Vec::new())
        };
        let has_cache = |name: &String| {
            let below = self.devices.iter().position(|device| device.name == *name);
            below.is_some_and(|below| self.has_cache(below, 0))
        };
        if self.devices[at].write_cache == DeviceCache::WriteThrough
            && !devices::is_partition(folder)
            && let Some(below) = planted!(QueueAboveBelieved, stands_on.iter().find(|below| has_cache(below)))
        {
            let lie = devices::hides_cache(&name, &format!("a write-back cache is below it, at {below}"));
            self.add_lie(lie);
            self.devices[at].write_cache = DeviceCache::WriteBack;
        }
        self.devices[at].stands_on = stands_on;
        // Writes end in the image's page cache whatever the loop device says; its other calls are not those from above.
        if below.weak_calls.direct_write {
            self.devices[at].direct_io = Some(false);
        }
        (below.weak_calls, below.synchronous) = (WeakCalls::default(), false);
        self.below[at] = below;
        (name, below)
    }

    /// Whether a device has a volatile cache, or one that it stands on. What `md` claims is not its own.
    fn has_cache(&self, at: usize, depth: usize) -> bool {
        let device = &self.devices[at];
        let own = device.write_cache == DeviceCache::WriteBack
            && (device.kind != "md" || device.stands_on.is_empty());
        let below = |name: &String| self.devices.iter().position(|device| device.name == *name);
        own || depth < DEPTH_MAX
            && device.stands_on.iter().filter_map(below).any(|below| self.has_cache(below, depth + 1))
    }

    fn under(&mut self, folder: &Path, name: &str) -> (Below, Vec<String>) {
        if devices::is_partition(folder) {
            return self.blocks(&[devices::disk_folder(folder)]);
        }
        if let Some(image) = text(&folder.join("loop/backing_file")) {
            let image = Path::new(&image);
            return match device_by_path(self.roots, image) {
                Some(device) => self.blocks(&[device]),
                None => self.path(image).unwrap_or((UNKNOWN, Vec::new())),
            };
        }
        let slaves: Vec<_> = names(&folder.join("slaves"))
            .iter()
            .filter_map(|slave| {
                let link = fs::canonicalize(folder.join("slaves").join(slave)).ok();
                link.or_else(|| self.roots.block_by_name(slave))
            })
            .filter(|slave| slave != folder)
            .collect();
        if !slaves.is_empty() {
            let (below, names) = self.blocks(&slaves);
            let moves = planted!(ThinVolumeBelieved, devices::remaps(self.roots, folder, &slaves));
            let moves = moves || below.shares_extents;
            return (Below { shares_extents: moves, ..below }, names);
        }
        let paths = devices::paths_of_head(self.roots, name);
        if !paths.is_empty() {
            return self.blocks(&paths);
        }
        let in_memory = devices::is_memory(self.roots, folder);
        (if in_memory { Below { medium: Medium::Memory, ..BLOCK } } else { BLOCK }, Vec::new())
    }

    fn add_lie(&mut self, lie: FoundLie) {
        if !self.lies.contains(&lie) {
            self.lies.push(lie);
        }
    }
}

pub(super) const UNKNOWN: Below = Below { medium: Medium::Unknown, ..BLOCK };
const BLOCK: Below = Below {
    medium: Medium::Block,
    copy_on_write: false,
    shares_extents: false,
    weak_calls: WeakCalls {
        syncfs: false,
        sync_file_range: false,
        direct_write: false,
        late_direct: false,
        queued_dsync: false,
        fsync: false,
    },
    synchronous: false,
};

impl Below {
    /// Of two that both take part, what can be relied on.
    fn worse(self, other: Self) -> Self {
        let by_trust = [Medium::Memory, Medium::Server, Medium::Unknown, Medium::Block];
        let is_either = |medium: &Medium| [self.medium, other.medium].contains(medium);
        Self {
            medium: by_trust.into_iter().find(is_either).unwrap_or(Medium::Unknown),
            copy_on_write: self.copy_on_write || other.copy_on_write,
            shares_extents: self.shares_extents || other.shares_extents,
            weak_calls: self.weak_calls.or(other.weak_calls),
            // Only what both do can be relied on.
            synchronous: self.synchronous && other.synchronous,
        }
    }
}

fn lower_folder(mount: &Mount) -> Option<PathBuf> {
    let lower = match mount.kind.as_str() {
        "overlay" => PathBuf::from(without_backslashes(mount.super_value("upperdir")?)),
        "ecryptfs" => mount.source.clone(),
        _ => return None,
    };
    lower.is_absolute().then_some(lower)
}

/// Undoes overlayfs's own escapes, `\,` and `\:`, which the mount table repeats as they were given.
fn without_backslashes(path: &str) -> String {
    let mut escaped = false;
    let is_kept = |character: &char| {
        escaped = *character == '\\' && !escaped;
        !escaped
    };
    path.chars().filter(is_kept).collect()
}

/// The folders of the devices that the mount itself names.
fn devices_of(roots: &Roots, mount: &Mount) -> Vec<PathBuf> {
    let source = mount.source.to_string_lossy();
    let by_path = |path: &str| device_by_path(roots, Path::new(path));
    let mut folders: Vec<PathBuf> = match mount.kind.as_str() {
        "overlay" => Vec::new(),
        "btrfs" => by_path(&source).map(|first| btrfs_members(roots, first)).unwrap_or_default(),
        "bcachefs" => source.split(':').filter_map(by_path).collect(),
        "zfs" => {
            let pool = source.split(['/', '@']).next().unwrap_or_default();
            let status = (roots.zpool_status)(pool).unwrap_or_default();
            pool_members(&status).into_iter().filter_map(by_path).collect()
        }
        _ if mount.device.0 != 0 => roots.block_by_number(mount.device).into_iter().collect(),
        _ => by_path(&source).into_iter().collect(),
    };
    if mount.kind == "xfs" {
        folders.extend(["logdev", "rtdev"].into_iter().filter_map(|name| by_path(mount.super_value(name)?)));
    }
    folders
}

/// All members of the btrfs file system that `first` is one of.
fn btrfs_members(roots: &Roots, first: PathBuf) -> Vec<PathBuf> {
    let all = roots.sys.join("fs/btrfs");
    let name = devices::name(&first);
    let members = names(&all).into_iter().map(|uuid| names(&all.join(uuid).join("devices")));
    let ours = members.into_iter().find(|members| members.contains(&name)).unwrap_or_default();
    let ours: Vec<_> = ours.iter().filter_map(|name| roots.block_by_name(name)).collect();
    if ours.is_empty() { vec![first] } else { ours }
}

/// The devices in `zpool status -LP`, without those that hold no acknowledged data: caches and spares.
fn pool_members(status: &str) -> Vec<&str> {
    let words = status.lines().filter_map(|line| line.split_whitespace().next());
    words
        .take_while(|word| !["cache", "spares"].contains(word))
        .filter(|word| word.starts_with("/dev/"))
        .collect()
}

/// The folder of the block device that a path such as `/dev/mapper/x` names: by its number if the node is
/// there, else by the name itself.
fn device_by_path(roots: &Roots, path: &Path) -> Option<PathBuf> {
    let below_dev = path.strip_prefix("/dev").ok()?.to_str()?;
    let node = fs::metadata(roots.below_root(path)).ok().filter(|node| node.file_type().is_block_device());
    if let Some(folder) = node.and_then(|node| roots.block_by_number(split(node.rdev()))) {
        return Some(folder);
    }
    if let Some(mapped) = below_dev.strip_prefix("mapper/") {
        let class = roots.sys.join("class/block");
        let is_mapped = |name: &&String| text(&class.join(name).join("dm/name")).as_deref() == Some(mapped);
        return roots.block_by_name(names(&class).iter().find(is_mapped)?);
    }
    roots.block_by_name(&below_dev.replace('/', "!"))
}

pub(super) fn split(device: u64) -> (u32, u32) {
    (libc::major(device), libc::minor(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_and_spares_of_a_pool_hold_nothing_acknowledged() {
        let status = "\
  pool: tank
 state: ONLINE
config:

\tNAME                STATE     READ WRITE CKSUM
\ttank                ONLINE       0     0     0
\t  mirror-0          ONLINE       0     0     0
\t    /dev/sda1       ONLINE       0     0     0
\t    /dev/sdb1       ONLINE       0     0     0
\tlogs
\t  /dev/nvme0n1p1    ONLINE       0     0     0
\tcache
\t  /dev/nvme1n1      ONLINE       0     0     0
";
        assert_eq!(pool_members(status), ["/dev/sda1", "/dev/sdb1", "/dev/nvme0n1p1"]);
        assert!(pool_members("no pools available").is_empty());
    }

    #[test]
    fn overlays_own_escapes_are_undone() {
        for (given, meant) in [("/a/b", "/a/b"), ("/a\\,b", "/a,b"), ("/a\\\\b", "/a\\b"), ("/a\\", "/a")] {
            assert_eq!(without_backslashes(given), meant);
        }
    }

    #[test]
    fn the_least_reliable_medium_decides() {
        let memory = Below { medium: Medium::Memory, ..BLOCK };
        let tree = Below { copy_on_write: true, shares_extents: true, ..BLOCK };
        assert_eq!(memory.worse(tree), Below { medium: Medium::Memory, ..tree });
        assert_eq!(BLOCK.worse(UNKNOWN), UNKNOWN);
    }
}
