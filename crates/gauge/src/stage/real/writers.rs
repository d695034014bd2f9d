//! Runs several committing threads from a common start, each on its own lane by the shared timing loop.
//!
//! Invariant: the first error of any writer is the block's; the other writers finish their share.

use super::super::{Block, Until};
use super::of_log;
use crate::measure::{self, Sample, Slice};
use crate::rig::Lane;
use crate::rig::real::put_stamp;
use seawall::Log;
use seawall_sys::buffer::Aligned;
use seawall_sys::counters::Counts;
use seawall_sys::starting_line::{CallOffOnPanic, StartingLine, spawn_scoped};
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
    let writers = lanes.len();
    let starting = [StartingLine::new(writers + 1), StartingLine::new(writers + 1)];
    let [ready, go] = [&starting[0], &starting[1]];
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, (lane, slice)) in (0_u64..).zip(lanes) {
            let who = format!("writer {} of {writers}", index + 1);
            match spawn_scoped(scope, &who, move || write(crew, lane, &slice, index, [ready, go])) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    ready.call_off();
                    go.call_off();
                    return Err(error.into());
                }
            }
        }
        // Called off only by a panic, which the joins below pass on.
        let _ = ready.wait();
        let (before, start_ns) = (counts(), clock::monotonic_ns());
        let _ = go.wait();
        let mut block = Block { start_ns, ..Block::default() };
        let mut failure = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(sample)) => block.samples.push(sample),
                Ok(Err(error)) => failure = Some(error),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        block.counts = before.zip(counts()).map(|(before, after)| after.since(&before));
        block.elapsed_ns = block.samples.iter().map(|sample| sample.elapsed_ns).max().unwrap_or(0);
        failure.map_or(Ok(block), |error| Err(error.into()))
    })
}

fn write<L: Lane>(
    crew: &Crew<'_>,
    mut lane: L,
    slice: &Slice,
    index: u64,
    lines: [&StartingLine; 2],
) -> Result<Sample, Error> {
    let _guard = CallOffOnPanic(lines);
    lane.load(Aligned::incompressible(crew.bytes, crew.seed ^ (index << 32)));
    let turn = usize::try_from(index).unwrap_or(0) % crew.pin_to.len().max(1);
    let prepared = lane.enter(crew.pin_to.get(turn).copied());
    let bytes = crew.bytes as u64;
    let warmed = prepared.and_then(|()| lane.warm(slice.base..slice.base + slice.capacity * bytes));
    // Both lines are passed whatever happened, because the others wait there.
    if !lines.iter().all(|line| line.wait()) {
        return Ok(Sample::default());
    }
    warmed?;
    measure::run(&mut lane, slice, bytes, crew.until.stop)
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
