//! The options of a log out of keyword arguments.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use seawall::{Engine, EngineChoice, MethodChoice, OnFull, Options, Permissions, Retention};

use crate::results::{class_of, one_of, seconds};

/// Sets one option from its value.
type Set = fn(Options, &Bound<'_, PyAny>) -> PyResult<Options>;

const PERMISSIONS: [(&str, Permissions); 3] =
    [("owner", Permissions::OwnerOnly), ("group", Permissions::Group), ("umask", Permissions::Umask)];
const ON_FULL: [(&str, OnFull); 2] = [("wait", OnFull::Wait), ("error", OnFull::Error)];

fn method(options: Options, value: &Bound<'_, PyAny>) -> PyResult<Options> {
    let name: String = value.extract()?;
    Ok(options.method(match name.as_str() {
        "fastest" => MethodChoice::Fastest,
        "probe-again" => MethodChoice::ProbeAgain,
        _ => MethodChoice::Named(name),
    }))
}

fn engine(options: Options, value: &Bound<'_, PyAny>) -> PyResult<Options> {
    let engines = Engine::ALL.map(|engine| (engine.name(), engine));
    Ok(options.engine(EngineChoice::Only(one_of("engine", &value.extract::<String>()?, &engines)?)))
}

/// Each option by its name.
#[rustfmt::skip]
const OPTIONS: [(&str, Set); 20] = [
    ("create", |options, value| Ok(options.create(value.extract()?))),
    ("durability", |options, value| Ok(options.durability(class_of(&value.extract::<String>()?)?))),
    ("segment_bytes", |options, value| Ok(options.segment_bytes(value.extract()?))),
    ("block_bytes", |options, value| Ok(options.block_bytes(value.extract()?))),
    ("batch_bytes", |options, value| Ok(options.batch_bytes(value.extract()?))),
    ("memory_bytes", |options, value| Ok(options.memory_bytes(value.extract()?))),
    ("crash_memory_bytes", |options, value| Ok(options.crash_memory_bytes(value.extract()?))),
    ("record_bytes_max", |options, value| Ok(options.record_bytes_max(value.extract()?))),
    ("in_flight_max", |options, value| Ok(options.in_flight_max(value.extract()?))),
    ("idle_mark", |options, value| Ok(options.idle_mark(seconds("idle_mark", value.extract()?)?))),
    ("spares", |options, value| Ok(options.spares(value.extract()?))),
    ("retain_bytes", |options, _| Ok(options)),
    ("retain_seconds", |options, _| Ok(options)),
    ("disk_bytes_max", |options, value| Ok(options.disk_bytes_max(value.extract()?))),
    ("on_full", |options, value| Ok(options.on_full(one_of("on_full", &value.extract::<String>()?, &ON_FULL)?))),
    ("method", method),
    ("engine", engine),
    ("permissions", |options, value| Ok(options.permissions(one_of("permissions", &value.extract::<String>()?, &PERMISSIONS)?))),
    ("network_file_system", |options, value| Ok(options.network_file_system(value.extract()?))),
    ("stall_threshold", |options, value| Ok(options.stall_threshold(seconds("stall_threshold", value.extract()?)?))),
];

/// The same error with the option in front, where it does not name it. A number that is too small or large is a bad value.
pub(crate) fn of_option(name: &str, error: &PyErr, value: &Bound<'_, PyAny>) -> PyErr {
    let py = value.py();
    let words = error.value(py).to_string();
    if words.starts_with(name) {
        return error.clone_ref(py);
    }
    let words = format!("option {name}: {words}");
    if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(words)
    } else {
        PyValueError::new_err(words)
    }
}

/// The options that these keyword arguments set; one that is `None` keeps its default.
pub(crate) fn options(given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    options_over(Options::default(), given)
}

/// The same with other defaults.
pub(crate) fn options_over(mut options: Options, given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut retention = Retention::default();
    for (name, value) in given.into_iter().flatten() {
        let name = name.cast_into::<PyString>()?;
        let name = name.to_str()?;
        let Some((_, set)) = OPTIONS.iter().find(|(listed, _)| *listed == name) else {
            let names = OPTIONS.map(|(name, _)| name).join(", ");
            return Err(PyTypeError::new_err(format!("Log has no option '{name}'; it has {names}")));
        };
        if value.is_none() {
            continue;
        }
        let named = |error| of_option(name, &error, &value);
        match name {
            "retain_bytes" => retention = retention.bytes(value.extract().map_err(named)?),
            "retain_seconds" => {
                let age = value.extract().and_then(|age| seconds(name, age));
                retention = retention.age(age.map_err(named)?);
            }
            _ => options = set(options, &value).map_err(named)?,
        }
    }
    Ok(options.retention(retention))
}
