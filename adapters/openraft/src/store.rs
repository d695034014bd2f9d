//! Keeps the Raft log of one group in two streams of a log; the traits of Openraft are implemented over it.
//!
//! Invariants: writers of a group come one after the other, and what they change in memory is what the records say that
//! the log accepted; a vote that was read from the disk is not committed; a record says where the entries begin before the
//! first entry that lies elsewhere; a purge and its trim are one transaction; no thread of an executor waits for the disk: what may wait runs on a thread of its own,
//! also when its future is dropped.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seawall::{CommitFuture, Log, Lsn, Options, Stream, StreamId};
use seawall_sys::planted;

use crate::apart::apart;
use crate::error::{BadRecord, Error, Result};
use crate::groups::{Groups, Host, Member};
use crate::record::{self, StateOf};
use crate::tail::{Found, KeptEntry, Tail};
use crate::types::RaftTypes;

/// So many records of state lie in its stream before the old ones are trimmed.
const STATE_RECORDS: u64 = 64;
/// A limited read ends after this many bytes of entries.
pub(crate) const READ_BYTES: usize = 1 << 20;

/// A group, as its store and its readers share it.
pub(crate) struct Shared<R: RaftTypes> {
    member: Member,
    /// Held by a writer over its records and what they change. Its user holds the store exclusively, so that nothing waits
    /// here but a writer after one whose future was dropped.
    writing: Mutex<()>,
    tail: Mutex<Tail<R>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked while it held the lock left no half-done change behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: RaftTypes> Shared<R> {
    /// Reads what the log has of a group.
    pub(crate) fn open(member: Member) -> Result<Self> {
        let log = &member.host.log;
        // Only what is durable can be read.
        log.commit(log.appended_lsn())?;
        let mut state =
            last_record(&log.stream(member.state), record::decode_state::<R>)?.unwrap_or_default();
        // Raft may have sent entries to other nodes that were not durable here and are gone. A node that led on in the same
        // term would give their log ids to other entries; one that has to be elected gives only ids of a new term.
        if let Some(vote) = planted!(RaftTermGoesOn, state.vote.as_ref()) {
            state.vote = Some(R::uncommitted(vote));
        }
        let stream = log.stream(member.entries);
        let purged = state.purged.as_ref().map_or(0, |purged| R::index(purged).saturating_add(1));
        let index_of = |seq: u64| seq.wrapping_add(state.base);
        let (first, next) = (index_of(stream.first_seq()), index_of(stream.next_seq()));
        let missing = if state.purged.is_some() { purged < first } else { stream.first_seq() > 0 };
        if first < next && missing {
            return Err(Error::Missing { index: purged });
        }
        let last = last_record(&stream, |record| record::decode_entry::<R>(record, next.wrapping_sub(1)))?;
        let range = if last.is_some() { (first, next) } else { (purged, purged) };
        let tail = Tail::new(state, range, last.as_ref().map(R::log_id));
        Ok(Self { member, writing: Mutex::default(), tail: Mutex::new(tail) })
    }

    fn log(&self) -> &Log {
        &self.member.host.log
    }

    pub(crate) fn tail(&self) -> MutexGuard<'_, Tail<R>> {
        lock(&self.tail)
    }

    /// Does `work`, first without waiting and then, if it would have to, the rest of it where it may.
    async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        mut work: impl FnMut(&Self, bool) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match work(self, false) {
            Err(Error::Log(seawall::Error::WouldBlock)) => self.apart(move |shared| work(shared, true)).await,
            done => done,
        }
    }

    /// Does `work` where it may wait.
    async fn apart<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(self);
        let done = apart(move || work(&shared)).await;
        done.unwrap_or_else(|source| {
            let path = self.log().dir().to_path_buf();
            Err(Error::Log(seawall::Error::Io { operation: "start a thread for", path, source }))
        })
    }

    /// Appends the next entry; one that was purged is in a snapshot already and is passed over. Returns where it ends.
    fn append_entry(&self, log_id: &R::LogId, bytes: &Arc<[u8]>, may_wait: bool) -> Result<Lsn> {
        let _writing = lock(&self.writing);
        let (index, stream) = (R::index(log_id), self.log().stream(self.member.entries));
        let tail = self.tail();
        if tail.is_purged(index) {
            return Ok(self.log().appended_lsn());
        }
        tail.check_next(index)?;
        let (empty, mut base) = (tail.is_empty(), tail.state.base);
        drop(tail);
        if empty && index.wrapping_sub(stream.next_seq()) != base {
            base = index.wrapping_sub(stream.next_seq());
            self.change_state(may_wait, None, |state| state.base = base)?;
        }
        let at = if may_wait { stream.append(bytes)? } else { stream.append_no_wait(bytes)? };
        if at.seq.wrapping_add(base) != index {
            return Err(Error::ForeignRecord { stream: stream.id() });
        }
        let (host, durable) = (&self.member.host, self.log().durable_lsn());
        let mut tail = self.tail();
        let end = at.end;
        tail.push(log_id.clone(), KeptEntry { bytes: Arc::clone(bytes), at });
        host.keep(bytes.len());
        while host.keeps_too_much() {
            let Some(bytes) = tail.drop_oldest(durable) else { break };
            host.let_go(bytes);
        }
        Ok(end)
    }

    /// Changes the state, and removes the entries before record `first` with that, by a thread that holds `writing`; returns the end
    /// of what must be durable for it.
    fn change_state(
        &self,
        may_wait: bool,
        first: Option<u64>,
        change: impl FnOnce(&mut StateOf<R>),
    ) -> Result<Lsn> {
        let mut state = self.tail().state.clone();
        change(&mut state);
        let (stream, record) = (self.log().stream(self.member.state), record::encode_state(&state)?);
        let seq = stream.next_seq();
        let trims = seq % STATE_RECORDS == STATE_RECORDS - 1;
        let end = if may_wait {
            self.log().transaction(|transaction| {
                transaction.append_to(stream.id(), &record)?;
                if trims {
                    transaction.trim(stream.id(), seq)?;
                }
                first.map_or(Ok(()), |first| transaction.trim(self.member.entries, first))
            })?
        } else if trims {
            // A trim may wait.
            return Err(seawall::Error::WouldBlock.into());
        } else {
            stream.append_no_wait(&record)?.end
        };
        self.tail().state = state;
        Ok(end)
    }

    /// Cuts off the entries from `from` on; returns the end of what must be durable for it.
    fn truncate(&self, from: u64) -> Result<Lsn> {
        let _writing = lock(&self.writing);
        let tail = self.tail();
        let from = from.max(tail.first());
        if from >= tail.next() {
            return Ok(self.log().appended_lsn());
        }
        let (before, seq) = (tail.find(from.saturating_sub(1), from), from.wrapping_sub(tail.state.base));
        drop(tail);
        let last = self.load(&before, 0)?.pop().map(|entry| R::log_id(&entry));
        self.tail().hide(from);
        let cut = self.log().stream(self.member.entries).truncate(seq);
        let mut tail = self.tail();
        if cut.is_err() {
            tail.show();
        } else {
            self.member.host.let_go(tail.cut(from, last));
        }
        Ok(cut?)
    }

    /// Removes the entries up to `upto`; returns the end of what must be durable for it.
    fn purge(&self, upto: &R::LogId) -> Result<Lsn> {
        let _writing = lock(&self.writing);
        let tail = self.tail();
        if tail.is_purged(R::index(upto)) {
            return Ok(self.log().appended_lsn());
        }
        let first = R::index(upto).saturating_add(1).clamp(tail.first(), tail.next());
        let first = (!tail.is_empty()).then_some(first.wrapping_sub(tail.state.base));
        drop(tail);
        let end = self.change_state(true, first, |state| state.purged = Some(upto.clone()))?;
        self.member.host.let_go(self.tail().purge());
        Ok(end)
    }

    /// The entries that were found, or the first of them if all would take more than `bytes_max`, but at least one.
    fn load(&self, found: &Found, bytes_max: usize) -> Result<Vec<R::Entry>> {
        let stream = self.log().stream(self.member.entries);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut fits = |record: &[u8], lsn| {
            let entry = record::decode_entry::<R>(record, found.from + entries.len() as u64);
            entries.push(entry.map_err(bad(stream.id(), lsn))?);
            bytes += record.len();
            Ok::<_, Error>(bytes < bytes_max)
        };
        if found.on_disk > 0 {
            let mut reader = stream.read(found.seq)?;
            for index in found.from..found.from + found.on_disk {
                let record = reader.next_record()?.ok_or(Error::Missing { index })?;
                if !fits(&record.payload, record.lsn)? {
                    return Ok(entries);
                }
            }
        }
        for kept in &found.kept {
            if !fits(&kept.bytes, kept.at.start)? {
                break;
            }
        }
        Ok(entries)
    }

    /// The entries of `from..to`, as far as there are any, or the first of them if all would take more than `bytes_max`.
    /// They are those of one moment.
    pub(crate) async fn entries(
        self: &Arc<Self>,
        from: u64,
        to: u64,
        bytes_max: usize,
    ) -> Result<Vec<R::Entry>> {
        loop {
            let found = self.tail().find(from, to);
            if found.on_disk == 0 {
                return self.load(&found, bytes_max);
            }
            let (first, cuts) = (found.from, found.cuts);
            let load = move |shared: &Self| {
                let loaded = shared.load(&found, bytes_max);
                if let Err(Error::Log(seawall::Error::StreamTrimmed { .. })) = loaded {
                    // The log knows of a purge before the readers do; they know of it when its thread holds this no more.
                    drop(lock(&shared.writing));
                }
                loaded
            };
            let loaded = self.apart(load).await;
            let tail = self.tail();
            match loaded {
                _ if tail.cuts() != cuts => {}
                // Purged meanwhile.
                Err(Error::Log(seawall::Error::StreamTrimmed { .. })) if tail.first() > first => {}
                loaded => return loaded,
            }
        }
    }
}

impl<R: RaftTypes> Drop for Shared<R> {
    fn drop(&mut self) {
        self.member.host.let_go(lock(&self.tail).kept_bytes());
    }
}

fn last_record<T>(
    stream: &Stream<'_>,
    decode: impl FnOnce(&[u8]) -> Result<T, BadRecord>,
) -> Result<Option<T>> {
    let (first, next) = (stream.first_seq(), stream.next_seq());
    if first == next {
        return Ok(None);
    }
    let record = stream.get(next - 1)?;
    decode(&record.payload).map(Some).map_err(bad(stream.id(), record.lsn))
}

fn bad(stream: StreamId, lsn: Lsn) -> impl FnOnce(BadRecord) -> Error {
    move |source| Error::Record { stream, lsn, source }
}

/// The indexes of a range, end exclusive.
pub(crate) fn indexes(range: &impl RangeBounds<u64>) -> (u64, u64) {
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
    (from, to)
}

/// The Raft log of one group: `v09::LogStore` and `v010::LogStore` are this with the types of their Openraft.
pub struct LogStore<R: RaftTypes> {
    pub(crate) shared: Arc<Shared<R>>,
}

/// Reads the Raft log of a group beside its store.
pub struct LogReader<R: RaftTypes> {
    pub(crate) shared: Arc<Shared<R>>,
}

impl<R: RaftTypes> Clone for LogReader<R> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<R: RaftTypes> Debug for LogStore<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore").field("group", &self.shared.member).finish_non_exhaustive()
    }
}

impl<R: RaftTypes> Debug for LogReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader").field("group", &self.shared.member).finish_non_exhaustive()
    }
}

impl<R: RaftTypes> LogStore<R> {
    /// Opens the log in `dir`, or makes one there, and in it group 0: the store of a node that has no other group.
    ///
    /// # Errors
    /// As [`Groups::open`] and [`Groups::store`].
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        Groups::open(dir, options)?.store(0)
    }

    /// The log behind it, for its statistics. Appending to the streams of the group would break the store.
    #[must_use]
    pub fn log(&self) -> &Log {
        self.shared.log()
    }

    /// Closes the log of a node that has no other group; see [`Groups::close`].
    ///
    /// # Errors
    /// [`Error::InUse`] if a reader or another user of the log is left, [`Error::Log`] if something could not be made
    /// durable.
    pub fn close(self) -> Result<()> {
        let host = Arc::clone(&self.shared.member.host);
        drop(Arc::into_inner(self.shared).ok_or(Error::InUse)?);
        Ok(Host::into_log(host)?.close()?)
    }

    /// A reader of its entries.
    #[must_use]
    pub fn reader(&self) -> LogReader<R> {
        LogReader { shared: Arc::clone(&self.shared) }
    }

    /// Appends the entries, up to the first one that is refused; they can be read from now on. Returns the commit that
    /// makes them durable, which needs the log for as long as it is awaited.
    pub(crate) async fn append_entries(&self, entries: Vec<R::Entry>) -> Result<(Arc<Host>, CommitFuture)> {
        let encode = |entry| Ok((R::log_id(&entry), Arc::<[u8]>::from(record::encode_entry::<R>(&entry)?)));
        let mut entries = entries.into_iter().map(encode).collect::<Result<VecDeque<_>>>()?;
        let mut end = self.log().durable_lsn();
        let appended = self.shared.write(move |shared, may_wait| {
            while let Some((log_id, bytes)) = entries.front() {
                end = shared.append_entry(log_id, bytes, may_wait)?;
                entries.pop_front();
            }
            Ok(end)
        });
        let end = appended.await?;
        // Requested here, so that the write is in flight before the task runs.
        Ok((Arc::clone(&self.shared.member.host), self.log().commit_async(end)))
    }

    /// Changes the state, not durable yet; returns where its record ends.
    pub(crate) async fn change_state(
        &self,
        change: impl Fn(&mut StateOf<R>) + Send + 'static,
    ) -> Result<Lsn> {
        let changed = self.shared.write(move |shared, may_wait| {
            let _writing = lock(&shared.writing);
            shared.change_state(may_wait, None, &change)
        });
        changed.await
    }

    /// Saves the vote, durable.
    pub(crate) async fn vote(&self, vote: R::Vote) -> Result<()> {
        let end = self.change_state(move |state| state.vote = Some(vote.clone())).await?;
        self.committed(end).await
    }

    /// Cuts off the entries from `from` on, durable.
    pub(crate) async fn truncate_from(&self, from: u64) -> Result<()> {
        let end = self.shared.apart(move |shared| shared.truncate(from)).await?;
        self.committed(end).await
    }

    /// Removes the entries up to `upto`, durable.
    pub(crate) async fn purge_upto(&self, upto: R::LogId) -> Result<()> {
        let end = self.shared.apart(move |shared| shared.purge(&upto)).await?;
        self.committed(end).await
    }

    async fn committed(&self, end: Lsn) -> Result<()> {
        self.log().commit_async(end).await?;
        Ok(())
    }
}
