//! Indexes the Raft entries of the log in memory, by log index.
//!
//! The index is rebuilt at opening by reading the records of the log in order. It is pure: it knows neither the log
//! nor its threads.
//!
//! ```text
//!   purged   | slots: on disk only      | slots: on disk or in flight, bytes kept  |
//!            ^ the entry due first      ^ `unkept` slots before                    ^ the entry due next
//! ```
//!
//! Invariants: the indexes of the slots are consecutive; only durable entries lose their bytes, because the log reads
//! back nothing else; the start LSNs of the slots grow with their indexes.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use openraft::{LogId, RaftLogId, RaftTypeConfig};
use seawall::Lsn;

use crate::error::{BadRecord, Error, Result};
use crate::record::{State, Stored};

/// One entry.
#[derive(Debug)]
struct Slot<C: RaftTypeConfig> {
    log_id: LogId<C::NodeId>,
    /// Where its record starts.
    start: Lsn,
    bytes: Option<Arc<[u8]>>,
}

/// Where one entry is to be had.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In the record that starts here.
    Disk(Lsn),
    /// Here.
    Memory(Arc<[u8]>),
}

/// The entries and the state.
#[derive(Debug)]
pub(crate) struct Index<C: RaftTypeConfig> {
    slots: VecDeque<Slot<C>>,
    /// Slots at the front whose bytes are not kept.
    unkept: usize,
    kept_bytes: usize,
    state: State<C::NodeId>,
}

impl<C: RaftTypeConfig> Default for Index<C> {
    fn default() -> Self {
        let state = State { vote: None, committed: None, purged: None };
        Self { slots: VecDeque::new(), unkept: 0, kept_bytes: 0, state }
    }
}

impl<C: RaftTypeConfig> Index<C> {
    /// The state.
    pub(crate) fn state(&self) -> &State<C::NodeId> {
        &self.state
    }

    /// The log id of the last entry, or the last purged one if there is none.
    pub(crate) fn last_log_id(&self) -> Option<LogId<C::NodeId>> {
        self.slots.back().map(|slot| slot.log_id.clone()).or_else(|| self.state.purged.clone())
    }

    /// Where the record of the first entry starts, if there is one.
    pub(crate) fn first_start(&self) -> Option<Lsn> {
        self.slots.front().map(|slot| slot.start)
    }

    /// Whether an entry with this index was purged.
    pub(crate) fn is_purged(&self, log_id: &LogId<C::NodeId>) -> bool {
        self.state.purged.as_ref().is_some_and(|purged| log_id.index <= purged.index)
    }

    /// Whether an entry with this log id may come next. The very first one may have any index.
    pub(crate) fn check_next(&self, log_id: &LogId<C::NodeId>) -> Result<()> {
        match self.last_log_id().map(|last| last.index.saturating_add(1)) {
            Some(due) if due != log_id.index => Err(Error::Hole { index: log_id.index, due }),
            _ => Ok(()),
        }
    }

    /// Adds an entry; without bytes only if it is durable and no entry before it has any.
    pub(crate) fn push(&mut self, log_id: LogId<C::NodeId>, start: Lsn, bytes: Option<Arc<[u8]>>) {
        match &bytes {
            Some(bytes) => self.kept_bytes += bytes.len(),
            None => self.unkept += 1,
        }
        self.slots.push_back(Slot { log_id, start, bytes });
    }

    /// Drops bytes beyond `keep`, oldest first, as far as they are `durable`.
    pub(crate) fn drop_bytes(&mut self, keep: usize, durable: Lsn) {
        while self.kept_bytes > keep {
            // A record lies in one batch, so it is durable if its start is.
            let Some(slot) = self.slots.get_mut(self.unkept).filter(|slot| slot.start < durable) else {
                return;
            };
            self.kept_bytes -= slot.bytes.take().map_or(0, |bytes| bytes.len());
            self.unkept += 1;
        }
    }

    /// Removes the entries from `from` on.
    pub(crate) fn truncate(&mut self, from: u64) {
        while self.slots.back().is_some_and(|slot| slot.log_id.index >= from) {
            let bytes = self.slots.pop_back().and_then(|slot| slot.bytes);
            self.kept_bytes -= bytes.map_or(0, |bytes| bytes.len());
        }
        self.unkept = self.unkept.min(self.slots.len());
    }

    /// Takes over a new state; entries that it names purged go.
    pub(crate) fn set_state(&mut self, state: State<C::NodeId>) {
        self.state = state;
        let Some(upto) = self.state.purged.as_ref().map(|purged| purged.index) else { return };
        while self.slots.front().is_some_and(|slot| slot.log_id.index <= upto) {
            let bytes = self.slots.pop_front().and_then(|slot| slot.bytes);
            self.kept_bytes -= bytes.map_or(0, |bytes| bytes.len());
            self.unkept = self.unkept.saturating_sub(1);
        }
    }

    /// Takes over one record of the log, in order, at opening.
    ///
    /// # Errors
    /// Why it cannot follow what came before it.
    pub(crate) fn replay(&mut self, record: Stored<C>, start: Lsn) -> Result<(), BadRecord> {
        match record {
            Stored::Entry(entry) => {
                let log_id = entry.get_log_id();
                // Entries before the first state record may reach back behind what it purged.
                let last = self.slots.back().map(|slot| slot.log_id.index.saturating_add(1));
                if last.is_some_and(|due| due != log_id.index) {
                    return Err(BadRecord::Unordered(log_id.index));
                }
                self.push(log_id.clone(), start, None);
            }
            Stored::State(state) => self.set_state(state),
            Stored::Truncated(from) => self.truncate(from.index),
        }
        Ok(())
    }

    /// Where the entries of `range` are, as far as they exist.
    pub(crate) fn places(&self, range: &impl RangeBounds<u64>) -> (u64, Vec<Place>) {
        let first = self.slots.front().map_or(0, |slot| slot.log_id.index);
        let from = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(index) => index.saturating_add(1),
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        let slot_at = |index: u64| usize::try_from(index.saturating_sub(first)).unwrap_or(usize::MAX);
        let to_slot = slot_at(to).min(self.slots.len());
        let slots = self.slots.range(slot_at(from).min(to_slot)..to_slot);
        let place = |slot: &Slot<C>| slot.bytes.clone().map_or(Place::Disk(slot.start), Place::Memory);
        (from.max(first), slots.map(place).collect())
    }
}
