//! Closes a log on its own threads, for callers that must not block: the future of a close.
//!
//! ```text
//!   caller               refuse appends, leave the order, wake the writer thread
//!   writer thread        commit everything, write the close mark, stop both threads
//!   maintenance thread   wait for the writer thread, release the lock, report
//! ```
//!
//! Invariants: whatever becomes of the future, the log closes, once; it is ready only when the lock is released; it reports
//! success only if the close mark is durable.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::commit::ending::{HandedOver, Resources, end_handed_over};
use crate::commit::group::Group;
use crate::commit::sync::{Mutex, lock};
use crate::commit::waiters::Registration;
use crate::error::{Error, Result};
use crate::lock::Ending;
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use seawall_sys::{planted, wait};

/// The order to close a log by its own threads, and how far that is.
#[derive(Debug, Default)]
pub(crate) struct CloseOrder {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    order: Option<(Resources, Ending)>,
    /// Whether the close mark was written.
    sealed: bool,
    released: bool,
}

impl CloseOrder {
    /// Leaves the order to close for the writer thread. What releases the lock goes with it.
    pub(crate) fn order(&self, group: &Group, resources: Resources) {
        // Before anyone can know of it, so that an opening in this process waits for the lock.
        let ending = Ending::begin(group.writers.dir());
        lock(&self.state).order = Some((resources, ending));
        group.status.close();
        group.waiters.end_appends();
        group.threads.wake_writer();
    }

    /// The writer thread closes the log, if that was ordered; returns whether it was.
    pub(crate) fn run(&self, group: &Group, handed_over: &HandedOver) -> bool {
        let Some((resources, ending)) = lock(&self.state).order.take() else { return false };
        // A recorder that panics must not keep the lock.
        let close = || group.status.failed().is_none() && group.close_log().is_ok();
        let sealed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(close)).unwrap_or(false);
        lock(&self.state).sealed = sealed;
        end_handed_over(group, resources, ending, handed_over);
        true
    }

    /// The lock is released.
    pub(crate) fn released(&self, group: &Group) {
        lock(&self.state).released = true;
        group.waiters.wake_commits();
    }

    /// How closing ended, once the lock is released.
    fn ended(&self, group: &Group) -> Option<Result<()>> {
        let state = lock(&self.state);
        planted!(CloseBeforeMark, state.released).then(|| {
            if planted!(CloseBeforeMark, state.sealed) { Ok(()) } else { Err(group.status.refusal()) }
        })
    }
}

/// Ready when the log is closed and its lock is released; see [`Log::close_async`](crate::Log::close_async). Dropping it changes
/// nothing: the log still closes.
#[must_use = "only the result says whether everything became durable"]
pub struct CloseFuture {
    group: Arc<Group>,
    closing: Arc<CloseOrder>,
    registration: Registration,
}

impl CloseFuture {
    pub(crate) fn new(group: &Arc<Group>, closing: &Arc<CloseOrder>) -> Self {
        Self { group: Arc::clone(group), closing: Arc::clone(closing), registration: Registration::default() }
    }
}

impl std::fmt::Debug for CloseFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CloseFuture").field("dir", &self.group.writers.dir()).finish_non_exhaustive()
    }
}

impl CloseFuture {
    /// Waits for it, without a runtime.
    ///
    /// # Errors
    /// As [`Log::close`](crate::Log::close).
    pub fn wait(mut self) -> Result<()> {
        let done = wait::ready(None, |context| Pin::new(&mut self).poll(context));
        done.unwrap_or(Err(Error::Closed))
    }
}

impl Future for CloseFuture {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { group, closing, registration } = self.get_mut();
        if !group.status.is_owner_process() {
            return Poll::Ready(Err(Error::Forked));
        }
        if let Some(ended) = closing.ended(group) {
            return Poll::Ready(ended);
        }
        // With the commits that wait: no LSN wakes it, only the end of the log.
        group.waiters.register(registration, (AckLevel::Full, Lsn::MAX), context.waker());
        // The lock may have been released between the first look and the registration.
        closing.ended(group).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for CloseFuture {
    fn drop(&mut self) {
        if self.group.status.is_owner_process() {
            self.group.waiters.forget(&mut self.registration);
        }
    }
}
