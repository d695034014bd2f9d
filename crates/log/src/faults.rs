//! How do tests make the real log meet a failing disk?
//!
//! [`Faults`] is shared with an open log: it can fail the n-th commit and fill the disk for new segments, and give the
//! space back. Only with the feature `simulation`.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// An input/output error, as the kernel numbers it.
const EIO: i32 = 5;

/// Faults to be met by one open log.
#[derive(Debug)]
pub struct Faults {
    commits: AtomicU64,
    fail_at: AtomicU64,
    errno: AtomicI32,
    full: AtomicBool,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            commits: AtomicU64::new(0),
            fail_at: AtomicU64::new(u64::MAX),
            errno: AtomicI32::new(EIO),
            full: AtomicBool::new(false),
        }
    }
}

impl Faults {
    /// Fails the write of batch `batch`, counted from 0, with an input/output error; later ones succeed, as the disk
    /// would have it.
    pub fn fail_commit(&self, batch: u64) {
        self.fail_at.store(batch, Ordering::SeqCst);
    }

    /// With which error number of the system the commit fails; EIO if nothing is said.
    pub fn fail_with(&self, errno: i32) {
        self.errno.store(errno, Ordering::SeqCst);
    }

    /// Whether there is no space for new segments.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    /// Batches written so far.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    pub(crate) fn commit(&self) -> io::Result<()> {
        let number = self.commits.fetch_add(1, Ordering::SeqCst);
        if number == self.fail_at.load(Ordering::SeqCst) {
            Err(io::Error::from_raw_os_error(self.errno.load(Ordering::SeqCst)))
        } else {
            Ok(())
        }
    }

    pub(crate) fn allocate(&self) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}
