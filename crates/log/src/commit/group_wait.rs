//! Group-commit wait: decides whether a leader waits for more committers, and for how long.
//!
//! A write and its flush cost a fixed time that hardly depends on how much is written, until the transfer of the
//! bytes itself takes as long. While the fixed time dominates, one write for all concurrent committers is cheaper
//! than two writes in sequence. Once the transfer dominates, the leader waits only for as many records as transfer in
//! the fixed time: half of the write is then transfer, and the other committers gather meanwhile.
//!
//! ```text
//!   crowd      records of the last round: in the batch just written, and gathered by its end
//!   quick      time of a small write: the recent minimum; small ones raise it slowly, so that a slower disk is
//!              noticed, large ones never, or they would be taken for small ones of a slow disk in the end
//!   transfer   time beyond that of a write of the whole crowd, estimated from the last write;
//!              transfer > quick: the transfer dominates, and quick / transfer of the crowd is worth waiting for
//! ```
//!
//! The writer thread decides in addition whether a committer is about to block on the batch that it would write.
//! Waking a blocked committer costs more than letting it lead, so the writer thread yields to it briefly.
//!
//! Invariants: a lone committer (a crowd of at most one) never waits; no leader waits longer than one quick write; a
//! waiting leader yields the processor, and stops waiting when no new committer has come for half of that time; the
//! writer leaves a batch to committers for at most [`PROMPT_NS`], and only after a committer came that soon after the
//! writer had begun a batch.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Looks without anyone new before the clock is asked at all.
const LOOKS: u32 = 4;
/// Between two looks at what has gathered, in nanoseconds: each takes the core's memory from the processor of who
/// appends.
const LOOK_NS: u64 = 2_000;
/// What a small write takes until the first one has been timed, in nanoseconds: a fast disk's.
const QUICK_NS: u64 = 20_000;
/// A write of more bytes is not a small one.
const SMALL_BYTES: usize = 128 << 10;

/// Who blocks so soon after the writer thread began to write could as well have led, in nanoseconds: less than waking
/// him takes.
pub(crate) const PROMPT_NS: u64 = 10_000;
/// The writer thread is not writing.
const IDLE: u64 = u64::MAX;

/// Who comes round together, and what writes take.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// How many are worth waiting for.
    records: AtomicU32,
    quick_ns: AtomicU64,
    /// Somebody waits for the others already.
    gathering: AtomicBool,
    /// When the writer thread began the batch that it writes, or [`IDLE`].
    writer_began_ns: AtomicU64,
    /// Somebody blocked as soon as the writer thread had begun.
    prompt: AtomicBool,
}

/// How somebody's waiting goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    quick_ns: u64,
    began_ns: u64,
    grew_ns: u64,
    looked_ns: u64,
    seen: u32,
    idle: u32,
}

impl Crowd {
    /// Nobody yet.
    pub(crate) fn new() -> Self {
        Self {
            records: AtomicU32::new(0),
            quick_ns: AtomicU64::new(QUICK_NS),
            gathering: AtomicBool::new(false),
            writer_began_ns: AtomicU64::new(IDLE),
            prompt: AtomicBool::new(false),
        }
    }

    /// A batch of `bytes` bytes with `records` records took `took_ns`; by its end `others` were gathered behind it and
    /// on their way beside it.
    pub(crate) fn wrote(&self, took_ns: u64, bytes: usize, records: u32, others: u32) {
        let quick = self.quick_ns.load(Ordering::Relaxed);
        let rise = if bytes <= SMALL_BYTES { quick / 64 + 1 } else { 0 };
        let quick = took_ns.min(quick + rise);
        self.quick_ns.store(quick, Ordering::Relaxed);
        let crowd = records.saturating_add(others);
        let transfer = (took_ns - quick).saturating_mul(crowd.into()) / u64::from(records.max(1));
        let worth = (u64::from(crowd) * quick).checked_div(transfer.max(quick)).unwrap_or(0);
        let worth = u32::try_from(worth).unwrap_or(crowd);
        self.records.store(if worth > 1 { worth } else { 0 }, Ordering::Relaxed);
    }

    /// Expects so many, as if they had come last time.
    #[cfg(all(test, loom))]
    pub(crate) fn expect(&self, records: u32) {
        self.records.store(records, Ordering::Relaxed);
    }

    /// Whether a batch of `gathered` records should go as it is.
    pub(crate) fn is_here(&self, gathered: u32) -> bool {
        gathered >= self.records.load(Ordering::Relaxed)
    }

    /// Begins to wait, unless somebody does already.
    pub(crate) fn wait(&self, gathered: u32, now_ns: u64) -> Option<Patience> {
        let quick_ns = self.quick_ns.load(Ordering::Relaxed);
        let free = !self.gathering.swap(true, Ordering::Acquire);
        let [began_ns, grew_ns, looked_ns] = [now_ns; 3];
        free.then_some(Patience { quick_ns, began_ns, grew_ns, looked_ns, seen: gathered, idle: 0 })
    }

    /// Ends the waiting. If fewer came than last time, no more are expected next time.
    pub(crate) fn go(&self, gathered: u32) {
        self.records.fetch_min(gathered, Ordering::Relaxed);
        self.gathering.store(false, Ordering::Release);
    }

    /// The writer thread begins to write.
    pub(crate) fn writer_begins(&self, now_ns: u64) {
        self.writer_began_ns.store(now_ns, Ordering::Relaxed);
    }

    /// The writer thread has written.
    pub(crate) fn writer_ends(&self) {
        self.writer_began_ns.store(IDLE, Ordering::Relaxed);
    }

    /// Somebody is about to block.
    pub(crate) fn blocks(&self, now_ns: impl FnOnce() -> u64) {
        let began = self.writer_began_ns.load(Ordering::Relaxed);
        if began != IDLE && now_ns().saturating_sub(began) < PROMPT_NS {
            self.prompt.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the writer thread should leave the next batch to whoever is about to block.
    pub(crate) fn is_prompt(&self) -> bool {
        self.prompt.load(Ordering::Relaxed)
    }

    /// Nobody came whom the writer thread left a batch to.
    pub(crate) fn nobody_came(&self) {
        self.prompt.store(false, Ordering::Relaxed);
    }
}

impl Patience {
    /// Whether it is time to look at what has gathered.
    pub(crate) fn looks(&mut self, now_ns: u64) -> bool {
        let due = now_ns - self.looked_ns >= LOOK_NS;
        if due {
            self.looked_ns = now_ns;
        }
        due
    }

    /// Whether to go on waiting with `gathered` records there.
    pub(crate) fn lasts(&mut self, gathered: u32, now_ns: u64) -> bool {
        if gathered > self.seen {
            (self.seen, self.grew_ns, self.idle) = (gathered, now_ns, 0);
        } else {
            self.idle += 1;
        }
        let coming = self.idle < LOOKS || now_ns - self.grew_ns < self.quick_ns / 2;
        coming && now_ns - self.began_ns < self.quick_ns
    }
}

#[cfg(test)]
mod tests {
    use super::{Crowd, LOOK_NS, LOOKS, PROMPT_NS};

    #[test]
    fn a_lone_committer_never_waits() {
        let crowd = Crowd::new();
        assert!(crowd.is_here(1), "the very first");
        for _ in 0..100 {
            crowd.wrote(50_000, 1 << 10, 1, 0);
            assert!(crowd.is_here(0) && crowd.is_here(1));
        }
    }

    #[test]
    fn those_who_came_together_are_waited_for_until_fewer_come() {
        let crowd = Crowd::new();
        crowd.wrote(10_000, 5 << 10, 5, 3);
        assert!(!crowd.is_here(7));
        assert!(crowd.is_here(8));
        assert!(crowd.wait(3, 0).is_some());
        assert!(crowd.wait(3, 0).is_none(), "one waits for all");
        crowd.go(5);
        assert!(crowd.is_here(5), "no more than came are expected");
        assert!(!crowd.is_here(4));
    }

    #[test]
    fn of_a_long_transfer_so_much_is_waited_for_as_takes_no_longer_than_a_quick_write() {
        let crowd = Crowd::new();
        crowd.wrote(10_000, 1 << 10, 1, 0);
        // A quarter of the crowd takes half a quick write longer, all of them would take two longer: half is waited for.
        crowd.wrote(15_000, 128 << 10, 128, 384);
        assert!(!crowd.is_here(255) && crowd.is_here(280));
        // A slower device: nobody else is worth it.
        crowd.wrote(10_000_000, 128 << 10, 128, 384);
        assert!(crowd.is_here(0));
        // Four times as fast a device: all of them take hardly longer than one.
        crowd.wrote(11_000, 128 << 10, 128, 384);
        assert!(!crowd.is_here(511));
    }

    #[test]
    fn a_slower_disk_is_noticed() {
        let crowd = Crowd::new();
        crowd.wrote(10_000, 1 << 10, 1, 0);
        crowd.wrote(100_000, 8 << 10, 8, 0);
        assert!(crowd.is_here(0), "taken for a long transfer");
        for _ in 0..200 {
            crowd.wrote(100_000, 8 << 10, 8, 0);
        }
        assert!(!crowd.is_here(7), "100 microseconds are the usual now");
    }

    #[test]
    fn large_writes_are_not_taken_for_small_ones_of_a_slow_disk() {
        let crowd = Crowd::new();
        crowd.wrote(50_000, 1 << 10, 1, 0);
        for _ in 0..1000 {
            crowd.wrote(300_000, 512 << 10, 512, 0);
            assert!(!crowd.is_here(30) && crowd.is_here(40), "the transfer takes fourteen quick writes");
        }
    }

    #[test]
    fn the_writer_leaves_a_batch_to_who_blocked_at_once_and_to_nobody_else() {
        let crowd = Crowd::new();
        crowd.blocks(|| unreachable!("the writer is idle: nobody asks for the time"));
        crowd.writer_begins(1_000);
        crowd.blocks(|| 1_000 + PROMPT_NS);
        assert!(!crowd.is_prompt(), "he came when the write was well under way");
        crowd.blocks(|| 1_000 + PROMPT_NS - 1);
        assert!(crowd.is_prompt());
        crowd.nobody_came();
        assert!(!crowd.is_prompt());
        crowd.writer_ends();
        crowd.blocks(|| unreachable!("the writer has written"));
    }

    #[test]
    fn patience_ends_when_nobody_comes_and_at_the_latest_after_a_quick_write() {
        let crowd = Crowd::new();
        crowd.wrote(8_000, 64 << 10, 64, 0);
        let Some(mut patience) = crowd.wait(1, 0) else { panic!("nobody waits yet") };
        assert!(!patience.looks(LOOK_NS - 1));
        assert!(patience.looks(LOOK_NS) && !patience.looks(LOOK_NS + 1));
        // A few looks come before the clock.
        for look in 1..LOOKS {
            assert!(patience.lasts(1, 7_000), "look {look}");
        }
        assert!(!patience.lasts(1, 7_000), "nobody came for more than half");
        assert!(patience.lasts(2, 7_500), "somebody came");
        assert!(!patience.lasts(3, 8_000), "a quick write's time is over");
    }
}
