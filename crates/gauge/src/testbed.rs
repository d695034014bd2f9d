//! Defines the measured machine, a [`Testbed`]: folders, a journal, commit methods, clocks and counters.
//!
//! [`real`] is this machine; [`sim`] is a simulated disk with a virtual clock, on which every figure is exact,
//! so that tables and findings can be compared to the byte. A scenario whose block needs more than a journal asks for
//! [`Testbed::real`].
//!
//! Invariants: the timing loop and the judging never know which of the two they run on; a testbed writes only files
//! that it created, and removes them when it is dropped; between two blocks everything that was written is at rest.

pub mod real;
pub mod sim;
pub(crate) mod writers;

use crate::block::{Sample, Slice};
use real::RealTestbed;
use seawall_host::journal::Recipe;
use seawall_host::thread::Times;
use seawall_sys::buffer::Aligned;
use seawall_sys::counters::{Counts, Watched};
use seawall_sys::inspect::Environment;
use seawall_sys::layout::Layout;
use seawall_sys::method::Method;
use seawall_sys::{Error, OpenError, Unavailable, clock};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use writers::Crew;

/// Files are filled by writes of this size, as the published tests did: larger ones make later writes of part of a file
/// dearer on some file systems.
pub const FILL_BYTES: u64 = 4096;

/// One writer's hold on a journal, with its clock and its accounts. Used by one thread at a time.
pub trait Lane: Send {
    /// Called once in the thread that will use the lane, before anything else. `cpu`: where to pin it.
    ///
    /// # Errors
    /// The thread could not be pinned.
    fn enter(&mut self, cpu: Option<usize>) -> Result<(), Error>;

    /// The time, nanoseconds on the testbed's clock: this machine's unless it has another.
    #[inline]
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    /// Waits until the clock reads `deadline_ns`.
    fn sleep_until(&mut self, deadline_ns: u64) {
        clock::sleep_until(deadline_ns);
    }

    /// Takes the bytes that all further writes repeat, but for a stamp.
    fn load(&mut self, bytes: Aligned);

    /// Lets all further writes take only the first `bytes` of what was loaded.
    fn resize(&mut self, bytes: usize);

    /// Writes the loaded bytes at `offset`, bytes, the first eight of them replaced by `stamp`.
    ///
    /// # Errors
    /// The failed call; the lane must not be used further.
    fn write(&mut self, offset: u64, stamp: u64) -> Result<(), Error>;

    /// Makes what was written as durable as the method does.
    ///
    /// # Errors
    /// The failed call; the lane must not be used further.
    fn sync(&mut self) -> Result<(), Error>;

    /// Brings into memory what the method's writes to `range` would otherwise read.
    ///
    /// # Errors
    /// The failed call.
    fn warm(&mut self, range: Range<u64>) -> Result<(), Error>;

    /// The thread's accounts.
    fn times(&self) -> Times;

    /// The thread's time waiting for a CPU so far, nanoseconds; `None` where it is not counted.
    fn wait_ns(&self) -> Option<u64>;
}

/// How long a block may take, and what ends it before.
#[derive(Debug, Clone, Copy)]
pub struct Until<'a> {
    /// Time for measuring, nanoseconds.
    pub block_ns: u64,
    /// Set: end now.
    pub stop: &'a AtomicBool,
}

/// What the writers of a block measured.
#[derive(Debug, Default)]
pub struct Block {
    /// One a writer.
    pub samples: Vec<Sample>,
    /// From the first commit to the end of the last, nanoseconds.
    pub elapsed_ns: u64,
    /// What the devices counted.
    pub counts: Option<Counts>,
    /// Bytes that a background load moved meanwhile; 0 without one.
    pub load_bytes: u64,
}

/// Why a block has no figures.
#[derive(Debug)]
pub enum BlockError {
    /// This row cannot be measured; the others can.
    Row(OpenError),
    /// No row can: a file could not even be created, or a thread not be started.
    Run(OpenError),
}

impl BlockError {
    pub(crate) fn run(error: impl Into<OpenError>) -> Self {
        Self::Run(error.into())
    }

    pub(crate) fn of_all(self) -> Self {
        match self {
            Self::Row(error) | Self::Run(error) => Self::Run(error),
        }
    }
}

impl From<OpenError> for BlockError {
    fn from(error: OpenError) -> Self {
        Self::Row(error)
    }
}

impl From<Error> for BlockError {
    fn from(error: Error) -> Self {
        Self::Row(error.into())
    }
}

/// What making a journal gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MadeJournal {
    /// Time it took, nanoseconds.
    pub elapsed_ns: u64,
    /// Its extents; `None` where the system does not report it.
    pub layout: Option<Layout>,
}

/// The machine under the gauge.
pub trait Testbed {
    /// How many folders there are to measure.
    fn places(&self) -> usize;

    /// What is known about machine, file system and devices of a folder.
    fn environment(&self, place: usize) -> &Environment;

    /// The time, nanoseconds on the testbed's clock.
    fn now_ns(&self) -> u64;

    /// The wall clock when the run began, seconds since 1970-01-01 UTC.
    fn unix_seconds(&self) -> u64;

    /// Lets `ns` nanoseconds pass.
    fn idle(&mut self, ns: u64);

    /// The devices' counters; `None` where there are none.
    fn counts(&self) -> Option<Counts>;

    /// Memory that can be had, bytes; `None` where the system does not report it.
    fn available_memory_bytes(&self) -> Option<u64>;

    /// Tries a method by one real transfer of `write_bytes`, apart from the journal that `recipe` will make; returns what the
    /// devices counted during a few more of them, where they count.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    fn prove(
        &mut self,
        method: &'static Method,
        recipe: &Recipe,
        write_bytes: usize,
    ) -> Result<Option<Watched>, BlockError>;

    /// Makes the journal, or makes it again. `progress` receives the bytes done and returns whether to go on.
    ///
    /// # Errors
    /// Unavailable, with the reason, if the file system lacks the file state; the failed call otherwise.
    fn make_journal(
        &mut self,
        recipe: &Recipe,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<MadeJournal, BlockError>;

    /// Lets a writer for each slice commit into the journal by `method`, all at once.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the first failed call of any writer.
    fn commit(
        &mut self,
        method: &'static Method,
        crew: &Crew<'_>,
        slices: &[Slice],
    ) -> Result<Block, BlockError>;

    /// Brings the journal to rest between blocks: synced, and out of the cache unless it is to stay.
    ///
    /// # Errors
    /// The failed call.
    fn quiesce(&mut self) -> Result<(), Error>;

    /// The journal's extents now; `None` where the system does not report it.
    ///
    /// # Errors
    /// The failed call.
    fn layout(&self) -> Result<Option<Layout>, Error>;

    /// This machine, for blocks that a scenario runs by itself.
    ///
    /// # Errors
    /// Unavailable: it is simulated.
    fn real(&mut self) -> Result<&mut RealTestbed, OpenError> {
        let reason = "a simulated disk has a journal and nothing else: measure a folder";
        Err(OpenError::Unavailable(Unavailable(reason.to_owned())))
    }
}
