//! Through what does a batch go to the disk?
//!
//! Each segment that may be written has as many *lanes* as batches may be under way: the file, opened by the chosen
//! row of the method table, each lane by itself, because the kernel reports a failed write-back once for each open
//! file: on a shared one a second sync could succeed over data that the first one lost. A lane carries one job at a time
//! and is idle otherwise; the core never has more jobs under way than there are lanes. What the lanes of all segments
//! have in common, the rings of the `io_uring` engine, is set up once, when the log is opened.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use seawall_sys::engine::Works;
use seawall_sys::{Commit, Piece, Target};

use crate::choose::{from_open, from_system};
use crate::error::{Error, Result};
use crate::format::segment_name;
use crate::seal::{Job, Write};

/// Locks a mutex; a thread that panicked while holding it does not stop the others.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Idle = Mutex<Vec<Box<dyn Commit>>>;

/// Two copies of a segment header and a batch.
const PIECES_MAX: usize = 3;

/// Puts the writes of a job in order: the last one of each phase is where everything so far must be durable. Returns
/// how many there are.
fn lay_out<'a>(job: &'a Job, pieces: &mut [Piece<'a>; PIECES_MAX]) -> usize {
    let mut count = 0;
    for phase in job.phases() {
        let before = count;
        for (write, piece) in phase.writes().zip(&mut pieces[before..]) {
            let Write { offset, bytes, buffer } = write;
            *piece = Piece { offset, bytes, buffer, durable: false };
            count += 1;
        }
        if let Some(last) = pieces[before..count].last_mut() {
            last.durable = true;
        }
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

/// The lanes of every segment that may be written.
pub(crate) struct Lanes {
    dir: PathBuf,
    works: Works,
    count: usize,
    write_bytes: usize,
    segments: Mutex<BTreeMap<u64, Arc<Idle>>>,
    #[cfg(feature = "simulation")]
    pub(crate) faults: Option<Arc<crate::faults::Faults>>,
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
    /// No segment yet; `count` lanes for each, on the engine `works`.
    pub(crate) fn new(dir: &Path, works: Works, count: usize, write_bytes: usize) -> Self {
        Self {
            dir: dir.to_path_buf(),
            works,
            count,
            write_bytes,
            segments: Mutex::new(BTreeMap::new()),
            #[cfg(feature = "simulation")]
            faults: None,
        }
    }

    /// The directory of the log.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Opens the lanes of a segment of `bytes` bytes.
    pub(crate) fn open(&self, number: u64, bytes: u64) -> Result<()> {
        let path = self.dir.join(segment_name(number));
        let target = Target { path: path.clone(), journal_bytes: bytes, write_bytes: self.write_bytes };
        let failed = |error| from_open(error, self.works.method(), &path);
        let lane = |lane| self.works.open(lane, &target).map_err(failed);
        let lanes: Vec<Box<dyn Commit>> = (0..self.count).map(lane).collect::<Result<_>>()?;
        lock(&self.segments).insert(number, Arc::new(Mutex::new(lanes)));
        Ok(())
    }

    /// Closes the lanes of every segment before `number`: nothing is written there any more.
    pub(crate) fn close_before(&self, number: u64) {
        let mut segments = lock(&self.segments);
        let kept = segments.split_off(&number);
        let closed = std::mem::replace(&mut *segments, kept);
        drop(segments);
        drop(closed);
    }

    /// Carries out a job: when this returns, the batch is durable.
    pub(crate) fn carry(&self, job: &Job) -> Result<()> {
        let lanes = lock(&self.segments).get(&job.segment).map(Arc::clone);
        let lane = lanes.as_ref().and_then(|lanes| lock(lanes).pop());
        let (Some(lanes), Some(mut lane)) = (lanes, lane) else {
            let path = self.dir.join(segment_name(job.segment));
            return Err(Error::io(
                "write",
                path,
                std::io::Error::other("the segment is not open for writing"),
            ));
        };
        #[cfg(feature = "simulation")]
        if let Some(faults) = &self.faults {
            let path = self.dir.join(segment_name(job.segment));
            faults.commit().map_err(|error| failed(&seawall_sys::Error::new("write", path, error)))?;
        }
        let mut pieces = [Piece::default(); PIECES_MAX];
        let count = lay_out(job, &mut pieces);
        // After an error the lane is finished, and so is the log.
        lane.carry(&pieces[..count]).map_err(|error| failed(&error))?;
        lock(&lanes).push(lane);
        Ok(())
    }
}
