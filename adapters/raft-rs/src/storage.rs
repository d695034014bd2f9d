//! Implements `raft::Storage`.

use raft::eraftpb::{Entry, Snapshot};
use raft::{GetEntriesContext, RaftState, Result, Storage, StorageError};

use crate::store::Store;

impl Storage for Store {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(self.shared.group().initial_state())
    }

    /// Those on the disk are read by the thread that asks, never later.
    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        let group = self.shared.group();
        if low < group.first() {
            return Err(StorageError::Compacted.into());
        }
        if high > group.next() {
            return Err(StorageError::Unavailable.into());
        }
        let max_size = max_size.into();
        let mut entries = self.shared.read(&group, low, high, max_size.unwrap_or(u64::MAX))?;
        raft::util::limit_size(&mut entries, max_size);
        Ok(entries)
    }

    fn term(&self, index: u64) -> Result<u64> {
        let group = self.shared.group();
        if index + 1 < group.first() {
            return Err(StorageError::Compacted.into());
        }
        if index >= group.next() {
            return Err(StorageError::Unavailable.into());
        }
        Ok(self.shared.term(&group, index)?)
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.shared.group().first())
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.shared.group().next() - 1)
    }

    /// Refused for now if the one that the host has is too old: entries after it were compacted, or `least` is above it.
    fn snapshot(&self, least: u64, to: u64) -> Result<Snapshot> {
        let snapshot = (self.shared.snapshots)(least, to)?;
        if snapshot.get_metadata().index < least.max(self.shared.group().first() - 1) {
            return Err(StorageError::SnapshotTemporarilyUnavailable.into());
        }
        Ok(snapshot)
    }
}
