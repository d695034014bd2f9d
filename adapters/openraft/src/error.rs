//! Defines the errors of the log store.

use seawall::{Lsn, StreamId};

/// Any failure of the store.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The log refused or failed.
    Log(seawall::Error),
    /// A record of the group is none of this store, or was written for other types. Nothing was changed.
    Record {
        /// The stream that it belongs to.
        stream: StreamId,
        /// Where the record starts.
        lsn: Lsn,
        /// What is wrong with it.
        source: BadRecord,
    },
    /// A value could not be encoded. Nothing was appended.
    Encode(postcard::Error),
    /// The entry does not follow the last one. Nothing was appended for it.
    Hole {
        /// The index of the entry.
        index: u64,
        /// The index that is due.
        due: u64,
    },
    /// An entry is missing that must be there.
    Missing {
        /// Its index.
        index: u64,
    },
    /// The stream of a group got a record that did not come from its store.
    ForeignRecord {
        /// The stream.
        stream: StreamId,
    },
    /// Groups have numbers below 2^23.
    NoGroup {
        /// The number.
        group: u32,
    },
    /// The group has a store or a reader already.
    GroupInUse {
        /// The number of the group.
        group: u32,
    },
    /// Stores or readers are still in use, so the log cannot be closed.
    InUse,
}

/// What is wrong with a record.
#[derive(Debug)]
#[non_exhaustive]
pub enum BadRecord {
    /// It has no bytes.
    Empty,
    /// Its kind is not known, or is none of this stream.
    Kind(u8),
    /// Its value cannot be decoded.
    Value(postcard::Error),
    /// So many bytes follow its value.
    LeftOver(usize),
    /// It is another entry than the one of its place.
    Index {
        /// The index of the entry that belongs there.
        index: u64,
        /// The index of the entry that is there.
        found: u64,
    },
}

impl std::fmt::Display for BadRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Kind(kind) => write!(f, "kind {kind} is not known here"),
            Self::Value(error) => error.fmt(f),
            Self::LeftOver(bytes) => write!(f, "{bytes} bytes are left over"),
            Self::Index { index, found } => write!(f, "it is entry {found} in the place of entry {index}"),
        }
    }
}

impl std::error::Error for BadRecord {}

/// The result of an operation on the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<seawall::Error> for Error {
    fn from(error: seawall::Error) -> Self {
        Self::Log(error)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::Record { stream, lsn, source } => write!(
                f,
                "the record at LSN {lsn} in stream {stream} cannot be understood: {source}; was it written with other types?"
            ),
            Self::Encode(error) => write!(f, "cannot encode: {error}"),
            Self::Hole { index, due } => write!(f, "entry {index} would leave a hole: entry {due} is due"),
            Self::Missing { index } => write!(f, "entry {index} is missing"),
            Self::ForeignRecord { stream } => write!(
                f,
                "stream {stream} got a record that did not come from its Raft group: only the group may append there"
            ),
            Self::NoGroup { group } => write!(f, "there is no group {group}: use a number below 8388608"),
            Self::GroupInUse { group } => {
                write!(f, "group {group} is in use: drop its store and its readers first")
            }
            Self::InUse => f.write_str("the log is still in use: drop its stores and readers first"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Log(error) => Some(error),
            Self::Record { source, .. } => Some(source),
            Self::Encode(error) => Some(error),
            _ => None,
        }
    }
}
