//! Runs work that blocks on a thread of its own and awaits it, so that the threads of the runtime go on.

use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

struct Slot<T> {
    result: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
}

/// Does `work` on a thread of its own; a panic there goes on here.
///
/// # Errors
/// The thread cannot be started.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let slot = Arc::new(Mutex::new(Slot { result: None, waker: None }));
    let theirs = Arc::clone(&slot);
    let run = move || {
        let result = catch_unwind(AssertUnwindSafe(work));
        let mut slot = theirs.lock().unwrap_or_else(PoisonError::into_inner);
        slot.result = Some(result);
        let waker = slot.waker.take();
        drop(slot);
        waker.into_iter().for_each(Waker::wake);
    };
    drop(std::thread::Builder::new().name("seawall-raft".to_owned()).spawn(run)?);
    let result = poll_fn(|context| {
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = slot.result.take() {
            Poll::Ready(result)
        } else {
            slot.waker = Some(context.waker().clone());
            Poll::Pending
        }
    });
    Ok(result.await.unwrap_or_else(|panic| resume_unwind(panic)))
}
