//! Seawall as the log store of [Openraft](https://docs.rs/openraft).
//!
//! [`LogStore`] implements `RaftLogStorage` and `RaftLogReader` over one [`seawall::Log`]: entries, votes,
//! truncations and purges are records of that one log, so they become durable in the order in which Raft made them,
//! and entries that Raft appends while a write is in flight share the next one.
//!
//! ```no_run
//! use std::io::Cursor;
//!
//! use seawall_openraft::{LogStore, Options};
//!
//! openraft::declare_raft_types!(pub Types: D = String, R = String);
//!
//! # fn main() -> Result<(), seawall_openraft::Error> {
//! let store = LogStore::<Types>::open("raft", Options::default())?;
//! // Raft::new(id, config, network, store, state_machine).await
//! # Ok(())
//! # }
//! ```
//!
//! # When Raft calls return
//!
//! | call | returns or reports when |
//! | --- | --- |
//! | `append` | it returns when the entries are in memory and readable; its callback runs once they are durable |
//! | `save_vote`, `truncate`, `purge` | the change is durable |
//! | `save_committed` | the change is in memory; durable with the next write, as Openraft allows |
//!
//! After a failed write or sync nothing is reported durable any more and every call fails; reopen the store to learn
//! what is. A crash always leaves a prefix of the changes in the order in which they were made.
//!
//! # Memory and blocking
//!
//! Per entry that is not purged a few words are kept, and the bytes of the newest ones ([`KEEP_BYTES`] by
//! default); older ones are read back from the segments, by a thread that lives as long as that read, so that the
//! runtime goes on. `append` waits for the disk, on the calling thread, only when the log's memory is full.
//!
//! Entries are encoded by `postcard`, which is compact and not self-describing: application data must not rely on
//! `deserialize_any` or on skipped fields.
//!
//! | module | what it does |
//! | --- | --- |
//! | `record` | encodes Raft entries and state as records |
//! | `index` | indexes the entries in memory |
//! | `store` | implements Openraft's storage traits |
//! | `apart` | reads on threads of its own |
//! | `error` | defines the errors |
#![forbid(unsafe_code)]

mod apart;
mod error;
mod index;
mod record;
mod store;

pub use error::{BadRecord, Error, Result};
pub use seawall::Options;
pub use store::{KEEP_BYTES, LogStore};
