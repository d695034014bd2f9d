//! A pipe of two descriptors that never wait.

use super::{check, take_low_descriptors};
use std::fs::File;
use std::io::{self, Read as _, Write as _, pipe};
use std::os::fd::{AsRawFd as _, OwnedFd};

#[derive(Debug)]
pub(crate) struct Signal {
    reader: File,
    writer: File,
}

/// The same, that never waits.
fn prepared(end: OwnedFd) -> io::Result<File> {
    // SAFETY: the descriptor is open.
    let flags = unsafe { libc::fcntl(end.as_raw_fd(), libc::F_GETFL) };
    check(flags)?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(end.into())
}

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        take_low_descriptors();
        let (reader, writer) = pipe()?;
        Ok(Self { reader: prepared(reader.into())?, writer: prepared(writer.into())? })
    }

    pub(crate) fn raise(&self) {
        let mut poll = libc::pollfd { fd: self.reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the one structure is live and writable.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        if ready <= 0 {
            // It fails if the pipe is full, which says the same.
            let _ = (&self.writer).write(&[1]);
        }
    }

    pub(crate) fn lower(&self) -> bool {
        // Threads that raise it at once may each have written.
        (&self.reader).read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0)
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.reader.as_raw_fd()
    }
}
