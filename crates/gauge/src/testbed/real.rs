//! Runs commits and blocks on the real machine, in files of its own in the given folders.
//!
//! Invariants: only files that this testbed created are written, in a scratch folder of its own in each place, and they
//! are removed when it is dropped, however the run ended; after a failed call no file is used again; a raw device is
//! written only if the caller permits it.

mod lane;

use super::writers::{self, Crew};
use super::{Block, BlockError, FILL_BYTES, Lane as _, MadeJournal, Testbed, Until};
use crate::block::Slice;
use seawall::{Log, Options};
use seawall_host::journal::{Recipe, create, fill, sync_and_evict};
use seawall_sys::buffer::Aligned;
use seawall_sys::counters::{CommitWatch, Counts, Reader, Watched};
use seawall_sys::durability::FileState;
use seawall_sys::inspect::Environment;
use seawall_sys::layout::{Layout, layout};
use seawall_sys::method::{Depth, Method};
use seawall_sys::raw_device::RawDevice;
use seawall_sys::residency::available_memory_bytes;
use seawall_sys::scratch::Scratch;
use seawall_sys::{Error, OpenError, Target, Unavailable, clock, prove};
use std::any::Any;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use lane::{Fault, Writer};
pub(crate) use lane::{RealLane, RecordLane, UNTIMED, put_stamp};

/// This machine.
pub struct RealTestbed {
    places: Vec<Spot>,
    /// A block device that no other program uses and that may be overwritten, in place of a journal's file.
    device: Option<RawDevice>,
    journal: Option<Journal>,
    /// Files that are kept from block to block.
    files: Vec<PathBuf>,
    log: Option<OpenLog>,
    /// What only one scenario knows: its clients, its processes.
    attached: Vec<Box<dyn Any>>,
}

struct Spot {
    folder: PathBuf,
    environment: Environment,
    counters: Option<Reader>,
    /// Made with the first file.
    scratch: Option<Scratch>,
}

impl Spot {
    fn new(folder: PathBuf, environment: Environment) -> Self {
        let counters = Reader::open(&environment);
        Self { folder, environment, counters, scratch: None }
    }
}

/// The journal that [`Testbed::commit`] writes; without a file where it is the raw device.
struct Journal {
    recipe: Recipe,
    path: PathBuf,
    file: Option<File>,
}

/// A log and its folder, which is removed with it.
struct OpenLog {
    log: Arc<Log>,
    folder: PathBuf,
}

impl Drop for OpenLog {
    fn drop(&mut self) {
        // What is left behind is named in the message on signals; nothing more can be done here.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl RealTestbed {
    /// A testbed in these folders, each with its description; at least one.
    pub fn in_folders(folders: Vec<(PathBuf, Environment)>) -> Self {
        Self {
            places: folders.into_iter().map(|(folder, environment)| Spot::new(folder, environment)).collect(),
            device: None,
            journal: None,
            files: Vec::new(),
            log: None,
            attached: Vec::new(),
        }
    }

    /// A testbed in one folder.
    pub fn in_folder(folder: &Path, environment: Environment) -> Self {
        Self::in_folders(vec![(folder.to_path_buf(), environment)])
    }

    /// A testbed that overwrites the first `journal_bytes` of a device that is held already.
    ///
    /// # Errors
    /// The device is smaller than that.
    pub fn on_raw_device(
        device: RawDevice,
        environment: Environment,
        journal_bytes: u64,
    ) -> Result<Self, Error> {
        if device.bytes() < journal_bytes {
            let why = "the device is smaller than the journal: give a smaller --journal";
            return Err(Error::new("open", device.path(), io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let mut testbed = Self::in_folder(device.path(), environment);
        testbed.device = Some(device);
        Ok(testbed)
    }

    /// Keeps what a scenario needs and no other knows, for [`RealTestbed::attached`].
    pub fn attach<T: Any>(&mut self, what: T) {
        self.attached.push(Box::new(what));
    }

    /// What was attached of this type.
    pub fn attached<T: Any>(&mut self) -> Option<&mut T> {
        self.attached.iter_mut().find_map(|what| what.downcast_mut())
    }

    /// A path in the scratch folder of `place` that this testbed does not know of yet.
    pub(crate) fn new_path(&mut self, place: usize, name: &str) -> Result<PathBuf, BlockError> {
        let spot = &mut self.places[place];
        if spot.scratch.is_none() {
            spot.scratch = Some(Scratch::new_in(&spot.folder).map_err(BlockError::run)?);
        }
        let folder = spot.scratch.as_ref().map_or(spot.folder.as_path(), Scratch::path);
        Ok(folder.join(format!("seawall-{name}")))
    }

    /// The file of that name, made now if it is not there yet: `bytes` long and written, or empty and growing.
    pub(crate) fn file(
        &mut self,
        place: usize,
        name: &str,
        content: Content,
        until: Until<'_>,
    ) -> Result<PathBuf, BlockError> {
        let path = self.new_path(place, name)?;
        if !self.files.contains(&path) {
            let file = create(&path).map_err(BlockError::run)?;
            fill(file, &path, &content.recipe(), &mut |_| !until.stop.load(Ordering::Relaxed))?;
            self.files.push(path.clone());
        }
        Ok(path)
    }

    /// The same, made again.
    pub(crate) fn fresh_file(
        &mut self,
        name: &str,
        content: Content,
        until: Until<'_>,
    ) -> Result<PathBuf, BlockError> {
        let path = self.new_path(0, name)?;
        self.remove(&path)?;
        self.file(0, name, content, until)
    }

    pub(crate) fn remove(&mut self, path: &Path) -> Result<(), Error> {
        if let Some(at) = self.files.iter().position(|known| known == path) {
            self.files.swap_remove(at);
            std::fs::remove_file(path).map_err(|error| Error::new("unlink", path, error))?;
        }
        Ok(())
    }

    /// The log, opened now if it is not open yet.
    pub(crate) fn log(&mut self) -> Result<Arc<Log>, BlockError> {
        if let Some(open) = &self.log {
            return Ok(Arc::clone(&open.log));
        }
        let folder = self.new_path(0, "log")?;
        let log = open_log(&folder, Options::default().segment_bytes(LOG_SEGMENT_BYTES))?;
        self.log = Some(OpenLog { log: Arc::clone(&log), folder });
        rest(&log, true)?;
        Ok(log)
    }

    /// Lets the log forget what it holds, so that it takes no more space than a few segments.
    pub(crate) fn trim_log(&self) -> Result<(), Error> {
        let Some(open) = &self.log else { return Ok(()) };
        let log = &open.log;
        let trimmed = log.commit(log.appended_lsn()).and_then(|()| log.trim(log.durable_lsn()));
        trimmed.map_err(|error| of_log("trim", &open.folder, &error))?;
        rest(log, true)
    }

    /// Brings a file to rest: synced and out of the cache.
    pub(crate) fn quiesce_file(path: &Path) -> Result<(), Error> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| Error::new("open", path, error))?;
        sync_and_evict(&file, path, true)
    }

    /// Syncs a file whose pages stay where they are, so that nothing of one block is left for the next.
    pub(crate) fn rest(path: &Path) -> Result<(), Error> {
        let file = File::options().write(true).open(path).map_err(|error| Error::new("open", path, error))?;
        file.sync_all().map_err(|error| Error::new("fsync", path, error))
    }

    /// What the devices count during single commits by `method`; `None` where they do not count, it leaves everything in memory,
    /// or a commit fails, as one of the blocks will then.
    fn watch(&self, method: &'static Method, target: &Target) -> Option<Watched> {
        const COMMITS: u64 = 64;
        /// What a slow device is watched for at least, and how long the rest may take.
        const COMMITS_MIN: u64 = 16;
        const TIME_NS_MAX: u64 = 250_000_000;
        let environment = &self.places[0].environment;
        if method.reach().data == Depth::Kernel && !environment.file_system.synchronous {
            return None;
        }
        let mut watch = CommitWatch::open(environment, method)?;
        let mut lane = RealLane::open(method, target).ok()?;
        lane.load(Aligned::zeroed(target.write_bytes));
        let began_ns = clock::monotonic_ns();
        for commit in 0..COMMITS {
            if commit >= COMMITS_MIN && clock::monotonic_ns() - began_ns > TIME_NS_MAX {
                break;
            }
            watch.begin().ok()?;
            lane.write(0, began_ns + commit).and_then(|()| lane.sync()).ok()?;
            watch.end().ok()?;
        }
        Some(watch.watched().clone())
    }

    pub(crate) fn counts_of(&self, place: usize) -> Option<Counts> {
        self.places[place].counters.as_ref()?.read().ok()
    }

    /// Runs a block. After a failed call nothing is certain about any file that was being written.
    pub(crate) fn block<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        let outcome = run(self);
        if matches!(outcome, Err(BlockError::Run(_) | BlockError::Row(OpenError::Failed(_)))) {
            self.clear();
        }
        outcome
    }

    fn journal(&self) -> Result<&Journal, Error> {
        let absent = || Error::new("open", &self.places[0].folder, io::ErrorKind::NotFound.into());
        self.journal.as_ref().ok_or_else(absent)
    }

    fn clear(&mut self) {
        self.log = None;
        for path in std::mem::take(&mut self.files) {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for RealTestbed {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Segments of the log, bytes: a block of any scenario is over before many of them are full.
const LOG_SEGMENT_BYTES: u64 = 16 << 20;

const LOG_REST_NS_MAX: u64 = 60_000_000_000;

/// A log in a new folder, which is removed again if it cannot be opened.
pub(crate) fn open_log(folder: &Path, options: Options) -> Result<Arc<Log>, OpenError> {
    Log::open(folder, options).map(Arc::new).map_err(|error| {
        let _ = std::fs::remove_dir_all(folder);
        match error {
            // Nothing went wrong: the log will not promise what the place cannot keep.
            seawall::Error::InvalidOption { reason, .. } => OpenError::Unavailable(Unavailable(reason)),
            error => of_log("open", folder, &error).into(),
        }
    })
}

/// Waits until a log has its next segment ready and, if it was `trimmed`, has removed what it forgot: what it does by
/// itself after a block must not share the disk with the next one, nor is a segment to be made where a running log has one.
pub(crate) fn rest(log: &Log, trimmed: bool) -> Result<(), Error> {
    let end_ns = clock::monotonic_ns() + LOG_REST_NS_MAX;
    while !log.is_prepared() || (trimmed && log.stats().segments > 1) {
        if clock::monotonic_ns() > end_ns {
            let late = io::Error::new(io::ErrorKind::TimedOut, "its segments were not ready in a minute");
            return Err(Error::new("prepare the log in", log.dir(), late));
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(())
}

pub(crate) fn of_log(operation: &'static str, folder: &Path, error: &seawall::Error) -> Error {
    Error::new(operation, folder, std::io::Error::other(error.to_string()))
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Content {
    /// So many bytes of data, out of the cache.
    Written(u64),
    /// So many bytes of data by writes of a size, still in the cache.
    Filled {
        bytes: u64,
        fill_bytes: u64,
    },
    Growing,
}

impl Content {
    fn recipe(self) -> Recipe {
        let (state, bytes, fill_bytes, keep_cached) = match self {
            Self::Written(bytes) => (FileState::Recycled, bytes, FILL_BYTES, false),
            Self::Filled { bytes, fill_bytes } => (FileState::Recycled, bytes, fill_bytes, true),
            Self::Growing => (FileState::Appending, 0, FILL_BYTES, false),
        };
        Recipe { state, bytes, fill_bytes, keep_cached }
    }
}

impl Testbed for RealTestbed {
    fn places(&self) -> usize {
        self.places.len()
    }

    fn environment(&self, place: usize) -> &Environment {
        &self.places[place].environment
    }

    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn unix_seconds(&self) -> u64 {
        clock::unix_seconds()
    }

    fn idle(&mut self, ns: u64) {
        std::thread::sleep(std::time::Duration::from_nanos(ns));
    }

    fn counts(&self) -> Option<Counts> {
        self.counts_of(0)
    }

    fn available_memory_bytes(&self) -> Option<u64> {
        available_memory_bytes()
    }

    fn prove(
        &mut self,
        method: &'static Method,
        recipe: &Recipe,
        write_bytes: usize,
    ) -> Result<Option<Watched>, BlockError> {
        if let Some(device) = &self.device {
            let target =
                Target { path: device.path().to_path_buf(), journal_bytes: recipe.bytes, write_bytes };
            prove(method, &target, None)?;
            return Ok(self.watch(method, &target));
        }
        let path = self.new_path(0, "proof")?;
        let bytes = write_bytes as u64;
        let zeroed = Recipe { state: FileState::ZeroFilled, bytes, fill_bytes: bytes, keep_cached: false };
        let file = create(&path).map_err(BlockError::run)?;
        let made = fill(file, &path, &zeroed, &mut |_| true)?;
        let target = Target { path: path.clone(), journal_bytes: bytes, write_bytes };
        let proof = prove(method, &target, None);
        let watched = proof.is_ok().then(|| self.watch(method, &target)).flatten();
        drop(made);
        std::fs::remove_file(&path).map_err(|error| Error::new("unlink", &path, error))?;
        proof?;
        Ok(watched)
    }

    fn make_journal(
        &mut self,
        recipe: &Recipe,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<MadeJournal, BlockError> {
        if let Some(device) = &self.device {
            let path = device.path().to_path_buf();
            self.journal = Some(Journal { recipe: *recipe, path, file: None });
            return Ok(MadeJournal { elapsed_ns: 0, layout: None });
        }
        let path = self.new_path(0, "journal")?;
        if self.journal.take().is_some() {
            std::fs::remove_file(&path).map_err(|error| Error::new("unlink", &path, error))?;
        }
        let file = create(&path).map_err(BlockError::run)?;
        let made = fill(file, &path, recipe, progress)?;
        self.journal = Some(Journal { recipe: *recipe, path, file: Some(made.file) });
        Ok(MadeJournal { elapsed_ns: made.elapsed_ns, layout: made.layout })
    }

    fn commit(
        &mut self,
        method: &'static Method,
        crew: &Crew<'_>,
        slices: &[Slice],
    ) -> Result<Block, BlockError> {
        let journal = self.journal()?;
        let (path, journal_bytes) = (journal.path.clone(), journal.recipe.bytes);
        let target = Target { path, journal_bytes, write_bytes: crew.bytes };
        let open = |slice: &Slice| Ok((RealLane::open(method, &target)?, *slice));
        let lanes = slices.iter().map(open).collect::<Result<Vec<_>, OpenError>>()?;
        writers::run(crew, lanes, &|| self.counts_of(0))
    }

    fn quiesce(&mut self) -> Result<(), Error> {
        let journal = self.journal()?;
        let keep_cached = journal.recipe.keep_cached;
        match (&journal.file, &self.device) {
            (Some(file), _) => sync_and_evict(file, &journal.path, !keep_cached),
            (None, Some(device)) => sync_and_evict(device.file(), &journal.path, !keep_cached),
            (None, None) => Ok(()),
        }
    }

    fn layout(&self) -> Result<Option<Layout>, Error> {
        let journal = self.journal()?;
        journal.file.as_ref().map_or(Ok(None), |file| layout(file, &journal.path))
    }

    fn real(&mut self) -> Result<&mut RealTestbed, OpenError> {
        Ok(self)
    }
}
