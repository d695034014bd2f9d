//! A node of a replicated key-value store on raft-rs: what it acknowledges outlives kill -9 and power cuts.
//!
//! `kv ID DIR ADDRESS...`: its number, its folder, and the addresses of all nodes in the order of their numbers. It answers
//! `{"Set": ["key", "value"]}` when that is committed, `{"Get": "key"}` with what is committed, and nobody but a leader does.
#[path = "../../openraft/examples/kv/mod.rs"]
mod kv;

use protobuf::Message as _;
use raft::eraftpb::{ConfState, Message, MessageType, Snapshot, SnapshotMetadata};
use raft::{Config, RawNode, SnapshotStatus, StateRole, Storage, StorageError};
use seawall_raft_rs::{Groups, Options, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::mpsc::{Sender, channel};
use std::{collections::HashMap, error::Error, path::Path, time::Duration};
use tokio::sync::{mpsc, oneshot};

pub(crate) type State = kv::State<(u64, u64), Vec<u64>>; // Applied are an index and its term.
pub(crate) type Machine = kv::Machine<(u64, u64), Vec<u64>>;
type Event = Box<dyn FnOnce(&mut Node) + Send>; // What the thread of the node does.
/// Dropping it tells the caller to ask another node.
type Reply = oneshot::Sender<Value>;

#[derive(Serialize, Deserialize)]
enum Request {
    Raft(Vec<u8>),
    Set(String, String),
    Get(String),
    Dump,
}

pub(crate) fn metadata(state: &State) -> SnapshotMetadata {
    let (index, term) = state.applied.unwrap_or_default();
    let mut metadata = SnapshotMetadata { index, term, ..SnapshotMetadata::default() };
    metadata.set_conf_state(ConfState::from((state.members.clone(), vec![])));
    metadata
}

/// The last durable snapshot, which a node that lags gets.
fn snapshot(machine: &Machine) -> raft::Result<Snapshot> {
    let both = machine.both();
    let state = both.1.as_ref().ok_or(StorageError::SnapshotTemporarilyUnavailable)?;
    let mut snapshot = Snapshot::default();
    snapshot.set_metadata(metadata(state));
    snapshot.data = serde_json::to_vec(state).map_err(|error| StorageError::Other(error.into()))?.into();
    Ok(snapshot)
}

/// Sends messages to another node. Raft has to know which were lost, and whether snapshots arrived.
async fn send(mut peer: kv::Peer, mut messages: mpsc::Receiver<Message>, events: Sender<Event>) {
    while let Some(message) = messages.recv().await {
        let Ok(bytes) = message.write_to_bytes() else { continue };
        let lost = peer.ask::<Value>(&Request::Raft(bytes)).await.is_err();
        let (to, is_snapshot) = (message.to, message.get_msg_type() == MessageType::MsgSnapshot);
        let status = if lost { SnapshotStatus::Failure } else { SnapshotStatus::Finish };
        if lost {
            drop(events.send(Box::new(move |node| node.raft.report_unreachable(to))));
        }
        if is_snapshot {
            drop(events.send(Box::new(move |node| node.raft.report_snapshot(to, status))));
        }
    }
}

struct Node {
    raft: RawNode<Store>,
    store: Store,
    machine: Machine,
    peers: HashMap<u64, mpsc::Sender<Message>>,
    /// By term and index of their entries.
    sets: HashMap<(u64, u64), Reply>,
    /// By a number that each of them gets.
    reads: HashMap<Vec<u8>, (String, Reply)>,
    reads_count: u64,
}

impl Node {
    fn handle(&mut self, request: Request, reply: Reply) {
        let leads = self.raft.raft.state == StateRole::Leader && self.raft.raft.commit_to_current_term();
        match request {
            Request::Raft(bytes) => {
                // What Raft refuses is old.
                let stepped =
                    Message::parse_from_bytes(&bytes).map(|message| self.raft.step(message).is_ok());
                drop(reply.send(json!(stepped.is_ok())));
            }
            Request::Set(key, value) if leads => {
                if self.raft.propose(vec![], json!((key, value)).to_string().into()).is_ok() {
                    self.sets.insert((self.raft.raft.term, self.raft.raft.raft_log.last_index()), reply);
                }
            }
            Request::Get(key) if leads => {
                self.reads_count += 1;
                let number = self.reads_count.to_le_bytes().to_vec();
                self.raft.read_index(number.clone());
                self.reads.insert(number, (key, reply));
            }
            Request::Set(..) | Request::Get(_) => {}
            Request::Dump => drop(reply.send(json!(self.machine.both().0.map))),
        }
    }

    fn send(&self, messages: Vec<Message>) {
        for message in messages {
            drop(self.peers[&message.to].try_send(message)); // Raft sends again what is lost.
        }
    }

    /// Does all that Raft is ready with. After an error nothing counts any more: the node has to be started again.
    fn advance(&mut self) -> Result<(), Box<dyn Error>> {
        let mut may_read = Vec::new();
        while self.raft.has_ready() {
            let mut ready = self.raft.ready();
            self.send(ready.take_messages());
            if !ready.snapshot().is_empty() {
                self.machine.install(&ready.snapshot().data)?;
            }
            self.store.log().commit(self.store.append(&ready)?)?;
            // Now it is durable, and others may know.
            self.send(ready.take_persisted_messages());
            may_read.append(&mut ready.take_read_states());
            let mut committed = ready.take_committed_entries();
            let mut light = self.raft.advance(ready);
            light.commit_index().into_iter().for_each(|commit| self.store.set_commit(commit));
            self.send(light.take_messages());
            committed.append(&mut light.take_committed_entries());
            let state = &mut self.machine.both().0;
            for entry in committed {
                state.set(&String::from_utf8_lossy(&entry.data));
                state.applied = Some((entry.index, entry.term));
                let reply = self.sets.remove(&(entry.term, entry.index));
                reply.map(|reply| reply.send(json!(format!("{}-{}", entry.term, entry.index))));
            }
            self.raft.advance_apply();
        }
        // All is applied that was committed when they were asked for.
        for (key, reply) in may_read.iter().filter_map(|read| self.reads.remove(&read.request_ctx)) {
            drop(reply.send(json!(self.machine.both().0.map.get(&key))));
        }
        if self.raft.raft.state != StateRole::Leader {
            self.sets.clear();
            self.reads.clear();
        }
        let applied = self.raft.raft.raft_log.applied();
        if applied >= self.store.first_index()? + 500 {
            let state = self.machine.both().0.clone();
            self.machine.keep(&state)?;
            self.store.compact(applied + 1)?;
        }
        Ok(())
    }
}

async fn run(id: usize, dir: &Path, addresses: &[String]) -> Result<(), Box<dyn Error>> {
    let groups = Groups::open(dir.join("log"), Options::default().segment_bytes(4 << 20))?;
    let machine = Machine::open(&dir.join("snapshot"))?;
    if machine.both().1.is_none() {
        let state = &mut machine.both().0;
        (state.applied, state.members) = (Some((1, 1)), (1..=addresses.len() as u64).collect());
    }
    let (applied, theirs) = (metadata(&machine.both().0), machine.clone());
    let store = groups.store(0, &applied, move |_, _| snapshot(&theirs))?;
    let config = Config { id: id as u64 + 1, applied: applied.index, pre_vote: true, ..Config::default() };
    let config = Config { check_quorum: true, max_size_per_msg: 1 << 20, ..config };
    let raft = RawNode::new(&config, store.clone(), &slog::Logger::root(slog::Discard, slog::o!()))?;
    let (events, inbox) = channel::<Event>();
    let mut peers = HashMap::new();
    for (id, address) in (1..).zip(addresses) {
        let (sender, messages) = mpsc::channel(1000);
        tokio::spawn(send(kv::Peer(address.clone(), None), messages, events.clone()));
        peers.insert(id, sender);
    }
    let (sets, reads) = (HashMap::new(), HashMap::new());
    let mut node = Node { raft, store, machine, peers, sets, reads, reads_count: 0 };
    std::thread::spawn(move || {
        while let Ok(event) = inbox.recv() {
            [event].into_iter().chain(inbox.try_iter()).for_each(|event| event(&mut node));
            if let Err(error) = node.advance() {
                eprintln!("{error}");
                std::process::exit(1);
            }
        }
    });
    let ticks = events.clone();
    std::thread::spawn(move || {
        while ticks.send(Box::new(|node| _ = node.raft.tick())).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let answer = move |request| {
        let (reply, answer) = oneshot::channel();
        drop(events.send(Box::new(move |node| node.handle(request, reply))));
        async { serde_json::to_vec(&answer.await.map_err(|_| "this node is not the leader")) }
    };
    Ok(kv::serve(addresses.get(id).ok_or("there is no address of this number")?, answer).await?)
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    kv::main(run)
}
