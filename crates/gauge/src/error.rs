//! Defines the gauge's error: what was refused or failed, on what, and the remedy.
//!
//! Invariant: no error is recognised by its text; match on the variant.

use crate::compare::Incomparable;
use crate::result::Refusal;
use bytesize::ByteSize;
use seawall_host::text::printable;
use std::io;
use std::path::PathBuf;

const MEMORY: &str = "name a folder on the disk in question, or add --allow-memory to measure the calls without any durability";

/// Why something was refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {operation} {}: {source}", printable(&path.display().to_string()))]
    Io {
        /// What was being done, as a verb.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not a result of this program, or not one that a run can have written.
    #[error("{} {source}", printable(&path.display().to_string()))]
    ResultFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Refusal,
    },
    /// A figure of the result has no form in JSON.
    #[error("cannot write the result as JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// The value of an option is out of bounds or not understood.
    #[error("{option}: {reason}")]
    Option {
        /// The option, with its dashes.
        option: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The value of an option is out of bounds.
    #[error("{option} must be {bounds}")]
    OutOfBounds {
        /// The option, with its dashes.
        option: &'static str,
        /// What the value must be, such as `from 1 to 256`.
        bounds: &'static str,
    },
    /// The file system is mounted read-only.
    #[error("the {file_system} at this place is mounted read-only: name a folder that can be written")]
    ReadOnly {
        /// Its kind.
        file_system: String,
    },
    /// The file system keeps its files in memory.
    #[error("{file_system} keeps its files in memory, where nothing outlives a crash: {MEMORY}")]
    InMemory {
        /// Its kind.
        file_system: String,
    },
    /// The file system ignores syncs.
    #[error("the file system here ignores syncs ({evidence}): {MEMORY}")]
    SyncDisabled {
        /// The mount option or setting that says so.
        evidence: String,
    },
    /// The files of a run do not fit.
    #[error("{subject} {} and the {file_system} here has {} free: free some space, or {remedy}", ByteSize(*needed), ByteSize(*free))]
    NoSpace {
        /// What needs the space, with its verb.
        subject: String,
        /// Bytes it needs.
        needed: u64,
        /// The file system's kind.
        file_system: String,
        /// Bytes that are free.
        free: u64,
        /// What to do besides freeing space.
        remedy: &'static str,
    },
    /// Sides that cannot be compared.
    #[error(transparent)]
    Incomparable(#[from] Incomparable),
}

/// The result of an operation of the gauge.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A `token` of `option` that does not fit its `grammar`.
    pub(crate) fn token(option: &'static str, token: &str, what: &str, grammar: &str) -> Self {
        Self::Option { option, reason: format!("`{token}`: {what}; expected {grammar}") }
    }

    /// The first of these options whose value does not hold.
    pub(crate) fn check_bounds(options: &[(&'static str, bool, &'static str)]) -> Result<()> {
        match options.iter().find(|(_, holds, _)| !holds) {
            Some(&(option, _, bounds)) => Err(Self::OutOfBounds { option, bounds }),
            None => Ok(()),
        }
    }
}
