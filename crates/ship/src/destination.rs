//! Defines what a destination must be able to do.
//!
//! A destination is a sequence of messages, the first one at position 1. It counts a message as stored at a position only if it lies
//! there, which is all that fencing and exactly once stand on; see `writer.rs`. One that cannot refuse what comes for another
//! position keeps it there: the rule of `message.rs` has every reader ignore it.

use crate::error::Result;
use crate::failure::Facts;
use crate::manifest::Index;
use crate::message::Chain;
use crate::retention::{Keep, Removed};
use crate::writer::Outcome;
use seawall::RebuildTo;
use std::sync::Arc;
use std::time::Duration;

/// Takes what became of an append, from any thread.
pub type Answer = Box<dyn FnOnce(Outcome) + Send>;

/// A place that a log is shipped to.
pub trait Destination: Send {
    /// What is known of it.
    fn facts(&self) -> &Facts;

    /// Its address without credentials, which names it.
    fn address(&self) -> String;

    /// What tells it from others of the same address, in a line, if it says that: the cluster, or when it was created.
    fn identity(&self) -> Option<String> {
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
        let what = format!("{} keeps every message: only archives have a retention", self.address());
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
