//! Opens and removes the Raft groups of one log.
//!
//! Invariants: a group has at most one store; what all groups keep in memory of durable entries is bounded together.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use seawall::{Log, Options, StreamId};

use crate::error::{Error, Result};
use crate::store::{LogStore, Shared};
use crate::types::RaftTypes;

/// Bytes of durable entries that all groups of a log keep in memory by default: 16 MiB.
pub const KEEP_BYTES: usize = 16 << 20;

/// What the stores of one log share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) log: Arc<Log>,
    /// The groups that have a store or a reader.
    open: Mutex<BTreeSet<u32>>,
    keep_bytes: usize,
    kept_bytes: AtomicUsize,
}

impl Host {
    pub(crate) fn keep(&self, bytes: usize) {
        self.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn let_go(&self, bytes: usize) {
        self.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn keeps_too_much(&self) -> bool {
        self.kept_bytes.load(Ordering::Relaxed) > self.keep_bytes
    }

    /// The log, if nothing else uses it.
    ///
    /// # Errors
    /// [`Error::InUse`].
    pub(crate) fn into_log(host: Arc<Self>) -> Result<Log> {
        let log = Arc::into_inner(host).ok_or(Error::InUse)?.log;
        Arc::into_inner(log).ok_or(Error::InUse)
    }
}

/// The only user of a group; dropping it lets another one open the group.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) host: Arc<Host>,
    group: u32,
    pub(crate) entries: StreamId,
    pub(crate) state: StreamId,
}

impl Member {
    fn new(host: &Arc<Host>, group: u32) -> Result<Self> {
        let stream = |which| group.checked_mul(2).and_then(|first| StreamId::new(first + which));
        let (Some(entries), Some(state)) = (stream(0), stream(1)) else {
            return Err(Error::NoGroup { group });
        };
        let mut open = host.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.insert(group) {
            return Err(Error::GroupInUse { group });
        }
        Ok(Self { host: Arc::clone(host), group, entries, state })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.host.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.group);
    }
}

/// The Raft groups of one log, which share its writer, its segments and its flushes. Copies are the same groups.
///
/// Group `g` is the streams `2g` and `2g + 1` of the log. No other stream number is touched, nor are records that
/// belong to no stream.
#[derive(Clone, Debug)]
pub struct Groups {
    host: Arc<Host>,
}

impl Groups {
    /// Opens the log in `dir`, or makes one there.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        Ok(Self::new(Arc::new(Log::open(dir, options)?), KEEP_BYTES))
    }

    /// The groups of `log`, which must not have another `Groups`. All of them together keep the bytes of up to
    /// `keep_bytes` of durable entries in memory; what is not durable yet is kept always.
    #[must_use]
    pub fn new(log: Arc<Log>, keep_bytes: usize) -> Self {
        let (open, kept_bytes) = (Mutex::default(), AtomicUsize::new(0));
        Self { host: Arc::new(Host { log, open, keep_bytes, kept_bytes }) }
    }

    /// The groups that the log has, in order of their numbers: all those that something was ever saved for and that were
    /// not removed.
    #[must_use]
    pub fn ids(&self) -> Vec<u32> {
        let mut ids: Vec<_> = self.host.log.streams().into_iter().map(|stream| stream.get() / 2).collect();
        ids.dedup();
        ids
    }

    /// Opens the store of a group, which is empty if the log does not have it. Reads its state and its last entry.
    ///
    /// # Errors
    /// [`Error::NoGroup`]; [`Error::GroupInUse`] if it has a store or a reader; [`Error::Record`] if its records are none
    /// of such a store; [`Error::Missing`] if entries have been lost; [`Error::Log`].
    pub fn store<R: RaftTypes>(&self, group: u32) -> Result<LogStore<R>> {
        Ok(LogStore { shared: Arc::new(Shared::open(Member::new(&self.host, group)?)?) })
    }

    /// Removes a group with all its entries and its vote; returns when that is durable. After a crash the group is
    /// there with everything or not at all.
    ///
    /// # Errors
    /// [`Error::NoGroup`], [`Error::GroupInUse`], [`Error::Log`].
    pub fn remove(&self, group: u32) -> Result<()> {
        let member = Member::new(&self.host, group)?;
        let end = self.host.log.transaction(|transaction| {
            transaction.remove(member.entries)?;
            transaction.remove(member.state)
        })?;
        Ok(self.host.log.commit(end)?)
    }

    /// The log behind it.
    #[must_use]
    pub fn log(&self) -> &Arc<Log> {
        &self.host.log
    }

    /// Makes everything durable and leaves the mark of a clean end. Without it the next opening reads a torn tail,
    /// and what had not been reported durable may be gone.
    ///
    /// # Errors
    /// [`Error::InUse`] if a store, a reader or a copy is left, [`Error::Log`] if something could not be made durable.
    pub fn close(self) -> Result<()> {
        Ok(Host::into_log(self.host)?.close()?)
    }
}
