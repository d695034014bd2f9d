//! Defines a commit method, one value each for open, write and sync, and derives how deep its calls reach.
//!
//! A [`Method`] is a row of the table in [`crate::methods`]: plain data, one value for each of *open*, *write*
//! and *sync*. How far its calls push a transaction is derived from those values by [`Method::reach`] and is
//! never written into a row, so that no row can claim more than its calls give.
//!
//! Invariant: adding an operating system's call means adding a variant here, its depth in `reach`, and its
//! execution under `os/`; whether the log can drive it is decided in the log's `method/eligible.rs`.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// The operating systems that the table knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "lowercase"))]
pub enum System {
    /// Linux.
    Linux,
    /// Windows.
    Windows,
    /// macOS.
    MacOs,
    /// illumos.
    Illumos,
}

/// Whether a write passes through the kernel's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Through the page cache.
    Buffered,
    /// Around it: `O_DIRECT`, `FILE_FLAG_NO_BUFFERING`. Buffers, offsets and sizes must be aligned.
    Direct,
    /// macOS `F_NOCACHE`: a hint that asks for it, without alignment rules.
    NoCache,
}

/// What the descriptor was opened to do after each write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenSync {
    /// Nothing.
    None,
    /// `O_DSYNC`: data, and the metadata needed to read it back, are stable when the write returns.
    Data,
    /// `O_SYNC`: data and all metadata are stable when the write returns.
    Full,
    /// `FILE_FLAG_WRITE_THROUGH`: each write is sent on with FUA, which some drivers ignore.
    WriteThrough,
}

/// The flags of one write call (Linux `RWF_*`, see pwritev2(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFlag {
    /// No flag.
    None,
    /// `RWF_DSYNC` (Linux 4.7): `O_DSYNC` for this write.
    Dsync,
    /// `RWF_SYNC` (Linux 4.7): `O_SYNC` for this write.
    Sync,
    /// `RWF_DONTCACHE` (Linux 6.14): buffered, pages dropped as soon as written back.
    DontCache,
    /// `RWF_ATOMIC` (Linux 6.11): all or nothing, if the device has atomic writes.
    Atomic,
}

/// How an `io_uring` learns that a request has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingPoll {
    /// By interrupt, in `io_uring_enter`.
    Interrupt,
    /// `IORING_SETUP_SQPOLL`: a kernel thread takes submissions without a system call.
    Submission,
    /// `IORING_SETUP_IOPOLL`: completions are polled from the device. fsync on such a ring is `EINVAL`.
    Completion,
}

/// The call that moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// One positional write: `pwrite`, or `WriteFile` with an offset.
    Positional,
    /// One positional write with a per-call flag: `pwritev2`.
    Flagged(WriteFlag),
    /// A copy into a shared mapping of the file; no system call at all.
    Mapped,
    /// One `io_uring` write.
    Ring {
        /// Its per-call flag.
        flag: WriteFlag,
        /// With a registered buffer and a registered file.
        registered: bool,
        /// How completions are found.
        poll: RingPoll,
    },
    /// `WriteFile` on an overlapped handle, then `GetOverlappedResult`.
    Overlapped,
}

/// `NtFlushBuffersFileEx` and its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NtFlush {
    /// 0: as `FlushFileBuffers`.
    Normal,
    /// `FLUSH_FLAGS_FILE_DATA_ONLY`: data leaves the cache; no metadata, no device flush.
    DataOnly,
    /// `FLUSH_FLAGS_NO_SYNC`: data and metadata leave the cache; no device flush.
    NoSync,
    /// `FLUSH_FLAGS_FILE_DATA_SYNC_ONLY` (Windows 10 1709): data and a device flush, no timestamps.
    DataSyncOnly,
}

/// The call that makes the written bytes stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// None: the write was the commit, or nothing is promised.
    None,
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
    /// syncfs(2): the whole file system.
    Syncfs,
    /// `sync_file_range(2)`, waiting before, writing, waiting after. No metadata, no device flush.
    SyncFileRange,
    /// msync(2) with `MS_SYNC` over the written range.
    Msync,
    /// fdatasync(2) called by another thread on the same descriptor.
    FdatasyncOtherThread,
    /// fdatasync(2) on another descriptor of the same file.
    FdatasyncOtherDescriptor,
    /// `IORING_OP_FSYNC` with `IORING_FSYNC_DATASYNC`, submitted after the write completed.
    RingFdatasync,
    /// The same, linked to the write with `IOSQE_IO_LINK`: one submission for both.
    RingLinkedFdatasync,
    /// `FlushFileBuffers`.
    FlushFileBuffers,
    /// `NtFlushBuffersFileEx`.
    NtFlush(NtFlush),
    /// macOS `F_FULLFSYNC`: the drive flushes its cache.
    FullFsync,
    /// macOS `F_BARRIERFSYNC`: what was written before reaches the medium before what comes after.
    BarrierFsync,
}

/// Which runs include a row when no `--methods` is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// Measured in the published experiment for this system.
    Published,
    /// Added by Seawall.
    Added,
}

/// One way to commit a transaction. See [`crate::methods::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// Unique within its system; what `--methods` and results use.
    pub id: &'static str,
    /// The system that has these calls.
    pub system: System,
    /// Open flags concerning the cache.
    pub cache: Cache,
    /// Open flags concerning syncing.
    pub open_sync: OpenSync,
    /// How the bytes are written.
    pub write: Write,
    /// How they are made stable.
    pub sync: Sync,
    /// Published or added.
    pub set: Set,
    /// The calls in words, for people.
    pub calls: &'static str,
    /// What the system must have for it, for people.
    pub since: &'static str,
}

/// How deep the calls of a method push the data before they return, if everything below keeps its promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "kebab-case"))]
pub enum Depth {
    /// In kernel memory.
    Kernel,
    /// Handed to the device, whose cache may be volatile.
    Device,
    /// Handed to the device and ordered before later writes, not flushed.
    DeviceOrdered,
    /// Sent with a force-unit-access request that drivers are known to ignore (`FILE_FLAG_WRITE_THROUGH`).
    DeviceForced,
    /// The device was asked to make it stable: a flush, or a FUA write the kernel vouches for.
    Stable,
}

/// How deep, and whether the metadata needed to find the data again went along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Where the data is when the commit returns.
    pub data: Depth,
    /// Whether size, extents and (on copy-on-write file systems) the tree that leads to the data are there too.
    pub metadata: bool,
}

impl Reach {
    /// The letter used in the literature: K kernel memory, O reached the device, B ordered, D durable.
    #[must_use]
    pub fn letter(self) -> char {
        match self.data {
            Depth::Kernel => 'K',
            Depth::Device | Depth::DeviceForced => 'O',
            Depth::DeviceOrdered => 'B',
            Depth::Stable => 'D',
        }
    }

    pub(crate) fn deepest(self, other: Self) -> Self {
        if other.data > self.data {
            other
        } else {
            Self { metadata: self.metadata || other.metadata, ..self }
        }
    }
}

const KERNEL: Reach = Reach { data: Depth::Kernel, metadata: false };
const DEVICE: Reach = Reach { data: Depth::Device, metadata: false };
const STABLE: Reach = Reach { data: Depth::Stable, metadata: true };

impl Method {
    /// How deep this method's calls reach: the deepest of its open flags, write flag and sync call.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.cache_reach().deepest(self.open_reach()).deepest(self.write_reach()).deepest(self.sync_reach())
    }

    /// The reach that is left when the libc wrappers of all sync calls and the sync flags of `open` do
    /// nothing, as under the `eatmydata` preload library. Per-call flags and rings go past libc's wrappers.
    pub(crate) fn reach_without_libc_syncs(&self) -> Reach {
        let own = self.cache_reach().deepest(self.write_reach());
        match self.sync {
            Sync::RingFdatasync | Sync::RingLinkedFdatasync => own.deepest(self.sync_reach()),
            _ => own,
        }
    }

    fn cache_reach(&self) -> Reach {
        match self.cache {
            Cache::Buffered | Cache::NoCache => KERNEL,
            Cache::Direct => DEVICE,
        }
    }

    fn open_reach(&self) -> Reach {
        match self.open_sync {
            OpenSync::None => KERNEL,
            OpenSync::Data | OpenSync::Full => STABLE,
            OpenSync::WriteThrough => Reach { data: Depth::DeviceForced, metadata: true },
        }
    }

    fn write_reach(&self) -> Reach {
        match self.write {
            Write::Flagged(flag) | Write::Ring { flag, .. } => match flag {
                WriteFlag::Dsync | WriteFlag::Sync => STABLE,
                WriteFlag::None | WriteFlag::DontCache | WriteFlag::Atomic => KERNEL,
            },
            Write::Positional | Write::Mapped | Write::Overlapped => KERNEL,
        }
    }

    fn sync_reach(&self) -> Reach {
        match self.sync {
            Sync::None => KERNEL,
            Sync::SyncFileRange | Sync::NtFlush(NtFlush::DataOnly) => DEVICE,
            Sync::NtFlush(NtFlush::NoSync) => Reach { data: Depth::Device, metadata: true },
            Sync::BarrierFsync => Reach { data: Depth::DeviceOrdered, metadata: true },
            // Apple's fsync(2) hands the data to the drive and leaves it in the drive's cache.
            Sync::Fsync if self.system == System::MacOs => Reach { data: Depth::Device, metadata: true },
            Sync::Fsync
            | Sync::Fdatasync
            | Sync::Syncfs
            | Sync::Msync
            | Sync::FdatasyncOtherThread
            | Sync::FdatasyncOtherDescriptor
            | Sync::RingFdatasync
            | Sync::RingLinkedFdatasync
            | Sync::FlushFileBuffers
            | Sync::NtFlush(NtFlush::Normal | NtFlush::DataSyncOnly)
            | Sync::FullFsync => STABLE,
        }
    }

    /// Whether write and sync are separate calls whose times can be measured apart.
    #[must_use]
    pub fn splits(&self) -> bool {
        !matches!(self.sync, Sync::None | Sync::RingLinkedFdatasync)
    }

    /// Whether each write is made stable by itself, so that a transaction of several writes takes as many flushes; otherwise
    /// one sync after the last write makes all of them stable, or nothing does.
    #[must_use]
    pub fn flushes_each_write(&self) -> bool {
        !self.splits() && self.reach().data == Depth::Stable
    }

    /// The method as it runs where each write through a system call is synced as under `O_DSYNC`, if it is so here
    /// (`synchronous`): on a file system mounted `sync`, or in a folder with `chattr +S`.
    #[must_use]
    pub fn synced(&self, synchronous: bool) -> Self {
        let raised = synchronous
            && self.open_sync == OpenSync::None
            && !matches!(self.write, Write::Mapped | Write::Overlapped);
        if raised { Self { open_sync: OpenSync::Data, ..*self } } else { *self }
    }

    /// Whether an overwrite by this method may reach the device as one forced write (FUA), without a flush: direct, under
    /// `O_DSYNC` alone. `O_SYNC` and everything through the cache get a flush instead. What a mount adds is in
    /// [`Method::synced`]; of a place one asks [`crate::inspect::FileSystem::may_force`].
    pub(crate) fn is_direct_dsync(&self) -> bool {
        let flag = match self.write {
            Write::Flagged(flag) | Write::Ring { flag, .. } => flag,
            Write::Positional | Write::Mapped | Write::Overlapped => WriteFlag::None,
        };
        let synced = self.open_sync == OpenSync::Data || flag == WriteFlag::Dsync;
        self.cache == Cache::Direct && synced && flag != WriteFlag::Sync
    }

    /// Whether sizes and offsets must be multiples of the device's logical block.
    #[must_use]
    pub fn needs_alignment(&self) -> bool {
        self.cache == Cache::Direct
    }
}
