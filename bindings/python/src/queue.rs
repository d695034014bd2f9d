//! The queue, which several processes share.
//!
//! Invariant: what may wait for another thread or process is asked without the interpreter's lock.

use pyo3::exceptions::{PyResourceWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use seawall_queue::{Call, Error, Result};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::data::Data;
use crate::errors::{OrRaise, exception, queue_exception};
use crate::event_loop::{EventLoop, EventLoops};
use crate::message::Message;
use crate::options::options_over;
use crate::results::{Returned, made, seconds};
use crate::wait;

/// Options of a log that a queue does not take, and why.
const REFUSED: [(&str, &str); 4] = [
    (
        "disk_bytes_max",
        "acknowledgements need room of the same bound, so that a full queue could not be emptied",
    ),
    ("on_full", "it belongs to disk_bytes_max, which a queue does not take"),
    ("retain_bytes", "messages go when they are acknowledged"),
    ("retain_seconds", "messages go when they are acknowledged"),
];

/// A durable queue in one directory, for any number of producers and consumers: threads, tasks of asyncio and processes, each of which
/// opens it.
///
/// A message is there after any crash once ``put`` has returned, and handed out at least once: again when its consumer gives it back or
/// lets go of it, when its process ends, when it was not acknowledged for ``redeliver_after`` seconds, and when the queue is opened again.
/// Messages are handed out in the order in which they were put; one that comes back goes to the back of the line.
///
/// One of the processes owns the log; when it closes the queue or ends, another one takes over. A process that was forked off must not
/// use a queue of its parent.
///
/// ``redeliver_after``: after how many seconds without an acknowledgement a message that was got here is handed out again; ``None``: only
/// when it is given back or this process is gone. ``max_attempts``: a message that was handed out so often and not acknowledged becomes a
/// dead letter (``dead_letters``); ``None``: it is tried for ever. ``retry_delay``: for how many seconds a message is delayed whose block
/// raised, doubled with each further attempt up to a minute. ``answer_within``: after how many seconds ``NoAnswer`` is raised if the process
/// that owns the log does not answer. Other keywords are options of the log, as those of ``Log``, for when this process owns it.
#[pyclass(module = "seawall", frozen, weakref)]
pub(crate) struct Queue {
    inner: seawall_queue::Queue,
    pub(crate) retry_delay: Duration,
    answer_within: Duration,
    closed: AtomicBool,
    event_loops: EventLoops,
}

impl Queue {
    /// What a call comes to, within `limit` and the time that the owner has for its answer. Looks for signals meanwhile.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        limit: Option<Duration>,
        call: impl FnOnce(&seawall_queue::Queue) -> Call<T> + Send,
    ) -> PyResult<Result<T>> {
        let mut call = py.detach(|| call(&self.inner));
        let limit = limit.map(|limit| limit.saturating_add(self.answer_within));
        let waited = wait::sliced(py, limit, |limit| call.wait(Some(limit)));
        py.detach(|| drop(call));
        let silent = || Error::NoAnswer { path: self.inner.dir().into(), after: self.answer_within };
        Ok(waited?.unwrap_or_else(|| Err(silent())))
    }

    /// What `asked` comes to when it is durable: the owner does it in this thread, for others as [`Queue::wait`].
    pub(crate) fn durable<T: Send, A: Send>(
        &self,
        py: Python<'_>,
        asked: A,
        here: impl FnOnce(&seawall_queue::Queue, A) -> Result<T> + Send,
        call: impl FnOnce(&seawall_queue::Queue, A) -> Call<T> + Send,
    ) -> PyResult<T> {
        let done = if self.inner.is_owner() {
            py.detach(|| here(&self.inner, asked))
        } else {
            self.wait(py, Some(Duration::ZERO), |queue| call(queue, asked))?
        };
        done.or_raise(py)
    }

    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&seawall_queue::Queue) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| ask(&self.inner)).or_raise(py)
    }

    /// A future of the running event loop. The call is dropped with a future that is cancelled, if it `is_dropped`.
    pub(crate) fn future<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        is_dropped: bool,
        call: impl FnOnce(&seawall_queue::Queue) -> Call<T> + Send,
        mut value: impl FnMut(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Returned<'py> {
        if self.closed() {
            return Err(queue_exception(py, &Error::Closed));
        }
        let event_loop = EventLoop::running(py, &self.event_loops, None, None)?;
        let call = py.detach(|| call(&self.inner));
        EventLoop::call(&event_loop, is_dropped, call, move |py, done: Result<T>| {
            value(py, done.or_raise(py)?)
        })
    }

    /// Gets messages in a thread.
    fn take(
        this: &Bound<'_, Self>,
        messages_max: u32,
        timeout: Option<f64>,
    ) -> PyResult<Result<Vec<Py<Message>>>> {
        let (py, limit) = (this.py(), limit(messages_max, timeout)?);
        match this.get().wait(py, limit, |queue| queue.get_async(messages_max, limit))? {
            Ok(taken) => Message::wrap(py, this.as_unbound(), taken).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }
}

/// For how long messages are waited for.
fn limit(messages_max: u32, timeout: Option<f64>) -> PyResult<Option<Duration>> {
    if messages_max == 0 {
        return Err(PyValueError::new_err("messages_max must be 1 or more, not 0"));
    }
    timeout.map(|timeout| seconds("timeout", timeout)).transpose()
}

fn late(py: Python<'_>, timeout: Option<f64>) -> PyErr {
    let after = timeout.and_then(|timeout| seconds("timeout", timeout).ok()).unwrap_or_default();
    queue_exception(py, &Error::TimedOut { after })
}

fn copied(bodies: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    bodies.try_iter()?.map(|body| Ok(body?.extract::<Data>()?.to_vec())).collect()
}

/// Messages that stay in the queue, as instances of a dataclass.
macro_rules! listed {
    ($py:expr, $class:literal, $found:expr) => {
        $found
            .into_iter()
            .map(|one| made!($py, $class, { body: PyBytes::new($py, &one.body), ..one { id, attempts } }))
            .collect()
    };
}

#[pymethods]
impl Queue {
    #[new]
    #[pyo3(signature = (path, *, redeliver_after=None, max_attempts=None, retry_delay=0.1, answer_within=30.0, **log_options))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        redeliver_after: Option<f64>,
        max_attempts: Option<i64>,
        retry_delay: f64,
        answer_within: f64,
        log_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let redeliver_after = redeliver_after.map(|after| match seconds("redeliver_after", after)? {
            Duration::ZERO => {
                Err(PyValueError::new_err("redeliver_after must be a time above 0 seconds, or None, not 0"))
            }
            after => Ok(after),
        });
        if let Some(wrong) = max_attempts.filter(|attempts| *attempts < 1) {
            return Err(PyValueError::new_err(format!(
                "max_attempts must be 1 or more, or None, not {wrong}"
            )));
        }
        for (option, reason) in REFUSED {
            if let Some(given) = log_options.map(|given| given.get_item(option)).transpose()?.flatten()
                && !given.is_none()
            {
                let reason = format!("a queue does not take it: {reason}");
                return Err(exception(py, &seawall::Error::InvalidOption { option, reason }));
            }
        }
        let default = seawall_queue::Options::default();
        let answer_within = seconds("answer_within", answer_within)?;
        let options = seawall_queue::Options {
            log: options_over(default.log, log_options)?,
            redeliver_after: redeliver_after.transpose()?,
            max_attempts: max_attempts
                .map_or(u32::MAX, |attempts| u32::try_from(attempts).unwrap_or(u32::MAX)),
            answer_within,
        };
        let retry_delay = seconds("retry_delay", retry_delay)?;
        let queue = py.detach(|| seawall_queue::Queue::open(path, options)).or_raise(py)?;
        let (closed, event_loops) = (AtomicBool::new(false), EventLoops::default());
        Ok(Self { inner: queue, retry_delay, answer_within, closed, event_loops })
    }

    /// Puts a message; returns its ID when it is durable. Threads and processes that put at once share a write. It is not handed out
    /// before ``delay`` seconds are over, by no process.
    #[pyo3(signature = (body, *, delay=0.0))]
    fn put(&self, py: Python<'_>, body: Data, delay: f64) -> PyResult<u64> {
        self.put_all(py, vec![body.to_vec()], delay).map(|ids| ids.start)
    }

    /// Puts messages, all or none, by one write; returns their IDs when they are durable. ``delay`` as that of ``put``.
    #[pyo3(signature = (bodies, *, delay=0.0))]
    fn put_many(&self, py: Python<'_>, bodies: &Bound<'_, PyAny>, delay: f64) -> PyResult<Vec<u64>> {
        self.put_all(py, copied(bodies)?, delay).map(Iterator::collect)
    }

    /// As ``put``, as a future: it is put also if nobody awaits that, or if the task is cancelled.
    #[pyo3(signature = (body, *, delay=0.0))]
    fn put_async<'py>(&self, py: Python<'py>, body: Data, delay: f64) -> Returned<'py> {
        let (bodies, delay) = (vec![body.to_vec()], seconds("delay", delay)?);
        let id = |py: Python<'_>, ids: Range<u64>| Ok(ids.start.into_pyobject(py)?.into_any().unbind());
        self.future(py, false, |queue| queue.put_async(bodies, delay), id)
    }

    /// As ``put_many``, as a future.
    #[pyo3(signature = (bodies, *, delay=0.0))]
    fn put_many_async<'py>(&self, py: Python<'py>, bodies: &Bound<'py, PyAny>, delay: f64) -> Returned<'py> {
        let (bodies, delay) = (copied(bodies)?, seconds("delay", delay)?);
        let all = |py: Python<'_>, ids: Range<u64>| Ok(ids.collect::<Vec<_>>().into_pyobject(py)?.unbind());
        self.future(py, false, |queue| queue.put_async(bodies, delay), all)
    }

    /// The next message; waits for one, for at most ``timeout`` seconds if that is given, and raises ``TimedOut`` then.
    #[pyo3(signature = (timeout=None))]
    fn get(this: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<Py<Message>> {
        let taken = Self::get_many(this, 1, timeout)?;
        taken.into_iter().next().ok_or_else(|| late(this.py(), timeout))
    }

    /// The next messages, at most this many: the share of this consumer, among all that wait. None if the time is over.
    #[pyo3(signature = (messages_max, timeout=None))]
    fn get_many(
        this: &Bound<'_, Self>,
        messages_max: u32,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Py<Message>>> {
        Self::take(this, messages_max, timeout)?.or_raise(this.py())
    }

    /// As ``get``, as a coroutine. One that is cancelled takes no message.
    #[pyo3(signature = (timeout=None))]
    fn get_async<'py>(this: &Bound<'py, Self>, timeout: Option<f64>) -> Returned<'py> {
        this.py().import("seawall._tasks")?.call_method1("get", (this, timeout))
    }

    /// As ``get_many``, as a coroutine.
    #[pyo3(signature = (messages_max, timeout=None))]
    fn get_many_async<'py>(
        this: &Bound<'py, Self>,
        messages_max: u32,
        timeout: Option<f64>,
    ) -> Returned<'py> {
        this.py().import("seawall._tasks")?.call_method1("get_many", (this, messages_max, timeout))
    }

    /// A future of messages, which takes none if it is cancelled.
    fn _taken<'py>(this: &Bound<'py, Self>, messages_max: u32, timeout: Option<f64>) -> Returned<'py> {
        let (queue, limit) = (this.clone().unbind(), limit(messages_max, timeout)?);
        let call = |asked: &seawall_queue::Queue| asked.get_async(messages_max, limit);
        this.get().future(this.py(), true, call, move |py, taken| {
            Ok(Message::wrap(py, &queue, taken)?.into_pyobject(py)?.unbind())
        })
    }

    /// Acknowledges messages by one write: returns when it is durable that they were processed.
    #[pyo3(signature = (*messages))]
    fn ack(this: &Bound<'_, Self>, messages: Vec<Py<Message>>) -> PyResult<()> {
        let messages = Message::all_of(this, &messages)?;
        this.get().durable(
            this.py(),
            messages,
            seawall_queue::Queue::ack_many,
            seawall_queue::Queue::ack_many_async,
        )
    }

    /// As ``ack``, as a future.
    #[pyo3(signature = (*messages))]
    fn ack_async<'py>(this: &Bound<'py, Self>, messages: Vec<Py<Message>>) -> Returned<'py> {
        let messages = Message::all_of(this, &messages)?;
        this.get().future(this.py(), false, |queue| queue.ack_many_async(messages), |py, ()| Ok(py.None()))
    }

    /// The first messages that wait, at most this many, as ``Peeked``. They stay.
    #[pyo3(signature = (messages_max=1))]
    fn peek<'py>(&self, py: Python<'py>, messages_max: u32) -> PyResult<Vec<Bound<'py, PyAny>>> {
        listed!(py, "Peeked", self.ask(py, |queue| queue.peek(messages_max))?)
    }

    /// The messages that were tried ``max_attempts`` times without success, in the order in which that happened, at most this many. They stay until
    /// they are put back or dropped.
    #[pyo3(signature = (letters_max=4_294_967_295))]
    fn dead_letters<'py>(&self, py: Python<'py>, letters_max: u32) -> PyResult<Vec<Bound<'py, PyAny>>> {
        listed!(py, "DeadLetter", self.ask(py, |queue| queue.dead_letters(letters_max))?)
    }

    /// Puts all dead letters into the queue again, as new messages; returns how many.
    fn retry_dead_letters(&self, py: Python<'_>) -> PyResult<u64> {
        self.ask(py, seawall_queue::Queue::retry_dead_letters)
    }

    /// Removes all dead letters; returns how many that were.
    fn drop_dead_letters(&self, py: Python<'_>) -> PyResult<u64> {
        self.ask(py, seawall_queue::Queue::drop_dead_letters)
    }

    /// Removes all messages that wait or are delayed, not those that are out; returns how many that were.
    fn purge(&self, py: Python<'_>) -> PyResult<u64> {
        self.ask(py, seawall_queue::Queue::purge)
    }

    /// What the queue holds now, as ``QueueStats``.
    fn stats<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let stats = self.ask(py, seawall_queue::Queue::stats)?;
        made!(py, "QueueStats", { in_flight: stats.out, ..stats { waiting, delayed, dead, handles } })
    }

    /// Messages that are not acknowledged, those that are handed out included; 0 once this was closed.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        if self.closed() {
            return Ok(0);
        }
        let stats = self.ask(py, seawall_queue::Queue::stats)?;
        Ok(usize::try_from(stats.waiting + stats.out + stats.delayed).unwrap_or(usize::MAX))
    }

    /// Messages that are handed out and not acknowledged.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.ask(py, seawall_queue::Queue::stats)?.out)
    }

    /// Whether this process owns the log now, and serves the others.
    #[getter]
    fn is_owner(&self) -> bool {
        self.inner.is_owner()
    }

    /// The absolute path of the queue's directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.inner.dir().to_path_buf()
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Leaves the queue: what is out here waits again, and consumers that wait get ``Closed``. Does nothing the second time.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let closed = self.ask(py, seawall_queue::Queue::close);
        EventLoop::release(py, &self.event_loops);
        closed
    }

    /// As ``close``, awaited: never blocks the event loop.
    fn close_async<'py>(this: &Bound<'py, Self>) -> Returned<'py> {
        this.py().import("seawall._tasks")?.call_method1("close", (this,))
    }

    /// Messages as they come, until the queue is closed.
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(this: &Bound<'_, Self>) -> PyResult<Option<Py<Message>>> {
        match Self::take(this, 1, None)? {
            Err(Error::Closed) => Ok(None),
            taken => Ok(taken.or_raise(this.py())?.into_iter().next()),
        }
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __aenter__<'py>(this: &Bound<'py, Self>) -> Returned<'py> {
        this.py().import("seawall._tasks")?.call_method1("itself", (this,))
    }

    #[pyo3(signature = (*_raised))]
    fn __aexit__<'py>(this: &Bound<'py, Self>, _raised: &Bound<'py, PyTuple>) -> Returned<'py> {
        Self::close_async(this)
    }

    fn __repr__(&self) -> String {
        let role = match (self.closed(), self.is_owner()) {
            (true, _) => "closed",
            (false, true) => "its owner",
            (false, false) => "open",
        };
        format!("Queue('{}', {role})", self.inner.dir().display())
    }
}

impl Queue {
    fn put_all(&self, py: Python<'_>, bodies: Vec<Vec<u8>>, delay: f64) -> PyResult<Range<u64>> {
        let delay = seconds("delay", delay)?;
        self.durable(
            py,
            bodies,
            |queue, bodies| queue.put_many(bodies, delay),
            |queue, bodies| queue.put_async(bodies, delay),
        )
    }
}

/// Its threads are waited for without the interpreter's lock.
impl Drop for Queue {
    fn drop(&mut self) {
        // `None` when the interpreter has ended: then nothing waits for its lock.
        Python::try_attach(|py| {
            if self.closed() {
                return;
            }
            let words = format!("queue in {} was dropped and not closed", self.inner.dir().display());
            let words = std::ffi::CString::new(words).unwrap_or_default();
            let warned = PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &words, 1);
            if let Err(error) = warned.and_then(|()| self.close(py)) {
                error.write_unraisable(py, None);
            }
        });
    }
}
