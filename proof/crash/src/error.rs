//! Defines why the harness cannot test, or what ended a test.
//!
//! Invariant: a broken promise is a finding of its test and no [`Error`], except in the soak, where the first ends the run.

use std::io;
use std::path::PathBuf;

/// Why a command of the harness ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The operating system refused an operation.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The log refused or failed.
    #[error(transparent)]
    Log(#[from] seawall::Error),
    /// A file of progress, a report or a verdict is not the JSON it must be.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("cannot take over the signals: {0}")]
    Signals(#[from] ctrlc::Error),
    #[error("no commit method {0}: `seawall methods` lists them")]
    NoMethod(String),
    #[error("no planted bug {0} in this build: build with the feature mutants")]
    NoBug(String),
    #[error("no file system {0}: name ext4, xfs or btrfs")]
    NoFileSystem(String),
    #[error("no seawall at {}: build it first", .0.display())]
    NoBinary(PathBuf),
    #[error("{} holds a campaign with another disk or seed; name another --progress", .0.display())]
    OtherCampaign(PathBuf),
    /// A transaction of the library ends elsewhere than its records do.
    #[error("a transaction from {start} ends at {end}")]
    End { start: seawall::Lsn, end: seawall::Lsn },
    /// The emulated machine did what it must not.
    #[error("{what}:\n{console}")]
    Machine {
        what: String,
        /// The last lines of its console.
        console: String,
    },
    /// A life of the soak broke a promise or a bound, in words.
    #[error("{0}")]
    Soak(String),
    #[error("interrupted")]
    Interrupted,
}

/// The result of a command of the harness.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;
