//! A pipe of two descriptors that never wait.

use super::take_low_descriptors;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
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
    rustix::io::ioctl_fionbio(&end, true)?;
    Ok(end.into())
}

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        take_low_descriptors();
        let (reader, writer) = pipe()?;
        Ok(Self { reader: prepared(reader.into())?, writer: prepared(writer.into())? })
    }

    pub(crate) fn raise(&self) {
        let mut reader = [PollFd::new(&self.reader, PollFlags::IN)];
        if poll(&mut reader, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(1) {
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
