//! A transaction log that commits at the raw speed of the disk and recovers the truth.
#![forbid(unsafe_code)]

mod buffer;
mod checksum;
mod core;
pub mod disk;
mod error;
mod executor;
pub mod format;
mod keeper;
mod lsn;
pub mod mutant;
#[cfg(feature = "simulation")]
pub mod oracle;
mod recovery;
mod scan;
mod seal;
mod shelf;
#[cfg(feature = "simulation")]
pub mod sim;
mod walk;

pub use error::{Damage, Error, Result};
pub use lsn::Lsn;
pub use recovery::Tail;
