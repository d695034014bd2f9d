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

use seawall::Lsn;

use crate::error::{BadRecord, Error, Result};
use crate::record::{self, StateOf};
use crate::types::RaftTypes;

/// The bytes of one entry.
#[derive(Clone, Debug)]
pub(crate) struct KeptEntry {
    pub(crate) bytes: Arc<[u8]>,
    /// Where its record ends.
    pub(crate) end: Lsn,
}

/// The entries of a range of indexes: first those on disk, then those in memory.
#[derive(Debug)]
pub(crate) struct Found {
    /// The index of the first one.
    pub(crate) from: u64,
    /// How many of them are to be read from the log.
    pub(crate) on_disk: u64,
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

    /// Whether the entry of this index was purged.
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

    /// Adds the next entry.
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
        self.kept.pop_front_if(|entry| entry.end <= durable).map(|entry| entry.bytes.len())
    }

    /// Bytes of all entries that have some.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|entry| entry.bytes.len()).sum()
    }

    fn kept_from(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    /// The log id that is the last one when the entries from `from` on are cut off; `Err` if entry `from - 1` has to be
    /// read from the log for it.
    pub(crate) fn last_before(&self, from: u64) -> Result<Option<R::LogId>, ReadEntry> {
        if from <= self.first {
            return Ok(None);
        }
        let index = from - 1;
        let kept =
            index.checked_sub(self.kept_from()).and_then(|at| self.kept.get(usize::try_from(at).ok()?));
        let entry = kept.and_then(|kept| record::decode_entry::<R>(&kept.bytes, index).ok());
        entry.map(|entry| Some(R::log_id(&entry))).ok_or(ReadEntry)
    }

    /// Shows the entries from `from` on no more, because they are about to be cut off.
    pub(crate) fn hide(&mut self, from: u64) {
        self.cuts += 1;
        self.hidden_from = from;
    }

    /// Shows all entries again.
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
        Found { from, on_disk: kept_from - from, kept, cuts: self.cuts }
    }
}

/// An entry has to be read from the log.
#[derive(Debug)]
pub(crate) struct ReadEntry;

impl<R: RaftTypes> std::fmt::Debug for Tail<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Tail");
        shown.field("first", &self.first).field("next", &self.next).field("last", &self.last);
        shown.field("state", &self.state).field("kept", &self.kept.len()).finish_non_exhaustive()
    }
}

/// Decodes entries from `from` on that are in memory, until `bytes_max` is used up; at least the first one.
pub(crate) fn decode_kept<R: RaftTypes>(
    kept: &[KeptEntry],
    from: u64,
    bytes_max: usize,
) -> Result<Vec<R::Entry>, BadRecord> {
    let mut bytes = 0;
    let within = |kept: &&KeptEntry| {
        let fits = bytes < bytes_max;
        bytes += kept.bytes.len();
        fits
    };
    let within: Vec<_> = kept.iter().take_while(within).collect();
    within
        .into_iter()
        .zip(from..)
        .map(|(kept, index)| record::decode_entry::<R>(&kept.bytes, index))
        .collect()
}
