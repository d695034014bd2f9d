//! Defines the errors that prevent a power-cut test from running or being judged, with their remedies.
//!
//! Invariant: no error is a verdict. Data loss is reported by a [`crate::verdict::Judgement`], never by an error.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be done.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    Io {
        /// What was being done, as a verb.
        operation: &'static str,
        /// The file, directory or address it was done to.
        place: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The token file is not what it must be.
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The other side does not know the token, or its message was changed on the way.
    NotAuthentic {
        /// The other side's address.
        peer: String,
    },
    /// The other side did not answer in time.
    Silent {
        /// The other side's address.
        peer: String,
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
    /// The other side closed the connection.
    Gone {
        /// The other side's address.
        peer: String,
    },
    /// The other side sent a message that the protocol does not allow there.
    Protocol {
        /// What.
        what: String,
    },
    /// The witness refused, with its reason.
    Refused {
        /// Its words.
        text: String,
    },
    /// The request cannot be fulfilled; the text gives the reason and the remedy.
    Request(String),
    /// A commit failed.
    Commit(seawall_sys::Error),
    /// The log failed.
    Log(seawall::Error),
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, place: path.display().to_string(), source }
    }
}

/// What can be done about what the system answered, where that is known.
fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AddrInUse => {
            "; is a witness running there already? choose another address with --listen"
        }
        io::ErrorKind::AddrNotAvailable => "; --listen wants an address of this host, and a port",
        io::ErrorKind::ConnectionRefused => "; start `seawall powercut witness` there",
        _ => "",
    }
}

impl From<seawall::Error> for Error {
    fn from(error: seawall::Error) -> Self {
        Self::Log(error)
    }
}

impl From<seawall_sys::Error> for Error {
    fn from(error: seawall_sys::Error) -> Self {
        Self::Commit(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { operation, place, source } => {
                write!(f, "cannot {operation} {place}: {source}")?;
                f.write_str(remedy(source.kind()))
            }
            Self::Token { path, what } => write!(
                f,
                "the token file {} {what}; make one by `head -c 32 /dev/urandom | base64 > {}` and copy it to the \
                 other host",
                path.display(),
                path.display()
            ),
            Self::NotAuthentic { peer } => write!(
                f,
                "{peer} does not hold the same token, or its message was changed on the way; give both sides the \
                 same --token-file"
            ),
            Self::Silent { peer, seconds } => write!(
                f,
                "{peer} sent nothing for {seconds} s; is the witness running there, and does the network let it through?"
            ),
            Self::Gone { peer } => {
                write!(f, "{peer} closed the connection; look at what the witness printed")
            }
            Self::Protocol { what } => {
                write!(f, "{what}; are both sides of the same version of seawall?")
            }
            Self::Refused { text } => write!(f, "the witness refused: {text}"),
            Self::Request(text) => f.write_str(text),
            Self::Commit(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Commit(error) => Some(error),
            Self::Log(error) => Some(error),
            _ => None,
        }
    }
}
