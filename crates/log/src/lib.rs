//! A transaction log that commits at the raw speed of the disk and recovers the truth.
//!
//! ```no_run
//! # fn main() -> seawall::Result<()> {
//! use seawall::{Log, Lsn, Options};
//!
//! let log = Log::open("orders", Options::default())?; // locks, recovers
//! let lsn = log.append(b"one")?; // in memory, in order, not yet durable
//! log.commit(lsn)?; // durable
//! log.append_commit(b"two")?; // the two in one; shares its write with concurrent commits
//! let end = log.transaction::<seawall::Error>(|tx| {
//!     tx.append(b"debit")?;
//!     tx.append(b"credit")
//! })?; // both or none after any crash
//! log.commit(end)?;
//! for record in log.read(Lsn::ZERO)? {
//!     println!("{}", record?.payload.len());
//! }
//! log.close()
//! # }
//! ```
//!
//! What a commit promises, and what happens after a crash, is in [`guarantees`]; recipes, and what an open log costs in
//! threads, memory and disk, in the [`guide`].
//!
//! [`Log`] is the log of one writing process, [`View`] reads it from any other, [`verify()`] lists what is damaged,
//! [`salvage()`] copies what is intact, [`probe()`] measures a commit here within a second.
#![forbid(unsafe_code)]

#[cfg(feature = "bench")]
pub mod bench;
mod commit;
mod error;
pub mod format;
mod lock;
mod log;
mod lsn;
mod method;
mod options;
mod read;
mod recovery;
mod repair;
mod segment;
mod storage;
mod testing;

#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}
#[doc = include_str!("../docs/guide.md")]
pub mod guide {}

/// The examples of the README, which the documentation tests compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../README.md")]
struct Readme;

pub use crate::log::{Commit, Log, Opened};
pub use commit::stats::{Stats, Summary};
pub use commit::transaction::Transaction;
pub use error::{Damage, Error, Result};
pub use lsn::Lsn;
pub use method::probe::{
    PROBE_COMMIT_BYTES, PROBE_COMMITS_MAX, PROBE_TIME_MAX, Probe, Tried, Verdict, probe,
};
pub use options::{EngineChoice, MethodChoice, Options};
pub use read::reader::{Follower, Payload, Reader, Record};
pub use read::view::{View, ViewReader};
pub use recovery::tail::Tail;
pub use repair::salvage::{Salvaged, salvage};
pub use repair::verify::{Report, verify};
pub use seawall_sys::Engine;
pub use seawall_sys::directory::Permissions;
pub use seawall_sys::durability::{Class as Durability, Promiser};
pub use storage::disk;
#[cfg(feature = "simulation")]
pub use storage::faults;
#[cfg(feature = "mutants")]
pub use testing::mutant;
#[cfg_attr(not(feature = "simulation"), doc(hidden))]
pub use testing::oracle;
#[cfg(feature = "simulation")]
pub use testing::sim;
