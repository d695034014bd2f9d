//! Runs several committing threads from a common start, each on its own lane by the shared timing loop.
//!
//! Invariant: the first error of any writer is the block's; the other writers finish their share.

use super::super::{Block, Until};
use super::of_log;
use crate::measure::{self, Slice};
use crate::rig::Lane;
use crate::rig::real::put_stamp;
use seawall::Log;
use seawall_sys::buffer::Aligned;
use seawall_sys::counters::Counts;
use seawall_sys::starting_line::run_together;
use seawall_sys::thread::{Accounts, Times, pin};
use seawall_sys::{Error, OpenError, clock};
use std::ops::Range;
use std::sync::Arc;

/// What all writers of a block have in common.
pub(super) struct Crew<'a> {
    /// Size of a transaction, bytes.
    pub(super) bytes: usize,
    /// CPUs to pin to, in turn.
    pub(super) pin_to: &'a [usize],
    /// Seed of the data.
    pub(super) seed: u64,
    /// When to end.
    pub(super) until: Until<'a>,
}

/// A writer's part of a journal: from `base` on, so many transactions.
pub(super) fn slice(base: u64, capacity: u64, until: Until<'_>) -> Slice {
    Slice {
        base,
        capacity,
        first: 0,
        commits_max: u64::MAX,
        time_max_ns: until.block_ns,
        interval_ns: None,
        splits: false,
        slow_ns: None,
    }
}

/// Lets all `lanes` commit at once.
pub(super) fn run<L: Lane>(
    crew: &Crew<'_>,
    lanes: Vec<(L, Slice)>,
    counts: &dyn Fn() -> Option<Counts>,
) -> Result<Block, OpenError> {
    let prepare = |index: usize, (mut lane, slice): (L, Slice)| {
        lane.load(Aligned::incompressible(crew.bytes, crew.seed ^ ((index as u64) << 32)));
        lane.enter(crew.pin_to.get(index % crew.pin_to.len().max(1)).copied())?;
        lane.warm(slice.base..slice.base + slice.capacity * crew.bytes as u64)?;
        Ok((lane, slice))
    };
    let work =
        |(mut lane, slice): (L, Slice)| measure::run(&mut lane, &slice, crew.bytes as u64, crew.until.stop);
    let ((before, start_ns), samples) =
        run_together(lanes, prepare, || (counts(), clock::monotonic_ns()), work)?;
    let counts = before.zip(counts()).map(|(before, after)| after.since(&before));
    let elapsed_ns = samples.iter().map(|sample| sample.elapsed_ns).max().unwrap_or(0);
    Ok(Block { samples, start_ns, elapsed_ns, counts, ..Block::default() })
}

/// A writer into the log: the whole commit is its sync.
pub(super) struct LogLane {
    log: Arc<Log>,
    record: Aligned,
    accounts: Option<Accounts>,
}

impl LogLane {
    pub(super) fn new(log: Arc<Log>) -> Self {
        Self { log, record: Aligned::zeroed(0), accounts: None }
    }
}

impl Lane for LogLane {
    fn enter(&mut self, cpu: Option<usize>) -> Result<(), Error> {
        if let Some(cpu) = cpu {
            pin(cpu)?;
        }
        self.accounts = Some(Accounts::open());
        Ok(())
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn sleep_until(&mut self, deadline_ns: u64) {
        clock::sleep_until(deadline_ns);
    }

    fn load(&mut self, bytes: Aligned) {
        self.record = bytes;
    }

    fn write(&mut self, _: u64, stamp: u64) -> Result<(), Error> {
        put_stamp(self.record.as_mut_slice(), stamp);
        Ok(())
    }

    #[inline]
    fn sync(&mut self) -> Result<(), Error> {
        let committed = self.log.append_commit(self.record.as_slice());
        committed.map(|_| ()).map_err(|error| of_log("commit", self.log.dir(), &error))
    }

    fn warm(&mut self, _: Range<u64>) -> Result<(), Error> {
        Ok(())
    }

    fn times(&self) -> Times {
        self.accounts.as_ref().map(Accounts::times).unwrap_or_default()
    }

    fn wait_ns(&self) -> Option<u64> {
        self.accounts.as_ref()?.wait_ns()
    }
}
