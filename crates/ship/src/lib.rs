//! Commits of a Seawall log that outlive this machine: shipped to NATS `JetStream` or Apache Kafka, archived to folders and object stores, and
//! rebuilt from either with the same bytes, identity and positions.
//!
//! ```text
//!  seawall::Log ─► durable batches ─► shipping ─► writer ─► Destination ─► stream, topic, objects
//!       ▲             (sealed)          │           (pure)                        │
//!       └── trims stop at the hold ◄────┘ note                     restore: rebuild, copy, drill
//! ```
//!
//! In reading order:
//!
//! * [`failure`]: what a commit may have to outlive, and which acknowledgement outlives which;
//! * [`message`]: the bytes that a log is shipped in, and the rule by which any reader finds the log in them;
//! * [`compression`] of what is sent, and its [`pace`], where they are asked for;
//! * [`writer`]: what is sent, and what counts as acknowledged: a state machine, which `tests/model.rs` checks;
//! * [`destination`]: what a destination must do: store a message at a position only if that is the next free one;
//! * [`shipping`]: the threads between a log and a destination; [`note`] is what a directory knows of it; `metrics` counts;
//! * [`archive`] of objects in a [`folder`] or a bucket (`object`), created by `upload`, read [`ahead`], its [`manifest`]s, [`pack`]s, [`follower`]s and [`retention`]; `jetstream`, `kafka`; [`address`] opens them;
//! * [`restore`]: rebuilds, takes over, drills; [`beside`] says how a log lies to what is there; [`guess`] where a chain ends by its last messages;
//! * [`untrimmed`]: leaves out the history that the log itself had trimmed;
//! * [`sources`]: reads several places at once, and falls back where one is damaged;
//! * [`standby`]: keeps a copy that grows, and takes over with it;
//! * [`status`]: what a folder and a destination say of themselves, without writing anything;
//! * [`shipped_log`]: a log whose commits name the failure that they have to outlive.
//!
//! What is shipped is durable here first: a commit that waits for a destination costs both. A destination is owned by the
//! directory that shipped to it first; a rebuild makes another one the owner, and the old writer is refused from then on.
//!
//! Invariants: nothing acknowledged for a failure is lost by that failure; two writers never both extend a destination; every
//! batch is there once; the log keeps what is not there yet.

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
pub mod restore;
pub mod retention;
pub mod shipped_log;
pub mod shipping;
pub mod sources;
pub mod standby;
pub mod status;
pub mod untrimmed;
mod upload;
pub mod writer;

pub use ending::Ending;
pub use error::{Cause, Error, Result};
pub use failure::{Facts, Failure, Synced};
pub use shipped_log::{Policy, ShippedLog};
