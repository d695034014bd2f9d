//! Linux: runs the gauge's `io_uring` rows: one write, and if the row says so one fdatasync, on its own ring.
//!
//! ```text
//!   RingFdatasync        submit write, wait; then submit fdatasync, wait
//!   RingLinkedFdatasync  submit write --IO_LINK--> fdatasync, wait for both
//!   None                 submit write (with RWF_DSYNC), wait
//! ```
//!
//! `completion.rs` and `queue.rs` make the requests and interpret the completions, as they do for a log.
//!
//! Invariant: the kernel reads from a buffer that this value owns, and it is leaked, not freed, if a request might
//! still be taken when the value is dropped (a polling ring takes requests by itself).

use super::queue::{Journal, Queue, Settings};
use crate::CommitHandle;
use crate::buffer::Aligned;
use crate::commit::{BatchWrite, NumberedBuffer, OpenError, Target};
use crate::error::{Error, Result};
use crate::method::{RingPoll, Sync};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

pub(super) struct Ring {
    queue: Queue,
    file: File,
    path: PathBuf,
    buffer: ManuallyDrop<Aligned>,
    settings: Settings,
}

pub(super) fn open(file: File, settings: Settings, target: &Target) -> std::result::Result<Ring, OpenError> {
    if settings.poll == RingPoll::Completion {
        refuse_iopoll_without_queues(&target.path)?;
    }
    let mut queue = Queue::new(&target.path, settings.poll)?;
    let buffer = ManuallyDrop::new(Aligned::zeroed(target.write_bytes));
    if settings.registered {
        let registered = queue.register_only(buffer.as_slice()).and_then(|()| queue.place(Some(&file)));
        registered.map_err(|error| Error::new("io_uring_register", &target.path, error))?;
    }
    Ok(Ring { queue, file, path: target.path.clone(), buffer, settings })
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

impl Settings {
    pub(super) fn syncs_by_request(self) -> bool {
        matches!(self.sync, Sync::RingFdatasync | Sync::RingLinkedFdatasync)
    }
}

impl CommitHandle for Ring {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let Some(staging) = self.buffer.as_mut_slice().get_mut(..bytes.len()) else {
            return Err(self.too_long());
        };
        staging.copy_from_slice(bytes);
        self.write_staged(offset, bytes.len())
    }

    fn staging(&mut self) -> Option<&mut [u8]> {
        Some(self.buffer.as_mut_slice())
    }

    fn write_staged(&mut self, offset: u64, len: usize) -> Result<()> {
        let too_long = self.too_long();
        let Self { queue, file, path, buffer, settings } = self;
        let memory = buffer.as_slice();
        let bytes = memory.get(..len).ok_or(too_long)?;
        let durable = settings.sync == Sync::RingLinkedFdatasync;
        let buffer = settings.registered.then_some(NumberedBuffer { number: 0, memory });
        let piece = BatchWrite { offset, bytes, buffer, durable };
        queue.write_batch(Journal { file, path }, *settings, &[piece])
    }

    fn sync(&mut self) -> Result<()> {
        if self.settings.sync != Sync::RingFdatasync {
            return Ok(());
        }
        self.queue.sync(Journal { file: &self.file, path: &self.path }, self.settings)
    }
}

impl Ring {
    fn too_long(&self) -> Error {
        Error::new("io_uring write", &self.path, std::io::ErrorKind::InvalidInput.into())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.queue.is_finished() {
            // SAFETY: dropped once, here; the queue is sound, so nothing in the kernel refers to the buffer any more.
            unsafe { ManuallyDrop::drop(&mut self.buffer) };
        }
    }
}
