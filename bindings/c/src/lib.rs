//! The C interface of Seawall: the log of the crate `seawall` behind opaque handles, numbers and codes.
//!
//! `include/seawall.h` is made from this crate and states what each function promises; `docs/c.md` shows how it is used. In
//! reading order:
//!
//! * [`codes`] is what calls return, and [`error`] the last error of each thread; no panic gets past it;
//! * [`pointers`] turns the pointers of a caller into references;
//! * [`options`], [`log`], [`stream`], [`cursor`], [`stats`], [`report`], [`view`], [`probe`] and [`queue`] are the functions;
//! * [`layout`] is the version, and how the structures lie in memory.
//!
//! Invariants: a function is defined for NULL and for a log that was closed; in a process that was forked off it fails; what a
//! caller gets is freed by the function that its text names.
#![allow(unsafe_code, reason = "the edge to callers in C")]
#![allow(clippy::missing_safety_doc, reason = "the head of the header says what each pointer must be")]

// In the order of the header; the empty lines keep it.
pub mod codes;

pub mod error;

pub mod layout;

pub mod options;

pub mod log;

pub mod stream;

pub mod cursor;

pub mod stats;

pub mod report;

pub mod view;

pub mod probe;

pub mod queue;

mod pointers;
