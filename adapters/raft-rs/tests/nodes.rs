//! Tests that what a cluster of raft-rs acknowledges outlives the death of any of its three processes.
//!
//! The processes are the example `kv`; the harness of `seawall-openraft` kills them and judges. An hour:
//! `cargo test -p seawall-raft-rs --test nodes -- --minutes 60`

#[path = "../../openraft/tests/cluster/mod.rs"]
#[allow(dead_code, reason = "no mistake is planted here")]
mod cluster;
#[path = "../examples/kv.rs"]
mod node;

use std::path::Path;
use std::process::ExitCode;

use cluster::{Entries, Outcome, Program, outlives};
use raft::eraftpb::SnapshotMetadata;
use raft::{GetEntriesContext, Storage, StorageError};
use seawall_raft_rs::{Groups, Options};

static KV: Program = Program { name: "raft-rs", main: node::main, entries };

fn entries(log: &Path) -> Outcome<Entries> {
    let state = node::Machine::open(&log.with_file_name("snapshot"))
        .map_err(|error| error.to_string())?
        .both()
        .0
        .clone();
    let applied = state.applied.map_or_else(SnapshotMetadata::default, |_| node::metadata(&state));
    let groups = Groups::open(log, Options::default()).map_err(|error| error.to_string())?;
    let none = |_, _| Err(StorageError::SnapshotTemporarilyUnavailable.into());
    let store = groups.store(0, &applied, none).map_err(|error| error.to_string())?;
    let (first, last) = (store.first_index(), store.last_index());
    let all = first.and_then(|first| store.entries(first, last? + 1, None, GetEntriesContext::empty(false)));
    let all = all.map_err(|error| error.to_string())?;
    Ok(all.iter().map(|entry| ((entry.term, entry.index), format!("{:?}", entry.data))).collect())
}

fn main() -> ExitCode {
    let test = |time| outlives(&KV, time);
    cluster::main(&[&KV], &[("what_raft_rs_acknowledges_outlives_its_processes", test)])
}
