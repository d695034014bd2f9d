//! Archives a log to an object store: a destination whose messages are objects that are created once and never changed.
//!
//! ```text
//! PREFIX/messages/00000000000000000001    a message each, by position
//! PREFIX/starts/00000000000000000038      what the chain was at position 38: everything up to there may be gone
//! PREFIX/manifests/00000000000000000037   what the chain is in front of position 38, where a segment of the log begins
//! PREFIX/packs/0…001-0…4096               copies of small messages in one object (`pack`)
//! PREFIX/standbys/…                       how far standbys have read (`follower`)
//! PREFIX/identity                         what tells this archive from others of its address, created first
//! ```
//!
//! An object holds the batches of one parcel: as many as were gathered up to a size or an age, or to the end of a segment. The
//! chain of the messages is what makes an object that is missing or changed known; a start carries it on where older
//! objects were removed.
//!
//! Creating an object only if there is none of its name is the compare-and-append: one is in flight at a time, so that there is
//! never one without the one before it.
//!
//! What else lies there is passed over: names that are no objects of an archive, as a file server or a file manager leaves them.
//!
//! Invariants: no object is overwritten; nothing is removed before the start that takes its place is stored; what is removed is of
//! no use to a rebuild of what is kept, because the log itself had trimmed it.

use crate::ahead::Ahead;
use crate::destination::{Answer, Compacted, Destination, Follower, Identity, Keep, Removed};
use crate::error::{Error, Result};
use crate::failure::{Facts, Synced};
use crate::manifest::Index;
use crate::message::{Chain, HEADER_BYTES};
use crate::note::{Note, hex, random};
use crate::pace::Pace;
use crate::writer::Outcome;
use seawall::RebuildTo;
use std::num::NonZeroU64;
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

    /// Gives the objects called `names` to `visit`, in order, until one is not there or `visit` wants no more; a store that waits long for
    /// each reads several at once, as many as `ahead` says.
    ///
    /// # Errors
    /// [`Error::Unavailable`], and what `visit` returns.
    fn get_each(
        &mut self,
        names: &mut dyn Iterator<Item = String>,
        _ahead: Ahead,
        visit: &mut dyn FnMut(Vec<u8>) -> Result<bool>,
    ) -> Result<()> {
        for name in names {
            let Some(bytes) = self.get(&name, None)? else { break };
            if !visit(bytes)? {
                break;
            }
        }
        Ok(())
    }

    /// The names that begin with `prefix` and come after `after`, in order, also of what is no object of an archive.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    fn list(&mut self, prefix: &str, after: &str) -> Result<Vec<String>>;

    /// Removes an object, if there is one.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    fn remove(&mut self, name: &str) -> Result<()>;

    /// The folder, if it is one.
    fn folder(&self) -> Option<std::path::PathBuf> {
        None
    }
}

/// How an archive is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// Batches are gathered up to this many bytes.
    pub object_bytes: usize,
    /// The user declares it off-site.
    pub elsewhere: bool,
    /// Memory for objects that are read ahead, in bytes.
    pub memory_bytes: usize,
    /// The most bytes that are read a second, over any longer time.
    pub bytes_per_second: Option<NonZeroU64>,
}

impl Default for ArchiveSettings {
    fn default() -> Self {
        Self { object_bytes: 8 << 20, elsewhere: false, memory_bytes: 64 << 20, bytes_per_second: None }
    }
}

/// The most that is gathered into one object, in bytes.
pub const OBJECT_BYTES_MAX: usize = 256 << 20;
/// No batch is cut into parts that are smaller than this, in bytes.
const PART_BYTES_MIN: usize = 16 << 20;

/// What tells an archive from others.
const IDENTITY: &str = "identity";
/// What the object begins with.
const IDENTITY_WORDS: &str = "archive ";
/// The longest one that is read.
const IDENTITY_BYTES_MAX: usize = 100;

pub(crate) const MESSAGES: &str = "messages/";
pub(crate) const STARTS: &str = "starts/";

pub(crate) fn message_name(position: u64) -> String {
    format!("{MESSAGES}{position:020}")
}

pub(crate) fn start_name(position: u64) -> String {
    format!("{STARTS}{position:020}")
}

/// A log's archive.
pub struct Archive<S> {
    store: S,
    facts: Facts,
    /// The last position that was listed.
    known_last: u64,
    memory_bytes: usize,
    pace: Option<Pace>,
    identity: Option<String>,
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
            setting: "an object is durable when its creation is acknowledged".to_owned(),
            on_this_machine,
            elsewhere: settings.elsewhere,
            keeps_copies: !on_this_machine,
            // What one batch makes longer than twice the size of an object is cut, so that a link that is slow gets it over.
            message_bytes_max: HEADER_BYTES
                + (2 * settings.object_bytes).clamp(PART_BYTES_MIN, 2 * OBJECT_BYTES_MAX),
            in_flight_max: 1,
            gather_bytes: settings.object_bytes.clamp(1, OBJECT_BYTES_MAX),
            reports: Vec::new(),
        };
        let (memory_bytes, pace) = (settings.memory_bytes, settings.bytes_per_second.map(Pace::new));
        Self { store, facts, known_last: 0, memory_bytes, pace, identity: None }
    }

    /// Probes the store with the archive's identity, which is created if there is none: that an object is created once, listed as soon as
    /// it exists, and readable in part.
    ///
    /// # Errors
    /// [`Error::Unfit`] with what the store does not support.
    pub fn probe(&mut self) -> Result<()> {
        let first = format!("{IDENTITY_WORDS}{}", hex(&random::<16>()?));
        let is_new = self.store.create(IDENTITY, first.as_bytes())?;
        let tried = self.probe_with(&first, is_new);
        if is_new && tried.as_ref().is_err_and(|error| !error.is_passing()) {
            // Nothing is left of a store that is not used.
            self.store.remove(IDENTITY)?;
        }
        tried
    }

    fn probe_with(&mut self, first: &str, is_new: bool) -> Result<()> {
        let name = &self.facts.name;
        let cannot = |what: &str| Error::unfit(format!("{name} {what}: it is no store for an archive"));
        let second = format!("{IDENTITY_WORDS}{}", hex(&random::<16>()?));
        let read = self.store.get(IDENTITY, None)?.unwrap_or_default();
        if is_new != (read == first.as_bytes()) {
            let what = if is_new {
                "does not return an object that it has just stored"
            } else {
                "says that a new object existed already"
            };
            return Err(cannot(what));
        }
        if self.store.create(IDENTITY, second.as_bytes())?
            || self.store.get(IDENTITY, None)? != Some(read.clone())
        {
            return Err(cannot("creates an object whose name is taken"));
        }
        if self.store.list(IDENTITY, "")?.iter().all(|listed| listed != IDENTITY) {
            return Err(cannot("does not list an object that it has just stored"));
        }
        if self.store.get(IDENTITY, Some(9))?.as_deref() != read.get(..9) {
            return Err(cannot("does not read parts of an object"));
        }
        self.identity = None;
        match self.identity()? {
            Identity::Is(_) => Ok(()),
            _ => Err(Error::unfit(format!("{IDENTITY} in {} is not understood", self.store.address()))),
        }
    }

    /// The positions of the objects below `prefix` that come after `after`, in order.
    pub(crate) fn positions(&mut self, prefix: &str, after: &str) -> Result<Vec<u64>> {
        let names = self.store.list(prefix, after)?;
        let position = |name: &String| {
            let digits = name.strip_prefix(prefix)?;
            let is_one = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_one.then(|| digits.parse().ok())?
        };
        Ok(names.iter().filter_map(position).collect())
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

    /// How far is read ahead: half of the memory is left for what was read.
    pub(crate) fn ahead(&self) -> Ahead {
        Ahead::within(self.memory_bytes / 2)
    }

    /// Where the bandwidth of reading is bounded.
    pub(crate) fn pace(&mut self) -> &mut Option<Pace> {
        &mut self.pace
    }

    /// The most that is compacted into one object, in bytes.
    pub(crate) fn pack_bytes(&self) -> usize {
        self.facts.gather_bytes
    }

    /// What the chain is where the oldest objects begin.
    ///
    /// # Errors
    /// [`Error::Unavailable`], also if a retention has just replaced the start; [`Error::Unfit`] if a start cannot be understood.
    pub fn start(&mut self) -> Result<Chain> {
        let Some(position) = self.positions(STARTS, "")?.pop() else { return Ok(Chain::default()) };
        let name = start_name(position);
        let found = self.store.get(&name, None)?;
        let address = self.store.address();
        let gone = || Error::unavailable(format!("{name} in {address} was not read"), "it was just replaced");
        let text = found.ok_or_else(gone)?;
        let parsed = Note::parse(&String::from_utf8_lossy(&text)).map(|note| note.chain);
        parsed.ok_or_else(|| Error::unfit(format!("{name} in {address} is not understood")))
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
        let outcome = match self.store.create(&name, &bytes) {
            // The name may be one that a retention removed.
            Ok(true) => match self.refuse_removed(position) {
                Ok(()) => Outcome::Stored,
                Err(error @ Error::Removed { .. }) => match self.store.remove(&name) {
                    Ok(()) => Outcome::refused(error),
                    Err(kept) => Outcome::unknown(format!("{error}; {kept}")),
                },
                Err(error) => Outcome::unknown(error),
            },
            Ok(false) => Outcome::refused(format!("{name} was refused: the store says that it exists")),
            Err(error) => Outcome::unknown(error),
        };
        let is_stored = outcome == Outcome::Stored;
        answer(outcome);
        if is_stored {
            self.put_manifest(position, &bytes);
        }
    }

    fn identity(&mut self) -> Result<Identity> {
        if self.identity.is_none() {
            let found = self.store.get(IDENTITY, Some(IDENTITY_BYTES_MAX))?;
            let text = found.map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned());
            self.identity = text.filter(|text| text.starts_with(IDENTITY_WORDS) && !text.contains('\n'));
        }
        Ok(self.identity.clone().map_or(Identity::Missing, Identity::Is))
    }

    fn prepare(&mut self) -> Result<()> {
        self.probe()
    }

    fn folder(&self) -> Option<std::path::PathBuf> {
        self.store.folder()
    }

    fn head(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        self.store.get(&message_name(position), Some(HEADER_BYTES))
    }

    fn read(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        let found = self.store.get(&message_name(position), None)?;
        // Also what is there: it may have been created anew, and nothing said whether its name was free.
        self.refuse_removed(position)?;
        Ok(found)
    }

    fn read_on(&mut self, position: u64, visit: &mut dyn FnMut(u64, &[u8]) -> Result<bool>) -> Result<u64> {
        self.read_packed(position, visit)
    }

    fn record_progress(&mut self, follower: &Follower) -> Result<bool> {
        self.put_follower(follower).map(|()| true)
    }

    fn followers(&mut self) -> Result<Vec<Follower>> {
        self.listed_followers()
    }

    fn compact(&mut self, dry_run: bool) -> Result<Compacted> {
        Self::compact(self, dry_run)
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
