//! Runs a block of the `interfere` scenario: a load in a thread and file of its own during the commits.
//!
//! Invariants: the load runs from before the first timed commit until after the last; a load that fails ends the
//! block with its error, because the figures would claim a load that was absent.

use super::{BlockRequest, JOURNAL_BYTES, LOAD_BYTES, Load};
use crate::testbed::real::{Content, RealLane, RealTestbed};
use crate::testbed::writers::{Crew, run as commit, slice};
use crate::testbed::{Block, BlockError, Until};
use seawall_host::starting_line::spawn_scoped;
use seawall_sys::buffer::Aligned;
use seawall_sys::method::{Cache, OpenSync, Sync, Write};
use seawall_sys::store::{Access, StoreFile};
use seawall_sys::{Error, OpenError, Target, methods, prove};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) fn run(
    testbed: &mut RealTestbed,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Block, BlockError> {
    let settings = request.settings;
    let journal = testbed.file(0, "journal", Content::Written(JOURNAL_BYTES), until)?;
    let load_path = testbed.file(0, "load", Content::Written(LOAD_BYTES), until)?;
    let target = Target { path: journal.clone(), journal_bytes: JOURNAL_BYTES, write_bytes: settings.bytes };
    prove(request.method, &target, None)?;
    let lane = RealLane::open(request.method, &target)?;
    let crew =
        Crew { bytes: settings.bytes, pin_to: &settings.pin_to, seed: settings.seed, workload: None, until };
    let lanes = vec![(lane, slice(0, JOURNAL_BYTES / settings.bytes as u64, until))];
    let (done, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    let block = std::thread::scope(|scope| {
        let (done, moved) = (&done, &moved);
        let mut worker = Worker::open(request.load, &load_path, settings.seed)?;
        let start = |mut worker: Worker| spawn_scoped(scope, "the load", move || worker.work(done, moved));
        let thread = worker.take().map(start).transpose().map_err(BlockError::run)?;
        while thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && moved.load(Ordering::Relaxed) == 0
        {
            std::thread::yield_now();
        }
        let before = moved.load(Ordering::Relaxed);
        let block = commit(&crew, lanes, &|| testbed.counts_of(0));
        let after = moved.load(Ordering::Relaxed);
        done.store(true, Ordering::Relaxed);
        if let Some(thread) = thread {
            match thread.join() {
                Ok(outcome) => outcome?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        block.map(|block| Block { load_bytes: after - before, ..block })
    });
    if request.load != Load::None {
        RealTestbed::quiesce_file(&load_path)?;
    }
    RealTestbed::quiesce_file(&journal)?;
    block
}

struct Worker {
    step: Step,
    buffer: Aligned,
    random: fastrand::Rng,
    /// The next place of writes in order.
    next: u64,
}

enum Step {
    InOrder(StoreFile),
    Random(Box<dyn seawall_sys::CommitHandle>),
    Reads(StoreFile),
}

const IN_ORDER_BYTES: usize = 1 << 20;
const RANDOM_BYTES: usize = 4096;

impl Worker {
    fn open(load: Load, path: &Path, seed: u64) -> Result<Option<Self>, OpenError> {
        let (step, bytes) = match load {
            Load::None => return Ok(None),
            Load::Buffered => (Step::InOrder(StoreFile::open(path, Access::Cached)?), IN_ORDER_BYTES),
            Load::RandomDirect => (Step::Random(open_direct(path)?), RANDOM_BYTES),
            Load::Reads => (Step::Reads(StoreFile::open_read_only(path, Access::Direct)?), RANDOM_BYTES),
        };
        let random = fastrand::Rng::with_seed(seed);
        Ok(Some(Self { step, buffer: Aligned::incompressible(bytes, seed), random, next: 0 }))
    }

    /// Works until `done`, adding up the bytes in `moved`.
    fn work(&mut self, done: &AtomicBool, moved: &AtomicU64) -> Result<(), Error> {
        let bytes = self.buffer.as_slice().len() as u64;
        let places = LOAD_BYTES / bytes;
        while !done.load(Ordering::Relaxed) {
            let random = self.random.u64(..places) * bytes;
            let failed = |operation, file: &StoreFile, error| Error::new(operation, file.path(), error);
            let got = match &mut self.step {
                Step::InOrder(file) => {
                    self.next = (self.next + 1) % places;
                    let written = file.write_at(self.next * bytes, self.buffer.as_slice());
                    written.map_err(|error| failed("write", file, error))? as u64
                }
                Step::Random(commit) => {
                    commit.write(random, self.buffer.as_slice())?;
                    bytes
                }
                Step::Reads(file) => {
                    let read = file.read_at(random, self.buffer.as_mut_slice());
                    read.map_err(|error| failed("read", file, error))? as u64
                }
            };
            moved.fetch_add(got, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The row of the method table that writes around the cache and syncs nothing.
fn open_direct(path: &Path) -> Result<Box<dyn seawall_sys::CommitHandle>, OpenError> {
    let row = methods::here().iter().find(|method| {
        method.cache != Cache::Buffered
            && method.open_sync == OpenSync::None
            && method.write == Write::Positional
            && method.sync == Sync::None
    });
    let lacking = || {
        OpenError::Unavailable(seawall_sys::Unavailable(
            "no writes around the cache on this system".to_owned(),
        ))
    };
    let target = Target { path: path.to_path_buf(), journal_bytes: LOAD_BYTES, write_bytes: RANDOM_BYTES };
    seawall_sys::open(row.ok_or_else(lacking)?, &target, None)
}
