//! The lowest LSN that a reader pins, as the core reads it when streams move the first LSN.
//!
//! Invariants: a pin is given under the core lock, after the look that its LSN is still there; so the core never moves the first
//! LSN past one. The core says that a pin holds it back before it looks at the lowest one for the last time, and a pin moves on
//! before it looks whether it held the core back; so one of the two sees the other.

use std::sync::Arc;

use crate::commit::sync::{AtomicBool, AtomicU64, Ordering};
use crate::lsn::Lsn;

/// The lowest LSN that is pinned, if any is.
#[derive(Clone, Debug)]
pub(crate) struct PinFloor(Arc<Floor>);

#[derive(Debug)]
struct Floor {
    lowest: AtomicU64,
    /// Streams need nothing of some of what the lowest pin holds.
    holds_back: AtomicBool,
}

impl Default for PinFloor {
    fn default() -> Self {
        let (lowest, holds_back) = (AtomicU64::new(u64::MAX), AtomicBool::new(false));
        Self(Arc::new(Floor { lowest, holds_back }))
    }
}

impl PinFloor {
    fn lsn(&self) -> Lsn {
        Lsn::new(self.0.lowest.load(Ordering::SeqCst))
    }

    /// How far the first LSN may move to `lsn`.
    pub(crate) fn bound(&self, lsn: Lsn) -> Lsn {
        if self.lsn() < lsn {
            self.0.holds_back.store(true, Ordering::SeqCst);
        }
        lsn.min(self.lsn())
    }

    pub(crate) fn set(&self, lowest: Option<Lsn>) {
        self.0.lowest.store(lowest.unwrap_or(Lsn::MAX).get(), Ordering::SeqCst);
    }

    /// Whether pins have held the first LSN back since this was asked last.
    pub(crate) fn held_back(&self) -> bool {
        self.0.holds_back.swap(false, Ordering::SeqCst)
    }
}
