//! Seawall as the write-ahead log of [SlateDB](https://slatedb.io) 0.18: an awaited write is durable on the local disk after one flush
//! of it, instead of after the next upload to the object store.
//!
//! ```no_run
//! # async fn example(store: std::sync::Arc<dyn slatedb::object_store::ObjectStore>) -> Result<(), Box<dyn std::error::Error>> {
//! use seawall_slatedb::{Options, Wals};
//!
//! let wals = Wals::new("/var/lib/app/wal", Options::default(), store.clone());
//! let wal = wals.wal("db")?;
//! let db = slatedb::Db::builder("db", store).with_wal_writer(Box::new(wal)).build().await?;
//! db.put(b"key", b"value").await?.await_durable().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What an awaited write outlives
//!
//! | what happens | `Options::default()` | with `seawall log ship` beside it |
//! | --- | --- | --- |
//! | kill -9, panic | kept | kept |
//! | power cut | kept; `Wal::durability` says what the disk has shown | kept |
//! | the machine or its disk is lost | what SlateDB has flushed to the object store is kept, later rows are lost | kept up to the LSN that has been shipped |
//!
//! Without a plug-in SlateDB waits for an upload (`flush_interval`, 100 ms by default), and an awaited write outlives the machine. So this is
//! for what may outlive its machine a moment later.
//!
//! # Who may write
//!
//! The log's lock keeps a second process out before it fences anything. Within a process a later database fences the earlier one. Every
//! writer claims the database in the object store for its log: with another log, one that was restored or one that was left behind,
//! the database does not open ([`Error::OtherLog`]) until [`Wal::take_over`] says that what only the newest log has may be lost. SlateDB
//! fences its manifest before it asks the log: an opening that is refused has ended the database that was running, which opens again.
//! After a take-over the old writer ends when SlateDB sees the newer manifest (`manifest_poll_interval`); what it
//! acknowledged until then is in its own log only. A directory of a log that is moved with all its files stays the same log; do not go on
//! with a copy of it beside the original.
//!
//! A write batch is one record: a longer one than `Options::record_bytes_max` (64 MiB by default) ends the database.
//!
//! # Garbage collection and readers
//!
//! `GarbageCollectorBuilder::with_wal_gc(Arc::new(wal))` trims the log in the writer's process. The collector that a `Db` starts by itself
//! removes nothing of it. [`Wals::reader`] serves `DbReader` in any process of the machine.
//!
//! | module | what it does |
//! | --- | --- |
//! | `wals` | the logs of the databases below a directory: opened, copied, removed |
//! | `wal` | one log: fenced, replayed, trimmed |
//! | `claim` | tells the newest log of a database from older ones |
//! | `writer` | appends, makes durable, tells SlateDB |
//! | `reader` | reads in any process |
//! | `record` | encodes a write batch |
//! | `error` | defines the errors |
#![forbid(unsafe_code)]

mod claim;
mod error;
mod reader;
mod record;
mod wal;
mod wals;
mod writer;

pub use error::Error;
pub use reader::Reader;
pub use seawall::{Durability, Options};
pub use wal::Wal;
pub use wals::Wals;
