//! Views: a log of any process, read without its lock.

use pyo3::prelude::*;
use seawall::{Lsn, StreamId};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use crate::errors::{OrRaise, looking};
use crate::follower::{self, Follower};
use crate::reader::{Reader, Source, lock};
use crate::results::{class_name, tail_name};
use crate::stream::stream_id;

/// A read-only look at the log in a directory, also while another process writes it. It takes no lock.
///
/// It shows what was durable when it was opened, or brought up to date by ``renew``.
#[pyclass(module = "seawall", frozen)]
pub(crate) struct View {
    view: Mutex<seawall::View>,
}

impl View {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut seawall::View) -> seawall::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| act(&mut lock(&self.view))).or_raise(py)
    }
}

#[pymethods]
impl View {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let view = py.detach(|| seawall::View::open(&path)).map_err(|error| looking(py, &path, &error))?;
        Ok(Self { view: Mutex::new(view) })
    }

    /// Brings the view up to date; returns whether anything may have changed.
    fn renew(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, seawall::View::renew)
    }

    /// Reads from the first record at or after ``lsn`` to the end of the view; from the first record if none is given.
    #[pyo3(signature = (lsn=None))]
    fn read(&self, py: Python<'_>, lsn: Option<u64>) -> PyResult<Reader> {
        self.with(py, |view| {
            let open = |again| {
                if again {
                    view.renew()?;
                }
                let mut reader = view.read(lsn.map_or_else(|| view.first_lsn(), Lsn::new))?;
                Ok(Box::new(move || reader.next().transpose()) as Source)
            };
            Reader::open(lsn.is_some(), open)
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Reader> {
        self.read(py, None)
    }

    /// Follows the log from the first record at or after ``lsn``, also across writers that end and others that begin; with
    /// ``ends_with_writer`` it ends once there is no writer and every record was returned.
    #[pyo3(signature = (lsn=None, *, ends_with_writer=false))]
    fn follow(&self, py: Python<'_>, lsn: Option<u64>, ends_with_writer: bool) -> PyResult<Follower> {
        self.with(py, |view| {
            let open = |again| {
                if again {
                    view.renew()?;
                }
                let follower = view.follow(lsn.map_or_else(|| view.first_lsn(), Lsn::new))?;
                let follower = Box::new(follower.ends_with_writer(ends_with_writer));
                Ok(follower::Source::View(follower))
            };
            Follower::open(lsn.is_some(), open, None)
        })
    }

    /// One stream of the log, with its trims and cuts, as it was where this view ends.
    fn stream(this: Bound<'_, Self>, stream: u32) -> PyResult<ViewStream> {
        let id = stream_id(stream)?;
        let found = this.get().with(this.py(), |view| view.stream(id))?;
        Ok(ViewStream { view: this.unbind(), id, stream: Mutex::new(found) })
    }

    /// The absolute path of the log's directory.
    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<PathBuf> {
        self.with(py, |view| Ok(view.dir().to_path_buf()))
    }

    /// The identity of the log, in hexadecimal digits.
    #[getter]
    fn log_id(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |view| Ok(view.log_id().to_string()))
    }

    /// The first LSN that is left.
    #[getter]
    fn first_lsn(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |view| Ok(view.first_lsn().get()))
    }

    /// The end of what is known to be durable.
    #[getter]
    fn end_lsn(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |view| Ok(view.end_lsn().get()))
    }

    /// Segments of the log.
    #[getter]
    fn segments(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |view| Ok(view.segments()))
    }

    /// Whether a writer held the log; ``None`` if this process may not know.
    #[getter]
    fn has_writer(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        self.with(py, |view| Ok(view.has_writer()))
    }

    /// How the log ended: ``'clean'``, ``'torn'`` or ``'lost'``; ``None`` while a writer holds it.
    #[getter]
    fn tail(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        self.with(py, |view| Ok(view.tail().map(tail_name)))
    }

    /// What acknowledged records of the log outlive, as its last opening requested.
    #[getter]
    fn durability(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |view| Ok(class_name(view.durability())))
    }

    /// The commit method that the directory remembers, if any.
    #[getter]
    fn method(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        self.with(py, |view| Ok(view.method()?.map(|(method, _)| method)))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |view| {
            let (first, end) = (view.first_lsn(), view.end_lsn());
            Ok(format!("View('{}', first={first}, end={end})", view.dir().display()))
        })
    }
}

/// One stream of a log of any process, as a ``View`` shows it: ``View.stream``.
#[pyclass(module = "seawall", frozen)]
pub(crate) struct ViewStream {
    view: Py<View>,
    id: StreamId,
    stream: Mutex<seawall::ViewStream>,
}

impl ViewStream {
    /// The stream as it was looked at last, or, `again`, as it is now.
    fn looked_at(&self, again: bool) -> seawall::Result<MutexGuard<'_, seawall::ViewStream>> {
        let mut stream = lock(&self.stream);
        if again {
            let mut view = lock(&self.view.get().view);
            view.renew()?;
            *stream = view.stream(self.id)?;
        }
        Ok(stream)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&Self) -> seawall::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| act(self)).or_raise(py)
    }
}

#[pymethods]
impl ViewStream {
    /// Its number.
    #[getter]
    fn id(&self) -> u32 {
        self.id.get()
    }

    /// The sequence number of the first record that is left; that of the next record if there is none.
    #[getter]
    fn first_seq(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |this| Ok(lock(&this.stream).first_seq()))
    }

    /// The sequence number that the next record gets.
    #[getter]
    fn next_seq(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |this| Ok(lock(&this.stream).next_seq()))
    }

    /// Reads from sequence number ``first`` on, or from the first record that is left, to the end of the view.
    #[pyo3(signature = (first=None))]
    fn read(&self, py: Python<'_>, first: Option<u64>) -> PyResult<Reader> {
        self.with(py, |this| {
            let open = |again| {
                let stream = this.looked_at(again)?;
                let mut reader = stream.read(first.unwrap_or_else(|| stream.first_seq()))?;
                Ok(Box::new(move || reader.next().transpose()) as Source)
            };
            Reader::open(first.is_some(), open)
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Reader> {
        self.read(py, None)
    }

    /// As ``read``, but waits for more at the end, as ``View.follow`` does.
    ///
    /// The follower raises ``StreamTrimmed`` if a trim has overtaken it, ``StreamEnd`` if records that it has handed out were cut off, or
    /// the stream was removed: it goes on at ``next`` of the error.
    #[pyo3(signature = (first=None, *, ends_with_writer=false))]
    fn follow(&self, py: Python<'_>, first: Option<u64>, ends_with_writer: bool) -> PyResult<Follower> {
        self.with(py, |this| {
            let open = |again| {
                let stream = this.looked_at(again)?;
                let follower = stream.follow(first.unwrap_or_else(|| stream.first_seq()))?;
                let follower = Box::new(follower.ends_with_writer(ends_with_writer));
                Ok(follower::Source::ViewStream(follower))
            };
            Follower::open(first.is_some(), open, None)
        })
    }

    fn __repr__(&self) -> String {
        format!("ViewStream({})", self.id)
    }
}
