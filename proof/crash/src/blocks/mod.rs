//! Crash tests at block level: the real program on ext4, xfs and btrfs of the running kernel.
//!
//! `event` is a request to the disk, `record` keeps them, `file` is the disk, `volume` the file system on it, `window` the states
//! that a crash may leave, `campaign` the search.

pub(crate) mod campaign;
pub(crate) mod event;
pub(crate) mod file;
pub(crate) mod record;
pub(crate) mod volume;
pub(crate) mod window;
