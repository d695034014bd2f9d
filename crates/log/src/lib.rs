//! An embeddable transaction log: durable group commit at the speed of the disk, and recovery that distinguishes a torn tail from damage.
//!
//! ```no_run
//! # fn main() -> seawall::Result<()> {
//! use seawall::{Log, Lsn, Options};
//!
//! let log = Log::open("orders", Options::default())?; // locks, recovers
//! let at = log.append(b"one")?; // in memory, in order, not yet durable
//! log.commit(at.end)?; // durable
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
//! [`salvage()`] copies what is intact, [`backup()`] and [`Log::backup`] copy a log while it is written, [`probe()`] measures a commit here within a second.
//!
//! # Interface
//!
//! Semantic versioning covers what this page shows without features, and the features `metrics` and `stream`. The features
//! `oracle`, `simulation` and `mutants` are for the programs and tests of this repository, and may change with any version.
//!
//! Four types are those of `seawall-sys`, whose own interface may change with any version: [`Durability`], [`Engine`],
//! [`Permissions`] and [`Promiser`]. They are part of this interface by the names they have here, and each version of this
//! crate depends on exactly one of that. All other types of it stay behind private fields. Enums that may get variants and
//! structs that may get fields are `#[non_exhaustive]`; `Durability` and `Promiser` are not, so that code which decides by
//! them does not compile until it decides about a new one, which is a breaking change.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "simulation"),
    allow(unreachable_pub, reason = "the feature makes the internals public")
)]

mod channel;
mod commit;
mod crash_memory;
mod error;
#[cfg(feature = "simulation")]
pub mod format;
#[cfg(not(feature = "simulation"))]
mod format;
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
mod stream;
#[cfg(any(test, feature = "oracle"))]
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

pub use crate::log::{Log, Opened};
pub use commit::append_future::AppendFuture;
pub use commit::close_future::CloseFuture;
pub use commit::commit_future::CommitFuture;
pub use commit::process_crash::ProcessCrashCommits;
pub use commit::stall::Stall;
pub use commit::stats::{Stats, Summary};
pub use commit::transaction::Transaction;
pub use crash_memory::left::LeftInMemory;
pub use error::{Damage, Error, Result};
pub use format::{LogId, RECORD_HEADER_BYTES};
pub use lsn::Lsn;
pub use method::evidence::Evidence;
pub use method::probe::{
    PROBE_COMMIT_BYTES, PROBE_COMMITS_MAX, PROBE_TIME_MAX, Probe, ProbeOutcome, Tried, probe,
};
pub use method::select::MethodOrigin;
pub use options::{EngineChoice, MethodChoice, Options};
pub use read::follower::Follower;
pub use read::hold::{Hold, HoldLock};
pub use read::pin::ReadPin;
pub use read::reader::{Payload, Reader, Record};
pub use read::sealed::{SealedBatch, SealedCheck, SealedFollower};
pub use read::stream::{Stream, StreamAppend, StreamFollower, StreamReader};
pub use read::view::{View, ViewReader};
pub use read::view_follower::ViewFollower;
pub use read::view_stream::{ViewStream, ViewStreamFollower, ViewStreamReader};
pub use recovery::tail::Tail;
pub use repair::backup::{Backup, backup};
pub use repair::rebuild::{Rebuild, RebuildTo};
pub use repair::salvage::{Salvaged, salvage};
pub use repair::verify::{Report, verify};
pub use seawall_sys::Engine;
pub use seawall_sys::directory::Permissions;
pub use seawall_sys::durability::{Durability, Promiser};
pub use segment::cap::OnFull;
pub use segment::retention::Retention;
#[cfg(feature = "simulation")]
pub use storage::{disk, faults};
pub use stream::{StreamId, StreamPosition};
#[cfg(feature = "mutants")]
pub use testing::mutant;
#[cfg(feature = "oracle")]
pub use testing::oracle;
#[cfg(feature = "simulation")]
pub use testing::sim;
#[cfg(feature = "mutants")]
use testing::wrong;
