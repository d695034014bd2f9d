//! What Linux, macOS and illumos share: turns a `-1` into an error, compares files, and sets how signals reach programs.
//!
//! Invariant: every call's return code passes through [`check`].

pub(crate) mod thread;

use rustix::io::retry_on_intr;
use std::fs::File;
use std::io;

pub(crate) fn check(code: libc::c_int) -> io::Result<()> {
    if code == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let stat = |file: &File| retry_on_intr(|| rustix::fs::fstat(file));
    let (one, other) = (stat(one)?, stat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// Nothing is reported of a process but how its standard output is.
pub(crate) mod process {
    #[cfg(not(target_os = "linux"))]
    pub(crate) use crate::os::fallback::process::usage;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::os::unix::process::CommandExt as _;

    /// Ignores `SIGXFSZ`: write(2) then answers `EFBIG`.
    pub(crate) fn outlive_the_file_size_limit() {
        // SAFETY: SIG_IGN is a disposition that every signal but KILL and STOP can have; no handler is installed.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    }

    /// The child leads a group of its own.
    pub(crate) fn shield_from_ctrl_c(command: &mut std::process::Command) {
        command.process_group(0);
    }

    /// Whether nothing will read from standard output any more: poll(2) reports the error of the next write.
    pub(crate) fn is_standard_output_closed() -> bool {
        let stdout = std::io::stdout();
        let mut output = [PollFd::new(&stdout, PollFlags::empty())];
        let ready = poll(&mut output, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        ready == Ok(1) && output[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }
}
