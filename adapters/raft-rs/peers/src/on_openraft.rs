//! Openraft over the log, and over the store on RocksDB that Openraft has published.
//!
//! That one comes with its state machine, and syncs when entries are applied to that, not when they are appended.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use openraft::error::{InstallSnapshotError, RPCError, RaftError};
use openraft::impls::OneshotResponder;
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest};
use openraft::raft::{InstallSnapshotResponse, VoteRequest, VoteResponse};
use openraft::storage::{RaftLogStorage, RaftStateMachine};
use openraft::{BasicNode, Config, Raft, RaftTypeConfig, SnapshotPolicy, TokioRuntime};

use crate::{Failure, Propose};

struct Network;

impl<C: RaftTypeConfig<NodeId = u64, Node = BasicNode>> RaftNetworkFactory<C> for Network {
    type Network = Self;

    async fn new_client(&mut self, _: u64, _: &BasicNode) -> Self {
        unreachable!("there is one node")
    }
}

type Answer<R, E = RaftError<u64>> = Result<R, RPCError<u64, BasicNode, E>>;

impl<C: RaftTypeConfig<NodeId = u64, Node = BasicNode>> RaftNetwork<C> for Network {
    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<C>,
        _: RPCOption,
    ) -> Answer<AppendEntriesResponse<u64>> {
        unreachable!("there is one node")
    }

    async fn vote(&mut self, _: VoteRequest<u64>, _: RPCOption) -> Answer<VoteResponse<u64>> {
        unreachable!("there is one node")
    }

    async fn install_snapshot(
        &mut self,
        _: InstallSnapshotRequest<C>,
        _: RPCOption,
    ) -> Answer<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>> {
        unreachable!("there is one node")
    }
}

async fn run<C>(
    store: impl RaftLogStorage<C>,
    machine: impl RaftStateMachine<C>,
    set: impl Fn() -> C::D + Send + Sync + 'static,
) -> Result<Propose, Failure>
where
    C: RaftTypeConfig<
            NodeId = u64,
            Node = BasicNode,
            AsyncRuntime = TokioRuntime,
            Responder = OneshotResponder<C>,
        >,
{
    let config = Config { snapshot_policy: SnapshotPolicy::Never, ..Config::default() };
    let raft = Raft::<C>::new(0, Arc::new(config.validate()?), Network, store, machine).await?;
    raft.initialize(BTreeMap::from([(0, BasicNode::default())])).await?;
    raft.wait(None).state(openraft::ServerState::Leader, "leads").await?;
    Ok(Arc::new(move || {
        let (raft, set) = (raft.clone(), set());
        Box::pin(async move { drop(raft.client_write(set).await.expect("is applied")) })
    }))
}

#[cfg(feature = "rocksdb")]
pub(crate) async fn over_rocksdb(dir: &Path) -> Result<Propose, Failure> {
    use openraft_rocksstore::{RocksRequest, RocksStore};
    let (store, machine) = openraft::storage::Adaptor::new(RocksStore::new(dir).await);
    run(store, machine, || RocksRequest::Set { key: "key".to_owned(), value: "7".repeat(97) }).await
}

#[cfg(feature = "log")]
pub(crate) async fn over_the_log(dir: &Path) -> Result<Propose, Failure> {
    use seawall_openraft::{Groups, Options, v09};
    let store: v09::LogStore<in_memory::Types> = Groups::open(dir, Options::default())?.store(0)?;
    run(store, in_memory::Machine::default(), || "7".repeat(100)).await
}

/// A state machine that only counts.
#[cfg(feature = "log")]
mod in_memory {
    use std::io::Cursor;

    use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine, Snapshot};
    use openraft::{
        BasicNode, Entry, EntryPayload, LogId, OptionalSend, SnapshotMeta, StorageError, StoredMembership,
    };

    openraft::declare_raft_types!(pub(crate) Types: D = String, R = (), Node = BasicNode);
    type Stored<T> = Result<T, StorageError<u64>>;
    type Members = StoredMembership<u64, BasicNode>;

    #[derive(Clone, Default)]
    pub(crate) struct Machine(Option<LogId<u64>>, Members);

    impl RaftSnapshotBuilder<Types> for Machine {
        async fn build_snapshot(&mut self) -> Stored<Snapshot<Types>> {
            unreachable!("the policy is never")
        }
    }

    impl RaftStateMachine<Types> for Machine {
        type SnapshotBuilder = Self;

        async fn applied_state(&mut self) -> Stored<(Option<LogId<u64>>, Members)> {
            Ok((self.0, self.1.clone()))
        }

        async fn apply<I>(&mut self, entries: I) -> Stored<Vec<()>>
        where
            I: IntoIterator<Item = Entry<Types>> + OptionalSend,
            I::IntoIter: OptionalSend,
        {
            let apply = |entry: Entry<Types>| {
                self.0 = Some(entry.log_id);
                if let EntryPayload::Membership(members) = entry.payload {
                    self.1 = StoredMembership::new(self.0, members);
                }
            };
            Ok(entries.into_iter().map(apply).collect())
        }

        async fn get_snapshot_builder(&mut self) -> Self {
            self.clone()
        }

        async fn begin_receiving_snapshot(&mut self) -> Stored<Box<Cursor<Vec<u8>>>> {
            unreachable!("there is one node")
        }

        async fn install_snapshot(
            &mut self,
            _: &SnapshotMeta<u64, BasicNode>,
            _: Box<Cursor<Vec<u8>>>,
        ) -> Stored<()> {
            unreachable!("there is one node")
        }

        async fn get_current_snapshot(&mut self) -> Stored<Option<Snapshot<Types>>> {
            Ok(None)
        }
    }
}
