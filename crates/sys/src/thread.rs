//! Keeps the calling thread from being cancelled in the middle of a call.

use crate::os;

/// Keeps `pthread_cancel(3)` from ending the calling thread until it is dropped: in the middle of a call it would unwind through
/// code that cannot be unwound, and abort the process.
#[derive(Debug)]
pub struct Uncancelled(os::thread::CancelState);

impl Uncancelled {
    /// From now on.
    #[inline]
    #[must_use]
    pub fn begin() -> Self {
        Self(os::thread::CancelState::forbid())
    }
}

impl Drop for Uncancelled {
    #[inline]
    fn drop(&mut self) {
        self.0.restore();
    }
}
