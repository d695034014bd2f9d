//! Turns the log's errors into the exceptions of `seawall.errors`: a row for each variant, with its attributes.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use seawall::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::results::class_name;

/// The value of an attribute.
enum Attribute {
    /// A path, whose name need not be text.
    Path(PathBuf),
    Text(String),
    Number(u64),
    Seconds(f64),
}

type Attributes = Vec<(&'static str, Attribute)>;

fn path(path: &Path) -> (&'static str, Attribute) {
    ("path", Attribute::Path(path.to_path_buf()))
}

fn number(name: &'static str, value: impl Into<u64>) -> (&'static str, Attribute) {
    (name, Attribute::Number(value.into()))
}

fn text(name: &'static str, value: impl Into<String>) -> (&'static str, Attribute) {
    (name, Attribute::Text(value.into()))
}

/// The class of an error of the system's, which is one of Python's own as well.
fn io_class(source: &std::io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::NotFound => "NotFound",
        ErrorKind::PermissionDenied => "NotPermitted",
        _ => "IoError",
    }
}

/// The class of an error and what it says besides its text.
fn row(error: &Error) -> (&'static str, Attributes) {
    match error {
        Error::Io { operation, path: at, source } => {
            (io_class(source), vec![path(at), text("operation", *operation)])
        }
        Error::DiskFull { path: at, .. } => ("DiskFull", vec![path(at), text("operation", "write")]),
        Error::DiskCap { path: at, bytes_max, disk_bytes, needed } => (
            "DiskCap",
            vec![
                path(at),
                number("bytes_max", *bytes_max),
                number("disk_bytes", *disk_bytes),
                number("needed", *needed),
            ],
        ),
        Error::Locked { path: at } => ("Locked", vec![path(at)]),
        Error::Failed { cause } => {
            ("Failed", row(cause).1.into_iter().filter(|(name, _)| *name == "path").collect())
        }
        Error::Corrupt(damage) => (
            "Corrupt",
            vec![
                path(&damage.path),
                number("offset", damage.offset),
                number("lsn", damage.lsn),
                text("what", damage.what.clone()),
            ],
        ),
        Error::NewerFormat { path: at, version } => {
            ("NewerFormat", vec![path(at), number("version", *version)])
        }
        Error::OlderFormat { path: at, version } => {
            ("OlderFormat", vec![path(at), number("version", *version)])
        }
        Error::UnknownFeature { path: at, feature } => {
            ("UnknownFeature", vec![path(at), text("feature", feature.clone())])
        }
        Error::ForeignSegment { path: at } => ("ForeignSegment", vec![path(at)]),
        Error::ForeignFile { path: at } => ("ForeignFile", vec![path(at)]),
        Error::OtherLog { path: at } => ("OtherLog", vec![path(at)]),
        Error::NotALog { path: at } => ("NotALog", vec![path(at)]),
        Error::Rebuilding { path: at } => ("Rebuilding", vec![path(at)]),
        Error::BlocksTooSmall { path: at, block_bytes, sector_bytes } => (
            "BlocksTooSmall",
            vec![path(at), number("block_bytes", *block_bytes), number("sector_bytes", *sector_bytes)],
        ),
        Error::TooLong { bytes, bytes_max } => {
            ("TooLong", vec![number("bytes", *bytes), number("bytes_max", *bytes_max)])
        }
        Error::WouldBlock => ("WouldBlock", vec![]),
        Error::TimedOut { lsn, timeout } => {
            ("TimedOut", vec![number("lsn", *lsn), ("timeout", Attribute::Seconds(timeout.as_secs_f64()))])
        }
        _ => place_row(error),
    }
}

/// The same of errors about a place of the log or about how it is used.
fn place_row(error: &Error) -> (&'static str, Attributes) {
    match error {
        Error::Trimmed { lsn, first } => ("Trimmed", vec![number("lsn", *lsn), number("first", *first)]),
        Error::NoRecord { lsn } => ("NoRecord", vec![number("lsn", *lsn)]),
        Error::BeyondEnd { lsn, end } => ("BeyondEnd", vec![number("lsn", *lsn), number("end", *end)]),
        Error::StreamTrimmed { stream, seq, first } => (
            "StreamTrimmed",
            vec![number("stream", stream.get()), number("seq", *seq), number("first", *first)],
        ),
        Error::StreamGap { stream, seq, next } => {
            ("StreamGap", vec![number("stream", stream.get()), number("seq", *seq), number("next", *next)])
        }
        Error::StreamEnd { stream, seq, next } => {
            ("StreamEnd", vec![number("stream", stream.get()), number("seq", *seq), number("next", *next)])
        }
        Error::BeyondPromise { requested, promised } => (
            "BeyondPromise",
            vec![text("requested", class_name(*requested)), text("promised", class_name(*promised))],
        ),
        Error::InvalidOption { option, .. } => ("InvalidOption", vec![text("option", *option)]),
        Error::Closed => ("Closed", vec![]),
        Error::Forked => ("Forked", vec![]),
        // A variant that a later version of the log has and this table has not: its text says what it is.
        _ => ("Error", vec![]),
    }
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    MODULE.get_or_try_init(py, || py.import("seawall.errors").map(Bound::unbind))?.bind(py).getattr(name)
}

fn instance<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    of_class(py, row(error).0, error)
}

fn of_class<'py>(py: Python<'py>, name: &str, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let made = described(py, name, row(error).1, &error.to_string(), error.raw_os_error())?;
    if let Error::Failed { cause } = error {
        made.setattr("__cause__", instance(py, cause)?)?;
    }
    Ok(made)
}

fn described<'py>(
    py: Python<'py>,
    name: &str,
    attributes: Attributes,
    words: &str,
    errno: Option<i32>,
) -> PyResult<Bound<'py, PyAny>> {
    let made = class(py, name)?.call1((words,))?;
    for (name, value) in attributes {
        match value {
            Attribute::Path(value) => {
                made.setattr(name, value.as_os_str())?;
                if made.is_instance_of::<PyOSError>() {
                    made.setattr("filename", value.as_os_str())?;
                }
            }
            Attribute::Text(value) => made.setattr(name, value)?,
            Attribute::Number(value) => made.setattr(name, value)?,
            Attribute::Seconds(value) => made.setattr(name, value)?,
        }
    }
    if let Some(errno) = errno {
        made.setattr("errno", errno)?;
        if made.is_instance_of::<PyOSError>() {
            made.setattr("strerror", py.import("os")?.call_method1("strerror", (errno,))?)?;
        }
    }
    Ok(made)
}

/// The exception of an error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    instance(py, error).map_or_else(|failed| failed, PyErr::from_value)
}

/// The exception of an error of a queue.
pub(crate) fn queue_exception(py: Python<'_>, error: &seawall_queue::Error) -> PyErr {
    use seawall_queue::Error as Queue;
    let seconds = |after: &std::time::Duration| ("timeout", Attribute::Seconds(after.as_secs_f64()));
    let mut errno = None;
    let (name, attributes) = match error {
        Queue::Log(error) => return exception(py, error),
        Queue::Owner { .. } => ("QueueOwner", vec![]),
        Queue::NotAQueue { path: at } => ("NotAQueue", vec![path(at)]),
        Queue::Foreign => ("ForeignRecord", vec![]),
        Queue::NoMessage { seq } => ("NoMessage", vec![number("seq", *seq)]),
        Queue::TimedOut { after } => ("TimedOut", vec![seconds(after)]),
        Queue::NoAnswer { path: at, after } => ("NoAnswer", vec![path(at), seconds(after)]),
        Queue::Socket { operation, path: at, source } => {
            errno = source.raw_os_error();
            (io_class(source), vec![path(at), text("operation", *operation)])
        }
        Queue::Version { owner } => ("QueueVersion", vec![number("owner", *owner)]),
        Queue::Closed => ("Closed", vec![]),
        // As above.
        _ => ("Error", vec![]),
    };
    described(py, name, attributes, &error.to_string(), errno).map_or_else(|failed| failed, PyErr::from_value)
}

/// An exception of that class with a text and nothing else.
pub(crate) fn named(py: Python<'_>, name: &str, words: &str) -> PyErr {
    class(py, name).and_then(|class| class.call1((words,))).map_or_else(|failed| failed, PyErr::from_value)
}

/// The error of looking at the log in `path`, where there may be no directory: there is no log either, as an opening says.
pub(crate) fn looking(py: Python<'_>, path: &Path, error: &Error) -> PyErr {
    let same = |at: &Path| std::path::absolute(path).ok() == std::path::absolute(at).ok();
    let missing = matches!(error, Error::Io { path: at, source, .. } if source.kind() == ErrorKind::NotFound && same(at));
    if missing {
        return of_class(py, "NoDirectory", error).map_or_else(|failed| failed, PyErr::from_value);
    }
    exception(py, error)
}

/// Results of the log as results of Python.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception of the error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for seawall::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}
