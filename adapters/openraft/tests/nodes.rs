//! Tests that what clusters of Openraft acknowledge outlives the death of any of their three processes.
//!
//! The processes are the examples `kv09` and `kv010`; `cluster/mod.rs` kills them and judges.
//! `cargo test -p seawall-openraft --features openraft-010,mutants --test nodes -- --minutes 60` runs an hour of each version.

#![allow(clippy::duplicate_mod, reason = "each example has the parts of a node")]

mod cluster;
#[path = "../examples/kv010.rs"]
mod kv010;
#[path = "../examples/kv09.rs"]
mod kv09;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Entries, Outcome, Program, Test, outlives, try_cluster};
use openraft09::RaftLogReader as _;
use seawall::{Log, Options};
use seawall_openraft::{Groups, v09};
use seawall_sys::planted::{Mutant, set_everywhere};

static KV09: Program = Program { name: "Openraft 0.9", main: kv09::main, entries };
static KV010: Program = Program { name: "Openraft 0.10", main: kv010::main, entries };

/// What 0.10 writes 0.9 reads.
fn entries(log: &Path) -> Outcome<Entries> {
    let log = Log::open(log, Options::default()).map_err(|error| error.to_string())?;
    let groups = Groups::new(Arc::new(log), 0);
    let store: v09::LogStore<kv09::Types> = groups.store(0).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let entries =
        runtime.block_on(store.reader().try_get_log_entries(..)).map_err(|error| error.to_string())?;
    let shown = |entry: openraft09::Entry<kv09::Types>| {
        ((entry.log_id.leader_id.term, entry.log_id.index), format!("{:?}", entry.payload))
    };
    Ok(entries.into_iter().map(shown).collect())
}

/// A leader that was killed and leads on in its term gives log ids to other entries than before: the logs show it, as long as the
/// entries are not purged.
fn planted_fault(_: Duration) {
    let tries = (0..20).filter_map(|_| try_cluster(&KV010, true, Duration::from_secs(5)).err());
    let found = tries.take(1).collect::<String>();
    assert!(found.contains("log id") || found.contains("known"), "not found: {found}");
    println!("found: {}", found.chars().take(1000).collect::<String>());
}

const TESTS: [Test; 3] = [
    ("what_openraft_0_9_acknowledges_outlives_its_processes", |time| outlives(&KV09, time)),
    ("what_openraft_0_10_acknowledges_outlives_its_processes", |time| outlives(&KV010, time)),
    ("a_leader_that_goes_on_in_its_term_is_found", planted_fault),
];

fn main() -> ExitCode {
    if std::env::var_os(cluster::PLANTED).is_some() {
        set_everywhere(Mutant::RaftTermGoesOn);
    }
    cluster::main(&[&KV09, &KV010], &TESTS)
}
