//! Blocks a thread until a polled operation is ready or its deadline passes.
//!
//! A thread that waits with a deadline must not be inside a system call of the disk, which nothing can interrupt. So it
//! never leads a batch and never reads: it waits as a task would, for work that threads of the log do.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use seawall_sys::clock::monotonic_ns;

/// Unparks one thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What `poll` returns once it is ready, `None` if that takes longer than `timeout`. Polled at least once.
pub(crate) fn wait<T>(
    timeout: Option<Duration>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let began_ns = monotonic_ns();
    loop {
        if let Poll::Ready(ready) = poll(&mut context) {
            return Some(ready);
        }
        let Some(timeout) = timeout else {
            std::thread::park();
            continue;
        };
        let rest = timeout.saturating_sub(Duration::from_nanos(monotonic_ns() - began_ns));
        if rest.is_zero() {
            return None;
        }
        std::thread::park_timeout(rest);
    }
}
