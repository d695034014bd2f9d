//! Seawall as the `Storage` of [raft-rs](https://docs.rs/raft) 0.7: it keeps entries, hard state and where the log was compacted. State
//! machine, membership and snapshots are the host's.
//!
//! A Raft group is two streams of a [`seawall::Log`], one of entries and one of state. Any number of groups share one log ([`Groups`]):
//! one writer, one set of segments, and one flush for what they append while a write is in flight.
//!
//! ```no_run
//! use raft::eraftpb::{ConfState, Snapshot, SnapshotMetadata};
//! use raft::{Config, RawNode, StorageError};
//! use seawall_raft_rs::{Groups, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let logger = slog::Logger::root(slog::Discard, slog::o!());
//! let groups = Groups::open("raft", Options::default())?;
//! // What the host has applied: that of its last durable snapshot or, as here, the members that a new group starts with.
//! let mut applied = SnapshotMetadata { index: 1, term: 1, ..Default::default() };
//! applied.set_conf_state(ConfState::from((vec![1, 2, 3], vec![])));
//! let store = groups.store(0, &applied, |_, _| Err(StorageError::SnapshotTemporarilyUnavailable.into()))?;
//! let config = Config { id: 1, applied: applied.index, ..Config::default() };
//! let mut node = RawNode::new(&config, store.clone(), &logger)?;
//!
//! let mut ready = node.ready();
//! // send(ready.take_messages()); make a snapshot in it durable
//! let end = store.append(&ready)?; // one transaction
//! groups.log().commit(end)?; // or: of the last of many groups; or: commit_async(end).await
//! // send(ready.take_persisted_messages()); apply(ready.take_committed_entries())
//! let mut light = node.advance(ready);
//! light.commit_index().into_iter().for_each(|commit| store.set_commit(commit));
//! // send(light.take_messages()); apply(light.take_committed_entries()); node.advance_apply()
//! # Ok(())
//! # }
//! ```
//!
//! # What is durable when
//!
//! [`Store::append`] puts all of a `Ready` into the log as one transaction: a snapshot's index and term, a conflicting suffix cut off,
//! hard state and entries. It returns an LSN, and raft-rs sees the entries at once, which `advance_append_async` asks for. **Only when
//! the LSN is committed** may the host send `persisted_messages` and call `advance` or `on_persist_ready`. [`Store::compact`] is durable
//! with the next commit. A `Ready` in which only the commit index changes writes nothing: the index goes with the next one that does, and
//! Raft learns it again otherwise.
//!
//! After a failed write or sync every call fails; reopen the log to learn what is durable. A crash leaves a prefix of what all groups
//! appended, in that order; of a `Ready` all or nothing, as long as its entries take less than 1 MiB, and else a prefix.
//!
//! # What the host keeps
//!
//! The membership (`ConfState`) belongs to the applied state, because changes after it are applied again after a restart: it is in
//! the metadata of the host's snapshot, which [`Groups::store`] takes. The host makes a snapshot durable before it appends the `Ready`
//! that contains it and before it compacts. A crash between the two leaves a snapshot that is ahead of the log, and `store` brings the
//! log there; a host whose snapshot is behind the log is refused.
//!
//! A log that was salvaged, or restored from a backup, lacks entries that its node acknowledged to others: remove such a node from its
//! groups, and add it again with an empty log under another ID.
//!
//! # Memory and blocking
//!
//! Of each group the newest entries are kept in memory, up to [`KEEP_BYTES`] of all groups together, and always those that are not durable
//! yet; older ones are read back from the log, by the thread that asks. `append` waits for the disk only when the memory of the log is full.
//!
//! | module | what it does |
//! | --- | --- |
//! | `groups` | opens and removes the groups of a log |
//! | `store` | keeps the Raft log of a group in two streams |
//! | `storage` | implements `raft::Storage` |
//! | `record` | encodes entries and state as records |
//! | `error` | defines the errors |
#![forbid(unsafe_code)]

mod error;
mod groups;
mod record;
mod storage;
mod store;

pub use error::{Error, Result};
pub use groups::{Groups, KEEP_BYTES};
pub use seawall::{Log, Lsn, Options};
pub use store::Store;
