//! Streams of a log.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seawall::StreamId;

use crate::data::Data;
use crate::errors::OrRaise;
use crate::event_loop::EventLoop;
use crate::follower::{self, Follower};
use crate::log::Log;
use crate::reader::{Reader, Source};
use crate::record::{Record, StreamAppend};
use crate::results::Returned;

/// The stream of that number.
pub(crate) fn stream_id(number: u32) -> PyResult<StreamId> {
    let refused = || PyValueError::new_err(format!("a stream is a number below {}, not {number}", 1 << 24));
    StreamId::new(number).ok_or_else(refused)
}

/// One stream of a log: an ordered sequence of records with its own reader, follower, trim and tail: ``Log.stream``.
#[pyclass(module = "seawall", frozen)]
pub(crate) struct Stream {
    log: Py<Log>,
    id: StreamId,
}

impl Stream {
    pub(crate) fn new(log: Py<Log>, id: StreamId) -> Self {
        Self { log, id }
    }

    /// Does `act` with the stream without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(seawall::Stream<'_>) -> seawall::Result<T> + Send,
    ) -> PyResult<T> {
        let log = self.log.get().open(py)?;
        py.detach(|| act(log.stream(self.id))).or_raise(py)
    }
}

#[pymethods]
impl Stream {
    /// Its number.
    #[getter]
    fn id(&self) -> u32 {
        self.id.get()
    }

    /// Appends a record. It is not durable yet: ``Log.commit`` its ``end``. Waits as ``Log.append`` does.
    fn append(&self, py: Python<'_>, record: Data) -> PyResult<StreamAppend> {
        let log = self.log.get().open(py)?;
        match log.stream(self.id).append_no_wait(&record) {
            Err(seawall::Error::WouldBlock) => self.with(py, |stream| stream.append(&record)).map(Into::into),
            appended => appended.or_raise(py).map(Into::into),
        }
    }

    /// Appends a record and returns when it is durable.
    fn append_commit(&self, py: Python<'_>, record: Data) -> PyResult<StreamAppend> {
        self.with(py, |stream| stream.append_commit(&record)).map(Into::into)
    }

    /// The append that never waits: see ``Log.try_append``. The first record of an open log that goes to any stream is refused so too.
    fn try_append(&self, py: Python<'_>, record: Data) -> PyResult<StreamAppend> {
        let log = self.log.get().open(py)?;
        log.stream(self.id).try_append(&record).or_raise(py).map(Into::into)
    }

    /// As ``append``, but raises ``WouldBlock`` only where that would wait, so that a later call finds room.
    fn _append_no_wait(&self, py: Python<'_>, record: Data) -> PyResult<StreamAppend> {
        self.with(py, |stream| stream.append_no_wait(&record)).map(Into::into)
    }

    /// The sequence number of the first record that is left; that of the next record if there is none.
    #[getter]
    fn first_seq(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.log.get().open(py)?.stream(self.id).first_seq())
    }

    /// The sequence number that the next record gets.
    #[getter]
    fn next_seq(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.log.get().open(py)?.stream(self.id).next_seq())
    }

    /// Reads the durable record of this sequence number.
    ///
    /// Raises ``StreamTrimmed``, or ``StreamEnd`` if there is no durable record of that number yet.
    fn get(&self, py: Python<'_>, seq: u64) -> PyResult<Record> {
        self.with(py, |stream| stream.get(seq)).map(|record| Record::new(py, &record))
    }

    /// Reads durable records from sequence number ``first`` on, or from the first that is left.
    #[pyo3(signature = (first=None))]
    fn read(&self, py: Python<'_>, first: Option<u64>) -> PyResult<Reader> {
        self.with(py, |stream| {
            let open = |_| {
                let mut reader = stream.read(first.unwrap_or_else(|| stream.first_seq()))?;
                Ok(Box::new(move || reader.next_record()) as Source)
            };
            Reader::open(first.is_some(), open)
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Reader> {
        self.read(py, None)
    }

    /// As ``read``, but waits for more at the end.
    #[pyo3(signature = (first=None))]
    fn follow(&self, py: Python<'_>, first: Option<u64>) -> PyResult<Follower> {
        let log = self.log.get().open(py)?;
        let owner = Some((self.log.clone_ref(py), log));
        self.with(py, |stream| {
            let from = || first.unwrap_or_else(|| stream.first_seq());
            let open = |_| stream.follow(from()).map(follower::Source::Stream);
            Follower::open(first.is_some(), open, owner)
        })
    }

    /// Trims the records before ``seq``; returns the LSN to ``Log.commit`` for that to be durable.
    fn trim(&self, py: Python<'_>, seq: u64) -> PyResult<u64> {
        self.with(py, |stream| stream.trim(seq)).map(seawall::Lsn::get)
    }

    /// Cuts off the record of sequence number ``seq`` and all after it: the next record gets that number. Returns the LSN to
    /// ``Log.commit`` for that to be durable.
    fn truncate(&self, py: Python<'_>, seq: u64) -> PyResult<u64> {
        self.with(py, |stream| stream.truncate(seq)).map(seawall::Lsn::get)
    }

    /// Removes the stream with all its records; returns the LSN to ``Log.commit`` for that to be durable.
    fn remove(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |stream| stream.remove()).map(seawall::Lsn::get)
    }

    /// Appends a record if there is room for it; the future gives its ``StreamAppend`` when it is durable.
    fn append_commit_async<'py>(&self, py: Python<'py>, record: &Bound<'py, PyAny>) -> Returned<'py> {
        let data: Data = record.extract()?;
        let log = self.log.get().open(py)?;
        let event_loop = EventLoop::running(py, self.log.get().event_loops(), Some(&log), None)?;
        match log.stream(self.id).append_no_wait(&data) {
            Ok(appended) => {
                let value = Py::new(py, StreamAppend::from(appended))?.into_any();
                event_loop.get().commit(py, appended.end, Some(value))
            }
            Err(seawall::Error::WouldBlock) => {
                let stream = Self { log: self.log.clone_ref(py), id: self.id };
                py.import("seawall._tasks")?.call_method1("append_commit", (&self.log, stream, record))
            }
            Err(error) => Err(crate::errors::exception(py, &error)),
        }
    }

    fn __repr__(&self) -> String {
        format!("Stream({})", self.id)
    }
}
