//! Views: a log of any process, read without its lock.

use pyo3::prelude::*;
use seawall::{Lsn, Tail};
use std::path::PathBuf;
use std::sync::Mutex;

use crate::errors::OrRaise;
use crate::follower::{self, Follower};
use crate::reader::{self, Reader, lock};
use crate::results::class_name;

/// How a log ended, in a word.
pub(crate) fn tail_name(tail: Tail) -> &'static str {
    match tail {
        Tail::New => "new",
        Tail::Clean => "clean",
        Tail::Torn => "torn",
        Tail::Lost { .. } => "lost",
        _ => "unknown",
    }
}

/// A read-only look at the log in a directory, also while another process writes it. It takes no lock.
///
/// While a writer holds the log it shows what the log itself proves durable: after a few idle milliseconds all of it.
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
        let view = py.detach(|| seawall::View::open(path)).or_raise(py)?;
        Ok(Self { view: Mutex::new(view) })
    }

    /// Brings the view up to date; returns whether anything may have changed.
    fn renew(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, seawall::View::renew)
    }

    /// Reads from the first record at or behind ``lsn`` to the end of the view; from the first record if none is given.
    #[pyo3(signature = (lsn=None))]
    fn read(&self, py: Python<'_>, lsn: Option<u64>) -> PyResult<Reader> {
        self.with(py, |view| view.read(lsn.map_or_else(|| view.first_lsn(), Lsn::new)))
            .map(|reader| Reader::new(reader::Source::View(Box::new(reader))))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Reader> {
        self.read(py, None)
    }

    /// Follows the log from the first record at or behind ``lsn``, also across writers that end and others that begin; with
    /// ``ends_with_writer`` it ends once there is no writer and every record was returned.
    #[pyo3(signature = (lsn=None, *, ends_with_writer=false))]
    fn follow(&self, py: Python<'_>, lsn: Option<u64>, ends_with_writer: bool) -> PyResult<Follower> {
        let follower = self.with(py, |view| {
            let follower = view.follow(lsn.map_or_else(|| view.first_lsn(), Lsn::new))?;
            Ok(Box::new(follower.ends_with_writer(ends_with_writer)))
        })?;
        Ok(Follower::new(follower::Source::View(follower, ends_with_writer), None))
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
        self.with(py, |view| Ok(class_name(view.class())))
    }

    /// The commit method that the directory remembers, if any.
    #[getter]
    fn method(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        self.with(py, |view| Ok(view.remembered_method()?.map(|(method, _)| method)))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |view| {
            Ok(format!(
                "View('{}', first={}, end={})",
                view.dir().display(),
                view.first_lsn(),
                view.end_lsn()
            ))
        })
    }
}
