//! Defines the errors of clusters and their clients, with the remedies.
//!
//! Invariant: no error is recognised by its text; match on the variant.

use crate::EngineKind;
use seawall_ship::remote::{self, Cause};

/// Why something was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is out of bounds, or of no use without another.
    #[error("{option} {reason}")]
    Option {
        /// The option, with its dashes.
        option: &'static str,
        /// What it must be.
        reason: String,
    },
    /// This build has no client for the engine.
    #[error(
        "this build has no client for {}: build it with `cargo build --release --package seawall-cli --features {}`",
        .0.known().title,
        .0.known().name
    )]
    NoClient(EngineKind),
    /// The caller stopped it.
    #[error("interrupted")]
    Interrupted,
    /// A request to a cluster failed.
    #[error(transparent)]
    Remote(remote::Error),
    /// The same of one of the named clusters.
    #[error("{} at {address}: {source}", if *kind == EngineKind::Kafka { "Kafka" } else { "NATS" })]
    Cluster {
        /// Its engine.
        kind: EngineKind,
        /// Its address without passwords.
        address: String,
        /// The cause.
        source: Box<Self>,
    },
    /// A log could not be shipped to a cluster.
    #[error(transparent)]
    Shipped(Cause),
    /// After an error something could not be cleaned up.
    #[error("{source}; also: {}", left.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    LeftBehind {
        /// The first error.
        source: Box<Self>,
        /// What was left behind, and how to remove it.
        left: Vec<Cause>,
    },
}

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(any(feature = "kafka", feature = "nats"))]
impl Error {
    /// What failed for no cause but its own, and the remedy.
    pub(crate) fn failed(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Remote(remote::Error::failed(what, remedy))
    }

    /// The same with its cause.
    pub(crate) fn caused(
        what: impl Into<String>,
        source: impl Into<Cause>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Remote(remote::Error::caused(what, source, remedy))
    }
}

impl From<remote::Error> for Error {
    fn from(error: remote::Error) -> Self {
        if let remote::Error::Interrupted = error { Self::Interrupted } else { Self::Remote(error) }
    }
}

impl Error {
    /// This error, with what could not be cleaned up after it.
    pub(crate) fn and_left(self, left: Vec<Cause>) -> Self {
        if left.is_empty() { self } else { Self::LeftBehind { source: Box::new(self), left } }
    }
}
