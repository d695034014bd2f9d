//! Does the real program keep its word on ext4, xfs and btrfs of the running kernel?
//!
//! `event` is the record of what a disk was told, `file` the disk, `volume` what is built on it, `window` the states
//! that a crash may leave, `campaign` the search.

pub(crate) mod campaign;
pub(crate) mod event;
pub(crate) mod file;
pub(crate) mod volume;
pub(crate) mod window;
