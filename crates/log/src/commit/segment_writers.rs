//! Segment writers: the open file handles of each segment, through which batches are written and synced.
//!
//! Each segment that may be written has as many *lanes* as batches may be in flight: a lane is the file, opened by
//! the chosen row of the method table, once for each lane, because the kernel reports a failed write-back once for
//! each open file: on a shared one a second sync could succeed over data that the first one lost. A lane runs one job
//! at a time and is idle otherwise; the core never has more jobs in flight than there are lanes. The rings of the
//! `io_uring` engine are shared by the lanes of all segments and set up once, when the log is opened. Relaxed commits
//! have lanes of their own, by the rows that `method/relaxed.rs` selects, and one more lane syncs what they wrote.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use seawall_sys::Method;
use seawall_sys::directory::Directory;
use seawall_sys::engine::Works;
use seawall_sys::{Commit, Piece, Target};

use crate::commit::seal::{Job, Write};
use crate::commit::sync_debt::Grade;
use crate::error::{Error, Result};
use crate::format::segment_name;
use crate::method::relaxed::Rows;
use crate::method::select::{from_open, from_system};

use crate::commit::sync::{Mutex, lock};

type Idle = Mutex<Vec<Box<dyn Commit>>>;

/// One copy of a segment header, and the other one with a batch behind it.
const PIECES_MAX: usize = 2;

/// Puts the writes of a job in order; returns how many there are.
fn lay_out<'a>(job: &'a Job, pieces: &mut [Piece<'a>; PIECES_MAX]) -> usize {
    let mut count = 0;
    for (write, piece) in job.writes().zip(pieces) {
        let Write { offset, bytes, buffer } = write;
        *piece = Piece { offset, bytes, buffer, durable: true };
        count += 1;
    }
    count
}

/// A failed write or sync of a batch. A full disk, which preparing a segment should have met, is no promise here that
/// nothing was written.
fn failed(error: &seawall_sys::Error) -> Error {
    match from_system(error) {
        Error::DiskFull { path, source } => Error::Io { operation: error.operation(), path, source },
        other => other,
    }
}

/// One segment, open by every row of the log.
struct Open {
    own: Idle,
    /// By grade.
    weaker: [Idle; 2],
    settling: Idle,
}

impl Open {
    fn of(&self, grade: Grade, own: Grade) -> &Idle {
        match self.weaker.get(grade as usize) {
            Some(weaker) if grade < own => weaker,
            _ => &self.own,
        }
    }
}

/// The lanes of every segment that may be written.
pub(crate) struct Lanes {
    dir: Arc<Directory>,
    works: Works,
    rows: Rows,
    count: usize,
    write_bytes: usize,
    segments: Mutex<BTreeMap<u64, Arc<Open>>>,
    #[cfg(feature = "simulation")]
    pub(crate) faults: Option<Arc<crate::storage::faults::Faults>>,
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes")
            .field("works", &self.works)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Lanes {
    /// No segment yet; for each, `count` lanes on the engine `works` and as many by the rows beside its own.
    pub(crate) fn new(
        dir: Arc<Directory>,
        works: Works,
        rows: Rows,
        count: usize,
        write_bytes: usize,
    ) -> Self {
        Self {
            dir,
            works,
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

    /// Opens the lanes of a segment of `bytes` bytes.
    pub(crate) fn open(&self, number: u64, bytes: u64) -> Result<()> {
        let path = self.dir.path().join(segment_name(number));
        #[cfg(feature = "simulation")]
        if let Some(Err(source)) = self.faults.as_ref().map(|faults| faults.open()) {
            return Err(Error::io("open", path, source));
        }
        let target = Target { path: path.clone(), journal_bytes: bytes, write_bytes: self.write_bytes };
        let own = |lane| {
            self.works
                .open_in(&self.dir, lane, &target)
                .map_err(|error| from_open(error, self.works.method(), &path))
        };
        let own: Idle = (0..self.count).map(own).collect::<Result<_>>().map(Mutex::new)?;
        let lanes = |row: Option<&'static Method>, count: usize| -> Result<Idle> {
            let Some(row) = row else { return Ok(Mutex::default()) };
            let lane = |_| {
                seawall_sys::open_in(&self.dir, row, &target).map_err(|error| from_open(error, row, &path))
            };
            (0..count).map(lane).collect::<Result<_>>().map(Mutex::new)
        };
        let Rows { weaker: [process, system], settling, .. } = self.rows;
        // A row that serves both grades is served from the lanes of the higher one.
        let process = process.filter(|row| system != Some(*row));
        let debts = process.is_some() || system.is_some() || self.rows.own() != Grade::Full;
        let open = Open {
            own,
            weaker: [lanes(process, self.count)?, lanes(system, self.count)?],
            settling: lanes(settling.filter(|_| debts), 1)?,
        };
        lock(&self.segments).insert(number, Arc::new(open));
        Ok(())
    }

    /// The rows that commits take.
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Closes the lanes of every segment before `number`: nothing is written there any more.
    pub(crate) fn close_before(&self, number: u64) {
        let mut segments = lock(&self.segments);
        let kept = segments.split_off(&number);
        let closed = std::mem::replace(&mut *segments, kept);
        drop(segments);
        drop(closed);
    }

    /// Closes the lanes of one segment, because its file is about to be replaced: some systems (Windows) let nobody take
    /// the name of a file that is open.
    pub(crate) fn close(&self, number: u64) {
        let closed = lock(&self.segments).remove(&number);
        drop(closed);
    }

    /// Carries out a job: when this returns, the batch is as safe as its grade says.
    pub(crate) fn carry(&self, job: &Job) -> Result<()> {
        if job.settle.is_some() {
            self.settle(job)?;
        }
        if job.is_settlement() {
            return Ok(());
        }
        let lanes = lock(&self.segments).get(&job.segment).map(Arc::clone);
        let Some(lanes) = lanes else { return Err(self.not_open(job.segment)) };
        #[cfg(feature = "simulation")]
        if let Some(faults) = &self.faults {
            let path = self.dir.path().join(segment_name(job.segment));
            faults.commit().map_err(|error| failed(&seawall_sys::Error::new("write", path, error)))?;
        }
        let mut pieces = [Piece::default(); PIECES_MAX];
        let count = lay_out(job, &mut pieces);
        let own = self.rows.own();
        if job.grade > own {
            // In full, in a weaker log: by the row that syncs. After an error the lane is finished, and so is the log.
            let mut settling = lock(&lanes.settling);
            let lane = settling.first_mut().ok_or_else(|| self.not_open(job.segment))?;
            let carried = lane.carry(&pieces[..count]).map_err(|error| failed(&error));
            if carried.is_err() {
                settling.clear();
            }
            return carried;
        }
        let lane = lock(lanes.of(job.grade, own)).pop();
        let mut lane = lane.ok_or_else(|| self.not_open(job.segment))?;
        lane.carry(&pieces[..count]).map_err(|error| failed(&error))?;
        lock(lanes.of(job.grade, own)).push(lane);
        Ok(())
    }

    fn not_open(&self, segment: u64) -> Error {
        let path = self.dir.path().join(segment_name(segment));
        Error::io("write", path, std::io::Error::other("the segment is not open for writing"))
    }

    /// Syncs what batches of a weaker grade wrote before, unless the job's own sync will do so.
    fn settle(&self, job: &Job) -> Result<()> {
        let Some(segment) = job.settles_first(self.rows.full_settles) else { return Ok(()) };
        #[cfg(feature = "simulation")]
        if let Some(faults) = &self.faults {
            let path = self.dir.path().join(segment_name(segment));
            faults.settle().map_err(|source| Error::io("sync", path, source))?;
        }
        let lanes = lock(&self.segments).get(&segment).map(Arc::clone);
        let Some(lanes) = lanes else { return Err(self.not_open(segment)) };
        // One lane: whoever comes second waits for the first, and syncs again, because more may have been written.
        let mut settling = lock(&lanes.settling);
        let lane = settling.first_mut().ok_or_else(|| self.not_open(segment))?;
        let synced = Job::settled(lane.sync()).map_err(|error| from_system(&error));
        if synced.is_err() {
            // The system reports a failed write-back once: whoever comes next would be told that all is well.
            settling.clear();
        }
        synced
    }
}
