//! Keeps the last error of each thread, catches panics and cancellation, and turns results into codes.
//!
//! Invariants: no panic leaves a call; no thread is cancelled in one; a call that returns a negative code has left its error before; the text of an error
//! is made when it is asked for, so that a refusal in a loop costs nothing.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use seawall::Error;
use seawall_sys::clock::nanoseconds;
use seawall_sys::thread::Uncancelled;

use crate::codes;

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The log says so.
    Log(Error),
    /// The queue says so.
    Queue(seawall_queue::Error),
    /// An argument is not what the call takes.
    Argument(&'static str),
    /// Another thread is in a call with the same cursor.
    Busy,
    /// A mistake of this library.
    Panicked(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Log(error)
    }
}

impl From<seawall_queue::Error> for Failure {
    fn from(error: seawall_queue::Error) -> Self {
        match error {
            seawall_queue::Error::Log(error) => Self::Log(error),
            error => Self::Queue(error),
        }
    }
}

/// The result of what a call does.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The last error of a thread.
#[repr(C)]
#[derive(Debug)]
pub struct ErrorInfo {
    /// What the call returned.
    pub code: i32,
    /// Of `SEAWALL_FAILED`, the code of the first failure; otherwise `code`.
    pub cause: i32,
    /// The error number of the operating system (`errno`), 0 if there is none.
    pub os_error: i32,
    /// Always 0.
    pub reserved: i32,
    /// A number that belongs to the error, such as the LSN or the length that was named: see the codes. 0 if there is none.
    pub at: u64,
    /// The number that would have done, such as the first LSN left or the longest length: see the codes. 0 if there is none.
    pub limit: u64,
    /// What happened, where, and what to do about it: a sentence in English, in UTF-8. Never NULL.
    pub message: *const c_char,
    /// The file or directory, NULL if there is none.
    pub path: *const c_char,
}

/// An error as it is shown.
struct Shown {
    info: ErrorInfo,
    /// What the texts in `info` point to.
    _texts: [CString; 2],
}

#[derive(Default)]
struct Last {
    failure: Option<Failure>,
    shown: Option<Box<Shown>>,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// `text` as C has it; it has no zero byte in its middle then.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// `path` as C has it.
#[cfg(unix)]
pub(crate) fn c_path(path: &Path) -> CString {
    use std::os::unix::ffi::OsStrExt as _;
    CString::new(path.as_os_str().as_bytes()).unwrap_or_else(|_| c_text(&path.to_string_lossy()))
}

/// `path` as C has it.
#[cfg(not(unix))]
pub(crate) fn c_path(path: &Path) -> CString {
    c_text(&path.to_string_lossy())
}

/// The file that an error is about.
fn path_of(error: &Error) -> Option<&Path> {
    match error {
        Error::Io { path, .. }
        | Error::DiskFull { path, .. }
        | Error::DiskCap { path, .. }
        | Error::Locked { path }
        | Error::NewerFormat { path, .. }
        | Error::OlderFormat { path, .. }
        | Error::UnknownFeature { path, .. }
        | Error::ForeignSegment { path }
        | Error::ForeignFile { path }
        | Error::OtherLog { path }
        | Error::NotALog { path }
        | Error::Rebuilding { path }
        | Error::BlocksTooSmall { path, .. } => Some(path),
        Error::Corrupt(damage) => Some(&damage.path),
        Error::Failed { cause } => path_of(cause),
        _ => None,
    }
}

/// The two numbers of an error.
fn numbers_of(error: &Error) -> (u64, u64) {
    match error {
        Error::DiskCap { bytes_max, disk_bytes, .. } => (*disk_bytes, *bytes_max),
        Error::Corrupt(damage) => (damage.lsn.get(), damage.offset),
        Error::BlocksTooSmall { block_bytes, sector_bytes, .. } => (u64::from(*block_bytes), *sector_bytes),
        Error::NewerFormat { version, .. } | Error::OlderFormat { version, .. } => (u64::from(*version), 0),
        Error::TooLong { bytes, bytes_max } => (*bytes, *bytes_max),
        Error::TimedOut { lsn, timeout } => (lsn.get(), nanoseconds(*timeout)),
        Error::Trimmed { lsn, first } => (lsn.get(), first.get()),
        Error::NoRecord { lsn } => (lsn.get(), 0),
        Error::BeyondEnd { lsn, end } => (lsn.get(), end.get()),
        Error::StreamTrimmed { seq, first, .. } => (*seq, *first),
        Error::StreamGap { seq, next, .. } | Error::StreamEnd { seq, next, .. } => (*seq, *next),
        Error::Failed { cause } => numbers_of(cause),
        _ => (0, 0),
    }
}

/// The number of the system, the two numbers and the path of an error of a queue.
fn facts_of(error: &seawall_queue::Error) -> (i32, (u64, u64), Option<&Path>) {
    use seawall_queue::Error;
    match error {
        Error::Socket { path, source, .. } => (source.raw_os_error().unwrap_or(0), (0, 0), Some(path)),
        Error::NotAQueue { path } => (0, (0, 0), Some(path)),
        Error::NoAnswer { path, after } => (0, (0, nanoseconds(*after)), Some(path)),
        Error::NoMessage { seq } => (0, (*seq, 0), None),
        Error::TimedOut { after } => (0, (0, nanoseconds(*after)), None),
        Error::Version { owner } => (0, (u64::from(*owner), 0), None),
        _ => (0, (0, 0), None),
    }
}

impl Failure {
    fn code(&self) -> i32 {
        match self {
            Self::Log(error) => codes::of(error.name()),
            Self::Queue(error) => codes::of(error.name()),
            Self::Argument(_) => codes::SEAWALL_INVALID_ARGUMENT,
            Self::Busy => codes::SEAWALL_BUSY,
            Self::Panicked(_) => codes::SEAWALL_PANICKED,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Log(error) => error.to_string(),
            Self::Queue(error) => error.to_string(),
            Self::Argument(what) => (*what).to_owned(),
            Self::Busy => {
                "another thread is in a call with this cursor: a cursor is for one thread at a time"
                    .to_owned()
            }
            Self::Panicked(what) => {
                format!("a mistake in Seawall: {what}; close what was called and open it again")
            }
        }
    }

    fn show(&self) -> Shown {
        let code = self.code();
        let (cause, os_error, numbers, path) = match self {
            Self::Log(error) => {
                let cause = if let Error::Failed { cause } = error { codes::of(cause.name()) } else { code };
                (cause, error.raw_os_error().unwrap_or(0), numbers_of(error), path_of(error))
            }
            Self::Queue(error) => {
                let (os_error, numbers, path) = facts_of(error);
                (code, os_error, numbers, path)
            }
            _ => (code, 0, (0, 0), None),
        };
        let texts = [c_text(&self.message()), path.map(c_path).unwrap_or_default()];
        let [message, shown_path] = texts.each_ref().map(|text| text.as_ptr());
        let path = if path.is_some() { shown_path } else { std::ptr::null() };
        let (at, limit) = numbers;
        Shown {
            info: ErrorInfo { code, cause, os_error, reserved: 0, at, limit, message, path },
            _texts: texts,
        }
    }
}

/// What is shown of a thread that had no error.
pub(crate) struct NoError(pub(crate) ErrorInfo);

// SAFETY: both pointers are to constants or null, and nothing is written through them.
unsafe impl Sync for NoError {}

pub(crate) static NO_ERROR: NoError = NoError(ErrorInfo {
    code: 0,
    cause: 0,
    os_error: 0,
    reserved: 0,
    at: 0,
    limit: 0,
    message: c"no call of this thread has failed".as_ptr(),
    path: std::ptr::null(),
});

/// Keeps the error of this thread; returns its code.
fn keep(failure: Failure) -> i32 {
    let code = failure.code();
    // A thread that is just ending keeps none.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Last { failure: Some(failure), shown: None };
        }
    });
    code
}

/// The last error of this thread, which stays where it is until the thread fails again.
pub(crate) fn last() -> *const ErrorInfo {
    let shown = LAST.try_with(|last| {
        let mut last = last.try_borrow_mut().ok()?;
        let Last { failure, shown } = &mut *last;
        let failure = failure.as_ref()?;
        Some(&raw const shown.get_or_insert_with(|| Box::new(failure.show())).info)
    });
    shown.ok().flatten().unwrap_or(&raw const NO_ERROR.0)
}

/// What a call returns: a code alone, or a number that is a code if it is negative.
pub(crate) trait Returned {
    /// The return value of a call that failed.
    fn of_code(code: i32) -> Self;
}

impl Returned for i32 {
    fn of_code(code: i32) -> Self {
        code
    }
}

impl Returned for i64 {
    fn of_code(code: i32) -> Self {
        code.into()
    }
}

/// Runs what a call does; keeps its error, and that of a panic.
#[inline]
pub(crate) fn call<T: Returned>(work: impl FnOnce() -> Result<T>) -> T {
    let _uncancelled = Uncancelled::begin();
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(returned)) => returned,
        Ok(Err(failure)) => T::of_code(keep(failure)),
        Err(panic) => T::of_code(keep(Failure::Panicked(words_of(panic.as_ref())))),
    }
}

/// Runs what cannot fail but by a mistake, in which case it returns `otherwise`.
pub(crate) fn quiet<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    let _uncancelled = Uncancelled::begin();
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(returned) => returned,
        Err(panic) => {
            keep(Failure::Panicked(words_of(panic.as_ref())));
            otherwise
        }
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

/// An LSN, or a number of things, as a call returns it.
#[inline]
pub(crate) fn number(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| Failure::Argument("a number is past 2^63 - 1, which no call can return"))
}

#[cfg(test)]
mod tests {
    use super::{Failure, call, last};
    use crate::codes::{SEAWALL_FAILED, SEAWALL_IO, SEAWALL_PANICKED, SEAWALL_TRIMMED};
    use seawall::{Error, Lsn};
    use std::ffi::CStr;
    use std::sync::Arc;

    /// The message of this thread's last error.
    fn message() -> String {
        // SAFETY: never null, and valid until this thread fails again.
        let info = unsafe { &*last() };
        // SAFETY: a text of this library.
        let text = unsafe { CStr::from_ptr(info.message) };
        text.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_becomes_a_code_and_says_where_it_came_from() {
        assert_eq!(call::<i64>(|| panic!("number {}", 7)), i64::from(SEAWALL_PANICKED));
        assert!(message().contains("number 7"), "{}", message());
    }

    #[test]
    fn the_first_failure_shows_through_the_later_ones() {
        let source = std::io::Error::from_raw_os_error(5);
        let first = Arc::new(Error::Io { operation: "sync", path: "a/b".into(), source });
        assert_eq!(call::<i32>(|| Err(Failure::Log(Error::Failed { cause: first }))), SEAWALL_FAILED);
        // SAFETY: never null, and valid until this thread fails again.
        let info = unsafe { &*last() };
        assert_eq!((info.code, info.cause, info.os_error), (SEAWALL_FAILED, SEAWALL_IO, 5));
        // SAFETY: a text of this library.
        assert_eq!(unsafe { CStr::from_ptr(info.path) }, c"a/b");
    }

    #[test]
    fn an_error_stays_until_the_next_one_of_the_same_thread() {
        let trimmed = || Err(Failure::Log(Error::Trimmed { lsn: Lsn::new(3), first: Lsn::new(9) }));
        assert_eq!(call::<i32>(trimmed), SEAWALL_TRIMMED);
        let seen = last();
        assert_eq!(call::<i32>(|| Ok(0)), 0);
        let other = std::thread::spawn(|| {
            // SAFETY: never null.
            unsafe { (*last()).code }
        });
        assert_eq!(other.join().expect("ends"), 0);
        assert_eq!(last(), seen);
        // SAFETY: never null, and valid until this thread fails again.
        let info = unsafe { &*seen };
        assert_eq!((info.at, info.limit), (3, 9));
    }
}
