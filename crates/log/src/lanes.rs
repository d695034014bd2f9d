//! Through what does a batch go to the disk?
//!
//! Each segment that may be written has as many *lanes* as batches may be under way: the file, opened by the chosen
//! row of the method table, each lane by itself, because the kernel reports a failed write-back once for each open
//! file: on a shared one a second sync could succeed over data that the first one lost. A lane carries one job at a time and is idle otherwise; the core never has more jobs under
//! way than there are lanes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use seawall_sys::method::Method;
use seawall_sys::{Commit, Target};

use crate::choose::{from_open, from_system};
use crate::error::{Error, Result};
use crate::format::segment_name;
use crate::seal::Job;

/// Locks a mutex; a thread that panicked while holding it does not stop the others.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Idle = Mutex<Vec<Box<dyn Commit>>>;

/// The lanes of every segment that may be written.
pub(crate) struct Lanes {
    dir: PathBuf,
    method: &'static Method,
    count: usize,
    write_bytes: usize,
    segments: Mutex<BTreeMap<u64, Arc<Idle>>>,
    #[cfg(feature = "simulation")]
    pub(crate) faults: Option<Arc<crate::faults::Faults>>,
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes")
            .field("method", &self.method.id)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Lanes {
    /// No segment yet; `count` lanes for each.
    pub(crate) fn new(dir: &Path, method: &'static Method, count: usize, write_bytes: usize) -> Self {
        Self {
            dir: dir.to_path_buf(),
            method,
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
        let lane =
            |_| seawall_sys::open(self.method, &target).map_err(|error| from_open(error, self.method, &path));
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
            faults.commit().map_err(|source| Error::io("write", path, source))?;
        }
        let carried = job.phases().try_for_each(|phase| {
            phase.writes().try_for_each(|write| lane.write(write.offset, write.bytes))?;
            lane.sync()
        });
        // After an error the lane is finished, and so is the log.
        carried.map_err(|error| from_system(&error))?;
        lock(&lanes).push(lane);
        Ok(())
    }
}
