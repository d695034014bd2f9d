//! Follows a log, or a stream of it: hands out durable records as they come, to a thread that waits or to a task that is polled.
//!
//! A thread that waits reads itself. A task must not wait for the disk, so a follower of the log lends its reader to a thread of
//! the log (`follow_thread.rs`) for each batch that it needs, and takes the records of that batch from memory:
//!
//! ```text
//!   poll ─► a record in memory ─► ready
//!     ├──► a durable batch not read yet ─► lend the reader ─► pending until it is back
//!     └──► the end ─► pending until more is durable, as a commit of the next byte
//! ```
//!
//! Invariants: where it stands is in the follower, never in a future, so that dropping a future loses no record; it registers
//! before it looks for the end for the last time, so no wake-up is lost; a poll of a follower of the log makes no call to the disk.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::commit::group::Group;
use crate::commit::waiters::Registration;
use crate::error::{Error, Result};
use crate::lsn::Lsn;
use crate::read::follow_thread::{FollowThread, Loan};
use crate::read::reader::{Reader, Record};
use seawall_sys::wait;

/// What a [`Follower`] reads.
pub trait Followed {
    /// The next durable record if there is one now. Reads the disk if it must.
    fn next_now(&mut self) -> Result<Option<Record>>;

    /// The same for a task, which is woken if it is pending: then the disk is being read.
    fn poll_now(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Record>>> {
        Poll::Ready(self.next_now())
    }

    /// The LSN after which the next record is.
    fn at(&self) -> Lsn;
}

/// Reads durable records as they come, of a log or of a stream ([`StreamFollower`](crate::StreamFollower)).
///
/// With the feature `stream` one of a log is a `futures_core::Stream` of records, which ends when the log is closed and after the first
/// error.
pub struct Follower<R = LogRecords> {
    group: Arc<Group>,
    pub(crate) records: R,
    registration: Registration,
}

impl<R: std::fmt::Debug> std::fmt::Debug for Follower<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("records", &self.records).finish_non_exhaustive()
    }
}

impl<R: Followed> Follower<R> {
    pub(crate) fn new(group: Arc<Group>, records: R) -> Self {
        Self { group, records, registration: Registration::default() }
    }

    /// The next durable record if there is one now. Reads the disk if it must; a task calls [`Follower::poll_next_record`].
    ///
    /// # Errors
    /// As [`Reader::next_record`], of a stream as [`StreamReader::next_record`](crate::StreamReader::next_record).
    pub fn try_next_record(&mut self) -> Result<Option<Record>> {
        self.records.next_now()
    }

    /// The next durable record; waits for it. `None` when the log was closed and everything has been handed out.
    ///
    /// # Errors
    /// As [`Follower::try_next_record`], and [`Error::Failed`] when the log has failed and everything durable has been
    /// handed out.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        loop {
            // First without a ticket: while one is out, every commit makes a system call to wake its holder.
            let found = self.records.next_now()?;
            if found.is_some() {
                return Ok(found);
            }
            let gate = &self.group.waiters.follower_gate;
            let ticket = gate.ticket();
            // Before the look for a record: what becomes durable last does so before either is true.
            let (failed, stopping) = (self.group.status.failed(), self.group.status.is_stopping());
            let found = self.records.next_now();
            if !matches!(found, Ok(None)) {
                gate.leave();
                return found;
            }
            if let Some(failed) = failed {
                gate.leave();
                return Err(failed);
            }
            if stopping {
                gate.leave();
                return Ok(None);
            }
            gate.wait(ticket);
        }
    }

    /// As [`Follower::next_record`], but waits for at most `timeout`; a later call continues where this one stopped. Nothing could
    /// interrupt a read of the disk, so a thread of the log reads for a follower of the log; one of a stream reads itself.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when the time is over, with the LSN after which the next record is. Otherwise as
    /// [`Follower::next_record`].
    pub fn next_record_timeout(&mut self, timeout: Duration) -> Result<Option<Record>> {
        let found = wait::ready(Some(timeout), |context| self.poll_next_record(context));
        found.unwrap_or_else(|| Err(Error::TimedOut { lsn: self.records.at(), timeout }))
    }

    /// As [`Follower::next_record`], for a task: of several wakers the last one is called. A follower of a stream reads what is in no
    /// cache from the disk in the poll, a record at a time.
    ///
    /// # Errors
    /// As [`Follower::next_record`], [`Error::Io`] if the thread that reads cannot be started, [`Error::Forked`].
    pub fn poll_next_record(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Record>>> {
        self.group.status.check_process()?;
        let mut registered = false;
        loop {
            // Before the look for a record: what becomes durable last does so before either is true.
            let (failed, stopping) = (self.group.status.failed(), self.group.status.is_stopping());
            let durable = self.group.durable();
            if let Some(record) = ready!(self.records.poll_now(context))? {
                return Poll::Ready(Ok(Some(record)));
            }
            if let Some(failed) = failed {
                return Poll::Ready(Err(failed));
            }
            if stopping {
                return Poll::Ready(Ok(None));
            }
            if registered {
                return Poll::Pending;
            }
            let more = (self.group.config.own(), durable.saturating_add(1));
            self.group.waiters.register(&mut self.registration, more, context.waker());
            // More may have become durable before that.
            registered = true;
        }
    }
}

impl Follower {
    /// As [`Follower::next_record`], as a future, which needs no runtime. Dropping it at any point is safe: the next call
    /// returns the record that this one would have returned.
    ///
    /// Records in memory are ready at once. A thread that all followers of the log share, started for the first of them,
    /// reads the disk, a batch at a time: an executor's thread never blocks, even if the data
    /// is not cached.
    pub fn next_record_async(&mut self) -> impl Future<Output = Result<Option<Record>>> + '_ {
        poll_fn(|context| self.poll_next_record(context))
    }
}

impl<R> Drop for Follower<R> {
    fn drop(&mut self) {
        // In a process that was forked off, a lock may be held for ever.
        if self.group.status.is_owner_process() {
            self.group.waiters.forget(&mut self.registration);
        }
    }
}

#[cfg(feature = "stream")]
impl futures_core::Stream for Follower {
    type Item = Result<Record>;

    fn poll_next(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.records.ended {
            return Poll::Ready(None);
        }
        let polled = self.poll_next_record(context).map(Result::transpose);
        self.records.ended = matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }
}

#[cfg(feature = "stream")]
impl futures_core::stream::FusedStream for Follower {
    fn is_terminated(&self) -> bool {
        self.records.ended
    }
}

/// The records of a log, whose reader is lent to a thread to read the disk for a task.
pub struct LogRecords {
    group: Arc<Group>,
    /// `None` while it is lent.
    reader: Option<Reader>,
    /// It has been polled: no thread of it may wait for the disk.
    polled: bool,
    loan: Option<Loan>,
    thread: Arc<FollowThread>,
    /// Where the last record ended that was handed out.
    at: Lsn,
    /// As a `futures_core::Stream` it has ended.
    #[cfg(feature = "stream")]
    ended: bool,
}

impl std::fmt::Debug for LogRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogRecords")
            .field("reader", &self.reader)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Followed for LogRecords {
    fn next_now(&mut self) -> Result<Option<Record>> {
        let found = self.reader()?.next_record()?;
        Ok(self.hand_out(found))
    }

    fn poll_now(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Record>>> {
        loop {
            ready!(self.poll_loan(context))?;
            let Some(reader) = &mut self.reader else { return Poll::Ready(Err(lost(&self.group))) };
            if let Some(record) = reader.next_in_memory() {
                return Poll::Ready(Ok(self.hand_out(Some(record))));
            }
            if !reader.is_behind() {
                return Poll::Ready(Ok(None));
            }
            self.lend()?;
        }
    }

    fn at(&self) -> Lsn {
        self.at
    }
}

impl LogRecords {
    pub(crate) fn new(group: Arc<Group>, reader: Reader, thread: Arc<FollowThread>, from: Lsn) -> Self {
        Self {
            group,
            reader: Some(reader),
            polled: false,
            loan: None,
            thread,
            at: from,
            #[cfg(feature = "stream")]
            ended: false,
        }
    }

    /// Gives the reader to the thread that reads.
    fn lend(&mut self) -> Result<()> {
        self.polled = true;
        let loan = self.thread.lend(&mut self.reader);
        let failed = |source| Error::io("start a thread for", self.group.writers.dir(), source);
        self.loan = Some(loan.map_err(failed)?);
        Ok(())
    }

    /// Takes the reader back when it has read.
    fn poll_loan(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(loan) = &self.loan else { return Poll::Ready(Ok(())) };
        let Poll::Ready(returned) = loan.poll(context) else { return Poll::Pending };
        self.loan = None;
        let Some((reader, read)) = returned else { return Poll::Ready(Err(lost(&self.group))) };
        self.reader = Some(reader);
        Poll::Ready(read)
    }

    /// The reader, which a thread of the log may have to finish with first.
    fn reader(&mut self) -> Result<&mut Reader> {
        if self.loan.is_some()
            && let Some(returned) = wait::ready(None, |context| self.poll_loan(context))
        {
            returned?;
        }
        self.reader.as_mut().ok_or_else(|| lost(&self.group))
    }

    fn hand_out(&mut self, found: Option<Record>) -> Option<Record> {
        if let Some(record) = &found {
            self.at = record.end;
        }
        found
    }
}

fn lost(group: &Group) -> Error {
    let panicked = std::io::Error::other("the thread that read it panicked");
    Error::io("read", group.writers.dir(), panicked)
}

impl Drop for LogRecords {
    fn drop(&mut self) {
        // In a process that was forked off, a lock may be held for ever.
        if self.group.status.is_owner_process() {
            // Dropping a reader may wait for what it reads ahead: after a poll that is done by the thread as well.
            let lent = self.loan.take().and_then(|loan| loan.abandon());
            if let Some(reader) = self.reader.take().filter(|_| self.polled).or(lent) {
                self.thread.discard(reader);
            }
        }
    }
}
