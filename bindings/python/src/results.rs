//! Fills the dataclasses of `seawall.results`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::time::Duration;

use seawall::{Durability, Tail};

/// What Python gets: an object, or an exception.
pub(crate) type Returned<'py> = PyResult<Bound<'py, PyAny>>;

/// An instance of the dataclass of that name.
pub(crate) fn make<'py>(py: Python<'py>, class: &str, fields: &Bound<'py, PyDict>) -> Returned<'py> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("seawall.results").map(Bound::unbind))?;
    module.bind(py).getattr(class)?.call((), Some(fields))
}

/// A dataclass with its fields: `made!(py, "Tried", { max_ns: 7, ..tried { calls } })`, where `calls` is `tried.calls`.
macro_rules! made {
    ($py:expr, $class:expr, { $($field:ident: $value:expr,)* $(..$from:ident { $($same:ident),* $(,)? })? }) => {{
        let fields = pyo3::types::PyDict::new($py);
        $( pyo3::types::PyDictMethods::set_item(&fields, pyo3::intern!($py, stringify!($field)), $value)?; )*
        $( $( pyo3::types::PyDictMethods::set_item(&fields, pyo3::intern!($py, stringify!($same)), $from.$same)?; )* )?
        crate::results::make($py, $class, &fields)
    }};
}
pub(crate) use made;

/// The names of the durability classes in Python.
const CLASSES: [(&str, Durability); 3] = [
    ("power-loss", Durability::PowerLoss),
    ("system-crash", Durability::SystemCrash),
    ("process-crash", Durability::ProcessCrash),
];

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

/// The name of a class.
pub(crate) fn class_name(class: Durability) -> &'static str {
    CLASSES.iter().find(|(_, listed)| *listed == class).map_or("", |(name, _)| name)
}

/// The class of that name.
pub(crate) fn class_of(name: &str) -> PyResult<Durability> {
    one_of("durability", name, &CLASSES)
}

/// What a word stands for; `option` takes those that are known.
pub(crate) fn one_of<T: Copy>(option: &str, word: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(listed, _)| *listed == word);
    let names = || known.iter().map(|(name, _)| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let refused = || PyValueError::new_err(format!("{option} must be one of {}, not '{word}'", names()));
    found.map(|(_, value)| *value).ok_or_else(refused)
}

/// A time of this many seconds.
pub(crate) fn seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err(format!("{name} must be a time in seconds from 0 on, not {seconds}"))
    })
}
