//! Waits for a future in a thread without the interpreter's lock, and looks for signals meanwhile.
//!
//! Python runs signal handlers, that of Ctrl-C among them, only in a thread that holds its lock. A wait that may last for ever is
//! therefore cut into slices.

use pyo3::prelude::*;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use seawall_sys::clock::{monotonic_ns, nanoseconds};

/// How long signals wait at most.
const SLICE: Duration = Duration::from_millis(50);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What a future gives, `None` if that takes longer than `limit`.
fn slice<F: Future + Unpin>(waker: &Waker, limit: Duration, future: &mut F) -> Option<F::Output> {
    let until_ns = monotonic_ns().saturating_add(nanoseconds(limit));
    loop {
        if let Poll::Ready(ready) = Pin::new(&mut *future).poll(&mut Context::from_waker(waker)) {
            return Some(ready);
        }
        let rest_ns = until_ns.saturating_sub(monotonic_ns());
        if rest_ns == 0 {
            return None;
        }
        std::thread::park_timeout(Duration::from_nanos(rest_ns));
    }
}

/// What a future gives, `None` when `timeout` is over.
///
/// # Errors
/// What a signal handler raised.
pub(crate) fn ready<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut future: impl Future<Output = T> + Unpin + Send,
) -> PyResult<Option<T>> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    sliced(py, timeout, |limit| slice(&waker, limit, &mut future))
}

/// What `wait` returns, which is called again and again with the longest time that it may take.
///
/// # Errors
/// What a signal handler raised.
pub(crate) fn sliced<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut wait: impl FnMut(Duration) -> Option<T> + Send,
) -> PyResult<Option<T>> {
    let until_ns = timeout.map(|timeout| monotonic_ns().saturating_add(nanoseconds(timeout)));
    loop {
        let rest = until_ns.map(|until_ns| Duration::from_nanos(until_ns.saturating_sub(monotonic_ns())));
        let limit = rest.map_or(SLICE, |rest| rest.min(SLICE));
        if let Some(ready) = py.detach(|| wait(limit)) {
            return Ok(Some(ready));
        }
        py.check_signals()?;
        if rest.is_some_and(|rest| rest <= SLICE) {
            return Ok(None);
        }
    }
}
