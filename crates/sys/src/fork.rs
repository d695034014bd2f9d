//! [`Home`] distinguishes the process in which something was begun from the processes forked off it.
//!
//! It is checked before each commit, so the check is one load of memory: a handler that fork(2) runs in the child changes
//! the number. Children made by clone(2) alone run no such handler and are not noticed.

use crate::os::fork;
pub use crate::os::fork::Child;
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
