//! The errors of a crash test: what could not be recorded, laid out or checked.

use std::io;
use std::path::PathBuf;

/// Why a program could not be tested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be used.
    #[error("{}: {action} failed: {cause}", path.display())]
    File {
        /// What was done to it.
        action: &'static str,
        /// Which one.
        path: PathBuf,
        /// The system's reason.
        cause: io::Error,
    },
    /// A system call of the recorder was refused.
    #[error("{what}: {cause}")]
    Refused {
        /// What was tried, and what to do about it.
        what: String,
        /// The system's reason.
        cause: io::Error,
    },
    /// The run cannot be judged: the reason, and the remedy.
    #[error("{0}")]
    Untestable(String),
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
