//! Defines the errors of clusters and their clients, with the remedies.
//!
//! Invariant: no error is recognised by its text; match on the variant.

use crate::{EngineKind, Known};
use std::fmt;
use std::io;
#[cfg(any(test, feature = "kafka", feature = "nats"))]
use std::path::Path;
use std::path::PathBuf;

/// Why something was refused or failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    Io {
        /// What was being done, as a verb.
        operation: &'static str,
        /// The file, folder or program it was done to.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
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
    /// A request to a cluster, or a program on this machine, failed.
    Failed {
        /// What did not happen.
        what: String,
        /// The cause, if there is one.
        source: Option<Cause>,
        /// What to do about it; may be empty.
        remedy: String,
    },
    /// The same of one of the named clusters.
    Cluster {
        /// Its engine.
        kind: EngineKind,
        /// Its address without passwords.
        address: String,
        /// The cause.
        source: Box<Self>,
    },
    /// After an error something could not be cleaned up.
    LeftBehind {
        /// The first error.
        source: Box<Self>,
        /// What was left behind, and how to remove it.
        left: Vec<Cause>,
    },
}

/// The error of a client library, of this crate or of the operating system.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(any(test, feature = "kafka", feature = "nats"))]
#[cfg_attr(test, allow(dead_code, reason = "without a client the tests use some of them"))]
impl Error {
    /// Turns the error of `operation` on `path` into one of this crate.
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io { operation, path: path.to_owned(), source }
    }

    /// What failed for no cause but its own, and the remedy.
    pub(crate) fn failed(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), source: None, remedy: remedy.into() }
    }

    /// The same with its cause.
    pub(crate) fn caused(
        what: impl Into<String>,
        source: impl Into<Cause>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Failed { what: what.into(), source: Some(source.into()), remedy: remedy.into() }
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
            Self::Io { operation, path, source } => {
                write!(f, "cannot {operation} {}: {source}", path.display())
            }
            Self::Option { option, reason } => write!(f, "{option} {reason}"),
            Self::NoClient(kind) => {
                let Known { name, title, .. } = kind.known();
                write!(
                    f,
                    "this build has no client for {title}: build it with `cargo build --release --package seawall-cli --features {name}`"
                )
            }
            Self::Interrupted => f.write_str("interrupted"),
            Self::Failed { what, source, remedy } => {
                f.write_str(what)?;
                source.iter().try_for_each(|source| write!(f, " ({source})"))?;
                if remedy.is_empty() { Ok(()) } else { write!(f, ": {remedy}") }
            }
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
            Self::Io { source, .. } => Some(source),
            Self::Failed { source, .. } => source.as_deref().map(|source| source as _),
            Self::Cluster { source, .. } | Self::LeftBehind { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
