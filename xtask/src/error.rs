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

/// Why a developer command failed.
#[derive(Debug)]
pub(crate) enum Error {
    /// A program could not be started or waited for.
    Start { program: String, cause: io::Error },
    /// A program ended without success. `stderr` is empty where it was passed through.
    Ended { program: String, status: ExitStatus, stderr: String },
    /// A file, folder, address or figure could not be used.
    At { place: String, cause: Cause },
    /// What this machine lacks, and its remedy.
    Lacking(String),
    /// A check that did not hold.
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

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacking(text) | Self::Check(text) => out.write_str(text),
            Self::Start { program, cause } => write!(out, "cannot run `{program}`: {cause}"),
            Self::Ended { program, status, stderr } if stderr.is_empty() => {
                write!(out, "`{program}` ended with {status}")
            }
            Self::Ended { program, status, stderr } => {
                write!(out, "`{program}` ended with {status}: {stderr}")
            }
            Self::At { place, cause } => write!(out, "{place}: {cause}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start { cause, .. } => Some(cause),
            Self::At { cause, .. } => Some(cause.as_ref()),
            Self::Ended { .. } | Self::Lacking(_) | Self::Check(_) => None,
        }
    }
}
