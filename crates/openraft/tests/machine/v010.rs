//! Test fixture: the smallest state machine that the suite of Openraft 0.10 accepts, in memory.
//!
//! It holds the last applied log id and the membership.

use std::io;

use futures_util::{Stream, StreamExt};
use openraft010::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft010::type_config::alias::{EntryOf, LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use openraft010::{EntryPayload, OptionalSend, Snapshot, SnapshotMeta, StoredMembership};

openraft010::declare_raft_types!(
    /// Strings go in, the number of the applied entry comes out.
    pub Types: D = String, R = u64
);

#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    applied: Option<LogIdOf<Types>>,
    membership: StoredMembershipOf<Types>,
    current: Option<SnapshotMetaOf<Types>>,
}

impl Machine {
    fn apply_entry(&mut self, entry: EntryOf<Types>) -> u64 {
        self.applied = Some(entry.log_id);
        if let EntryPayload::Membership(membership) = entry.payload {
            self.membership = StoredMembership::new(Some(entry.log_id), membership);
        }
        entry.log_id.index
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    type SnapshotData = ();

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, ()>> {
        let meta = SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone() };
        Ok(Snapshot { meta, snapshot: () })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = ();
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogIdOf<Types>>, StoredMembershipOf<Types>)> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some(entry) = entries.next().await {
            let (entry, responder) = entry?;
            let response = self.apply_entry(entry);
            if let Some(responder) = responder {
                responder.send(response);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        let mut builder = self.clone();
        self.current = builder.build_snapshot().await.ok().map(|built| built.meta);
        builder
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMetaOf<Types>, (): ()) -> io::Result<()> {
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.current = Some(meta.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types, ()>>> {
        Ok(self.current.clone().map(|meta| Snapshot { meta, snapshot: () }))
    }
}
