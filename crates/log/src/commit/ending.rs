//! Ends a log, on whichever thread drops its last handle.
//!
//! Ending waits for the threads of the log, and until no thread writes a batch any more; only then the lock on the
//! directory is released. A thread that belongs to a log, or that writes a batch at this moment, must not wait for itself;
//! such a thread drops the last handle when that is owned by a waker which it calls. It hands the rest over to the
//! maintenance thread, which is the last one to end:
//!
//! ```text
//!   any other thread      stop, join the threads, wait for batches in flight, release the lock
//!   such a thread         stop, hand over; the maintenance thread joins the writer thread, waits, releases the lock
//!   the writer thread     the same, where the log is closed for a future (`close_future.rs`)
//! ```
//!
//! Invariants: nothing is written after the lock is released; whatever still waits for a commit is woken before; what was
//! acknowledged stays, because ending changes nothing on the disk.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::commit::close_future::CloseOrder;
use crate::commit::group::Group;
use crate::commit::sync::{Mutex, lock};
use crate::lock::{Ending, Lock, is_writing};

/// What an open log holds until it has ended.
#[derive(Debug)]
pub(crate) struct Resources {
    /// The writer thread, the maintenance thread, and those of the watch and the rewriter if there are any.
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) lock: Lock,
}

/// Where a thread that must not wait leaves the resources for the maintenance thread.
pub(crate) type HandedOver = Arc<Mutex<Option<(Resources, Ending)>>>;

impl Resources {
    /// Whether this thread would wait for itself.
    fn would_wait_for_itself(&self) -> bool {
        let own = std::thread::current().id();
        is_writing() || self.threads.iter().any(|thread| thread.thread().id() == own)
    }

    /// Waits for everything, then releases the lock.
    fn release(self, group: &Group) {
        let own = std::thread::current().id();
        for thread in self.threads.into_iter().filter(|thread| thread.thread().id() != own) {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
        group.shut_down();
        drop(self.lock);
    }
}

/// Ends the log of `group`, here or, where this thread must not wait, on the maintenance thread.
pub(crate) fn end(group: &Group, resources: Resources, handed_over: &HandedOver) {
    // Without a maintenance thread, because none could be started at opening, nothing was ever written.
    if resources.threads.len() > 1 && resources.would_wait_for_itself() {
        end_handed_over(group, resources, Ending::begin(group.writers.dir()), handed_over);
    } else {
        stop(group);
        resources.release(group);
    }
}

/// Ends the log of `group` on the maintenance thread.
pub(crate) fn end_handed_over(group: &Group, resources: Resources, ending: Ending, handed_over: &HandedOver) {
    // Before the threads are stopped, so that the maintenance thread finds it.
    *lock(handed_over) = Some((resources, ending));
    stop(group);
}

/// Has the threads end, and wakes what waits for more.
fn stop(group: &Group) {
    group.status.close();
    group.status.stop();
    group.waiters.end_appends();
    group.waiters.follower_gate.open();
    group.threads.wake_writer();
    group.threads.wake_maintenance();
    group.threads.wake_rewriter();
    group.stalls.wake_watcher();
}

/// The end of the maintenance thread: releases what was handed over to it.
pub(crate) fn finish_handed_over(group: &Group, handed_over: &HandedOver, closing: &CloseOrder) {
    // The thread may have ended its work early, because the log failed.
    while !group.status.is_stopping() {
        std::thread::park();
    }
    let left = lock(handed_over).take();
    if let Some((resources, ending)) = left {
        resources.release(group);
        drop(ending);
        closing.released(group);
    }
}
