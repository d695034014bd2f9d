//! Defines the errors of the log store.

use seawall::{Lsn, StreamId};

/// Any failure of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log refused or failed.
    #[error("{0}")]
    Log(#[from] seawall::Error),
    /// A record of the group is none of this store, or was written for other types. Nothing was changed.
    #[error(
        "the record at LSN {lsn} in stream {stream} cannot be understood: {source}; was it written with other types?"
    )]
    Record {
        /// The stream that it belongs to.
        stream: StreamId,
        /// Where the record starts.
        lsn: Lsn,
        /// What is wrong with it.
        source: BadRecord,
    },
    /// A value could not be encoded. Nothing was appended.
    #[error("cannot encode: {0}")]
    Encode(#[source] postcard::Error),
    /// The entry does not follow the last one. Nothing was appended for it.
    #[error("entry {index} would leave a hole: entry {due} is due")]
    Hole {
        /// The index of the entry.
        index: u64,
        /// The index that is due.
        due: u64,
    },
    /// An entry is missing that must be there.
    #[error("entry {index} is missing")]
    Missing {
        /// Its index.
        index: u64,
    },
    /// The stream of a group got a record that did not come from its store.
    #[error(
        "stream {stream} got a record that did not come from its Raft group: only the group may append there"
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
    /// The group has a store or a reader already.
    #[error("group {group} is in use: drop its store and its readers first")]
    GroupInUse {
        /// The number of the group.
        group: u32,
    },
    /// Stores or readers are still in use, so the log cannot be closed.
    #[error("the log is still in use: drop its stores and readers first")]
    InUse,
}

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadRecord {
    /// It has no bytes.
    #[error("it is empty")]
    Empty,
    /// Its kind is not known, or is none of this stream.
    #[error("kind {0} is not known here")]
    Kind(u8),
    /// Its value cannot be decoded.
    #[error("{0}")]
    Value(postcard::Error),
    /// So many bytes follow its value.
    #[error("{0} bytes are left over")]
    LeftOver(usize),
    /// It is another entry than the one of its place.
    #[error("it is entry {found} in the place of entry {index}")]
    Index {
        /// The index of the entry that belongs there.
        index: u64,
        /// The index of the entry that is there.
        found: u64,
    },
}

/// The result of an operation on the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;
