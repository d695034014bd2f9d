//! Storage below recovery and segment tasks: the interface of a directory of files, and the real one.
//!
//! Commits do not pass through here: they go through a row of the method table, see `commit/segment_writers.rs`.
//!
//! * [`disk`] is the interface, small enough for the simulated disk of the tests to implement;
//! * [`os_disk`] implements it over a directory of the operating system;
//! * `faults` makes operations of the real one fail on request (feature `simulation`).
//!
//! Invariant: code that is generic over [`disk::Disk`] runs unchanged in production and in the simulator.

pub mod disk;
#[cfg(feature = "simulation")]
pub mod faults;
pub(crate) mod os_disk;
