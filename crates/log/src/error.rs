//! Defines the log's errors; each names the operation, the file and the operating system's error.
//!
//! No error is recognised by its text: match on the variant.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_sys::OpenError;
use seawall_sys::method::Method;

use crate::format::segment_name;
use crate::lsn::Lsn;
use crate::stream::StreamId;

/// A place in the log where acknowledged data is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The damaged segment.
    pub path: PathBuf,
    /// Where in the segment the damaged batch starts, in bytes.
    pub offset: u64,
    /// The LSN of the first record that cannot be read.
    pub lsn: Lsn,
    /// What is wrong there.
    pub what: String,
}

impl Damage {
    /// What is wrong in segment `number` at `offset`, bytes, where the log is at `lsn`.
    pub(crate) fn in_segment(number: u64, offset: u64, lsn: Lsn, what: impl Into<String>) -> Self {
        Self { path: segment_name(number).into(), offset, lsn, what: what.into() }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {} (LSN {}): {}", self.path.display(), self.offset, self.lsn, self.what)
    }
}

/// Any failure of the log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    Io {
        /// The operation, as a verb: `open`, `write`, `sync`.
        operation: &'static str,
        /// The file or directory it was done to.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// No space is left for another segment. Nothing was written and the log stays open; retry when there is space.
    DiskFull {
        /// The file that could not be prepared.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The log has reached [`crate::Options::disk_bytes_max`], and another segment does not fit.
    /// Nothing was written and an open log stays open. Trim it, or open it with a larger bound.
    DiskCap {
        /// The directory.
        path: PathBuf,
        /// The bound in bytes.
        bytes_max: u64,
        /// What the log takes now, in bytes.
        disk_bytes: u64,
        /// The size of the segment that is needed, in bytes.
        needed: u64,
    },
    /// Another writer holds the log.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A write or a sync failed earlier; its outcome is unknown. Reopen the log to learn what is durable.
    Failed {
        /// The first failure.
        cause: Arc<Error>,
    },
    /// Acknowledged data is damaged. It is never cut off silently: `verify` reports it, `salvage` copies what is
    /// intact.
    Corrupt(Damage),
    /// A segment was written by a newer version of this library.
    NewerFormat {
        /// The segment.
        path: PathBuf,
        /// Its format version.
        version: u16,
    },
    /// A segment was written by an earlier version of this library in a format that this one does not read.
    OlderFormat {
        /// The segment.
        path: PathBuf,
        /// Its format version.
        version: u16,
    },
    /// A segment uses a feature of the format that this library does not have.
    UnknownFeature {
        /// The segment.
        path: PathBuf,
        /// What it needs, in words.
        feature: String,
    },
    /// The directory contains segments of different logs.
    ForeignSegment {
        /// A segment of another log than the last segment's.
        path: PathBuf,
    },
    /// A foreign file in the directory has the name of a segment.
    ForeignFile {
        /// The file.
        path: PathBuf,
    },
    /// Another log has replaced the one that was followed.
    OtherLog {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds no log.
    NotALog {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds an unfinished restore, copy or standby, which is not a log before it is finished.
    Rebuilding {
        /// The directory.
        path: PathBuf,
    },
    /// The disk's sectors are larger than the log's blocks. Nothing was changed; the log can be read and copied.
    BlocksTooSmall {
        /// The file that was to be written.
        path: PathBuf,
        /// Size of the log's blocks in bytes.
        block_bytes: u16,
        /// Size of the disk's sectors in bytes.
        sector_bytes: u64,
    },
    /// The record or transaction is longer than the log accepts.
    TooLong {
        /// Its length in bytes.
        bytes: u64,
        /// The bound in bytes.
        bytes_max: u64,
    },
    /// The memory for appends is full, or no prepared segment has room, and the caller requested not to wait: nothing was
    /// accepted. See [`crate::Log::append_no_wait`].
    WouldBlock,
    /// A wait with a deadline ended without a result. Nothing was cancelled: what was appended before may
    /// become durable at any time. Wait for the same LSN again, or compare it with
    /// [`crate::Log::durable_lsn`]; only reopening the log makes certain that something is not durable.
    TimedOut {
        /// The LSN up to which a commit waited; of a follower, the LSN after which it waited for a record.
        lsn: Lsn,
        /// How long it waited.
        timeout: Duration,
    },
    /// The requested record was trimmed.
    Trimmed {
        /// The requested LSN.
        lsn: Lsn,
        /// The first LSN that is left.
        first: Lsn,
    },
    /// No record starts at the LSN, or none ends there, whichever was requested: it lies inside a record.
    NoRecord {
        /// The requested LSN.
        lsn: Lsn,
    },
    /// No batch ends at the LSN.
    NoBatch {
        /// The requested LSN.
        lsn: Lsn,
    },
    /// The LSN lies past the end of the log.
    BeyondEnd {
        /// The requested LSN.
        lsn: Lsn,
        /// The end of the log.
        end: Lsn,
    },
    /// A record of a stream was trimmed.
    StreamTrimmed {
        /// The stream.
        stream: StreamId,
        /// The sequence number that was named.
        seq: u64,
        /// The first one left.
        first: u64,
    },
    /// A record of a stream is missing, as in a log that was salvaged with a gap.
    StreamGap {
        /// The stream.
        stream: StreamId,
        /// The sequence number that is missing.
        seq: u64,
        /// The next one that exists.
        next: u64,
    },
    /// A stream has no durable record of this sequence number yet.
    StreamEnd {
        /// The stream.
        stream: StreamId,
        /// The sequence number that was named.
        seq: u64,
        /// The one that the next record gets, or that of the next record to become durable.
        next: u64,
    },
    /// A commit requested a higher durability class than the log promises.
    BeyondPromise {
        /// The requested class.
        requested: seawall_sys::durability::Durability,
        /// The class that the log was opened with.
        promised: seawall_sys::durability::Durability,
    },
    /// An option lies outside its bounds.
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What it must be, and why.
        reason: String,
    },
    /// The log was closed.
    Closed,
    /// This process is a fork of the one that opened the log, which still uses it.
    Forked,
}

/// The result of an operation on the log.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An operating system error, turned into [`Error::DiskFull`] if it says that.
    pub(crate) fn io(operation: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        if is_full(&source) { Self::DiskFull { path, source } } else { Self::Io { operation, path, source } }
    }

    /// The same error with its path inside `dir`, where the core knew file names only.
    pub(crate) fn in_dir(mut self, dir: &Path) -> Self {
        match &mut self {
            Self::Io { path, .. }
            | Self::DiskFull { path, .. }
            | Self::DiskCap { path, .. }
            | Self::Locked { path }
            | Self::NewerFormat { path, .. }
            | Self::OlderFormat { path, .. }
            | Self::UnknownFeature { path, .. }
            | Self::ForeignSegment { path }
            | Self::ForeignFile { path }
            | Self::NotALog { path }
            | Self::Rebuilding { path }
            | Self::BlocksTooSmall { path, .. }
            | Self::Corrupt(Damage { path, .. }) => {
                // The core calls the directory itself ".".
                *path = if path.as_os_str() == "." { dir.to_path_buf() } else { dir.join(&path) };
            }
            _ => {}
        }
        self
    }

    /// The name of the variant in snake case, the same in every language binding.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Io { .. } => "io",
            Self::DiskFull { .. } => "disk_full",
            Self::DiskCap { .. } => "disk_cap",
            Self::Locked { .. } => "locked",
            Self::Failed { .. } => "failed",
            Self::Corrupt(_) => "corrupt",
            Self::NewerFormat { .. } => "newer_format",
            Self::OlderFormat { .. } => "older_format",
            Self::UnknownFeature { .. } => "unknown_feature",
            Self::ForeignSegment { .. } => "foreign_segment",
            Self::ForeignFile { .. } => "foreign_file",
            Self::OtherLog { .. } => "other_log",
            Self::NotALog { .. } => "not_a_log",
            Self::Rebuilding { .. } => "rebuilding",
            Self::BlocksTooSmall { .. } => "blocks_too_small",
            Self::TooLong { .. } => "too_long",
            Self::WouldBlock => "would_block",
            Self::TimedOut { .. } => "timed_out",
            Self::Trimmed { .. } => "trimmed",
            Self::NoRecord { .. } => "no_record",
            Self::NoBatch { .. } => "no_batch",
            Self::BeyondEnd { .. } => "beyond_end",
            Self::StreamTrimmed { .. } => "stream_trimmed",
            Self::StreamGap { .. } => "stream_gap",
            Self::StreamEnd { .. } => "stream_end",
            Self::BeyondPromise { .. } => "beyond_promise",
            Self::InvalidOption { .. } => "invalid_option",
            Self::Closed => "closed",
            Self::Forked => "forked",
        }
    }

    /// The operating system's error number, if there is one.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. } | Self::DiskFull { source, .. } => source.raw_os_error(),
            Self::Failed { cause } => cause.raw_os_error(),
            _ => None,
        }
    }
}

/// Whether `error` says that there is no space: disk or quota.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Error {
    /// Why there is nothing at a place of the log or of a stream.
    fn fmt_place(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StreamTrimmed { stream, seq, first } => {
                write!(f, "record {seq} of stream {stream} was trimmed, the first one left is {first}")
            }
            Self::StreamGap { stream, seq, next } => {
                write!(f, "record {seq} of stream {stream} is missing: the next one is {next}")
            }
            Self::StreamEnd { stream, seq, next } => {
                write!(f, "stream {stream} has no durable record {seq}: it continues with {next}")
            }
            Self::BeyondEnd { lsn, end } => write!(f, "LSN {lsn} lies past the end of the log, {end}"),
            Self::NoBatch { lsn } => write!(f, "no batch of the log ends at LSN {lsn}"),
            Self::NoRecord { lsn } => {
                write!(f, "LSN {lsn} is inside a record: name one where a record starts or ends")
            }
            Self::Trimmed { lsn, first } => write!(f, "LSN {lsn} was trimmed, the first one left is {first}"),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Display for Error {
    #[expect(clippy::too_many_lines, reason = "a table: each kind and its text")]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io { operation, path, source } => {
                write!(f, "cannot {operation} {}: {source}", path.display())
            }
            Self::DiskFull { path, source } => write!(
                f,
                "no space for {}: {source}; nothing was written: free space and retry",
                path.display()
            ),
            Self::DiskCap { path, bytes_max, disk_bytes, needed } => write!(
                f,
                "the log in {} takes {disk_bytes} bytes of at most {bytes_max}, and a segment of {needed} more does not fit \
                 beside the reserve for openings and trims; nothing was written: trim the log, drop its pins, or open it \
                 with a larger Options::disk_bytes_max",
                path.display()
            ),
            Self::Locked { path } => {
                write!(
                    f,
                    "{} or its directory is locked, by another writer or by a process that blocks writers: close it \
                     first (lslocks names it)",
                    path.display()
                )
            }
            Self::Failed { cause } => write!(f, "the log failed earlier and must be reopened: {cause}"),
            Self::Corrupt(damage) => write!(
                f,
                "acknowledged data is damaged: {damage}; `seawall log verify` reports all of it, \
                 `seawall log salvage` copies what is intact"
            ),
            Self::NewerFormat { path, version } => write!(
                f,
                "{} has format version {version}, this library reads up to {}: use a newer one",
                path.display(),
                crate::format::FORMAT_VERSION
            ),
            Self::OlderFormat { path, version } => write!(
                f,
                "{} has format version {version}, this library reads version {}: print the records with the version \
                 that wrote them (`seawall log cat --format raw`) and append them to a new log",
                path.display(),
                crate::format::FORMAT_VERSION
            ),
            Self::UnknownFeature { path, feature } => {
                write!(f, "{} needs {feature}, which this library does not have: use a newer one", path.display())
            }
            Self::ForeignSegment { path } => {
                // Which of the two is the foreign one is unknown here.
                let path = path.display();
                write!(
                    f,
                    "{path} and the last segment belong to different logs: move the foreign one out"
                )
            }
            Self::ForeignFile { path } => write!(
                f,
                "{} has a segment's name but does not belong to the log: move it out of the directory",
                path.display()
            ),
            Self::OtherLog { path } => {
                write!(f, "another log has replaced the one at {}: follow it from its beginning", path.display())
            }
            Self::NotALog { path } => write!(f, "{} holds no log", path.display()),
            Self::Rebuilding { path } => write!(
                f,
                "{} holds an unfinished restore, backup or standby: `seawall log takeover` completes a standby and fences its old writer; \
                 start an interrupted restore or backup again, or name another folder",
                path.display()
            ),
            Self::BlocksTooSmall { path, block_bytes, sector_bytes } => write!(
                f,
                "{} has blocks of {block_bytes} bytes, but its disk has sectors of {sector_bytes}: create \
                 a log here with Options::block_bytes({sector_bytes}); `seawall log salvage` copies one that exists \
                 into one with larger blocks",
                path.display()
            ),
            Self::TooLong { bytes, bytes_max } => {
                write!(f, "{bytes} bytes are more than the bound of {bytes_max}")
            }
            Self::WouldBlock => f.write_str(
                "the memory for appends is full, the next segment is not ready, or another thread holds the log's lock and \
                 the caller does not wait; nothing was accepted: retry, at the latest when a commit has ended",
            ),
            Self::TimedOut { lsn, timeout } => write!(
                f,
                "timed out after {timeout:?} waiting for LSN {lsn}; nothing was cancelled, and what was appended may still \
                 become durable: wait for it again"
            ),
            Self::StreamTrimmed { .. }
            | Self::StreamGap { .. }
            | Self::StreamEnd { .. }
            | Self::NoBatch { .. }
            | Self::NoRecord { .. }
            | Self::Trimmed { .. }
            | Self::BeyondEnd { .. } => self.fmt_place(f),
            Self::BeyondPromise { requested, promised } => write!(
                f,
                "a commit requested durability class {}, but this log was opened with {}: open it with \
                 Options::durability({requested:?})",
                requested.name(),
                promised.name()
            ),
            Self::InvalidOption { option, reason } => write!(f, "option {option}: {reason}"),
            Self::Closed => f.write_str("the log was closed"),
            Self::Forked => f.write_str(
                "this process is a fork of the one that opened the log: use the log there, or open it here when it is \
                 closed there",
            ),
        }
    }
}

/// An error of the system crate as one of the log's.
pub(crate) fn from_system(error: &seawall_sys::Error) -> Error {
    let own = || std::io::Error::new(error.kind(), error.source_text());
    let source = error.raw_os_error().map_or_else(own, std::io::Error::from_raw_os_error);
    Error::io(error.operation(), error.path(), source)
}

/// Why a row of the method table could not be opened, as an error of the log.
pub(crate) fn from_open(error: OpenError, method: &Method, path: &Path) -> Error {
    match error {
        OpenError::Failed(error) => from_system(&error),
        OpenError::Unavailable(reason) => Error::InvalidOption {
            option: "method",
            reason: format!("{} is not available at {}: {reason}", method.id, path.display()),
        },
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::DiskFull { source, .. } => Some(source),
            Self::Failed { cause } => Some(cause),
            _ => None,
        }
    }
}
