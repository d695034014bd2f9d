//! Defines the errors of the log store.

use seawall::Lsn;

/// Any failure of the store.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The log refused or failed.
    Log(seawall::Error),
    /// A record of the log is none of this store, or was written for other types. Nothing was changed.
    Record {
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
    /// Entries are missing that must be there.
    Missing {
        /// The index of the first one.
        index: u64,
    },
    /// Readers or copies of the store are still in use, so it cannot be closed.
    InUse,
}

/// What is wrong with a record.
#[derive(Debug)]
#[non_exhaustive]
pub enum BadRecord {
    /// It has no bytes.
    Empty,
    /// Its kind is not known.
    Kind(u8),
    /// Its value cannot be decoded.
    Value(postcard::Error),
    /// So many bytes follow its value.
    LeftOver(usize),
    /// It is state where an entry was appended.
    NotAnEntry,
    /// It is the entry of this index, which does not follow the one before it.
    Unordered(u64),
}

impl std::fmt::Display for BadRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Kind(kind) => write!(f, "kind {kind} is not known"),
            Self::Value(error) => error.fmt(f),
            Self::LeftOver(bytes) => write!(f, "{bytes} bytes are left over"),
            Self::NotAnEntry => f.write_str("it is no entry"),
            Self::Unordered(index) => write!(f, "entry {index} does not follow the one before it"),
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
            Self::Record { lsn, source } => write!(
                f,
                "the record at LSN {lsn} cannot be understood: {source}; was this log written with other types?"
            ),
            Self::Encode(error) => write!(f, "cannot encode: {error}"),
            Self::Hole { index, due } => write!(f, "entry {index} would leave a hole: entry {due} is due"),
            Self::Missing { index } => write!(f, "entry {index} is not where the index says"),
            Self::InUse => f.write_str("the store is still in use: drop its readers and copies first"),
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
