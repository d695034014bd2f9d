//! Runs scenario blocks on the real machine, in files of its own in the given folders.
//!
//! * [`stall`], [`group`], [`interfere`], [`path`], [`cached`] and [`replicated`] run one block each; [`writers`] is shared by
//!   committing threads.
//!
//! Invariants: only files that this stage created are written, in a scratch folder of its own in each place, and they
//! are removed when it is dropped, however the run ended; after a failed call no file is used again.

mod cached;
mod group;
mod interfere;
mod path;
mod path_on_jvm;
mod replicated;
mod stall;
mod writers;

use super::{Block, Stage, Until};
use crate::scenario::path::jvm::Machine;
use crate::scenario::replicated::promise::EngineFacts;
use crate::scenario::replicated::{Engine, EngineError};
use crate::scenario::settings::FILL_BYTES;
use crate::scenario::{self};
use seawall::{Log, Options};
use seawall_sys::counters::{Counts, Reader};
use seawall_sys::durability::FileState;
use seawall_sys::inspect::Environment;
use seawall_sys::journal::{Recipe, make, sync_and_evict};
use seawall_sys::residency::available_memory_bytes;
use seawall_sys::scratch::Scratch;
use seawall_sys::{Error, OpenError, Unavailable, clock};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// This machine.
pub struct RealStage {
    places: Vec<Spot>,
    /// Files that are kept from block to block.
    files: Vec<PathBuf>,
    log: Option<OpenLog>,
    /// The JVMs that write too, in the order of their descriptions in the settings.
    machines: Vec<Box<dyn Machine>>,
    /// Clusters that were named, each with a stream of our own.
    engines: Vec<Box<dyn Engine>>,
}

/// A folder under the gauge.
struct Spot {
    folder: PathBuf,
    environment: Environment,
    counters: Option<Reader>,
    /// Made with the first file.
    scratch: Option<Scratch>,
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

impl RealStage {
    /// A stage in these folders, each with its description; at least one.
    #[must_use]
    pub fn in_folders(folders: Vec<(PathBuf, Environment)>) -> Self {
        let spot = |(folder, environment)| {
            let counters = Reader::open(&environment);
            Spot { folder, environment, counters, scratch: None }
        };
        Self {
            places: folders.into_iter().map(spot).collect(),
            files: Vec::new(),
            log: None,
            machines: Vec::new(),
            engines: Vec::new(),
        }
    }

    /// The same, with JVMs that write too.
    #[must_use]
    pub fn with_machines(mut self, machines: Vec<Box<dyn Machine>>) -> Self {
        self.machines = machines;
        self
    }

    /// The same with replicated engines, each connected.
    #[must_use]
    pub fn with_engines(mut self, engines: Vec<Box<dyn Engine>>) -> Self {
        self.engines = engines;
        self
    }

    /// Removes what the engines created in their clusters; to be called however the run ended. Returns what was left
    /// behind in any of them, and how to remove it.
    pub fn close_engines(&mut self) -> Vec<EngineError> {
        self.engines.drain(..).filter_map(|mut engine| engine.close().err()).collect()
    }

    fn new_path(&mut self, place: usize, name: &str) -> Result<PathBuf, Error> {
        let spot = &mut self.places[place];
        if spot.scratch.is_none() {
            spot.scratch = Some(Scratch::new_in(&spot.folder)?);
        }
        let folder = spot.scratch.as_ref().map_or(spot.folder.as_path(), Scratch::path);
        Ok(folder.join(format!("seawall-{name}")))
    }

    /// The file of that name, made now if it is not there yet: `bytes` long and written, or empty and growing.
    fn file(&mut self, place: usize, name: &str, kind: Kind, until: Until<'_>) -> Result<PathBuf, OpenError> {
        let path = self.new_path(place, name)?;
        if !self.files.contains(&path) {
            make(&path, &kind.recipe(), &mut |_| !until.stop.load(Ordering::Relaxed))?;
            self.files.push(path.clone());
        }
        Ok(path)
    }

    /// The same, made anew.
    fn fresh_file(&mut self, name: &str, kind: Kind, until: Until<'_>) -> Result<PathBuf, OpenError> {
        let path = self.new_path(0, name)?;
        self.remove(&path)?;
        self.file(0, name, kind, until)
    }

    fn remove(&mut self, path: &Path) -> Result<(), Error> {
        if let Some(at) = self.files.iter().position(|known| known == path) {
            self.files.swap_remove(at);
            std::fs::remove_file(path).map_err(|error| Error::new("unlink", path, error))?;
        }
        Ok(())
    }

    /// The log, opened now if it is not open yet.
    fn log(&mut self) -> Result<Arc<Log>, OpenError> {
        if let Some(open) = &self.log {
            return Ok(Arc::clone(&open.log));
        }
        let folder = self.new_path(0, "log")?;
        let options = Options::default().segment_bytes(LOG_SEGMENT_BYTES);
        let log = Log::open(&folder, options).map(Arc::new).map_err(|error| {
            let _ = std::fs::remove_dir_all(&folder);
            match error {
                // Nothing went wrong: the log will not promise what the place cannot keep.
                seawall::Error::InvalidOption { reason, .. } => OpenError::Unavailable(Unavailable(reason)),
                error => of_log("open", &folder, &error).into(),
            }
        })?;
        self.log = Some(OpenLog { log: Arc::clone(&log), folder });
        self.rest_log()?;
        Ok(log)
    }

    /// Lets the log forget what it holds, so that it takes no more space than a few segments.
    fn trim_log(&self) -> Result<(), Error> {
        let Some(open) = &self.log else { return Ok(()) };
        let log = &open.log;
        let trimmed = log.commit(log.appended_lsn()).and_then(|()| log.trim(log.durable_lsn()));
        trimmed.map_err(|error| of_log("trim", &open.folder, &error))?;
        self.rest_log()
    }

    /// Waits until the log has its next segment ready and has removed what it forgot: what it does by itself after a
    /// block must not share the disk with the next one, nor is a segment to be made where a running log has one.
    fn rest_log(&self) -> Result<(), Error> {
        let Some(open) = &self.log else { return Ok(()) };
        let end_ns = clock::monotonic_ns() + LOG_REST_NS_MAX;
        while !open.log.is_prepared() || open.log.stats().segments > 1 {
            if clock::monotonic_ns() > end_ns {
                let late = std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    "its segments were not ready in a minute",
                );
                return Err(Error::new("prepare the log in", &open.folder, late));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(())
    }

    /// Brings a file to rest: synced and out of the cache.
    fn settle(path: &Path) -> Result<(), Error> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| Error::new("open", path, error))?;
        sync_and_evict(&file, path, true)
    }

    /// Syncs a file whose pages stay where they are, so that nothing of one block is left for the next.
    fn rest(path: &Path) -> Result<(), Error> {
        let file = File::options().write(true).open(path).map_err(|error| Error::new("open", path, error))?;
        file.sync_all().map_err(|error| Error::new("fsync", path, error))
    }

    fn counts_of(&self, place: usize) -> Option<Counts> {
        self.places[place].counters.as_ref()?.read().ok()
    }

    /// After a failed call nothing is certain about any file that was being written.
    fn guard<T>(&mut self, outcome: Result<T, OpenError>) -> Result<T, OpenError> {
        if matches!(outcome, Err(OpenError::Failed(_))) {
            self.clear();
        }
        outcome
    }

    fn clear(&mut self) {
        self.log = None;
        for path in std::mem::take(&mut self.files) {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for RealStage {
    fn drop(&mut self) {
        // Who wants to be told of what was left behind has called it before.
        let _ = self.close_engines();
        self.clear();
    }
}

/// Segments of the log, bytes: a block of any scenario is over before many of them are full.
const LOG_SEGMENT_BYTES: u64 = 16 << 20;

/// How long the log may take to come to rest, nanoseconds.
const LOG_REST_NS_MAX: u64 = 60_000_000_000;

/// A log's error in the words of the system calls.
fn of_log(operation: &'static str, folder: &Path, error: &seawall::Error) -> Error {
    Error::new(operation, folder, std::io::Error::other(error.to_string()))
}

/// How a file is made.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// So many bytes of data, out of the cache.
    Written(u64),
    /// So many bytes of data by writes of a size, still in the cache.
    Filled {
        /// How long.
        bytes: u64,
        /// The size of the writes.
        fill_bytes: u64,
    },
    /// Empty.
    Growing,
}

impl Kind {
    fn recipe(self) -> Recipe {
        let (state, bytes, fill_bytes, keep_cached) = match self {
            Self::Written(bytes) => (FileState::Recycled, bytes, FILL_BYTES, false),
            Self::Filled { bytes, fill_bytes } => (FileState::Recycled, bytes, fill_bytes, true),
            Self::Growing => (FileState::Appending, 0, FILL_BYTES, false),
        };
        Recipe { state, bytes, fill_bytes, keep_cached }
    }
}

impl Stage for RealStage {
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

    fn stall(
        &mut self,
        order: &scenario::stall::Order<'_>,
        until: Until<'_>,
    ) -> Result<scenario::stall::Trace, OpenError> {
        let outcome = stall::run(self, order, until);
        self.guard(outcome)
    }

    fn group(&mut self, order: &scenario::group::Order<'_>, until: Until<'_>) -> Result<Block, OpenError> {
        let outcome = group::run(self, order, until);
        self.guard(outcome)
    }

    fn interfere(
        &mut self,
        order: &scenario::interfere::Order<'_>,
        until: Until<'_>,
    ) -> Result<Block, OpenError> {
        let outcome = interfere::run(self, order, until);
        self.guard(outcome)
    }

    fn path(
        &mut self,
        order: &scenario::path::Order,
        until: Until<'_>,
    ) -> Result<scenario::path::Trace, OpenError> {
        let outcome = path::run(self, order, until);
        self.guard(outcome)
    }

    fn path_on_jvm(
        &mut self,
        order: &scenario::path::jvm::Order<'_>,
        until: Until<'_>,
    ) -> Result<scenario::path::Trace, OpenError> {
        let outcome = path_on_jvm::run(self, order, until);
        self.guard(outcome)
    }

    fn cached(
        &mut self,
        order: &scenario::cached::Order,
        until: Until<'_>,
    ) -> Result<scenario::cached::Trace, OpenError> {
        let outcome = cached::run(self, order, until);
        self.guard(outcome)
    }

    fn engines(&self) -> Vec<EngineFacts> {
        self.engines.iter().map(|engine| engine.facts().clone()).collect()
    }

    fn replicated(
        &mut self,
        order: &scenario::replicated::Order<'_>,
        until: Until<'_>,
    ) -> Result<Block, OpenError> {
        replicated::run(self, order, until)
    }
}
