//! Runs the two background threads: the writer (unled batches, idle marks) and the segment maintenance.
//!
//! The *writer* writes batches that have no leader (full ones, and those that futures wait for) and writes a durable
//! mark when the log has been idle for a while. The *keeper* prepares segments in advance and recycles trimmed ones.
//! Both threads sleep when there is nothing to do: an idle log costs nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::commit::group::{Desk, Group};
use crate::commit::metrics::Metric;
use crate::commit::state::Spare;
use crate::commit::sync::{Ordering, lock};
use crate::error::Error;
use crate::format::Kind;
use crate::segment::lifecycle::{Keeper, Progress, Setback, Task};
use crate::storage::disk::Disk;

/// One write of zeros while a segment is prepared, in bytes: few, because a commit waits behind the one under way.
const FILL_BYTES: usize = 128 << 10;

/// The writer's loop; returns when the log stops.
pub(crate) fn write(group: &Arc<Group>, idle: Duration) {
    let mut drove = false;
    let (mut seen, mut quiet_since) = (u64::MAX, seawall_sys::clock::monotonic_ns());
    while !group.stopping.load(Ordering::SeqCst) {
        let mut core = lock(&group.core);
        // Who wanted the last batch is about to want the next one, and waking this thread takes longer than that.
        if group.is_wanted(&core) || std::mem::take(&mut drove) {
            core = match group.lead_for_others(core) {
                Ok(()) => {
                    drove = true;
                    continue;
                }
                Err(core) => core,
            };
            // Whoever came meanwhile has gone to sleep, because somebody was gathering already.
            let waiting = core.waiting();
            drop(core);
            group.hand_over(waiting);
            core = lock(&group.core);
        }
        let now = seawall_sys::clock::monotonic_ns();
        let activity = group.activity.load(Ordering::Relaxed);
        if activity != seen {
            (seen, quiet_since) = (activity, now);
        }
        // Being woken is no reason for a mark: only time without commits is.
        let quiet = Duration::from_nanos(now - quiet_since);
        if let Some(rest) = idle.checked_sub(quiet).filter(|rest| !rest.is_zero()) {
            drop(core);
            std::thread::park_timeout(rest);
            continue;
        }
        if core.settle_debts()
            && let Some(issue) = core.issue()
        {
            group.drive(core, issue);
            continue;
        }
        if core.wants_mark()
            && core.mark(Kind::Mark)
            && let Some(issue) = core.issue()
        {
            group.drive(core, issue);
            continue;
        }
        drop(core);
        group.writer_asleep.store(true, Ordering::SeqCst);
        let quiet = group.activity.load(Ordering::SeqCst) == seen && {
            let core = lock(&group.core);
            !group.is_wanted(&core)
        };
        if quiet && !group.stopping.load(Ordering::SeqCst) {
            std::thread::park();
        }
        group.writer_asleep.store(false, Ordering::SeqCst);
    }
}

/// The next piece of housekeeping, if there is any.
fn next_task(group: &Group) -> Option<Task> {
    let mut desk = lock(&group.desk);
    let mut core = lock(&group.core);
    let mut shelf = lock(&group.shelf);
    shelf.next(&mut core, &mut desk.needed)
}

/// The keeper's loop; returns when the log stops.
pub(crate) fn keep<D: Disk>(group: &Arc<Group>, disk: &mut D) {
    // Prepared, but not open for writing yet: the process may have too many files open.
    let mut unopened: Option<Spare> = None;
    while !group.stopping.load(Ordering::SeqCst) {
        let prepared = if let Some(spare) = unopened.take() {
            Ok(Some(spare))
        } else {
            let Some(task) = next_task(group) else {
                std::thread::park();
                continue;
            };
            carry_out(group, disk, task)
        };
        let offered = prepared.and_then(|prepared| {
            let Some(spare) = prepared else { return Ok(()) };
            admit(group, spare).map_err(|error| {
                unopened = Some(spare);
                Setback { error, fatal: false }
            })
        });
        match offered {
            Ok(()) => {}
            Err(Setback { error, fatal: true }) => {
                group.fail(error);
                return;
            }
            Err(Setback { error, fatal: false }) => {
                tracing::warn!(%error, "a segment could not be prepared");
                if unopened.is_none() {
                    lock(&group.shelf).set_back();
                    // The spare that was to be replaced is as it was, but for its lanes; they may have to wait until fewer
                    // files are open.
                    let held = lock(&group.core).held_spare();
                    match held.map(|spare| group.lanes.open(spare.number, spare.bytes)) {
                        Some(Err(_)) => unopened = held,
                        _ => lock(&group.core).release_spare(None),
                    }
                }
                *lock(&group.desk) = Desk { setback: Some(error), needed: None };
                group.room.open();
                // Tried again when a segment is asked for, a new one is started or something is trimmed.
                std::thread::park();
            }
        }
    }
}

/// Leaves nothing of an unfinished segment behind; what cannot be removed now goes when the log is opened again.
fn give_up<D: Disk>(keeper: Keeper, disk: &mut D) {
    if let Err(error) = keeper.give_up(disk) {
        tracing::warn!(%error, "an unfinished segment is left behind");
    }
}

/// Does one piece of housekeeping; returns the segment that it prepared, if it did.
fn carry_out<D: Disk>(group: &Group, disk: &mut D, task: Task) -> Result<Option<Spare>, Setback> {
    if let Task::Replace(spare) = task {
        group.lanes.close(spare.number);
    }
    let _span = match task {
        Task::Prepare(to) | Task::Replace(to) => tracing::debug_span!("prepare", segment = to.number),
        Task::Recycle { from, to } => tracing::debug_span!("recycle", from, segment = to.number),
        Task::Retire(segment) => tracing::debug_span!("retire", segment),
    }
    .entered();
    let mut keeper = Keeper::new(task, FILL_BYTES);
    let end = loop {
        match keeper.step(disk) {
            Ok(Progress::More) if group.stopping.load(Ordering::Relaxed) => {
                give_up(keeper, disk);
                return Ok(None);
            }
            Ok(Progress::More) => {}
            Ok(end) => break end,
            // Housekeeping knows file names only.
            Err(Setback { error, fatal }) => {
                if !fatal {
                    give_up(keeper, disk);
                }
                return Err(Setback { error: error.in_dir(group.lanes.dir()), fatal });
            }
        }
    };
    if task.fills() {
        group.meters.filled();
    }
    let mut shelf = lock(&group.shelf);
    let spare = shelf.finished(end);
    // What lies before the active segment is written no more.
    let active = shelf.segments().back().map(|header| header.number);
    drop(shelf);
    group.lanes.close_before(active.unwrap_or(0));
    Ok(spare)
}

/// Opens a prepared segment for writing and offers it.
fn admit(group: &Group, spare: Spare) -> Result<(), Error> {
    group.lanes.open(spare.number, spare.bytes)?;
    // Done: whoever asked may have taken it before the next look, which would then make another one.
    let needed = &mut lock(&group.desk).needed;
    *needed = needed.filter(|bytes| *bytes > spare.bytes);
    group.meters.metered.count(Metric::SegmentsPrepared, 1);
    let mut core = lock(&group.core);
    if core.held_spare().is_some() {
        core.release_spare(Some(spare));
    } else {
        core.add_spare(spare);
    }
    drop(core);
    group.room.open();
    // The idle writer may have had no place for its mark. It counts as activity, so that a writer that is just about to
    // sleep looks again.
    group.activity.fetch_add(1, Ordering::SeqCst);
    group.wake_sleeping_writer();
    Ok(())
}
