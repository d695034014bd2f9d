//! Stops trims for slow readers.
//!
//! Invariant: a trim looks at the lowest pin and takes effect under one lock, so that a pin which was given is never passed.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use seawall_sys::directory::Directory;

use crate::commit::pin_floor::PinFloor;
use crate::commit::sync::{Mutex, MutexGuard, lock};
use crate::error::Result;
use crate::lsn::Lsn;
use crate::read::hold;

#[derive(Clone, Debug, Default)]
pub(crate) struct Pins {
    held: Arc<Mutex<Held>>,
    /// The thread that trims the log by its own rules, and as streams let go.
    wakes: Arc<OnceLock<Thread>>,
    /// The lowest pin, for the core, which moves the first LSN without these locks as streams are trimmed.
    floor: PinFloor,
}

/// How many pins there are at each LSN.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pins: BTreeMap<Lsn, usize>,
    /// The lowest LSN that a [`crate::Hold`] named when they were looked at last.
    pub(crate) outside: Option<Lsn>,
    /// The rules of the log let more go once the lowest pin has come here.
    pub(crate) awaited: Option<Lsn>,
}

impl Held {
    pub(crate) fn lowest(&self) -> Option<Lsn> {
        let pinned = self.pins.keys().next().copied();
        self.outside.map_or(pinned, |outside| Some(pinned.map_or(outside, |pinned| pinned.min(outside))))
    }

    /// How far a trim to `lsn` may go.
    pub(crate) fn bound(&self, lsn: Lsn) -> Lsn {
        self.lowest().map_or(lsn, |pinned| lsn.min(pinned))
    }

    fn add(&mut self, lsn: Lsn) {
        *self.pins.entry(lsn).or_default() += 1;
    }

    fn release(&mut self, lsn: Lsn) {
        if let Some(count) = self.pins.get_mut(&lsn) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&lsn);
            }
        }
    }
}

impl Pins {
    /// No pins yet; the core reads the lowest one from `floor`.
    pub(crate) fn new(floor: PinFloor) -> Self {
        Self { floor, ..Self::default() }
    }

    /// As long as this is held, no pin is added and none is released.
    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }

    /// Looks at the holds in the log's directory. One that cannot be read holds everything.
    pub(crate) fn look(&self, dir: &Directory) -> Result<()> {
        let found = hold::lowest(dir);
        let mut held = self.held();
        held.outside = found.as_ref().map_or(Some(Lsn::ZERO), |lowest| *lowest);
        self.floor.set(held.lowest());
        found.map(drop)
    }

    /// This thread is woken when the lowest pin has come to what is awaited, or has held back what streams let go.
    pub(crate) fn wakes(&self, thread: Thread) {
        let _ = self.wakes.set(thread);
    }

    fn release(&self, mut held: MutexGuard<'_, Held>, lsn: Lsn) {
        held.release(lsn);
        let lowest = held.lowest();
        self.floor.set(lowest);
        let come = held.awaited.take_if(|awaited| lowest.is_none_or(|lowest| lowest >= *awaited));
        // One above the lowest holds nothing back.
        let moved = lowest.is_none_or(|lowest| lowest > lsn) && self.floor.held_back();
        drop(held);
        if let (true, Some(thread)) = (moved || come.is_some(), self.wakes.get()) {
            thread.unpark();
        }
    }

    /// A pin at `lsn`, added to `held`, which is that of these pins.
    pub(crate) fn pin(&self, held: &mut Held, lsn: Lsn) -> ReadPin {
        held.add(lsn);
        self.floor.set(held.lowest());
        ReadPin { pins: self.clone(), lsn }
    }
}

/// Keeps an open log from trimming past one LSN until it is dropped: see [`crate::Log::pin`].
#[must_use = "a pin that is dropped holds nothing"]
#[derive(Debug)]
pub struct ReadPin {
    pins: Pins,
    lsn: Lsn,
}

impl ReadPin {
    /// The first LSN that it keeps.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Advances it to `lsn`, for a reader that needs nothing before that; never moves it back.
    pub fn advance(&mut self, lsn: Lsn) {
        let mut held = self.pins.held();
        let lsn = lsn.max(self.lsn);
        held.add(lsn);
        self.pins.release(held, self.lsn);
        self.lsn = lsn;
    }
}

impl Drop for ReadPin {
    fn drop(&mut self) {
        self.pins.release(self.pins.held(), self.lsn);
    }
}
