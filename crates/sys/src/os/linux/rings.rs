//! Linux: runs `io_uring` for a log: one ring per writer, for as long as the log is open.
//!
//! ```text
//!   writer 0: ring, a place for each of the log's buffers, place for one file ← the segment that it wrote last
//!   writer 1: the same
//! ```
//!
//! Registered memory is pinned, and so takes memory whether it is used or not. A buffer therefore comes into its place with
//! the first batch that is written from it through that ring, and leaves it when an idle log gives its memory back. Where
//! the kernel lets no more memory be locked, the buffer stays outside and its batches are ordinary writes on the same ring:
//! as durable, and some microseconds slower for what the kernel then pins each time.
//!
//! A file comes into its ring's place with the first batch that is written to it, by one call, and leaves it when it
//! is closed. A batch goes out in one submission, straight from the log's memory: see `completion.rs`. Bytes outside the
//! registered buffers (segment headers, a transaction longer than a buffer) are written on the same ring as ordinary
//! writes.
//!
//! Invariants: a ring has one batch in flight at a time; a ring whose call failed is never entered again; rings that
//! poll are not used, because they take a processor for themselves.

use super::queue::{Journal, Queue, Settings};
use crate::commit::{BatchWrite, CommitHandle, NumberedBuffer, OpenError, Target, Unavailable};
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::method::{Method, RingPoll, Write};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most buffers that every kernel with `io_uring` registers.
const BUFFERS_MAX: usize = 1024;

/// Whether this process gets a ring.
pub(crate) fn probe() -> std::result::Result<(), Unavailable> {
    match Queue::new(Path::new("a ring"), RingPoll::Interrupt) {
        Ok(_) => Ok(()),
        Err(OpenError::Unavailable(reason)) => Err(reason),
        Err(OpenError::Failed(error)) => Err(Unavailable(error.to_string())),
    }
}

pub(crate) struct Rings {
    method: &'static Method,
    settings: Settings,
    by_writer: Vec<Arc<Mutex<Ring>>>,
    next_file: AtomicU64,
}

struct Ring {
    queue: Queue,
    /// The number of the file in its place.
    holds: Option<u64>,
    /// The kernel let no more memory be locked; it is tried again when the log has been idle.
    full: bool,
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rings {
    pub(crate) fn start(
        method: &'static Method,
        writers: usize,
        count: usize,
        first: &[NumberedBuffer<'_>],
    ) -> std::result::Result<Self, OpenError> {
        let Write::Ring { flag, registered, poll } = method.write else {
            return Err(OpenError::unavailable(format!("{} does not use io_uring", method.id)));
        };
        if poll != RingPoll::Interrupt {
            return Err(OpenError::unavailable("a ring that polls takes a processor for itself"));
        }
        let settings = Settings { rw_flags: super::rwf(flag), registered, poll, sync: method.sync };
        let ring = |_| {
            let mut queue = Queue::new(Path::new("a ring"), poll)?;
            if registered {
                register(&mut queue, writers, count, first)?;
            }
            Ok(Arc::new(Mutex::new(Ring { queue, holds: None, full: false })))
        };
        let by_writer = (0..writers.max(1)).map(ring).collect::<std::result::Result<_, OpenError>>()?;
        Ok(Self { method, settings, by_writer, next_file: AtomicU64::new(0) })
    }

    /// Takes the buffer out of its place in every ring; returns whether it is in none of them now.
    pub(crate) fn forget(&self, number: u16) -> bool {
        let forget = |mut ring: MutexGuard<'_, Ring>| {
            ring.full = false;
            ring.queue.forget(number).is_ok()
        };
        self.by_writer.iter().all(|ring| forget(lock(ring)))
    }

    pub(crate) fn open(
        &self,
        directory: &Directory,
        writer: usize,
        target: &Target,
    ) -> std::result::Result<Box<dyn CommitHandle>, OpenError> {
        let file = super::open_journal(self.method, target, Some(directory))?;
        Ok(Box::new(RingFile {
            ring: Arc::clone(&self.by_writer[writer % self.by_writer.len()]),
            number: self.next_file.fetch_add(1, Ordering::Relaxed),
            file,
            path: target.path.clone(),
            settings: self.settings,
        }))
    }
}

/// The first kernel that registers buffers one by one. Since 5.12 fork(2) leaves registered memory with the process that
/// registered it.
const ONE_BY_ONE: (u32, u32) = (5, 13);

/// Whether memory may be registered with a kernel of this release, buffer by buffer. Before 5.12 a fork of the process could
/// leave the registered pages to the child, and batches would be written from memory that is no longer filled.
fn may_register(release: &str) -> std::result::Result<(), OpenError> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse::<u32>);
    let version =
        (numbers.next().and_then(std::result::Result::ok), numbers.next().and_then(std::result::Result::ok));
    match version {
        (Some(major), Some(minor)) if (major, minor) < ONE_BY_ONE => Err(OpenError::unavailable(format!(
            "memory is registered buffer by buffer, and safe from a fork of the process, from Linux 5.13 on, and this \
                 is {release}: use a newer kernel or a method that registers nothing"
        ))),
        // A release that does not begin with a version is no old kernel.
        _ => Ok(()),
    }
}

fn register(
    queue: &mut Queue,
    writers: usize,
    count: usize,
    first: &[NumberedBuffer<'_>],
) -> std::result::Result<(), OpenError> {
    may_register(&super::release())?;
    if count > BUFFERS_MAX {
        return Err(OpenError::unavailable(format!(
            "io_uring registers at most {BUFFERS_MAX} buffers, and there are {count}: use larger batches or less memory"
        )));
    }
    let registered = queue.make_places(count);
    let registered = registered.and_then(|()| first.iter().try_for_each(|buffer| queue.register(*buffer)));
    registered.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOMEM) => {
            let bytes: usize = first.iter().map(|buffer| buffer.memory.len()).sum();
            OpenError::unavailable(format!(
                "no locked memory left to register buffers of {bytes} bytes in each of {writers} rings: raise \
                 RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK=) or use less memory"
            ))
        }
        _ => Error::new("io_uring_register", "a ring", error).into(),
    })
}

/// One file, written through the ring of its writer.
struct RingFile {
    ring: Arc<Mutex<Ring>>,
    number: u64,
    file: File,
    path: PathBuf,
    settings: Settings,
}

impl RingFile {
    fn ring(&self) -> Result<MutexGuard<'_, Ring>> {
        let mut ring = lock(&self.ring);
        if self.settings.registered && ring.holds != Some(self.number) {
            let placed = ring.queue.place(Some(&self.file));
            placed.map_err(|error| Error::new("io_uring_register", &self.path, error))?;
            ring.holds = Some(self.number);
        }
        Ok(ring)
    }

    fn journal(&self) -> Journal<'_> {
        Journal { file: &self.file, path: &self.path }
    }
}

impl CommitHandle for RingFile {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let piece = BatchWrite { offset, bytes, buffer: None, durable: false };
        self.ring()?.queue.write_batch(self.journal(), self.settings, &[piece])
    }

    fn sync(&mut self) -> Result<()> {
        if self.settings.syncs_by_request() {
            return self.ring()?.queue.sync(self.journal(), self.settings);
        }
        Ok(())
    }

    fn write_batch(&mut self, pieces: &[BatchWrite<'_>]) -> Result<()> {
        let mut ring = self.ring()?;
        for buffer in pieces.iter().filter_map(|piece| piece.buffer) {
            // One that is refused is written from all the same: see above.
            ring.full = ring.full || ring.queue.register(buffer).is_err();
        }
        ring.queue.write_batch(self.journal(), self.settings, pieces)
    }
}

impl Drop for RingFile {
    fn drop(&mut self) {
        let mut ring = lock(&self.ring);
        if ring.holds == Some(self.number) {
            // Otherwise the file's blocks would stay in use after it was removed. A ring that will not let go of it
            // does so when it is closed itself.
            let _ = ring.queue.place(None);
            ring.holds = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::may_register;

    #[test]
    fn memory_is_registered_where_a_fork_leaves_it_alone() {
        for release in ["5.13.0", "5.15.0-100-generic", "6.1", "6.18.5", "7.0-rc1", "unknown", ""] {
            assert!(may_register(release).is_ok(), "{release}");
        }
        for release in ["5.6.0", "5.8.0-63-generic", "5.10.200", "5.12.22", "4.18.0-500.el8"] {
            let refused = may_register(release).expect_err(release).to_string();
            assert!(refused.contains("5.13") && refused.contains(release), "{refused}");
        }
    }
}
