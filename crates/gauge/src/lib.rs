//! Measures the latency and durability of each commit method on a disk, and judges and reports the results.
//!
//! The modules, in the order of a run:
//!
//! 1. [`scenario::settings`] defines the measurement and refuses an invalid one; [`preflight`] refuses what cannot
//!    be measured here; [`settle`] waits until a machine has forgotten other work.
//!    A [`workload`] is read from a file.
//! 2. [`testbed`] is the measured machine: the real one, or a simulated one with a virtual clock.
//! 3. [`scenario`] runs rounds of blocks over the methods in random order; [`measure`] is the one loop
//!    that commits and times.
//! 4. [`result`] holds environment, histograms and counters; it is written after every round. Scenarios other
//!    than `commit` put a self-describing table into it, the [`study`].
//! 5. [`evidence`], [`rank`], [`ranges`] and [`findings`] judge it; [`advise`] turns the best method into
//!    settings; [`require`] checks it against requirements.
//! 6. [`report`] prints it: table, Markdown, CSV, JSON, HTML; [`compare`] compares several.
//!
//! [`watch`] is apart from all this: short bursts of one method, for as long as they are wanted.
//!
//! Invariants: judging is pure and works equally on a result read back from its file; nothing is measured by one
//! module and named by another; a method that did not run is listed with its reason.

#![allow(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "nearly every function judges or prints without an effect: its result is why it is called"
)]

// Tests within the crate watch runs as those under tests do, with one file for both.
#[cfg(test)]
extern crate self as seawall_gauge;
#[cfg(test)]
#[path = "../tests/watcher/mod.rs"]
mod watcher;

pub mod advise;
pub mod block;
pub mod compare;
mod error;
pub mod evidence;
pub mod figures;
pub mod findings;
pub mod judgement;
pub mod latency;
pub(crate) mod lookup;
pub(crate) mod measure;
pub mod method_names;
pub mod preflight;
pub(crate) mod ranges;
pub mod rank;
pub mod report;
pub mod require;
pub mod result;
pub mod row;
#[cfg(all(test, target_os = "linux"))]
mod sample;
pub mod scenario;
pub mod settle;
pub(crate) mod stats;
pub mod study;
pub mod testbed;
pub mod watch;
pub mod workload;

pub use error::{Error, Result};
