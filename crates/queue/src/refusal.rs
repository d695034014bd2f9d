//! Carries the errors of the owner to handles of other processes, so that an error is of one kind whichever process has the log.
//!
//! Paths stay behind: both have the directory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use seawall::Error as LogError;

use crate::error::Error;

/// What a log's operations are called in its errors.
const OPERATIONS: [&str; 8] =
    ["write", "sync", "open", "create", "read", "rename", "remove", "start a thread for"];

/// An error of the owner.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Refusal {
    NoMessage {
        seq: u64,
    },
    Foreign,
    TooLong {
        bytes: u64,
        bytes_max: u64,
    },
    DiskCap {
        bytes_max: u64,
        disk_bytes: u64,
        needed: u64,
    },
    DiskFull(Io),
    Io(Io),
    /// The log has failed.
    Failed(Io),
    Other {
        reason: String,
    },
}

/// What the operating system refused.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Io {
    operation: String,
    /// Its name in the directory.
    file: String,
    os_error: Option<i32>,
    reason: String,
}

impl Io {
    fn of(operation: &str, path: &Path, source: &io::Error) -> Self {
        let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        Self {
            operation: operation.into(),
            file,
            os_error: source.raw_os_error(),
            reason: source.to_string(),
        }
    }

    fn source(&self) -> io::Error {
        self.os_error.map_or_else(|| io::Error::other(self.reason.clone()), io::Error::from_raw_os_error)
    }

    fn error(&self, dir: &Path) -> LogError {
        let operation = OPERATIONS.into_iter().find(|known| *known == self.operation).unwrap_or("use");
        LogError::Io { operation, path: dir.join(&self.file), source: self.source() }
    }
}

impl Refusal {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::NoMessage { seq } => Self::NoMessage { seq: *seq },
            Error::Foreign => Self::Foreign,
            Error::Log(LogError::TooLong { bytes, bytes_max }) => {
                Self::TooLong { bytes: *bytes, bytes_max: *bytes_max }
            }
            Error::Log(LogError::DiskCap { bytes_max, disk_bytes, needed, .. }) => {
                Self::DiskCap { bytes_max: *bytes_max, disk_bytes: *disk_bytes, needed: *needed }
            }
            Error::Log(LogError::DiskFull { path, source }) => Self::DiskFull(Io::of("write", path, source)),
            Error::Log(LogError::Io { operation, path, source }) => Self::Io(Io::of(operation, path, source)),
            Error::Log(LogError::Failed { cause }) => Self::Failed(match &**cause {
                LogError::Io { operation, path, source } => Io::of(operation, path, source),
                cause => Io::of("write", Path::new(""), &io::Error::other(cause.to_string())),
            }),
            error => Self::Other { reason: error.to_string() },
        }
    }

    /// The error again, of the queue in `dir`.
    pub(crate) fn error(&self, dir: &Path) -> Error {
        let path = dir.to_path_buf();
        Error::Log(match self {
            Self::NoMessage { seq } => return Error::NoMessage { seq: *seq },
            Self::Foreign => return Error::Foreign,
            Self::Other { reason } => return Error::Owner { reason: reason.clone() },
            Self::TooLong { bytes, bytes_max } => LogError::TooLong { bytes: *bytes, bytes_max: *bytes_max },
            Self::DiskCap { bytes_max, disk_bytes, needed } => {
                LogError::DiskCap { path, bytes_max: *bytes_max, disk_bytes: *disk_bytes, needed: *needed }
            }
            Self::DiskFull(io) => LogError::DiskFull { path: path.join(&io.file), source: io.source() },
            Self::Io(io) => io.error(dir),
            Self::Failed(io) => LogError::Failed { cause: Arc::new(io.error(dir)) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_same_name_and_words_in_another_process() {
        let dir = Path::new("jobs");
        let sync = || LogError::Io {
            operation: "sync",
            path: dir.join("1.seg"),
            source: io::Error::from_raw_os_error(5),
        };
        for error in [
            Error::NoMessage { seq: 7 },
            Error::Foreign,
            Error::Log(LogError::TooLong { bytes: 9, bytes_max: 8 }),
            Error::Log(LogError::DiskCap { path: dir.into(), bytes_max: 1, disk_bytes: 2, needed: 3 }),
            Error::Log(LogError::DiskFull {
                path: dir.join("1.seg"),
                source: io::ErrorKind::StorageFull.into(),
            }),
            Error::Log(sync()),
            Error::Log(LogError::Failed { cause: Arc::new(sync()) }),
        ] {
            let bytes = postcard::to_stdvec(&Refusal::of(&error)).expect("encodes");
            let there = postcard::from_bytes::<Refusal>(&bytes).expect("decodes").error(dir);
            assert_eq!((there.name(), there.to_string()), (error.name(), error.to_string()));
        }
        let other = Refusal::of(&Error::Log(LogError::Closed)).error(dir);
        assert!(matches!(&other, Error::Owner { reason } if reason.contains("closed")), "{other}");
    }
}
