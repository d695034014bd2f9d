//! Defines the errors of shipping, archiving and restoring, with the remedies.
//!
//! Invariant: no error is recognised by its text; match on the variant.

use crate::failure::Failure;
use seawall::Lsn;
use std::sync::Arc;
use std::time::Duration;

/// The error of a client library or of the operating system.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something was refused or failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log refused or failed.
    #[error("{0}")]
    Log(#[source] Arc<seawall::Error>),
    /// An option is out of bounds, or makes no sense with another.
    #[error("{option} {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// What it must be.
        reason: String,
    },
    /// A request to the destination failed, and trying again may help.
    #[error("{what} ({source})")]
    Unavailable {
        /// What did not happen.
        what: String,
        /// The cause.
        source: Cause,
    },
    /// The destination cannot be used as it is.
    #[error("{what}")]
    Unfit {
        /// Why, and the remedy.
        what: String,
    },
    /// A retention removed messages that this reader or writer had not read.
    #[error(
        "a retention removed message {position} of {address} and those up to {start}, which this reader or writer had not read: \
         restore from it, or start over"
    )]
    Removed {
        /// The first of them.
        position: u64,
        /// The last of them.
        start: u64,
        /// The destination.
        address: String,
    },
    /// A message of the destination is missing or invalid.
    #[error("message {position} of the destination is damaged: {what}")]
    Damaged {
        /// Its position there.
        position: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A manifest of an archive is invalid. Nothing depends on it: what it states is read from the messages.
    #[error(
        "the manifest at position {position} is invalid: {what}; the log is complete without it: remove the object \
         manifests/{position:020}"
    )]
    Manifest {
        /// Its position.
        position: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Another writer has fenced this one at the destination: this one never writes there again.
    #[error(
        "another writer has taken over the destination (epoch {epoch}): this log must not be written any more; \
         `seawall log rebuild` restores it from the destination"
    )]
    Replaced {
        /// The epoch that the other writer took.
        epoch: u64,
    },
    /// A second writer of this directory, or of a copy of it, has fenced this one. The log was not taken over.
    #[error(
        "a second writer of this directory, or of a copy of it, has fenced this one (epoch {epoch}): run only one of them; nothing needs to be restored"
    )]
    Second {
        /// The epoch that it took.
        epoch: u64,
    },
    /// Another process is shipping the log to the destination.
    #[error("another process is shipping the log to {address} already: stop one of the two")]
    InUse {
        /// The destination.
        address: String,
    },
    /// The destination belongs to the log of another directory: a copy, or one from before a restore.
    #[error(
        "the destination belongs to the log of another directory: take it over with `seawall log rebuild`, or name a new \
         destination"
    )]
    NotOwner,
    /// The address leads to another destination than the one that the log was shipped to.
    #[error(
        "{address} is another destination than the log was shipped to: expected {known}, found {found}; name the original or a \
         new one, and find out what happened to the original"
    )]
    Other {
        /// Its address.
        address: String,
        /// The identity of the destination that the log was shipped to.
        known: String,
        /// The identity of this one.
        found: String,
    },
    /// The log is not the one in the destination, was cut, or has diverged.
    #[error(
        "the log does not continue the destination, which ends at LSN {lsn}: {what}; restore from the destination, \
         or name a new one"
    )]
    Diverged {
        /// Where the destination ends.
        lsn: Lsn,
        /// What was found there.
        what: String,
    },
    /// The destination lost messages that it had acknowledged.
    #[error(
        "the destination lost messages that it had acknowledged, up to position {position}: name a new destination, \
         and find out what happened to this one"
    )]
    Lost {
        /// The last position that it had acknowledged.
        position: u64,
    },
    /// The destination replaced a message that it had acknowledged.
    #[error(
        "message {position} of the destination is not the one that it had acknowledged: it was rolled back, or is another destination; \
         name a new one, and find out what happened to this one"
    )]
    Altered {
        /// The position.
        position: u64,
    },
    /// Another writer continued the destination from before the end of this log: the rest of this log is only here.
    #[error(
        "the log has forked: another writer (epoch {epoch}) continued from LSN {lsn}; {records} records of this log, LSN {lsn} to \
         {end}, are only here: `seawall log cat DIR --from {lsn}` prints them"
    )]
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
    #[error("no commit of this log outlives {}: {why}", .failure.name())]
    BeyondPromise {
        /// The failure.
        failure: Failure,
        /// What would be needed.
        why: String,
    },
    /// More is at risk than the policy allows.
    #[error("{records} records are at risk, the oldest for {:.1} s: more than the policy allows", .waited.as_secs_f64())]
    Behind {
        /// Records that the destination has not acknowledged.
        records: u64,
        /// How long the oldest of them has been durable here.
        waited: Duration,
    },
    /// The destination did not acknowledge a commit in time.
    #[error("LSN {lsn} was not acknowledged in time; it may be later")]
    TimedOut {
        /// The LSN that the commit waited for.
        lsn: Lsn,
    },
    /// Shipping has ended.
    #[error("shipping has ended")]
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
