//! Inspects the machine, file system and devices under a path, and detects layers that ignore syncs.
//!
//! [`environment`] describes a folder; [`Environment::surroundings`] reduces the description to what
//! [`crate::durability::classify`] needs.
//!
//! Invariants: what the system does not report is `None` or `Unknown`, never a guess; nothing here writes but
//! [`tried_environment`]; every [`FoundLie`] comes with the evidence for it.

use crate::clock::{Resolution, monotonic_ns};
use crate::commit::again;
use crate::counters::Counting;
use crate::durability::{DeviceCache, FileState, Lie, Medium, Promiser, Surroundings, WeakCalls};
use crate::error::{Error, Result};
use crate::method::Method;
use crate::os;
use crate::planted;
use crate::scratch::Scratch;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::Path;

/// Everything found about a folder and what is under it.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Environment {
    /// Name, release and architecture of the system, such as `Linux 6.18.0 x86_64`.
    pub system: String,
    /// CPUs this process may use.
    pub cpus: usize,
    /// The CPU's own name, where the system reports it.
    pub cpu_model: Option<String>,
    /// Memory of the machine, bytes; `None` where the system does not report it.
    pub memory_bytes: Option<u64>,
    /// The hypervisor, by name, if this is a virtual machine and it shows.
    pub hypervisor: Option<String>,
    /// The container runtime, by name, if one shows.
    pub container: Option<String>,
    /// Wine's version, if this is a Windows program under Wine.
    pub wine: Option<String>,
    /// How busy the CPUs are with other work.
    pub pressure: Pressure,
    /// What the clock costs and resolves.
    pub clock: Resolution,
    /// The file system of the folder; for a raw device, the device taken as one file.
    pub file_system: FileSystem,
    /// The devices under it, from the one that is mounted down to the leaf disks.
    pub devices: Vec<Device>,
    /// What was found to be lying, with the evidence in words.
    pub lies: Vec<FoundLie>,
    /// The kernel's writeback settings by name (Linux `/proc/sys/vm/dirty_*`), in reading order.
    pub writeback: Vec<(String, String)>,
    /// The limits that control groups put on this process and its I/O here.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub limits: Vec<Limit>,
}

/// What a control group allows.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Limit {
    /// Of what.
    pub kind: LimitKind,
    /// How much at most: CPUs, requests a second or bytes a second.
    pub most: f64,
    /// The file with its value: `cpu.max 20000 100000`, `io.max wiops=300 of vda`.
    pub source: String,
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum LimitKind {
    /// CPU time.
    Cpu,
    /// Write requests to a device.
    Requests,
    /// Bytes written to a device.
    Bytes,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.source)
    }
}

/// How busy the CPUs are.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Pressure {
    /// Runnable and uninterruptible tasks averaged over a minute.
    pub load_1m: Option<f64>,
    /// Share of the last ten seconds in which some task waited for a CPU, per cent (`/proc/pressure/cpu`).
    pub waiting_percent_10s: Option<f64>,
    /// Time stolen by the hypervisor since boot, per cent of CPU time.
    pub stolen_percent: Option<f64>,
}

/// A mounted file system.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about it")]
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct FileSystem {
    /// Its type as the system names it: `ext4`, `NTFS`, `apfs`; `block device` if there is none.
    pub kind: String,
    /// What is mounted: a device, a server's share, a subvolume.
    pub source: String,
    /// Mount options as the system lists them, mount's own and super block's.
    pub options: Vec<String>,
    /// Where the data is kept.
    pub medium: Medium,
    /// Whether an overwrite goes to new blocks.
    pub copy_on_write: bool,
    /// Whether files may come to share blocks, or have theirs moved, so that an overwrite allocates: `cp --reflink`,
    /// deduplication, snapshots, cleaning.
    #[cfg_attr(feature = "serde", serde(default))]
    pub shares_extents: bool,
    /// Calls that do less here.
    #[cfg_attr(feature = "serde", serde(default))]
    pub weak_calls: WeakCalls,
    /// Whether each write is synced by itself: mounted `sync`, or in a folder with that attribute (`chattr +S`).
    #[cfg_attr(feature = "serde", serde(default))]
    pub synchronous: bool,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// Allocation unit, bytes.
    pub block_bytes: u64,
    /// Bytes free to this user.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

impl FileSystem {
    /// Whether the kernel may send an overwrite by `method` here as one forced write (FUA), without a flush, to devices that
    /// take it: then the write confirms the commit.
    #[must_use]
    pub fn may_force(&self, method: &Method) -> bool {
        let synchronous = planted!(SyncMountNotForced, self.synchronous);
        !self.copy_on_write && method.synced(synchronous).is_direct_dsync()
    }
}

/// A block device of the stack.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Device {
    /// The kernel's name: `vda`, `nvme0n1p2`, `dm-0`.
    pub name: String,
    /// What it is: `disk`, `partition`, `dm`, `md`, `loop`, `zram`, …
    pub kind: String,
    /// Names of the devices it stands on; empty for a leaf.
    pub stands_on: Vec<String>,
    /// Model, where the device reports it; for a device made of others what it is made as: `raid1`,
    /// `crypt root`, a loop device's file.
    pub model: Option<String>,
    /// How it is attached: `virtio`, `nvme`, `ata`, `scsi`, `usb`, …
    pub transport: Option<String>,
    /// Size, bytes.
    pub bytes: Option<u64>,
    /// Its write cache as the kernel believes it.
    pub write_cache: DeviceCache,
    /// Whether it takes FUA writes.
    pub fua: Option<bool>,
    /// Whether it reports rotating media.
    pub rotational: Option<bool>,
    /// Logical block, bytes: what direct I/O must be aligned to.
    pub logical_block_bytes: Option<u64>,
    /// Physical block, bytes.
    pub physical_block_bytes: Option<u64>,
    /// Largest write that is all or nothing, bytes; 0 if none.
    pub atomic_write_bytes: Option<u64>,
    /// Whether completions can be polled.
    pub polls: Option<bool>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// Whether a loop device writes its image around the page cache (`loop/dio`); `None` for other devices.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub direct_io: Option<bool>,
    /// What its counters show; `None` where nothing is known of them, as in results of earlier versions.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub counting: Option<Counting>,
}

/// A lie and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct FoundLie {
    /// Which.
    pub lie: Lie,
    /// The evidence, in words: a mount option, a library's name.
    pub evidence: String,
}

impl Device {
    /// A device of which only name and kind are known, standing on nothing.
    #[must_use]
    pub fn unknown(name: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            stands_on: Vec::new(),
            model: None,
            transport: None,
            bytes: None,
            write_cache: DeviceCache::Unknown,
            fua: None,
            rotational: None,
            logical_block_bytes: None,
            physical_block_bytes: None,
            atomic_write_bytes: None,
            polls: None,
            scheduler: None,
            direct_io: None,
            counting: None,
        }
    }
}

impl Environment {
    /// The devices at the bottom, whose counters show what reached hardware.
    pub fn leaves(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| device.stands_on.is_empty())
    }

    /// The weakest write cache on the way to the medium.
    ///
    /// The leaves' caches, and those of devices that keep data of their own on the way: a loop device has its
    /// file's page cache, a thin or cached volume its own metadata, so that a write which was not flushed is
    /// lost there whatever the disk promises. A RAID device of Linux (`md`) claims a cache without having one.
    #[must_use]
    pub fn device_cache(&self) -> DeviceCache {
        let has_say = |device: &&Device| device.stands_on.is_empty() || device.kind != "md";
        let mut caches = self.devices.iter().filter(has_say).map(|device| device.write_cache).peekable();
        if caches.peek().is_none() {
            return DeviceCache::Unknown;
        }
        caches.fold(DeviceCache::WriteThrough, |weakest, cache| match (weakest, cache) {
            (DeviceCache::WriteBack, _) | (_, DeviceCache::WriteBack) => DeviceCache::WriteBack,
            (DeviceCache::Unknown, _) | (_, DeviceCache::Unknown) => DeviceCache::Unknown,
            _ => DeviceCache::WriteThrough,
        })
    }

    /// The component that promises durability here.
    #[must_use]
    pub fn promiser(&self) -> Promiser {
        if self.wine.is_some() {
            Promiser::Wine
        } else if self.file_system.medium == Medium::Server {
            Promiser::Server
        } else if matches!(self.file_system.medium, Medium::Unknown | Medium::NotMemory) {
            Promiser::Unknown
        } else if self.hypervisor.is_some() {
            Promiser::Hypervisor
        } else if self.devices.is_empty() {
            Promiser::Unknown
        } else {
            Promiser::Device
        }
    }

    /// What decides the worth of a method's calls, for a journal in `file_state`.
    #[must_use]
    pub fn surroundings(&self, file_state: FileState) -> Surroundings {
        let weak_calls = self.file_system.weak_calls;
        Surroundings {
            medium: self.file_system.medium,
            copy_on_write: self.file_system.copy_on_write,
            shares_extents: self.file_system.shares_extents,
            file_state,
            device_cache: self.device_cache(),
            cached_image: self.devices.iter().any(|device| device.direct_io == Some(false)),
            forced_writes_honoured: None,
            takes_fua: !self.devices.is_empty() && self.devices.iter().all(|device| device.fua == Some(true)),
            synchronous: self.file_system.synchronous,
            weak_calls: WeakCalls {
                // Results of earlier versions know only the kind.
                syncfs: weak_calls.syncfs || self.file_system.kind == "xfs",
                ..weak_calls
            },
            promiser: self.promiser(),
            lies: self.lies.iter().map(|found| found.lie).collect(),
        }
    }

    /// The largest logical block among the devices, bytes: what direct writes must be multiples of.
    #[must_use]
    pub fn logical_block_bytes(&self) -> u64 {
        self.devices.iter().filter_map(|device| device.logical_block_bytes).max().unwrap_or(512)
    }
}

/// Looks at `path`, an existing folder or block device.
///
/// # Errors
/// `path` does not exist or the system refuses to describe it.
pub fn environment(path: &Path) -> Result<Environment> {
    os::inspect::environment(path)
}

/// A commit that takes less than this has not left memory, nanoseconds.
pub const MEMORY_NS: u64 = 5_000;
/// The same where a loop device is on the way, whose thread alone takes longer than that.
const LOOPED_MEMORY_NS: u64 = 100_000;

/// As [`environment`], of a folder that is to be written to. Where it cannot be seen what lies under the file system, synced
/// writes to a small file in the folder show whether it takes longer than memory, and whether disks of this machine count them.
///
/// # Errors
/// As [`environment`].
pub fn tried_environment(folder: &Path) -> Result<Environment> {
    const TRIES: u8 = 16;
    let mut found = environment(folder)?;
    if found.file_system.medium != Medium::Unknown || found.file_system.read_only {
        return Ok(found);
    }
    let disks = os::counters::Reader::disks();
    let sectors = || disks.as_ref().and_then(|disks| Some(disks.read().ok()?.sectors));
    let tries = || -> Option<Vec<(u64, bool)>> {
        let scratch = Scratch::new_in(folder).ok()?;
        let mut file = File::create(scratch.path().join("medium")).ok()?;
        let tries = (0..TRIES).map(|number| {
            let (before, began_ns) = (sectors(), monotonic_ns());
            file.rewind().and_then(|()| file.write_all(&[number; 4096])).ok()?;
            file.sync_data().ok()?;
            let took_ns = monotonic_ns() - began_ns;
            Some((took_ns, before.zip(sectors()).is_none_or(|(before, now)| now > before)))
        });
        tries.collect()
    };
    let memory_ns = if found.devices.is_empty() { MEMORY_NS } else { LOOPED_MEMORY_NS };
    if tries().is_some_and(|tries| leave_memory(&tries, memory_ns)) {
        found.file_system.medium = Medium::NotMemory;
    }
    Ok(found)
}

/// Whether synced writes leave memory, by how long each took and whether a disk of this machine counted it: a slow machine takes
/// as long for memory, and another program's writes are counted too.
pub(crate) fn leave_memory(tries: &[(u64, bool)], memory_ns: u64) -> bool {
    let all_slow = tries.iter().all(|(took_ns, _)| *took_ns >= memory_ns);
    let all_counted = tries.iter().all(|(_, counted)| *counted);
    planted!(MemoryByCountAlone, all_slow) && planted!(MemoryByTimeAlone, all_counted)
}

/// The identity of this boot of the system; `None` where the system does not report one.
#[must_use]
pub fn boot() -> Option<String> {
    os::inspect::boot()
}

/// Which mount in which boot of the system a path is on; `None` where the system does not say.
#[must_use]
pub fn mount_instance(path: &Path) -> Option<String> {
    os::inspect::mount_instance(path)
}

/// How busy the CPUs are now.
#[must_use]
pub fn pressure() -> Pressure {
    os::inspect::pressure()
}

/// Whether `path` names a raw block device.
///
/// # Errors
/// `path` does not exist or cannot be looked at.
pub fn is_block_device(path: &Path) -> Result<bool> {
    let metadata = again(|| std::fs::metadata(path)).map_err(|error| Error::new("stat", path, error))?;
    Ok(os::is_block_device(&metadata))
}
