//! A disk that can do everything a real one can, in memory, from a seed.
//!
//! `rng` is where chance comes from, `file` and `names` what a directory is made of, `media` what may be on the disk and `draw` what of it arrived,
//! `disk` what the log sees of it, `life` one use of the log, `judge` what recovery makes of an image and `damage` what
//! a bad disk makes of one; `campaign` searches for a broken promise, `crew` runs it on every processor and picks it up again, `sweep` fails every operation, `rot`
//! damages logs at rest and `at_rest` does so on every processor, `sketch` counts what is distinct; `arbitrary` is the entrance for fuzzers and `forged` what their
//! bytes stand for, `outside` is the entrance for harnesses with disks of their own.

pub mod arbitrary;
pub mod at_rest;
pub mod campaign;
pub mod crew;
mod damage;
mod disk;
pub mod draw;
mod file;
pub mod forged;
mod judge;
mod life;
mod media;
#[cfg(test)]
mod mended;
mod names;
pub mod outside;
pub mod rng;
pub mod rot;
pub mod sketch;
mod sweep;

pub use disk::{FaultKind, FaultPlan, SimDisk};
