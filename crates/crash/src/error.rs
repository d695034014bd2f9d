//! Defines why the harness cannot test, or what ended a test.
//!
//! Invariant: a broken promise is a finding of its test and no [`Error`], except in the soak, where the first ends the run.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a command of the harness ended.
#[derive(Debug)]
pub(crate) enum Error {
    /// The operating system refused an operation.
    Io(io::Error),
    /// The log refused or failed.
    Log(seawall::Error),
    /// The power-cut test refused or failed.
    Powercut(seawall_powercut::Error),
    /// A file of progress, a report or a verdict is not the JSON it must be.
    Json(serde_json::Error),
    /// No handler of signals can be installed.
    Signals(ctrlc::Error),
    /// There is no commit method of this id.
    NoMethod(String),
    /// There is no file system of this name among those that are tested.
    NoFileSystem(String),
    /// There is no release binary.
    NoBinary(PathBuf),
    /// The file of progress is of another disk or seed.
    OtherCampaign(PathBuf),
    /// A transaction of the library ends elsewhere than its records do.
    End {
        /// Where it starts.
        start: seawall::Lsn,
        /// Where it ends.
        end: seawall::Lsn,
    },
    /// The emulated machine did what it must not.
    Machine {
        /// What.
        what: String,
        /// The last lines of its console.
        console: String,
    },
    /// A life of the soak broke a promise or a bound.
    Soak(crate::soak::Finding),
    /// The user asked to stop.
    Interrupted,
}

/// The result of a command of the harness.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Powercut(error) => error.fmt(f),
            Self::Json(error) => error.fmt(f),
            Self::Signals(error) => write!(f, "cannot take over the signals: {error}"),
            Self::NoMethod(id) => write!(f, "no commit method {id}: `seawall methods` lists them"),
            Self::NoFileSystem(name) => write!(f, "no file system {name}: name ext4, xfs or btrfs"),
            Self::NoBinary(path) => write!(f, "no seawall at {}: build it first", path.display()),
            Self::OtherCampaign(path) => write!(
                f,
                "{} holds a campaign with another disk or seed; name another --progress",
                path.display()
            ),
            Self::End { start, end } => write!(f, "a transaction from {start} ends at {end}"),
            Self::Machine { what, console } => write!(f, "{what}:\n{console}"),
            Self::Soak(finding) => finding.fmt(f),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Log(error) => Some(error),
            Self::Powercut(error) => Some(error),
            Self::Json(error) => Some(error),
            Self::Signals(error) => Some(error),
            Self::Soak(finding) => Some(finding),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from! {
    io::Error => Io,
    seawall::Error => Log,
    seawall_powercut::Error => Powercut,
    serde_json::Error => Json,
    ctrlc::Error => Signals,
    crate::soak::Finding => Soak,
}
