//! Defines the errors of shipping, archiving and rebuilding, with the remedies.
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
    /// A retention removed messages that this reader or writer had not seen.
    Removed {
        /// The first of them.
        position: u64,
        /// The last of them.
        start: u64,
        /// The destination.
        address: String,
    },
    /// A message of the destination is missing or not sound.
    Damaged {
        /// Its position there.
        position: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A manifest of an archive is not sound. Nothing depends on it: what it states is read from the messages.
    Manifest {
        /// Its position.
        position: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Another writer has taken the right to write to the destination: this one never writes there again.
    Replaced {
        /// The term that the other writer took.
        term: u64,
    },
    /// A second writer of this directory, or of a copy of it, has taken the right to write. The log was not taken over.
    Second {
        /// The term that it took.
        term: u64,
    },
    /// The log is being shipped to the destination already.
    InUse {
        /// The destination.
        address: String,
    },
    /// The destination belongs to the log of another directory: one that was copied, or from before a rebuild.
    NotOwner,
    /// It is another destination of the same address than the log was shipped to.
    Other {
        /// Its address.
        address: String,
        /// What tells the one that the log was shipped to from others.
        known: String,
        /// The same of this one.
        found: String,
    },
    /// The log is not the one in the destination, or was cut short, or went another way.
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
    /// Another message lies where the destination had acknowledged one.
    Altered {
        /// The position.
        position: u64,
    },
    /// Another writer has continued the destination elsewhere than this log went on: some of it is only here.
    Forked {
        /// Where both were still the same.
        lsn: Lsn,
        /// Where this log ends.
        end: Lsn,
        /// Records in between, which are only here.
        records: u64,
        /// The term of the other writer.
        term: u64,
    },
    /// A commit named a failure that nothing here outlives.
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
        /// For how long the oldest of them has been durable here.
        waited: Duration,
    },
    /// The wait for a commit was over before the destination had acknowledged.
    TimedOut {
        /// Up to where it waited.
        lsn: Lsn,
    },
    /// Shipping was ended.
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

    /// Whether the same may succeed later.
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
                "a retention removed message {position} of {address} and those up to {start}, which this reader or writer had not seen: \
                 rebuild from it, or begin again"
            ),
            Self::Damaged { position, what } => {
                write!(f, "message {position} of the destination is damaged: {what}")
            }
            Self::Manifest { position, what } => write!(
                f,
                "the manifest at position {position} is not sound: {what}; the log is whole without it, so remove the object \
                 manifests/{position:020}"
            ),
            Self::Replaced { term } => write!(
                f,
                "another writer has taken over the destination (term {term}): this log must not be written any more; \
                 rebuild from the destination to go on here"
            ),
            Self::Second { term } => write!(
                f,
                "a second writer of this directory, or of a copy of it, has taken the right to write (term {term}): let one of them run;                  nobody took the log over, and nothing needs to be rebuilt"
            ),
            Self::InUse { address } => {
                write!(f, "the log is being shipped to {address} already: end that process first, or leave it be")
            }
            Self::NotOwner => f.write_str(
                "the destination belongs to the log of another directory: rebuild from it to take it over, or name a new \
                 destination",
            ),
            Self::Other { address, known, found } => write!(
                f,
                "{address} is another destination than the log was shipped to ({known}; this one is {found}): name the servers of \
                 that one, or a new destination, and look for what happened to the old one"
            ),
            Self::Diverged { lsn, what } => write!(
                f,
                "the log does not continue what the destination holds up to LSN {lsn}: {what}; rebuild from the destination, \
                 or name a new one"
            ),
            Self::Lost { position } => write!(
                f,
                "the destination lost messages that it had acknowledged, up to position {position}: name a new destination, \
                 and look for what happened to this one"
            ),
            Self::Altered { position } => write!(
                f,
                "message {position} of the destination is not the one that it had acknowledged: it was set back to an earlier state, or is                  another place; name a new destination, and look for what happened to this one"
            ),
            Self::Forked { lsn, end, records, term } => write!(
                f,
                "the log is forked: both are the same up to LSN {lsn}, there another writer went on (term {term}); {records} records of \
                 this log, LSN {lsn} to {end}, are only here: `seawall log cat DIR --from {lsn}` prints them"
            ),
            Self::BeyondPromise { failure, why } => {
                write!(f, "no commit of this log outlives {}: {why}", failure.name())
            }
            Self::Behind { records, waited } => {
                let seconds = waited.as_secs_f64();
                write!(f, "{records} records are at risk, the oldest for {seconds:.1} s: more than the policy allows")
            }
            Self::TimedOut { lsn } => {
                write!(f, "no acknowledgement up to LSN {lsn} in time; it may still come")
            }
            Self::Closed => f.write_str("shipping was ended"),
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
