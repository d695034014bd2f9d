//! Wakes the background threads of a log, and lets the writer thread sleep without missing anything.
//!
//! Invariant: the writer thread says that it sleeps before it looks for work for the last time, and whatever gives it
//! work does so before it looks whether the thread sleeps; so one of the two sees the other.

use std::sync::OnceLock;
use std::thread::Thread;
use std::time::Duration;

use crate::commit::sync::{AtomicBool, AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub(crate) writer: OnceLock<Thread>,
    pub(crate) maintenance: OnceLock<Thread>,
    pub(crate) rewriter: OnceLock<Thread>,
    /// The writer thread sleeps until something happens that it must notice.
    writer_asleep: AtomicBool,
    /// Counts what the writer thread must notice: batches that became durable, trims, prepared segments.
    activity: AtomicU64,
}

impl Threads {
    /// Whether there is a thread that rewrites what streams need.
    pub(crate) fn has_rewriter(&self) -> bool {
        self.rewriter.get().is_some()
    }

    pub(crate) fn wake_rewriter(&self) {
        if let Some(rewriter) = self.rewriter.get() {
            rewriter.unpark();
        }
    }

    pub(crate) fn wake_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    pub(crate) fn wake_maintenance(&self) {
        if let Some(maintenance) = self.maintenance.get() {
            maintenance.unpark();
        }
    }

    pub(crate) fn is_writer_asleep(&self) -> bool {
        self.writer_asleep.load(Ordering::SeqCst)
    }

    /// Wakes the writer thread if it sleeps until something happens; otherwise it looks again by itself.
    pub(crate) fn wake_sleeping_writer(&self) {
        if self.is_writer_asleep() {
            self.wake_writer();
        }
    }

    pub(crate) fn activity(&self) -> u64 {
        self.activity.load(Ordering::SeqCst)
    }

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
