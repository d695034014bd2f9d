//! Test fixture: the smallest state machine that the suite of Openraft 0.9 accepts, in memory.
//!
//! It holds the last applied log id and the membership.

use std::io::Cursor;

use openraft09::storage::RaftStateMachine;
use openraft09::{
    Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, RaftTypeConfig, Snapshot, SnapshotMeta,
    StorageError, StoredMembership,
};

openraft09::declare_raft_types!(
    /// Strings go in, the number of the applied entry comes out.
    pub Types: D = String, R = u64
);

pub(crate) type NodeId = <Types as RaftTypeConfig>::NodeId;
pub(crate) type Node = <Types as RaftTypeConfig>::Node;
type StorageOutcome<T> = Result<T, StorageError<NodeId>>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    applied: Option<LogId<NodeId>>,
    membership: StoredMembership<NodeId, Node>,
    snapshots: u64,
    current: Option<SnapshotMeta<NodeId, Node>>,
}

fn snapshot(meta: SnapshotMeta<NodeId, Node>) -> Snapshot<Types> {
    Snapshot { meta, snapshot: Box::new(Cursor::new(Vec::new())) }
}

impl RaftSnapshotBuilder<Types> for Machine {
    async fn build_snapshot(&mut self) -> StorageOutcome<Snapshot<Types>> {
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
            snapshot_id: self.snapshots.to_string(),
        };
        Ok(snapshot(meta))
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> StorageOutcome<(Option<LogId<NodeId>>, StoredMembership<NodeId, Node>)> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> StorageOutcome<Vec<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let apply = |entry: Entry<Types>| {
            self.applied = Some(entry.log_id);
            if let EntryPayload::Membership(membership) = entry.payload {
                self.membership = StoredMembership::new(Some(entry.log_id), membership);
            }
            entry.log_id.index
        };
        Ok(entries.into_iter().map(apply).collect())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.snapshots += 1;
        let mut builder = self.clone();
        self.current = builder.build_snapshot().await.ok().map(|built| built.meta);
        builder
    }

    async fn begin_receiving_snapshot(&mut self) -> StorageOutcome<Box<Cursor<Vec<u8>>>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<NodeId, Node>,
        _: Box<Cursor<Vec<u8>>>,
    ) -> StorageOutcome<()> {
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.current = Some(meta.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> StorageOutcome<Option<Snapshot<Types>>> {
        Ok(self.current.clone().map(snapshot))
    }
}
