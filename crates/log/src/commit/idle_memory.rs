//! Gives the memory of a log that has been idle for a while back to the system.
//!
//! Buffers take memory when they are used for the first time: see `free_buffers.rs`. The writer thread gives them back, one
//! after the other, so that an append which comes meanwhile finds all others.
//!
//! Invariant: what is registered with the engine is given up first, otherwise the disk would be written from pages that the
//! log does not fill any more; where that fails the buffer keeps its memory.

use std::time::Duration;

use crate::commit::group::Group;

/// How long without a batch until memory is given back: a log that commits now and then keeps what it uses.
pub(crate) const IDLE_UNTIL_RELEASE: Duration = Duration::from_secs(1);

impl Group {
    /// Gives back what an idle log does not keep, until there is nothing left or something has happened since `seen`.
    pub(crate) fn release_idle_memory(&self, seen: u64) {
        let mut given = 0_u32;
        while self.threads.activity() == seen {
            let Some(mut buffer) = self.core().free.take_excess() else { break };
            let forgotten = buffer.number.is_none_or(|number| self.writers.forget(number));
            let released = forgotten && buffer.give_back();
            // One that could not be given back counts as such: it is not tried again before it is used.
            self.core().free.put_cold(buffer);
            given += u32::from(released);
            // An append may have found no buffer but this one missing.
            self.waiters.append_gate.open();
        }
        tracing::debug!(buffers = given, "gave idle memory back");
    }
}
