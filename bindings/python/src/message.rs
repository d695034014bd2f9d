//! A message that was handed out.
//!
//! Invariant: one that Python lets go of is given back, unless it was acknowledged.

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyType};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::queue::Queue;
use crate::results::{Returned, seconds};

/// The longest that a message whose block raised is delayed.
const RETRY_MAX: Duration = Duration::from_mins(1);

/// A message that was handed out: acknowledge it with ``ack``, give it back with ``nack``. One that is let go of is given back.
///
/// As a context manager it is acknowledged when the block ends, unless it was given back in it. When the block raises it is given back,
/// and delayed for a moment that doubles with each attempt: ``retry_delay`` of the queue.
#[pyclass(module = "seawall", frozen)]
pub(crate) struct Message {
    queue: Py<Queue>,
    inner: seawall_queue::Message,
    body: Py<PyBytes>,
    acknowledged: AtomicBool,
    given_back: AtomicBool,
}

impl Message {
    /// Messages that were got from a queue.
    pub(crate) fn wrap(
        py: Python<'_>,
        queue: &Py<Queue>,
        taken: Vec<seawall_queue::Message>,
    ) -> PyResult<Vec<Py<Self>>> {
        let wrapped = taken.into_iter().map(|message| {
            let (queue, body) = (queue.clone_ref(py), PyBytes::new(py, message.body()).unbind());
            let (acknowledged, given_back) = (AtomicBool::new(false), AtomicBool::new(false));
            Py::new(py, Self { queue, inner: message, body, acknowledged, given_back })
        });
        wrapped.collect()
    }

    /// Those that `queue` is to acknowledge.
    pub(crate) fn all_of<'a>(
        queue: &Bound<'_, Queue>,
        messages: &'a [Py<Self>],
    ) -> PyResult<Vec<&'a seawall_queue::Message>> {
        let own = |message: &'a Py<Self>| {
            let message = message.get();
            if !message.queue.is(queue) {
                let words = format!("message {} was got from another queue", message.id());
                return Err(PyValueError::new_err(words));
            }
            message.acknowledged.store(true, Ordering::Relaxed);
            Ok(&message.inner)
        };
        messages.iter().map(own).collect()
    }

    fn give_back(&self, py: Python<'_>, delay: Duration) -> PyResult<()> {
        self.given_back.store(true, Ordering::Relaxed);
        let message = &self.inner;
        self.queue.get().durable(
            py,
            delay,
            |_, delay| message.nack(delay),
            |_, delay| message.nack_async(delay),
        )
    }

    /// The delay after its block has raised.
    fn retry_delay(&self, kind: &Bound<'_, PyAny>) -> PyResult<Duration> {
        // A task that is cancelled or a program that is ended has not failed at the message.
        if !kind.cast::<PyType>()?.is_subclass_of::<PyException>()? {
            return Ok(Duration::ZERO);
        }
        let doubled = 1 << self.attempt().saturating_sub(1).min(31);
        Ok(self.queue.get().retry_delay.saturating_mul(doubled).min(RETRY_MAX))
    }
}

#[pymethods]
impl Message {
    /// What ``put`` returned.
    #[getter]
    fn id(&self) -> u64 {
        self.inner.id()
    }

    /// What was put.
    #[getter]
    fn body(&self, py: Python<'_>) -> Py<PyBytes> {
        self.body.clone_ref(py)
    }

    /// How often it was handed out, this time included, by any process.
    #[getter]
    fn attempt(&self) -> u32 {
        self.inner.attempt()
    }

    /// Returns when it is durable that the message was processed: it is never handed out again. Also after another consumer got it,
    /// because the time for it was over, and a second time.
    fn ack(&self, py: Python<'_>) -> PyResult<()> {
        self.acknowledged.store(true, Ordering::Relaxed);
        let message = &self.inner;
        self.queue.get().durable(py, (), |_, ()| message.ack(), |_, ()| message.ack_async())
    }

    /// As ``ack``, as a future.
    fn ack_async<'py>(&self, py: Python<'py>) -> Returned<'py> {
        self.acknowledged.store(true, Ordering::Relaxed);
        self.queue.get().future(py, false, |_| self.inner.ack_async(), |py, ()| Ok(py.None()))
    }

    /// Gives it back: it is handed out again after the messages that are there now, and not before ``delay`` seconds are over. Does
    /// nothing if it was acknowledged, given back, or handed to another consumer meanwhile.
    #[pyo3(signature = (*, delay=0.0))]
    fn nack(&self, py: Python<'_>, delay: f64) -> PyResult<()> {
        self.give_back(py, seconds("delay", delay)?)
    }

    /// As ``nack``, as a future.
    #[pyo3(signature = (*, delay=0.0))]
    fn nack_async<'py>(&self, py: Python<'py>, delay: f64) -> Returned<'py> {
        let delay = seconds("delay", delay)?;
        self.given_back.store(true, Ordering::Relaxed);
        self.queue.get().future(py, false, |_| self.inner.nack_async(delay), |py, ()| Ok(py.None()))
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        match kind.is_none() {
            true if self.given_back.load(Ordering::Relaxed) => Ok(()),
            true => self.ack(py),
            false => match self.give_back(py, self.retry_delay(kind)?) {
                // What the block raised says more, and a message that cannot be given back comes again when the queue is closed.
                Err(error) if error.is_instance_of::<PyException>(py) => Ok(()),
                done => done,
            },
        }
    }

    fn __aenter__<'py>(this: &Bound<'py, Self>) -> Returned<'py> {
        this.py().import("seawall._tasks")?.call_method1("itself", (this,))
    }

    fn __aexit__<'py>(
        this: &Bound<'py, Self>,
        kind: &Bound<'py, PyAny>,
        _error: &Bound<'py, PyAny>,
        _trace: &Bound<'py, PyAny>,
    ) -> Returned<'py> {
        let py = this.py();
        let own = this.get();
        match kind.is_none() {
            true if own.given_back.load(Ordering::Relaxed) => {
                py.import("seawall._tasks")?.call_method1("itself", (py.None(),))
            }
            true => own.ack_async(py),
            false => {
                let delay = own.retry_delay(kind)?.as_secs_f64();
                py.import("seawall._tasks")?.call_method1("give_back", (this, delay))
            }
        }
    }

    fn __repr__(&self) -> String {
        let bytes = self.inner.body().len();
        format!("Message(id={}, attempt={}, {bytes} bytes)", self.id(), self.attempt())
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if !*self.acknowledged.get_mut() && !*self.given_back.get_mut() {
            // The owner may be in another process, or busy.
            Python::try_attach(|py| py.detach(|| drop(self.inner.nack_async(Duration::ZERO))));
        }
    }
}
