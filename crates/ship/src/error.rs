//! Defines the errors of shipping, archiving and restoring, with the remedies.
//!
//! Invariant: no error is recognised by its text; match on the variant.

use crate::failure::Failure;
use seawall::Lsn;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The error of a client library or of the operating system.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was refused or failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The log refused or failed.
    Log(Arc<seawall::Error>),
    /// An option is out of bounds, or makes no sense with another.
    Option {
        /// The option.
        option: &'static str,
        /// What it must be.
        reason: String,
    },
    /// A request to the destination failed, and trying again may help.
    Unavailable {
        /// What did not happen.
        what: String,
        /// The cause.
        source: Cause,
    },
    /// The destination cannot be used as it is.
    Unfit {
        /// Why, and the remedy.
        what: String,
    },
    /// A retention removed messages that this reader or writer had not read.
    Removed {
        /// The first of them.
        position: u64,
        /// The last of them.
        start: u64,
        /// The destination.
        address: String,
    },
    /// A message of the destination is missing or invalid.
    Damaged {
        /// Its position there.
        position: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A manifest of an archive is invalid. Nothing depends on it: what it states is read from the messages.
    Manifest {
        /// Its position.
        position: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Another writer has fenced this one at the destination: this one never writes there again.
    Replaced {
        /// The epoch that the other writer took.
        epoch: u64,
    },
    /// A second writer of this directory, or of a copy of it, has fenced this one. The log was not taken over.
    Second {
        /// The epoch that it took.
        epoch: u64,
    },
    /// Another process is shipping the log to the destination.
    InUse {
        /// The destination.
        address: String,
    },
    /// The destination belongs to the log of another directory: a copy, or one from before a restore.
    NotOwner,
    /// The address leads to another destination than the one that the log was shipped to.
    Other {
        /// Its address.
        address: String,
        /// The identity of the destination that the log was shipped to.
        known: String,
        /// The identity of this one.
        found: String,
    },
    /// The log is not the one in the destination, was cut, or has diverged.
    Diverged {
        /// Where the destination ends.
        lsn: Lsn,
        /// What was found there.
        what: String,
    },
    /// The destination lost messages that it had acknowledged.
    Lost {
        /// The last position that it had acknowledged.
        position: u64,
    },
    /// The destination replaced a message that it had acknowledged.
    Altered {
        /// The position.
        position: u64,
    },
    /// Another writer continued the destination from before the end of this log: the rest of this log is only here.
    Forked {
        /// Up to here both are the same.
        lsn: Lsn,
        /// Where this log ends.
        end: Lsn,
        /// Records between the two, which are only here.
        records: u64,
        /// The epoch of the other writer.
        epoch: u64,
    },
    /// A commit named a failure that neither the log nor a destination outlives.
    BeyondPromise {
        /// The failure.
        failure: Failure,
        /// What would be needed.
        why: String,
    },
    /// More is at risk than the policy allows.
    Behind {
        /// Records that the destination has not acknowledged.
        records: u64,
        /// How long the oldest of them has been durable here.
        waited: Duration,
    },
    /// The destination did not acknowledge a commit in time.
    TimedOut {
        /// The LSN that the commit waited for.
        lsn: Lsn,
    },
    /// Shipping has ended.
    Closed,
}

impl Error {
    /// A request that failed, and why.
    pub(crate) fn unavailable(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unavailable { what: what.into(), source: source.into().into() }
    }

    /// A destination that cannot be used, and the remedy.
    pub(crate) fn unfit(what: impl Into<String>) -> Self {
        Self::Unfit { what: what.into() }
    }

    /// Whether a retry may succeed.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

impl From<seawall::Error> for Error {
    fn from(error: seawall::Error) -> Self {
        Self::Log(Arc::new(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::Option { option, reason } => write!(f, "{option} {reason}"),
            Self::Unavailable { what, source } => write!(f, "{what} ({source})"),
            Self::Unfit { what } => f.write_str(what),
            Self::Removed { position, start, address } => write!(
                f,
                "a retention removed message {position} of {address} and those up to {start}, which this reader or writer had not read: \
                 restore from it, or start over"
            ),
            Self::Damaged { position, what } => {
                write!(f, "message {position} of the destination is damaged: {what}")
            }
            Self::Manifest { position, what } => write!(
                f,
                "the manifest at position {position} is invalid: {what}; the log is complete without it: remove the object \
                 manifests/{position:020}"
            ),
            Self::Replaced { epoch } => write!(
                f,
                "another writer has taken over the destination (epoch {epoch}): this log must not be written any more; \
                 `seawall log rebuild` restores it from the destination"
            ),
            Self::Second { epoch } => write!(
                f,
                "a second writer of this directory, or of a copy of it, has fenced this one (epoch {epoch}): run only one of them; nothing needs to be restored"
            ),
            Self::InUse { address } => {
                write!(f, "another process is shipping the log to {address} already: stop one of the two")
            }
            Self::NotOwner => f.write_str(
                "the destination belongs to the log of another directory: take it over with `seawall log rebuild`, or name a new \
                 destination",
            ),
            Self::Other { address, known, found } => write!(
                f,
                "{address} is another destination than the log was shipped to: expected {known}, found {found}; name the original or a \
                 new one, and find out what happened to the original"
            ),
            Self::Diverged { lsn, what } => write!(
                f,
                "the log does not continue the destination, which ends at LSN {lsn}: {what}; restore from the destination, \
                 or name a new one"
            ),
            Self::Lost { position } => write!(
                f,
                "the destination lost messages that it had acknowledged, up to position {position}: name a new destination, \
                 and find out what happened to this one"
            ),
            Self::Altered { position } => write!(
                f,
                "message {position} of the destination is not the one that it had acknowledged: it was rolled back, or is another destination; \
                 name a new one, and find out what happened to this one"
            ),
            Self::Forked { lsn, end, records, epoch } => write!(
                f,
                "the log has forked: another writer (epoch {epoch}) continued from LSN {lsn}; {records} records of this log, LSN {lsn} to \
                 {end}, are only here: `seawall log cat DIR --from {lsn}` prints them"
            ),
            Self::BeyondPromise { failure, why } => {
                write!(f, "no commit of this log outlives {}: {why}", failure.name())
            }
            Self::Behind { records, waited } => {
                let seconds = waited.as_secs_f64();
                write!(f, "{records} records are at risk, the oldest for {seconds:.1} s: more than the policy allows")
            }
            Self::TimedOut { lsn } => {
                write!(f, "LSN {lsn} was not acknowledged in time; it may be later")
            }
            Self::Closed => f.write_str("shipping has ended"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Log(error) => Some(error.as_ref()),
            Self::Unavailable { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
