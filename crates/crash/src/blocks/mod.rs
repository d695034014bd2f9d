//! Crash tests at block level: the real program on ext4, xfs and btrfs of the running kernel.
//!
//! `event` is the record of the disk's requests, `file` the disk, `volume` the file system on it, `window` the states
//! that a crash may leave, `campaign` the search.

pub(crate) mod campaign;
pub(crate) mod event;
pub(crate) mod file;
pub(crate) mod volume;
pub(crate) mod window;
