//! Reproduces a known `io_uring` bug for crash tests: a write and its fdatasync submitted unlinked.
//!
//! The kernel may run the sync before the write or at the same time, and then the sync covers nothing. The crash
//! harness uses it to show that it catches this bug; no row of the table does.
//!
//! Invariants: the kernel reads from a buffer that this value owns; both completions are reaped before `write`
//! returns, and the buffer is leaked if that failed.

use crate::CommitHandle;
use crate::buffer::Aligned;
use crate::error::{Error, Result};
use io_uring::{IoUring, opcode, types};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 64 * 1024;

/// A journal whose syncs run beside the writes that they should follow.
pub struct UnlinkedRing {
    uring: IoUring,
    file: File,
    path: PathBuf,
    buffer: ManuallyDrop<Aligned>,
}

impl UnlinkedRing {
    /// Opens the journal at `path` around the page cache.
    ///
    /// # Errors
    /// The failed call, the file and the system's error.
    pub fn open(path: &Path) -> Result<Self> {
        let file = crate::os::unix::open_file(path, libc::O_DIRECT | libc::O_CLOEXEC)?;
        let uring = IoUring::new(4).map_err(|error| Error::new("io_uring_setup", path, error))?;
        let buffer = ManuallyDrop::new(Aligned::zeroed(BUFFER_BYTES));
        Ok(Self { uring, file, path: path.to_owned(), buffer })
    }

    fn run(&mut self, offset: u64, len: u32) -> io::Result<()> {
        let fd = types::Fd(self.file.as_raw_fd());
        let write = opcode::Write::new(fd, self.buffer.as_slice().as_ptr(), len).offset(offset).build();
        let sync = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build();
        for entry in [write.user_data(u64::from(len)), sync.user_data(0)] {
            // SAFETY: the entry refers to the owned buffer and file, which outlive it: see the invariants.
            let pushed = unsafe { self.uring.submission().push(&entry) };
            pushed.map_err(io::Error::other)?;
        }
        let mut reaped = 0;
        while reaped < 2 {
            match self.uring.submit_and_wait(2 - reaped) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for completion in self.uring.completion() {
                reaped += 1;
                let result = completion.result();
                if result < 0 {
                    return Err(io::Error::from_raw_os_error(-result));
                }
                if u64::from(result.unsigned_abs()) != completion.user_data() {
                    return Err(io::ErrorKind::WriteZero.into());
                }
            }
        }
        Ok(())
    }
}

impl CommitHandle for UnlinkedRing {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let len = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= BUFFER_BYTES);
        let too_long = || Error::new("io_uring write", &self.path, io::ErrorKind::InvalidInput.into());
        let len = len.ok_or_else(too_long)?;
        self.buffer.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
        self.run(offset, len).map_err(|error| Error::new("io_uring write and fdatasync", &self.path, error))
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}
