//! How far a test has come, and when it is to end: shared by the search, its checks and who watches them.

use seawall_sys::clock::monotonic_ns;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a search has come; read by another thread while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// States judged.
    pub judged: AtomicU64,
    /// Different states known so far.
    pub different: AtomicU64,
    /// Set to end the search early.
    pub stop: AtomicBool,
    /// When a check has to end, by the clock that `monotonic_ns` reads; 0: at no moment.
    pub(crate) deadline_ns: AtomicU64,
}

impl Progress {
    /// Whether a check that still runs is to be ended.
    pub(crate) fn is_over(&self) -> bool {
        let deadline = self.deadline_ns.load(Ordering::Relaxed);
        self.stop.load(Ordering::Relaxed) || deadline > 0 && monotonic_ns() > deadline
    }
}
