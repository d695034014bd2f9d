//! Tests of the log from outside, in one program: each file covers one part of the interface.
#![cfg(feature = "simulation")]

mod async_tasks;
mod async_use;
mod backup;
#[cfg(target_os = "linux")]
mod behaviour;
#[cfg(target_os = "linux")]
mod claims;
mod concurrent_readers;
mod damage;
#[cfg(unix)]
mod directory;
mod ending;
mod engines;
mod failures;
mod fixture;
#[cfg(target_os = "linux")]
mod follow;
mod format;
mod front_ends;
mod full;
mod golden_log;
#[cfg(target_os = "linux")]
mod holes;
mod idle;
#[cfg(target_os = "linux")]
mod idle_memory;
mod log;
#[cfg(unix)]
mod model;
mod opening;
#[cfg(target_os = "linux")]
mod own_files;
mod pin;
mod points;
mod positions;
mod probe;
#[cfg(target_os = "linux")]
mod process_crash;
#[cfg(target_os = "linux")]
mod real_disk;
#[cfg(target_os = "linux")]
mod relaxed;
mod retention;
mod salvage;
mod sealed;
mod shown;
mod sizes;
mod streams;
mod telemetry;
#[cfg(target_os = "linux")]
mod view_stream;
mod written;
