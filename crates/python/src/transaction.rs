//! Transactions: records that are collected in a `with` block and appended together at its end.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use seawall::{Lsn, StreamId};
use std::sync::Mutex;

use crate::data::Data;
use crate::errors::{OrRaise, named};
use crate::log::Log;
use crate::reader::lock;
use crate::stream::stream_id;

enum State {
    /// The block has not begun.
    New,
    Open(Vec<(Option<StreamId>, Data)>),
    Appended(Lsn),
    Abandoned,
}

/// Records that are appended all or none: ``with log.transaction() as tx``. They are appended when the block ends, and none of
/// them is if it raises.
#[pyclass(module = "seawall", frozen)]
pub(crate) struct Transaction {
    log: Py<Log>,
    state: Mutex<State>,
}

impl Transaction {
    pub(crate) fn new(log: Py<Log>) -> Self {
        Self { log, state: Mutex::new(State::New) }
    }

    fn add(&self, py: Python<'_>, stream: Option<StreamId>, record: Data) -> PyResult<()> {
        match &mut *lock(&self.state) {
            State::Open(records) => {
                records.push((stream, record));
                Ok(())
            }
            State::New => Err(PyRuntimeError::new_err(
                "nothing would append this record: open a block, `with log.transaction() as tx:`, and append to `tx`",
            )),
            _ => Err(named(py, "Closed", "the transaction has ended: begin another one")),
        }
    }
}

#[pymethods]
impl Transaction {
    /// Adds a record.
    fn append(&self, py: Python<'_>, record: Data) -> PyResult<()> {
        self.add(py, None, record)
    }

    /// Adds a record of a stream, which gets its number when the transaction is appended.
    fn append_to(&self, py: Python<'_>, stream: u32, record: Data) -> PyResult<()> {
        let id = stream_id(stream)?;
        self.add(py, Some(id), record)
    }

    /// Where its last record ends, once it was appended: what ``Log.commit`` takes. ``None`` before that, and if it was abandoned.
    #[getter]
    fn lsn(&self) -> Option<u64> {
        if let State::Appended(lsn) = &*lock(&self.state) { Some(lsn.get()) } else { None }
    }

    fn __len__(&self) -> usize {
        if let State::Open(records) = &*lock(&self.state) { records.len() } else { 0 }
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
        let State::Open(records) = std::mem::replace(&mut *lock(&self.state), State::Abandoned) else {
            return Ok(());
        };
        if !kind.is_none() {
            return Ok(());
        }
        let log = self.log.get().open(py)?;
        let appended = py.detach(|| {
            log.transaction::<seawall::Error>(|transaction| {
                records.iter().try_for_each(|(stream, record)| match stream {
                    Some(stream) => transaction.append_to(*stream, record),
                    None => transaction.append(record),
                })
            })
        });
        *lock(&self.state) = State::Appended(appended.or_raise(py)?);
        Ok(())
    }
}
