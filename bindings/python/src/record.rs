//! Records as Python sees them.

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seawall::Lsn;

/// One durable record.
#[pyclass(module = "seawall", frozen, get_all)]
pub(crate) struct Record {
    /// Where it starts.
    lsn: u64,
    /// Where it ends, exclusive: the ``end`` of what ``append`` returned, and where the next record starts.
    end: u64,
    /// Its bytes.
    payload: Py<PyBytes>,
    /// Whether it is the last one of its transaction.
    ends_transaction: bool,
    /// The stream that it belongs to, if it belongs to one.
    stream: Option<u32>,
    /// Its sequence number in that stream.
    seq: Option<u64>,
}

impl Record {
    /// A record that the log handed out.
    pub(crate) fn new(py: Python<'_>, record: &seawall::Record) -> Self {
        Self {
            lsn: record.lsn.get(),
            end: record.end.get(),
            payload: PyBytes::new(py, &record.payload).unbind(),
            ends_transaction: record.ends_transaction,
            stream: record.stream.map(|at| at.stream.get()),
            seq: record.stream.map(|at| at.seq),
        }
    }
}

#[pymethods]
impl Record {
    fn __bytes__(&self, py: Python<'_>) -> Py<PyBytes> {
        self.payload.clone_ref(py)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.payload.as_bytes(py).len()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let stream = match (self.stream, self.seq) {
            (Some(stream), Some(seq)) => format!(", stream={stream}, seq={seq}"),
            _ => String::new(),
        };
        format!("Record(lsn={}, end={}, {} bytes{stream})", self.lsn, self.end, self.__len__(py))
    }
}

/// A record that was appended.
#[pyclass(module = "seawall", frozen, get_all, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Append {
    /// Where it begins in the log: what ``Log.read_at`` takes.
    start: u64,
    /// Where it ends in the log: what ``Log.commit`` takes.
    pub(crate) end: u64,
}

impl From<Range<Lsn>> for Append {
    fn from(placed: Range<Lsn>) -> Self {
        Self { start: placed.start.get(), end: placed.end.get() }
    }
}

#[pymethods]
impl Append {
    fn __repr__(&self) -> String {
        format!("Append(start={}, end={})", self.start, self.end)
    }
}

/// A record that was appended to a stream.
#[pyclass(module = "seawall", frozen, get_all)]
pub(crate) struct StreamAppend {
    /// Its sequence number in the stream.
    seq: u64,
    /// Where it begins in the log: what ``Log.read_at`` takes.
    start: u64,
    /// Where it ends in the log: what ``Log.commit`` takes.
    end: u64,
}

impl From<seawall::StreamAppend> for StreamAppend {
    fn from(appended: seawall::StreamAppend) -> Self {
        Self { seq: appended.seq, start: appended.start.get(), end: appended.end.get() }
    }
}

#[pymethods]
impl StreamAppend {
    fn __repr__(&self) -> String {
        format!("StreamAppend(seq={}, start={}, end={})", self.seq, self.start, self.end)
    }
}
