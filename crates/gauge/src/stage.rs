//! Runs one block of a scenario that needs several journals, threads or files: a [`Stage`].
//!
//! [`real`] runs a block with threads, files and the system's clock; [`sim`] computes it on a virtual clock, event by
//! event, so that tables are the same to the byte. The scenario adds up, judges and reports a block's figures without
//! knowing which of the two they came from.
//!
//! Invariants: a stage writes only files that it created, and removes them when it is dropped; between two blocks
//! everything that was written is at rest.

pub mod real;
pub mod sim;

use crate::measure::Sample;
use crate::scenario::replicated::promise::EngineFacts;
use crate::scenario::{cached, group, interfere, path, replicated, stall};
use seawall_sys::OpenError;
use seawall_sys::counters::Counts;
use seawall_sys::inspect::Environment;
use std::sync::atomic::AtomicBool;

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
    /// When it began, nanoseconds on the stage's clock.
    pub start_ns: u64,
    /// From the first commit to the end of the last, nanoseconds.
    pub elapsed_ns: u64,
    /// What the devices counted.
    pub counts: Option<Counts>,
    /// Bytes that a background load moved meanwhile; 0 without one.
    pub load_bytes: u64,
}

/// The machine under a scenario.
pub trait Stage {
    /// How many folders there are to measure.
    fn places(&self) -> usize;

    /// What is known about machine, file system and devices of a folder.
    fn environment(&self, place: usize) -> &Environment;

    /// The time, nanoseconds on the stage's clock.
    fn now_ns(&self) -> u64;

    /// The wall clock when the run began, seconds since 1970-01-01 UTC.
    fn unix_seconds(&self) -> u64;

    /// Lets `ns` nanoseconds pass.
    fn idle(&mut self, ns: u64);

    /// The devices' counters; `None` where there are none.
    fn counts(&self) -> Option<Counts>;

    /// Memory that can be had, bytes; `None` where the system does not tell.
    fn available_memory_bytes(&self) -> Option<u64>;

    /// A block of `stall`.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    fn stall(&mut self, order: &stall::Order<'_>, until: Until<'_>) -> Result<stall::Trace, OpenError>;

    /// A block of `group`.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    fn group(&mut self, order: &group::Order<'_>, until: Until<'_>) -> Result<Block, OpenError>;

    /// A block of `interfere`.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    fn interfere(&mut self, order: &interfere::Order<'_>, until: Until<'_>) -> Result<Block, OpenError>;

    /// A block of `path`.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    fn path(&mut self, order: &path::Order, until: Until<'_>) -> Result<path::Trace, OpenError>;

    /// A block of `path` by a JVM.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    fn path_on_jvm(
        &mut self,
        order: &path::jvm::Order<'_>,
        until: Until<'_>,
    ) -> Result<path::Trace, OpenError>;

    /// A block of `cached`.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    fn cached(&mut self, order: &cached::Order, until: Until<'_>) -> Result<cached::Trace, OpenError>;

    /// What the replicated engines tell of themselves; none unless clusters were named.
    fn engines(&self) -> Vec<EngineFacts>;

    /// A block of `replicated`, with an engine.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    fn replicated(&mut self, order: &replicated::Order<'_>, until: Until<'_>) -> Result<Block, OpenError>;
}
