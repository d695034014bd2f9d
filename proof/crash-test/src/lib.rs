//! Tests whether a program keeps what it acknowledged when the power fails.
//!
//! ```text
//!   program ──► recorder (FUSE) ──► Record ──► model + rules ──► states ──► check ──► findings ──► report
//! ```
//!
//! In reading order:
//! * [`call`] is what the recorder saw, [`tree`] a directory in memory, [`content`] what a file holds.
//! * `recorder` runs the program and records it.
//! * `model` says what of a record may have arrived on the disk, by the [`rule`] of a file system.
//! * [`membership`] decides whether a directory is one that a rule allows.
//! * [`search`] draws states in the order that finds faults first, and has each judged.
//! * `explain` shrinks a finding and names the missing call.
//! * [`check`] is what judges a state; [`progress`] ends it when the test is over.
//! * [`run`] is one crash test from recording to verdict, [`report`] its words, [`kept`] a finding in a folder.
//!
//! Invariant: a state is judged only against acknowledgements that were made before its power cut, and every state that a
//! rule other than POSIX allows is one that POSIX allows too.

// The recorder needs FUSE and seccomp, which only Linux has: elsewhere this crate is empty.
#![cfg(target_os = "linux")]

pub mod call;
pub mod check;
mod choices;
pub mod content;
mod error;
mod explain;
pub mod kept;
pub mod membership;
mod model;
pub mod progress;
pub mod recorder;
pub mod report;
mod roles;
pub mod rule;
pub mod run;
pub mod search;
pub mod tree;

pub use error::{Error, Result};
