//! Ends the threads beside a test when it ends or fails: a scope waits for them.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets the flag when it goes.
pub(crate) struct Stops<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
