//! A node of a replicated key-value store on Openraft 0.10: what it acknowledges outlives kill -9 and power cuts.
//!
//! `kv010 ID DIR ADDRESS...`: its number, its folder, and the addresses of all nodes in the order of their numbers. It answers
//! `{"Set": ["key", "value"]}` when that is committed, `{"Get": "key"}` with what is committed, and nobody but a leader does.
#[path = "kv/mod.rs"]
mod kv;

use futures_util::{Stream, StreamExt};
use kv::Peer;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse};
use openraft::raft::{VoteRequest, VoteResponse};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::type_config::alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf, VoteOf};
use openraft::{BasicNode, Config, EntryPayload, OptionalSend, Raft, ReadPolicy};
use openraft::{SnapshotMeta, SnapshotPolicy, StoredMembership};
use openraft010 as openraft;
use seawall_openraft::{Groups, Options, v010};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, error::Error, io, path::Path, sync::Arc};

openraft::declare_raft_types!(pub(crate) Types: D = String, R = String, Node = BasicNode);
pub(crate) type Machine = kv::Machine<LogIdOf<Types>, StoredMembershipOf<Types>>;
type Snapshot = SnapshotOf<Types, Vec<u8>>;

fn snapshot(state: &kv::State<LogIdOf<Types>, StoredMembershipOf<Types>>) -> io::Result<Snapshot> {
    let meta = SnapshotMeta { last_log_id: state.applied, last_membership: state.members.clone() };
    Ok(Snapshot { meta, snapshot: serde_json::to_vec(state)? })
}

impl RaftSnapshotBuilder<Types> for Machine {
    type SnapshotData = Vec<u8>;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let state = self.both().0.clone();
        self.keep(&state)?;
        snapshot(&state)
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Vec<u8>;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogIdOf<Types>>, StoredMembershipOf<Types>)> {
        let state = &self.both().0;
        Ok((state.applied, state.members.clone()))
    }

    async fn apply<E>(&mut self, mut entries: E) -> io::Result<()>
    where
        E: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.next().await.transpose()? {
            let state = &mut self.both().0;
            state.applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(set) => drop(state.set(&set)),
                EntryPayload::Membership(m) => state.members = StoredMembership::new(state.applied, m),
            }
            if let Some(responder) = responder {
                responder.send(entry.log_id.to_string());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, _: &SnapshotMetaOf<Types>, bytes: Vec<u8>) -> io::Result<()> {
        self.install(&bytes)
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        self.both().1.as_ref().map(snapshot).transpose()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
enum Request {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<Types>),
    Snapshot(VoteOf<Types>, SnapshotMetaOf<Types>, Vec<u8>),
    Set(String, String),
    Get(String),
    Dump,
}

struct Network;

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, _: u64, node: &BasicNode) -> Peer {
        Peer(node.addr.clone(), None)
    }
}

async fn ask<R: DeserializeOwned>(peer: &mut Peer, request: Request) -> Result<R, Unreachable<Types>> {
    let answer: io::Result<Result<R, String>> = peer.ask(&request).await;
    answer.and_then(|answer| answer.map_err(io::Error::other)).map_err(|error| Unreachable::new(&error))
}

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = Vec<u8>;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        Ok(ask(self, Request::Append(request)).await?)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        _: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Ok(ask(self, Request::Vote(request)).await?)
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<Types>,
        snapshot: Snapshot,
        _: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let vote = ask(self, Request::Snapshot(vote, snapshot.meta, snapshot.snapshot)).await?;
        Ok(SnapshotResponse { vote })
    }
}

fn line<T: Serialize, E: ToString>(answer: Result<T, E>) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&answer.map_err(|error| error.to_string()))
}

async fn answer(
    raft: Raft<Types, Machine>,
    machine: Machine,
    request: Request,
) -> serde_json::Result<Vec<u8>> {
    match request {
        Request::Append(request) => line(raft.append_entries(request).await),
        Request::Vote(request) => line(raft.vote(request).await),
        Request::Snapshot(vote, meta, snapshot) => {
            let installed = raft.install_full_snapshot(vote, openraft::Snapshot { meta, snapshot }).await;
            line(installed.map(|response| response.vote))
        }
        Request::Set(key, value) => {
            let set = serde_json::to_string(&(key, value))?;
            line(raft.client_write(set).await.map(|set| set.data))
        }
        Request::Get(key) => {
            let may_read = raft.ensure_linearizable(ReadPolicy::ReadIndex).await;
            line(may_read.map(|_| machine.both().0.map.get(&key).cloned()))
        }
        Request::Dump => line::<_, String>(Ok(&machine.both().0.map)),
    }
}

async fn run(id: usize, dir: &Path, addresses: &[String]) -> Result<(), Box<dyn Error>> {
    let groups = Groups::open(dir.join("log"), Options::default().segment_bytes(4 << 20))?;
    let machine = Machine::open(&dir.join("snapshot"))?;
    let config = Config { snapshot_policy: SnapshotPolicy::LogsSinceLast(500), ..Config::default() };
    let store: v010::LogStore<Types> = groups.store(0)?;
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
