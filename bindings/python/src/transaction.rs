//! Transactions: what is collected in a `with` block, records and changes of streams, and appended together at its end.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use seawall::{Lsn, Transaction as Inner};
use std::sync::Mutex;

use crate::data::Data;
use crate::errors::{OrRaise, named};
use crate::log::Log;
use crate::reader::lock;
use crate::stream::stream_id;

enum State {
    /// The block has not begun.
    New,
    Open(Vec<Part>),
    Appended(Lsn),
    Abandoned,
}

/// What the block asked for, which it adds to a transaction.
type Part = Box<dyn Fn(&mut Inner) -> seawall::Result<()> + Send + Sync>;

/// Records that are appended, and streams that are trimmed, truncated and removed, all or none: ``with log.transaction() as tx``. It
/// happens in order when the block ends, and nothing of it if the block raises.
#[pyclass(module = "seawall", frozen)]
pub(crate) struct Transaction {
    log: Py<Log>,
    state: Mutex<State>,
}

impl Transaction {
    pub(crate) fn new(log: Py<Log>) -> Self {
        Self { log, state: Mutex::new(State::New) }
    }

    fn add(
        &self,
        py: Python<'_>,
        part: impl Fn(&mut Inner) -> seawall::Result<()> + Send + Sync + 'static,
    ) -> PyResult<()> {
        match &mut *lock(&self.state) {
            State::Open(parts) => {
                parts.push(Box::new(part));
                Ok(())
            }
            State::New => Err(PyRuntimeError::new_err(
                "nothing would append this: open a block, `with log.transaction() as tx:`, and use `tx` in it",
            )),
            _ => Err(named(py, "Closed", "the transaction has ended: begin another one")),
        }
    }
}

#[pymethods]
impl Transaction {
    /// Adds a record.
    fn append(&self, py: Python<'_>, record: Data) -> PyResult<()> {
        self.add(py, move |inner| inner.append(&record))
    }

    /// Adds a record of a stream, which gets its number when the transaction is appended.
    fn append_to(&self, py: Python<'_>, stream: u32, record: Data) -> PyResult<()> {
        let id = stream_id(stream)?;
        self.add(py, move |inner| inner.append_to(id, &record))
    }

    /// Trims the records of a stream before the number ``seq``, as ``Stream.trim``.
    fn trim(&self, py: Python<'_>, stream: u32, seq: u64) -> PyResult<()> {
        let id = stream_id(stream)?;
        self.add(py, move |inner| inner.trim(id, seq))
    }

    /// Cuts off the record with the number ``seq`` and all after it, as ``Stream.truncate``.
    fn truncate(&self, py: Python<'_>, stream: u32, seq: u64) -> PyResult<()> {
        let id = stream_id(stream)?;
        self.add(py, move |inner| inner.truncate(id, seq))
    }

    /// Removes a stream with all its records, as ``Stream.remove``.
    fn remove(&self, py: Python<'_>, stream: u32) -> PyResult<()> {
        let id = stream_id(stream)?;
        self.add(py, move |inner| inner.remove(id))
    }

    /// Where it ends, once it was appended: what ``Log.commit`` takes. ``None`` before that, and if it was abandoned.
    #[getter]
    fn lsn(&self) -> Option<u64> {
        if let State::Appended(lsn) = &*lock(&self.state) { Some(lsn.get()) } else { None }
    }

    fn __len__(&self) -> usize {
        if let State::Open(parts) = &*lock(&self.state) { parts.len() } else { 0 }
    }

    fn __enter__<'py>(this: Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, Self>> {
        let mut state = lock(&this.get().state);
        if !matches!(*state, State::New) {
            return Err(named(py, "Closed", "the transaction has begun before: begin another one"));
        }
        *state = State::Open(Vec::new());
        drop(state);
        Ok(this)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let State::Open(parts) = std::mem::replace(&mut *lock(&self.state), State::Abandoned) else {
            return Ok(());
        };
        if !kind.is_none() {
            return Ok(());
        }
        let log = self.log.get().open(py)?;
        let appended = py.detach(|| {
            log.transaction::<seawall::Error>(|inner| parts.iter().try_for_each(|part| part(inner)))
        });
        *lock(&self.state) = State::Appended(appended.or_raise(py)?);
        Ok(())
    }
}
