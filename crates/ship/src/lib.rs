//! Commits of a Seawall log that outlive this machine.
pub mod archive;
pub mod destination;
pub mod error;
pub mod failure;
pub mod folder;
pub mod message;
pub mod note;
pub mod restore;
pub mod shipping;
pub mod writer;

pub use error::{Cause, Error, Result};
pub use failure::{Facts, Failure, Synced};
