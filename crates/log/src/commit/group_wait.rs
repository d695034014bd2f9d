//! Group-commit wait: decides whether a leader waits for more committers, and for how long.
//!
//! A write and its flush cost a fixed time that hardly depends on how much is written, until the transfer of the
//! bytes itself takes as long. While the fixed time dominates, one write for all concurrent committers is cheaper
//! than two writes in sequence. Once the transfer dominates, the leader waits only for as many records as transfer in
//! the fixed time: half of the write is then transfer, and the other committers gather meanwhile.
//!
//! ```text
//!   together   records of the last round: in the batch just written, gathered by its end, or in flight
//!   quick      time of a small write: the recent minimum; small ones raise it slowly, so that a slower disk is
//!              noticed; large ones never raise it, otherwise they would pass for small ones of a slow disk
//!   transfer   time beyond that of a write of all these records, estimated from the last write;
//!              transfer > quick: the transfer dominates, and quick / transfer of the records are worth waiting for
//! ```
//!
//! The writer thread decides in addition whether a committer is about to block on the batch that it would write.
//! Waking a blocked committer costs more than letting it lead, so the writer thread yields to it briefly.
//!
//! Invariants: a lone committer (at most one record in the last round) never waits; no leader waits longer than one quick write; a
//! waiting leader yields the processor, and stops waiting when no new committer has come for half of that time; the
//! writer leaves a batch to committers for at most [`YIELD_NS`], and only after a committer came that soon after the
//! writer had begun a batch.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Polls without a new record before the clock can end the wait.
const POLLS_MIN: u32 = 4;
/// Time between two polls of what has gathered, in nanoseconds: each takes the core's cache lines from the processors
/// that append.
const POLL_NS: u64 = 2_000;
/// The time of a small write until the first one is measured, in nanoseconds: that of a fast disk.
const QUICK_NS: u64 = 20_000;
/// A write of more bytes is not a small one.
const SMALL_BYTES: usize = 128 << 10;

/// A committer that blocks within this time after the writer thread began to write could have led instead, in
/// nanoseconds: less than waking it takes.
pub(crate) const YIELD_NS: u64 = 10_000;
/// The writer thread is not writing.
const IDLE: u64 = u64::MAX;

/// What the last round shows of the committers and of the disk.
#[derive(Debug)]
pub(crate) struct GroupWait {
    /// Records worth waiting for.
    records: AtomicU32,
    quick_ns: AtomicU64,
    /// A leader waits already.
    gathering: AtomicBool,
    /// When the writer thread began the batch that it writes, or [`IDLE`].
    writer_began_ns: AtomicU64,
    /// A committer blocked as soon as the writer thread had begun.
    committer_expected: AtomicBool,
}

/// How long one leader may still wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitBudget {
    quick_ns: u64,
    began_ns: u64,
    grew_ns: u64,
    polled_ns: u64,
    seen: u32,
    idle: u32,
}

impl GroupWait {
    pub(crate) fn new() -> Self {
        Self {
            records: AtomicU32::new(0),
            quick_ns: AtomicU64::new(QUICK_NS),
            gathering: AtomicBool::new(false),
            writer_began_ns: AtomicU64::new(IDLE),
            committer_expected: AtomicBool::new(false),
        }
    }

    /// A batch of `bytes` bytes with `records` records took `took_ns`; by its end `others` were gathered after it
    /// or in flight.
    pub(crate) fn batch_written(&self, took_ns: u64, bytes: usize, records: u32, others: u32) {
        let quick = self.quick_ns.load(Ordering::Relaxed);
        let rise = if bytes <= SMALL_BYTES { quick / 64 + 1 } else { 0 };
        let quick = took_ns.min(quick + rise);
        self.quick_ns.store(quick, Ordering::Relaxed);
        let together = records.saturating_add(others);
        let transfer = (took_ns - quick).saturating_mul(together.into()) / u64::from(records.max(1));
        let worth = (u64::from(together) * quick).checked_div(transfer.max(quick)).unwrap_or(0);
        let worth = u32::try_from(worth).unwrap_or(together);
        self.records.store(if worth > 1 { worth } else { 0 }, Ordering::Relaxed);
    }

    /// Expects this many, as if they had come last time.
    #[cfg(all(test, loom))]
    pub(crate) fn expect(&self, records: u32) {
        self.records.store(records, Ordering::Relaxed);
    }

    /// Whether a batch of `gathered` records need not wait for more.
    pub(crate) fn is_complete(&self, gathered: u32) -> bool {
        gathered >= self.records.load(Ordering::Relaxed)
    }

    /// Begins to wait, unless a leader waits already.
    pub(crate) fn begin(&self, gathered: u32, now_ns: u64) -> Option<WaitBudget> {
        let quick_ns = self.quick_ns.load(Ordering::Relaxed);
        let free = !self.gathering.swap(true, Ordering::Acquire);
        let [began_ns, grew_ns, polled_ns] = [now_ns; 3];
        free.then_some(WaitBudget { quick_ns, began_ns, grew_ns, polled_ns, seen: gathered, idle: 0 })
    }

    /// Ends the waiting. If fewer came than last time, no more are expected next time.
    pub(crate) fn end(&self, gathered: u32) {
        self.records.fetch_min(gathered, Ordering::Relaxed);
        self.gathering.store(false, Ordering::Release);
    }

    pub(crate) fn writer_begins(&self, now_ns: u64) {
        self.writer_began_ns.store(now_ns, Ordering::Relaxed);
    }

    pub(crate) fn writer_ends(&self) {
        self.writer_began_ns.store(IDLE, Ordering::Relaxed);
    }

    pub(crate) fn committer_blocks(&self, now_ns: impl FnOnce() -> u64) {
        let began = self.writer_began_ns.load(Ordering::Relaxed);
        if began != IDLE && now_ns().saturating_sub(began) < YIELD_NS {
            self.committer_expected.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the writer thread should leave the next batch to a committer that is about to block.
    pub(crate) fn expects_committer(&self) -> bool {
        self.committer_expected.load(Ordering::Relaxed)
    }

    /// The writer thread left a batch to a committer, and none came.
    pub(crate) fn no_committer_came(&self) {
        self.committer_expected.store(false, Ordering::Relaxed);
    }
}

impl WaitBudget {
    /// Whether it is time to poll what has gathered.
    pub(crate) fn is_due(&mut self, now_ns: u64) -> bool {
        let due = now_ns - self.polled_ns >= POLL_NS;
        if due {
            self.polled_ns = now_ns;
        }
        due
    }

    /// Whether to wait on with `gathered` records.
    pub(crate) fn continues(&mut self, gathered: u32, now_ns: u64) -> bool {
        if gathered > self.seen {
            (self.seen, self.grew_ns, self.idle) = (gathered, now_ns, 0);
        } else {
            self.idle += 1;
        }
        let coming = self.idle < POLLS_MIN || now_ns - self.grew_ns < self.quick_ns / 2;
        coming && now_ns - self.began_ns < self.quick_ns
    }
}

#[cfg(test)]
mod tests {
    use super::{GroupWait, POLL_NS, POLLS_MIN, YIELD_NS};

    #[test]
    fn a_lone_committer_never_waits() {
        let group_wait = GroupWait::new();
        assert!(group_wait.is_complete(1), "the very first");
        for _ in 0..100 {
            group_wait.batch_written(50_000, 1 << 10, 1, 0);
            assert!(group_wait.is_complete(0) && group_wait.is_complete(1));
        }
    }

    #[test]
    fn a_leader_waits_for_as_many_as_came_last_time() {
        let group_wait = GroupWait::new();
        group_wait.batch_written(10_000, 5 << 10, 5, 3);
        assert!(!group_wait.is_complete(7));
        assert!(group_wait.is_complete(8));
        assert!(group_wait.begin(3, 0).is_some());
        assert!(group_wait.begin(3, 0).is_none(), "one waits for all");
        group_wait.end(5);
        assert!(group_wait.is_complete(5), "no more than came are expected");
        assert!(!group_wait.is_complete(4));
    }

    #[test]
    fn a_long_transfer_bounds_the_wait_to_the_time_of_a_quick_write() {
        let group_wait = GroupWait::new();
        group_wait.batch_written(10_000, 1 << 10, 1, 0);
        // A quarter of the records takes half a quick write longer, all of them would take two longer: half are waited for.
        group_wait.batch_written(15_000, 128 << 10, 128, 384);
        assert!(!group_wait.is_complete(255) && group_wait.is_complete(280));
        // A slower device: no record is worth waiting for.
        group_wait.batch_written(10_000_000, 128 << 10, 128, 384);
        assert!(group_wait.is_complete(0));
        // Four times as fast a device: all of them take hardly longer than one.
        group_wait.batch_written(11_000, 128 << 10, 128, 384);
        assert!(!group_wait.is_complete(511));
    }

    #[test]
    fn a_slower_disk_is_noticed() {
        let group_wait = GroupWait::new();
        group_wait.batch_written(10_000, 1 << 10, 1, 0);
        group_wait.batch_written(100_000, 8 << 10, 8, 0);
        assert!(group_wait.is_complete(0), "taken for a long transfer");
        for _ in 0..200 {
            group_wait.batch_written(100_000, 8 << 10, 8, 0);
        }
        assert!(!group_wait.is_complete(7), "100 microseconds are the usual now");
    }

    #[test]
    fn large_writes_are_not_taken_for_small_ones_of_a_slow_disk() {
        let group_wait = GroupWait::new();
        group_wait.batch_written(50_000, 1 << 10, 1, 0);
        for _ in 0..1000 {
            group_wait.batch_written(300_000, 512 << 10, 512, 0);
            assert!(
                !group_wait.is_complete(30) && group_wait.is_complete(40),
                "the transfer takes fourteen quick writes"
            );
        }
    }

    #[test]
    fn the_writer_thread_yields_only_to_a_committer_that_blocked_at_once() {
        let group_wait = GroupWait::new();
        group_wait.committer_blocks(|| unreachable!("the writer thread is idle: the clock is not read"));
        group_wait.writer_begins(1_000);
        group_wait.committer_blocks(|| 1_000 + YIELD_NS);
        assert!(!group_wait.expects_committer(), "it came when the write was well advanced");
        group_wait.committer_blocks(|| 1_000 + YIELD_NS - 1);
        assert!(group_wait.expects_committer());
        group_wait.no_committer_came();
        assert!(!group_wait.expects_committer());
        group_wait.writer_ends();
        group_wait.committer_blocks(|| unreachable!("the writer has written"));
    }

    #[test]
    fn the_wait_ends_when_no_committer_comes_and_after_a_quick_write_at_the_latest() {
        let group_wait = GroupWait::new();
        group_wait.batch_written(8_000, 64 << 10, 64, 0);
        let Some(mut budget) = group_wait.begin(1, 0) else { panic!("no leader waits yet") };
        assert!(!budget.is_due(POLL_NS - 1));
        assert!(budget.is_due(POLL_NS) && !budget.is_due(POLL_NS + 1));
        // A few polls come before the clock.
        for poll in 1..POLLS_MIN {
            assert!(budget.continues(1, 7_000), "poll {poll}");
        }
        assert!(!budget.continues(1, 7_000), "none came for more than half");
        assert!(budget.continues(2, 7_500), "a record came");
        assert!(!budget.continues(3, 8_000), "a quick write's time is over");
    }
}
