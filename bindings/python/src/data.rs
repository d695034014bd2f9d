//! Bytes that Python passes in.
//!
//! `bytes` are borrowed; everything else that has a buffer is copied, because the stable interface of Python 3.10 has no buffers
//! and because another thread could change them while the log copies.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes};
use std::ops::Deref;

/// Records longer than this are copied without the interpreter's lock, because copying them takes longer than giving it up
/// and taking it again.
pub(crate) const COPIED_HELD_MAX: usize = 32 << 10;

/// The bytes of one argument.
pub(crate) struct Data(PyBackedBytes);

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl FromPyObject<'_, '_> for Data {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self(bytes.to_owned().into()));
        }
        if let Ok(array) = object.cast::<PyByteArray>() {
            return Ok(Self(array.to_owned().into()));
        }
        // A number has no buffer, so that `bytes(5)`, five zeros, is not what is appended for 5.
        let view = object.py().get_type::<pyo3::types::PyMemoryView>().call1((object,))?;
        let copied = view.call_method0("tobytes")?;
        Ok(Self(copied.cast_into::<PyBytes>()?.into()))
    }
}
