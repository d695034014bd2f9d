//! Commits on the real machine: by a method into a file or device, or through a log's own interface.

use super::super::Lane;
use super::rest;
use seawall::Log;
use seawall_host::thread::{Accounts, Times, pin};
use seawall_sys::buffer::Aligned;
use seawall_sys::method::Method;
use seawall_sys::{CommitHandle, Error, OpenError, Target, open};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub(crate) struct RealLane {
    commit: Box<dyn CommitHandle>,
    accounts: Option<Accounts>,
    data: Aligned,
    len: usize,
}

impl RealLane {
    /// A writer by `method` on `target`.
    pub(crate) fn open(method: &'static Method, target: &Target) -> Result<Self, OpenError> {
        Ok(Self { commit: open(method, target, None)?, accounts: None, data: Aligned::zeroed(0), len: 0 })
    }
}

/// Two transactions are never alike, so that a device that merges equal blocks gains nothing.
#[inline]
pub(crate) fn put_stamp(transaction: &mut [u8], stamp: u64) {
    let stamp = stamp.to_le_bytes();
    let len = transaction.len().min(stamp.len());
    transaction[..len].copy_from_slice(&stamp[..len]);
}

impl Lane for RealLane {
    fn enter(&mut self, cpu: Option<usize>) -> Result<(), Error> {
        if let Some(cpu) = cpu {
            pin(cpu)?;
        }
        self.accounts = Some(Accounts::open());
        Ok(())
    }

    fn load(&mut self, bytes: Aligned) {
        if let Some(staging) = self.commit.staging() {
            staging[..bytes.as_slice().len()].copy_from_slice(bytes.as_slice());
        }
        self.len = bytes.as_slice().len();
        self.data = bytes;
    }

    fn resize(&mut self, bytes: usize) {
        self.len = bytes.min(self.data.as_slice().len());
    }

    #[inline]
    fn write(&mut self, offset: u64, stamp: u64) -> Result<(), Error> {
        let len = self.len;
        if let Some(staging) = self.commit.staging() {
            put_stamp(&mut staging[..len], stamp);
            self.commit.write_staged(offset, len)
        } else {
            put_stamp(self.data.as_mut_slice(), stamp);
            self.commit.write(offset, &self.data.as_slice()[..len])
        }
    }

    #[inline]
    fn sync(&mut self) -> Result<(), Error> {
        self.commit.sync()
    }

    fn warm(&mut self, range: Range<u64>) -> Result<(), Error> {
        self.commit.warm(range)
    }

    fn times(&self) -> Times {
        self.accounts.as_ref().map(Accounts::times).unwrap_or_default()
    }

    fn wait_ns(&self) -> Option<u64> {
        self.accounts.as_ref()?.wait_ns()
    }
}

/// What went wrong in a log, in its own words.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// What one thread commits records through.
pub trait Writer: Send {
    /// Returns once `record` is durable.
    ///
    /// # Errors
    /// The log's; the writer is not used further.
    fn put(&mut self, record: &[u8]) -> Result<(), Fault>;

    /// Forgets what was committed, as a user does who has a checkpoint, and waits for what the log does by itself
    /// because of it. Called between the slices of a block, and not timed.
    ///
    /// # Errors
    /// The log's; the writer is not used further.
    fn tidy(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// The Seawall log behind it, if it is one.
    fn log(&self) -> Option<&Arc<Log>> {
        None
    }
}

impl Writer for Arc<Log> {
    #[inline]
    fn put(&mut self, record: &[u8]) -> Result<(), Fault> {
        self.append_commit(record)?;
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), Fault> {
        self.trim(self.durable_lsn())?;
        Ok(rest(self, true)?)
    }

    fn log(&self) -> Option<&Arc<Log>> {
        Some(self)
    }
}

/// Commits that begin a writer's block untimed: what ran before left the processor's cache full of other things.
pub(crate) const UNTIMED: u64 = 3;

/// A thread's turn to commit through a [`Writer`]: the whole commit is its sync.
pub(crate) struct RecordLane<'a, W: ?Sized> {
    writer: &'a mut W,
    folder: &'a Path,
    record: Aligned,
    /// How much of it is appended.
    len: usize,
    accounts: Option<Accounts>,
}

impl<'a, W: Writer + ?Sized> RecordLane<'a, W> {
    /// `folder`: where the log is, for errors.
    pub(crate) fn new(writer: &'a mut W, folder: &'a Path) -> Self {
        Self { writer, folder, record: Aligned::zeroed(0), len: 0, accounts: None }
    }
}

impl<W: Writer + ?Sized> Lane for RecordLane<'_, W> {
    fn enter(&mut self, cpu: Option<usize>) -> Result<(), Error> {
        if let Some(cpu) = cpu {
            pin(cpu)?;
        }
        self.accounts = Some(Accounts::open());
        Ok(())
    }

    fn load(&mut self, bytes: Aligned) {
        self.len = bytes.as_slice().len();
        self.record = bytes;
    }

    fn resize(&mut self, bytes: usize) {
        self.len = bytes.min(self.record.as_slice().len());
    }

    fn write(&mut self, _: u64, stamp: u64) -> Result<(), Error> {
        put_stamp(self.record.as_mut_slice(), stamp);
        Ok(())
    }

    #[inline]
    fn sync(&mut self) -> Result<(), Error> {
        let committed = self.writer.put(&self.record.as_slice()[..self.len]);
        committed.map_err(|fault| Error::new("commit", self.folder, std::io::Error::other(fault)))
    }

    fn warm(&mut self, _: Range<u64>) -> Result<(), Error> {
        (0..UNTIMED).try_for_each(|_| self.sync())
    }

    fn times(&self) -> Times {
        self.accounts.as_ref().map(Accounts::times).unwrap_or_default()
    }

    fn wait_ns(&self) -> Option<u64> {
        self.accounts.as_ref()?.wait_ns()
    }
}
