//! Defines the gauge's error: what was refused or failed, on what, and the remedy.
//!
//! Invariant: no error is recognised by its text; match on the variant.

use crate::compare::Incomparable;
use crate::result::Refusal;
use bytesize::ByteSize;
use seawall_sys::text::printable;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why something was refused or failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    Io {
        /// What was being done, as a verb.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not a result of this program, or not one that a run can have written.
    ResultFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Refusal,
    },
    /// A figure of the result has no form in JSON.
    Json(serde_json::Error),
    /// The value of an option is out of bounds or not understood.
    Option {
        /// The option, with its dashes.
        option: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The value of an option is out of bounds.
    OutOfBounds {
        /// The option, with its dashes.
        option: &'static str,
        /// What the value must be, such as `from 1 to 256`.
        bounds: &'static str,
    },
    /// The file system is mounted read-only.
    ReadOnly {
        /// Its kind.
        file_system: String,
    },
    /// The file system keeps its files in memory.
    InMemory {
        /// Its kind.
        file_system: String,
    },
    /// The file system ignores syncs.
    SyncDisabled {
        /// The mount option or setting that says so.
        evidence: String,
    },
    /// The files of a run do not fit.
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
    Incomparable(Incomparable),
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

impl From<Incomparable> for Error {
    fn from(error: Incomparable) -> Self {
        Self::Incomparable(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MEMORY: &str = "name a folder on the disk in question, or add --allow-memory to measure the calls without any durability";
        match self {
            Self::Io { operation, path, source } => {
                write!(f, "cannot {operation} {}: {source}", printable(&path.display().to_string()))
            }
            Self::ResultFile { path, source } => {
                write!(f, "{} {source}", printable(&path.display().to_string()))
            }
            Self::Json(error) => write!(f, "cannot write the result as JSON: {error}"),
            Self::Option { option, reason } => write!(f, "{option}: {reason}"),
            Self::OutOfBounds { option, bounds } => write!(f, "{option} must be {bounds}"),
            Self::ReadOnly { file_system } => {
                write!(
                    f,
                    "the {file_system} at this place is mounted read-only: name a folder that can be written"
                )
            }
            Self::InMemory { file_system } => {
                write!(f, "{file_system} keeps its files in memory, where nothing outlives a crash: {MEMORY}")
            }
            Self::SyncDisabled { evidence } => {
                write!(f, "the file system here ignores syncs ({evidence}): {MEMORY}")
            }
            Self::NoSpace { subject, needed, file_system, free, remedy } => write!(
                f,
                "{subject} {} and the {file_system} here has {} free: free some space, or {remedy}",
                ByteSize(*needed),
                ByteSize(*free)
            ),
            Self::Incomparable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::ResultFile { source, .. } => Some(source),
            Self::Json(source) => Some(source),
            _ => None,
        }
    }
}
