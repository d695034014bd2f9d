//! Tracks whether a log is open, closed, failed or shut down, and whether this is the process that opened it.
//!
//! ```text
//!   open ─► closed (no appends) ─► stopping (threads end) ─► shut down (nothing is written any more)
//!     └──► failed, at any time: every commit and append returns the first failure
//! ```
//!
//! Invariants: the first failure is kept and later ones are not; none of these states is ever left.

use std::sync::{Arc, OnceLock};

use seawall_sys::fork::Home;

use crate::commit::sync::{AtomicBool, Ordering};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(crate) struct Status {
    failure: OnceLock<Arc<Error>>,
    closed: AtomicBool,
    stopping: AtomicBool,
    shut_down: AtomicBool,
    home: Home,
}

impl Status {
    pub(crate) fn new() -> Self {
        Self {
            failure: OnceLock::new(),
            closed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            shut_down: AtomicBool::new(false),
            home: Home::here(),
        }
    }

    /// Whether this is the process that opened the log: one that was forked off has its memory and none of its threads,
    /// and finds locks that are never released.
    #[inline]
    pub(crate) fn is_owner_process(&self) -> bool {
        self.home.is_here()
    }

    /// Fails in a process that was forked off.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_owner_process() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Fails where records cannot be read through this log any more: in a process that was forked off, and once the lock is
    /// released, because another writer may recycle segments then.
    pub(crate) fn check_readable(&self) -> Result<()> {
        self.check_process()?;
        if self.shut_down.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// The error that every operation returns after the first failure.
    pub(crate) fn failed(&self) -> Option<Error> {
        self.failure.get().map(|cause| Error::Failed { cause: Arc::clone(cause) })
    }

    /// Sets the first failure; returns whether this is it. Later ones are its consequences.
    pub(crate) fn set_failed(&self, error: Error) -> bool {
        self.failure.set(Arc::new(error)).is_ok()
    }

    /// Why nothing more will become durable, if so.
    pub(crate) fn ended(&self) -> Option<Error> {
        if !self.is_owner_process() {
            return Some(Error::Forked);
        }
        self.failed().or_else(|| self.shut_down.load(Ordering::Acquire).then_some(Error::Closed))
    }

    /// Why nothing can be appended or committed.
    pub(crate) fn refusal(&self) -> Error {
        self.failed().unwrap_or(Error::Closed)
    }

    /// Whether appends are refused.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Refuses appends from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Whether the background threads are to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Has the background threads end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Refuses every further batch. Called with the core lock held, because a batch is issued under it.
    pub(crate) fn shut_down(&self) {
        self.shut_down.store(true, Ordering::Release);
    }
}
