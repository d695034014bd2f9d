//! Appends the write batches of one database instance, and tells SlateDB when they are durable.
//!
//! ```text
//! append               a turn of this epoch -> log.append -> pending -> the commit is requested
//! a thread of the log  a group was committed -> what of the pending is durable -> status -> listeners
//! ```
//!
//! Invariant: what is pending changes, and events are given, under one lock, so that events come in the order of the log. The listeners of
//! SlateDB neither wait nor call back.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use seawall::{Log, Lsn};
use slatedb::RowEntry;
use slatedb::wal::{
    WalError, WalEvent, WalFlushResult, WalObserver, WalStatus, WalStatusListener, WalWriter,
};
use tokio::sync::watch;

use crate::error::Error;
use crate::record::encode;
use crate::wal::Shared;

/// Rows of this many bytes may have to be replayed before the memtable is flushed because of that.
const REPLAY_BYTES_MAX: u64 = 256 << 20;

/// What SlateDB sees of a writer.
pub(crate) struct Progress {
    status: watch::Sender<WalStatus>,
    pending: Mutex<Pending>,
}

struct Pending {
    /// Where each batch that is not durable ends, and its sequence number.
    batches: VecDeque<(Lsn, u64)>,
    /// The end of the last batch.
    end: Lsn,
    listeners: Vec<WalStatusListener>,
}

impl Progress {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what has become durable, and that the log has failed if something never will.
    pub(crate) fn look(&self, log: &Log) {
        let mut pending = self.pending();
        let (durable, mut last) = (log.durable_lsn(), None);
        while pending.batches.front().is_some_and(|(end, _)| *end <= durable) {
            last = pending.batches.pop_front();
        }
        if let Some((end, seq)) = last {
            self.status.send_modify(|status| {
                status.last_flushed_wal_id = end.get();
                status.last_flushed_seq = Some(seq);
                status.estimated_bytes = usize::try_from(pending.end.since(end)).unwrap_or(usize::MAX);
                status.buffered_wal_entries_count = pending.batches.len();
            });
            self.tell(&pending, WalEvent::WalFlushed);
        }
        // A future says why a log that has failed will not commit.
        let Some((end, _)) = pending.batches.front() else { return };
        let commit = pin!(log.commit_async(*end));
        if let Poll::Ready(Err(error)) = commit.poll(&mut Context::from_waker(Waker::noop())) {
            self.end(&pending, &Error::Log(error).into());
        }
    }

    /// The writer has ended, for the first reason that is given.
    fn end(&self, pending: &Pending, reason: &WalError) {
        let first = self.status.send_if_modified(|status| {
            let first = status.closed_reason.is_none();
            status.closed_reason.get_or_insert_with(|| reason.clone());
            first
        });
        if first {
            self.tell(pending, WalEvent::WalClosed);
        }
    }

    fn tell(&self, pending: &Pending, event: impl Fn(WalStatus) -> WalEvent) {
        let status = self.status.borrow().clone();
        pending.listeners.iter().for_each(|listener| listener(event(status.clone())));
    }

    fn get(&self) -> Result<WalStatus, WalStatus> {
        let status = self.status.borrow().clone();
        if status.closed_reason.is_some() { Err(status) } else { Ok(status) }
    }
}

struct Observer(Arc<Progress>);

impl WalObserver for Observer {
    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.0.get()
    }

    fn subscribe(&self, listener: WalStatusListener) -> Result<(), WalError> {
        self.0.pending().listeners.push(listener);
        Ok(())
    }
}

/// The writer of one epoch.
pub(crate) struct Writer {
    wal: Arc<Shared>,
    epoch: u64,
    progress: Arc<Progress>,
}

impl Writer {
    /// The writer of `epoch` in a log that is durable up to `end`, and ends there.
    pub(crate) fn new(wal: Arc<Shared>, epoch: u64, end: Lsn) -> Self {
        let status = WalStatus {
            closed_reason: None,
            estimated_bytes: 0,
            last_flushed_wal_id: end.get(),
            last_flushed_seq: None,
            buffered_wal_entries_count: 0,
        };
        let pending = Pending { batches: VecDeque::new(), end, listeners: Vec::new() };
        let progress =
            Arc::new(Progress { status: watch::Sender::new(status), pending: Mutex::new(pending) });
        wal.watch(&progress);
        Self { wal, epoch, progress }
    }

    fn end(&self, error: WalError) -> WalError {
        self.progress.end(&self.progress.pending(), &error);
        error
    }
}

#[async_trait::async_trait]
impl WalWriter for Writer {
    async fn append(&mut self, write_batch: &[RowEntry]) -> Result<(), WalError> {
        self.status()?;
        let Some(row) = write_batch.first() else { return Ok(()) };
        let record = encode(write_batch)?;
        let turn = self.wal.turn.read().await;
        if *turn != self.epoch {
            return Err(self.end(WalError::Fenced));
        }
        let appended = self.wal.log.append_async(&record).await;
        drop(turn);
        let at = appended.map_err(|error| self.end(Error::Log(error).into()))?;
        let mut pending = self.progress.pending();
        pending.batches.push_back((at.end, row.seq));
        pending.end = at.end;
        drop(pending);
        // Requests the commit, and sees it if it was done before the batch was pending.
        self.progress.look(&self.wal.log);
        Ok(())
    }

    async fn flush(&mut self) -> Result<WalFlushResult, WalError> {
        self.status()?;
        let end = self.progress.pending().end.get();
        let mut status = self.progress.status.subscribe();
        let completion = async move {
            let reached = |status: &WalStatus| status.last_flushed_wal_id >= end;
            match status.wait_for(|status| reached(status) || status.closed_reason.is_some()).await {
                Ok(status) if reached(&status) => Ok(()),
                Ok(status) => Err(status.closed_reason.clone().unwrap_or(WalError::Closed)),
                Err(_) => Err(WalError::Closed),
            }
        };
        Ok(WalFlushResult { wal_id: end, completion: Box::pin(completion) })
    }

    fn should_flush_memtable(&self, replay_after_wal_id: u64) -> bool {
        let end = self.progress.pending().end.get();
        end.saturating_sub(replay_after_wal_id) >= REPLAY_BYTES_MAX
    }

    fn observer(&self) -> Box<dyn WalObserver> {
        Box::new(Observer(Arc::clone(&self.progress)))
    }

    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.progress.get()
    }

    async fn close(&mut self) -> Result<(), WalError> {
        if self.status().is_ok() {
            self.flush().await?.completion.await?;
        }
        self.end(WalError::Closed);
        Ok(())
    }
}
