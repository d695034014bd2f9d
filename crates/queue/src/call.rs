//! Waits for answers: as a future, or on a thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use seawall_sys::wait::ready;

use crate::error::{Error, Result};

/// What a call of a queue comes to. Needs no runtime. Dropped before it is ready, it still happens, but for one that waits for messages:
/// that takes none then, and one that is already on its way to it waits again.
#[must_use = "a call that is not waited for may fail unseen"]
pub struct Call<T> {
    slot: Arc<Mutex<Slot<T>>>,
    /// Called if nobody waits any more.
    cancel: Option<Box<dyn FnOnce() + Send>>,
}

struct Slot<T> {
    answer: Option<Result<T>>,
    waker: Option<Waker>,
}

/// Where the answer goes, until it is given.
pub(crate) struct Answering<T>(Option<Arc<Mutex<Slot<T>>>>);

/// A call, and where its answer goes.
pub(crate) fn call<T>() -> (Call<T>, Answering<T>) {
    let slot = Arc::new(Mutex::new(Slot { answer: None, waker: None }));
    (Call { slot: Arc::clone(&slot), cancel: None }, Answering(Some(slot)))
}

impl<T> Call<T> {
    /// The same, with what is called if it is dropped before it is ready.
    pub(crate) fn or_cancel(mut self, cancel: impl FnOnce() + Send + 'static) -> Self {
        self.cancel = Some(Box::new(cancel));
        self
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel();
        }
    }
}

impl<T> Answering<T> {
    pub(crate) fn answer(mut self, answer: Result<T>) {
        self.give(answer);
    }

    /// Gives the answer, if none was given.
    fn give(&mut self, answer: Result<T>) {
        let Some(slot) = self.0.take() else { return };
        let waker = {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.answer = Some(answer);
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Answering<T> {
    /// A call that nobody will answer ends.
    fn drop(&mut self) {
        self.give(Err(Error::Closed));
    }
}

impl<T> Future for Call<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { slot, cancel } = self.get_mut();
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = slot.answer.take() {
            *cancel = None;
            Poll::Ready(answer)
        } else {
            slot.waker = Some(context.waker().clone());
            Poll::Pending
        }
    }
}

impl<T> Call<T> {
    /// Waits for it on this thread, for at most `limit` if that is given; `None`: it is not ready then, and can be waited for again.
    pub fn wait(&mut self, limit: Option<Duration>) -> Option<Result<T>> {
        ready(limit, |context| Pin::new(&mut *self).poll(context))
    }
}

impl<T> std::fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
