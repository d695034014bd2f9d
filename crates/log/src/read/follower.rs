//! Follows a log: hands out durable records as they come, to a thread that waits or to a task that is polled.
//!
//! A thread that waits reads itself. A task must not wait for the disk, so it lends its reader to a thread of the log
//! (`follow_thread.rs`) for each batch that it needs, and takes the records of that batch from memory:
//!
//! ```text
//!   poll ─► a record in memory ─► ready
//!     ├──► a durable batch not read yet ─► lend the reader ─► pending until it is back
//!     └──► the end ─► pending until more is durable, as a commit of the next byte
//! ```
//!
//! Invariants: where it stands is in the follower, never in a future, so that dropping a future loses no record; it registers
//! before it looks for the end for the last time, so no wake-up is lost; a poll makes no call to the disk.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::commit::deadline;
use crate::commit::group::Group;
use crate::commit::waiters::Registration;
use crate::error::{Error, Result};
use crate::lsn::Lsn;
use crate::read::follow_thread::{FollowThread, Loan};
use crate::read::reader::{Reader, Record};

/// Reads durable records as they come.
///
/// With the feature `stream` it is a `futures_core::Stream` of records, which ends when the log is closed and after the first
/// error.
pub struct Follower {
    group: Arc<Group>,
    /// `None` while it is lent.
    reader: Option<Reader>,
    /// It has been polled: no thread of it may wait for the disk.
    polled: bool,
    loan: Option<Loan>,
    thread: Arc<FollowThread>,
    registration: Registration,
    /// Where the last record ended that was handed out.
    at: Lsn,
    /// The stream has ended.
    #[cfg(feature = "stream")]
    ended: bool,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Follower");
        match &self.reader {
            Some(reader) => shown.field("reader", reader).finish(),
            None => shown.field("at", &self.at).finish_non_exhaustive(),
        }
    }
}

impl Follower {
    pub(crate) fn new(reader: Reader, thread: Arc<FollowThread>, from: Lsn) -> Self {
        Self {
            group: Arc::clone(reader.group()),
            reader: Some(reader),
            polled: false,
            loan: None,
            thread,
            registration: Registration::default(),
            at: from,
            #[cfg(feature = "stream")]
            ended: false,
        }
    }

    /// The next durable record if there is one now. Reads the disk if it must; a task calls [`Follower::poll_next_record`].
    ///
    /// # Errors
    /// As [`Reader::next_record`].
    pub fn try_next_record(&mut self) -> Result<Option<Record>> {
        let found = self.reader()?.next_record()?;
        Ok(self.hand_out(found))
    }

    /// The next durable record; waits for it. `None` when the log was closed and everything has been handed out.
    ///
    /// # Errors
    /// As [`Reader::next_record`], and [`Error::Failed`] when the log has failed and everything durable has been
    /// handed out.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        let group = Arc::clone(&self.group);
        wait_for(&group, || self.try_next_record())
    }

    /// As [`Follower::next_record`], but waits for at most `timeout`; a later call continues where this one stopped. The caller
    /// does not read the disk itself, because nothing could interrupt that: a thread of the log does.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when the time is over, with the LSN after which the next record is. Otherwise as
    /// [`Follower::next_record`].
    pub fn next_record_timeout(&mut self, timeout: Duration) -> Result<Option<Record>> {
        let found = deadline::wait(Some(timeout), |context| self.poll_next_record(context));
        found.unwrap_or(Err(Error::TimedOut { lsn: self.at, timeout }))
    }

    /// As [`Follower::next_record`], as a future, which needs no runtime. Dropping it at any point is safe: the next call
    /// returns the record that this one would have returned.
    ///
    /// Records in memory are ready at once. A thread that all followers of the log share, started for the first of them,
    /// reads the disk, a batch at a time: an executor's thread never blocks, even if the data
    /// is not cached.
    pub fn next_record_async(&mut self) -> NextRecordFuture<'_> {
        NextRecordFuture(self)
    }

    /// What [`Follower::next_record_async`] polls: the next durable record, `None` when the log was closed and everything has
    /// been handed out. Only the last of several wakers is called.
    ///
    /// # Errors
    /// As [`Follower::next_record`], [`Error::Io`] if the thread that reads cannot be started, [`Error::Forked`].
    pub fn poll_next_record(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Record>>> {
        self.group.status().check_process()?;
        let mut registered = false;
        loop {
            if self.loan.is_some() {
                match self.poll_loan(context) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            let Some(reader) = &mut self.reader else { return Poll::Ready(Err(lost(&self.group))) };
            if let Some(record) = reader.next_in_memory() {
                return Poll::Ready(Ok(self.hand_out(Some(record))));
            }
            // Before the look at the end: what becomes durable last does so before either is true.
            let (failed, stopping) = (self.group.status().failed(), self.group.status().is_stopping());
            if reader.is_behind() {
                if let Err(error) = self.lend() {
                    return Poll::Ready(Err(error));
                }
                continue;
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
            let next = (self.group.config().own(), reader.at().saturating_add(1));
            self.group.waiters().register(&mut self.registration, next, context.waker());
            // More may have become durable before that.
            registered = true;
        }
    }

    /// Gives the reader to the thread that reads.
    fn lend(&mut self) -> Result<()> {
        self.polled = true;
        let loan = self.thread.lend(&mut self.reader);
        let failed = |source| Error::io("start a thread for", self.group.writers().dir(), source);
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
            && let Some(returned) = deadline::wait(None, |context| self.poll_loan(context))
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

/// The next record that `look` finds; waits for it. `None` when the log was closed and `look` finds no more.
pub(crate) fn wait_for(
    group: &Group,
    mut look: impl FnMut() -> Result<Option<Record>>,
) -> Result<Option<Record>> {
    loop {
        // First without a ticket: while one is out, every commit makes a system call to wake its holder.
        let found = look()?;
        if found.is_some() {
            return Ok(found);
        }
        let gate = group.waiters().follower_gate();
        let ticket = gate.ticket();
        // Before the look for a record: what becomes durable last does so before either is true.
        let (failed, stopping) = (group.status().failed(), group.status().is_stopping());
        let found = look();
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

fn lost(group: &Group) -> Error {
    let panicked = std::io::Error::other("the thread that read it panicked");
    Error::io("read", group.writers().dir(), panicked)
}

impl Drop for Follower {
    fn drop(&mut self) {
        // In a process that was forked off, a lock may be held for ever.
        if self.group.status().is_owner_process() {
            self.group.waiters().forget(&mut self.registration);
            // Dropping a reader may wait for what it reads ahead: after a poll that is done by the thread as well.
            let lent = self.loan.take().and_then(|loan| loan.abandon());
            if let Some(reader) = self.reader.take().filter(|_| self.polled).or(lent) {
                self.thread.discard(reader);
            }
        }
    }
}

/// The next record of a follower; see [`Follower::next_record_async`].
#[derive(Debug)]
#[must_use = "a future reads nothing before it is polled"]
pub struct NextRecordFuture<'a>(&'a mut Follower);

impl Future for NextRecordFuture<'_> {
    type Output = Result<Option<Record>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_next_record(context)
    }
}

#[cfg(feature = "stream")]
impl futures_core::Stream for Follower {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let polled = self.poll_next_record(context).map(Result::transpose);
        self.ended = matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }
}

#[cfg(feature = "stream")]
impl futures_core::stream::FusedStream for Follower {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}
