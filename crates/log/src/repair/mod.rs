//! What to do about a damaged log: list the damage, copy what is intact.
//!
//! * [`verify`](mod@verify) lists everything that is damaged;
//! * [`salvage`](mod@salvage) copies the intact records into a new log.
//!
//! Invariant: nothing is ever written to the damaged log.

pub(crate) mod salvage;
pub(crate) mod verify;
