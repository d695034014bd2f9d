//! Implements the log storage traits of Openraft 0.10.

use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use futures_util::{Stream, StreamExt, stream};
use openraft010::entry::RaftEntry;
use openraft010::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft010::type_config::alias::{LogIdOf, VoteOf};
use openraft010::vote::RaftVote;
use openraft010::{AsyncRuntime, LogId, OptionalSend, RaftLogReader, RaftTypeConfig};

use crate::store::{READ_BYTES, indexes};
use crate::types::RaftTypes;

/// The types of a Raft configuration of Openraft 0.10.
#[derive(Debug)]
pub struct Types<C>(PhantomData<fn() -> C>);

impl<C: RaftTypeConfig> RaftTypes for Types<C> {
    type LogId = LogIdOf<C>;
    type Vote = VoteOf<C>;
    type Entry = C::Entry;

    fn log_id(entry: &C::Entry) -> Self::LogId {
        let (leader, index) = entry.log_id_parts();
        LogId::new(leader.clone(), index)
    }

    fn index(log_id: &Self::LogId) -> u64 {
        log_id.index
    }

    fn uncommitted(vote: &Self::Vote) -> Self::Vote {
        Self::Vote::from_leader_id(vote.leader_id().clone(), false)
    }
}

/// A log store for Openraft 0.10.
pub type LogStore<C> = crate::LogStore<Types<C>>;
/// A log reader for Openraft 0.10.
pub type LogReader<C> = crate::LogReader<Types<C>>;

impl<C: RaftTypeConfig> RaftLogReader<C> for LogReader<C> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<C::Entry>> {
        let (from, to) = indexes(&range);
        self.shared.entries(from, to, usize::MAX).await.map_err(io::Error::other)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<C::Entry>> {
        self.shared.entries(start, end, READ_BYTES).await.map_err(io::Error::other)
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<C>>> {
        Ok(self.shared.tail().state.vote.clone())
    }

    /// Reads piece by piece, so that a node that applies a long log does not need memory for all of it.
    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = io::Result<C::Entry>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let (from, to) = indexes(&range);
        let pieces = stream::unfold((self.clone(), from), move |(reader, from)| async move {
            let piece = reader.shared.entries(from, to, READ_BYTES).await;
            let (piece, next) = match piece {
                Ok(entries) => {
                    let next = Types::<C>::log_id(entries.last()?).index.saturating_add(1);
                    (entries.into_iter().map(Ok).collect(), next)
                }
                // There is no entry of that index: nothing follows an error.
                Err(error) => (vec![Err(io::Error::other(error))], u64::MAX),
            };
            Some((stream::iter(piece), (reader, next)))
        });
        Box::pin(pieces.flatten())
    }
}

impl<C: RaftTypeConfig> RaftLogStorage<C> for LogStore<C> {
    type LogReader = LogReader<C>;

    async fn get_log_state(&mut self) -> io::Result<LogState<C>> {
        let tail = self.shared.tail();
        Ok(LogState { last_purged_log_id: tail.state.purged.clone(), last_log_id: tail.last_log_id() })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.reader()
    }

    async fn save_vote(&mut self, vote: &VoteOf<C>) -> io::Result<()> {
        self.vote(vote.clone()).await.map_err(io::Error::other)
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<C>>) -> io::Result<()> {
        let saved = self.change_state(move |state| state.committed.clone_from(&committed)).await;
        saved.map(drop).map_err(io::Error::other)
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<C>>> {
        Ok(self.shared.tail().state.committed.clone())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> io::Result<()>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let appended = self.append_entries(entries.into_iter().collect()).await;
        let (host, commit) = appended.map_err(io::Error::other)?;
        drop(C::AsyncRuntime::spawn(async move {
            let durable = commit.await;
            // The log stays open until here, otherwise no thread would finish the write.
            drop(host);
            callback.io_completed(durable.map(drop).map_err(io::Error::other));
        }));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<C>>) -> io::Result<()> {
        let from = last.map_or(0, |last| last.index.saturating_add(1));
        self.truncate_from(from).await.map_err(io::Error::other)
    }

    async fn purge(&mut self, upto: LogIdOf<C>) -> io::Result<()> {
        self.purge_upto(upto).await.map_err(io::Error::other)
    }
}
