//! Forbids `io_uring` by a seccomp filter, as containers do; for tests.
//!
//! The filter answers the three calls of `io_uring` with an error number. It applies to the calling thread and the
//! threads that it starts, permanently.

use crate::error::{Error, Result};
use crate::os::unix::check;

/// A call of the program that a seccomp filter is (`linux/filter.h`).
const fn instruction(code: u32, k: u32, jt: u8) -> libc::sock_filter {
    // Every code fits: they are below 256.
    #[allow(clippy::cast_possible_truncation, reason = "BPF codes have eight bits")]
    libc::sock_filter { code: code as u16, jt, jf: 0, k }
}

/// Makes the kernel answer every call of `io_uring` from this thread, and from those that it starts, with `errno`.
///
/// # Errors
/// `prctl` and the system's error.
pub fn forbid_io_uring(errno: u16) -> Result<()> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUALS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const ANSWER: u32 = libc::BPF_RET | libc::BPF_K;
    /// `io_uring_setup`, `io_uring_enter`, `io_uring_register`: the same numbers on every architecture.
    const CALLS: [u32; 3] = [425, 426, 427];
    let mut filter = [
        // The number of the call stands first in what a filter sees.
        instruction(LOAD, 0, 0),
        instruction(EQUALS, CALLS[0], 3),
        instruction(EQUALS, CALLS[1], 2),
        instruction(EQUALS, CALLS[2], 1),
        instruction(ANSWER, libc::SECCOMP_RET_ALLOW, 0),
        instruction(ANSWER, libc::SECCOMP_RET_ERRNO | u32::from(errno), 0),
    ];
    let program = libc::sock_fprog { len: 6, filter: filter.as_mut_ptr() };
    let failed = |error| Error::new("prctl", "/proc/self", error);
    // Without it only root may set a filter.
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map_err(failed)?;
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program and the instructions that it points to live until the call, which copies them, returns.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) }).map_err(failed)
}
