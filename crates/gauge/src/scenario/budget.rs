//! Divides a run's time among its blocks, net of what each block costs beyond its measuring.
//!
//! Invariant: a block is never shorter than [`BLOCK_MIN_NS`], because a few samples prove nothing; a run of many
//! blocks in little time is therefore longer than requested.

use super::BlockStart;

pub(crate) const BLOCK_MIN_NS: u64 = 20_000_000;

pub(crate) struct Budget {
    started_ns: u64,
    end_ns: Option<u64>,
    blocks: u64,
    done: u64,
    /// What a block costs beyond its commits, nanoseconds, smoothed.
    overhead_ns: u64,
}

impl Budget {
    /// For `blocks` blocks until `end_ns`; without an end, blocks end by their own count.
    pub(crate) fn new(started_ns: u64, end_ns: Option<u64>, blocks: u64) -> Self {
        Self { started_ns, end_ns, blocks, done: 0, overhead_ns: 0 }
    }

    fn blocks_left(&self) -> u64 {
        self.blocks.saturating_sub(self.done).max(1)
    }

    pub(crate) fn block_ns(&self, now_ns: u64) -> u64 {
        let Some(end_ns) = self.end_ns else { return u64::MAX };
        let share_ns = end_ns.saturating_sub(now_ns) / self.blocks_left();
        share_ns.saturating_sub(self.overhead_ns).max(BLOCK_MIN_NS)
    }

    pub(crate) fn block_done(&mut self, overhead_ns: u64) {
        self.overhead_ns =
            if self.done == 0 { overhead_ns } else { (self.overhead_ns * 7 + overhead_ns) / 8 };
        self.done += 1;
    }

    /// A row will not run again: its share goes to the others.
    pub(crate) fn give_up(&mut self, rounds_left: u32) {
        self.blocks = self.blocks.saturating_sub(u64::from(rounds_left));
    }

    pub(crate) fn announce<'a>(
        &self,
        [round, rounds]: [u32; 2],
        now_ns: u64,
        name: &'a str,
        p50_ns: Option<u64>,
    ) -> BlockStart<'a> {
        let spent_ns = now_ns - self.started_ns;
        let done = (self.done as f64 / self.blocks.max(1) as f64).min(1.0);
        let left_ns = match self.end_ns {
            Some(end_ns) => end_ns.saturating_sub(now_ns),
            None => spent_ns / self.done.max(1) * self.blocks_left(),
        };
        BlockStart { round, rounds, done, left_ns, method: name, p50_ns }
    }
}
