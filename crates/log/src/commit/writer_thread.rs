//! The writer thread: writes batches that no committer leads, and a durable mark when the log is idle.
//!
//! Full batches have no leader, and neither have those that only futures wait for. A durable mark is written when there
//! was no commit for a while, so that damage to the last acknowledged batch does not look like a torn write. A log that
//! stays idle gives memory back.
//!
//! Invariant: the thread sleeps when there is nothing to do: an idle log costs nothing.

use std::sync::Arc;
use std::time::Duration;

use seawall_sys::clock::monotonic_ns;

use crate::commit::close_future::CloseOrder;
use crate::commit::ending::HandedOver;
use crate::commit::group::Group;
use crate::commit::idle_memory::IDLE_UNTIL_RELEASE;

/// Runs until the log stops; `idle` is the time without commits after which a durable mark is written. Closes the log if a
/// future requests that.
pub(crate) fn run(group: &Arc<Group>, idle: Duration, closing: &CloseOrder, handed_over: &HandedOver) {
    // What panics is a recorder of metrics. The log has failed then, and can still be closed.
    let work = || write(group, idle, closing, handed_over);
    while std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {}
}

fn write(group: &Group, idle: Duration, closing: &CloseOrder, handed_over: &HandedOver) {
    let mut led = false;
    let (mut seen, mut quiet_since) = (u64::MAX, monotonic_ns());
    while !group.status.is_stopping() {
        if group.status.is_closed() && closing.run(group, handed_over) {
            return;
        }
        let mut core = group.core();
        // Tasks that requested the last batch are about to request the next one, and waking this thread takes longer.
        if group.is_requested(&core) || std::mem::take(&mut led) {
            core = match group.lead_for_futures(core) {
                Ok(()) => {
                    led = true;
                    continue;
                }
                Err(core) => core,
            };
            // Committers that came meanwhile have gone to sleep, because this thread was gathering already.
            let waiting = core.waiting();
            drop(core);
            group.hand_over(waiting);
            core = group.core();
        }
        let now = monotonic_ns();
        let activity = group.threads.activity();
        if activity != seen {
            (seen, quiet_since) = (activity, now);
        }
        // Being woken is no reason for a mark: only time without commits is.
        let quiet = Duration::from_nanos(now - quiet_since);
        let left_of = |wait: Duration| wait.checked_sub(quiet).filter(|left| !left.is_zero());
        let (until_mark, until_release) = (left_of(idle), left_of(IDLE_UNTIL_RELEASE));
        match (until_mark, until_release) {
            // The thread looks again by itself, so that no commit has to wake it.
            (Some(mark), Some(release)) => {
                drop(core);
                std::thread::park_timeout(mark.min(release));
                continue;
            }
            (Some(_), None) => drop(core),
            (None, _) => match group.lead_idle(core) {
                Ok(()) => continue,
                Err(core) => drop(core),
            },
        }
        if until_release.is_none() {
            group.release_idle_memory(seen);
        }
        let limit = until_mark.or(until_release.filter(|_| group.core().free.has_excess()));
        group.park_writer(seen, limit);
    }
}
