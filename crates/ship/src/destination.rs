//! Defines the interface of a destination.
//!
//! A destination is a sequence of messages, the first one at position 1. An append names its position, and counts as stored only if
//! the message lies there: fencing and exactly-once rest on that alone; see `writer.rs`. A destination that cannot refuse a message for
//! another position keeps it; every reader ignores it, by the rule of `message.rs`.

use crate::error::{Error, Result};
use crate::failure::Facts;
use crate::manifest::Index;
use crate::message::{Chain, HEADER_BYTES, Owner};
use crate::writer::Outcome;
use seawall::{Lsn, RebuildTo};
use std::sync::Arc;
use std::time::Duration;

/// Takes the outcome of an append, from any thread.
pub type Answer = Box<dyn FnOnce(Outcome) + Send>;

/// The identity of a destination, which tells it from others at its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It does not report one.
    Unreported,
    /// It stores one, but has none: nothing was shipped there, or the address leads elsewhere.
    Missing,
    /// This line: the cluster, the time of creation, or unique bytes.
    Is(String),
}

impl Identity {
    /// In words.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Unreported => None,
            Self::Missing => Some("a destination that was never shipped to".to_owned()),
            Self::Is(mark) => Some(mark.clone()),
        }
    }
}

/// What a retention keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Everything that a restore to any later time needs, microseconds since 1970.
    pub since_us: u64,
    /// Everything that a restore to any time within this duration needs: counted back from now, or from the newest message if that is earlier, so
    /// that a clock that runs ahead removes nothing by itself.
    pub age: Option<Duration>,
    /// At least this many closed segments.
    pub segments: usize,
}

impl Default for Keep {
    /// What a rebuild of the newest state needs.
    fn default() -> Self {
        Self { since_us: u64::MAX, age: None, segments: 0 }
    }
}

/// What a retention removed, or would remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// Objects.
    pub objects: u64,
    /// Of these, the leftovers of an interrupted retention.
    pub left_over: u64,
    /// Whether all messages were read, because no manifests say where segments begin.
    pub all_read: bool,
    /// The first LSN that can still be restored.
    pub first: Lsn,
    /// The last position before that: a standby that has not read so far must start over.
    pub position: u64,
}

/// What a compaction created, or would create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// Packs.
    pub packs: u64,
    /// Messages in them.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that are large enough already.
    pub left: u64,
}

/// The recorded progress of a standby.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Its identity.
    pub owner: Owner,
    /// The last message that it has read.
    pub position: u64,
    /// When it recorded that, seconds since 1970.
    pub unix_s: u64,
}

/// A place that a log is shipped to.
pub trait Destination: Send {
    /// Its properties.
    fn facts(&self) -> &Facts;

    /// Its address, without credentials.
    fn address(&self) -> String;

    /// Its identity.
    ///
    /// # Errors
    /// As [`Destination::read`].
    fn identity(&mut self) -> Result<Identity> {
        Ok(Identity::Unreported)
    }

    /// Prepares it, before anything is stored: probes the operations that it must support, and creates its identity if it stores one
    /// and has none.
    ///
    /// # Errors
    /// As [`Destination::read`], and [`crate::Error::Unfit`] with what it does not support.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// The folder that holds it, if it is one.
    fn folder(&self) -> Option<std::path::PathBuf> {
        None
    }

    /// Begins to store `bytes` at `position`, if that is the next free one. `answer` is called once, here or later; dropped, it
    /// counts as unknown.
    fn append(&mut self, position: u64, bytes: Arc<[u8]>, answer: Answer);

    /// The message at `position`, `None` if there is none now.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] if that cannot be determined now.
    fn read(&mut self, position: u64) -> Result<Option<Vec<u8>>>;

    /// The header of the message at `position`, or whatever is at that position; `None` if there is none now.
    ///
    /// # Errors
    /// As [`Destination::read`].
    fn head(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        let head = |mut bytes: Vec<u8>| {
            bytes.truncate(HEADER_BYTES);
            bytes
        };
        Ok(self.read(position)?.map(head))
    }

    /// The state of the chain before the oldest message: the beginning, unless a retention removed messages.
    ///
    /// # Errors
    /// As [`Destination::read`].
    fn begin(&mut self) -> Result<Chain> {
        Ok(Chain::default())
    }

    /// The last position that has a message, as far as it says now; 0 for none.
    ///
    /// # Errors
    /// As [`Destination::read`].
    fn last(&mut self) -> Result<u64>;

    /// The chain state before the oldest segment that a restore to `until` needs if it skips the history that the log had trimmed;
    /// `None` if the destination cannot tell.
    ///
    /// # Errors
    /// As [`Destination::read`].
    fn begin_untrimmed(&mut self, _until: &RebuildTo) -> Result<Option<Chain>> {
        Ok(None)
    }

    /// Where segments begin, by its manifests; empty without manifests.
    ///
    /// # Errors
    /// As [`Destination::read`].
    fn index(&mut self) -> Result<Index> {
        Ok(Index::default())
    }

    /// How long it may hide acknowledged messages, or not answer, while it changes its leader.
    fn settles_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Removes the oldest messages beyond `keep`; with `dry_run` only reports them.
    ///
    /// # Errors
    /// [`crate::Error::Unfit`] if it keeps everything, and as [`crate::archive::Archive::retain_only`].
    fn retain(&mut self, _keep: &Keep, _dry_run: bool) -> Result<Removed> {
        let what = format!("{} keeps every message: only archives support retention", self.address());
        Err(Error::unfit(what))
    }

    /// Records the progress of a standby; `false` if it stores no such records.
    ///
    /// # Errors
    /// As [`Destination::read`], also if the standby may not write there.
    fn record_progress(&mut self, _follower: &Follower) -> Result<bool> {
        Ok(false)
    }

    /// The standbys that recorded their progress.
    ///
    /// # Errors
    /// As [`Destination::read`].
    fn followers(&mut self) -> Result<Vec<Follower>> {
        Ok(Vec::new())
    }

    /// Copies small messages into larger objects, which are read in their place; with `dry_run` only counts them.
    ///
    /// # Errors
    /// [`crate::Error::Unfit`] if its messages are no objects, and as [`crate::archive::Archive::compact`].
    fn compact(&mut self, _dry_run: bool) -> Result<Compacted> {
        let what = format!("{} cannot be compacted: only archives can", self.address());
        Err(crate::Error::unfit(what))
    }

    /// Reads the messages from `position` on, in order, until there is no more or `visit` returns `false`; returns the position
    /// after the last one that was visited.
    ///
    /// # Errors
    /// As [`Destination::read`], and what `visit` returns.
    fn read_on(&mut self, position: u64, visit: &mut dyn FnMut(u64, &[u8]) -> Result<bool>) -> Result<u64> {
        let mut position = position;
        while let Some(bytes) = self.read(position)? {
            position += 1;
            if !visit(position - 1, &bytes)? {
                break;
            }
        }
        Ok(position)
    }
}
