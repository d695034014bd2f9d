//! Holds trims back for readers that are slow.
//!
//! Invariant: a trim looks at the lowest pin and takes effect under one lock, so that a pin which was given is never passed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::commit::sync::{Mutex, MutexGuard, lock};
use crate::lsn::Lsn;

/// The pins of one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins(Arc<Mutex<Held>>);

/// How many pins there are at each LSN.
#[derive(Debug, Default)]
pub(crate) struct Held(BTreeMap<Lsn, usize>);

impl Held {
    /// The lowest LSN that is held.
    pub(crate) fn lowest(&self) -> Option<Lsn> {
        self.0.keys().next().copied()
    }

    /// How far a trim to `lsn` may go.
    pub(crate) fn bound(&self, lsn: Lsn) -> Lsn {
        self.lowest().map_or(lsn, |pinned| lsn.min(pinned))
    }

    fn add(&mut self, lsn: Lsn) {
        *self.0.entry(lsn).or_default() += 1;
    }

    fn release(&mut self, lsn: Lsn) {
        if let Some(count) = self.0.get_mut(&lsn) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&lsn);
            }
        }
    }
}

impl Pins {
    /// As long as this is held, no pin is added and none is released.
    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.0)
    }

    /// A pin at `lsn`, added to `held`, which is that of these pins.
    pub(crate) fn pin(&self, held: &mut Held, lsn: Lsn) -> ReadPin {
        held.add(lsn);
        ReadPin { pins: self.clone(), lsn }
    }
}

/// Holds what an open log has from one LSN on, as long as it lives: see [`crate::Log::pin`].
#[must_use = "a pin that is dropped holds nothing"]
#[derive(Debug)]
pub struct ReadPin {
    pins: Pins,
    lsn: Lsn,
}

impl ReadPin {
    /// The first LSN that it holds.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Moves it on to `lsn`, for a reader that needs nothing before that any more; never back.
    pub fn advance(&mut self, lsn: Lsn) {
        let mut held = self.pins.held();
        let lsn = lsn.max(self.lsn);
        held.add(lsn);
        held.release(self.lsn);
        drop(held);
        self.lsn = lsn;
    }
}

impl Drop for ReadPin {
    fn drop(&mut self) {
        self.pins.held().release(self.lsn);
    }
}
