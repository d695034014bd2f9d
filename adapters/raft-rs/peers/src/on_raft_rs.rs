//! raft-rs over the log, and over raft-engine, which `write` with `sync` makes durable.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, mpsc};

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot, SnapshotMetadata};
use raft::{Config, GetEntriesContext, RaftState, RawNode, Ready, Storage, StorageError};
use raft_engine::{Engine, LogBatch, MessageExt, ReadableSize};
use seawall_raft_rs::{Groups, Options};
use tokio::sync::oneshot;

use crate::{Failure, Propose};

/// Runs a node over a store; `keep` makes durable what it is ready with.
fn run<S: Storage + Send + 'static>(
    store: S,
    applied: u64,
    mut keep: impl FnMut(&Ready) -> Result<(), Failure> + Send + 'static,
) -> Result<Propose, Failure> {
    let logger = slog::Logger::root(slog::Discard, slog::o!());
    let mut node = RawNode::new(&Config { id: 1, applied, ..Config::default() }, store, &logger)?;
    node.campaign()?;
    let (proposals, inbox) = mpsc::channel::<oneshot::Sender<()>>();
    std::thread::spawn(move || -> Result<(), Failure> {
        let mut waiting = VecDeque::new();
        loop {
            while node.has_ready() {
                let mut ready = node.ready();
                keep(&ready)?;
                let mut committed = ready.take_committed_entries();
                committed.append(&mut node.advance(ready).take_committed_entries());
                node.advance_apply();
                for _ in committed.iter().filter(|entry| !entry.data.is_empty()) {
                    waiting.pop_front().map(|reply: oneshot::Sender<()>| reply.send(()));
                }
            }
            for reply in [inbox.recv()?].into_iter().chain(inbox.try_iter()) {
                node.propose(vec![], vec![7; 100])?;
                waiting.push_back(reply);
            }
        }
    });
    Ok(Arc::new(move || {
        let (reply, answer) = oneshot::channel();
        let sent = proposals.send(reply);
        Box::pin(async move {
            sent.expect("the node runs");
            answer.await.expect("the node runs");
        })
    }))
}

fn first() -> SnapshotMetadata {
    let mut first = SnapshotMetadata { index: 1, term: 1, ..SnapshotMetadata::default() };
    first.set_conf_state(ConfState::from((vec![1], vec![])));
    first
}

pub(crate) fn over_the_log(dir: &Path) -> Result<Propose, Failure> {
    let groups = Groups::open(dir, Options::default())?;
    let none = |_, _| Err(StorageError::SnapshotTemporarilyUnavailable.into());
    let store = groups.store(0, &first(), none)?;
    run(store.clone(), 1, move |ready| Ok(groups.log().commit(store.append(ready)?)?))
}

struct Entries;

impl MessageExt for Entries {
    type Entry = Entry;

    fn index(entry: &Entry) -> u64 {
        entry.index
    }
}

/// As a host would write it: what raft-engine has, under the trait of raft-rs.
#[derive(Clone)]
struct OverEngine(Arc<Engine>);

fn failed(error: raft_engine::Error) -> raft::Error {
    StorageError::Other(error.into()).into()
}

impl Storage for OverEngine {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let hard = self.0.get_message(1, b"hard").map_err(failed)?.unwrap_or_default();
        Ok(RaftState::new(hard, first().take_conf_state()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        let (mut entries, size) = (Vec::new(), size.into().and_then(|size| usize::try_from(size).ok()));
        self.0.fetch_entries_to::<Entries>(1, low, high, size, &mut entries).map_err(failed)?;
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        let entry = self.0.get_entry::<Entries>(1, index).map_err(failed)?;
        Ok(entry.map_or(u64::from(index == 1), |entry| entry.term))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.0.first_index(1).unwrap_or(2))
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.0.last_index(1).unwrap_or(1))
    }

    fn snapshot(&self, _: u64, _: u64) -> raft::Result<Snapshot> {
        Err(StorageError::SnapshotTemporarilyUnavailable.into())
    }
}

pub(crate) fn over_raft_engine(dir: &Path) -> Result<Propose, Failure> {
    let dir = dir.to_str().ok_or("raft-engine wants a path in UTF-8")?.to_owned();
    // The records here do not compress.
    let compression = ReadableSize(0);
    let config = raft_engine::Config { dir, batch_compression_threshold: compression, ..Default::default() };
    let engine = Arc::new(Engine::open(config)?);
    let mut batch = LogBatch::default();
    let hard = HardState { term: 1, commit: 1, ..HardState::default() };
    batch.put_message(1, b"hard".into(), &hard)?;
    engine.write(&mut batch, true)?;
    run(OverEngine(Arc::clone(&engine)), 1, move |ready| {
        batch.add_entries::<Entries>(1, ready.entries())?;
        if let Some(hard) = ready.hs() {
            batch.put_message(1, b"hard".into(), hard)?;
        }
        engine.write(&mut batch, ready.must_sync())?;
        Ok(())
    })
}
