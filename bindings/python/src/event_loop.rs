//! Futures of asyncio that the log or the queue completes: one wake-up of the event loop for each group of commits.
//!
//! ```text
//!   task ─► append, future into `waiting` ─► one registration with the log, for the lowest LSN that is waited for
//!   a thread of the log ─► `seawall_sys::signal` ─► the descriptor can be read
//!   event loop, when it can be read ─► every future up to the durable end gets its result; register the next lowest
//! ```
//!
//! Invariants: what the log's thread calls takes no lock of the interpreter and never waits; the signal is taken back before the
//! durable end is read, so that no wake-up is lost; a future of a follower takes no record, so that one that is cancelled
//! loses none; everything but [`Raised`] is touched in the thread of the event loop alone; no lock is held while Python
//! runs, because a thread that waits for it with the interpreter's lock would wait for ever.
//!
//! A call of a queue is a future of Rust, which is asked again when its waker has raised the signal. A future of Python that is
//! cancelled drops its call.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};
use seawall::{CommitFuture, Durability, Lsn};
use seawall_sys::signal::Signal;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::errors::{OrRaise, exception, named};
use crate::follower::Follower;
use crate::reader::lock;
use crate::results::Returned;

/// What a thread of the log raises.
struct Raised {
    signal: Signal,
    /// Followers for which there is something, and calls that have an answer.
    woken: Mutex<Vec<u64>>,
}

impl Wake for Raised {
    fn wake(self: Arc<Self>) {
        self.signal.raise();
    }
}

/// The waker of one follower or call.
struct OneWaker(Arc<Raised>, u64);

impl Wake for OneWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.0.woken).push(self.1);
        self.0.signal.raise();
    }
}

/// A future, and what it gets besides the LSN.
type Awaited = (Py<PyAny>, Option<Py<PyAny>>);

/// What a call has come to, once it has.
type Ask = Box<dyn FnMut(Python<'_>, &mut Context<'_>) -> Option<PyResult<Py<PyAny>>> + Send>;

#[derive(Default)]
struct Waiting {
    /// By LSN, and by number where two wait for the same one.
    commits: BTreeMap<(Lsn, u64), Awaited>,
    /// Wakes for the lowest of them.
    registered: Option<CommitFuture>,
    followers: HashMap<u64, Py<PyAny>>,
    calls: HashMap<u64, (Py<PyAny>, Ask)>,
    number: u64,
}

/// One log, or one queue, in one event loop.
#[pyclass(module = "seawall", frozen)]
pub(crate) struct EventLoop {
    asyncio: Py<PyAny>,
    raised: Arc<Raised>,
    waker: Waker,
    /// `None` once the log was closed, and of a queue.
    log: Mutex<Option<Arc<seawall::Log>>>,
    class: Option<Durability>,
    waiting: Mutex<Waiting>,
}

/// Those in which a log or queue is used.
pub(crate) type EventLoops = Mutex<Vec<Py<EventLoop>>>;

fn running_loop(py: Python<'_>) -> Returned<'_> {
    static GET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GET.import(py, "asyncio", "get_running_loop")?.call0()
}

impl EventLoop {
    /// That of the running event loop.
    pub(crate) fn running<'py>(
        py: Python<'py>,
        event_loops: &EventLoops,
        log: Option<&Arc<seawall::Log>>,
        class: Option<Durability>,
    ) -> PyResult<Bound<'py, Self>> {
        let event_loop = running_loop(py)?;
        let same = |one: &&Py<Self>| one.get().class == class && one.get().asyncio.is(&event_loop);
        let known: Vec<Py<Self>> = {
            let known = lock(event_loops);
            if let Some(found) = known.iter().find(same) {
                return Ok(found.bind(py).clone());
            }
            known.iter().map(|one| one.clone_ref(py)).collect()
        };
        // Without that lock: Python runs here, and may let another thread go on that takes it.
        let closed = known.iter().filter(|one| {
            let closed = one.get().asyncio.bind(py).call_method0(intern!(py, "is_closed"));
            closed.and_then(|closed| closed.is_truthy()).unwrap_or(false)
        });
        let closed: Vec<&Py<Self>> = closed.collect();
        let made = Self::new(&event_loop, log, class)?;
        let mut all = lock(event_loops);
        all.retain(|one| !closed.iter().any(|closed| closed.is(one)));
        all.push(made.clone().unbind());
        Ok(made)
    }

    fn new<'py>(
        event_loop: &Bound<'py, PyAny>,
        log: Option<&Arc<seawall::Log>>,
        class: Option<Durability>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = event_loop.py();
        let raised = Arc::new(Raised { signal: Signal::new()?, woken: Mutex::default() });
        let descriptor = raised.signal.descriptor();
        let made = Self {
            asyncio: event_loop.clone().unbind(),
            waker: Waker::from(Arc::clone(&raised)),
            raised,
            log: Mutex::new(log.cloned()),
            class,
            waiting: Mutex::default(),
        };
        let made = Bound::new(py, made)?;
        let ready = made.getattr(intern!(py, "_ready"))?;
        let added = event_loop.call_method1(intern!(py, "add_reader"), (descriptor, ready));
        added.map_err(|error| {
            let words = "this event loop watches no file descriptors, which the log needs: use asyncio.SelectorEventLoop";
            if error.is_instance_of::<pyo3::exceptions::PyNotImplementedError>(py) {
                PyRuntimeError::new_err(words)
            } else {
                error
            }
        })?;
        Ok(made)
    }

    fn future<'py>(&self, py: Python<'py>) -> Returned<'py> {
        self.asyncio.bind(py).call_method0(intern!(py, "create_future"))
    }

    /// A future that is a coroutine as well.
    fn pending<'py>(&self, py: Python<'py>) -> Returned<'py> {
        static PENDING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let arguments = PyDict::new(py);
        arguments.set_item(intern!(py, "loop"), &self.asyncio)?;
        PENDING.import(py, "seawall._tasks", "Pending")?.call((), Some(&arguments))
    }

    fn reached(&self, log: &seawall::Log) -> Lsn {
        self.class.map_or_else(|| log.durable_lsn(), |class| log.lsn_surviving(class))
    }

    fn request(&self, log: &seawall::Log, lsn: Lsn) -> seawall::Result<CommitFuture> {
        self.class.map_or_else(|| Ok(log.commit_async(lsn)), |class| log.commit_async_as(lsn, class))
    }

    /// A future that gives `value`, or `lsn` if there is none, when everything before `lsn` is durable.
    pub(crate) fn commit<'py>(&self, py: Python<'py>, lsn: Lsn, value: Option<Py<PyAny>>) -> Returned<'py> {
        let future = self.pending(py)?;
        let Some(log) = lock(&self.log).clone() else { return Err(exception(py, &seawall::Error::Closed)) };
        let commit = self.request(&log, lsn).or_raise(py)?;
        if commit.is_durable() {
            complete(&future, lsn, value)?;
            return Ok(future);
        }
        let mut waiting = lock(&self.waiting);
        waiting.number += 1;
        let key = (lsn, waiting.number);
        waiting.commits.insert(key, (future.clone().unbind(), value));
        let lowest = waiting.registered.as_ref().is_none_or(|registered| lsn < registered.lsn());
        if lowest && self.register(&mut waiting, commit) {
            drop(waiting);
            self.finish(py);
        }
        Ok(future)
    }

    /// Has the log wake this event loop for a commit; returns whether it is ready now.
    fn register(&self, waiting: &mut Waiting, mut commit: CommitFuture) -> bool {
        let ready = Pin::new(&mut commit).poll(&mut Context::from_waker(&self.waker)).is_ready();
        waiting.registered = Some(commit);
        ready
    }

    /// The futures that are ready, and the error of all others if there is one.
    fn take_ready(&self, log: &seawall::Log) -> (Vec<(Lsn, Awaited)>, Option<seawall::Error>) {
        let mut ready = Vec::new();
        let mut waiting = lock(&self.waiting);
        loop {
            let reached = self.reached(log);
            while let Some(first) = waiting.commits.first_entry().filter(|first| first.key().0 <= reached) {
                let lsn = first.key().0;
                ready.push((lsn, first.remove()));
            }
            let Some(lowest) = waiting.commits.first_key_value().map(|(key, _)| key.0) else {
                waiting.registered = None;
                return (ready, None);
            };
            let requested = match self.request(log, lowest) {
                Ok(commit) => commit,
                Err(error) => return (ready, Some(error)),
            };
            let mut commit = requested;
            match Pin::new(&mut commit).poll(&mut Context::from_waker(&self.waker)) {
                Poll::Pending => {
                    waiting.registered = Some(commit);
                    return (ready, None);
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return (ready, Some(error)),
            }
        }
    }

    /// Completes what is ready.
    fn finish(&self, py: Python<'_>) {
        let woken = std::mem::take(&mut *lock(&self.raised.woken));
        if !woken.is_empty() {
            let mut waiting = lock(&self.waiting);
            let futures: Vec<_> =
                woken.iter().filter_map(|number| waiting.followers.remove(number)).collect();
            drop(waiting);
            for future in futures {
                report(py, give(future.bind(py), py.None()));
            }
            for number in woken {
                self.look(py, number);
            }
        }
        let Some(log) = lock(&self.log).clone() else { return };
        let (ready, failed) = self.take_ready(&log);
        for (lsn, (future, value)) in ready {
            report(py, complete(future.bind(py), lsn, value));
        }
        let Some(failed) = failed else { return };
        let mut waiting = lock(&self.waiting);
        let others = std::mem::take(&mut waiting.commits);
        waiting.registered = None;
        drop(waiting);
        for (future, _) in others.into_values() {
            report(py, fail(future.bind(py), exception(py, &failed)));
        }
    }

    /// A future that is ready when `follower` has something in memory, or has ended.
    pub(crate) fn readable<'py>(&self, py: Python<'py>, follower: &Follower) -> Returned<'py> {
        let future = self.future(py)?;
        let mut waiting = lock(&self.waiting);
        waiting.number += 1;
        let number = waiting.number;
        waiting.followers.insert(number, future.clone().unbind());
        drop(waiting);
        let waker = Waker::from(Arc::new(OneWaker(Arc::clone(&self.raised), number)));
        if py.detach(|| follower.fetch(&mut Context::from_waker(&waker))) {
            let taken = lock(&self.waiting).followers.remove(&number);
            drop(taken);
            give(&future, py.None())?;
        }
        Ok(future)
    }

    /// A future of what a call comes to, as `value` makes it. The call is dropped with a future that is cancelled, if it `is_dropped`.
    pub(crate) fn call<'py, T: 'static>(
        this: &Bound<'py, Self>,
        is_dropped: bool,
        mut call: impl Future<Output = T> + Unpin + Send + 'static,
        mut value: impl FnMut(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Returned<'py> {
        let (py, own) = (this.py(), this.get());
        let future = own.pending(py)?;
        let poll = Box::new(move |py: Python<'_>, context: &mut Context<'_>| {
            match Pin::new(&mut call).poll(context) {
                Poll::Ready(done) => Some(value(py, done)),
                Poll::Pending => None,
            }
        });
        let number = {
            let mut waiting = lock(&own.waiting);
            waiting.number += 1;
            let number = waiting.number;
            waiting.calls.insert(number, (future.clone().unbind(), poll));
            number
        };
        own.look(py, number);
        if is_dropped && lock(&own.waiting).calls.contains_key(&number) {
            let event_loop = this.clone().unbind();
            let left = move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
                let left = lock(&event_loop.get().waiting).calls.remove(&number);
                arguments.py().detach(|| drop(left));
            };
            future.call_method1(
                intern!(py, "add_done_callback"),
                (PyCFunction::new_closure(py, None, None, left)?,),
            )?;
        }
        Ok(future)
    }

    /// Completes the future of a call that has an answer.
    fn look(&self, py: Python<'_>, number: u64) {
        let Some((future, mut poll)) = lock(&self.waiting).calls.remove(&number) else { return };
        let waker = Waker::from(Arc::new(OneWaker(Arc::clone(&self.raised), number)));
        match poll(py, &mut Context::from_waker(&waker)) {
            Some(done) => report(py, settle(future.bind(py), done)),
            None => drop(lock(&self.waiting).calls.insert(number, (future, poll))),
        }
    }

    /// Has the event loop let go of a log or queue that was closed, in its own thread.
    pub(crate) fn release(py: Python<'_>, event_loops: &EventLoops) {
        let event_loops = std::mem::take(&mut *lock(event_loops));
        for one in event_loops {
            let release = one.bind(py).getattr(intern!(py, "_release"));
            let event_loop = one.get().asyncio.bind(py);
            // One that was closed itself has let go of everything.
            let _ = release
                .and_then(|release| event_loop.call_method1(intern!(py, "call_soon_threadsafe"), (release,)));
        }
    }
}

/// Gives a future its result, unless it was cancelled, or an exception of its own: one that several raised would collect the places of
/// all.
fn settle(future: &Bound<'_, PyAny>, result: PyResult<Py<PyAny>>) -> PyResult<()> {
    let py = future.py();
    if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
        match result {
            Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
            Err(error) => future.call_method1(intern!(py, "set_exception"), (error.into_value(py),))?,
        };
    }
    Ok(())
}

fn give(future: &Bound<'_, PyAny>, value: Py<PyAny>) -> PyResult<()> {
    settle(future, Ok(value))
}

fn complete(future: &Bound<'_, PyAny>, lsn: Lsn, value: Option<Py<PyAny>>) -> PyResult<()> {
    let py = future.py();
    let value = match value {
        Some(value) => value,
        None => lsn.get().into_pyobject(py)?.into_any().unbind(),
    };
    give(future, value)
}

fn fail(future: &Bound<'_, PyAny>, error: PyErr) -> PyResult<()> {
    settle(future, Err(error))
}

/// Prints what a future did not take: there is nobody to raise it to.
fn report(py: Python<'_>, done: PyResult<()>) {
    if let Err(error) = done {
        error.write_unraisable(py, None);
    }
}

#[pymethods]
impl EventLoop {
    /// Called by the event loop when the pipe can be read.
    fn _ready(&self, py: Python<'_>) {
        if self.raised.signal.lower() {
            self.finish(py);
        }
    }

    /// Completes what is left and lets go of the log.
    fn _release(&self, py: Python<'_>) -> PyResult<()> {
        self.finish(py);
        let descriptor = self.raised.signal.descriptor();
        self.asyncio.call_method1(py, intern!(py, "remove_reader"), (descriptor,))?;
        let log = lock(&self.log).take();
        let calls: Vec<_> = lock(&self.waiting).calls.keys().copied().collect();
        for number in calls {
            self.look(py, number);
        }
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        for (future, _) in waiting.calls.into_values() {
            fail(future.bind(py), named(py, "Closed", "the queue was closed"))?;
        }
        for (future, _) in waiting.commits.into_values() {
            fail(future.bind(py), exception(py, &seawall::Error::Closed))?;
        }
        // Followers find out by themselves that the log was closed.
        for future in waiting.followers.into_values() {
            give(future.bind(py), py.None())?;
        }
        py.detach(|| drop((log, waiting.registered)));
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.asyncio)
    }
}
