//! Defines the errors of the storage.

use seawall::StreamId;

/// Any failure of the storage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log refused or failed.
    #[error(transparent)]
    Log(#[from] seawall::Error),
    /// A record of the group is none of this storage. Nothing was changed.
    #[error("record {seq} of stream {stream} is none of raft-rs: was it written by another program?")]
    Record {
        /// The stream.
        stream: StreamId,
        /// The number of the record in it.
        seq: u64,
    },
    /// An entry neither follows the last one nor takes the place of one. Nothing was appended.
    #[error("entry {index} does not fit a log that has the entries from {first} on and before {next}")]
    Hole {
        /// Its index.
        index: u64,
        /// The index of the first entry that there is.
        first: u64,
        /// The index after the last one.
        next: u64,
    },
    /// The log was compacted beyond what the host has applied.
    #[error(
        "entries from {index} on were compacted, and the host has not applied them: restore its snapshot, or add it anew under another ID"
    )]
    Missing {
        /// The index of the first one.
        index: u64,
    },
    /// The stream of a group got a record that did not come from its store.
    #[error(
        "stream {stream} got a record that did not come from its Raft group: only one store may append there"
    )]
    ForeignRecord {
        /// The stream.
        stream: StreamId,
    },
    /// Groups have numbers below 2^23.
    #[error("there is no group {group}: use a number below 8388608")]
    NoGroup {
        /// The number.
        group: u32,
    },
}

/// The result of an operation on the storage.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<Error> for raft::Error {
    fn from(error: Error) -> Self {
        Self::Store(raft::StorageError::Other(Box::new(error)))
    }
}
