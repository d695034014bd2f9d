//! Writes, commits and acknowledges one record at a time, to a journal or a log.
//!
//! Invariant: the order of calls here is the promise: room, write, sync, and only then the acknowledgement.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use seawall::{Log, Lsn, MethodChoice, Options};
use seawall_sys::buffer::Aligned;
use seawall_sys::clock::monotonic_ns;
use seawall_sys::{CommitHandle, Method, Target};

use crate::error::{Error, Result};
use crate::line::Line;
use crate::record::encode;
use crate::stream::{Stream, ends_transaction};
use crate::wire::lock;

/// The end of a turn: a time, or a request to stop.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) until_ns: u64,
    pub(crate) stop: &'a AtomicBool,
}

impl Turn<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || monotonic_ns() >= self.until_ns
    }
}

/// Writes one stream.
pub(crate) trait Writer {
    /// Writes for one turn. The first failure ends it: nothing is acknowledged after it.
    fn take_turn(&mut self, line: &Line, turn: Turn<'_>) -> Result<()>;

    fn close(self: Box<Self>) -> Result<()>;
}

/// Writes a journal by one commit method.
pub(crate) struct JournalWriter {
    commit: Box<dyn CommitHandle>,
    stream: Stream,
    run: u64,
    buffer: Aligned,
    next: u64,
}

impl JournalWriter {
    pub(crate) fn open(method: &'static Method, path: &Path, run: u64, stream: Stream) -> Result<Self> {
        let write_bytes = stream.record_bytes as usize;
        let target = Target { path: path.to_owned(), journal_bytes: stream.journal_bytes, write_bytes };
        let commit = seawall_sys::open(method, &target, None)
            .map_err(|error| Error::Request(format!("{}: {error}", method.id)))?;
        Ok(Self { commit, stream, run, buffer: Aligned::zeroed(write_bytes), next: 0 })
    }
}

impl Writer for JournalWriter {
    fn take_turn(&mut self, line: &Line, turn: Turn<'_>) -> Result<()> {
        while !turn.is_over() {
            line.room(self.stream.number, self.next)?;
            encode(self.stream.name(self.run, self.next), self.buffer.as_mut_slice());
            let slot = self.next % self.stream.slots();
            self.commit.write(slot * u64::from(self.stream.record_bytes), self.buffer.as_slice())?;
            self.commit.sync()?;
            self.next += 1;
            line.ack(self.stream.number, self.next)?;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Writes a Seawall log with several committers.
pub(crate) struct LogWriter {
    log: Log,
    stream: Stream,
    run: u64,
    committers: usize,
    place: Mutex<Progress>,
}

/// How far the log was written.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    next: u64,
    trimmed: u64,
}

/// The options of the log that a stream is.
pub(crate) fn log_options(stream: &Stream) -> Options {
    let segment_bytes = (stream.journal_bytes / 4).clamp(64 << 10, 1 << 30) & !4095;
    let options = Options::default().segment_bytes(segment_bytes);
    match stream.method.split_once(':') {
        Some((_, id)) => options.method(MethodChoice::Named(id.to_owned())),
        None => options,
    }
}

impl LogWriter {
    pub(crate) fn open(dir: &Path, run: u64, stream: Stream, committers: usize) -> Result<Self> {
        let log = Log::open(dir, log_options(&stream))?;
        Ok(Self { log, stream, run, committers: committers.max(1), place: Mutex::default() })
    }

    /// Appends the next transaction; returns the number of the record after it, and its end.
    fn append(&self, line: &Line) -> Result<(u64, Lsn)> {
        let mut place = lock(&self.place);
        let first = place.next;
        let mut end = first + 1;
        while !ends_transaction(end - 1) {
            end += 1;
        }
        line.room(self.stream.number, end - 1)?;
        self.trim(line, &mut place)?;
        let lsn = self.log.transaction::<Error>(|tx| {
            (first..end).try_for_each(|sequence| Ok(tx.append(&self.stream.log_record(self.run, sequence))?))
        })?;
        if lsn.get() != self.stream.lsn(end) {
            // The judge computes where every record lies.
            let what = format!("record {end} of the log lies at LSN {lsn}, not {}", self.stream.lsn(end));
            return Err(Error::Request(what));
        }
        place.next = end;
        Ok((end, lsn))
    }

    fn trim(&self, line: &Line, place: &mut Progress) -> Result<()> {
        let kept = self.stream.lsn(place.next) - self.stream.lsn(place.trimmed);
        if kept < self.stream.journal_bytes {
            return Ok(());
        }
        let target = self.stream.sequence_at(self.stream.lsn(place.next) - self.stream.journal_bytes / 2);
        let mut target = target.min(line.acknowledged(self.stream.number));
        while target > 0 && !ends_transaction(target - 1) {
            target -= 1;
        }
        if target > place.trimmed {
            line.trim(self.stream.number, target)?;
            self.log.trim(Lsn::new(self.stream.lsn(target)))?;
            place.trimmed = target;
        }
        Ok(())
    }
}

impl Writer for LogWriter {
    fn take_turn(&mut self, line: &Line, turn: Turn<'_>) -> Result<()> {
        let commits = || {
            while !turn.is_over() {
                let (end, lsn) = self.append(line)?;
                self.log.commit(lsn)?;
                line.ack(self.stream.number, end)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let committers: Vec<_> = (0..self.committers).map(|_| scope.spawn(commits)).collect();
            let panicked = |_| Err(Error::Request("a committer ended without a word".to_owned()));
            // All of them have ended before the first failure is returned.
            let ended: Vec<Result<()>> =
                committers.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect();
            ended.into_iter().collect()
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.log.close()?)
    }
}
