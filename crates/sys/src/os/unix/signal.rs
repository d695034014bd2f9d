//! A pipe of two descriptors that never wait.

use super::take_low_descriptors;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read as _, Write as _, pipe};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// A pipe that holds a byte or none.
#[derive(Debug)]
pub struct Signal {
    reader: File,
    writer: File,
}

/// The same, that never waits.
fn prepared(end: OwnedFd) -> io::Result<File> {
    rustix::io::ioctl_fionbio(&end, true)?;
    Ok(end.into())
}

impl Signal {
    /// One that is not raised.
    ///
    /// # Errors
    /// The system's, and that this system has no such descriptors.
    pub fn new() -> io::Result<Self> {
        take_low_descriptors();
        let (reader, writer) = pipe()?;
        Ok(Self { reader: prepared(reader.into())?, writer: prepared(writer.into())? })
    }

    /// Lets the descriptor be read.
    pub fn raise(&self) {
        let mut reader = [PollFd::new(&self.reader, PollFlags::IN)];
        if poll(&mut reader, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(1) {
            // It fails if the pipe is full, which says the same.
            let _ = (&self.writer).write(&[1]);
        }
    }

    /// Takes that back; returns whether it was raised. Never waits.
    #[must_use]
    pub fn lower(&self) -> bool {
        // Threads that raise it at once may each have written.
        (&self.reader).read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0)
    }

    /// The descriptor: never one of the three of the standard streams, closed when this is dropped.
    #[must_use]
    pub fn descriptor(&self) -> i32 {
        self.reader.as_raw_fd()
    }
}
