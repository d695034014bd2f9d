//! Defines the options of a log and checks their bounds.

use std::sync::Arc;
use std::time::Duration;

use seawall_sys::Engine;
use seawall_sys::directory::Permissions;
use seawall_sys::durability::Durability;

use crate::commit::stall::{OnStall, Stall};
use crate::crash_memory::MEMORY_BYTES_LEAST;
use crate::error::{Error, Result};
use crate::format::{BLOCK_SIZES, RECORD_BYTES_MAX};
use crate::segment::cap::{OnFull, SEGMENTS_LEAST};
use crate::segment::retention::Retention;

/// Which commit method a log uses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodChoice {
    /// The fastest one of the requested durability class, by a probe of a few hundred writes when the log is created. The
    /// choice is stored in the directory.
    Fastest,
    /// As [`MethodChoice::Fastest`], but with a new probe.
    ProbeAgain,
    /// The row of the method table with this id.
    Named(String),
}

/// Which engine runs a log's commits; see [`Engine`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineChoice {
    /// The one that runs the selected commit method. Where the system refuses an engine (containers often forbid
    /// `io_uring`) the portable one takes over, and [`crate::Opened`], [`crate::Stats`] and the log message of opening
    /// say so.
    #[default]
    Automatic,
    /// This one and no other: opening fails where it is refused.
    Only(Engine),
}

/// The most memory for records, in bytes.
const MEMORY_BYTES_MAX: u64 = 64 << 30;

/// The most memory for commits that are to outlive the process only, in bytes.
#[cfg(target_pointer_width = "64")]
const CRASH_MEMORY_BYTES_MAX: usize = 4 << 30;
#[cfg(not(target_pointer_width = "64"))]
const CRASH_MEMORY_BYTES_MAX: usize = 1 << 30;

/// The settings of a log. Every setter states its bounds, which are checked when the log is opened.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) segment_bytes: u64,
    pub(crate) block_bytes: u16,
    pub(crate) batch_bytes: usize,
    pub(crate) memory_bytes: usize,
    pub(crate) crash_memory_bytes: usize,
    pub(crate) record_bytes_max: usize,
    pub(crate) in_flight_max: usize,
    pub(crate) idle_mark: Duration,
    pub(crate) spares: usize,
    pub(crate) retention: Retention,
    pub(crate) disk_bytes_max: Option<u64>,
    pub(crate) on_full: OnFull,
    pub(crate) method: MethodChoice,
    pub(crate) engine: EngineChoice,
    pub(crate) durability: Durability,
    pub(crate) create: bool,
    pub(crate) permissions: Permissions,
    pub(crate) network_file_system: bool,
    pub(crate) stall_threshold: Option<Duration>,
    pub(crate) on_stall: Option<OnStall>,
    #[cfg(feature = "simulation")]
    pub(crate) faults: Option<std::sync::Arc<crate::storage::faults::Faults>>,
    #[cfg(feature = "simulation")]
    pub(crate) cached_reads: bool,
    #[cfg(feature = "simulation")]
    pub(crate) log_id: Option<crate::format::LogId>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 32 << 20,
            block_bytes: 4096,
            batch_bytes: 2 << 20,
            memory_bytes: 32 << 20,
            crash_memory_bytes: 16 << 20,
            record_bytes_max: 64 << 20,
            in_flight_max: 2,
            idle_mark: Duration::from_millis(5),
            spares: 1,
            retention: Retention::default(),
            disk_bytes_max: None,
            on_full: OnFull::Wait,
            method: MethodChoice::Fastest,
            engine: EngineChoice::Automatic,
            durability: Durability::PowerLoss,
            create: true,
            permissions: Permissions::OwnerOnly,
            network_file_system: false,
            stall_threshold: None,
            on_stall: None,
            #[cfg(feature = "simulation")]
            faults: None,
            #[cfg(feature = "simulation")]
            cached_reads: false,
            #[cfg(feature = "simulation")]
            log_id: None,
        }
    }
}

impl Options {
    /// Size of one segment in bytes: 64 KiB to 64 GiB, a multiple of 4096. Larger ones rotate less often, smaller ones
    /// are trimmed sooner, and opening reads the newest one. Default 32 MiB.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Size of one block in bytes: 512, 1024, 2048 or 4096. Every batch starts on a block, so that no torn write can
    /// reach an acknowledged byte; less than 4096 saves space where the device's sectors allow it. Fixed when the log
    /// is created. Default 4096.
    #[must_use]
    pub fn block_bytes(mut self, bytes: u16) -> Self {
        self.block_bytes = bytes;
        self
    }

    /// The longest ordinary batch in bytes: 4 KiB to 64 MiB, a multiple of 4096, at most half of the memory. Default
    /// 2 MiB, the size of a large page: a buffer then is one piece of memory for the device.
    #[must_use]
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// Memory for records that are not yet written, in bytes: at least two batches, at most 64 GiB. When it is full,
    /// appends wait. It is taken from the system as records need it, and all but 2 MiB of it is given back when the log has
    /// been idle for a second (Linux; elsewhere it stays with the log). Default 32 MiB.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Memory for commits that are to outlive the process only ([`crate::Log::commit_as`]), in bytes: 0 for none, or 64 KiB to
    /// 4 GiB. It is a file in the log's directory, mapped, which the first such commit makes and a clean close removes: such a
    /// commit then costs about as much as an append. What does not fit, because the disk is behind, is written. Linux only;
    /// [`crate::Stats::process_crash`] says whether it is there, and why not. Default 16 MiB.
    #[must_use]
    pub fn crash_memory_bytes(mut self, bytes: usize) -> Self {
        self.crash_memory_bytes = bytes;
        self
    }

    /// The longest record and the longest transaction in bytes: 1 to 1 GiB. Default 64 MiB.
    #[must_use]
    pub fn record_bytes_max(mut self, bytes: usize) -> Self {
        self.record_bytes_max = bytes;
        self
    }

    /// Batches that may be in flight at the same time: 1 to 16. Default 2.
    #[must_use]
    pub fn in_flight_max(mut self, batches: usize) -> Self {
        self.in_flight_max = batches;
        self
    }

    /// How long the log is idle before a durable mark is written: 1 ms to 1 h. Until then the last batch has no
    /// witness, and damage to it looks like a torn write. Default 5 ms.
    #[must_use]
    pub fn idle_mark(mut self, wait: Duration) -> Self {
        self.idle_mark = wait;
        self
    }

    /// Segments prepared ahead: 1 to 16. Default 1. Trimmed segments are kept beyond that, because they cost a rename
    /// and new ones must be filled: as many as were started between the last two trims, at most 16.
    #[must_use]
    pub fn spares(mut self, segments: usize) -> Self {
        self.spares = segments;
        self
    }

    /// How much of the log is kept: whole segments beyond these bounds are trimmed, as by [`crate::Log::trim`], but
    /// never what a [`crate::Log::pin`] holds. Checked when a segment is started, when a pin moves or a segment ages,
    /// and at opening. Default: everything, until it is trimmed.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// The most that the log takes of the disk, in bytes: at least six segments. It counts all segments, also those that are
    /// prepared or kept for reuse, and the one that is being prepared ([`crate::Stats::disk_bytes`]). It does not count what
    /// readers hold open of segments that are gone, the few bytes of `LOCK` and `METHOD`, and the probe's file of 1 MiB
    /// while there is one.
    ///
    /// One segment of it is reserved for openings and two for trims, so that a full log can be trimmed and reopened;
    /// records get the rest. When that is full, [`Options::on_full`] decides what appends do. Nothing is
    /// ever dropped to make room: what trims, [`Options::retention`] and pins leave stays. A log that takes more already, or
    /// could not make a trim durable under the bound, is not opened: [`Error::DiskCap`], before anything is changed. Default:
    /// no bound.
    #[must_use]
    pub fn disk_bytes_max(mut self, bytes: u64) -> Self {
        self.disk_bytes_max = Some(bytes);
        self
    }

    /// What appends do when [`Options::disk_bytes_max`] is reached: wait until a trim frees a segment, or
    /// fail with [`Error::DiskCap`]. A record that would not fit into an empty log fails in either case. Default: wait.
    #[must_use]
    pub fn on_full(mut self, choice: OnFull) -> Self {
        self.on_full = choice;
        self
    }

    /// Which commit method to use. Default: the fastest of the requested class.
    #[must_use]
    pub fn method(mut self, choice: MethodChoice) -> Self {
        self.method = choice;
        self
    }

    /// Which engine to use. Default: the one that runs the selected method.
    #[must_use]
    pub fn engine(mut self, choice: EngineChoice) -> Self {
        self.engine = choice;
        self
    }

    /// What an acknowledged record must outlive. Opening fails where no method can promise that. After an event that a
    /// lower class does not cover, the log opens with what is left and [`crate::Tail::Lost`] reports what is lost. A log may
    /// be reopened with another class: it then continues in a new segment. Default: power loss.
    #[must_use]
    pub fn durability(mut self, class: Durability) -> Self {
        self.durability = class;
        self
    }

    /// Whether to create a log where there is none. Default: yes.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// The permissions of the log's files and directory when they are created; existing ones keep theirs.
    /// Default: the owner only. A user who may open the directory or `LOCK` can lock out the writer, and
    /// one who may write to the directory can do anything to the log.
    #[must_use]
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Whether the log may be on a network file system (NFS, SMB, 9p, Ceph and others that the system names; not FUSE,
    /// after which there may be anything). Default: no, opening refuses it.
    ///
    /// There the server decides what is guaranteed: whether a lock keeps out writers on other machines (NFS has no lock of
    /// directories, and mounted with `nolock` or `local_lock` none beyond this machine), whether a sync reaches a disk,
    /// and whether direct I/O goes around any cache but the client's. A log that is open on two machines is lost.
    #[must_use]
    pub fn network_file_system(mut self, allowed: bool) -> Self {
        self.network_file_system = allowed;
        self
    }

    /// How long a batch may be in flight until the disk counts as stalled: 1 ms to 1 h. Such a stall is seen while it lasts:
    /// [`crate::Stats::stalled_for`], [`crate::Stats::stalls_seen`], a warning of `tracing`, the metric
    /// `seawall_write_stalls_total` and [`Options::on_stall`]. Batches that hang at the same time count as one stall. Default: none, and
    /// nothing is watched; a threshold costs one more thread, which sleeps while nothing is in flight and makes no
    /// call to the disk.
    #[must_use]
    pub fn stall_threshold(mut self, threshold: Duration) -> Self {
        self.stall_threshold = Some(threshold);
        self
    }

    /// Called once for each stall of [`Options::stall_threshold`], which must be set as well, while it lasts.
    /// It runs on a thread of the log that holds no lock; while it runs no further stall is
    /// seen, and the log cannot close. A panic in it is reported and does no harm. It must not wait for a commit without a
    /// deadline, which may take as long as the stall. Default: nothing.
    #[must_use]
    pub fn on_stall(mut self, callback: impl Fn(Stall) + Send + Sync + 'static) -> Self {
        self.on_stall = Some(OnStall(Arc::new(callback)));
        self
    }

    /// Recovers as on a system that cannot read past its page cache. For tests.
    #[cfg(feature = "simulation")]
    #[must_use]
    pub fn cached_reads(mut self) -> Self {
        self.cached_reads = true;
        self
    }

    /// Faults to be met by this log. For tests.
    #[cfg(feature = "simulation")]
    #[must_use]
    pub fn faults(mut self, faults: std::sync::Arc<crate::storage::faults::Faults>) -> Self {
        self.faults = Some(faults);
        self
    }

    /// The identity of a log that is made, so that two of them can be compared byte by byte. For tests.
    #[cfg(feature = "simulation")]
    #[must_use]
    pub fn log_id(mut self, id: [u8; 16]) -> Self {
        self.log_id = Some(crate::format::LogId(id));
        self
    }

    /// Holds every setting against its bounds.
    pub(crate) fn check(&self) -> Result<()> {
        let hour = Duration::from_hours(1);
        let threshold = Duration::from_millis(1)..=hour;
        let (segment, batch, memory) = (self.segment_bytes, self.batch_bytes, self.memory_bytes);
        let bounds = [
            (
                "segment_bytes",
                (64 << 10..=64 << 30).contains(&segment) && segment.is_multiple_of(4096),
                "64 KiB to 64 GiB, a multiple of 4096, so that blocks of any size fit",
            ),
            (
                "block_bytes",
                BLOCK_SIZES.contains(&self.block_bytes),
                "512, 1024, 2048 or 4096: a power of two that devices write as a unit",
            ),
            (
                "batch_bytes",
                (4 << 10..=64 << 20).contains(&batch) && batch.is_multiple_of(4096),
                "4 KiB to 64 MiB, a multiple of 4096, as direct I/O requires",
            ),
            (
                "memory_bytes",
                memory / 2 >= batch && memory as u64 <= MEMORY_BYTES_MAX,
                "two batches, so that one gathers while one is written, to 64 GiB",
            ),
            (
                "crash_memory_bytes",
                self.crash_memory_bytes == 0
                    || (MEMORY_BYTES_LEAST..=CRASH_MEMORY_BYTES_MAX).contains(&self.crash_memory_bytes),
                "0, which turns it off, or 64 KiB to 4 GiB",
            ),
            (
                "record_bytes_max",
                (1..=RECORD_BYTES_MAX).contains(&self.record_bytes_max),
                "1 byte to 1 GiB, the longest record of the format",
            ),
            (
                "in_flight_max",
                (1..=16).contains(&self.in_flight_max),
                "1 to 16: each opens every segment once more",
            ),
            (
                "idle_mark",
                (Duration::from_millis(1)..=hour).contains(&self.idle_mark),
                "1 ms to 1 h: shorter would write marks between commits",
            ),
            (
                "spares",
                (1..=16).contains(&self.spares),
                "1 to 16: the hot path never prepares a segment itself",
            ),
            (
                "stall_threshold",
                self.stall_threshold.is_none_or(|given| threshold.contains(&given)),
                "1 ms to 1 h: shorter would call every commit a stall",
            ),
            (
                "on_stall",
                self.on_stall.is_none() || self.stall_threshold.is_some(),
                "a callback needs a stall_threshold, which says when it is called",
            ),
            (
                "disk_bytes_max",
                self.disk_bytes_max.is_none_or(|bytes| bytes / SEGMENTS_LEAST >= segment),
                "at least six segments: openings and trims need three of them",
            ),
        ];
        let broken = bounds.into_iter().find(|(_, kept, _)| !kept);
        broken.map_or(Ok(()), |(option, _, reason)| {
            Err(Error::InvalidOption { option, reason: reason.to_owned() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Options;
    use crate::error::Error;
    use std::time::Duration;

    #[test]
    fn every_bound_is_checked_and_named() {
        let bad: [(&str, Options); 16] = [
            ("segment_bytes", Options::default().segment_bytes(4096)),
            ("segment_bytes", Options::default().segment_bytes((64 << 20) + 1)),
            ("block_bytes", Options::default().block_bytes(4097)),
            ("batch_bytes", Options::default().batch_bytes(100)),
            ("memory_bytes", Options::default().memory_bytes(3 << 20)),
            ("memory_bytes", Options::default().memory_bytes(usize::MAX)),
            ("crash_memory_bytes", Options::default().crash_memory_bytes(4096)),
            ("record_bytes_max", Options::default().record_bytes_max(0)),
            ("record_bytes_max", Options::default().record_bytes_max((1 << 30) + 1)),
            ("in_flight_max", Options::default().in_flight_max(0)),
            ("idle_mark", Options::default().idle_mark(Duration::ZERO)),
            ("spares", Options::default().spares(0)),
            ("stall_threshold", Options::default().stall_threshold(Duration::ZERO)),
            ("stall_threshold", Options::default().stall_threshold(Duration::from_hours(2))),
            ("on_stall", Options::default().on_stall(|_| {})),
            ("disk_bytes_max", Options::default().disk_bytes_max(6 * (32 << 20) - 1)),
        ];
        for (name, options) in bad {
            let refused = options.check();
            assert!(matches!(refused, Err(Error::InvalidOption { option, .. }) if option == name), "{name}");
        }
        assert!(Options::default().check().is_ok());
    }
}
