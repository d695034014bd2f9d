//! The log itself.

use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use seawall::{Error, LeftInMemory, Lsn, MethodOrigin, ProcessCrashCommits, Summary};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::data::{COPIED_HELD_MAX, Data};
use crate::errors::{OrRaise, exception};
use crate::event_loop::{EventLoop, EventLoops};
use crate::follower::{self, Follower};
use crate::options::options;
use crate::pin::Pin;
use crate::reader::{self, Reader, lock};
use crate::record::{Append, Record};
use crate::repair::{backed_up, lost};
use crate::results::{Returned, class_of, made, seconds, tail_name};
use crate::stream::{Stream, stream_id};
use crate::transaction::Transaction;
use crate::wait;

/// The latest time that can be distinguished from later ones, in seconds since 1970: every system has it.
const TIME_MAX: f64 = 8e9;

/// A transaction log in one directory, opened for writing: creates or recovers it. A context manager that closes it, and an
/// iterable of its records.
///
/// Keyword arguments set its options, each ``None`` for its default: ``create``, ``durability``, ``segment_bytes``, ``block_bytes``,
/// ``batch_bytes``, ``memory_bytes``, ``crash_memory_bytes``, ``record_bytes_max``, ``in_flight_max``, ``idle_mark``, ``spares``,
/// ``retain_bytes``, ``retain_seconds``, ``disk_bytes_max``, ``on_full``, ``method``, ``engine``, ``permissions``,
/// ``network_file_system``, ``stall_threshold``. Times are seconds.
///
/// Threads share it. Everything that waits gives up the interpreter's lock. A log that is dropped without being closed commits
/// nothing: what was appended and not committed is gone. A process that was forked off must not use it.
#[pyclass(module = "seawall", frozen, weakref)]
pub(crate) struct Log {
    path: PathBuf,
    state: Mutex<State>,
    event_loops: EventLoops,
}

/// What is left of a log that was closed.
#[derive(Clone, Copy)]
struct Ends {
    first: Lsn,
    appended: Lsn,
    durable: Lsn,
}

impl Ends {
    fn of(log: &seawall::Log) -> Self {
        Self { first: log.first_lsn(), appended: log.appended_lsn(), durable: log.durable_lsn() }
    }
}

enum State {
    Open(Arc<seawall::Log>),
    Closed(Ends),
}

impl Log {
    /// The log, unless it was closed.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<Arc<seawall::Log>> {
        match &*lock(&self.state) {
            State::Open(log) => Ok(Arc::clone(log)),
            State::Closed(_) => Err(exception(py, &Error::Closed)),
        }
    }

    /// Does `act` with the log without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&seawall::Log) -> seawall::Result<T> + Send,
    ) -> PyResult<T> {
        let log = self.open(py)?;
        py.detach(|| act(&log)).or_raise(py)
    }

    pub(crate) fn event_loops(&self) -> &EventLoops {
        &self.event_loops
    }

    /// Appends a record, and waits for room if there is none.
    fn append_record(&self, py: Python<'_>, record: &[u8]) -> PyResult<Append> {
        let log = self.open(py)?;
        let tried = if record.len() <= COPIED_HELD_MAX {
            log.append_no_wait(record)
        } else {
            py.detach(|| log.append_no_wait(record))
        };
        match tried {
            Err(Error::WouldBlock) => {
                let appended = wait::ready(py, None, log.append_async(record))?;
                // Without a time limit there is always a result.
                appended.unwrap_or(Err(Error::WouldBlock)).or_raise(py).map(Append::from)
            }
            tried => tried.or_raise(py).map(Append::from),
        }
    }

    /// The LSN that was given, or the end of what was appended.
    fn end_of(log: &seawall::Log, lsn: Option<u64>) -> Lsn {
        lsn.map_or_else(|| log.appended_lsn(), Lsn::new)
    }

    /// Takes the log, unless it was closed.
    fn take(&self) -> Option<Arc<seawall::Log>> {
        let mut state = lock(&self.state);
        let State::Open(log) = &*state else { return None };
        // Without a lock of the log, which a process that was forked off might never get.
        let ends = Ends { first: Lsn::ZERO, appended: Lsn::ZERO, durable: log.durable_lsn() };
        let State::Open(log) = std::mem::replace(&mut *state, State::Closed(ends)) else { return None };
        Some(log)
    }

    /// Its LSNs, those at its end if it was closed.
    fn ends(&self) -> Ends {
        match &*lock(&self.state) {
            State::Open(log) => Ends::of(log),
            State::Closed(ends) => *ends,
        }
    }
}

fn summary<'py>(py: Python<'py>, summary: &Summary) -> Returned<'py> {
    made!(py, "Summary", { ..summary { count, p50, p99, p999, max } })
}

fn origin(origin: MethodOrigin) -> &'static str {
    match origin {
        MethodOrigin::Named => "named",
        MethodOrigin::Remembered => "remembered",
        MethodOrigin::Shared => "shared",
        MethodOrigin::Probed => "probed",
        _ => "unknown",
    }
}

#[pymethods]
impl Log {
    #[new]
    #[pyo3(signature = (path, **log_options))]
    fn new(py: Python<'_>, path: PathBuf, log_options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = options(log_options)?;
        let log = py.detach(|| seawall::Log::open(&path, options)).or_raise(py)?;
        let path = log.dir().to_path_buf();
        Ok(Self { path, state: Mutex::new(State::Open(Arc::new(log))), event_loops: Mutex::default() })
    }

    /// Copies a record into memory and gives it its place. It is not durable yet: ``commit`` its ``end``. Waits only when the memory
    /// is full or no prepared segment is left; a task of asyncio calls ``append_async``.
    ///
    /// Raises ``TooLong``, ``DiskFull`` (nothing was written and the log stays open), ``DiskCap``, ``Failed``, ``Closed``.
    fn append(&self, py: Python<'_>, record: Data) -> PyResult<Append> {
        self.append_record(py, &record)
    }

    /// The append that never waits: raises ``WouldBlock`` where ``append`` would wait, where another thread is in the log just now, and
    /// for a record that fills a batch of its own.
    fn try_append(&self, py: Python<'_>, record: Data) -> PyResult<Append> {
        self.open(py)?.try_append(&record).or_raise(py).map(Append::from)
    }

    /// As ``append``, but raises ``WouldBlock`` only where that would wait, so that a later call finds room.
    fn _append_no_wait(&self, py: Python<'_>, record: Data) -> PyResult<Append> {
        self.with(py, |log| log.append_no_wait(&record)).map(Append::from)
    }

    /// Appends a record and returns when it is durable. Threads that do so at once share a write.
    fn append_commit(&self, py: Python<'_>, record: Data) -> PyResult<Append> {
        let log = self.open(py)?;
        let done = py.detach(|| match log.append_no_wait(&record) {
            Err(Error::WouldBlock) => None,
            appended => Some(appended.and_then(|placed| log.commit(placed.end).map(|()| placed))),
        });
        if let Some(done) = done {
            return done.or_raise(py).map(Append::from);
        }
        let appended = self.append_record(py, &record)?;
        py.detach(|| log.commit(Lsn::new(appended.end))).or_raise(py).map(|()| appended)
    }

    /// Returns when everything before ``lsn`` is durable, or everything that was appended.
    ///
    /// With ``timeout``, in seconds, it raises ``TimedOut`` when the time is over: nothing is cancelled. With ``durability`` it
    /// returns when the records outlive that class only, which is cheaper: ``'process-crash'`` or ``'system-crash'``.
    #[pyo3(signature = (lsn=None, *, timeout=None, durability=None))]
    fn commit(
        &self,
        py: Python<'_>,
        lsn: Option<u64>,
        timeout: Option<f64>,
        durability: Option<&str>,
    ) -> PyResult<()> {
        let class = durability.map(class_of).transpose()?;
        let log = match self.open(py) {
            // What is durable stays so.
            Err(_) if lsn.is_some_and(|lsn| Lsn::new(lsn) <= self.ends().durable) => return Ok(()),
            log => log?,
        };
        let lsn = Self::end_of(&log, lsn);
        let Some(timeout) = timeout else {
            let done = py.detach(|| class.map_or_else(|| log.commit(lsn), |class| log.commit_as(lsn, class)));
            return done.or_raise(py);
        };
        let timeout = seconds("timeout", timeout)?;
        let commit = class.map_or_else(|| Ok(log.commit_async(lsn)), |class| log.commit_async_as(lsn, class));
        let done = wait::ready(py, Some(timeout), commit.or_raise(py)?)?;
        done.unwrap_or(Err(Error::TimedOut { lsn, timeout })).or_raise(py).map(drop)
    }

    /// A future of the running event loop that gives the LSN when everything before it is durable; see ``commit``. The write is
    /// in flight or will be, whether the future is awaited or not, and cancelling it harms nothing.
    #[pyo3(signature = (lsn=None, *, durability=None))]
    fn commit_async<'py>(
        &self,
        py: Python<'py>,
        lsn: Option<u64>,
        durability: Option<&str>,
    ) -> Returned<'py> {
        let log = self.open(py)?;
        let class = durability.map(class_of).transpose()?;
        let lsn = Self::end_of(&log, lsn);
        EventLoop::running(py, &self.event_loops, Some(&log), class)?.get().commit(py, lsn, None)
    }

    /// Appends a record; the future gives its ``Append`` when it is durable. Never blocks the event loop: where ``append``
    /// would wait the record is appended later, and others may come before it.
    fn append_commit_async<'py>(this: &Bound<'py, Self>, record: &Bound<'py, PyAny>) -> Returned<'py> {
        let py = this.py();
        let data: Data = record.extract()?;
        let log = this.get().open(py)?;
        match log.append_no_wait(&data) {
            Ok(placed) => {
                let end = placed.end;
                let value = Py::new(py, Append::from(placed))?.into_any();
                let event_loop = EventLoop::running(py, this.get().event_loops(), Some(&log), None)?;
                event_loop.get().commit(py, end, Some(value))
            }
            Err(Error::WouldBlock) => {
                py.import("seawall._tasks")?.call_method1("append_commit", (this, this, record))
            }
            Err(error) => Err(exception(py, &error)),
        }
    }

    /// As ``append``; the future gives its ``Append`` when there was room for it. Never blocks the event loop.
    fn append_async<'py>(this: &Bound<'py, Self>, record: &Bound<'py, PyAny>) -> Returned<'py> {
        this.py().import("seawall._tasks")?.call_method1("append", (this, this, record))
    }

    /// Records that are appended all or none, also to streams: ``with log.transaction() as tx: tx.append(b'...')``. They are
    /// appended when the block ends; ``log.commit(tx.lsn)`` makes them durable.
    fn transaction(this: &Bound<'_, Self>) -> Transaction {
        Transaction::new(this.clone().unbind())
    }

    /// Reads durable records from the first one at or after ``lsn``, or from the first that is left; also while the log is
    /// written to.
    ///
    /// Raises ``Trimmed``, ``BeyondEnd``, ``Corrupt``.
    #[pyo3(signature = (lsn=None))]
    fn read(&self, py: Python<'_>, lsn: Option<u64>) -> PyResult<Reader> {
        self.with(py, |log| {
            let open = |_| {
                let mut reader = log.read(lsn.map_or_else(|| log.first_lsn(), Lsn::new))?;
                Ok(Box::new(move || reader.next_record()) as reader::Source)
            };
            Reader::open(lsn.is_some(), open)
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Reader> {
        self.read(py, None)
    }

    /// As ``read``, but waits for more at the end: an iterator and an asynchronous one.
    #[pyo3(signature = (lsn=None))]
    fn follow(this: &Bound<'_, Self>, py: Python<'_>, lsn: Option<u64>) -> PyResult<Follower> {
        let log = this.get().open(py)?;
        let owner = Some((this.clone().unbind(), Arc::clone(&log)));
        let open = |_| {
            let follower = log.follow(lsn.map_or_else(|| log.first_lsn(), Lsn::new))?;
            Ok(follower::Source::Log(Box::new(follower)))
        };
        py.detach(|| Follower::open(lsn.is_some(), open, owner)).or_raise(py)
    }

    /// Reads the durable record that starts at ``lsn``: where the record before it ended.
    ///
    /// Raises ``NoRecord`` if none starts there, ``Trimmed``, ``BeyondEnd`` if it is not durable.
    fn read_at(&self, py: Python<'_>, lsn: u64) -> PyResult<Record> {
        self.with(py, |log| log.read_at(Lsn::new(lsn))).map(|record| Record::new(py, &record))
    }

    /// Reads the durable record that ends at ``end``, ``None`` at the first LSN that is left; so, one after the other, the log
    /// backwards.
    fn read_before(&self, py: Python<'_>, end: u64) -> PyResult<Option<Record>> {
        let record = self.with(py, |log| log.read_before(Lsn::new(end)))?;
        Ok(record.map(|record| Record::new(py, &record)))
    }

    /// The LSN of the first record that was appended at or after ``time``, a ``datetime`` or seconds since 1970, in steps of a batch.
    fn lsn_at(&self, py: Python<'_>, time: &Bound<'_, PyAny>) -> PyResult<u64> {
        let since: f64 = match time.getattr("timestamp") {
            Ok(timestamp) => timestamp.call0()?.extract()?,
            Err(_) => time.extract()?,
        };
        // A time before 1970 is that of the first record, one past what the system can tell that of the end.
        let since = if since < 0.0 { Duration::ZERO } else { seconds("time", since.min(TIME_MAX))? };
        self.with(py, |log| log.lsn_at(SystemTime::UNIX_EPOCH + since)).map(Lsn::get)
    }

    /// One stream of the log, a number below 2**24: it is there as soon as a record is appended to it.
    fn stream(this: &Bound<'_, Self>, stream: u32) -> PyResult<Stream> {
        Ok(Stream::new(this.clone().unbind(), stream_id(stream)?))
    }

    /// The numbers of the streams that the log has, in order.
    fn streams(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        let log = self.open(py)?;
        Ok(py.detach(|| log.streams()).into_iter().map(seawall::StreamId::get).collect())
    }

    /// Trims everything before ``lsn``, as far as it is durable and no pin holds it; returns the first LSN that is left.
    fn trim(&self, py: Python<'_>, lsn: u64) -> PyResult<u64> {
        self.with(py, |log| log.trim(Lsn::new(lsn))).map(Lsn::get)
    }

    /// Cuts off the tail: every record that belongs to no stream and starts at or after ``lsn``. Returns the LSN to ``commit`` for
    /// that to be durable. LSNs are not used twice.
    fn truncate_after(&self, py: Python<'_>, lsn: u64) -> PyResult<u64> {
        self.with(py, |log| log.truncate_after(Lsn::new(lsn))).map(Lsn::get)
    }

    /// Holds everything from ``lsn`` on, which must not be trimmed yet, until the pin is released.
    fn pin(&self, py: Python<'_>, lsn: u64) -> PyResult<Pin> {
        self.with(py, |log| log.pin(Lsn::new(lsn))).map(Pin::new)
    }

    /// Copies everything that is durable now into the folder ``target``, which opens as the same log with the same LSNs.
    fn backup<'py>(&self, py: Python<'py>, target: PathBuf) -> Returned<'py> {
        backed_up(py, &self.with(py, |log| log.backup(target))?)
    }

    /// The absolute path of the log's directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        matches!(&*lock(&self.state), State::Closed(_))
    }

    /// The end of what is durable.
    #[getter]
    fn durable_lsn(&self) -> u64 {
        self.ends().durable.get()
    }

    /// The end of what was appended.
    #[getter]
    fn appended_lsn(&self) -> u64 {
        self.ends().appended.get()
    }

    /// The first LSN that is left.
    #[getter]
    fn first_lsn(&self) -> u64 {
        self.ends().first.get()
    }

    /// The end of what outlives ``durability``: never before ``durable_lsn``.
    fn lsn_surviving(&self, py: Python<'_>, durability: &str) -> PyResult<u64> {
        let class = class_of(durability)?;
        Ok(self.open(py)?.lsn_surviving(class).get())
    }

    /// What opening found.
    #[getter]
    fn opened<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let log = self.open(py)?;
        let opened = log.opened();
        let (left, taken) = match opened.left_in_memory {
            LeftInMemory::Nothing => ("nothing", 0),
            LeftInMemory::Taken { records } => ("taken", records),
            _ => ("worthless", 0),
        };
        made!(py, "Opened", {
            tail: tail_name(opened.tail),
            lost: lost(opened.tail),
            first: opened.first.get(),
            end: opened.end.get(),
            method_origin: origin(opened.method_origin),
            engine_refused: opened.engine_refused.as_deref(),
            channel_refused: opened.channel_refused.as_deref(),
            foreign_files: &opened.foreign_files,
            left_in_memory: left,
            taken_from_memory: taken,
            evidence: opened.evidence.name(),
            evidence_because: opened.evidence.why(),
            ..opened { segments, epoch, method, engine }
        })
    }

    /// What the log has done since it was opened.
    fn stats<'py>(&self, py: Python<'py>) -> Returned<'py> {
        let log = self.open(py)?;
        let stats = py.detach(|| log.stats());
        let process_crash = match &stats.process_crash {
            ProcessCrashCommits::NoneYet => "none yet",
            ProcessCrashCommits::InMemory => "in memory",
            // Also what a later version of the log does: not in memory, so written.
            _ => "written",
        };
        made!(py, "Stats", {
            stalled_for: stats.stalled_for.map(|time| time.as_secs_f64()),
            appended: stats.appended.get(),
            durable: stats.durable.get(),
            first: stats.first.get(),
            pinned: stats.pinned.map(Lsn::get),
            engine_refused: stats.engine_refused.as_deref(),
            process_crash: process_crash,
            write_ns: summary(py, &stats.write_ns)?,
            batch_records: summary(py, &stats.batch_records)?,
            ..stats {
                records, batches, relaxed_batches, debt_syncs, bytes_written, segments_started, segments_filled, stalls,
                stalls_seen, follower_wakes, segments, streams, stream_bytes, stream_memory_bytes, rewritten_records,
                rewritten_bytes, rewrite_stalls, disk_bytes, method, engine,
            }
        })
    }

    /// Commits everything, writes the mark of a clean end and releases the log. Does nothing the second time. Futures that wait get
    /// their results, followers end.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(log) = self.take() else { return Ok(()) };
        let mut close = log.close_async();
        let closed = wait::ready(py, None, &mut close);
        if !matches!(closed, Ok(Some(Err(Error::Forked))))
            && let State::Closed(ends) = &mut *lock(&self.state)
        {
            *ends = Ends::of(&log);
        }
        EventLoop::release(py, &self.event_loops);
        py.detach(|| drop((close, log)));
        closed?.unwrap_or(Ok(())).or_raise(py)
    }

    /// As ``close``, awaited: never blocks the event loop.
    fn close_async<'py>(this: &Bound<'py, Self>, py: Python<'py>) -> Returned<'py> {
        py.import("seawall._tasks")?.call_method1("close", (this,))
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __aenter__<'py>(this: &Bound<'py, Self>, py: Python<'py>) -> Returned<'py> {
        py.import("seawall._tasks")?.call_method1("itself", (this,))
    }

    #[pyo3(signature = (*_raised))]
    fn __aexit__<'py>(this: &Bound<'py, Self>, _raised: &Bound<'py, PyTuple>) -> Returned<'py> {
        Self::close_async(this, this.py())
    }

    fn __repr__(&self) -> String {
        match &*lock(&self.state) {
            State::Open(log) => format!("Log('{}', durable={})", self.path.display(), log.durable_lsn()),
            State::Closed(_) => format!("Log('{}', closed)", self.path.display()),
        }
    }
}

/// What was appended and not committed is gone, and threads of the log are waited for, without the interpreter's lock.
impl Drop for Log {
    fn drop(&mut self) {
        let Some(log) = self.take() else { return };
        let mut log = Some(log);
        // `None` when the interpreter has ended: then nothing waits for its lock.
        Python::try_attach(|py| {
            let words = format!("log in {} was dropped and not closed", self.path.display());
            let words = std::ffi::CString::new(words).unwrap_or_default();
            let category = py.get_type::<PyResourceWarning>();
            if let Err(error) = PyErr::warn(py, &category, &words, 1) {
                error.write_unraisable(py, None);
            }
            EventLoop::release(py, &self.event_loops);
            let log = log.take();
            py.detach(|| drop(log));
        });
    }
}
