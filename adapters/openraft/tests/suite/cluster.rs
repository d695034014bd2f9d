//! Runs clusters of three nodes with Openraft itself: each node has the logs of all its groups in one log.
//!
//! One node is cut off while the others go on and purge what it lacks; then it comes back.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft09::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft09::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft09::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft09::storage::RaftLogStorage;
use openraft09::{BasicNode, Config, LogId, Raft, RaftLogReader, SnapshotPolicy};
use seawall_openraft::Groups;
use seawall_openraft::v09::LogStore;

use crate::kv09::{Machine, Types};
use crate::scratch::{self, run, scratch};

const NODES: u64 = 3;
const GROUPS: u32 = 5;
/// A node that comes back may take itself for the leader; Openraft 0.9 never answers a write to it whose entry is cut off.
const WRITE_LIMIT: Duration = Duration::from_secs(3);
/// Nobody is cut off.
const NOBODY: u64 = u64::MAX;

type Outcome<T, E = RaftError<u64>> = Result<T, RPCError<u64, BasicNode, E>>;

/// All nodes of all groups, and the one that is cut off.
struct World {
    rafts: Mutex<HashMap<(u32, u64), Raft<Types>>>,
    cut_off: AtomicU64,
}

impl World {
    fn raft(&self, group: u32, node: u64) -> Option<Raft<Types>> {
        self.rafts.lock().unwrap_or_else(PoisonError::into_inner).get(&(group, node)).cloned()
    }
}

#[derive(Clone)]
struct Network {
    world: Arc<World>,
    group: u32,
    from: u64,
    to: u64,
}

impl Network {
    #[expect(clippy::result_large_err, reason = "the error is Openraft's")]
    fn peer<E: std::error::Error>(&self) -> Outcome<Raft<Types>, E> {
        let cut_off = self.world.cut_off.load(Ordering::Acquire);
        let peer = self.world.raft(self.group, self.to).filter(|_| ![self.from, self.to].contains(&cut_off));
        peer.ok_or_else(|| {
            RPCError::Unreachable(Unreachable::new(&std::io::Error::from(std::io::ErrorKind::NotConnected)))
        })
    }

    fn remote<E: std::error::Error>(&self) -> impl Fn(E) -> RPCError<u64, BasicNode, E> + use<E> {
        let to = self.to;
        move |error| RPCError::RemoteError(RemoteError::new(to, error))
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Self;

    async fn new_client(&mut self, to: u64, _: &BasicNode) -> Self {
        Self { to, ..self.clone() }
    }
}

impl RaftNetwork<Types> for Network {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Outcome<AppendEntriesResponse<u64>> {
        self.peer()?.append_entries(request).await.map_err(self.remote())
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Types>,
        _: RPCOption,
    ) -> Outcome<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>> {
        self.peer()?.install_snapshot(request).await.map_err(self.remote())
    }

    async fn vote(&mut self, request: VoteRequest<u64>, _: RPCOption) -> Outcome<VoteResponse<u64>> {
        self.peer()?.vote(request).await.map_err(self.remote())
    }
}

fn open(dir: &Path, node: u64) -> Groups {
    scratch::open(&dir.join(node.to_string()), 1 << 10)
}

async fn start(world: &Arc<World>, dir: &Path, groups: &[Groups]) {
    let config = Config {
        heartbeat_interval: 100,
        election_timeout_min: 500,
        election_timeout_max: 1500,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(40),
        max_in_snapshot_log_to_keep: 10,
        purge_batch_size: 1,
        ..Config::default()
    };
    let config = Arc::new(config.validate().expect("is valid"));
    for group in 0..GROUPS {
        for (node, groups) in (0..).zip(groups) {
            let network = Network { world: Arc::clone(world), group, from: node, to: node };
            let store: LogStore<Types> = groups.store(group).expect("opens");
            let machine = Machine::open(&dir.join(format!("snapshot-{node}-{group}"))).expect("is empty");
            let raft = Raft::new(node, Arc::clone(&config), network, store, machine).await;
            let mut rafts = world.rafts.lock().unwrap_or_else(PoisonError::into_inner);
            rafts.insert((group, node), raft.expect("starts"));
        }
    }
}

/// Writes to a group, whoever leads it; returns the index of the entry.
async fn write(world: &World, group: u32, what: String) -> u64 {
    for _ in 0..1500 {
        let cut_off = world.cut_off.load(Ordering::Acquire);
        for node in (0..NODES).filter(|node| *node != cut_off) {
            let raft = world.raft(group, node).expect("runs");
            if raft.metrics().borrow().current_leader == Some(node)
                && let Ok(Ok(written)) =
                    tokio::time::timeout(WRITE_LIMIT, raft.client_write(what.clone())).await
            {
                return written.log_id.index;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let metrics = |node| world.raft(group, node).map(|raft| raft.metrics().borrow().clone());
    panic!("group {group} takes no entry: {:#?}", (0..NODES).map(metrics).collect::<Vec<_>>());
}

async fn write_all(world: &Arc<World>, count: u64) -> Vec<u64> {
    let writer = |group| {
        let world = Arc::clone(world);
        tokio::spawn(async move {
            let mut last = 0;
            for i in 0..count {
                last = write(&world, group, format!("{group}/{i}").repeat(20)).await;
            }
            last
        })
    };
    let writers: Vec<_> = (0..GROUPS).map(writer).collect();
    let mut last = Vec::new();
    for writer in writers {
        last.push(writer.await.expect("ends"));
    }
    last
}

/// Waits until every node but the one cut off has applied the last entry of each group.
async fn applied_everywhere(world: &World, last: &[u64]) {
    let cut_off = world.cut_off.load(Ordering::Acquire);
    for (group, last) in (0..).zip(last) {
        for node in (0..NODES).filter(|node| *node != cut_off) {
            let raft = world.raft(group, node).expect("runs");
            let wait = raft.wait(Some(Duration::from_mins(1)));
            wait.applied_index_at_least(Some(*last), "catches up").await.expect("catches up");
        }
    }
}

#[test]
fn a_node_that_was_cut_off_catches_up_beside_purges() {
    let dir = scratch();
    let world = Arc::new(World { rafts: Mutex::default(), cut_off: AtomicU64::new(NOBODY) });
    let groups: Vec<_> = (0..NODES).map(|node| open(dir.path(), node)).collect();
    run(async {
        start(&world, dir.path(), &groups).await;
        let members: BTreeMap<_, _> = (0..NODES).map(|node| (node, BasicNode::default())).collect();
        for group in 0..GROUPS {
            let first = world.raft(group, u64::from(group) % NODES).expect("runs");
            first.initialize(members.clone()).await.expect("begins");
        }
        let last = write_all(&world, 30).await;
        applied_everywhere(&world, &last).await;
        // What it lacks is in the logs of the others first, and then in their snapshots only.
        for (count, lagging) in [(8, 2), (90, 1), (8, 0)] {
            world.cut_off.store(lagging, Ordering::Release);
            let last = write_all(&world, count).await;
            applied_everywhere(&world, &last).await;
            world.cut_off.store(NOBODY, Ordering::Release);
            // It catches up while the others go on.
            let last = write_all(&world, 30).await;
            applied_everywhere(&world, &last).await;
        }
        let rafts = std::mem::take(&mut *world.rafts.lock().unwrap_or_else(PoisonError::into_inner));
        for raft in rafts.into_values() {
            raft.shutdown().await.expect("stops");
        }
    });
    drop(groups);
    compare(dir.path());
}

/// The logs of the nodes, opened again: where two have an entry it is the same one, and each purged something.
fn compare(dir: &Path) {
    let groups: Vec<_> = (0..NODES).map(|node| open(dir, node)).collect();
    for group in 0..GROUPS {
        let mut all = BTreeMap::new();
        for groups in &groups {
            let mut store: LogStore<Types> = groups.store(group).expect("opens");
            run(async {
                let state = store.get_log_state().await.expect("reads");
                let purged = state.last_purged_log_id.as_ref().map_or(0, |purged: &LogId<u64>| purged.index);
                assert!(purged > 100, "only {purged} entries were purged");
                for (index, entry) in (purged + 1..).zip(store.try_get_log_entries(..).await.expect("reads"))
                {
                    assert_eq!(entry.log_id.index, index);
                    let same = all.entry(index).or_insert_with(|| entry.clone());
                    assert_eq!(*same, entry, "group {group}");
                }
            });
        }
        assert!(!all.is_empty(), "group {group}");
    }
    assert!(groups.into_iter().all(|groups| groups.close().is_ok()));
}
