//! Crash harness: runs the real program on recorded file systems and failing disks, and cuts the power.
//!
//! Runs the victim in child processes on file systems of its own making, cuts the power at every moment that the
//! record allows, and has the log's oracle judge each recovery. Linux, root and `/dev/fuse` are needed; parts that
//! cannot run are counted as skipped and printed.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod apart;
mod blocks;
mod bytes;
mod campaign_file;
mod codec;
mod directory_disk;
mod error;
mod faults;
mod files;
mod interrupt;
mod kill;
mod linux;
mod memory_disk;
mod plan;
mod report;
mod rules;
mod run;
mod scene;
mod second;
mod soak;
mod victim;
mod workload;

pub use linux::main;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A thread that panicked ends the run when it is joined, not here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
