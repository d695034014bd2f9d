//! A node of a replicated key-value store on Openraft 0.9: what it acknowledges outlives kill -9 and power cuts.
//!
//! `kv09 ID DIR ADDRESS...`: its number, its folder, and the addresses of all nodes in the order of their numbers. It answers
//! `{"Set": ["key", "value"]}` when that is committed, `{"Get": "key"}` with what is committed, and nobody but a leader does.
#[path = "kv/mod.rs"]
mod kv;

use kv::Peer;
use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest};
use openraft::raft::{InstallSnapshotResponse, VoteRequest, VoteResponse};
use openraft::storage::{RaftSnapshotBuilder, RaftStateMachine, Snapshot};
use openraft::{BasicNode, Config, Entry, EntryPayload, LogId, OptionalSend, Raft, SnapshotMeta};
use openraft::{SnapshotPolicy, StorageError, StorageIOError, StoredMembership};
use openraft09 as openraft;
use seawall_openraft::{Groups, Options, v09};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, error::Error, io, io::Cursor, path::Path, sync::Arc};

openraft::declare_raft_types!(pub(crate) Types: D = String, R = Option<String>, Node = BasicNode);
type Members = StoredMembership<u64, BasicNode>;
type State = kv::State<LogId<u64>, Members>;
pub(crate) type Machine = kv::Machine<LogId<u64>, Members>;
type Stored<T> = Result<T, StorageError<u64>>;

fn snapshot(state: &State) -> io::Result<Snapshot<Types>> {
    let snapshot_id = state.applied.map_or_else(String::new, |applied| applied.to_string());
    let meta =
        SnapshotMeta { last_log_id: state.applied, last_membership: state.members.clone(), snapshot_id };
    Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(serde_json::to_vec(state)?)) })
}

#[allow(clippy::needless_pass_by_value, reason = "as `map_err` passes it")]
fn failed(error: io::Error) -> StorageError<u64> {
    StorageIOError::write_snapshot(None, &error).into()
}

impl RaftSnapshotBuilder<Types> for Machine {
    async fn build_snapshot(&mut self) -> Stored<Snapshot<Types>> {
        let state = self.both().0.clone();
        self.keep(&state).and_then(|()| snapshot(&state)).map_err(failed)
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Stored<(Option<LogId<u64>>, Members)> {
        let state = &self.both().0;
        Ok((state.applied, state.members.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Stored<Vec<Option<String>>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let state = &mut self.both().0;
        let apply = |entry: Entry<Types>| {
            state.applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => return None,
                EntryPayload::Normal(set) => return state.set(&set),
                EntryPayload::Membership(m) => state.members = StoredMembership::new(state.applied, m),
            }
            None
        };
        Ok(entries.into_iter().map(apply).collect())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Stored<Box<Cursor<Vec<u8>>>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        _: &SnapshotMeta<u64, BasicNode>,
        bytes: Box<Cursor<Vec<u8>>>,
    ) -> Stored<()> {
        self.install(bytes.get_ref()).map_err(failed)
    }

    async fn get_current_snapshot(&mut self) -> Stored<Option<Snapshot<Types>>> {
        self.both().1.as_ref().map(snapshot).transpose().map_err(failed)
    }
}

#[derive(Serialize, Deserialize)]
enum Request {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<u64>),
    Snapshot(InstallSnapshotRequest<Types>),
    Set(String, String),
    Get(String),
    Dump,
}

struct Network;

/// To the node of this number.
struct Link(u64, Peer);

impl RaftNetworkFactory<Types> for Network {
    type Network = Link;

    async fn new_client(&mut self, to: u64, node: &BasicNode) -> Link {
        Link(to, Peer(node.addr.clone(), None))
    }
}

type Answer<R, E = RaftError<u64>> = Result<R, RPCError<u64, BasicNode, E>>;

async fn ask<R: DeserializeOwned, E: DeserializeOwned + Error>(
    Link(to, peer): &mut Link,
    request: Request,
) -> Answer<R, E> {
    let answer: Result<R, E> = peer.ask(&request).await.map_err(|error| Unreachable::new(&error))?;
    answer.map_err(|error| RemoteError::new(*to, error).into())
}

impl RaftNetwork<Types> for Link {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Answer<AppendEntriesResponse<u64>> {
        ask(self, Request::Append(request)).await
    }

    async fn vote(&mut self, request: VoteRequest<u64>, _: RPCOption) -> Answer<VoteResponse<u64>> {
        ask(self, Request::Vote(request)).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Types>,
        _: RPCOption,
    ) -> Answer<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>> {
        ask(self, Request::Snapshot(request)).await
    }
}

async fn answer(raft: Raft<Types>, machine: Machine, request: Request) -> serde_json::Result<Vec<u8>> {
    match request {
        Request::Append(request) => serde_json::to_vec(&raft.append_entries(request).await),
        Request::Vote(request) => serde_json::to_vec(&raft.vote(request).await),
        Request::Snapshot(request) => serde_json::to_vec(&raft.install_snapshot(request).await),
        Request::Set(key, value) => {
            let set = raft.client_write(serde_json::to_string(&(key, value))?).await;
            serde_json::to_vec(&set.map(|set| set.log_id.to_string()).map_err(|error| error.to_string()))
        }
        Request::Get(key) => {
            let may_read = raft.ensure_linearizable().await.map_err(|error| error.to_string());
            serde_json::to_vec(&may_read.map(|_| machine.both().0.map.get(&key).cloned()))
        }
        Request::Dump => serde_json::to_vec(&Ok::<_, String>(&machine.both().0.map)),
    }
}

async fn run(id: usize, dir: &Path, addresses: &[String]) -> Result<(), Box<dyn Error>> {
    let groups = Groups::open(dir.join("log"), Options::default().segment_bytes(4 << 20))?;
    let machine = Machine::open(&dir.join("snapshot"))?;
    let config = Config { snapshot_policy: SnapshotPolicy::LogsSinceLast(500), ..Config::default() };
    let store: v09::LogStore<Types> = groups.store(0)?;
    let raft = Raft::new(id as u64, Arc::new(config.validate()?), Network, store, machine.clone()).await?;
    let nodes: BTreeMap<u64, _> = (0..).zip(addresses.iter().map(BasicNode::new)).collect();
    if id == 0 && !raft.is_initialized().await? {
        raft.initialize(nodes).await?;
    }
    let address = addresses.get(id).ok_or("there is no address of this number")?;
    Ok(kv::serve(address, move |request| answer(raft.clone(), machine.clone(), request)).await?)
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    kv::main(run)
}
