//! Reads a destination from the segment at which the untrimmed log began, and skips the history before it.
//!
//! ```text
//!   1 … 37 trimmed by the log │ 38 … 90 … the end, or where the rebuild ends
//!                             └ reading begins: a segment begins here, its manifest says what the chain is
//! ```
//!
//! Invariant: where it begins was found to be in the chain ([`crate::manifest`]); what says nothing of that is read from its beginning.

use crate::destination::{Answer, Destination, Mark};
use crate::error::Result;
use crate::failure::Facts;
use crate::message::Chain;
use seawall::RebuildTo;
use std::sync::Arc;
use std::time::Duration;

/// A destination without its history.
pub struct Untrimmed {
    inner: Box<dyn Destination>,
    begin: Option<Chain>,
}

impl std::fmt::Debug for Untrimmed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Untrimmed").field("begin", &self.begin).finish_non_exhaustive()
    }
}

impl Untrimmed {
    /// What a rebuild of `inner` to `until` needs.
    ///
    /// # Errors
    /// As [`Destination::read`].
    pub fn new(mut inner: Box<dyn Destination>, until: &RebuildTo) -> Result<Self> {
        let begin = inner.begin_untrimmed(until)?;
        Ok(Self { inner, begin })
    }

    /// Whether the destination said where to begin; otherwise it is read from its beginning.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.begin.is_some()
    }
}

impl Destination for Untrimmed {
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }

    fn address(&self) -> String {
        self.inner.address()
    }

    fn identity(&mut self) -> Result<Mark> {
        self.inner.identity()
    }

    fn head(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        self.inner.head(position)
    }

    fn append(&mut self, position: u64, bytes: Arc<[u8]>, answer: Answer) {
        self.inner.append(position, bytes, answer);
    }

    fn read(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        self.inner.read(position)
    }

    fn begin(&mut self) -> Result<Chain> {
        self.begin.clone().map_or_else(|| self.inner.begin(), Ok)
    }

    fn last(&mut self) -> Result<u64> {
        self.inner.last()
    }

    fn settles_within(&self) -> Duration {
        self.inner.settles_within()
    }

    fn read_on(&mut self, position: u64, visit: &mut dyn FnMut(u64, &[u8]) -> Result<bool>) -> Result<u64> {
        self.inner.read_on(position, visit)
    }
}
