//! Defines the errors that prevent a power-cut test from running or being judged, with their remedies.
//!
//! Invariant: no error is a verdict. Data loss is reported by a [`crate::verdict::Judgement`], never by an error.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitStatus;

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
    /// The program that reaches the witness cannot be started.
    Start {
        /// The command.
        command: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The witness did not answer in time.
    Silent {
        /// The command that reaches it.
        witness: String,
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
    /// The program that reaches the witness ended, or closed its input or output.
    Gone {
        /// The command.
        witness: String,
        /// How it ended, if it did.
        status: Option<ExitStatus>,
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
    pub(crate) fn io(operation: &'static str, place: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Io { operation, place: place.as_ref().display().to_string(), source }
    }
}

/// What can be done about a program that ended like this.
fn remedy(witness: &str, status: Option<ExitStatus>) -> &'static str {
    let is_ssh = witness.starts_with("ssh ");
    match status.and_then(|status| status.code()) {
        Some(255) if is_ssh => {
            "ssh got no connection, or lost it: `ssh -o BatchMode=yes HOST true` must work without a password"
        }
        Some(127) if is_ssh => {
            "a shell on that host finds no seawall: install it in a folder of its PATH, or say by --witness-command \
             where it is"
        }
        _ => "look at what it printed",
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
            Self::Io { operation, place, source } => write!(f, "cannot {operation} {place}: {source}"),
            Self::Start { command, source } => write!(
                f,
                "cannot start `{command}`, which reaches the witness: {source}; install that program, or name another \
                 one by --witness-command"
            ),
            Self::Silent { witness, seconds } => write!(
                f,
                "`{witness}` said nothing for {seconds} s; does the network reach that host, and is the witness alive?"
            ),
            Self::Gone { witness, status } => {
                let how = status.map_or("closed its end".to_owned(), |status| format!("ended ({status})"));
                write!(f, "`{witness}`, which reaches the witness, {how}; {}", remedy(witness, *status))
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
            Self::Io { source, .. } | Self::Start { source, .. } => Some(source),
            Self::Commit(error) => Some(error),
            Self::Log(error) => Some(error),
            _ => None,
        }
    }
}
