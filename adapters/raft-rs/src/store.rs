//! Keeps the Raft log of one group in two streams of a log; `raft::Storage` is implemented over it.
//!
//! ```text
//!   compacted  | on disk only            | on disk or in flight, in memory |
//!              ^ first = cut + 1         ^ next - kept.len()               ^ next
//! ```
//!
//! Invariants: what is in memory is what the log accepted, and changes after it; entry `base + n` is record `n` of the stream, also when
//! that is empty; only durable entries leave the memory, because the log reads back nothing else.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot, SnapshotMetadata};
use raft::{RaftState, Ready};
use seawall::{Log, Lsn, StreamId};

use crate::error::{Error, Result};
use crate::record::{self, State};

/// So many records of state lie in its stream before the old ones are trimmed.
const STATE_RECORDS: u64 = 64;
/// A transaction ends after this many bytes of entries.
const TRANSACTION_BYTES: usize = 1 << 20;

type Snapshots = dyn Fn(u64, u64) -> raft::Result<Snapshot> + Send + Sync;

/// What a group has.
#[derive(Default)]
pub(crate) struct Group {
    state: State,
    /// As the last record of state has it.
    saved: State,
    conf: ConfState,
    /// The index of the entry that is, or would be, record 0; modulo 2^64.
    base: u64,
    next: u64,
    /// That of the last entry, if there is one.
    last_term: u64,
    /// Where the last transaction ends.
    end: Lsn,
    /// The newest entries, with the end of their transactions.
    kept: VecDeque<(Entry, Lsn)>,
}

impl Group {
    pub(crate) fn first(&self) -> u64 {
        self.state.cut.0 + 1
    }

    /// The index after the last entry.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    fn kept_from(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    fn seq(&self, index: u64) -> u64 {
        index.wrapping_sub(self.base)
    }

    pub(crate) fn initial_state(&self) -> RaftState {
        let mut hard = HardState::default();
        (hard.term, hard.vote, hard.commit) = (self.state.term, self.state.vote, self.state.commit);
        RaftState::new(hard, self.conf.clone())
    }
}

fn bytes(entry: &Entry) -> usize {
    size_of::<Entry>() + entry.data.len() + entry.context.len()
}

/// A group, where it lies, and what it shares with the others of its log.
pub(crate) struct Shared {
    pub(crate) log: Arc<Log>,
    pub(crate) entries: StreamId,
    pub(crate) states: StreamId,
    pub(crate) keep_bytes: usize,
    pub(crate) kept_bytes: Arc<AtomicUsize>,
    pub(crate) snapshots: Box<Snapshots>,
    pub(crate) group: Mutex<Group>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let kept = std::mem::take(&mut self.group().kept);
        self.let_go(kept.into_iter());
    }
}

impl Shared {
    pub(crate) fn group(&self) -> MutexGuard<'_, Group> {
        // A thread that panicked while it held the lock left no half-done change behind.
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_go(&self, entries: impl Iterator<Item = (Entry, Lsn)>) {
        let freed: usize = entries.map(|(entry, _)| bytes(&entry)).sum();
        self.kept_bytes.fetch_sub(freed, Ordering::Relaxed);
    }

    /// Reads what the log has of the group.
    fn read_group(&self) -> Result<Group> {
        // Only what is durable can be read.
        self.log.commit(self.log.appended_lsn())?;
        let state = self.last(self.states, |record, _| State::decode(record))?.unwrap_or_default();
        let stream = self.log.stream(self.entries);
        let base = (state.cut.0 + 1).wrapping_sub(stream.first_seq());
        let next = stream.next_seq().wrapping_add(base);
        let last = self.last(self.entries, |record, seq| record::decode(record, seq.wrapping_add(base)))?;
        let last_term = last.map_or(0, |last| last.term);
        let (conf, end, kept) = (ConfState::default(), self.log.durable_lsn(), VecDeque::new());
        Ok(Group { saved: state, state, conf, base, next, last_term, end, kept })
    }

    /// The last record of a stream.
    fn last<T>(&self, id: StreamId, decode: impl Fn(&[u8], u64) -> Option<T>) -> Result<Option<T>> {
        let stream = self.log.stream(id);
        let (first, next) = (stream.first_seq(), stream.next_seq());
        if first == next {
            return Ok(None);
        }
        let record = stream.get(next - 1)?;
        let bad = Error::Record { stream: id, seq: next - 1 };
        decode(&record.payload, next - 1).ok_or(bad).map(Some)
    }

    /// Puts into one transaction what makes `state` of the state, and then the entries; none of the old ones stays if it `installs` a
    /// snapshot that the state begins with.
    fn put(&self, group: &mut Group, state: State, installs: bool, entries: &[Entry]) -> Result<Lsn> {
        let (stream, states) = (self.log.stream(self.entries), self.log.stream(self.states));
        let (first_seq, next_seq) = (stream.first_seq(), stream.next_seq());
        if group.seq(group.first()) != first_seq || group.seq(group.next) != next_seq {
            return Err(Error::ForeignRecord { stream: self.entries });
        }
        let (next, base) = if installs {
            (state.cut.0 + 1, (state.cut.0 + 1).wrapping_sub(next_seq))
        } else {
            (group.next, group.base)
        };
        let from = entries.first().map_or(next, |entry| entry.index);
        if let Some((index, _)) = (from..)
            .zip(entries)
            .find(|(index, entry)| entry.index != *index || *index <= state.cut.0 || from > next)
        {
            return Err(Error::Hole { index, first: state.cut.0 + 1, next });
        }
        let first = (state.cut.0 + 1).wrapping_sub(base);
        // The commit index alone is worth no write.
        let saves = state != group.saved
            && (!entries.is_empty() || State { commit: group.saved.commit, ..state } != group.saved);
        if saves || !entries.is_empty() {
            let state_seq = states.next_seq();
            group.end = self.log.transaction(|transaction| {
                if first != first_seq {
                    transaction.trim(self.entries, first)?;
                }
                if from < next {
                    transaction.truncate(self.entries, from.wrapping_sub(base))?;
                }
                if saves {
                    transaction.append_to(self.states, &state.encode())?;
                    if state_seq % STATE_RECORDS == STATE_RECORDS - 1 {
                        transaction.trim(self.states, state_seq)?;
                    }
                }
                entries
                    .iter()
                    .try_for_each(|entry| transaction.append_to(self.entries, &record::encode(entry)))
            })?;
            group.saved = state;
        }
        let stays = usize::try_from(from.saturating_sub(group.kept_from())).unwrap_or(usize::MAX);
        let stays = stays.min(group.kept.len());
        self.let_go(group.kept.drain(stays..));
        (group.state, group.base, group.next) = (state, base, from + entries.len() as u64);
        group.last_term = entries.last().map_or(group.last_term, |last| last.term);
        group.kept.extend(entries.iter().map(|entry| (entry.clone(), group.end)));
        self.kept_bytes.fetch_add(entries.iter().map(bytes).sum(), Ordering::Relaxed);
        let (durable, first) = (self.log.durable_lsn(), group.first());
        while let Some((entry, end)) = group.kept.front()
            && (entry.index < first
                || *end <= durable && self.kept_bytes.load(Ordering::Relaxed) > self.keep_bytes)
        {
            self.let_go(group.kept.pop_front().into_iter());
        }
        Ok(group.end)
    }

    /// The term of an entry that there is, or of the last one that was compacted.
    pub(crate) fn term(&self, group: &Group, index: u64) -> Result<u64> {
        if index == group.state.cut.0 {
            return Ok(group.state.cut.1);
        }
        if index + 1 == group.next {
            return Ok(group.last_term);
        }
        Ok(self.read(group, index, index + 1, 0)?.first().map_or(0, |entry| entry.term))
    }

    /// The entries of `low..high`, which there are; at least one, and no more once they have `bytes_max`.
    pub(crate) fn read(&self, group: &Group, low: u64, high: u64, bytes_max: u64) -> Result<Vec<Entry>> {
        let (mut entries, mut taken) = (Vec::new(), 0);
        let kept_from = group.kept_from().clamp(low, high);
        let mut reader =
            (low < kept_from).then(|| self.log.stream(self.entries).read(group.seq(low))).transpose()?;
        for index in low..high {
            if taken > 0 && taken >= bytes_max {
                break;
            }
            let entry = if index < kept_from {
                let seq = group.seq(index);
                let record = reader.as_mut().map_or(Ok(None), seawall::StreamReader::next_record)?;
                let entry = record.and_then(|record| record::decode(&record.payload, index));
                entry.ok_or(Error::Record { stream: self.entries, seq })?
            } else {
                let at = usize::try_from(index - group.kept_from()).unwrap_or(usize::MAX);
                let Some((entry, _)) = group.kept.get(at) else { break };
                entry.clone()
            };
            taken += bytes(&entry) as u64;
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// The Raft log of one group, a `raft::Storage`. Copies are the same store: one is raft-rs', another one appends what that is ready with.
#[derive(Clone)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let group = self.shared.group();
        let mut shown = f.debug_struct("Store");
        shown.field("stream", &self.shared.entries).field("state", &group.state);
        shown.field("next", &group.next).field("kept", &group.kept.len()).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store of a group that was not read yet.
    pub(crate) fn open(shared: Shared, applied: &SnapshotMetadata) -> Result<Self> {
        let mut group = shared.read_group()?;
        let (index, term) = (applied.index, applied.term);
        if index < group.state.cut.0 {
            return Err(Error::Missing { index: index + 1 });
        }
        if index >= group.next || shared.term(&group, index)? != term {
            let state = group.state.installed((index, term));
            let end = shared.put(&mut group, state, true, &[])?;
            shared.log.commit(end)?;
        }
        group.state.commit = group.state.commit.min(group.next - 1).max(index);
        group.conf = applied.get_conf_state().clone();
        *shared.group() = group;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The log behind it, by which appends become durable: [`Log::commit`], [`Log::commit_async`].
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Appends what has to be kept of a `Ready`: raft-rs sees it from now on, and it is durable when the returned LSN is. The data of a
    /// snapshot in it must be durable before.
    ///
    /// # Errors
    /// [`Error::Hole`], [`Error::ForeignRecord`], [`Error::Log`]; after an error the host reopens the store.
    pub fn append(&self, ready: &Ready) -> Result<Lsn> {
        let mut group = self.shared.group();
        let mut state = group.state;
        if let Some(hard) = ready.hs() {
            (state.term, state.vote, state.commit) = (hard.term, hard.vote, hard.commit);
        }
        let meta = ready.snapshot().get_metadata();
        let mut installs = meta.index > 0;
        if installs {
            state = state.installed((meta.index, meta.term));
        }
        let mut entries = &ready.entries()[..];
        loop {
            let mut taken = 0;
            let fits = |entry: &&Entry| {
                let fits = taken < TRANSACTION_BYTES;
                taken += bytes(entry);
                fits
            };
            let (now, later) = entries.split_at(entries.iter().take_while(fits).count());
            let end = self.shared.put(&mut group, state, installs, now)?;
            if installs {
                group.conf = meta.get_conf_state().clone();
            }
            if later.is_empty() {
                return Ok(end);
            }
            (entries, installs) = (later, false);
        }
    }

    /// Takes the commit index of a `LightReady`; it becomes durable with the next append.
    pub fn set_commit(&self, commit: u64) {
        self.shared.group().state.commit = commit;
    }

    /// Removes the entries before `first`, which a durable snapshot of the host contains; durable when the returned LSN is, and with every
    /// later append.
    ///
    /// # Errors
    /// [`Error::Hole`] after the last entry, [`Error::Log`].
    pub fn compact(&self, first: u64) -> Result<Lsn> {
        let mut group = self.shared.group();
        let (old, next) = (group.first(), group.next);
        if first <= old {
            return Ok(group.end);
        }
        if first > next {
            return Err(Error::Hole { index: first, first: old, next });
        }
        let cut = (first - 1, self.shared.term(&group, first - 1)?);
        let state = State { cut, ..group.state };
        self.shared.put(&mut group, state, false, &[])
    }
}
