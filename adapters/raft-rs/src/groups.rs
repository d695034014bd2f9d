//! Opens and removes the Raft groups of one log.

use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use raft::eraftpb::{Snapshot, SnapshotMetadata};
use seawall::{Log, Options, StreamId};

use crate::error::{Error, Result};
use crate::store::{Shared, Store};

/// Bytes of durable entries that all groups of a log keep in memory by default: 16 MiB.
pub const KEEP_BYTES: usize = 16 << 20;

/// The Raft groups of one log, which share its writer, its segments and its flushes. Copies are the same groups.
///
/// Group `g` is the streams `2g` and `2g + 1` of the log. No other stream is touched, nor are records that belong to none.
#[derive(Clone, Debug)]
pub struct Groups {
    log: Arc<Log>,
    keep_bytes: usize,
    kept_bytes: Arc<AtomicUsize>,
}

fn streams(group: u32) -> Result<(StreamId, StreamId)> {
    let stream = |which| group.checked_mul(2).and_then(|first| StreamId::new(first + which));
    stream(0).zip(stream(1)).ok_or(Error::NoGroup { group })
}

impl Groups {
    /// Opens the log in `dir`, or makes one there.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        Ok(Self::new(Arc::new(Log::open(dir, options)?), KEEP_BYTES))
    }

    /// The groups of `log`, which must not have another `Groups`. All of them together keep up to `keep_bytes` of durable entries in
    /// memory; what is not durable yet is kept always.
    #[must_use]
    pub fn new(log: Arc<Log>, keep_bytes: usize) -> Self {
        Self { log, keep_bytes, kept_bytes: Arc::default() }
    }

    /// The groups that the log has, in order of their numbers.
    #[must_use]
    pub fn ids(&self) -> Vec<u32> {
        let mut ids: Vec<_> = self.log.streams().into_iter().map(|stream| stream.get() / 2).collect();
        ids.dedup();
        ids
    }

    /// Opens the store of a group; it must have no other. A group that the log does not have is made.
    ///
    /// `applied` says what the host has applied, and the members as of that: the metadata of its last durable snapshot, or of a durable
    /// state machine; that of a new group an index and term of 1 and its first members, the same on each of them; of a node that is to
    /// join a group the default. `Config::applied` of raft-rs is that index too. A log that ends before it, or has another term there,
    /// is brought to it, durably.
    ///
    /// `snapshots` makes or finds a snapshot for `Storage::snapshot`, of which it gets the arguments: the least index, and the node that asks.
    ///
    /// # Errors
    /// [`Error::Missing`] if the log was compacted beyond `applied`, [`Error::NoGroup`], [`Error::Record`], [`Error::Log`].
    pub fn store(
        &self,
        group: u32,
        applied: &SnapshotMetadata,
        snapshots: impl Fn(u64, u64) -> raft::Result<Snapshot> + Send + Sync + 'static,
    ) -> Result<Store> {
        let (entries, states) = streams(group)?;
        let (log, kept_bytes) = (Arc::clone(&self.log), Arc::clone(&self.kept_bytes));
        let (snapshots, group, keep_bytes) = (Box::new(snapshots), Mutex::default(), self.keep_bytes);
        Store::open(Shared { log, entries, states, keep_bytes, kept_bytes, snapshots, group }, applied)
    }

    /// Removes a group, which has no store any more, with all it has; returns when that is durable.
    ///
    /// # Errors
    /// [`Error::NoGroup`], [`Error::Log`].
    pub fn remove(&self, group: u32) -> Result<()> {
        let (entries, states) = streams(group)?;
        let end = self.log.transaction(|transaction| {
            transaction.remove(entries)?;
            transaction.remove(states)
        })?;
        Ok(self.log.commit(end)?)
    }

    /// The log behind it, by which appends become durable: [`Log::commit`], [`Log::commit_async`].
    #[must_use]
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }
}
