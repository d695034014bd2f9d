//! Deterministic simulation of disks, crashes and damage in memory, from a seed.
//!
//! `rng` is the source of randomness, `file` and `names` model a directory, `media` the contents of a disk and `draw`
//! which unsynced writes arrived, `disk` is the disk that the log sees, `memory` what outlives the process, `life` one use of the log, `judge` the
//! recovery of one crash image, `read_back` reads its records, and `damage` the damage that a bad disk does; `campaign` searches for a broken
//! promise, `crew` runs it on every processor and resumes it, `sweep` fails every operation, `taken` puts
//! foreign files under the names of segments, `rot` damages logs at
//! rest and `at_rest` does so on every processor, `sketch` estimates distinct counts; `arbitrary` is the entry point
//! for fuzzers and `forged` decodes their bytes into files, `outside` is the entry point for harnesses with disks of
//! their own, `images` for other models of a disk.

pub mod arbitrary;
#[cfg(all(test, not(loom)))]
mod backed_up;
pub mod campaign;
pub mod crew;
mod damage;
pub(crate) mod disk;
pub mod draw;
mod driver;
mod file;
pub mod forged;
pub mod images;
mod judge;
mod life;
pub(crate) mod media;
mod memory;
mod names;
pub mod outside;
#[cfg(feature = "mutants")]
pub mod planted;
mod read_back;
pub mod rng;
pub mod rot;
pub mod sketch;
mod sweep;
mod taken;

pub use disk::FaultKind;
pub use sweep::{FAULTS, OPENING_FAULTS, Swept, sweep};
pub use taken::taken;
