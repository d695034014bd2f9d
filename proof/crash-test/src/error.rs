//! The errors of a crash test: what could not be recorded, laid out or checked.

use std::io;
use std::path::{Path, PathBuf};

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
    /// The check was ended before its time: the search's was over, or the test was interrupted.
    #[error("the check was ended: the test was interrupted, or its --budget was over")]
    OutOfTime,
    /// The run cannot be judged: the reason, and the remedy.
    #[error("{0}")]
    Untestable(String),
}

impl Error {
    /// What turns a system's error into one about `what` was tried.
    pub(crate) fn refused<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |cause| Self::Refused { what, cause: cause.into() }
    }

    /// What turns a system's error into one about `action` on `path`.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |cause| Self::File { action, path, cause }
    }
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
