//! Repair of a damaged log: list the damage, copy the intact records.
//!
//! * [`verify`](mod@verify) lists everything that is damaged;
//! * [`salvage`](mod@salvage) copies the intact records into a new log.
//!
//! Invariant: nothing is ever written to the damaged log.

pub(crate) mod salvage;
pub(crate) mod verify;
