//! Iterators over the records of a log, a stream or a view.
//!
//! Records are fetched some at a time without the interpreter's lock and handed out one by one with it, because giving the lock
//! up for each would cost more than the record.

use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::task::Poll;

use crate::errors::OrRaise;
use crate::record::Record;

/// Records that are fetched at once.
const FETCHED_MAX: usize = 64;
/// Bytes of records that are fetched at once, unless one record has more.
const FETCHED_BYTES_MAX: usize = 256 << 10;
/// Trims that may come between the first record that is left and its being read.
const AGAIN_MAX: u32 = 1000;

/// The next record, `None` if there is none now, or will be none.
pub(crate) type Next = seawall::Result<Option<seawall::Record>>;

/// The next record if there is one now.
pub(crate) type Fetch<'a> = &'a mut dyn FnMut() -> Next;

/// Records that were fetched and not handed out yet.
#[derive(Default)]
pub(crate) struct Fetched {
    records: VecDeque<seawall::Record>,
    /// What ended the last fetch, after those records.
    failed: Option<seawall::Error>,
    /// Whether nothing will come after those records.
    ended: bool,
}

impl Fetched {
    /// The next record in memory.
    pub(crate) fn next(&mut self) -> Option<seawall::Result<seawall::Record>> {
        self.records.pop_front().map(Ok).or_else(|| self.failed.take().map(Err))
    }

    /// The same of a follower: `Ok(None)` when nothing will come.
    pub(crate) fn next_or_end(&mut self) -> Option<Next> {
        let next = self.next().map(|next| next.map(Some));
        next.or_else(|| self.ended.then_some(Ok(None)))
    }

    /// As [`Fetched::fill`], of what is polled; returns whether there is something in memory, or nothing will come.
    pub(crate) fn fill_ready(&mut self, poll: &mut dyn FnMut() -> Poll<Next>) -> bool {
        let mut ended = false;
        self.fill(&mut || match poll() {
            Poll::Pending => Ok(None),
            Poll::Ready(found) => {
                ended = matches!(found, Ok(None));
                found
            }
        });
        self.ended |= ended;
        self.is_ready()
    }

    /// Whether there is something in memory, or nothing will come.
    pub(crate) fn is_ready(&self) -> bool {
        self.ended || self.failed.is_some() || !self.records.is_empty()
    }

    /// Keeps what a wait came to, if anything, `Ok(None)` when nothing will come; and what `fetch` finds after a record.
    pub(crate) fn keep(&mut self, next: Option<Next>, fetch: Fetch<'_>) {
        match next {
            None => {}
            Some(Ok(Some(record))) => {
                self.records.push_back(record);
                self.fill(fetch);
            }
            Some(Ok(None)) => self.ended = true,
            Some(Err(error)) => self.failed = Some(error),
        }
    }

    /// Fetches what there is now, up to the bounds.
    pub(crate) fn fill(&mut self, fetch: Fetch<'_>) {
        let mut bytes = 0;
        while self.records.len() < FETCHED_MAX && bytes < FETCHED_BYTES_MAX && self.failed.is_none() {
            match fetch() {
                Ok(Some(record)) => {
                    bytes += record.payload.len();
                    self.records.push_back(record);
                }
                Ok(None) => break,
                Err(error) => self.failed = Some(error),
            }
        }
    }
}

/// A lock that a panic of another thread does not close.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What is read: the next record, if there is one now.
pub(crate) type Source = Box<dyn FnMut() -> Next + Send>;

/// The next record of what is read; there is none after a failure.
fn next(source: &mut Source) -> Next {
    let found = source();
    if found.is_err() {
        *source = Box::new(|| Ok(None));
    }
    found
}

/// Reads durable records in order, up to the durable end of the moment. An iterator; one that has ended goes on with
/// records that have become durable since, and one that failed stays at its end.
#[pyclass(module = "seawall", frozen)]
pub(crate) struct Reader {
    state: Mutex<(Fetched, Source)>,
}

impl Reader {
    /// Reads from a place that was `named`, or as [`opened`].
    pub(crate) fn open(
        named: bool,
        open: impl FnMut(bool) -> seawall::Result<Source>,
    ) -> seawall::Result<Self> {
        Ok(Self { state: Mutex::new(opened(named, open, next)?) })
    }
}

fn is_trimmed(error: &seawall::Error) -> bool {
    matches!(error, seawall::Error::Trimmed { .. } | seawall::Error::StreamTrimmed { .. })
}

/// What `open` opened, and unless a place was `named` what `look` found from the first record on that is left, whichever that is then:
/// again, which `open` is told, when a trim came between. No caller can avoid that who named no place.
pub(crate) fn opened<S>(
    named: bool,
    mut open: impl FnMut(bool) -> seawall::Result<S>,
    look: fn(&mut S) -> Next,
) -> seawall::Result<(Fetched, S)> {
    let mut attempt = |again| {
        let (mut fetched, mut source) = (Fetched::default(), open(again)?);
        if !named {
            fetched.fill(&mut || look(&mut source));
        }
        Ok((fetched, source))
    };
    let mut opened = attempt(false);
    for _ in 0..AGAIN_MAX {
        let trimmed = match &opened {
            _ if named => false,
            Ok((fetched, _)) => fetched.records.is_empty() && fetched.failed.as_ref().is_some_and(is_trimmed),
            Err(error) => is_trimmed(error),
        };
        if !trimmed {
            break;
        }
        opened = attempt(true);
    }
    opened
}

#[pymethods]
impl Reader {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        // Free in all but odd programs: then nothing is given up for a record that is in memory.
        let in_memory = self.state.try_lock().ok().and_then(|mut state| state.0.next());
        let found = in_memory.or_else(|| {
            py.detach(|| {
                let (fetched, source) = &mut *lock(&self.state);
                fetched.fill(&mut || next(source));
                fetched.next()
            })
        });
        Ok(found.transpose().or_raise(py)?.map(|record| Record::new(py, &record)))
    }
}
