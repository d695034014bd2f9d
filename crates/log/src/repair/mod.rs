//! Checked copies: lists the damage of a log, copies its intact records, or copies all of it.
//!
//! * [`backup`](mod@backup) copies a log that may be open into one that continues it;
//! * [`verify`](mod@verify) lists everything that is damaged;
//! * [`salvage`](mod@salvage) copies the intact records into a new log;
//! * [`rebuild`](mod@rebuild) makes a log again from its batches, which another place holds;
//! * [`unfinished`] marks the folder in which that happens, which is no log before it is finished.
//!
//! Invariant: nothing is ever written to the log that is read.

pub(crate) mod backup;
pub(crate) mod rebuild;
pub(crate) mod salvage;
pub(crate) mod unfinished;
pub(crate) mod verify;
