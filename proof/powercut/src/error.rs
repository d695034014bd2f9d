//! Defines the errors that prevent a power-cut test from running or being judged, with their remedies.
//!
//! Invariant: no error is a verdict. Data loss is reported by a [`crate::verdict::Judgement`], never by an error.

use std::io;
use std::path::Path;
use std::process::ExitStatus;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("cannot {operation} {place}: {source}")]
    Io {
        /// What was being done, as a verb.
        operation: &'static str,
        /// The file, directory or address it was done to.
        place: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The program that reaches the witness cannot be started.
    #[error(
        "cannot start `{command}`, which reaches the witness: {source}; install that program, or name another one by --witness-command"
    )]
    Start {
        /// The command.
        command: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The witness did not answer in time.
    #[error(
        "`{witness}` said nothing for {seconds} s; does the network reach that host, and is the witness alive?"
    )]
    Silent {
        /// The command that reaches it.
        witness: String,
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
    /// The program that reaches the witness ended, or closed its input or output.
    #[error("`{witness}`, which reaches the witness, {}; {}", ended(*status), remedy(witness, *status))]
    Gone {
        /// The command.
        witness: String,
        /// How it ended, if it did.
        status: Option<ExitStatus>,
    },
    /// The other side sent a message that the protocol does not allow there.
    #[error("{what}; are both sides of the same version of seawall?")]
    Protocol {
        /// What.
        what: String,
    },
    /// The witness refused, with its reason.
    #[error("the witness refused: {text}")]
    Refused {
        /// Its words.
        text: String,
    },
    /// The request cannot be fulfilled; the text gives the reason and the remedy.
    #[error("{0}")]
    Request(String),
    /// A commit failed.
    #[error("{0}")]
    Commit(#[from] seawall_sys::Error),
    /// The log failed.
    #[error("{0}")]
    Log(#[from] seawall::Error),
}

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(operation: &'static str, place: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Io { operation, place: place.as_ref().display().to_string(), source }
    }
}

fn ended(status: Option<ExitStatus>) -> String {
    status.map_or("closed its end".to_owned(), |status| format!("ended ({status})"))
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
