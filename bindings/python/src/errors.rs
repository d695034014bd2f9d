//! Turns errors of the log and the queue into the exceptions of `seawall.errors`, whose classes have their names, and whose attributes are
//! rows here.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use seawall::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::results::{Returned, class_name};

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

fn seconds(time: &Duration) -> (&'static str, Attribute) {
    ("timeout", Attribute::Seconds(time.as_secs_f64()))
}

/// The class of an error of the system's, which is one of Python's own as well.
fn io_class(source: &std::io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::NotFound => "NotFound",
        ErrorKind::PermissionDenied => "NotPermitted",
        _ => "IoError",
    }
}

/// What an error says besides its text.
fn attributes(error: &Error) -> Attributes {
    match error {
        Error::Io { operation, path: at, .. } => vec![path(at), text("operation", *operation)],
        Error::DiskFull { path: at, .. } => vec![path(at), text("operation", "write")],
        Error::DiskCap { path: at, bytes_max, disk_bytes, needed } => vec![
            path(at),
            number("bytes_max", *bytes_max),
            number("disk_bytes", *disk_bytes),
            number("needed", *needed),
        ],
        Error::Locked { path: at }
        | Error::ForeignSegment { path: at }
        | Error::ForeignFile { path: at }
        | Error::OtherLog { path: at }
        | Error::NotALog { path: at }
        | Error::Rebuilding { path: at } => vec![path(at)],
        Error::Failed { cause } => {
            attributes(cause).into_iter().filter(|(name, _)| *name == "path").collect()
        }
        Error::Corrupt(damage) => vec![
            path(&damage.path),
            number("offset", damage.offset),
            number("lsn", damage.lsn),
            text("what", damage.what.clone()),
        ],
        Error::NewerFormat { path: at, version } | Error::OlderFormat { path: at, version } => {
            vec![path(at), number("version", *version)]
        }
        Error::UnknownFeature { path: at, feature } => vec![path(at), text("feature", feature.clone())],
        Error::BlocksTooSmall { path: at, block_bytes, sector_bytes } => {
            vec![path(at), number("block_bytes", *block_bytes), number("sector_bytes", *sector_bytes)]
        }
        Error::TooLong { bytes, bytes_max } => vec![number("bytes", *bytes), number("bytes_max", *bytes_max)],
        Error::TimedOut { lsn, timeout } => vec![number("lsn", *lsn), seconds(timeout)],
        Error::Trimmed { lsn, first } => vec![number("lsn", *lsn), number("first", *first)],
        Error::NoRecord { lsn } => vec![number("lsn", *lsn)],
        Error::BeyondEnd { lsn, end } => vec![number("lsn", *lsn), number("end", *end)],
        Error::StreamTrimmed { stream, seq, first } => {
            vec![number("stream", stream.get()), number("seq", *seq), number("first", *first)]
        }
        Error::StreamGap { stream, seq, next } | Error::StreamEnd { stream, seq, next } => {
            vec![number("stream", stream.get()), number("seq", *seq), number("next", *next)]
        }
        Error::BeyondPromise { requested, promised } => {
            vec![text("requested", class_name(*requested)), text("promised", class_name(*promised))]
        }
        Error::InvalidOption { option, .. } => vec![text("option", *option)],
        // Also a variant that a later version of the log has: its text says what it is.
        _ => vec![],
    }
}

/// The class for the name that an error has in every language: `NoRecord` for `no_record`.
fn class_for(name: &str) -> String {
    name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// The class of that name; `Error` for an error that only a later version of the package has a class for.
fn class<'py>(py: Python<'py>, name: &str) -> Returned<'py> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("seawall.errors").map(Bound::unbind))?.bind(py);
    module.getattr(name).or_else(|_| module.getattr("Error"))
}

fn instance<'py>(py: Python<'py>, error: &Error) -> Returned<'py> {
    match error {
        Error::Io { source, .. } => of_class(py, io_class(source), error),
        _ => of_class(py, &class_for(error.name()), error),
    }
}

fn of_class<'py>(py: Python<'py>, name: &str, error: &Error) -> Returned<'py> {
    let made = described(py, name, attributes(error), &error.to_string(), error.raw_os_error())?;
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
) -> Returned<'py> {
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
    let attributes = match error {
        Queue::Log(error) => return exception(py, error),
        Queue::NotAQueue { path: at } => vec![path(at)],
        Queue::NoMessage { seq } => vec![number("seq", *seq)],
        Queue::TimedOut { after } => vec![seconds(after)],
        Queue::NoAnswer { path: at, after } => vec![path(at), seconds(after)],
        Queue::Socket { operation, path: at, .. } => vec![path(at), text("operation", *operation)],
        Queue::Version { owner } => vec![number("owner", *owner)],
        _ => vec![],
    };
    let (class, errno) = match error {
        Queue::Socket { source, .. } => (io_class(source).to_owned(), source.raw_os_error()),
        _ => (class_for(error.name()), None),
    };
    described(py, &class, attributes, &error.to_string(), errno)
        .map_or_else(|failed| failed, PyErr::from_value)
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

/// Results of the log and the queue as results of Python.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception of the error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for seawall::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}

impl<T> OrRaise<T> for seawall_queue::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| queue_exception(py, &error))
    }
}
