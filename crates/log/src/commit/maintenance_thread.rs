//! The maintenance thread: prepares segments in advance, recycles trimmed ones and removes what is left over.
//!
//! Invariants: the thread sleeps when there is nothing to do; a segment is offered to the commit path only when it is
//! prepared and open for writing; a failed sync of a task fails the log, any other failure is returned to the appends
//! that wait for a segment.

use std::sync::Arc;
use std::time::Duration;

use crate::commit::group::Group;
use crate::commit::metrics::Metric;
use crate::error::Error;
use crate::segment::Spare;
use crate::segment::cap::OnFull;
use crate::segment::lifecycle::{Progress, SegmentTask, Task, TaskError};
use crate::storage::disk::Disk;

/// One write of zeros while a segment is prepared, in bytes: few, because a commit waits after the one in flight.
const FILL_BYTES: usize = 128 << 10;

/// How soon a trim that appends wait for is looked at again.
const TRIM_AGAIN: Duration = Duration::from_millis(1);

/// Runs until the log stops or fails. `retain` trims the log by its own rules and as streams let go, and returns when it is to
/// be called again if nothing else happens; `full` is what appends get that find no room.
pub(crate) fn run<D: Disk>(
    group: &Arc<Group>,
    disk: &mut D,
    (mut retain, full): (impl FnMut() -> Option<Duration>, OnFull),
) {
    // Prepared, but not open for writing yet: the process may have too many files open.
    let mut unopened: Option<Spare> = None;
    while !group.status.is_stopping() {
        let look_again = retain();
        group.let_held_go();
        let prepared = if let Some(spare) = unopened.take() {
            Ok(Some(spare))
        } else {
            let Some(task) = group.housekeeping.next_task(|| group.core()) else {
                write_awaited_trims(group);
                refuse(group, full);
                let look_again = if frees_awaited_room(group) { Some(TRIM_AGAIN) } else { look_again };
                look_again.map_or_else(std::thread::park, std::thread::park_timeout);
                continue;
            };
            let prepared = run_task(group, disk, task);
            // A segment that was removed has made room.
            group.waiters.room_for_appends(group.config.batch_bytes);
            prepared
        };
        let offered = prepared.and_then(|prepared| {
            let Some(spare) = prepared else { return Ok(()) };
            offer(group, spare).map_err(|error| {
                unopened = Some(spare);
                TaskError { error, fatal: false }
            })
        });
        match offered {
            Ok(()) => {}
            Err(TaskError { error, fatal: true }) => {
                group.fail(error);
                return;
            }
            Err(TaskError { error, fatal: false }) => {
                tracing::warn!(%error, "a segment could not be prepared");
                if unopened.is_none() {
                    unopened = undo(group);
                }
                group.housekeeping.report_failure(error);
                group.waiters.room_for_appends(0);
                // Tried again when a segment is requested, a new one is started or something is trimmed.
                std::thread::park();
            }
        }
    }
}

/// Requests a commit of everything appended if appends wait for room: it may contain a trim that frees segments, and no
/// committer may come.
fn write_awaited_trims(group: &Group) {
    if group.housekeeping.awaits_room() {
        let core = group.core();
        let (end, streams) = (core.appended(), core.tagged.streams_from != 0);
        drop(core);
        if streams && end > group.durable() {
            group.request(end, group.config.own());
        }
    }
}

/// Tells appends that wait for a segment why there is none, unless they are to wait.
fn refuse(group: &Group, full: OnFull) {
    if let Some(error) = group.housekeeping.refusal(|| group.core(), full) {
        group.housekeeping.report_failure(error.in_dir(group.writers.dir()));
        group.waiters.room_for_appends(0);
    }
}

/// Whether appends wait for room that a trim will make when it is durable; tries to make it so at once, because the writer
/// thread would do that only when the log has been idle.
fn frees_awaited_room(group: &Group) -> bool {
    let awaited = group.housekeeping.frees_awaited_room(|| group.core());
    if awaited {
        // A batch in flight is in the way, or one that is about to be written will state it.
        let _ = group.lead_idle(group.core());
    }
    awaited
}

/// Takes back a task that failed. Returns the outgrown spare if its files cannot be opened again, which may have to wait until
/// the process has fewer open.
fn undo(group: &Group) -> Option<Spare> {
    let outgrown = group.core().outgrown;
    if let Some(Err(_)) = outgrown.map(|spare| group.writers.open(spare.number, (0, spare.bytes))) {
        return outgrown;
    }
    group.core().keep_outgrown_spare();
    None
}

/// Removes an unfinished segment; what cannot be removed now goes when the log is opened again.
fn give_up<D: Disk>(group: &Group, running: SegmentTask, disk: &mut D) {
    let removed = running.give_up(disk);
    group.housekeeping.inventory().task_failed(removed.is_ok());
    if let Err(error) = removed {
        tracing::warn!(%error, "an unfinished segment is left behind");
    }
}

/// Runs one task to its end; returns the segment that it prepared, if it did.
fn run_task<D: Disk>(group: &Group, disk: &mut D, task: Task) -> Result<Option<Spare>, TaskError> {
    if let Task::Replace(spare) = task {
        group.writers.close(spare.number);
    }
    let _span = match task {
        Task::Prepare(to) | Task::Replace(to) => tracing::debug_span!("prepare", segment = to.number),
        Task::Recycle { from, to } => tracing::debug_span!("recycle", from, segment = to.number),
        Task::Remove(segment) => tracing::debug_span!("retire", segment),
    }
    .entered();
    let mut running = SegmentTask::new(task, FILL_BYTES);
    let spare = loop {
        match running.step(disk) {
            Ok(Progress::More) if group.status.is_stopping() => {
                give_up(group, running, disk);
                return Ok(None);
            }
            Ok(Progress::More) => {}
            Ok(Progress::Ended(spare)) => break spare,
            // A task knows file names only.
            Err(TaskError { error, fatal }) => {
                if !fatal {
                    give_up(group, running, disk);
                }
                return Err(TaskError { error: error.in_dir(group.writers.dir()), fatal });
            }
        }
    };
    if task.fills() {
        group.recorder.filled();
    }
    let mut inventory = group.housekeeping.inventory();
    inventory.task_done();
    // Nothing is written before the active segment any more.
    let active = inventory.segments.back().map(|header| header.number);
    drop(inventory);
    group.writers.close_before(active.unwrap_or(0));
    Ok(spare)
}

/// Opens a prepared segment for writing and offers it to the commit path.
fn offer(group: &Group, spare: Spare) -> Result<(), Error> {
    group.writers.open(spare.number, (0, spare.bytes))?;
    group.recorder.metrics.count(Metric::SegmentsPrepared, 1);
    group.housekeeping.offer(|| group.core(), spare);
    group.waiters.room_for_appends(group.config.batch_bytes);
    // The idle writer thread may have had no place for its mark. A new segment counts as activity, so that a writer thread
    // that is just about to sleep looks again.
    group.threads.note_activity();
    group.threads.wake_sleeping_writer();
    Ok(())
}
