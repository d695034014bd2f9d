//! A disk that can do everything a real one can, in memory, from a seed.
//!
//! `rng` is where chance comes from, `media` what may be on the disk, `disk` what the log sees of it, `life` one use
//! of the log, `campaign` the search for a broken promise, `arbitrary` the entrance for fuzzers, `outside` the one for
//! harnesses with disks of their own.

pub mod arbitrary;
pub mod campaign;
mod disk;
mod life;
mod media;
#[cfg(test)]
mod mended;
pub mod outside;
pub mod rng;

pub use disk::{FaultKind, FaultPlan, SimDisk};
