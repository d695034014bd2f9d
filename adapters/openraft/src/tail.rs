//! Holds what a group has in memory: its state, which entries it has, and the bytes of the newest ones.
//!
//! ```text
//!   purged   | on disk only             | on disk or in flight, bytes kept         |
//!            ^ first                    ^ next - kept.len()                        ^ next
//! ```
//!
//! It is pure: it knows neither the log nor its threads.
//!
//! Invariants: only durable entries lose their bytes, because the log reads back nothing else; an entry is shown only
//! while the log has it.

use std::collections::VecDeque;
use std::sync::Arc;

use seawall::{Lsn, StreamAppend};

use crate::error::{Error, Result};
use crate::record::StateOf;
use crate::types::RaftTypes;

/// The bytes of one entry, and where its record is.
#[derive(Clone)]
pub(crate) struct KeptEntry {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) at: StreamAppend,
}

/// The entries of a range of indexes: first those on disk, then those in memory.
pub(crate) struct Found {
    /// The index of the first one.
    pub(crate) from: u64,
    /// How many of them are to be read from the log, from this record on.
    pub(crate) on_disk: u64,
    pub(crate) seq: u64,
    pub(crate) kept: Vec<KeptEntry>,
    /// How often entries had been cut off when this was found.
    pub(crate) cuts: u64,
}

/// What one group has.
pub(crate) struct Tail<R: RaftTypes> {
    pub(crate) state: StateOf<R>,
    first: u64,
    next: u64,
    /// The log id of entry `next - 1`, if there is one.
    last: Option<R::LogId>,
    kept: VecDeque<KeptEntry>,
    /// Entries from here on are being cut off and are not shown.
    hidden_from: u64,
    cuts: u64,
}

impl<R: RaftTypes> Tail<R> {
    /// That of a group whose entries `first..next` are all durable; `last` is the log id of the last one.
    pub(crate) fn new(state: StateOf<R>, (first, next): (u64, u64), last: Option<R::LogId>) -> Self {
        Self { state, first, next, last, kept: VecDeque::new(), hidden_from: u64::MAX, cuts: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.next
    }

    /// The index of the first entry that is left.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The index after the last entry.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cuts
    }

    /// The log id of the last entry, or the last purged one if there is none.
    pub(crate) fn last_log_id(&self) -> Option<R::LogId> {
        self.last.clone().or_else(|| self.state.purged.clone())
    }

    pub(crate) fn is_purged(&self, index: u64) -> bool {
        self.state.purged.as_ref().is_some_and(|purged| index <= R::index(purged))
    }

    /// Whether the entry of this index may come next. The very first one may have any.
    pub(crate) fn check_next(&self, index: u64) -> Result<()> {
        match self.last_log_id().map(|last| R::index(&last).saturating_add(1)) {
            Some(due) if due != index => Err(Error::Hole { index, due }),
            _ => Ok(()),
        }
    }

    pub(crate) fn push(&mut self, log_id: R::LogId, entry: KeptEntry) {
        let index = R::index(&log_id);
        if self.is_empty() {
            self.first = index;
        }
        self.next = index.saturating_add(1);
        self.last = Some(log_id);
        self.kept.push_back(entry);
    }

    /// Drops the bytes of the oldest entry of those that have some, if it is durable; returns how many.
    pub(crate) fn drop_oldest(&mut self, durable: Lsn) -> Option<usize> {
        self.kept.pop_front_if(|entry| entry.at.end <= durable).map(|entry| entry.bytes.len())
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|entry| entry.bytes.len()).sum()
    }

    fn kept_from(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    /// Shows the entries from `from` on no more, because they are about to be cut off.
    pub(crate) fn hide(&mut self, from: u64) {
        self.cuts += 1;
        self.hidden_from = from;
    }

    pub(crate) fn show(&mut self) {
        self.hidden_from = u64::MAX;
    }

    /// Removes the entries from `from` on, so that `last` is the last one; returns the bytes that were kept of them.
    pub(crate) fn cut(&mut self, from: u64, last: Option<R::LogId>) -> usize {
        let gone = usize::try_from(self.next.saturating_sub(from)).unwrap_or(usize::MAX);
        let left = self.kept.len().saturating_sub(gone);
        let bytes = self.kept.drain(left..).map(|entry| entry.bytes.len()).sum();
        (self.next, self.last) = (from, last);
        self.show();
        bytes
    }

    /// Removes the entries up to the purged one of the state; returns the bytes that were kept of them.
    pub(crate) fn purge(&mut self) -> usize {
        let Some(purged) = self.state.purged.as_ref().map(R::index) else { return 0 };
        let (first, kept_from) = (purged.saturating_add(1), self.kept_from());
        if first <= self.first {
            return 0;
        }
        let gone = usize::try_from(first.saturating_sub(kept_from)).unwrap_or(usize::MAX);
        let bytes = self.kept.drain(..gone.min(self.kept.len())).map(|entry| entry.bytes.len()).sum();
        if first >= self.next {
            self.last = None;
        }
        (self.first, self.next) = (first, self.next.max(first));
        bytes
    }

    /// The entries of `from..to`, as far as there are any.
    pub(crate) fn find(&self, from: u64, to: u64) -> Found {
        let from = from.max(self.first);
        let to = to.min(self.next).min(self.hidden_from).max(from);
        let kept_from = self.kept_from().clamp(from, to);
        let at = |index: u64| usize::try_from(index - self.kept_from()).unwrap_or(usize::MAX);
        let kept = if kept_from < to {
            self.kept.range(at(kept_from)..at(to)).cloned().collect()
        } else {
            Vec::new()
        };
        let seq = from.wrapping_sub(self.state.base);
        Found { from, on_disk: kept_from - from, seq, kept, cuts: self.cuts }
    }
}
