//! Blocks a thread until a word changes, and wakes it, for one system call each; or until a future is ready.
//!
//! Linux, macOS and Windows wait on an address in memory (futex(2) and its kin); illumos has no such call, so there
//! one lock and one condition variable serve all words, and every waiter wakes.
//!
//! Invariant: [`wait`] may return without cause, so its caller checks the word again; a wake after the change of the
//! word is never lost.

use crate::clock::monotonic_ns;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// Sleeps while `word` holds `value`, until woken. May return early.
#[inline]
pub fn wait(word: &AtomicU32, value: u32) {
    imp::wait(word, value);
}

/// Wakes one thread that waits on `word`, if any. On systems without such a call: all that wait on any word.
#[inline]
pub fn wake_one(word: &AtomicU32) {
    imp::wake_one(word);
}

/// Wakes all threads that wait on `word`.
#[inline]
pub fn wake_all(word: &AtomicU32) {
    imp::wake_all(word);
}

use crate::os::wait as imp;

/// Unparks one thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What `poll` returns once it is ready, `None` if that takes longer than `timeout`. Polled at least once.
pub fn ready<T>(timeout: Option<Duration>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let until = timeout.map(|timeout| Duration::from_nanos(monotonic_ns()).saturating_add(timeout));
    loop {
        if let Poll::Ready(ready) = poll(&mut context) {
            return Some(ready);
        }
        let Some(until) = until else {
            std::thread::park();
            continue;
        };
        let rest = until.saturating_sub(Duration::from_nanos(monotonic_ns()));
        if rest.is_zero() {
            return None;
        }
        std::thread::park_timeout(rest);
    }
}

/// Waits for a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    ready(None, |context| future.as_mut().poll(context)).expect("nothing ends a wait without a timeout")
}
