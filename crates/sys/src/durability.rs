//! Computes the durability class of an acknowledged write from its method's reach and the storage stack below.
//!
//! ```text
//!   reach of the calls          what is under them                                      class
//!   ------------------          ------------------                                      -----
//!   kernel memory               anything                                                process crash
//!   device, no metadata         extents must still be found: appending, unwritten,      process crash
//!                               copy-on-write, extents that may be shared
//!   device, or stable with       a loop device whose image is in the page cache            process crash
//!   barriers off
//!   device                      volatile or unknown write cache                         system crash
//!   device                      no volatile write cache                                 power loss
//!   stable by syncfs            a file system whose syncfs need not flush (XFS)         as device
//!   stable by direct write       the file system need not flush after it (F2FS)         as device
//!   device by direct write      data journaled or with a FUSE process: still in memory  process crash
//!   device by sync_file_range   the same, and overlays, whose files have no pages       process crash
//!   stable                      barriers off and a volatile or unknown cache            system crash
//!   stable, of an overwrite      fsync may leave the flush out (old ext4 without a journal) as device, no metadata
//!   stable                      no flush leaves the kernel (a queue that hides a cache)   system crash
//!   stable                      memory file system, sync turned off                     process crash
//!   anything                    what is under it cannot be seen, and may be memory      process crash
//!   stable                      none of these                                           power loss
//! ```
//!
//! On a file system mounted `sync`, or in a folder with `chattr +S`, each write through a system call is one with `O_DSYNC`.
//!
//! [`classify`] is pure: a decision over [`Surroundings`], tried over all its inputs below.
//!
//! Invariants: a class never exceeds what the reach allows; every lowering states its reason; the component that
//! promises durability is named, because a hypervisor's promise is less than a device's.

use crate::method::{Cache, Depth, Method, OpenSync, Reach, Sync, Write};
use crate::planted;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// What an acknowledged write outlives. Each class includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum Durability {
    /// The end of the process; not of the kernel.
    ProcessCrash,
    /// A panic or reset of the system; not a cut of the power.
    SystemCrash,
    /// A power cut.
    PowerLoss,
}

impl Durability {
    /// The three classes, weakest first.
    pub const ALL: [Self; 3] = [Self::ProcessCrash, Self::SystemCrash, Self::PowerLoss];

    /// Its name in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ProcessCrash => "process crash",
            Self::SystemCrash => "system crash",
            Self::PowerLoss => "power loss",
        }
    }
}

/// The state of the journal's blocks when a transaction is written. Never just "preallocated".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum FileState {
    /// Every write extends the file.
    Appending,
    /// Blocks reserved by `fallocate`, marked unwritten: each first write changes metadata.
    Unwritten,
    /// Filled with zeros by ordinary writes.
    ZeroFilled,
    /// Zeroed by `FALLOC_FL_WRITE_ZEROES` (Linux 6.17): written extents without writing them.
    WriteZeroes,
    /// Filled with data of an earlier life of the journal.
    Recycled,
}

impl FileState {
    /// The five states.
    pub const ALL: [Self; 5] =
        [Self::Appending, Self::Unwritten, Self::ZeroFilled, Self::WriteZeroes, Self::Recycled];

    /// Its name as the command line spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Appending => "appending",
            Self::Unwritten => "unwritten",
            Self::ZeroFilled => "zero-filled",
            Self::WriteZeroes => "write-zeroes",
            Self::Recycled => "recycled",
        }
    }

    /// Whether a write into this state changes metadata without which it cannot be read back.
    #[must_use]
    pub fn needs_metadata(self) -> bool {
        matches!(self, Self::Appending | Self::Unwritten)
    }
}

/// What the device does with a write before it acknowledges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum DeviceCache {
    /// A cache that a power cut empties, unless flushed.
    WriteBack,
    /// None, or one that outlives a power cut.
    WriteThrough,
    /// Not reported by the system: treated as volatile.
    Unknown,
}

/// Where the file system keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum Medium {
    /// On block devices of this machine.
    Block,
    /// In memory: tmpfs, ramfs.
    Memory,
    /// With a server, reached by a network or a FUSE process, whose promise it is.
    Server,
    /// Not reported by the system, such as an overlay's folder that cannot be seen from a container: it may be memory.
    Unknown,
    /// Not reported either, but synced writes take longer there than memory does: [`crate::inspect::tried_environment`].
    NotMemory,
}

/// The component on which the promise rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum Promiser {
    /// The device in this machine.
    Device,
    /// The hypervisor that plays the device.
    Hypervisor,
    /// The server behind a network or FUSE file system.
    Server,
    /// Wine, which runs a Windows program on another system.
    Wine,
    /// Not known.
    Unknown,
}

/// Something between the program and the medium that turns syncs into nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum Lie {
    /// A preload library such as `eatmydata` replaces libc's sync calls by nothing.
    Preload,
    /// The file system was mounted so that it sends no flushes (`nobarrier`, `barrier=0`).
    BarriersOff,
    /// The file system is set to ignore syncs (overlayfs `volatile`, ZFS `sync=disabled`).
    SyncDisabled,
    /// Wine ignores `FILE_FLAG_WRITE_THROUGH` and `FILE_FLAG_NO_BUFFERING`.
    WineFlags,
    /// The queue of a device is set to assume no volatile write cache, though it has one or stands on one: the kernel sends
    /// it no flush, and takes FUA off its writes.
    HiddenCache,
}

/// Calls that do less here than on other file systems.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about calls")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct WeakCalls {
    /// syncfs(2) need not end with a device flush. XFS only forces its log, which flushes the device if there was metadata
    /// to log: overwrites within one tick of the file's timestamp leave it nothing to do. A FUSE process is not called at all.
    pub syncfs: bool,
    /// `sync_file_range(2)` need not bring the data to a device: an overlay's file has no pages of its own; with its data in
    /// the journal (ext4 `data=journal`) or in a FUSE process a file has nothing to write.
    pub sync_file_range: bool,
    /// A direct write need not bring the data to a device: it goes through the page cache (ext4 `data=journal`, encrypted
    /// folders) or ends in the memory of a FUSE process.
    pub direct_write: bool,
    /// A sync may find nothing to do after a direct write. F2FS notes an overwrite only when the call returns, after the
    /// sync of `O_DSYNC`, and one through `io_uring` not at all: then nothing flushes the device's cache.
    pub late_direct: bool,
    /// A direct write with `O_DSYNC` or `RWF_DSYNC` through `io_uring` is acknowledged before the file system has logged where
    /// it lies. btrfs of Linux 6.1 on a device that takes FUA: the data is forced, and the sync after it left out.
    #[cfg_attr(feature = "serde", serde(default))]
    pub queued_dsync: bool,
    /// fsync, fdatasync and the sync after `O_DSYNC` may return without a flush where they find no metadata to write. ext4
    /// without a journal before Linux 6.5: overwrites are written, and the device's cache is not flushed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub fsync: bool,
}

impl WeakCalls {
    /// The calls that do less in one of the two.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            syncfs: self.syncfs || other.syncfs,
            sync_file_range: self.sync_file_range || other.sync_file_range,
            direct_write: self.direct_write || other.direct_write,
            late_direct: self.late_direct || other.late_direct,
            queued_dsync: self.queued_dsync || other.queued_dsync,
            fsync: self.fsync || other.fsync,
        }
    }
}

/// Everything under a method that decides what its calls are worth.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about what is below")]
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Surroundings {
    /// Where the data ends up.
    pub medium: Medium,
    /// Whether an overwrite goes to new blocks (btrfs without `nodatacow`, ZFS, bcachefs).
    pub copy_on_write: bool,
    /// Whether an overwrite goes to new blocks once the file shares them, of which the writer learns nothing (XFS after `cp --reflink` or deduplication, btrfs after a snapshot, f2fs after cleaning).
    #[cfg_attr(feature = "serde", serde(default))]
    pub shares_extents: bool,
    /// The state of the journal's blocks.
    pub file_state: FileState,
    /// The weakest write cache among the leaf devices.
    pub device_cache: DeviceCache,
    /// Whether a loop device on the way keeps its image in the page cache (no direct I/O): only a flush reaches the
    /// image.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cached_image: bool,
    /// Whether the device is known to honour a forced write; `None` where the system does not report it.
    pub forced_writes_honoured: Option<bool>,
    /// Whether every device on the way takes writes with FUA, so that the kernel forces a direct overwrite under `O_DSYNC`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub takes_fua: bool,
    /// Whether each write through a system call is synced as under `O_DSYNC`: by mount option or the attribute of the folder.
    #[cfg_attr(feature = "serde", serde(default))]
    pub synchronous: bool,
    /// Calls that do less here.
    #[cfg_attr(feature = "serde", serde(default))]
    pub weak_calls: WeakCalls,
    /// The component that promises durability.
    pub promiser: Promiser,
    /// What was found to be lying.
    pub lies: Vec<Lie>,
}

/// A class, whose promise it is, and why it is not higher.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Claim {
    /// What an acknowledged write outlives.
    pub class: Durability,
    /// The component that promises it.
    pub promised_by: Promiser,
    /// Reasons in words: why the class is not `power loss`, or what it rests on.
    pub because: Vec<String>,
}

/// The class of `method` in `surroundings`.
#[must_use]
pub fn classify(method: &Method, surroundings: &Surroundings) -> Claim {
    let mut because = Vec::new();
    let reach = effective_reach(method, surroundings, &mut because);
    let class = class_of(reach, surroundings, &mut because);
    Claim { class, promised_by: surroundings.promiser, because }
}

fn effective_reach(method: &Method, around: &Surroundings, because: &mut Vec<String>) -> Reach {
    let own_open_sync = method.open_sync;
    let method = &method.synced(around.synchronous);
    if method.open_sync != own_open_sync {
        because.push(
            "the file system is mounted sync, or its folder has that attribute: each write is synced"
                .to_owned(),
        );
    }
    let mut reach = method.reach();
    if around.lies.contains(&Lie::Preload) {
        reach = method.reach_without_libc_syncs();
        if reach != method.reach() {
            because.push("a preloaded library swallows the sync calls".to_owned());
        }
    }
    let weak = around.weak_calls;
    if reach.data == Depth::Stable
        && method.sync == Sync::Syncfs
        && method.open_sync == OpenSync::None
        && weak.syncfs
    {
        because.push("syncfs does not always flush the device on this file system".to_owned());
        if weak.direct_write {
            return Reach { data: Depth::Kernel, metadata: false };
        }
        reach = Reach { data: Depth::Device, metadata: true };
    }
    let forced = method.is_direct_dsync() && around.takes_fua && !around.file_state.needs_metadata();
    if reach.data == Depth::Stable && method.sync != Sync::Syncfs && weak.fsync && !forced {
        because.push(
            "a sync of overwrites returns before the device's cache is flushed: ext4 without a journal, before Linux 6.5"
                .to_owned(),
        );
        reach = Reach { data: Depth::Device, metadata: false };
    }
    let is_ring = matches!(method.write, Write::Ring { .. });
    let is_late = method.cache == Cache::Direct && (method.sync == Sync::None || is_ring);
    if reach.data == Depth::Stable && is_late && weak.late_direct {
        because.push(
            "the sync of a direct write like this one does not always flush the device on this file system"
                .to_owned(),
        );
        reach = Reach { data: Depth::Device, metadata: true };
    }
    let is_queued = method.cache == Cache::Direct && is_ring && method.sync == Sync::None;
    if reach.data == Depth::Stable && is_queued && weak.queued_dsync {
        because.push(
            "a queued direct write with O_DSYNC is acknowledged before the file system of this kernel has logged where it lies"
                .to_owned(),
        );
        return Reach { data: Depth::Kernel, metadata: false };
    }
    let by_range = weak.sync_file_range && method.sync == Sync::SyncFileRange;
    if reach.data == Depth::Device && !reach.metadata && (by_range || weak.direct_write) {
        let call = if by_range { "sync_file_range" } else { "a direct write" };
        because.push(format!("{call} need not bring the data to the device on this file system"));
        return Reach { data: Depth::Kernel, metadata: false };
    }
    if around.lies.contains(&Lie::WineFlags) && matches!(reach.data, Depth::Device | Depth::DeviceForced) {
        because.push("Wine ignores WRITE_THROUGH and NO_BUFFERING".to_owned());
        reach = Reach { data: Depth::Kernel, metadata: false };
    }
    reach
}

fn class_of(reach: Reach, around: &Surroundings, because: &mut Vec<String>) -> Durability {
    if reach.data == Depth::Kernel {
        because.push("the data is only in kernel memory".to_owned());
        return Durability::ProcessCrash;
    }
    if around.medium == Medium::Memory {
        because.push("the file system lives in memory".to_owned());
        return Durability::ProcessCrash;
    }
    if around.lies.contains(&Lie::SyncDisabled) {
        because.push("the file system was mounted to ignore syncs".to_owned());
        return Durability::ProcessCrash;
    }
    if !reach.metadata
        && (around.file_state.needs_metadata() || around.copy_on_write || around.shares_extents)
    {
        because.push(if around.shares_extents && !around.copy_on_write {
            "the file system or volume can share or move the journal's blocks (reflink, snapshot, thin volume): an overwrite then \
             goes to new blocks, and the metadata that leads to them is not committed"
                .to_owned()
        } else if around.copy_on_write {
            "each overwrite goes to new blocks, and the tree that leads to them is not committed".to_owned()
        } else {
            format!("the metadata of a journal that is {} is not committed", around.file_state.name())
        });
        return Durability::ProcessCrash;
    }
    let no_flush = [Lie::BarriersOff, Lie::HiddenCache].into_iter().find(|lie| around.lies.contains(lie));
    let flushes = reach.data == Depth::Stable && no_flush.is_none();
    if planted!(UnseenBelieved, around.medium == Medium::Unknown) {
        because.push("what lies under the file system cannot be seen from here: it may be memory".to_owned());
        return Durability::ProcessCrash;
    }
    if around.medium == Medium::NotMemory && !flushes {
        because.push(
            "what lies under the file system cannot be seen from here: only a flush is sure to pass through it"
                .to_owned(),
        );
        return Durability::ProcessCrash;
    }
    if around.cached_image && !flushes {
        because.push("the loop device keeps it in the page cache of its image file".to_owned());
        return Durability::ProcessCrash;
    }
    if around.device_cache == DeviceCache::WriteThrough {
        because.push("the device has no volatile write cache".to_owned());
        return Durability::PowerLoss;
    }
    match reach.data {
        Depth::Kernel | Depth::Device | Depth::DeviceOrdered => {
            because.push(if around.medium == Medium::Server {
                "nothing asks the server to make it durable".to_owned()
            } else {
                "the device's volatile write cache is not flushed".to_owned()
            });
            Durability::SystemCrash
        }
        Depth::DeviceForced if around.forced_writes_honoured != Some(true) => {
            because.push("it is not known that the driver honours a forced write".to_owned());
            Durability::SystemCrash
        }
        Depth::DeviceForced | Depth::Stable => match no_flush {
            Some(lie) => {
                because.push(if lie == Lie::HiddenCache {
                    "the queue of a device is set to assume no volatile write cache, though there is one: no flush is sent"
                        .to_owned()
                } else {
                    "the file system was mounted with barriers off: no flush is sent".to_owned()
                });
                Durability::SystemCrash
            }
            None => Durability::PowerLoss,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods;

    fn honest() -> Surroundings {
        Surroundings {
            medium: Medium::Block,
            copy_on_write: false,
            shares_extents: false,
            file_state: FileState::ZeroFilled,
            device_cache: DeviceCache::WriteBack,
            cached_image: false,
            forced_writes_honoured: None,
            takes_fua: false,
            synchronous: false,
            weak_calls: WeakCalls::default(),
            promiser: Promiser::Device,
            lies: Vec::new(),
        }
    }

    fn class(id: &str, surroundings: &Surroundings) -> Durability {
        let method = methods::ALL.into_iter().flatten().find(|m| m.id == id).expect("a known method");
        classify(method, surroundings).class
    }

    /// All combinations of the surroundings.
    fn every_surroundings() -> Vec<Surroundings> {
        let mut all = Vec::new();
        for medium in [Medium::Block, Medium::Memory, Medium::Server, Medium::Unknown, Medium::NotMemory] {
            // Whether metadata is needed is all that the class has of it.
            for file_state in [FileState::Unwritten, FileState::ZeroFilled] {
                for device_cache in [DeviceCache::WriteBack, DeviceCache::WriteThrough, DeviceCache::Unknown]
                {
                    for forced_writes_honoured in [None, Some(false), Some(true)] {
                        for bits in 0..2048_u16 {
                            let hides = if bits & 64 != 0 { Lie::HiddenCache } else { Lie::BarriersOff };
                            let lies = [Lie::Preload, hides, Lie::SyncDisabled, Lie::WineFlags];
                            let lies =
                                (0..4).filter(|bit| bits & (1 << bit) != 0).map(|bit| lies[bit]).collect();
                            all.push(Surroundings {
                                medium,
                                copy_on_write: bits & 16 != 0,
                                shares_extents: bits & 64 != 0,
                                file_state,
                                device_cache,
                                cached_image: bits & 128 != 0,
                                forced_writes_honoured,
                                takes_fua: bits & 16 != 0,
                                synchronous: bits & 128 != 0,
                                weak_calls: WeakCalls {
                                    syncfs: bits & 32 != 0,
                                    sync_file_range: bits & 256 != 0,
                                    direct_write: bits & 512 != 0,
                                    late_direct: bits & 1024 != 0,
                                    // With another flag that no method heeds besides: a sync is by range or queued.
                                    queued_dsync: bits & 256 != 0,
                                    fsync: bits & 512 != 0,
                                },
                                promiser: Promiser::Device,
                                lies,
                            });
                        }
                    }
                }
            }
        }
        all
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table")]
    fn the_table_in_the_header_holds() {
        use Durability::{PowerLoss, ProcessCrash, SystemCrash};
        let with = |change: fn(&mut Surroundings)| {
            let mut surroundings = honest();
            change(&mut surroundings);
            surroundings
        };
        let rows: [(&str, Surroundings, Durability); 77] = [
            ("buffered", honest(), ProcessCrash),
            ("buffered", with(|s| s.device_cache = DeviceCache::WriteThrough), ProcessCrash),
            ("direct", honest(), SystemCrash),
            ("direct", with(|s| s.file_state = FileState::Unwritten), ProcessCrash),
            ("direct", with(|s| s.file_state = FileState::Appending), ProcessCrash),
            ("direct", with(|s| s.copy_on_write = true), ProcessCrash),
            ("direct", with(|s| s.device_cache = DeviceCache::WriteThrough), PowerLoss),
            ("direct", with(|s| s.shares_extents = true), ProcessCrash),
            ("direct", shared_and_write_through(), ProcessCrash),
            ("sync-file-range", shared_and_write_through(), ProcessCrash),
            ("direct+dsync", shared_and_write_through(), PowerLoss),
            ("direct+fdatasync", with(|s| s.shares_extents = true), PowerLoss),
            ("buffered+fdatasync", with(|s| s.shares_extents = true), PowerLoss),
            ("sync-file-range", honest(), SystemCrash),
            ("direct", with(|s| s.cached_image = true), ProcessCrash),
            ("sync-file-range", with(|s| s.cached_image = true), ProcessCrash),
            ("buffered+fdatasync", with(|s| s.cached_image = true), PowerLoss),
            ("direct+dsync", with(|s| s.cached_image = true), PowerLoss),
            (
                "buffered+fdatasync",
                with(|s| (s.cached_image, s.lies) = (true, vec![Lie::BarriersOff])),
                ProcessCrash,
            ),
            (
                "direct",
                with(|s| (s.cached_image, s.device_cache) = (true, DeviceCache::WriteThrough)),
                ProcessCrash,
            ),
            ("buffered+syncfs", honest(), PowerLoss),
            ("buffered+syncfs", with(|s| s.weak_calls.syncfs = true), SystemCrash),
            (
                "buffered+syncfs",
                with(|s| (s.weak_calls.syncfs, s.weak_calls.direct_write) = (true, true)),
                ProcessCrash,
            ),
            ("buffered+fdatasync", with(|s| s.weak_calls.syncfs = true), PowerLoss),
            ("sync-file-range", with(|s| s.weak_calls.sync_file_range = true), ProcessCrash),
            ("direct", with(|s| s.weak_calls.sync_file_range = true), SystemCrash),
            ("direct", with(|s| s.weak_calls.direct_write = true), ProcessCrash),
            ("direct", weak_and_write_through(), ProcessCrash),
            ("sync-file-range", weak_and_write_through(), ProcessCrash),
            ("direct+dsync", weak_and_write_through(), PowerLoss),
            ("direct+fdatasync", with(|s| s.weak_calls.direct_write = true), PowerLoss),
            ("direct+dsync", with(|s| s.weak_calls.late_direct = true), SystemCrash),
            ("direct+rwf-dsync", with(|s| s.weak_calls.late_direct = true), SystemCrash),
            ("uring-direct-rwf-dsync", with(|s| s.weak_calls.late_direct = true), SystemCrash),
            ("uring-direct+fdatasync", with(|s| s.weak_calls.late_direct = true), SystemCrash),
            ("dsync", with(|s| s.weak_calls.late_direct = true), PowerLoss),
            ("uring-direct-rwf-dsync", with(|s| s.weak_calls.queued_dsync = true), ProcessCrash),
            ("uring-direct-fixed-dsync", with(|s| s.weak_calls.queued_dsync = true), ProcessCrash),
            ("uring-direct-linked", with(|s| s.weak_calls.queued_dsync = true), PowerLoss),
            ("direct+dsync", with(|s| s.weak_calls.queued_dsync = true), PowerLoss),
            ("direct+rwf-dsync", with(|s| s.weak_calls.queued_dsync = true), PowerLoss),
            ("uring-rwf-dsync", with(|s| s.weak_calls.queued_dsync = true), PowerLoss),
            ("direct+fdatasync", with(|s| s.weak_calls.late_direct = true), PowerLoss),
            ("buffered+fdatasync", honest(), PowerLoss),
            ("buffered+fdatasync", with(|s| s.lies = vec![Lie::BarriersOff]), SystemCrash),
            ("buffered+fdatasync", with(|s| s.lies = vec![Lie::Preload]), ProcessCrash),
            ("buffered+fdatasync", with(|s| s.lies = vec![Lie::SyncDisabled]), ProcessCrash),
            ("buffered+fdatasync", with(|s| s.medium = Medium::Memory), ProcessCrash),
            ("direct", with(|s| s.medium = Medium::Unknown), ProcessCrash),
            ("sync-file-range", with(|s| s.medium = Medium::Unknown), ProcessCrash),
            ("buffered+fdatasync", with(|s| s.medium = Medium::Unknown), ProcessCrash),
            ("direct+dsync", with(|s| s.medium = Medium::Unknown), ProcessCrash),
            ("direct", with(|s| s.medium = Medium::NotMemory), ProcessCrash),
            ("sync-file-range", with(|s| s.medium = Medium::NotMemory), ProcessCrash),
            ("buffered+fdatasync", with(|s| s.medium = Medium::NotMemory), PowerLoss),
            ("buffered", with(|s| s.synchronous = true), PowerLoss),
            ("direct", with(|s| s.synchronous = true), PowerLoss),
            ("sync-file-range", with(|s| s.synchronous = true), PowerLoss),
            ("mmap+msync", with(|s| s.synchronous = true), PowerLoss),
            ("buffered", with(|s| (s.synchronous, s.lies) = (true, vec![Lie::BarriersOff])), SystemCrash),
            ("direct", with(|s| (s.synchronous, s.weak_calls.fsync) = (true, true)), SystemCrash),
            ("buffered+fdatasync", with(|s| s.weak_calls.fsync = true), SystemCrash),
            ("buffered+fsync", with(|s| s.weak_calls.fsync = true), SystemCrash),
            ("direct+dsync", with(|s| s.weak_calls.fsync = true), SystemCrash),
            ("direct+dsync", with(|s| (s.weak_calls.fsync, s.takes_fua) = (true, true)), PowerLoss),
            ("dsync", with(|s| (s.weak_calls.fsync, s.takes_fua) = (true, true)), SystemCrash),
            (
                "direct",
                with(|s| (s.synchronous, s.weak_calls.fsync, s.takes_fua) = (true, true, true)),
                PowerLoss,
            ),
            ("buffered+syncfs", with(|s| s.weak_calls.fsync = true), PowerLoss),
            (
                "buffered+fdatasync",
                with(|s| (s.weak_calls.fsync, s.device_cache) = (true, DeviceCache::WriteThrough)),
                PowerLoss,
            ),
            (
                "buffered+fdatasync",
                with(|s| (s.weak_calls.fsync, s.file_state) = (true, FileState::Appending)),
                ProcessCrash,
            ),
            ("buffered+fdatasync", with(|s| s.lies = vec![Lie::HiddenCache]), SystemCrash),
            (
                "direct+dsync",
                with(|s| (s.cached_image, s.lies) = (true, vec![Lie::HiddenCache])),
                ProcessCrash,
            ),
            ("direct+dsync", with(|s| s.lies = vec![Lie::Preload]), SystemCrash),
            ("direct+rwf-dsync", with(|s| s.lies = vec![Lie::Preload]), PowerLoss),
            ("write-through", honest(), SystemCrash),
            ("write-through", with(|s| s.forced_writes_honoured = Some(true)), PowerLoss),
            ("write-through", with(|s| s.lies = vec![Lie::WineFlags]), ProcessCrash),
        ];
        for (id, surroundings, expected) in rows {
            assert_eq!(class(id, &surroundings), expected, "{id} in {surroundings:?}");
        }
    }

    /// The deepest that the calls of `method` reach, those that the file system makes for it included.
    fn reach(method: &Method, around: &Surroundings) -> Reach {
        let own = method.reach();
        if around.synchronous { own.deepest(Reach { data: Depth::Stable, metadata: true }) } else { own }
    }

    fn shared_and_write_through() -> Surroundings {
        Surroundings { shares_extents: true, device_cache: DeviceCache::WriteThrough, ..honest() }
    }

    fn weak_and_write_through() -> Surroundings {
        let weak_calls = WeakCalls { sync_file_range: true, direct_write: true, ..WeakCalls::default() };
        Surroundings { weak_calls, device_cache: DeviceCache::WriteThrough, ..honest() }
    }

    /// What commits no metadata outlives no crash of the system wherever an overwrite may need some.
    #[test]
    fn over_all_inputs_metadata_is_committed_where_blocks_may_be_shared() {
        for around in every_surroundings().iter().filter(|around| around.shares_extents) {
            for method in methods::ALL.into_iter().flatten() {
                if reach(method, around).metadata {
                    continue;
                }
                assert_eq!(
                    classify(method, around).class,
                    Durability::ProcessCrash,
                    "{} in {around:?}",
                    method.id
                );
            }
        }
    }

    #[test]
    fn over_all_inputs_no_class_exceeds_what_reach_and_surroundings_allow() {
        for around in every_surroundings() {
            for method in methods::ALL.into_iter().flatten() {
                let durability = classify(method, &around);
                if durability.class == Durability::PowerLoss {
                    let reach = reach(method, &around);
                    assert!(![Medium::Memory, Medium::Unknown].contains(&around.medium));
                    assert!(!around.lies.contains(&Lie::SyncDisabled));
                    assert_ne!(reach.data, Depth::Kernel, "{}", method.id);
                    let safe_cache = around.device_cache == DeviceCache::WriteThrough;
                    assert!(safe_cache || reach.data >= Depth::DeviceForced, "{}", method.id);
                    assert!(safe_cache || !around.lies.contains(&Lie::BarriersOff), "{}", method.id);
                    assert!(safe_cache || !around.lies.contains(&Lie::HiddenCache), "{}", method.id);
                } else {
                    assert!(!durability.because.is_empty(), "{} in {around:?} has no reason", method.id);
                }
            }
        }
    }

    #[test]
    fn no_lie_ever_raises_a_class() {
        for around in every_surroundings().iter().filter(|around| !around.lies.is_empty()) {
            let without = Surroundings { lies: Vec::new(), ..around.clone() };
            for method in methods::ALL.into_iter().flatten() {
                assert!(classify(method, around).class <= classify(method, &without).class, "{}", method.id);
            }
        }
    }
}
