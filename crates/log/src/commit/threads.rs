//! Wakes the background threads of a log, and lets the writer thread sleep without missing anything.
//!
//! Invariant: the writer thread says that it sleeps before it looks for work for the last time, and whatever gives it
//! work does so before it looks whether the thread sleeps; so one of the two sees the other.

use std::sync::OnceLock;
use std::thread::Thread;
use std::time::Duration;

use crate::commit::sync::{AtomicBool, AtomicU64, Ordering};

/// The handles of the threads of a log.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    writer: OnceLock<Thread>,
    maintenance: OnceLock<Thread>,
    rewriter: OnceLock<Thread>,
    /// The writer thread sleeps until something happens that it must notice.
    writer_asleep: AtomicBool,
    /// Counts what the writer thread must notice: batches that became durable, trims, prepared segments.
    activity: AtomicU64,
}

impl Threads {
    /// Sets the handle of the writer thread, once.
    pub(crate) fn set_writer(&self, thread: Thread) {
        let _ = self.writer.set(thread);
    }

    /// Sets the handle of the maintenance thread, once.
    pub(crate) fn set_maintenance(&self, thread: Thread) {
        let _ = self.maintenance.set(thread);
    }

    /// Sets the handle of the thread that rewrites what streams need, once.
    pub(crate) fn set_rewriter(&self, thread: Thread) {
        let _ = self.rewriter.set(thread);
    }

    /// Whether there is a thread that rewrites what streams need.
    pub(crate) fn has_rewriter(&self) -> bool {
        self.rewriter.get().is_some()
    }

    /// Wakes the thread that rewrites what streams need, if there is one.
    pub(crate) fn wake_rewriter(&self) {
        if let Some(rewriter) = self.rewriter.get() {
            rewriter.unpark();
        }
    }

    /// Wakes the writer thread.
    pub(crate) fn wake_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    /// Wakes the maintenance thread.
    pub(crate) fn wake_maintenance(&self) {
        if let Some(maintenance) = self.maintenance.get() {
            maintenance.unpark();
        }
    }

    /// Whether the writer thread sleeps until something happens that it must notice.
    pub(crate) fn is_writer_asleep(&self) -> bool {
        self.writer_asleep.load(Ordering::SeqCst)
    }

    /// Wakes the writer thread if it sleeps until something happens; otherwise it looks again by itself.
    pub(crate) fn wake_sleeping_writer(&self) {
        if self.is_writer_asleep() {
            self.wake_writer();
        }
    }

    /// How much has happened so far.
    pub(crate) fn activity(&self) -> u64 {
        self.activity.load(Ordering::SeqCst)
    }

    /// Something happened that the writer thread must notice.
    pub(crate) fn note_activity(&self) {
        self.activity.fetch_add(1, Ordering::SeqCst);
    }

    /// Lets the calling writer thread sleep, for `limit` if there is one, if nothing has happened since `seen` and it
    /// `may_sleep`.
    pub(crate) fn park_writer(&self, seen: u64, limit: Option<Duration>, may_sleep: impl FnOnce() -> bool) {
        self.writer_asleep.store(true, Ordering::SeqCst);
        if self.activity() == seen && may_sleep() {
            match limit {
                Some(limit) => std::thread::park_timeout(limit),
                None => std::thread::park(),
            }
        }
        self.writer_asleep.store(false, Ordering::SeqCst);
    }
}
