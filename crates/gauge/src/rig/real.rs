//! Runs commits on the real machine, in a journal file of its own in the given folder.
//!
//! Invariants: only files that this rig created are written, and they are removed when it is dropped, however the run
//! ended; a raw device is written only if the caller permits it.

use super::{Lane, MadeJournal, Rig};
use seawall_sys::buffer::Aligned;
use seawall_sys::counters::{Counts, Reader};
use seawall_sys::inspect::Environment;
use seawall_sys::journal::{Layout, Recipe, layout, make, sync_and_evict};
use seawall_sys::method::Method;
use seawall_sys::raw_device::RawDevice;
use seawall_sys::scratch::Scratch;
use seawall_sys::thread::{Accounts, Times, pin};
use seawall_sys::{CommitHandle, Error, OpenError, Target, clock, open, prove};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// This machine.
pub struct RealRig {
    environment: Environment,
    recipe: Recipe,
    transaction_bytes: usize,
    place: Place,
    counters: Option<Reader>,
}

enum Place {
    /// Files in a folder: the journal, once made, and one for proofs, both in a scratch folder that the first needs.
    Folder { folder: PathBuf, journal: Option<File>, scratch: Option<Scratch> },
    /// A block device that nobody else uses and that may be overwritten; held exclusively.
    Device(RawDevice),
}

impl RealRig {
    /// A rig with its journal in `folder`, described by `environment`.
    #[must_use]
    pub fn in_folder(
        folder: &Path,
        environment: Environment,
        recipe: Recipe,
        transaction_bytes: usize,
    ) -> Self {
        let place = Place::Folder { folder: folder.to_path_buf(), journal: None, scratch: None };
        Self::at(place, environment, recipe, transaction_bytes)
    }

    /// A rig that overwrites the start of the block device `path`.
    ///
    /// # Errors
    /// As [`RawDevice::open`], or it is smaller than the journal.
    pub fn on_device(
        path: &Path,
        environment: Environment,
        recipe: Recipe,
        transaction_bytes: usize,
    ) -> Result<Self, Error> {
        Self::on_raw_device(RawDevice::open(path)?, environment, recipe, transaction_bytes)
    }

    /// A rig that overwrites the start of a device that is held already.
    ///
    /// # Errors
    /// It is smaller than the journal.
    pub fn on_raw_device(
        device: RawDevice,
        environment: Environment,
        recipe: Recipe,
        transaction_bytes: usize,
    ) -> Result<Self, Error> {
        if device.bytes() < recipe.bytes {
            let why = "the device is smaller than the journal: give a smaller --journal";
            return Err(Error::new("open", device.path(), io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        Ok(Self::at(Place::Device(device), environment, recipe, transaction_bytes))
    }

    fn at(place: Place, environment: Environment, recipe: Recipe, transaction_bytes: usize) -> Self {
        let counters = Reader::open(&environment);
        Self { environment, recipe, transaction_bytes, place, counters }
    }

    fn target(&self) -> Target {
        let path = self.place.journal_path();
        Target { path, journal_bytes: self.recipe.bytes, write_bytes: self.transaction_bytes }
    }

    /// The file that is written, with its path.
    fn journal(&self) -> Result<(&File, PathBuf), Error> {
        let path = self.place.journal_path();
        match &self.place {
            Place::Folder { journal: Some(file), .. } => Ok((file, path)),
            Place::Folder { .. } => Err(Error::new("open", path, io::ErrorKind::NotFound.into())),
            Place::Device(device) => Ok((device.file(), path)),
        }
    }
}

impl Place {
    /// The journal, whether or not it was made.
    fn journal_path(&self) -> PathBuf {
        match self {
            Self::Folder { folder, scratch, .. } => {
                scratch.as_ref().map_or(folder.as_path(), Scratch::path).join("seawall-journal")
            }
            Self::Device(device) => device.path().to_path_buf(),
        }
    }

    /// The scratch folder, made now if it is not there yet; `None` on a device.
    fn scratch(&mut self) -> Result<Option<&Path>, Error> {
        let Self::Folder { folder, scratch, .. } = self else { return Ok(None) };
        if scratch.is_none() {
            *scratch = Some(Scratch::new_in(folder)?);
        }
        Ok(scratch.as_ref().map(Scratch::path))
    }
}

impl Rig for RealRig {
    type Lane = RealLane;

    fn environment(&self) -> &Environment {
        &self.environment
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

    fn make_journal(&mut self, progress: &mut dyn FnMut(u64) -> bool) -> Result<MadeJournal, OpenError> {
        let recipe = self.recipe;
        self.place.scratch()?;
        let path = self.place.journal_path();
        let Place::Folder { journal, .. } = &mut self.place else {
            return Ok(MadeJournal { elapsed_ns: 0, layout: None });
        };
        if journal.take().is_some() {
            std::fs::remove_file(&path)
                .map_err(|error| OpenError::Failed(Error::new("unlink", &path, error)))?;
        }
        let made = make(&path, &recipe, progress)?;
        *journal = Some(made.file);
        Ok(MadeJournal { elapsed_ns: made.elapsed_ns, layout: made.layout })
    }

    fn prove(&mut self, method: &'static Method) -> Result<(), OpenError> {
        let Some(folder) = self.place.scratch()? else { return prove(method, &self.target()) };
        let path = folder.join("seawall-proof");
        let bytes = self.transaction_bytes as u64;
        let zeroed = Recipe {
            state: seawall_sys::durability::FileState::ZeroFilled,
            bytes,
            fill_bytes: bytes,
            keep_cached: false,
        };
        let made = make(&path, &zeroed, &mut |_| true)?;
        let target = Target { path: path.clone(), journal_bytes: bytes, write_bytes: self.transaction_bytes };
        let proof = prove(method, &target);
        drop(made);
        std::fs::remove_file(&path).map_err(|error| OpenError::Failed(Error::new("unlink", &path, error)))?;
        proof
    }

    fn lane(&mut self, method: &'static Method) -> Result<RealLane, OpenError> {
        RealLane::open(method, &self.target())
    }

    fn settle(&mut self) -> Result<(), Error> {
        let (file, path) = self.journal()?;
        sync_and_evict(file, &path, !self.recipe.keep_cached)
    }

    fn layout(&self) -> Result<Option<Layout>, Error> {
        match &self.place {
            Place::Folder { .. } => self.journal().and_then(|(file, path)| layout(file, &path)),
            Place::Device(_) => Ok(None),
        }
    }

    fn counts(&self) -> Option<Counts> {
        self.counters.as_ref()?.read().ok()
    }
}

/// A writer on this machine.
pub struct RealLane {
    commit: Box<dyn CommitHandle>,
    accounts: Option<Accounts>,
    data: Aligned,
}

impl RealLane {
    /// A writer by `method` on `target`.
    pub(crate) fn open(method: &'static Method, target: &Target) -> Result<Self, OpenError> {
        Ok(Self { commit: open(method, target)?, accounts: None, data: Aligned::zeroed(0) })
    }
}

/// Two transactions are never alike, so that a device that merges equal blocks gains nothing.
#[inline]
pub(crate) fn put_stamp(transaction: &mut [u8], stamp: u64) {
    let stamp = stamp.to_le_bytes();
    let len = transaction.len().min(stamp.len());
    transaction[..len].copy_from_slice(&stamp[..len]);
}

impl Lane for RealLane {
    fn enter(&mut self, cpu: Option<usize>) -> Result<(), Error> {
        if let Some(cpu) = cpu {
            pin(cpu)?;
        }
        self.accounts = Some(Accounts::open());
        Ok(())
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn sleep_until(&mut self, deadline_ns: u64) {
        clock::sleep_until(deadline_ns);
    }

    fn load(&mut self, bytes: Aligned) {
        if let Some(staging) = self.commit.staging() {
            staging[..bytes.as_slice().len()].copy_from_slice(bytes.as_slice());
        }
        self.data = bytes;
    }

    #[inline]
    fn write(&mut self, offset: u64, stamp: u64) -> Result<(), Error> {
        let len = self.data.as_slice().len();
        if let Some(staging) = self.commit.staging() {
            put_stamp(&mut staging[..len], stamp);
            self.commit.write_staged(offset, len)
        } else {
            put_stamp(self.data.as_mut_slice(), stamp);
            self.commit.write(offset, self.data.as_slice())
        }
    }

    #[inline]
    fn sync(&mut self) -> Result<(), Error> {
        self.commit.sync()
    }

    fn warm(&mut self, range: Range<u64>) -> Result<(), Error> {
        self.commit.warm(range)
    }

    fn times(&self) -> Times {
        self.accounts.as_ref().map(Accounts::times).unwrap_or_default()
    }

    fn wait_ns(&self) -> Option<u64> {
        self.accounts.as_ref()?.wait_ns()
    }
}
