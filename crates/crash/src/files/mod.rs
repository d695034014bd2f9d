//! Crash tests at file level: the real program on any file system that POSIX allows.
//!
//! `directory` is where the victim works and is recorded, `event` the record, `model` the possible contents after a
//! crash, `disk` where the log recovers an image, `campaign` the search.

pub(crate) mod campaign;
pub(crate) mod directory;
pub(crate) mod disk;
pub(crate) mod event;
mod model;

pub(crate) use model::Rule;
