//! Injects failing and hanging commits, hanging reads, full disks and lacking threads into an open log, for tests (feature `simulation`).
//!
//! [`Faults`] is shared with an open log: it can fail the n-th commit, have writes and reads hang until they may continue, fill
//! the disk for new segments, and free the space again.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// An input/output error, as the kernel numbers it.
const EIO: i32 = 5;
/// Too many open files.
const EMFILE: i32 = 24;

/// Faults to be met by one open log.
#[derive(Debug, Default)]
pub struct Faults {
    commits: AtomicU64,
    /// Counted from 1; 0 for none.
    fail_at: AtomicU64,
    /// 0 for EIO.
    errno: AtomicI32,
    debt_syncs: AtomicU64,
    /// Counted from 1; 0 for none.
    fail_debt_sync: AtomicU64,
    full: AtomicBool,
    out_of_descriptors: AtomicBool,
    hold_copies: AtomicBool,
    copies: AtomicU64,
    hang_commits: AtomicBool,
    hanging: AtomicU64,
    hang_reads: AtomicBool,
    out_of_threads: AtomicBool,
    hold_threads: AtomicBool,
    threads: AtomicU64,
    network: OnceLock<&'static str>,
}

impl Faults {
    /// Fails the write of batch `batch`, counted from 0, with an input/output error; later ones succeed, as the disk
    /// would have it.
    pub fn fail_commit(&self, batch: u64) {
        self.fail_at.store(batch.wrapping_add(1), Ordering::SeqCst);
    }

    /// With which error number of the system the commit fails; EIO if nothing is said.
    pub fn fail_with(&self, errno: i32) {
        self.errno.store(errno, Ordering::SeqCst);
    }

    /// Fails debt sync number `number`, counted from 0: the sync of what relaxed commits wrote.
    pub fn fail_debt_sync(&self, number: u64) {
        self.fail_debt_sync.store(number.wrapping_add(1), Ordering::SeqCst);
    }

    /// Debt syncs so far.
    #[must_use]
    pub fn debt_syncs(&self) -> u64 {
        self.debt_syncs.load(Ordering::SeqCst)
    }

    /// Whether there is no space for new segments.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    /// Whether the process may open no segment for writing, because too many files are open.
    pub fn set_out_of_descriptors(&self, out_of_descriptors: bool) {
        self.out_of_descriptors.store(out_of_descriptors, Ordering::SeqCst);
    }

    /// Whether appends of records that fill a batch of their own stop where they have copied them, until they may continue.
    pub fn hold_copies(&self, hold: bool) {
        self.hold_copies.store(hold, Ordering::SeqCst);
    }

    /// Such appends that have got that far.
    #[must_use]
    pub fn copies(&self) -> u64 {
        self.copies.load(Ordering::SeqCst)
    }

    pub(crate) fn copied(&self) {
        self.copies.fetch_add(1, Ordering::SeqCst);
        wait_while(&self.hold_copies);
    }

    /// Whether the writes of batches hang, until they may continue.
    pub fn hang_commits(&self, hang: bool) {
        self.hang_commits.store(hang, Ordering::SeqCst);
    }

    /// Writes of batches that hang now.
    #[must_use]
    pub fn hanging_commits(&self) -> u64 {
        self.hanging.load(Ordering::SeqCst)
    }

    /// Whether the reads of followers that are polled hang, until they may continue.
    pub fn hang_reads(&self, hang: bool) {
        self.hang_reads.store(hang, Ordering::SeqCst);
    }

    pub(crate) fn read(&self) {
        wait_while(&self.hang_reads);
    }

    /// Whether the system starts no thread that rewrites what streams need.
    pub fn set_out_of_threads(&self, out_of_threads: bool) {
        self.out_of_threads.store(out_of_threads, Ordering::SeqCst);
    }

    /// Whether an append that has started that thread stops before the log knows it, until it may continue.
    pub fn hold_threads(&self, hold: bool) {
        self.hold_threads.store(hold, Ordering::SeqCst);
    }

    /// Such threads that were started.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.threads.load(Ordering::SeqCst)
    }

    pub(crate) fn spawn(&self) -> io::Result<()> {
        if self.out_of_threads.load(Ordering::SeqCst) {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            Ok(())
        }
    }

    pub(crate) fn spawned(&self) {
        self.threads.fetch_add(1, Ordering::SeqCst);
        wait_while(&self.hold_threads);
    }

    /// The directory is to lie on a network file system of this name.
    pub fn set_network_file_system(&self, name: &'static str) {
        // Said once.
        let _ = self.network.set(name);
    }

    pub(crate) fn network_file_system(&self) -> Option<&'static str> {
        self.network.get().copied()
    }

    /// Batches written so far.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    pub(crate) fn commit(&self) -> io::Result<()> {
        self.hanging.fetch_add(1, Ordering::SeqCst);
        wait_while(&self.hang_commits);
        self.hanging.fetch_sub(1, Ordering::SeqCst);
        let errno = self.errno.load(Ordering::SeqCst);
        Self::count(&self.commits, &self.fail_at, if errno == 0 { EIO } else { errno })
    }

    pub(crate) fn debt_sync(&self) -> io::Result<()> {
        Self::count(&self.debt_syncs, &self.fail_debt_sync, EIO)
    }

    fn count(counter: &AtomicU64, fail_at: &AtomicU64, errno: i32) -> io::Result<()> {
        let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
        if number == fail_at.load(Ordering::SeqCst) {
            Err(io::Error::from_raw_os_error(errno))
        } else {
            Ok(())
        }
    }

    pub(crate) fn open(&self) -> io::Result<()> {
        if self.out_of_descriptors.load(Ordering::SeqCst) {
            Err(io::Error::from_raw_os_error(EMFILE))
        } else {
            Ok(())
        }
    }

    pub(crate) fn allocate(&self) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

fn wait_while(held: &AtomicBool) {
    while held.load(Ordering::SeqCst) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
