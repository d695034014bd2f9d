//! Segment writers: the open file handles of each segment, through which batches are written and synced.
//!
//! Each segment that may be written has as many *writers* as batches may be in flight. A writer is the segment's file,
//! opened by the selected row of the method table. Each writer opens it again, because the kernel reports a failed
//! write-back once for each open file: on a shared one a second sync could succeed over data that the first one lost. A
//! writer runs one job at a time; the core never has more jobs in flight than there are writers. The rings of the
//! `io_uring` engine are shared by the writers of all segments and set up once, when the log is opened. Relaxed commits
//! have writers of their own, by the rows that `method/relaxed.rs` selects, and one more writer syncs what they wrote.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use seawall_sys::Method;
use seawall_sys::directory::Directory;
use seawall_sys::engine::EngineContext;
use seawall_sys::store::{Access, StoreFile};
use seawall_sys::{BatchWrite, CommitHandle, Target};

use crate::commit::seal::{Job, SegmentWrite};
use crate::error::{Error, Result, from_open, from_system};
use crate::format::segment_name;
use crate::method::ack_level::AckLevel;
use crate::method::relaxed::Rows;

use crate::commit::sync::{Mutex, lock};

type Idle = Mutex<Vec<Box<dyn CommitHandle>>>;

/// One copy of a segment header, and the other one with a batch after it.
const PIECES_MAX: usize = 2;

/// Puts the writes of a job in order; returns how many there are.
fn lay_out<'a>(job: &'a Job, pieces: &mut [BatchWrite<'a>; PIECES_MAX]) -> usize {
    let mut count = 0;
    for (write, piece) in job.writes().zip(pieces) {
        let SegmentWrite { offset, bytes, buffer } = write;
        *piece = BatchWrite { offset, bytes, buffer, durable: true };
        count += 1;
    }
    count
}

/// A failed write or sync of a batch. A full disk is reported as an I/O error, because [`Error::DiskFull`] promises that
/// nothing was written.
fn failed(error: &seawall_sys::Error) -> Error {
    match from_system(error) {
        Error::DiskFull { path, source } => Error::Io { operation: error.operation(), path, source },
        other => other,
    }
}

/// One segment, open by every row of the log; the idle writers.
struct OpenSegment {
    own: Idle,
    /// By level.
    relaxed: [Idle; 2],
    syncing: Idle,
}

impl OpenSegment {
    fn of(&self, level: AckLevel, own: AckLevel) -> &Idle {
        match self.relaxed.get(level as usize) {
            Some(relaxed) if level < own => relaxed,
            _ => &self.own,
        }
    }
}

/// The writers of every segment that may be written.
pub(crate) struct SegmentWriters {
    dir: Arc<Directory>,
    engine: EngineContext,
    pub(crate) rows: Rows,
    count: usize,
    write_bytes: usize,
    segments: Mutex<BTreeMap<u64, Arc<OpenSegment>>>,
    #[cfg(feature = "simulation")]
    pub(crate) faults: Option<Arc<crate::storage::faults::Faults>>,
}

impl std::fmt::Debug for SegmentWriters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentWriters")
            .field("engine", &self.engine)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl SegmentWriters {
    /// Without a segment yet; each will have `count` writers on `engine` and as many by each relaxed row.
    pub(crate) fn new(
        dir: Arc<Directory>,
        engine: EngineContext,
        rows: Rows,
        count: usize,
        write_bytes: usize,
    ) -> Self {
        Self {
            dir,
            engine,
            rows,
            count,
            write_bytes,
            segments: Mutex::new(BTreeMap::new()),
            #[cfg(feature = "simulation")]
            faults: None,
        }
    }

    /// The directory of the log.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Opens the writers of a segment of `bytes` bytes, which are written from `from` on. However the file came to be, every block
    /// there is written when this returns: what a method promises counts on that.
    pub(crate) fn open(&self, number: u64, (from, bytes): (u64, u64)) -> Result<()> {
        let path = self.dir.path().join(segment_name(number));
        #[cfg(feature = "simulation")]
        if let Some(Err(source)) = self.faults.as_ref().map(|faults| faults.open()) {
            return Err(Error::io("open", path, source));
        }
        let file = StoreFile::open_in(&self.dir, &segment_name(number), Access::Cached);
        let file = file.map_err(|source| Error::io("open", &path, source))?;
        let filled = file.fill_holes(from..bytes).map_err(|error| from_system(&error))?;
        drop(file);
        if filled > 0 {
            tracing::info!(segment = number, bytes = filled, "holes of a prepared segment were filled");
        }
        let target = Target { path: path.clone(), journal_bytes: bytes, write_bytes: self.write_bytes };
        let own = |writer| {
            self.engine
                .open(&self.dir, writer, &target)
                .map_err(|error| from_open(error, self.engine.method(), &path))
        };
        let own: Idle = (0..self.count).map(own).collect::<Result<_>>().map(Mutex::new)?;
        let writers = |row: Option<&'static Method>, count: usize| -> Result<Idle> {
            let Some(row) = row else { return Ok(Mutex::default()) };
            let writer = |_| {
                seawall_sys::open(row, &target, Some(&self.dir)).map_err(|error| from_open(error, row, &path))
            };
            (0..count).map(writer).collect::<Result<_>>().map(Mutex::new)
        };
        let Rows { relaxed: [process, system], syncing, .. } = self.rows;
        // A row that serves both levels is served from the writers of the higher one.
        let process = process.filter(|row| system != Some(*row));
        let relaxes = process.is_some() || system.is_some() || self.rows.own() != AckLevel::Full;
        let open = OpenSegment {
            own,
            relaxed: [writers(process, self.count)?, writers(system, self.count)?],
            syncing: writers(syncing.filter(|_| relaxes), 1)?,
        };
        lock(&self.segments).insert(number, Arc::new(open));
        Ok(())
    }

    /// Gives up what the engine has registered of the buffer with this number, which no batch uses; returns whether its memory
    /// may change now.
    pub(crate) fn forget(&self, number: u16) -> bool {
        self.engine.forget(number)
    }

    /// Closes the writers of every segment before `number`: nothing is written there any more.
    pub(crate) fn close_before(&self, number: u64) {
        let mut segments = lock(&self.segments);
        let kept = segments.split_off(&number);
        let closed = std::mem::replace(&mut *segments, kept);
        drop(segments);
        drop(closed);
    }

    /// Closes the writers of one segment, because its file is about to be replaced: some systems (Windows) refuse to
    /// replace a file that is open.
    pub(crate) fn close(&self, number: u64) {
        let closed = lock(&self.segments).remove(&number);
        drop(closed);
    }

    /// Executes a job: when this returns, the batch has reached its level.
    pub(crate) fn write(&self, job: &Job) -> Result<()> {
        if job.sync_first.is_some() {
            self.sync_first(job)?;
        }
        if job.is_sync_only() {
            return Ok(());
        }
        let writers = lock(&self.segments).get(&job.segment).map(Arc::clone);
        let Some(writers) = writers else { return Err(self.not_open(job.segment)) };
        #[cfg(feature = "simulation")]
        if let Some(faults) = &self.faults {
            let path = self.dir.path().join(segment_name(job.segment));
            faults.commit().map_err(|error| failed(&seawall_sys::Error::new("write", path, error)))?;
        }
        let mut pieces = [BatchWrite::default(); PIECES_MAX];
        let count = lay_out(job, &mut pieces);
        let own = self.rows.own();
        if job.level > own {
            // In full, in a log of a lower class: by the row that syncs. After an error neither is used again.
            let mut syncing = lock(&writers.syncing);
            let writer = syncing.first_mut().ok_or_else(|| self.not_open(job.segment))?;
            let written = writer.write_batch(&pieces[..count]).map_err(|error| failed(&error));
            if written.is_err() {
                syncing.clear();
            }
            return written;
        }
        let writer = lock(writers.of(job.level, own)).pop();
        let mut writer = writer.ok_or_else(|| self.not_open(job.segment))?;
        writer.write_batch(&pieces[..count]).map_err(|error| failed(&error))?;
        lock(writers.of(job.level, own)).push(writer);
        Ok(())
    }

    fn not_open(&self, segment: u64) -> Error {
        let path = self.dir.path().join(segment_name(segment));
        Error::io("write", path, std::io::Error::other("the segment is not open for writing"))
    }

    /// Syncs what relaxed batches wrote before, unless the job's own sync will do so.
    fn sync_first(&self, job: &Job) -> Result<()> {
        let Some(segment) = job.needs_sync_first(self.rows.full_syncs_debt) else { return Ok(()) };
        #[cfg(feature = "simulation")]
        if let Some(faults) = &self.faults {
            let path = self.dir.path().join(segment_name(segment));
            faults.debt_sync().map_err(|source| Error::io("sync", path, source))?;
        }
        let writers = lock(&self.segments).get(&segment).map(Arc::clone);
        let Some(writers) = writers else { return Err(self.not_open(segment)) };
        // There is one such writer: a second job waits for the first and syncs again, because more may have been written.
        let mut syncing = lock(&writers.syncing);
        let writer = syncing.first_mut().ok_or_else(|| self.not_open(segment))?;
        let synced = Job::first_sync(writer.sync()).map_err(|error| from_system(&error));
        if synced.is_err() {
            // The system reports a failed write-back once: the next sync would succeed over lost data.
            syncing.clear();
        }
        synced
    }
}
