//! Tests of the log from outside, in one program: each file covers one part of the interface.

#[cfg(feature = "simulation")]
mod async_tasks;
mod async_use;
#[cfg(feature = "simulation")]
mod backup;
#[cfg(target_os = "linux")]
mod behaviour;
#[cfg(all(feature = "simulation", target_os = "linux"))]
mod claims;
mod concurrent_readers;
#[cfg(feature = "simulation")]
mod damage;
#[cfg(all(unix, feature = "simulation"))]
mod directory;
#[cfg(feature = "simulation")]
mod ending;
#[cfg(feature = "simulation")]
mod engines;
#[cfg(all(feature = "simulation", target_os = "linux"))]
mod follow;
#[cfg(feature = "simulation")]
mod format;
mod front_ends;
mod full;
mod golden_log;
#[cfg(all(feature = "simulation", target_os = "linux"))]
mod holes;
mod idle;
#[cfg(target_os = "linux")]
mod idle_memory;
mod log;
#[cfg(unix)]
mod model;
mod opening;
#[cfg(all(feature = "simulation", target_os = "linux"))]
mod own_files;
mod pin;
mod points;
mod positions;
mod probe;
#[cfg(all(feature = "simulation", target_os = "linux"))]
mod process_crash;
#[cfg(target_os = "linux")]
mod real_disk;
#[cfg(all(feature = "simulation", target_os = "linux"))]
mod relaxed;
mod retention;
#[cfg(feature = "simulation")]
mod salvage;
#[path = "../scratch/mod.rs"]
mod scratch;
mod sealed;
#[cfg(feature = "simulation")]
mod shown;
mod sizes;
#[cfg(any(unix, feature = "simulation"))]
mod stops;
mod streams;
mod telemetry;
#[cfg(all(feature = "simulation", target_os = "linux"))]
mod view_stream;
#[cfg(feature = "simulation")]
mod written;
