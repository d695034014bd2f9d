//! Defines the errors of clusters and their clients, with the remedies.
//!
//! Invariant: no error is recognised by its text; match on the variant.

use crate::{EngineKind, Known};
use seawall_ship::remote::{self, Cause};
use std::fmt;

/// Why something was refused or failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An option is out of bounds, or of no use without another.
    Option {
        /// The option, with its dashes.
        option: &'static str,
        /// What it must be.
        reason: String,
    },
    /// This build has no client for the engine.
    NoClient(EngineKind),
    /// The caller stopped it.
    Interrupted,
    /// A request to a cluster failed.
    Remote(remote::Error),
    /// The same of one of the named clusters.
    Cluster {
        /// Its engine.
        kind: EngineKind,
        /// Its address without passwords.
        address: String,
        /// The cause.
        source: Box<Self>,
    },
    /// A log could not be shipped to a cluster.
    Shipped(Cause),
    /// After an error something could not be cleaned up.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option { option, reason } => write!(f, "{option} {reason}"),
            Self::NoClient(kind) => {
                let Known { name, title, .. } = kind.known();
                write!(
                    f,
                    "this build has no client for {title}: build it with `cargo build --release --package seawall-cli --features {name}`"
                )
            }
            Self::Interrupted => f.write_str("interrupted"),
            Self::Remote(error) => error.fmt(f),
            Self::Shipped(error) => error.fmt(f),
            Self::Cluster { kind, address, source } => {
                let engine = if *kind == EngineKind::Kafka { "Kafka" } else { "NATS" };
                write!(f, "{engine} at {address}: {source}")
            }
            Self::LeftBehind { source, left } => {
                write!(f, "{source}; also")?;
                left.iter()
                    .enumerate()
                    .try_for_each(|(n, left)| write!(f, "{} {left}", if n == 0 { ":" } else { ";" }))
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Remote(error) => error.source(),
            Self::Shipped(error) => error.source(),
            Self::Cluster { source, .. } | Self::LeftBehind { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
