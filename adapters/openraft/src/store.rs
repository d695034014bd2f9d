//! Keeps the Raft log of one group in two streams of a log; the traits of Openraft are implemented over it.
//!
//! Invariants: writers of a group come one after the other, and what they change in memory is what the records say that
//! the log accepted; a vote that was read from the disk is not committed; a record says where the entries begin before the
//! first entry that lies elsewhere; no thread of an executor waits for the disk: what may wait runs on a thread of its own,
//! also when its future is dropped.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seawall::{CommitFuture, Log, Lsn, Options, Stream, StreamAppend};
use seawall_sys::planted;

use crate::apart::apart;
use crate::error::{BadRecord, Error, Result};
use crate::groups::{Groups, Host, Member};
use crate::record::{self, StateOf};
use crate::tail::{KeptEntry, Tail, decode_kept};
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

fn append_record(stream: &Stream<'_>, record: &[u8], may_wait: bool) -> Result<StreamAppend> {
    Ok(if may_wait { stream.append(record)? } else { stream.append_no_wait(record)? })
}

impl<R: RaftTypes> Shared<R> {
    /// Reads what the log has of a group.
    fn open(member: Member) -> Result<Self> {
        let log = &member.host.log;
        // Only what is durable can be read.
        log.commit(log.appended_lsn())?;
        let state = last_record(&log.stream(member.state))?;
        let state = state.map_or(Ok(Some(StateOf::<R>::default())), |record| {
            record::decode_state::<R>(&record.payload)
                .map_err(|source| bad(&member, true, record.lsn, source))
        });
        let mut state = state?.map_or_else(|| member.remove().map(|()| StateOf::<R>::default()), Ok)?;
        // Raft may have sent entries to other nodes that were not durable here and are gone. A node that led on in the same
        // term would give their log ids to other entries; one that has to be elected gives only ids of a new term.
        if let Some(vote) = planted!(RaftTermGoesOn, state.vote.as_ref()) {
            state.vote = Some(R::uncommitted(vote));
        }
        let stream = log.stream(member.entries);
        let purged = state.purged.as_ref().map_or(0, |purged| R::index(purged).saturating_add(1));
        let index_of = |seq: u64| seq.wrapping_add(state.base);
        let (mut first, next) = (index_of(stream.first_seq()), index_of(stream.next_seq()));
        if first < next && purged > first {
            // A crash came between the record of a purge and the trim.
            first = purged.min(next);
            stream.trim(first.wrapping_sub(state.base))?;
        }
        if first == next {
            let tail = Tail::new(state, (purged, purged), None);
            return Ok(Self { member, writing: Mutex::default(), tail: Mutex::new(tail) });
        }
        if (state.purged.is_some() && purged < first) || (state.purged.is_none() && stream.first_seq() > 0) {
            return Err(Error::Missing { index: purged });
        }
        let last = last_record(&stream)?.ok_or(Error::Missing { index: next - 1 })?;
        let last = record::decode_entry::<R>(&last.payload, next - 1)
            .map_err(|source| bad(&member, false, last.lsn, source))?;
        let tail = Tail::new(state, (first, next), Some(R::log_id(&last)));
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
            self.change_state(may_wait, |state| state.base = base)?;
        }
        let StreamAppend { seq, end, .. } = append_record(&stream, bytes, may_wait)?;
        if seq.wrapping_add(base) != index {
            return Err(Error::ForeignRecord { stream: stream.id() });
        }
        let (host, durable) = (&self.member.host, self.log().durable_lsn());
        let mut tail = self.tail();
        tail.push(log_id.clone(), KeptEntry { bytes: Arc::clone(bytes), end });
        host.keep(bytes.len());
        while host.keeps_too_much() {
            let Some(bytes) = tail.drop_oldest(durable) else { break };
            host.let_go(bytes);
        }
        Ok(end)
    }

    /// Changes the state, by a thread that holds `writing`; returns where its record ends.
    fn change_state(&self, may_wait: bool, change: impl FnOnce(&mut StateOf<R>)) -> Result<Lsn> {
        let mut state = self.tail().state.clone();
        change(&mut state);
        let stream = self.log().stream(self.member.state);
        let trims = stream.next_seq() % STATE_RECORDS == STATE_RECORDS - 1;
        if trims && !may_wait {
            // A trim may wait.
            return Err(seawall::Error::WouldBlock.into());
        }
        let StreamAppend { seq, end, .. } = append_record(&stream, &record::state(&state)?, may_wait)?;
        self.tail().state = state;
        if trims { Ok(stream.trim(seq)?) } else { Ok(end) }
    }

    /// Cuts off the entries from `from` on; returns the end of what must be durable for it.
    fn truncate(&self, from: u64) -> Result<Lsn> {
        let _writing = lock(&self.writing);
        let stream = self.log().stream(self.member.entries);
        let tail = self.tail();
        let (from, base) = (from.max(tail.first()), tail.state.base);
        if from >= tail.next() {
            return Ok(self.log().appended_lsn());
        }
        let last = tail.last_before(from);
        drop(tail);
        let last = match last {
            Ok(last) => last,
            Err(_) => self.read(from - 1, 1, base, 0)?.pop().map(|entry| R::log_id(&entry)),
        };
        self.tail().hide(from);
        let cut = stream.truncate(from.wrapping_sub(base));
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
        if self.tail().is_purged(R::index(upto)) {
            return Ok(self.log().appended_lsn());
        }
        let end = self.change_state(true, |state| state.purged = Some(upto.clone()))?;
        let mut tail = self.tail();
        let (old, base) = (tail.next(), tail.state.base);
        if tail.is_empty() {
            tail.purge();
            return Ok(end);
        }
        // Readers know of it before the log does: one that finds its entry trimmed looks again.
        self.member.host.let_go(tail.purge());
        let first = tail.first().min(old);
        drop(tail);
        Ok(self.log().stream(self.member.entries).trim(first.wrapping_sub(base))?)
    }

    /// Reads `count` durable entries from `from` on, fewer if they take more than `bytes_max`, but at least one.
    fn read(&self, from: u64, count: u64, base: u64, bytes_max: usize) -> Result<Vec<R::Entry>> {
        let mut entries = Vec::new();
        let mut reader = self.log().stream(self.member.entries).read(from.wrapping_sub(base))?;
        let mut bytes = 0;
        for index in (from..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
            let record = reader.next_record()?.ok_or(Error::Missing { index })?;
            let entry = record::decode_entry::<R>(&record.payload, index);
            entries.push(entry.map_err(|source| bad(&self.member, false, record.lsn, source))?);
            bytes += record.payload.len();
            if bytes >= bytes_max {
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
            let (found, base) = {
                let tail = self.tail();
                (tail.find(from, to), tail.state.base)
            };
            let mut entries = Vec::new();
            if found.on_disk > 0 {
                let read =
                    self.apart(move |shared| shared.read(found.from, found.on_disk, base, bytes_max)).await;
                if self.tail().cuts() != found.cuts {
                    continue;
                }
                match read {
                    // Purged meanwhile.
                    Err(Error::Log(seawall::Error::StreamTrimmed { .. }))
                        if self.tail().first() > found.from =>
                    {
                        continue;
                    }
                    read => entries = read?,
                }
                if (entries.len() as u64) < found.on_disk || bytes_max < usize::MAX {
                    return Ok(entries);
                }
            }
            let kept = decode_kept::<R>(&found.kept, found.from + found.on_disk, bytes_max);
            entries.extend(kept.map_err(|source| bad(&self.member, false, Lsn::MAX, source))?);
            return Ok(entries);
        }
    }
}

impl<R: RaftTypes> Drop for Shared<R> {
    fn drop(&mut self) {
        self.member.host.let_go(lock(&self.tail).kept_bytes());
    }
}

fn last_record(stream: &Stream<'_>) -> Result<Option<seawall::Record>> {
    let (first, next) = (stream.first_seq(), stream.next_seq());
    if first == next { Ok(None) } else { Ok(Some(stream.get(next - 1)?)) }
}

fn bad(member: &Member, is_state: bool, lsn: Lsn, source: BadRecord) -> Error {
    let stream = if is_state { member.state } else { member.entries };
    Error::Record { stream, lsn, source }
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

    pub(crate) fn of_group(member: Member) -> Result<Self> {
        Ok(Self { shared: Arc::new(Shared::open(member)?) })
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
        let encode = |entry| Ok((R::log_id(&entry), Arc::<[u8]>::from(record::entry::<R>(&entry)?)));
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
            shared.change_state(may_wait, &change)
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
