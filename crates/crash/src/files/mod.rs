//! Does the real program keep its word on any file system that POSIX allows?
//!
//! `directory` is where the victim works and what it did is written down, `event` the record, `model` what may be
//! there after a crash, `disk` where the log recovers it, `campaign` the search.

pub(crate) mod campaign;
pub(crate) mod directory;
pub(crate) mod disk;
pub(crate) mod event;
mod model;

pub(crate) use model::Rule;
