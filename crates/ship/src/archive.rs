//! Archives a log to an object store: a destination whose messages are objects that are created once and never changed.
//!
//! ```text
//! PREFIX/messages/00000000000000000001    a message each, by position
//! PREFIX/starts/00000000000000000038      what the chain was at position 38: everything up to there may be gone
//! PREFIX/manifests/00000000000000000037   what the chain is in front of position 38, where a segment of the log begins
//! PREFIX/probe-…                          while it is tried what the store can do
//! ```
//!
//! An object holds the batches of one parcel: as many as were gathered up to a size or an age, or to the end of a segment. The
//! chain of the messages is what makes an object that is missing or changed known; a start carries it on where older
//! objects were removed.
//!
//! Creating an object only if there is none of its name is the compare-and-append: one is on its way at a time, so that there is
//! never one without the one before it.
//!
//! Invariants: no object is overwritten; nothing is removed before the start that takes its place is stored; what is removed is of
//! no use to a rebuild of what is kept, because the log itself had trimmed it.

use crate::destination::{Answer, Destination};
use crate::error::{Error, Result};
use crate::failure::{Facts, Synced};
use crate::manifest::Index;
use crate::message::Chain;
use crate::note::{Note, hex, random};
use crate::retention::{Keep, Removed};
use crate::writer::Outcome;
use seawall::RebuildTo;
use std::sync::Arc;
use std::time::Duration;

/// A store of objects.
pub trait Store: Send {
    /// What it is called, and whether it lies on this machine.
    fn name(&self) -> (String, bool);

    /// Its address without credentials.
    fn address(&self) -> String;

    /// Stores an object durably if there is none of that name; returns whether there was none.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: it may be stored or not.
    fn create(&mut self, name: &str, bytes: &[u8]) -> Result<bool>;

    /// An object, or its first `limit` bytes; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    fn get(&mut self, name: &str, limit: Option<usize>) -> Result<Option<Vec<u8>>>;

    /// The names that begin with `prefix` and come behind `after`, in order.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    fn list(&mut self, prefix: &str, after: &str) -> Result<Vec<String>>;

    /// Removes an object, if there is one.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    fn remove(&mut self, name: &str) -> Result<()>;
}

/// How an archive is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// Batches are gathered up to so many bytes.
    pub object_bytes: usize,
    /// Its owner says that it lies at another site.
    pub elsewhere: bool,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self { object_bytes: 8 << 20, elsewhere: false }
    }
}

/// The most that is gathered into one object, in bytes.
pub const OBJECT_BYTES_MAX: usize = 256 << 20;

pub(crate) const MESSAGES: &str = "messages/";
pub(crate) const STARTS: &str = "starts/";

pub(crate) fn message_name(position: u64) -> String {
    format!("{MESSAGES}{position:020}")
}

/// A log's archive.
pub struct Archive<S> {
    store: S,
    facts: Facts,
    /// The last position that was listed.
    known_last: u64,
}

impl<S: Store> std::fmt::Debug for Archive<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive").field("address", &self.store.address()).finish_non_exhaustive()
    }
}

impl<S: Store> Archive<S> {
    /// An archive in `store`, for reading or writing.
    pub fn new(store: S, settings: ArchiveSettings) -> Self {
        let (name, on_this_machine) = store.name();
        let facts = Facts {
            name,
            acknowledged_by: 1,
            laggard_may_lead: false,
            synced: Synced::Before,
            setting: "an object is durable when its creation is answered".to_owned(),
            on_this_machine,
            elsewhere: settings.elsewhere,
            keeps_copies: !on_this_machine,
            // An object and the longest batch behind it, so that none is cut into parts.
            message_bytes_max: OBJECT_BYTES_MAX + (3 << 29),
            in_flight_max: 1,
            gather_bytes: settings.object_bytes.clamp(1, OBJECT_BYTES_MAX),
        };
        Self { store, facts, known_last: 0 }
    }

    /// Tries what an archive stands on: that an object is created once, listed as soon as it is there, read in part, removed.
    ///
    /// # Errors
    /// [`Error::Unfit`] names what the store does not do.
    pub fn probe(&mut self) -> Result<()> {
        let name = format!("probe-{}", hex(&random::<8>()?));
        let outcome = self.probe_with(&name);
        let removed = self.store.remove(&name);
        outcome.and(removed)
    }

    fn probe_with(&mut self, name: &str) -> Result<()> {
        let (first, second) = (b"the first of two objects".as_slice(), b"the second of two".as_slice());
        let cannot = |what: &str| {
            Err(Error::unfit(format!("{} {what}: it is no store for an archive", self.facts.name)))
        };
        if !self.store.create(name, first)? {
            return cannot("says that a new object was there already");
        }
        if self.store.create(name, second)? || self.store.get(name, None)?.as_deref() != Some(first) {
            return cannot("creates an object although there is one of that name");
        }
        if self.store.list("probe-", "")?.iter().all(|listed| listed != name) {
            return cannot("does not list an object that it has just stored");
        }
        if self.store.get(name, Some(9))?.as_deref() != Some(&first[..9]) {
            return cannot("does not read a part of an object");
        }
        Ok(())
    }

    /// How many requests a day a writer makes at most, for a log that writes `bytes_per_day`: each message is created, then `starts/`
    /// is listed. The manifest of each segment is one more.
    #[must_use]
    pub fn requests_per_day(&self, gather_time: Duration, bytes_per_day: u64) -> u64 {
        let by_time = Duration::from_hours(24).as_millis() / gather_time.as_millis().max(1);
        let by_size = bytes_per_day / self.facts.gather_bytes as u64;
        u64::try_from(by_time).unwrap_or(u64::MAX).saturating_add(by_size).saturating_mul(2)
    }

    /// The store.
    pub fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// What the chain is where the oldest objects begin.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Unfit`] if a start cannot be understood.
    pub fn start(&mut self) -> Result<Chain> {
        let Some(name) = self.store.list(STARTS, "")?.pop() else { return Ok(Chain::default()) };
        let text = self.store.get(&name, None)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let parsed = Note::parse(&text).map(|note| note.chain);
        parsed.ok_or_else(|| Error::unfit(format!("{name} in {} is not understood", self.store.address())))
    }
}

impl<S: Store> Destination for Archive<S> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn address(&self) -> String {
        self.store.address()
    }

    fn append(&mut self, position: u64, bytes: Arc<[u8]>, answer: Answer) {
        let name = message_name(position);
        let created = self.store.create(&name, &bytes);
        let outcome = match created {
            // The name may be one that a retention removed.
            Ok(true) => match self.refuse_removed(position) {
                Ok(()) => Outcome::Stored,
                Err(Error::Unavailable { .. }) => Outcome::Unknown,
                Err(error) => {
                    tracing::warn!(%error, "the object does not count");
                    self.store.remove(&name).map_or(Outcome::Unknown, |()| Outcome::Refused)
                }
            },
            Ok(false) => Outcome::Refused,
            Err(error) => {
                tracing::warn!(%error, position, "an object was not created, or the answer did not come");
                Outcome::Unknown
            }
        };
        answer(outcome);
        if outcome == Outcome::Stored {
            self.put_manifest(position, &bytes);
        }
    }

    fn read(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        let found = self.store.get(&message_name(position), None)?;
        if found.is_none() {
            self.refuse_removed(position)?;
        }
        Ok(found)
    }

    fn retain(&mut self, keep: &Keep, dry_run: bool) -> Result<Removed> {
        self.retain_only(keep, dry_run)
    }

    fn last(&mut self) -> Result<u64> {
        self.known_last = self.last_position(self.known_last)?;
        Ok(self.known_last)
    }

    fn begin_untrimmed(&mut self, until: &RebuildTo) -> Result<Option<Chain>> {
        let begin = self.start()?;
        self.first_by_manifests(&begin, until, 0)
    }

    fn index(&mut self) -> Result<Index> {
        self.read_index()
    }

    fn begin(&mut self) -> Result<Chain> {
        self.start()
    }
}
