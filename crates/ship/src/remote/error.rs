//! Defines the errors of clusters and their clients, with the remedies.
//!
//! Invariant: no error is recognised by its text; match on the variant.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a request to a cluster was refused or failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    Io {
        /// What was being done, as a verb.
        operation: &'static str,
        /// The file it was done to.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The caller stopped it.
    Interrupted,
    /// A request failed.
    Failed {
        /// What did not happen.
        what: String,
        /// The cause, if there is one.
        source: Option<Cause>,
        /// What to do about it; may be empty.
        remedy: String,
    },
}

/// The error of a client library or of the operating system.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Turns the error of `operation` on `path` into one of this kind.
    pub fn io(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io { operation, path: path.to_owned(), source }
    }

    /// What failed for no cause but its own, and the remedy.
    pub fn failed(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), source: None, remedy: remedy.into() }
    }

    /// The same with its cause.
    pub fn caused(what: impl Into<String>, source: impl Into<Cause>, remedy: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), source: Some(source.into()), remedy: remedy.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { operation, path, source } => {
                write!(f, "cannot {operation} {}: {source}", path.display())
            }
            Self::Interrupted => f.write_str("interrupted"),
            Self::Failed { what, source, remedy } => {
                f.write_str(what)?;
                source.iter().try_for_each(|source| write!(f, " ({source})"))?;
                if remedy.is_empty() { Ok(()) } else { write!(f, ": {remedy}") }
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Failed { source, .. } => source.as_deref().map(|source| source as _),
            Self::Interrupted => None,
        }
    }
}
