//! Implements Openraft's log storage traits over a Seawall log.
//!
//! Invariants: the index changes only together with an accepted record, under one lock, so that replaying the log
//! gives the same index; entries leave the index before the log is trimmed, so that a reader that finds its place
//! trimmed looks up the entry again and finds it gone; a callback is called only with the log's result for its LSN.

use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{
    AnyError, AsyncRuntime, LogId, LogState, OptionalSend, RaftLogId, RaftLogReader, RaftTypeConfig,
    StorageError, StorageIOError, Vote,
};
use seawall::{Log, Lsn, Options, Payload};

use crate::apart::apart;
use crate::error::{BadRecord, Error, Result};
use crate::index::{Index, Place};
use crate::record::{self, State, Stored};

/// Bytes of entries that are kept in memory by default: 16 MiB.
pub const KEEP_BYTES: usize = 16 << 20;

struct Shared<C: RaftTypeConfig> {
    log: Arc<Log>,
    index: Mutex<Index<C>>,
    keep_bytes: usize,
}

/// A Seawall log as the log store of one Raft node. Copies share the log.
pub struct LogStore<C: RaftTypeConfig> {
    shared: Arc<Shared<C>>,
}

impl<C: RaftTypeConfig> Clone for LogStore<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C: RaftTypeConfig> Debug for LogStore<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore").field("log", &self.shared.log).finish_non_exhaustive()
    }
}

impl<C: RaftTypeConfig> Shared<C> {
    /// A thread that panicked while it held the lock left no half-done change behind.
    fn index(&self) -> MutexGuard<'_, Index<C>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends entries up to the first one that is refused; returns the end of the last one. What was purged is in a
    /// snapshot already and is passed over.
    fn append(&self, entries: impl IntoIterator<Item = C::Entry>) -> Result<Lsn> {
        let mut index = self.index();
        let mut end = self.log.appended_lsn();
        for entry in entries {
            if index.is_purged(entry.get_log_id()) {
                continue;
            }
            index.check_next(entry.get_log_id())?;
            let bytes = record::entry::<C>(&entry)?;
            let start = end;
            end = self.log.append(&bytes)?;
            index.push(entry.get_log_id().clone(), start, Some(bytes.into()));
        }
        index.drop_bytes(self.keep_bytes, self.log.durable_lsn());
        Ok(end)
    }

    /// Changes the state; returns where its record starts and ends, and where the first entry starts.
    fn change(&self, change: impl FnOnce(&mut State<C::NodeId>)) -> Result<(Lsn, Lsn, Option<Lsn>)> {
        let mut index = self.index();
        let mut state = index.state().clone();
        change(&mut state);
        let start = self.log.appended_lsn();
        let end = self.log.append(&record::state(&state)?)?;
        index.set_state(state);
        Ok((start, end, index.first_start()))
    }

    fn truncate(&self, from: &LogId<C::NodeId>) -> Result<Lsn> {
        let mut index = self.index();
        let end = self.log.append(&record::truncated(from)?)?;
        index.truncate(from.index);
        Ok(end)
    }

    async fn commit(&self, lsn: Lsn) -> Result<()> {
        self.log.commit_async(lsn).await?;
        Ok(())
    }

    /// Reads the records that start at `starts`, which grow, without stopping the runtime meanwhile.
    async fn read_back(&self, first: u64, starts: &[Lsn]) -> Result<Vec<C::Entry>> {
        if starts.is_empty() {
            return Ok(Vec::new());
        }
        let (log, wanted) = (Arc::clone(&self.log), starts.to_vec());
        let read = apart(move || {
            let read = records_at(&log, first, &wanted);
            // Before the result is visible: the store may be closed right then.
            drop(log);
            read
        });
        let cannot_start = |source| {
            let path = self.log.dir().to_path_buf();
            Error::Log(seawall::Error::Io { operation: "start a thread for", path, source })
        };
        let records = read.await.map_err(cannot_start)??;
        records.iter().zip(starts).map(|(payload, start)| decode_entry::<C>(payload, *start)).collect()
    }

    async fn entries(&self, range: impl RangeBounds<u64>) -> Result<Vec<C::Entry>> {
        loop {
            let (first, places) = self.index().places(&range);
            let on_disk: Vec<Lsn> = places
                .iter()
                .map_while(|place| match place {
                    Place::Disk(start) => Some(*start),
                    Place::Memory(_) => None,
                })
                .collect();
            let mut entries = match self.read_back(first, &on_disk).await {
                // Purged meanwhile, and no longer in the index.
                Err(Error::Log(seawall::Error::Trimmed { .. })) => continue,
                read => read?,
            };
            for place in &places[on_disk.len()..] {
                let Place::Memory(bytes) = place else { return Err(Error::Missing { index: first }) };
                entries.push(decode_entry::<C>(bytes, Lsn::MAX)?);
            }
            return Ok(entries);
        }
    }
}

/// The records of `log` that start at `starts`, which grow; the first of them is entry `first`.
fn records_at(log: &Log, first: u64, starts: &[Lsn]) -> Result<Vec<Payload>> {
    let mut records = Vec::with_capacity(starts.len());
    let Some(from) = starts.first() else { return Ok(records) };
    let mut reader = log.read(*from)?;
    for (index, start) in (first..).zip(starts) {
        let record = loop {
            match reader.next_record()? {
                // Between two entries may lie records that are no entry of this range: state, or entries cut off since.
                Some(record) if record.lsn < *start => {}
                Some(record) if record.lsn == *start => break record,
                _ => return Err(Error::Missing { index }),
            }
        };
        records.push(record.payload);
    }
    Ok(records)
}

fn decode_entry<C: RaftTypeConfig>(bytes: &[u8], lsn: Lsn) -> Result<C::Entry> {
    match record::decode::<C>(bytes) {
        Ok(Stored::Entry(entry)) => Ok(entry),
        Ok(_) => Err(Error::Record { lsn, source: BadRecord::NotAnEntry }),
        Err(source) => Err(Error::Record { lsn, source }),
    }
}

impl<C: RaftTypeConfig> LogStore<C> {
    /// Opens the store in `dir`, or makes one there; reads the whole log once.
    ///
    /// # Errors
    /// As [`Log::open`], and [`Error::Record`] if a record is none of this store's.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::new(Log::open(dir, options)?, KEEP_BYTES)
    }

    /// A store over `log`, which belongs to it alone, that keeps the bytes of the newest entries in memory, up to
    /// `keep_bytes` of what is durable.
    ///
    /// # Errors
    /// As [`Log::read`], and [`Error::Record`] if a record is none of this store's.
    pub fn new(log: Log, keep_bytes: usize) -> Result<Self> {
        let mut index = Index::default();
        let mut reader = log.read(log.first_lsn())?;
        while let Some(record) = reader.next_record()? {
            let wrong = |source| Error::Record { lsn: record.lsn, source };
            let stored = record::decode::<C>(&record.payload).map_err(wrong)?;
            index.replay(stored, record.lsn).map_err(wrong)?;
        }
        drop(reader);
        let (log, index) = (Arc::new(log), Mutex::new(index));
        Ok(Self { shared: Arc::new(Shared { log, index, keep_bytes }) })
    }

    /// The log behind it, for its statistics. Appending to it would break the store.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Makes everything durable and leaves the mark of a clean end. Without it the next opening reads a torn tail,
    /// and what had not been reported durable may be gone.
    ///
    /// # Errors
    /// [`Error::InUse`] if a copy or reader of the store is left, [`Error::Log`] if something could not be made
    /// durable.
    pub fn close(self) -> Result<()> {
        let shared = Arc::into_inner(self.shared).ok_or(Error::InUse)?;
        let log = Arc::into_inner(shared.log).ok_or(Error::InUse)?;
        Ok(log.close()?)
    }
}

fn cause(error: &Error) -> AnyError {
    AnyError::new(error)
}

impl<C: RaftTypeConfig> RaftLogReader<C> for LogStore<C> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        let read = self.shared.entries(range).await;
        read.map_err(|error| StorageIOError::read_logs(cause(&error)).into())
    }
}

impl<C: RaftTypeConfig> RaftLogStorage<C> for LogStore<C> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<C>, StorageError<C::NodeId>> {
        let index = self.shared.index();
        Ok(LogState { last_purged_log_id: index.state().purged.clone(), last_log_id: index.last_log_id() })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let failed = |error: Error| StorageIOError::write_vote(cause(&error));
        let (_, end, _) = self.shared.change(|state| state.vote = Some(vote.clone())).map_err(failed)?;
        Ok(self.shared.commit(end).await.map_err(failed)?)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<C::NodeId>>, StorageError<C::NodeId>> {
        Ok(self.shared.index().state().vote.clone())
    }

    async fn save_committed(
        &mut self,
        committed: Option<LogId<C::NodeId>>,
    ) -> Result<(), StorageError<C::NodeId>> {
        let changed = self.shared.change(|state| state.committed = committed);
        changed.map(drop).map_err(|error| StorageIOError::write(cause(&error)).into())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId<C::NodeId>>, StorageError<C::NodeId>> {
        Ok(self.shared.index().state().committed.clone())
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<C>) -> Result<(), StorageError<C::NodeId>>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let appended = self.shared.append(entries);
        let end = appended.map_err(|error| StorageIOError::write_logs(cause(&error)))?;
        // Asked for here, so that the write is in flight before the task runs.
        let commit = self.shared.log.commit_async(end);
        let shared = Arc::clone(&self.shared);
        drop(C::AsyncRuntime::spawn(async move {
            let durable = commit.await;
            // The log stays open until here, otherwise no thread would finish the write.
            drop(shared);
            callback.log_io_completed(durable.map(drop).map_err(io::Error::other));
        }));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let failed = |error: Error| StorageIOError::write_logs(cause(&error));
        let end = self.shared.truncate(&log_id).map_err(failed)?;
        Ok(self.shared.commit(end).await.map_err(failed)?)
    }

    async fn purge(&mut self, log_id: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let failed = |error: Error| StorageIOError::write_logs(cause(&error));
        let changed = self.shared.change(|state| state.purged = state.purged.clone().max(Some(log_id)));
        let (start, end, first) = changed.map_err(failed)?;
        self.shared.commit(end).await.map_err(failed)?;
        // What is left begins with the first entry or with the state, whichever comes first.
        let trimmed = self.shared.log.trim(first.map_or(start, |first| first.min(start)));
        trimmed.map_err(|error| failed(error.into()))?;
        Ok(())
    }
}
