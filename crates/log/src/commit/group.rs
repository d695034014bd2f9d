//! Group commit: the first waiter to find a free I/O slot leads, writes the pending batch and wakes its members.
//!
//! A lone committer therefore writes itself, without a hand-over; while one batch is in flight the next one gathers,
//! and up to `in_flight_max` batches are in flight together. Relaxed commits take the same path at their own ack level;
//! a log without them pays one look at a flag for each batch.
//!
//! ```text
//!   commit ─► request ─► gather ─► issue ─► seal ─► write ─► done ─► wake      by the leader
//!                           └────► sleep at the gate of the batch              by the others
//!
//!   core lock      gather, issue, done            never held across a system call
//!   chain lock     sealing, taken under the core lock, so that batches are sealed in order of issue
//! ```
//!
//! Invariants: watermarks are published after the core has moved them and before any waiter is woken; after a failure
//! every waiter is woken and nothing is acknowledged, at any level; the leader that finishes a batch makes sure that the
//! batch gathered meanwhile gets a leader.
//!
//! This file holds what the threads of one log share; what they do with it is in the files of `group/`.

mod accepting;
mod closing;
mod committing;
mod cuts;
mod leading;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seawall_sys::durability::Durability;

use crate::channel::publisher::Publisher;
use crate::commit::group_wait::GroupWait;
use crate::commit::housekeeping::Housekeeping;
use crate::commit::process_crash::CrashMemory;
use crate::commit::seal::Chain;
use crate::commit::segment_writers::SegmentWriters;
use crate::commit::stall::Stalls;
use crate::commit::state::{Core, CoreConfig};
use crate::commit::stats::{Recorder, Stats};
use crate::commit::status::Status;
use crate::commit::stream_cuts::StreamCuts;
use crate::commit::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, lock, monotonic_ns};
use crate::commit::threads::Threads;
use crate::commit::waiters::Waiters;
use crate::error::{Error, Result};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::segment::inventory::SegmentInventory;
use crate::stream::cuts::CutList;

/// Alone in its cache line: readers look at it with every record, and appends write what lies beside it.
#[derive(Debug)]
#[repr(align(64))]
struct CutChanges(AtomicU64);

/// Everything that the threads of one log share.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) config: CoreConfig,
    core: Mutex<Core>,
    /// What was cut off the log when a reader looked last, and how often that had changed.
    cuts: Mutex<(u64, Arc<CutList>)>,
    /// Counts the changes of `cuts`, 0 as long as nothing is cut off.
    cut_changes: CutChanges,
    stream_changes: AtomicU64,
    /// Where readers of streams learn what is cut. Asked and told under the core lock.
    pub(crate) stream_cuts: StreamCuts,
    chain: Mutex<Chain>,
    pub(crate) writers: SegmentWriters,
    memory: CrashMemory,
    wait: GroupWait,
    /// Whether a batch is in flight, as the core knows it. Changed under the core lock.
    in_flight: AtomicBool,
    /// Threads that lead a batch now. Raised under the core lock.
    leading: AtomicU32,
    pub(crate) waiters: Waiters,
    /// The segments, and what is requested of the maintenance thread.
    pub(crate) housekeeping: Housekeeping,
    pub(crate) threads: Threads,
    /// Whether the log is open, closed or failed.
    pub(crate) status: Status,
    pub(crate) recorder: Recorder,
    /// The batches in flight, and which of them have stalled.
    pub(crate) stalls: Stalls,
    /// Whether the maintenance thread must look at every new segment and every trim, because the log has a cap or is trimmed
    /// by rules of its own.
    is_bounded: bool,
    /// Where followers in other processes read what is durable.
    pub(crate) publisher: OnceLock<Arc<Publisher>>,
}

impl Group {
    pub(crate) fn new(
        config: CoreConfig,
        core: Core,
        chain: Chain,
        writers: SegmentWriters,
        inventory: SegmentInventory,
    ) -> Self {
        Self {
            config,
            waiters: Waiters::new(core.acknowledged()),
            recorder: Recorder::new(writers.dir(), config.own()),
            cut_changes: CutChanges(AtomicU64::new(u64::from(!core.tagged.cuts.is_empty()))),
            cuts: Mutex::new(<(u64, Arc<CutList>)>::default()),
            stream_changes: AtomicU64::new(0),
            stream_cuts: StreamCuts::default(),
            core: Mutex::new(core),
            chain: Mutex::new(chain),
            writers,
            memory: CrashMemory::new(Err("this log was opened without it")),
            wait: GroupWait::new(),
            in_flight: AtomicBool::new(false),
            leading: AtomicU32::new(0),
            housekeeping: Housekeeping::new(inventory),
            threads: Threads::default(),
            status: Status::new(),
            publisher: OnceLock::new(),
            stalls: Stalls::new(None),
            is_bounded: false,
        }
    }

    /// The same for a log that has a cap or is trimmed by rules of its own, if it is.
    pub(crate) fn bounded(self, is_bounded: bool) -> Self {
        Self { is_bounded, ..self }
    }

    /// The first LSN was moved. The next batch or, in an idle log, the next mark makes it durable.
    pub(crate) fn trimmed(&self) {
        self.threads.note_activity();
        self.threads.wake_sleeping_writer();
        self.threads.wake_rewriter();
        if self.is_bounded {
            self.threads.wake_maintenance();
        }
    }

    /// States the trims that were held back at the cap if that lets a segment go.
    pub(crate) fn let_held_go(&self) {
        let mut core = self.core();
        let stated = core.let_held_go();
        let end = core.appended();
        drop(core);
        if stated {
            self.request(end, self.config.own());
        }
    }

    /// Watches for batches that are in flight for longer than `threshold`, if there is one.
    pub(crate) fn watched(self, threshold: Option<Duration>) -> Self {
        Self { stalls: Stalls::new(threshold), ..self }
    }

    /// The same with memory for commits that are to outlive the process only.
    pub(crate) fn with_memory(self, memory: CrashMemory) -> Self {
        Self { memory, ..self }
    }

    /// The state machine, locked.
    #[inline]
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        lock(&self.core)
    }

    /// Makes the next committer wait for others, as if this many records had come last time.
    #[cfg(all(test, loom))]
    pub(crate) fn expect_committers(&self, records: u32) {
        self.wait.expect(records);
    }

    /// Makes the writer thread expect a committer that is about to block.
    #[cfg(all(test, loom))]
    pub(crate) fn expect_committer(&self) {
        self.wait.writer_begins(0);
        self.wait.committer_blocks(|| 0);
        self.wait.writer_ends();
    }

    /// The end of what outlives what the log promises.
    pub(crate) fn durable(&self) -> Lsn {
        self.waiters.durable()
    }

    /// The level that serves a commit which is to outlive `class`.
    pub(crate) fn level(&self, class: Durability) -> Result<AckLevel> {
        let rows = &self.writers.rows;
        if class > rows.class {
            return Err(Error::BeyondPromise { requested: class, promised: rows.class });
        }
        Ok(rows.level(class))
    }

    /// The end of what has reached the level by what was written. One above the log's own, which only closing requests, is read from
    /// the core; at its own it is what readers show.
    pub(crate) fn reached(&self, level: AckLevel) -> Lsn {
        match level.cmp(&self.config.own()) {
            std::cmp::Ordering::Greater => self.core().reached(level),
            std::cmp::Ordering::Equal => self.durable(),
            std::cmp::Ordering::Less => self.waiters.reached(level),
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.recorder.stats();
        stats.stalled_for = self.stalls.stalled_for(monotonic_ns());
        stats.stalls_seen = self.stalls.seen();
        let core = self.core();
        (stats.appended, stats.durable, stats.first) = (core.appended(), core.acknowledged(), core.trim());
        stats.records = core.accepted_records;
        stats.streams = core.tagged.streams.len() as u64;
        stats.stream_bytes = core.tagged.streams.live_bytes();
        stats.stream_memory_bytes = core.tagged.streams.memory_bytes() as u64;
        drop(core);
        stats.follower_wakes = self.publisher.get().map_or(0, |publisher| publisher.wakes());
        let inventory = self.housekeeping.inventory();
        (stats.segments, stats.disk_bytes) = (inventory.segments.len() as u64, inventory.disk_bytes());
        stats.process_crash = self.memory.shown();
        stats
    }
}
