//! Counts forks by a handler of `pthread_atfork(3)`, which runs in the child.

use super::{check, repeat};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    // The child has no other threads yet.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Has the handler called in every child from now on. Only a lack of memory can prevent that; children are then not
/// noticed.
pub(crate) fn install_handler() {
    // SAFETY: the handler touches one atomic number and may run wherever fork is called.
    let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

pub(crate) fn close_below(number: u8) {
    for fd in 0..libc::c_int::from(number) {
        // SAFETY: nothing of this process, which a test forked off, owns one of the standard streams.
        let _ = unsafe { libc::close(fd) };
    }
}

#[derive(Debug)]
pub(crate) struct Child(Option<Pid>);

impl Child {
    pub(crate) fn run(work: impl FnOnce() -> u8) -> io::Result<Self> {
        // SAFETY: the child runs the work, which its caller keeps free of other threads' locks, and never returns.
        let pid = unsafe { libc::fork() };
        check(pid)?;
        if pid == 0 {
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: ends the process without running what belongs to its parent.
            unsafe { libc::_exit(worked.map_or(99, i32::from)) };
        }
        Ok(Self(Pid::from_raw(pid)))
    }

    pub(crate) fn wait(self) -> io::Result<Option<u8>> {
        let ended = repeat(|| waitpid(self.0, WaitOptions::empty()))?;
        let code = ended.and_then(|(_, status)| status.exit_status());
        Ok(code.and_then(|code| u8::try_from(code).ok()))
    }
}
