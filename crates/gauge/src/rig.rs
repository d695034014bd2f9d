//! Defines the measured machine, a [`Rig`]: a journal, commit methods, clocks and counters.
//!
//! [`real`] is this machine; [`sim`] is a simulated disk with a virtual clock, on which every figure is exact,
//! so that tables and findings can be compared to the byte.
//!
//! Invariant: the loop and the judging never know which of the two they run on.

pub mod real;
pub mod sim;

use seawall_sys::buffer::Aligned;
use seawall_sys::counters::Counts;
use seawall_sys::inspect::Environment;
use seawall_sys::journal::Layout;
use seawall_sys::method::Method;
use seawall_sys::thread::Times;
use seawall_sys::{Error, OpenError};
use std::ops::Range;

/// One writer's hold on the journal, with its clock and its accounts. Used by one thread at a time.
pub trait Lane: Send {
    /// Called once in the thread that will use the lane, before anything else. `cpu`: where to pin it.
    ///
    /// # Errors
    /// The thread could not be pinned.
    fn enter(&mut self, cpu: Option<usize>) -> Result<(), Error>;

    /// The time, nanoseconds on the rig's clock.
    fn now_ns(&self) -> u64;

    /// Waits until the clock reads `deadline_ns`.
    fn sleep_until(&mut self, deadline_ns: u64);

    /// Takes the bytes of the transaction that all further writes repeat, but for a stamp.
    fn load(&mut self, bytes: Aligned);

    /// Writes the loaded transaction at `offset`, bytes, its first eight bytes replaced by `stamp`.
    ///
    /// # Errors
    /// The failed call; the lane must not be used further.
    fn write(&mut self, offset: u64, stamp: u64) -> Result<(), Error>;

    /// Makes it as durable as the method does.
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

/// What making a journal gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MadeJournal {
    /// Time it took, nanoseconds.
    pub elapsed_ns: u64,
    /// Its extents; `None` where the system does not tell.
    pub layout: Option<Layout>,
}

/// The machine under the gauge.
pub trait Rig {
    /// A writer's hold on the journal.
    type Lane: Lane;

    /// What is known about machine, file system and devices.
    fn environment(&self) -> &Environment;

    /// The time, nanoseconds on the rig's clock.
    fn now_ns(&self) -> u64;

    /// The wall clock when the run began, seconds since 1970-01-01 UTC.
    fn unix_seconds(&self) -> u64;

    /// Lets `ns` nanoseconds pass.
    fn idle(&mut self, ns: u64);

    /// Makes the journal, or makes it anew. `progress` is told the bytes done and answers whether to go on.
    ///
    /// # Errors
    /// Unavailable, with the reason, if the file system lacks the file state; the failed call otherwise.
    fn make_journal(&mut self, progress: &mut dyn FnMut(u64) -> bool) -> Result<MadeJournal, OpenError>;

    /// Tries a method by one real transfer, apart from the journal.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    fn prove(&mut self, method: &'static Method) -> Result<(), OpenError>;

    /// Opens the journal by a method.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    fn lane(&mut self, method: &'static Method) -> Result<Self::Lane, OpenError>;

    /// Brings the journal to rest between blocks: synced, and out of the cache unless it is to stay.
    ///
    /// # Errors
    /// The failed call.
    fn settle(&mut self) -> Result<(), Error>;

    /// The journal's extents now; `None` where the system does not tell.
    ///
    /// # Errors
    /// The failed call.
    fn layout(&self) -> Result<Option<Layout>, Error>;

    /// The devices' counters; `None` where there are none.
    fn counts(&self) -> Option<Counts>;
}
