//! Ends a log, on whichever thread its last handle goes.
//!
//! Ending waits: for the threads of the log, and until nobody writes a batch any more; only then the lock on the
//! directory is given up. A thread that belongs to a log, or that is writing a batch right now, must not wait for
//! itself. It gets there when a waker that it calls owns the last handle. It leaves the rest to the keeper thread, which is
//! the last one to end:
//!
//! ```text
//!   any other thread      stop, join writer and keeper, wait for batches under way, give up the lock
//!   such a thread         stop, leave the rest; the keeper joins the writer, waits, gives up the lock
//! ```
//!
//! Invariants: nothing is written after the lock is given up; whoever still waits for a commit is told before; what was
//! acknowledged stays, because ending changes nothing on the disk.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use crate::commit::group::Group;
use crate::commit::sync::{Ordering, lock};
use crate::lock::Lock;

/// The directories of logs whose end was left to their keepers.
static ENDING: std::sync::Mutex<Vec<PathBuf>> = std::sync::Mutex::new(Vec::new());

fn with_ending<T>(work: impl FnOnce(&mut Vec<PathBuf>) -> T) -> T {
    work(&mut ENDING.lock().unwrap_or_else(PoisonError::into_inner))
}

fn place(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf())
}

/// Whether this process let go of the log in `dir` and that is ending still, so that its lock is worth waiting for. Not on
/// a thread that is writing a batch, for which such an end may have to wait.
pub(crate) fn is_ending(dir: &Path) -> bool {
    !is_writing() && with_ending(|dirs| dirs.contains(&place(dir)))
}

fn is_writing() -> bool {
    WRITING.try_with(|writing| writing.get() > 0).unwrap_or(false)
}

thread_local! {
    /// Batches that this thread is writing: more than one if a waker commits.
    static WRITING: Cell<u32> = const { Cell::new(0) };
}

/// This thread is writing a batch, of whatever log, as long as this lives.
#[derive(Debug)]
pub(crate) struct Writing(());

impl Writing {
    pub(crate) fn begin() -> Self {
        WRITING.with(|writing| writing.set(writing.get() + 1));
        Self(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // A thread that is ending has nothing left to count.
        let _ = WRITING.try_with(|writing| writing.set(writing.get().saturating_sub(1)));
    }
}

/// What an open log holds, and gives up in the end.
#[derive(Debug)]
pub(crate) struct Held {
    /// The writer and the keeper.
    pub(crate) threads: Vec<JoinHandle<()>>,
    /// The lock on the directory.
    pub(crate) lock: Arc<Lock>,
}

impl Held {
    /// Whether this thread would wait for itself.
    fn would_wait_for_itself(&self) -> bool {
        let own = std::thread::current().id();
        is_writing() || self.threads.iter().any(|thread| thread.thread().id() == own)
    }

    /// Waits for everything, then gives up the lock.
    fn finish(self, group: &Group) {
        let own = std::thread::current().id();
        for thread in self.threads.into_iter().filter(|thread| thread.thread().id() != own) {
            // A thread that panicked has nothing left to say.
            let _ = thread.join();
        }
        group.retire();
        drop(self.lock);
    }
}

/// Ends the log of `group`, here or, where this thread must not wait, on the keeper thread.
pub(crate) fn end(group: &Group, held: Held) {
    // Without a keeper, because no thread could be had at opening, nothing was ever written.
    let leaves = held.threads.len() > 1 && held.would_wait_for_itself();
    let here = if leaves {
        // Before the keeper is told to stop, so that it finds it.
        with_ending(|dirs| dirs.push(place(group.lanes.dir())));
        *lock(&group.left) = Some(held);
        None
    } else {
        Some(held)
    };
    group.closed.store(true, Ordering::SeqCst);
    group.stopping.store(true, Ordering::SeqCst);
    group.room.open();
    group.news.open();
    group.wake_writer();
    group.wake_keeper();
    if let Some(held) = here {
        held.finish(group);
    }
}

/// The end of the keeper thread: what was left to it is done.
pub(crate) fn finish_what_was_left(group: &Group) {
    // It may have given up its work early, because the log failed.
    while !group.stopping.load(Ordering::SeqCst) {
        std::thread::park();
    }
    let left = lock(&group.left).take();
    if let Some(held) = left {
        held.finish(group);
        let dir = place(group.lanes.dir());
        with_ending(|dirs| dirs.iter().position(|ending| *ending == dir).map(|at| dirs.swap_remove(at)));
    }
}
