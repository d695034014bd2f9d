//! Forbids `io_uring` by a seccomp filter, as containers do; for tests.
//!
//! The filter applies to the calling thread and the threads that it starts, permanently.

use super::seccomp::{Action, Filter, Row};
use seawall_sys::{Error, Result};

/// Makes the kernel answer every call of `io_uring` from this thread, and from those that it starts, with `errno`.
///
/// # Errors
/// `seccomp` and the system's error.
pub fn forbid_io_uring(errno: u16) -> Result<()> {
    let calls = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
    let rows = calls.map(|call| Row { call, when: None, action: Action::Errno(errno) });
    Filter::new(&rows).install().map_err(|error| Error::new("seccomp", "/proc/self", error))
}
