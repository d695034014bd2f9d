//! Commits numbered entries to three Raft groups that share a log and its flushes, and prints each number when all groups have it, or
//! checks that what was printed is there.
//!
//! ```text
//! groups DIR write N     the next N numbers: for kill -9, and for `seawall crash-test DIR --run`
//! groups DIR check FILE  exit code 1 if a group lacks a number in FILE, or one below another
//! ```
//!
//! Each group is alone on its node. What it has applied is a count, and its snapshots are files in DIR.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use raft::eraftpb::{ConfState, Entry, SnapshotMetadata};
use raft::{Config, GetEntriesContext, RawNode, Storage, StorageError};
use seawall::Durability;
use seawall_raft_rs::{Groups, Options, Store};

type Failure = Box<dyn std::error::Error>;

const GROUPS: u32 = 3;
/// So many entries are applied before they are in a snapshot.
const SNAPSHOT_ENTRIES: u64 = 30;

struct Group {
    raft: RawNode<Store>,
    store: Store,
    snapshot: PathBuf,
    /// How many numbers were applied, from 0 on.
    count: u64,
}

impl Group {
    /// The group as its last snapshot and its log have it.
    fn open(groups: &Groups, dir: &Path, id: u32) -> Result<Self, Failure> {
        let snapshot = dir.join(format!("snapshot-{id}"));
        let text = if snapshot.exists() { fs::read_to_string(&snapshot)? } else { "0 1 1".to_owned() };
        let mut words = text.split(' ').map(str::parse);
        let mut number = || words.next().ok_or("a snapshot is three numbers")?.map_err(Failure::from);
        let (count, index, term) = (number()?, number()?, number()?);
        let mut applied = SnapshotMetadata { index, term, ..SnapshotMetadata::default() };
        applied.set_conf_state(ConfState::from((vec![1], vec![])));
        let none = |_, _| Err(StorageError::SnapshotTemporarilyUnavailable.into());
        let store = groups.store(id, &applied, none)?;
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raft =
            RawNode::new(&Config { id: 1, applied: index, ..Config::default() }, store.clone(), &logger)?;
        Ok(Self { raft, store, snapshot, count })
    }

    fn apply(&mut self, entries: &[Entry]) -> Result<(), Failure> {
        // A new leader's first entry is empty.
        for entry in entries.iter().filter(|entry| !entry.data.is_empty()) {
            if *entry.data != *self.count.to_string().into_bytes() {
                return Err(format!("instead of number {} there is {:?}", self.count, entry.data).into());
            }
            self.count += 1;
        }
        Ok(())
    }

    /// Makes what was applied a snapshot, durable before the log loses it.
    fn compact(&self) -> Result<(), Failure> {
        let applied = self.raft.raft.raft_log.applied();
        if applied >= self.store.first_index()? + SNAPSHOT_ENTRIES {
            let (new, term) = (self.snapshot.with_extension("new"), self.store.term(applied)?);
            fs::write(&new, format!("{} {applied} {term}", self.count))?;
            File::open(&new)?.sync_all()?;
            fs::rename(&new, &self.snapshot)?;
            File::open(self.snapshot.parent().unwrap_or(Path::new(".")))?.sync_all()?;
            self.store.compact(applied + 1)?;
        }
        Ok(())
    }
}

/// Does what all groups are ready with, by one flush for all of them as often as one of them is.
fn advance(groups: &Groups, members: &mut [Group]) -> Result<(), Failure> {
    while members.iter().any(|group| group.raft.has_ready()) {
        let (mut readies, mut end) = (Vec::new(), groups.log().durable_lsn());
        for group in members.iter_mut().filter(|group| group.raft.has_ready()) {
            let ready = group.raft.ready();
            end = end.max(group.store.append(&ready)?);
            readies.push((group, ready));
        }
        groups.log().commit(end)?;
        for (group, mut ready) in readies {
            let mut committed = ready.take_committed_entries();
            let mut light = group.raft.advance(ready);
            light.commit_index().into_iter().for_each(|commit| group.store.set_commit(commit));
            committed.append(&mut light.take_committed_entries());
            group.apply(&committed)?;
            group.raft.advance_apply();
            group.compact()?;
        }
    }
    Ok(())
}

fn write(groups: &Groups, members: &mut [Group], numbers: u64) -> Result<(), Failure> {
    for group in members.iter_mut() {
        group.raft.campaign()?;
    }
    advance(groups, members)?;
    // A crash may have come between the groups.
    let start = members.iter().map(|group| group.count).min().unwrap_or(0);
    for number in start..start + numbers {
        for group in members.iter_mut().filter(|group| group.count <= number) {
            group.raft.propose(vec![], number.to_string().into())?;
        }
        advance(groups, members)?;
        println!("{number}");
    }
    Ok(())
}

fn check(members: &mut [Group], printed: &Path) -> Result<(), Failure> {
    let printed = fs::read_to_string(printed)?;
    let acknowledged = printed.lines().filter_map(|line| line.parse::<u64>().ok()).max();
    for group in members {
        let (first, last) = (group.raft.raft.raft_log.applied() + 1, group.store.last_index()?);
        let entries = group.store.entries(first, last + 1, None, GetEntriesContext::empty(false))?;
        group.apply(&entries)?;
        if acknowledged.is_some_and(|number| number >= group.count) {
            return Err(
                format!("{acknowledged:?} was acknowledged, and {} numbers are there", group.count).into()
            );
        }
    }
    Ok(())
}

pub(crate) fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, what, with] = &arguments[..] else {
        return Err("groups DIR write N | groups DIR check FILE".into());
    };
    let dir = Path::new(dir);
    // What is only checked may lie in memory, as a state of `seawall crash-test` does.
    let class = if what == "check" { Durability::ProcessCrash } else { Durability::PowerLoss };
    let groups = Groups::open(dir.join("log"), Options::default().segment_bytes(1 << 20).durability(class))?;
    let members: Result<Vec<_>, _> = (0..GROUPS).map(|id| Group::open(&groups, dir, id)).collect();
    match what.as_str() {
        "write" => write(&groups, &mut members?, with.parse()?),
        "check" => check(&mut members?, Path::new(with)),
        other => Err(format!("{other}: write or check").into()),
    }
}
