//! How do the `io_uring` rows run? One write, and where the row says so one fdatasync, on a ring of its own.
//!
//! ```text
//!   RingFdatasync        submit write, wait; then submit fdatasync, wait
//!   RingLinkedFdatasync  submit write --IO_LINK--> fdatasync, wait for both
//!   None                 submit write (with RWF_DSYNC), wait
//! ```
//!
//! Invariants:
//! * what the kernel reads lives in a buffer that this value owns, and it is leaked, not freed, if a request
//!   might still be in flight when the value is dropped;
//! * each completion's result is held against the length; a short write breaks a link (its fdatasync is
//!   cancelled), so the rest is submitted again with an fdatasync of its own;
//! * every completion is reaped before `write` or `sync` returns.

use crate::Commit;
use crate::buffer::Aligned;
use crate::commit::{OpenError, Target};
use crate::error::{Error, Result};
use crate::method::{RingPoll, Sync};
use io_uring::{IoUring, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const WRITE: u64 = 1;
const SYNC: u64 = 2;

pub(super) struct Settings {
    pub(super) rw_flags: libc::c_int,
    pub(super) registered: bool,
    pub(super) poll: RingPoll,
    pub(super) sync: Sync,
}

pub(super) struct Ring {
    uring: IoUring,
    file: File,
    path: PathBuf,
    buffer: ManuallyDrop<Aligned>,
    settings: Settings,
    in_flight: u32,
}

pub(super) fn open(file: File, settings: Settings, target: &Target) -> std::result::Result<Ring, OpenError> {
    let mut builder = IoUring::builder();
    match settings.poll {
        RingPoll::Interrupt => {}
        RingPoll::Submission => {
            builder.setup_sqpoll(1000);
        }
        RingPoll::Completion => {
            refuse_iopoll_without_queues(&target.path)?;
            builder.setup_iopoll();
        }
    }
    let uring = builder.build(4).map_err(|error| refused(&target.path, error))?;
    let buffer = Aligned::zeroed(target.write_bytes);
    if settings.registered {
        register(&uring, &file, &buffer, &target.path)?;
    }
    let path = target.path.clone();
    Ok(Ring { uring, file, path, buffer: ManuallyDrop::new(buffer), settings, in_flight: 0 })
}

/// Containers forbid `io_uring` by seccomp (`EPERM`) or build without it (`ENOSYS`); both are reasons, other
/// errors are failures.
fn refused(path: &Path, error: io::Error) -> OpenError {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => OpenError::unavailable("this kernel has no io_uring"),
        Some(libc::EPERM | libc::EACCES) => OpenError::unavailable(
            "io_uring is forbidden here (kernel.io_uring_disabled, or a container's seccomp profile)",
        ),
        Some(libc::EINVAL) => OpenError::unavailable("this kernel's io_uring lacks the ring flags"),
        Some(libc::ENOMEM) => {
            OpenError::unavailable("no locked memory left for a ring: raise RLIMIT_MEMLOCK")
        }
        _ => OpenError::Failed(Error::new("io_uring_setup", path, error)),
    }
}

fn register(uring: &IoUring, file: &File, buffer: &Aligned, path: &Path) -> Result<()> {
    let fixed = libc::iovec {
        iov_base: buffer.as_slice().as_ptr().cast_mut().cast(),
        iov_len: buffer.as_slice().len(),
    };
    let submitter = uring.submitter();
    // SAFETY: the buffer lives as long as the ring: both are fields of `Ring`, and the buffer is never freed
    // before the ring is closed.
    let registered = unsafe { submitter.register_buffers(&[fixed]) };
    registered.map_err(|error| Error::new("io_uring_register", path, error))?;
    submitter
        .register_files(&[file.as_raw_fd()])
        .map_err(|error| Error::new("io_uring_register", path, error))
}

/// An IOPOLL ring on a device without poll queues is refused by the kernel only at the first transfer, or,
/// on some kernels, quietly served by interrupt: then the row would run under another's name.
fn refuse_iopoll_without_queues(path: &Path) -> std::result::Result<(), OpenError> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).map_err(|error| Error::new("stat", path, error))?;
    let device = if metadata.rdev() == 0 { metadata.dev() } else { metadata.rdev() };
    let (major, minor) = (libc::major(device), libc::minor(device));
    let here = format!("/sys/dev/block/{major}:{minor}");
    let polls = ["queue/io_poll", "../queue/io_poll"]
        .iter()
        .find_map(|queue| std::fs::read_to_string(format!("{here}/{queue}")).ok());
    match polls.as_deref().map(str::trim) {
        Some("1") => Ok(()),
        Some(_) => Err(OpenError::unavailable("the device has no poll queues (queue/io_poll is 0)")),
        None => Err(OpenError::unavailable(
            "the file system is not on one block device whose polling can be read",
        )),
    }
}

impl Ring {
    fn write_entry(&self, offset: u64, start: usize, len: u32) -> squeue::Entry {
        let address = self.buffer.as_slice()[start..].as_ptr();
        let flags = self.settings.rw_flags;
        if self.settings.registered {
            opcode::WriteFixed::new(types::Fixed(0), address, len, 0).offset(offset).rw_flags(flags).build()
        } else {
            let fd = types::Fd(self.file.as_raw_fd());
            opcode::Write::new(fd, address, len).offset(offset).rw_flags(flags).build()
        }
        .user_data(WRITE)
    }

    fn sync_entry(&self) -> squeue::Entry {
        let flags = types::FsyncFlags::DATASYNC;
        if self.settings.registered {
            opcode::Fsync::new(types::Fixed(0)).flags(flags).build()
        } else {
            opcode::Fsync::new(types::Fd(self.file.as_raw_fd())).flags(flags).build()
        }
        .user_data(SYNC)
    }

    /// Submits `entries` and reaps as many completions; gives the results of the write and of the sync.
    fn run(&mut self, entries: &[squeue::Entry]) -> Result<[Option<i32>; 2]> {
        for entry in entries {
            // SAFETY: the entry refers to the owned buffer and file, which outlive it: see the invariants.
            let pushed = unsafe { self.uring.submission().push(entry) };
            pushed.map_err(|_| self.error("io_uring_enter", libc::EBUSY))?;
            self.in_flight += 1;
        }
        let mut results = [None; 2];
        let mut reaped = 0;
        while reaped < entries.len() {
            let missing = entries.len() - reaped;
            match self.uring.submit_and_wait(missing) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::new("io_uring_enter", &self.path, error)),
            }
            for completion in self.uring.completion() {
                reaped += 1;
                self.in_flight -= 1;
                results[usize::from(completion.user_data() == SYNC)] = Some(completion.result());
            }
        }
        Ok(results)
    }

    fn error(&self, operation: &'static str, errno: i32) -> Error {
        Error::new(operation, &self.path, io::Error::from_raw_os_error(errno))
    }

    /// The bytes written, or nothing if the request must simply be made again.
    fn written(&self, result: Option<i32>) -> Result<usize> {
        match result {
            Some(0) | None => Err(self.error("io_uring write", libc::EIO)),
            Some(result) => match usize::try_from(result) {
                Ok(written) => Ok(written),
                Err(_) if -result == libc::EINTR || -result == libc::EAGAIN => Ok(0),
                Err(_) => Err(self.error("io_uring write", -result)),
            },
        }
    }

    fn synced(&self, result: Option<i32>) -> Result<()> {
        match result {
            Some(0) => Ok(()),
            Some(result) if result < 0 => Err(self.error("io_uring fdatasync", -result)),
            _ => Err(self.error("io_uring fdatasync", libc::EIO)),
        }
    }
}

impl Commit for Ring {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.buffer.as_slice().len() {
            return Err(self.error("io_uring write", libc::EINVAL));
        }
        self.buffer.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
        let linked = self.settings.sync == Sync::RingLinkedFdatasync;
        let mut done = 0;
        while done < bytes.len() {
            let len =
                u32::try_from(bytes.len() - done).map_err(|_| self.error("io_uring write", libc::EINVAL))?;
            let write = self.write_entry(offset + done as u64, done, len);
            let [write, sync] = if linked {
                self.run(&[write.flags(squeue::Flags::IO_LINK), self.sync_entry()])?
            } else {
                self.run(&[write])?
            };
            done += self.written(write)?;
            // A short write breaks the link: its fdatasync is cancelled, and the next turn brings another.
            if linked && done == bytes.len() {
                self.synced(sync)?;
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        if self.settings.sync != Sync::RingFdatasync {
            return Ok(());
        }
        let entry = self.sync_entry();
        let [_, sync] = self.run(&[entry])?;
        self.synced(sync)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight == 0 {
            // SAFETY: dropped once, here; nothing in the kernel refers to the buffer any more.
            unsafe { ManuallyDrop::drop(&mut self.buffer) };
        }
    }
}
