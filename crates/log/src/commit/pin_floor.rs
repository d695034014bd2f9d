//! The lowest LSN that a reader pins, as the core reads it when streams move the first LSN.
//!
//! Invariant: a pin is given under the core lock, after the look that its LSN is still there; so the core never moves the first
//! LSN past one.

use std::sync::Arc;

use crate::commit::sync::{AtomicU64, Ordering};
use crate::lsn::Lsn;

/// The lowest LSN that is pinned, if any is.
#[derive(Clone, Debug)]
pub(crate) struct PinFloor(Arc<AtomicU64>);

impl Default for PinFloor {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl PinFloor {
    /// Nothing before this may be trimmed.
    pub(crate) fn lsn(&self) -> Lsn {
        Lsn::new(self.0.load(Ordering::SeqCst))
    }

    /// The lowest pin is this one now.
    pub(crate) fn set(&self, lowest: Option<Lsn>) {
        self.0.store(lowest.unwrap_or(Lsn::MAX).get(), Ordering::SeqCst);
    }
}
