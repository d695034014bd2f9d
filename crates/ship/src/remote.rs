//! Connects to clusters of Kafka and NATS, for destinations and for the benchmark of replicated engines: clients, credentials, and
//! what servers report of their syncs.
//!
//! Invariants: only clusters that the caller named are contacted; every request to a cluster has a time limit; a password is never
//! printed; what a server does not report is unknown.

pub mod address;
mod error;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(any(test, feature = "nats"))]
mod plain;

pub use error::{Cause, Error, Result};

use crate::failure::Synced;

/// A sync policy, and how it is printed.
#[derive(Debug, PartialEq, Eq)]
pub struct Policy {
    /// When the cluster syncs.
    pub synced: Synced,
    /// The setting that says so.
    pub setting: String,
    /// Where it was read.
    pub read_from: String,
    /// A short name, as in the id of an engine.
    pub id: String,
}

#[cfg(any(feature = "kafka", feature = "nats"))]
impl Policy {
    /// A policy of which nothing is known, because `setting` could not be read, and where it was looked for.
    pub(crate) fn unknown(setting: &str, read_from: String) -> Self {
        let setting = format!("{setting} unknown");
        Self { synced: Synced::Unknown, setting, read_from, id: "unknown".to_owned() }
    }

    /// The setting, and where it was read.
    pub(crate) fn stated(&self) -> String {
        format!("{}, read from {}", self.setting, self.read_from)
    }
}
