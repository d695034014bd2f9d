//! A descriptor for poll(2), epoll(7) and kqueue(2), which can be read once something has happened.
//!
//! It is a pipe: raising it writes one byte, unless one is there. So it says that something happened and not how often, and a read
//! of a few bytes takes that back.
//!
//! Invariants: raising never waits; what happens before it is raised is seen by who takes it back and then looks.

use crate::os::signal as imp;
use std::io;

/// A pipe that holds a byte or none.
#[derive(Debug)]
pub struct Signal(imp::Signal);

impl Signal {
    /// One that is not raised.
    ///
    /// # Errors
    /// The system's, and that this system has no such descriptors.
    pub fn new() -> io::Result<Self> {
        imp::Signal::new().map(Self)
    }

    /// Lets the descriptor be read.
    pub fn raise(&self) {
        self.0.raise();
    }

    /// Takes that back; returns whether it was raised. Never waits.
    #[must_use]
    pub fn lower(&self) -> bool {
        self.0.lower()
    }

    /// The descriptor: never one of the three of the standard streams, closed when this is dropped.
    #[must_use]
    pub fn descriptor(&self) -> i32 {
        self.0.descriptor()
    }
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::Signal;

    #[test]
    fn however_often_it_is_raised_one_read_takes_it_back() {
        let signal = Signal::new().expect("a pipe");
        assert!(signal.descriptor() > 2 && !signal.lower());
        // More often than a pipe has room for.
        (0..100_000).for_each(|_| signal.raise());
        assert!(signal.lower() && !signal.lower());
        signal.raise();
        assert!(signal.lower());
    }
}
