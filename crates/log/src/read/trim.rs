//! The only way to move the first LSN of an open log, whether its user, its retention or its streams ask: [`Trim`].
//!
//! ```text
//!   what streams have let go ─► the holds in the directory ─► lock the pins ─► lock the core ─► move
//! ```
//!
//! Invariants: each move looks at the holds after it has learned what may go, so that a hold is heeded by every trim that begins
//! when it is there, and one that is gone or has moved on lets go; the pins are looked at and the trim takes effect under one
//! lock.

use std::sync::Arc;

use seawall_sys::directory::Directory;
use seawall_sys::planted;

use crate::commit::group::Group;
use crate::commit::state::Core;
use crate::error::Result;
use crate::lsn::Lsn;
use crate::read::index::RecordIndex;
use crate::read::pin::{Held, Pins};

/// What a trim moves and what it looks at.
pub(crate) struct Trim<'a> {
    pub(crate) group: &'a Arc<Group>,
    pub(crate) dir: &'a Directory,
    pub(crate) pins: &'a Pins,
    pub(crate) index: &'a RecordIndex,
}

impl Trim<'_> {
    /// Trims the records of no stream to the LSN that `to` decides on, which knows what is held; those of streams as streams have
    /// let go. Returns the first LSN that is left.
    pub(crate) fn to(&self, to: impl FnOnce(&mut Held, &Core) -> Result<Lsn>) -> Result<Lsn> {
        let let_go = self.group.core().let_go();
        self.pins.look(self.dir)?;
        let mut held = self.pins.held();
        let mut core = self.group.core();
        let lsn = to(&mut held, &core)?;
        let before = core.trim();
        let first = core.set_trim(held.bound(lsn), let_go);
        drop((core, held));
        if first > before {
            tracing::debug!(%first, "trimmed");
            self.index.trimmed(self.group, first);
            self.group.trimmed();
        } else {
            // What is left may be held by a stream alone now.
            planted!(RewriterSleepsAtCap, self.group.threads.wake_rewriter());
        }
        Ok(first)
    }
}
