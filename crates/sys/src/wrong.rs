//! What the planted bugs of this crate do whose wrong value is not the least or the greatest of its type (feature
//! `mutants`).

#![allow(non_snake_case, reason = "each function has the name of its bug")]

use crate::completion::{Advance, Failure, Step, SubmitOrder};
use crate::counters::WatchedLevel;

pub(crate) use std::convert::identity as SyncfsBelieved;

pub(crate) fn HalfTheFlushesDo(unflushed: u64, commits: u64) -> u64 {
    unflushed.saturating_sub(commits / 2)
}

pub(crate) fn StartWithTheBatch() -> SubmitOrder {
    SubmitOrder::Grouped
}

pub(crate) fn SyncDuringWrites(count: usize, sync: Option<usize>) -> usize {
    sync.map_or(count, |sync| count.max(sync + 1))
}

pub(crate) fn SyncErrorIgnored(step: Step, failed: Result<Advance, Failure>) -> Result<Advance, Failure> {
    if step == Step::Sync { Ok(Advance::Done) } else { failed }
}

pub(crate) fn SyncRetried(step: Step, failed: Result<Advance, Failure>) -> Result<Advance, Failure> {
    if step == Step::Sync { Ok(Advance::Not) } else { failed }
}

pub(crate) fn WatchesLowestAlone(levels: &[WatchedLevel]) -> &[WatchedLevel] {
    &levels[levels.len().saturating_sub(1)..]
}

pub(crate) fn WriteErrorIgnored(step: Step, failed: Result<Advance, Failure>) -> Result<Advance, Failure> {
    if step == Step::Sync { failed } else { Ok(Advance::Done) }
}
