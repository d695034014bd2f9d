//! Systems that report no run-queue wait of a thread, and those that cannot pin one.

use crate::error::{Error, Result};
use crate::thread::Pinned;
use std::io;

/// Threads cannot be cancelled.
#[derive(Debug)]
pub(crate) struct CancelState;

impl CancelState {
    pub(crate) fn forbid() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the same shape on every system")]
    pub(crate) fn restore(&self) {}
}

pub(crate) struct RunQueue;

impl RunQueue {
    pub(crate) fn open() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the same shape on every system")]
    pub(crate) fn wait_ns(&self) -> Option<u64> {
        None
    }
}

/// macOS takes hints about threads that share data and has no way to name a CPU.
pub(crate) fn pin(_: usize) -> Result<Pinned> {
    Err(Error::new("pin", "thread", io::ErrorKind::Unsupported.into()))
}
