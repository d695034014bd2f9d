//! Defines why a log cannot serve a database, and the error that SlateDB gets.

use std::path::PathBuf;
use std::sync::Arc;

use seawall::Lsn;
use slatedb::wal::WalError;

/// Why a log cannot serve a database. It is the source of a [`WalError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log refused or failed.
    #[error("{0}")]
    Log(#[from] seawall::Error),
    /// A record is none of this log's writer.
    #[error("the record at LSN {lsn} is not a write batch of SlateDB")]
    Foreign {
        /// Where it starts.
        lsn: Lsn,
    },
    /// The rows of a write batch have several sequence numbers.
    #[error("the rows of a write batch have several sequence numbers")]
    SequenceNumbers,
    /// A write batch cannot be encoded.
    #[error("cannot encode: {0}")]
    Encode(#[source] postcard::Error),
    /// Another log was the newest: this one may lack rows of it.
    #[error(
        "{}: the newest writer, of epoch {epoch}, wrote to the log in {other}, and this log may lack rows of it: open the \
         database with that log; if it is lost, or was restored here, take over with `Wal::take_over`",
        .dir.display()
    )]
    OtherLog {
        /// The directory of this log.
        dir: PathBuf,
        /// The epoch of the newest writer.
        epoch: u64,
        /// The directory of its log, as that writer named it.
        other: String,
    },
    /// The log has records, and the database knows no writer: it is another one than that of this log.
    #[error(
        "{}: the log has records, and the database was never opened with one: remove it if it is left from a database that \
         was deleted, or take over with `Wal::take_over`",
        .dir.display()
    )]
    OtherDatabase {
        /// The directory of the log.
        dir: PathBuf,
    },
    /// The log ends before rows that the database counts on.
    #[error(
        "{}: the log ends at LSN {end}, and the database has rows of it up to {replay_after}: it is another database's, or was \
         restored without its newest records; take over with `Wal::take_over`",
        .dir.display()
    )]
    Behind {
        /// The directory of the log.
        dir: PathBuf,
        /// Where it ends.
        end: Lsn,
        /// Up to where the database has its rows, as a WAL file ID.
        replay_after: u64,
    },
    /// Where a clone needs a copy of a log there is another one.
    #[error(
        "{}: there is another log than the copy that the clone needs; remove it (`WalAdmin::delete_wal`)",
        .dir.display()
    )]
    Exists {
        /// Its directory.
        dir: PathBuf,
    },
    /// The object store failed while the writers of the database were looked at.
    #[error("the writers of the database cannot be looked up: {0}")]
    Store(#[source] slatedb::object_store::Error),
    /// A thread that read the log panicked.
    #[error("a thread that read the log panicked")]
    Reader,
}

impl From<Error> for WalError {
    fn from(error: Error) -> Self {
        match &error {
            Error::Log(seawall::Error::Closed) => Self::Closed,
            Error::Log(seawall::Error::Trimmed { first, .. }) => {
                Self::WalTruncated(crate::record::id(*first))
            }
            Error::Log(seawall::Error::Corrupt(_))
            | Error::Foreign { .. }
            | Error::OtherLog { .. }
            | Error::OtherDatabase { .. }
            | Error::Exists { .. }
            | Error::Behind { .. } => Self::DataError(Arc::new(error)),
            Error::Log(seawall::Error::TooLong { .. })
            | Error::SequenceNumbers
            | Error::Encode(_)
            | Error::Reader => Self::InternalError(Arc::new(error)),
            Error::Log(_) | Error::Store(_) => Self::Unavailable(Arc::new(error)),
        }
    }
}
