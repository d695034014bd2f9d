//! Seawall as the log store of [Openraft](https://docs.rs/openraft), 0.9 and 0.10: it keeps log and vote. The state machine and its
//! snapshots are the user's and must be durable, because Openraft purges the entries that a snapshot covers. The examples `kv09` and
//! `kv010` are whole nodes that outlive kill -9 and power cuts.
//!
//! A Raft group is two streams of a [`seawall::Log`]: one of entries, one of vote, committed and purged log id. Any number
//! of groups share one log ([`Groups`]): one writer, one set of segments, and one flush for the entries that groups append
//! while a write is in flight. What a group changes becomes durable in the order in which Raft made it.
//!
#![cfg_attr(feature = "openraft-09", doc = "```no_run")]
#![cfg_attr(not(feature = "openraft-09"), doc = "```ignore")]
//! # use openraft09 as openraft;
//! use std::io::Cursor;
//!
//! use seawall_openraft::{Groups, Options, v09};
//!
//! openraft::declare_raft_types!(pub Types: D = String, R = String);
//!
//! # fn main() -> Result<(), seawall_openraft::Error> {
//! let groups = Groups::open("raft", Options::default())?;
//! for group in 0..50 {
//!     let store: v09::LogStore<Types> = groups.store(group)?;
//!     // Raft::new(id, config, network, store, state_machine).await
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A node with one group opens it with [`LogStore::open`].
//!
//! # When Raft calls return
//!
//! | call | returns or reports when |
//! | --- | --- |
//! | `append` | it returns when the entries are in memory and readable; its callback runs once they are durable |
//! | `save_vote`, `truncate`, `purge` | the change is durable |
//! | `save_committed` | the change is in memory; durable with the next write, as Openraft allows |
//!
//! After a failed write or sync nothing is reported durable any more and every call fails; reopen the log to learn
//! what is. A crash always leaves a prefix of the changes in the order in which they were made, of all groups together.
//!
//! # What is lost with a leader
//!
//! Openraft 0.10 sends entries to other nodes before they are durable on the leader, and a quorum of the others commits them. A leader
//! that dies then comes back without them. By Openraft's default it would lead on in its term, and give the log ids of those entries to
//! other ones: nodes that hold either take them for the same, and acknowledged writes are gone. Therefore a store that was opened
//! never gives back that a vote was committed: **a node that starts is a follower**, however it ended, and has to be elected, in a
//! new term, by nodes that hold what is committed. `enable_leader_restore` of Openraft 0.10 has no effect. A clean close makes no
//! difference, because it proves nothing about openings before it.
//!
//! A log that was salvaged, or restored from a backup, lacks entries that its node acknowledged to others: remove such a node from its
//! groups, and add it again with an empty log under another ID.
//!
//! # Memory and blocking
//!
//! Of each group its state is kept, and where its entries lie, in a few bytes an entry; the bytes of the newest entries
//! as well, up to [`KEEP_BYTES`] of all groups together and always those that are not durable yet. Older ones are read back
//! from the log. What may wait for the disk, reading included, is done by a thread that lives as long as that call, so
//! that no thread of the runtime waits; opening, removing and closing groups block their caller. A read for replication ends after 1 MiB, so that a follower that lags is sent
//! its entries in pieces.
//!
//! Entries are encoded by `postcard`, which is compact and not self-describing: application data must not rely on
//! `deserialize_any` or on skipped fields.
//!
//! # Features
//!
//! `openraft-09`, which is on by default, and `openraft-010`, for which Openraft has published pre-releases so far; both can
//! be on together. What one has written the other reads, if its application data encodes alike and it keeps the default
//! types of Openraft 0.10.
//!
//! | module | what it does |
//! | --- | --- |
//! | `groups` | opens and removes the groups of a log |
//! | `store` | keeps the Raft log of a group in two streams |
//! | `tail` | holds what a group has in memory |
//! | `record` | encodes Raft entries and state as records |
//! | `types` | names the types of either Openraft |
//! | `v09`, `v010` | implement the traits of Openraft 0.9 and 0.10 |
//! | `apart` | does what may wait on threads of its own |
//! | `error` | defines the errors |
#![forbid(unsafe_code)]

#[cfg(not(any(feature = "openraft-09", feature = "openraft-010")))]
compile_error!(
    "seawall-openraft implements the traits of the Openraft that a feature names: turn on `openraft-09` or `openraft-010`"
);

mod apart;
mod error;
mod groups;
mod record;
mod store;
mod tail;
mod types;
#[cfg(feature = "openraft-010")]
pub mod v010;
#[cfg(feature = "openraft-09")]
pub mod v09;

pub use error::{BadRecord, Error, Result};
pub use groups::{Groups, KEEP_BYTES};
pub use seawall::Options;
pub use store::{LogReader, LogStore};
pub use types::RaftTypes;
