//! The error of the developer commands: what failed, at which program, file or word, and why.

use std::fmt;
use std::io;
use std::process::ExitStatus;

/// A cause of another crate's or of the system's.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

pub(crate) type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Returns the error of a check that did not hold.
macro_rules! fail {
    ($($why:tt)+) => { return Err($crate::error::Error::Check(format!($($why)+))) };
}

/// Returns that error unless something holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => { if $holds {} else { fail!($($why)+) } };
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot run `{program}`: {cause}")]
    Start { program: String, cause: io::Error },
    /// A program ended without success. `stderr` is empty where it was passed through.
    #[error("`{program}` ended with {status}{}{stderr}", if stderr.is_empty() { "" } else { ": " })]
    Ended { program: String, status: ExitStatus, stderr: String },
    /// A file, folder, address or figure could not be used.
    #[error("{place}: {cause}")]
    At { place: String, cause: Cause },
    /// What this machine lacks, and its remedy.
    #[error("{0}")]
    Lacking(String),
    /// A check that did not hold.
    #[error("{0}")]
    Check(String),
}

impl Error {
    pub(crate) fn lacking(text: impl Into<String>) -> Self {
        Self::Lacking(text.into())
    }

    pub(crate) fn check(text: impl Into<String>) -> Self {
        Self::Check(text.into())
    }

    /// Makes the error of a cause at `place`: for `map_err`.
    pub(crate) fn at<E: Into<Cause>>(place: impl fmt::Display) -> impl Fn(E) -> Self {
        move |cause| Self::At { place: place.to_string(), cause: cause.into() }
    }
}
