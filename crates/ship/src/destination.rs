//! Defines what a destination must be able to do.
//!
//! A destination is a sequence of messages, the first one at position 1. It counts a message as stored at a position only if it lies
//! there, which is all that fencing and exactly once stand on; see `writer.rs`. One that cannot refuse what comes for another
//! position keeps it there: the rule of `message.rs` has every reader ignore it.

use crate::error::{Error, Result};
use crate::failure::Facts;
use crate::manifest::Index;
use crate::message::{Chain, HEADER_BYTES, Owner};
use crate::writer::Outcome;
use seawall::{Lsn, RebuildTo};
use std::sync::Arc;
use std::time::Duration;

/// Takes what became of an append, from any thread.
pub type Answer = Box<dyn FnOnce(Outcome) + Send>;

/// What tells a destination from others of its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It does not say that.
    Unsaid,
    /// It keeps one, and has none: nothing was shipped there, or another place is reached.
    Missing,
    /// This, in a line: the cluster, when it was created, or bytes that nobody else has.
    Is(String),
}

impl Mark {
    /// In words.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Unsaid => None,
            Self::Missing => Some("a destination that was never shipped to".to_owned()),
            Self::Is(mark) => Some(mark.clone()),
        }
    }
}

/// What an archive keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Everything that a rebuild to any time from here on needs, microseconds since 1970.
    pub since_us: u64,
    /// Everything that a rebuild to any time within this duration needs: counted back from now, or from the newest message if that is earlier, so
    /// that a clock that is ahead removes nothing by that alone.
    pub age: Option<Duration>,
    /// At least so many closed segments.
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
    /// Of these, what an interrupted one had left.
    pub left_over: u64,
    /// Whether all messages were read, because no manifests say where segments begin.
    pub all_read: bool,
    /// The first LSN that can still be rebuilt.
    pub first: Lsn,
    /// The last position in front of that: a standby that has not come so far has to begin again.
    pub position: u64,
}

/// What a compaction made, or would make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// Packs.
    pub packs: u64,
    /// Messages in them.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that are large enough by themselves.
    pub left: u64,
}

/// A standby, as it said itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Who it is.
    pub owner: Owner,
    /// Up to which message it has read.
    pub position: u64,
    /// When it said so, seconds since 1970.
    pub unix_s: u64,
}

/// A place that a log is shipped to.
pub trait Destination: Send {
    /// What is known of it.
    fn facts(&self) -> &Facts;

    /// Its address without credentials, which names it.
    fn address(&self) -> String;

    /// What tells it from others of the same address.
    ///
    /// # Errors
    /// As [`Destination::read`].
    fn identity(&mut self) -> Result<Mark> {
        Ok(Mark::Unsaid)
    }

    /// Tries what it stands on, and makes its mark where it keeps one and has none. Nothing is stored in it before.
    ///
    /// # Errors
    /// As [`Destination::read`], and [`crate::Error::Unfit`] names what it does not do.
    fn found(&mut self) -> Result<()> {
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
    /// [`crate::Error::Unavailable`] if that cannot be said now.
    fn read(&mut self, position: u64) -> Result<Option<Vec<u8>>>;

    /// The header of the message at `position`, or what lies there in its place; `None` if there is none now.
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

    /// What the chain is where the oldest messages begin: nothing, unless a retention removed what came before.
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

    /// What the chain is in front of the newest segment from which on everything is there that the log itself still had, in a rebuild to
    /// `until`; `None` if it does not say.
    ///
    /// # Errors
    /// As [`Destination::read`].
    fn begin_untrimmed(&mut self, _until: &RebuildTo) -> Result<Option<Chain>> {
        Ok(None)
    }

    /// What its manifests say of where segments begin; nothing where there are none.
    ///
    /// # Errors
    /// As [`Destination::read`].
    fn index(&mut self) -> Result<Index> {
        Ok(Index::default())
    }

    /// For how long it may not show what it acknowledged, or not answer, without having lost it: while it changes its leader.
    fn settles_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Removes from its beginning what `keep` does not name; only says what that is with `dry_run`.
    ///
    /// # Errors
    /// [`crate::Error::Unfit`] if it keeps everything, and as [`crate::archive::Archive::retain_only`].
    fn retain(&mut self, _keep: &Keep, _dry_run: bool) -> Result<Removed> {
        let what = format!("{} keeps every message: only archives support retention", self.address());
        Err(Error::unfit(what))
    }

    /// Takes note of how far a standby has read; `false` if it keeps no such notes.
    ///
    /// # Errors
    /// As [`Destination::read`], also if the standby may not write there.
    fn tell(&mut self, _follower: &Follower) -> Result<bool> {
        Ok(false)
    }

    /// The standbys that have said how far they have read.
    ///
    /// # Errors
    /// As [`Destination::read`].
    fn followers(&mut self) -> Result<Vec<Follower>> {
        Ok(Vec::new())
    }

    /// Copies small messages into larger objects, which are read in their place; only says how many with `dry_run`.
    ///
    /// # Errors
    /// [`crate::Error::Unfit`] if its messages are no objects, and as [`crate::archive::Archive::compact`].
    fn compact(&mut self, _dry_run: bool) -> Result<Compacted> {
        let what = format!("{} cannot be compacted: only archives can", self.address());
        Err(crate::Error::unfit(what))
    }

    /// Reads the messages from `position` on, in order, until there is no more or `visit` returns `false`; returns the position
    /// behind the last one that was visited.
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
