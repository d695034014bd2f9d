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

/// A process that was forked off for a test.
#[derive(Debug)]
pub struct Child(Option<Pid>);

impl Child {
    /// Forks: the child runs `work`, and ends with what it returns as its exit code. For tests: in the child there is
    /// only the calling thread, and a lock that another one held is held for ever.
    ///
    /// # Errors
    /// The system's, and that this system has no fork.
    pub fn run(work: impl FnOnce() -> u8) -> io::Result<Self> {
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

    /// The same with the first `closed` of standard input, output and error closed, as daemons do.
    ///
    /// # Errors
    /// As [`Child::run`].
    pub fn run_without_streams(closed: u8, work: impl FnOnce() -> u8) -> io::Result<Self> {
        Self::run(|| {
            for stream in 0..closed {
                // SAFETY: nothing of this process, which a test forked off, owns one of the standard streams.
                let _ = unsafe { libc::close(stream.into()) };
            }
            work()
        })
    }

    /// Waits for its end; returns its exit code, `None` if a signal ended it.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(self) -> io::Result<Option<u8>> {
        let ended = repeat(|| waitpid(self.0, WaitOptions::empty()))?;
        let code = ended.and_then(|(_, status)| status.exit_status());
        Ok(code.and_then(|code| u8::try_from(code).ok()))
    }
}
