//! Defines why a queue refuses or fails.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a queue refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log refused or failed.
    #[error("{0}")]
    Log(#[from] seawall::Error),
    /// The process that owns the log refused, for a reason that has no kind here.
    #[error("the process that owns the queue: {reason}")]
    Owner {
        /// Its error.
        reason: String,
    },
    /// The directory has a log that is not a queue's.
    #[error("{} holds a log that is not a queue: name another directory", .path.display())]
    NotAQueue {
        /// The directory.
        path: PathBuf,
    },
    /// A record is not one of a queue.
    #[error("a record of the log is not one of a queue: salvage the log")]
    Foreign,
    /// The queue has never had this message.
    #[error("the queue never handed out a message {seq}")]
    NoMessage {
        /// Its sequence number.
        seq: u64,
    },
    /// No message came in time.
    #[error("no message came within {after:?}")]
    TimedOut {
        /// How long the call waited.
        after: Duration,
    },
    /// The process that owns the log does not answer. What was put may be stored.
    #[error(
        "{}: the process that owns the queue has not answered for {after:?}: it may be stopped (SIGSTOP), or a child that it \
         forked still has the lock; continue or end it. What was put may be stored",
        .path.display()
    )]
    NoAnswer {
        /// The directory of the queue.
        path: PathBuf,
        /// How long this process waited.
        after: Duration,
    },
    /// The processes cannot be connected.
    #[error("cannot {operation} {}: {source}", .path.display())]
    Socket {
        /// The operation, as a verb.
        operation: &'static str,
        /// The socket.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The process that owns the log speaks another version of the protocol.
    #[error(
        "the process that owns the queue speaks version {owner} of the protocol, this one {}: use one version of the library",
        crate::wire::VERSION
    )]
    Version {
        /// Its version.
        owner: u32,
    },
    /// The queue was closed.
    #[error("the queue was closed")]
    Closed,
}

/// What the calls of a queue return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The name of the error in every language: those of the log are [`seawall::Error::name`].
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Log(error) => error.name(),
            Self::Owner { .. } => "queue_owner",
            Self::NotAQueue { .. } => "not_a_queue",
            Self::Foreign => "foreign_record",
            Self::NoMessage { .. } => "no_message",
            Self::TimedOut { .. } => "timed_out",
            Self::NoAnswer { .. } => "no_answer",
            Self::Socket { .. } => "io",
            Self::Version { .. } => "queue_version",
            Self::Closed => "closed",
        }
    }
}
