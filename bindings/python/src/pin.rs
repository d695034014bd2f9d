//! Pins: what must not be trimmed yet.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use seawall::{Lsn, ReadPin};
use std::sync::Mutex;

use crate::errors::named;
use crate::reader::lock;

/// Holds what an open log has from one LSN on until it is released: ``Log.pin``. A context manager.
#[pyclass(module = "seawall", frozen)]
pub(crate) struct Pin {
    held: Mutex<Option<ReadPin>>,
}

impl Pin {
    pub(crate) fn new(pin: ReadPin) -> Self {
        Self { held: Mutex::new(Some(pin)) }
    }

    fn with<T: Send>(&self, py: Python<'_>, act: impl FnOnce(&mut ReadPin) -> T + Send) -> PyResult<T> {
        let done = py.detach(|| lock(&self.held).as_mut().map(act));
        done.ok_or_else(|| named(py, "Closed", "the pin was released"))
    }
}

#[pymethods]
impl Pin {
    /// The first LSN that it holds.
    #[getter]
    fn lsn(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |pin| pin.lsn().get())
    }

    /// Moves it on, for a reader that needs nothing before ``lsn`` any more; never back.
    fn advance(&self, py: Python<'_>, lsn: u64) -> PyResult<()> {
        self.with(py, |pin| pin.advance(Lsn::new(lsn)))
    }

    /// Lets the log trim what it held. Does nothing the second time.
    fn release(&self, py: Python<'_>) {
        py.detach(|| drop(lock(&self.held).take()));
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) {
        self.release(py);
    }
}
