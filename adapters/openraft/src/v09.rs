//! Implements the log storage traits of Openraft 0.9.

use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use openraft09::storage::{LogFlushed, RaftLogStorage};
use openraft09::{
    AsyncRuntime, LogId, LogState, OptionalSend, RaftLogId, RaftLogReader, RaftTypeConfig, StorageError,
    StorageIOError, Vote,
};

use crate::store::{READ_BYTES, indexes};
use crate::types::RaftTypes;

/// The types of a Raft configuration of Openraft 0.9.
#[derive(Debug)]
pub struct Types<C>(PhantomData<fn() -> C>);

impl<C: RaftTypeConfig> RaftTypes for Types<C> {
    type LogId = LogId<C::NodeId>;
    type Vote = Vote<C::NodeId>;
    type Entry = C::Entry;

    fn log_id(entry: &C::Entry) -> Self::LogId {
        entry.get_log_id().clone()
    }

    fn index(log_id: &Self::LogId) -> u64 {
        log_id.index
    }

    fn uncommitted(vote: &Self::Vote) -> Self::Vote {
        Vote { committed: false, ..vote.clone() }
    }
}

/// A log store for Openraft 0.9.
pub type LogStore<C> = crate::LogStore<Types<C>>;
/// A log reader for Openraft 0.9.
pub type LogReader<C> = crate::LogReader<Types<C>>;

type Outcome<T, C> = Result<T, StorageError<<C as RaftTypeConfig>::NodeId>>;

impl<C: RaftTypeConfig> RaftLogReader<C> for LogReader<C> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Outcome<Vec<C::Entry>, C> {
        let (from, to) = indexes(&range);
        let read = self.shared.entries(from, to, usize::MAX).await;
        read.map_err(|error| StorageIOError::read_logs(&error).into())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Outcome<Vec<C::Entry>, C> {
        let read = self.shared.entries(start, end, READ_BYTES).await;
        read.map_err(|error| StorageIOError::read_logs(&error).into())
    }
}

impl<C: RaftTypeConfig> RaftLogReader<C> for LogStore<C> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Outcome<Vec<C::Entry>, C> {
        self.reader().try_get_log_entries(range).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Outcome<Vec<C::Entry>, C> {
        self.reader().limited_get_log_entries(start, end).await
    }
}

impl<C: RaftTypeConfig> RaftLogStorage<C> for LogStore<C> {
    type LogReader = LogReader<C>;

    async fn get_log_state(&mut self) -> Outcome<LogState<C>, C> {
        let tail = self.shared.tail();
        Ok(LogState { last_purged_log_id: tail.state.purged.clone(), last_log_id: tail.last_log_id() })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.reader()
    }

    async fn save_vote(&mut self, vote: &Vote<C::NodeId>) -> Outcome<(), C> {
        let saved = self.vote(vote.clone()).await;
        saved.map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Outcome<Option<Vote<C::NodeId>>, C> {
        Ok(self.shared.tail().state.vote.clone())
    }

    async fn save_committed(&mut self, committed: Option<LogId<C::NodeId>>) -> Outcome<(), C> {
        let saved = self.change_state(move |state| state.committed.clone_from(&committed)).await;
        saved.map(drop).map_err(|error| StorageIOError::write(&error).into())
    }

    async fn read_committed(&mut self) -> Outcome<Option<LogId<C::NodeId>>, C> {
        Ok(self.shared.tail().state.committed.clone())
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<C>) -> Outcome<(), C>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let appended = self.append_entries(entries.into_iter().collect()).await;
        let (host, commit) = appended.map_err(|error| StorageIOError::write_logs(&error))?;
        drop(C::AsyncRuntime::spawn(async move {
            let durable = commit.await;
            // The log stays open until here, otherwise no thread would finish the write.
            drop(host);
            callback.log_io_completed(durable.map(drop).map_err(io::Error::other));
        }));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<C::NodeId>) -> Outcome<(), C> {
        let truncated = self.truncate_from(log_id.index).await;
        truncated.map_err(|error| StorageIOError::write_logs(&error).into())
    }

    async fn purge(&mut self, log_id: LogId<C::NodeId>) -> Outcome<(), C> {
        let purged = self.purge_upto(log_id).await;
        purged.map_err(|error| StorageIOError::write_logs(&error).into())
    }
}
