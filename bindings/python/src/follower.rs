//! Followers: iterators that wait for the next record, in a thread or in a task of asyncio.

use pyo3::exceptions::{PyStopAsyncIteration, PyTypeError};
use pyo3::prelude::*;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::errors::OrRaise;
use crate::event_loop::EventLoop;
use crate::log::Log;
use crate::reader::{Fetched, Next, lock, opened};
use crate::record::Record;
use crate::results::{Returned, seconds};
use crate::wait;

/// What is followed.
pub(crate) enum Source {
    /// A log of this process.
    Log(Box<seawall::Follower>),
    /// A stream of a log of this process.
    Stream(seawall::StreamFollower),
    /// A log of any process.
    View(Box<seawall::ViewFollower>),
    /// A stream of such a log.
    ViewStream(Box<seawall::ViewStreamFollower>),
}

impl Source {
    /// The next record if there is one now; reads the disk if it must.
    fn look(&mut self) -> Next {
        match self {
            Self::Log(follower) => follower.try_next_record(),
            Self::Stream(follower) => follower.try_next_record(),
            Self::View(follower) => follower.try_next_record(),
            Self::ViewStream(follower) => follower.try_next_record(),
        }
    }

    /// The next record; `context` is woken if there is none. A view has nothing that wakes.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        match self {
            Self::Log(follower) => follower.poll_next_record(context),
            Self::Stream(follower) => follower.poll_next_record(context),
            Self::View(..) | Self::ViewStream(..) => Poll::Ready(self.look()),
        }
    }
}

/// Follows a log or a stream: an iterator, and an asynchronous one, that waits for the next record.
///
/// It ends when the log is closed; that of a ``View`` waits for the next writer, unless it was told to end with the last one.
#[pyclass(module = "seawall", frozen)]
pub(crate) struct Follower {
    state: Mutex<(Fetched, Source)>,
    /// The log of this process that is followed.
    log: Option<(Py<Log>, Arc<seawall::Log>)>,
}

impl Follower {
    /// Follows something of `log`, or of a log of another process, from a place that was `named`, or as [`opened`].
    pub(crate) fn open(
        named: bool,
        open: impl FnMut(bool) -> seawall::Result<Source>,
        log: Option<(Py<Log>, Arc<seawall::Log>)>,
    ) -> seawall::Result<Self> {
        Ok(Self { state: Mutex::new(opened(named, open, Source::look)?), log })
    }

    /// The next record in memory, without giving up the interpreter's lock.
    fn in_memory(&self) -> Option<Next> {
        self.state.try_lock().ok()?.0.next_or_end()
    }

    /// The next record if there is one now.
    fn look(&self) -> Option<Next> {
        let (fetched, source) = &mut *lock(&self.state);
        fetched.fill(&mut || source.look());
        fetched.next_or_end()
    }

    /// The next record; `context` is woken if there is none. Not for views.
    fn poll(&self, context: &mut Context<'_>) -> Poll<Next> {
        let (fetched, source) = &mut *lock(&self.state);
        fetched.next_or_end().map_or_else(|| source.poll(context), Poll::Ready)
    }

    /// Fetches what there is now, reading no disk in this thread; returns whether there is something in memory, or nothing will
    /// come. Otherwise `context` is woken when there is.
    pub(crate) fn fetch(&self, context: &mut Context<'_>) -> bool {
        let (fetched, source) = &mut *lock(&self.state);
        fetched.fill_ready(&mut || source.poll(context))
    }

    /// As [`Follower::poll`], for at most `limit` of a view; `None` if that is over.
    fn wait_for_view(&self, limit: Duration) -> Option<Next> {
        let next = match &mut lock(&self.state).1 {
            Source::View(follower) => follower.next_record_timeout(limit),
            Source::ViewStream(follower) => follower.next_record_timeout(limit),
            Source::Log(_) | Source::Stream(_) => return Some(Ok(None)),
        };
        if matches!(next, Err(seawall::Error::TimedOut { .. })) { None } else { Some(next) }
    }

    /// Where the next record is, for the error of a wait that timed out.
    fn place(&self) -> seawall::Lsn {
        match &lock(&self.state).1 {
            Source::View(follower) => follower.lsn(),
            Source::ViewStream(follower) => follower.lsn(),
            _ => self.log.as_ref().map_or(seawall::Lsn::ZERO, |(_, log)| log.durable_lsn()),
        }
    }

    fn wait(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<seawall::Record>> {
        let found = match self.in_memory().or_else(|| py.detach(|| self.look())) {
            Some(next) => Some(next),
            None if self.log.is_some() => wait::ready(py, timeout, poll_fn(|context| self.poll(context)))?,
            None => wait::sliced(py, timeout, |limit| self.wait_for_view(limit))?,
        };
        let late = || {
            let timeout = timeout.unwrap_or_default();
            Err(seawall::Error::TimedOut { lsn: py.detach(|| self.place()), timeout })
        };
        found.unwrap_or_else(late).or_raise(py)
    }
}

#[pymethods]
impl Follower {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        Ok(self.wait(py, None)?.map(|record| Record::new(py, &record)))
    }

    fn __aiter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __anext__<'py>(this: &Bound<'py, Self>) -> Returned<'py> {
        let coroutine = if this.get().log.is_some() { "next_of_log" } else { "next_of_view" };
        this.py().import("seawall._tasks")?.call_method1(coroutine, (this,))
    }

    /// The next record in memory, ``None`` if there is none; raises ``StopAsyncIteration`` if none will come.
    fn _take(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        let Some(next) = self.in_memory() else { return Ok(None) };
        let record = next.or_raise(py)?.ok_or_else(|| PyStopAsyncIteration::new_err(()))?;
        Ok(Some(Record::new(py, &record)))
    }

    /// Waits in this thread for something to take, of a view, for at most this many seconds; takes what is there after it as well.
    fn _wait(&self, py: Python<'_>, limit: f64) -> PyResult<()> {
        let limit = seconds("limit", limit)?;
        py.detach(|| {
            // A wait before this one, whose task was cancelled, may have found something.
            if lock(&self.state).0.is_ready() {
                return;
            }
            let next = self.wait_for_view(limit);
            let (fetched, source) = &mut *lock(&self.state);
            fetched.keep(next, &mut || source.look());
        });
        Ok(())
    }

    /// A future that is ready when ``_take`` is worth calling.
    fn _readable<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let Some((log, inner)) = &self.log else {
            return Err(PyTypeError::new_err("a view has no such future"));
        };
        EventLoop::running(py, log.get().event_loops(), Some(inner), None)?.get().readable(py, self)
    }

    /// The next record; waits for it, for at most ``timeout`` seconds if that is given. ``None`` when the log was closed and
    /// everything has been handed out.
    ///
    /// Raises ``TimedOut`` when the time is over.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Record>> {
        let timeout = timeout.map(|given| seconds("timeout", given)).transpose()?;
        Ok(self.wait(py, timeout)?.map(|record| Record::new(py, &record)))
    }

    /// Why a follower of another process's log looks at the disk again and again, if it does; ``None`` if the writer wakes it,
    /// or if there is none.
    #[getter]
    fn polls(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| match &lock(&self.state).1 {
            Source::View(follower) => follower.polls().map(str::to_owned),
            Source::ViewStream(follower) => follower.polls().map(str::to_owned),
            _ => None,
        })
    }

    /// Goes on after what was trimmed, after ``Trimmed``: returns the LSN of the first record that is left. Only for followers of
    /// a ``View``; those of a log or a stream start again.
    fn skip_trimmed(&self, py: Python<'_>) -> PyResult<u64> {
        let skipped = py.detach(|| match &mut lock(&self.state).1 {
            Source::View(follower) => Some(follower.skip_trimmed()),
            _ => None,
        });
        match skipped {
            Some(skipped) => skipped.or_raise(py).map(seawall::Lsn::get),
            None => Err(PyTypeError::new_err("only a follower of a View skips: follow the log anew")),
        }
    }
}
