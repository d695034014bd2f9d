//! Defines the errors of clusters and their clients, with the remedies.
//!
//! Invariant: no error is recognised by its text; match on the variant.

use std::io;
use std::path::{Path, PathBuf};

/// Why a request to a cluster was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("cannot {operation} {}: {source}", .path.display())]
    Io {
        /// What was being done, as a verb.
        operation: &'static str,
        /// The file it was done to.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The caller stopped it.
    #[error("interrupted")]
    Interrupted,
    /// A request failed.
    #[error("{}", with_remedy(.what, .source.as_ref(), .remedy))]
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

fn with_remedy(what: &str, source: Option<&Cause>, remedy: &str) -> String {
    let cause = source.map_or_else(String::new, |source| format!(" ({source})"));
    if remedy.is_empty() { format!("{what}{cause}") } else { format!("{what}{cause}: {remedy}") }
}
