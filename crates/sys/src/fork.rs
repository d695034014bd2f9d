//! [`Home`] distinguishes the process in which something was begun from the processes forked off it.
//!
//! It is checked before each commit, so the check is one load of memory: a handler that fork(2) runs in the child changes
//! the number. Children made by clone(2) alone run no such handler and are not noticed.

use crate::os::fork;
use std::sync::OnceLock;

/// The process in which this was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home(u32);

/// Set once the handler is installed.
static INSTALLED: OnceLock<()> = OnceLock::new();

impl Home {
    /// This process.
    #[must_use]
    pub fn here() -> Self {
        INSTALLED.get_or_init(fork::install_handler);
        Self(fork::generation())
    }

    /// Whether this is still that process.
    #[inline]
    #[must_use]
    pub fn is_here(self) -> bool {
        fork::generation() == self.0
    }
}

/// A process that was forked off for a test.
#[derive(Debug)]
pub struct Child(fork::Child);

impl Child {
    /// Forks: the child runs `work`, and ends with what it returns as its exit code. For tests: in the child there is
    /// only the calling thread, and a lock that another one held is held for ever.
    ///
    /// # Errors
    /// The system's, and that this system has no fork.
    pub fn run(work: impl FnOnce() -> u8) -> std::io::Result<Self> {
        fork::Child::run(work).map(Self)
    }

    /// The same with the first `closed` of standard input, output and error closed, as daemons do.
    ///
    /// # Errors
    /// As [`Child::run`].
    pub fn run_without_streams(closed: u8, work: impl FnOnce() -> u8) -> std::io::Result<Self> {
        Self::run(|| {
            fork::close_below(closed);
            work()
        })
    }

    /// Waits for its end; returns its exit code, `None` if a signal ended it.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(self) -> std::io::Result<Option<u8>> {
        self.0.wait()
    }
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::{Child, Home};

    #[test]
    fn a_child_knows_that_it_is_one() {
        let home = Home::here();
        assert!(home.is_here());
        let child = Child::run(|| {
            let child = Home::here();
            u8::from(home.is_here()) + 2 * u8::from(!child.is_here())
        });
        assert_eq!(child.expect("forks").wait().expect("ends"), Some(0));
        assert!(home.is_here(), "the parent is what it was");
    }
}
