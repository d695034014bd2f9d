//! Runs several committing threads from a common start, each on its own lane by the shared timing loop.
//!
//! Invariant: the first error of any writer is the block's; the other writers finish their share.

use super::{Block, BlockError, Lane, Until};
use crate::block::Slice;
use crate::measure;
use crate::workload::Workload;
use seawall_host::starting_line::{run_together, spawn_scoped};
use seawall_sys::Error;
use seawall_sys::buffer::Aligned;
use seawall_sys::counters::Counts;
use std::panic::resume_unwind;

/// What all writers of a block have in common.
#[derive(Debug, Clone, Copy)]
pub struct Crew<'a> {
    /// Size of a write, bytes.
    pub bytes: usize,
    /// CPUs to pin to, in turn.
    pub pin_to: &'a [usize],
    /// Seed of the data.
    pub seed: u64,
    /// What is committed, if not always the same.
    pub workload: Option<&'a Workload>,
    /// When to end.
    pub until: Until<'a>,
}

/// A writer's part of a journal: `capacity` transactions from `base` on.
pub(crate) fn slice(base: u64, capacity: u64, until: Until<'_>) -> Slice {
    Slice {
        base,
        capacity,
        writes: 1,
        first: 0,
        commits_max: u64::MAX,
        time_max_ns: until.block_ns,
        interval_ns: None,
        splits: false,
        slow_ns: None,
        warm: capacity,
    }
}

/// Runs `work` in a thread of its own, whose accounts are the block's alone and which may be pinned.
pub(crate) fn apart<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, BlockError> {
    let ended: Result<_, Error> =
        std::thread::scope(|scope| Ok(spawn_scoped(scope, "the writer", work)?.join()));
    let ended = ended.map_err(BlockError::run)?.unwrap_or_else(|panic| resume_unwind(panic));
    Ok(ended?)
}

pub(crate) fn run<L: Lane>(
    crew: &Crew<'_>,
    lanes: Vec<(L, Slice)>,
    counts: &dyn Fn() -> Option<Counts>,
) -> Result<Block, BlockError> {
    let prepare = |index: usize, (mut lane, slice): (L, Slice)| {
        lane.load(Aligned::incompressible(crew.bytes, crew.seed ^ ((index as u64) << 32)));
        lane.enter(crew.pin_to.get(index % crew.pin_to.len().max(1)).copied())?;
        warm(&mut lane, &slice, crew.bytes as u64)?;
        Ok((lane, slice))
    };
    let work = |(mut lane, slice): (L, Slice)| {
        measure::run(&mut lane, &slice, crew.bytes as u64, crew.workload, crew.until.stop)
    };
    let (before, samples) = run_together(lanes, prepare, counts, work).map_err(BlockError::run)?;
    let (after, samples) = (counts(), samples?);
    let counts = before.zip(after).map(|(before, after)| after.since(&before));
    let elapsed_ns = samples.iter().map(|sample| sample.elapsed_ns).max().unwrap_or(0);
    Ok(Block { samples, elapsed_ns, counts, load_bytes: 0 })
}

fn warm<L: Lane>(lane: &mut L, slice: &Slice, bytes: u64) -> Result<(), Error> {
    let bytes = bytes * slice.writes;
    let ahead = slice.warm.min(slice.capacity);
    let first = slice.first % slice.capacity;
    let end = (first + ahead).min(slice.capacity);
    lane.warm(slice.base + first * bytes..slice.base + end * bytes)?;
    let rest = ahead - (end - first);
    if rest > 0 { lane.warm(slice.base..slice.base + rest * bytes) } else { Ok(()) }
}
