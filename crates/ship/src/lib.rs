//! Commits of a Seawall log that outlive this machine: shipped to NATS `JetStream` or Apache Kafka, archived to folders and object stores, and
//! restored from either with the same bytes, identity and LSNs.
//!
//! ```text
//!  seawall::Log ─► durable batches ─► shipping ─► writer ─► Destination ─► stream, topic, objects
//!       ▲             (sealed)          │           (pure)                        │
//!       └── trims stop at the hold ◄────┘ note                     restore: rebuild, copy, drill
//! ```
//!
//! In reading order:
//!
//! * [`failure`]: the failures that a commit may have to outlive, and which acknowledgement outlives which;
//! * [`message`]: the format of messages, and the rule by which any reader finds the log in them;
//! * [`compression`] of messages, and their [`pace`], both optional;
//! * [`writer`]: what is sent, and what counts as acknowledged: a state machine, which `tests/model.rs` checks;
//! * [`destination`]: the interface of a destination: it stores a message at a position only if that is the next free one;
//! * [`shipping`]: the threads between a log and a destination; [`note`] records its progress in the log's directory; `metrics` counts;
//! * [`archive`] of objects in a [`folder`] or a bucket (`object`), created by `upload`, read [`ahead`], its [`manifest`]s, [`pack`]s, [`follower`]s and [`retention`]; `jetstream`, `kafka`, by the clients of [`remote`]; [`address`] opens them;
//! * [`restore`]: rebuilds, copies and drills, from one destination or several at once; `intake` reads each of them and takes over; [`beside`] compares a log with a destination; [`guess`] finds the end of a chain by its last messages;
//! * [`standby`]: follows with a copy, and promotes it;
//! * [`status`]: the state of a folder or a destination, read-only;
//! * [`shipped_log`]: a log whose commits name the failure that they have to outlive.
//!
//! What is shipped is durable here first: a commit that waits for a destination costs both. A destination is owned by the
//! directory that shipped to it first; a restore makes another one the owner, which fences the old writer.
//!
//! Invariants: nothing acknowledged for a failure is lost by that failure; two writers never both extend a destination; every
//! batch is stored once; the log keeps what is not stored yet.

pub mod address;
pub mod ahead;
pub mod archive;
pub mod beside;
pub mod compression;
pub mod destination;
mod ending;
mod error;
pub mod failure;
pub mod folder;
pub mod follower;
pub mod guess;
mod intake;
#[cfg(feature = "nats")]
pub mod jetstream;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod manifest;
pub mod message;
mod metrics;
pub mod note;
#[cfg(feature = "objects")]
pub mod object;
pub mod pace;
pub mod pack;
pub mod remote;
pub mod restore;
pub mod retention;
pub mod shipped_log;
pub mod shipping;
pub mod standby;
pub mod status;
mod upload;
pub mod writer;
#[cfg(feature = "mutants")]
mod wrong;

pub use ending::Ending;
pub use error::{Cause, Error, Result};
pub use failure::{Facts, Failure, Synced};
pub use shipped_log::{Policy, ShippedLog};
