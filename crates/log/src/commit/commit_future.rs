//! The future of a commit, and the commit with a deadline.
//!
//! A thread that waits with a deadline must not be inside a system call of the disk, which nothing can interrupt. So it never
//! leads a batch and never reads: it waits as a task would, for work that threads of the log do.
//!
//! Invariants: a future registers before it looks for the last time, so no wake-up is lost; it has one waker at a time, the one
//! of its last poll, which goes with it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::commit::group::Group;
use crate::commit::waiters::Registration;
use crate::error::{Error, Result};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use seawall_sys::{planted, wait};

/// Ready when everything before one LSN is durable, or has reached the requested class; see
/// [`Log::commit_async`](crate::Log::commit_async) and [`Log::commit_async_as`](crate::Log::commit_async_as).
#[must_use = "a commit that is not waited for may fail unseen"]
pub struct CommitFuture {
    group: Arc<Group>,
    lsn: Lsn,
    level: AckLevel,
    /// What it waits for was reached when it was made.
    done: bool,
    registration: Registration,
}

impl std::fmt::Debug for CommitFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitFuture")
            .field("lsn", &self.lsn)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

impl CommitFuture {
    /// Requests everything before `lsn` in the level.
    pub(crate) fn request(group: &Arc<Group>, lsn: Lsn, level: AckLevel) -> Self {
        if group.reached(level) < lsn && group.status.is_owner_process() {
            group.request(lsn, level);
        }
        Self { group: Arc::clone(group), lsn, level, done: false, registration: Registration::default() }
    }

    pub(crate) fn done(group: &Arc<Group>, lsn: Lsn, level: AckLevel) -> Self {
        Self { group: Arc::clone(group), lsn, level, done: true, registration: Registration::default() }
    }

    /// The LSN that it waits for.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Whether it is ready now: whether everything before its LSN has reached the requested class.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.done || self.group.reached(self.level) >= self.lsn
    }

    /// Waits for it, without a runtime. The caller writes the batch itself if no other thread does, as in
    /// [`Log::commit`](crate::Log::commit): a thread that keeps many commits outstanding and waits for the oldest need not be
    /// woken for each.
    ///
    /// # Errors
    /// As [`Log::commit`](crate::Log::commit).
    pub fn wait(self) -> Result<Lsn> {
        if !self.done {
            self.group.commit(self.lsn, self.level)?;
        }
        Ok(self.lsn)
    }

    /// Waits for it, without a runtime, for at most `timeout`; it can be waited for again after that. The caller never writes
    /// the batch itself, because nothing could interrupt that: a thread of the log does, and must be woken.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when the time is over: what was appended may still become durable. Otherwise as
    /// [`Log::commit`](crate::Log::commit).
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Lsn> {
        let done = wait::ready(Some(timeout), |context| Pin::new(&mut *self).poll(context));
        let late = planted!(DeadlineIsSuccess(self.lsn), Err(Error::TimedOut { lsn: self.lsn, timeout }));
        done.unwrap_or(late)
    }

    fn look(&self) -> Option<Result<Lsn>> {
        if self.is_durable() {
            return Some(Ok(self.lsn));
        }
        self.group.status.ended().map(Err)
    }
}

impl Future for CommitFuture {
    type Output = Result<Lsn>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(ready) = self.look() {
            // The leader that made it ready takes the waker out, or has done so: no lock is taken for that here.
            self.registration = Registration::default();
            return Poll::Ready(ready);
        }
        let end = self.group.core().appended();
        if self.lsn > end {
            return Poll::Ready(Err(Error::BeyondEnd { lsn: self.lsn, end }));
        }
        let Self { group, lsn, level, registration, .. } = &mut *self;
        group.waiters.register(registration, (*level, *lsn), context.waker());
        // It may have become durable between the first look and the registration.
        if let Some(ready) = self.look() {
            Poll::Ready(ready)
        } else {
            self.group.request(self.lsn, self.level);
            Poll::Pending
        }
    }
}

impl Drop for CommitFuture {
    fn drop(&mut self) {
        // In a process that was forked off, a lock may be held for ever.
        if self.group.status.is_owner_process() {
            self.group.waiters.forget(&mut self.registration);
        }
    }
}
