//! Selects the operating system's implementation; every folder below offers the same items.
//!
//! | item | meaning |
//! | --- | --- |
//! | `SYSTEM` | the rows of the method table that run here |
//! | `open` | a row, turned into a [`crate::Commit`] |
//! | `directory` | a directory held by a handle |
//! | `fork` | whether this process was forked off another one |
//! | `journal` | making and inspecting the journal file |
//! | `inspect` | what is under a path |
//! | `is_block_device` | whether metadata are a raw device's |
//! | `rings` | `io_uring` for a log |
//! | `counters` | the block devices' counters |
//! | `flush` | syncing through a descriptor of its own |
//! | `residency` | what is in the page cache |
//! | `wait` | sleeping until a word changes |
//! | `memory` | hints to the kernel about a buffer |
//! | `prefetch` | hints to the processor about a buffer |
//! | `raw_device` | processes and mounts that use a block device |
//! | `zeroed` | memory that may not be there |
//! | `process` | processes that outlive their starter |
//! | `scratch` | a folder that only this user reaches |
//! | `thread` | the kernel's accounts of the calling thread |
//!
//! Invariant: `unsafe` and `cfg(target_os)` appear below this file and nowhere else in Seawall.

#![allow(unsafe_code, reason = "the one home of system calls; each block states why it is sound")]

#[cfg(target_os = "linux")]
#[path = "os/wait_futex.rs"]
pub(crate) mod wait;
#[cfg(any(target_os = "macos", windows))]
#[path = "os/wait_address.rs"]
pub(crate) mod wait;
#[cfg(target_os = "illumos")]
#[path = "os/wait_condition.rs"]
pub(crate) mod wait;
// What illumos waits with is tested wherever tests run.
#[cfg(all(test, not(target_os = "illumos")))]
#[allow(dead_code, reason = "compiled for its own test")]
mod wait_condition;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub(crate) use unix::{cpu_ns, is_block_device, open_file, outlive_the_file_size_limit, process_cpu_ns};

#[cfg(unix)]
#[path = "os/store_unix.rs"]
pub(crate) mod store;
#[cfg(windows)]
#[path = "os/store_windows.rs"]
pub(crate) mod store;

#[cfg(unix)]
#[path = "os/directory_unix.rs"]
pub(crate) mod directory;
#[cfg(windows)]
#[path = "os/directory_windows.rs"]
pub(crate) mod directory;

#[cfg(unix)]
#[path = "os/fork_unix.rs"]
pub(crate) mod fork;
#[cfg(not(unix))]
#[path = "os/no_fork.rs"]
pub(crate) mod fork;

#[cfg(unix)]
#[path = "os/flush_unix.rs"]
pub(crate) mod flush;
#[cfg(windows)]
#[path = "os/flush_windows.rs"]
pub(crate) mod flush;

#[cfg(target_os = "linux")]
#[path = "os/linux/memory.rs"]
pub(crate) mod memory;
#[cfg(not(target_os = "linux"))]
#[path = "os/no_memory_advice.rs"]
pub(crate) mod memory;

pub(crate) mod prefetch;
pub(crate) mod zeroed;

#[cfg(any(target_os = "macos", target_os = "illumos"))]
mod posix;

#[cfg(not(target_os = "linux"))]
mod cpuid;

#[cfg(not(target_os = "linux"))]
pub(crate) mod no_counters;

#[cfg(not(target_os = "linux"))]
#[path = "os/no_residency.rs"]
pub(crate) mod residency;

/// pwritev2(2) without flags; `None` where there is no such call.
#[cfg(not(target_os = "linux"))]
pub(crate) const WRITE_VECTOR: Option<crate::write_call::Put> = None;

#[cfg(not(target_os = "linux"))]
#[path = "os/no_process.rs"]
pub(crate) mod process;

#[cfg(unix)]
mod scratch_unix;

#[cfg(not(target_os = "linux"))]
#[path = "os/no_scratch.rs"]
pub(crate) mod scratch;

#[cfg(not(target_os = "linux"))]
#[path = "os/no_raw_device.rs"]
pub(crate) mod raw_device;

#[cfg(not(target_os = "linux"))]
#[path = "os/no_rings.rs"]
pub(crate) mod rings;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{
    SYSTEM, WRITE_VECTOR, counters, inspect, journal, open, process, raw_device, residency, rings, scratch,
    thread,
};

/// Mistakes made on purpose, for crash harnesses that must catch them; empty where there are none.
#[cfg(feature = "testing")]
pub mod mistakes {
    #[cfg(target_os = "linux")]
    pub use super::linux::unlinked::UnlinkedRing;
}

/// What forbids parts of the system to a thread, for tests of what happens then; empty where there is nothing.
#[cfg(feature = "testing")]
pub mod confinement {
    #[cfg(target_os = "linux")]
    pub use super::linux::confined::forbid_io_uring;
}

/// `GetThreadTimes` goes in steps of the tick, which is longer than any call.
#[cfg(windows)]
pub(crate) fn cpu_ns() -> Option<u64> {
    None
}
/// There is no such limit.
#[cfg(windows)]
pub(crate) fn outlive_the_file_size_limit() {}
/// So does `GetProcessTimes`.
#[cfg(windows)]
pub(crate) fn process_cpu_ns() -> Option<u64> {
    None
}

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use windows::{SYSTEM, counters, inspect, is_block_device, journal, open, open_file, thread};

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(crate) use macos::{SYSTEM, counters, inspect, journal, open, thread};

#[cfg(target_os = "illumos")]
mod illumos;
#[cfg(target_os = "illumos")]
pub(crate) use illumos::{SYSTEM, counters, inspect, journal, open, thread};

#[cfg(not(any(target_os = "linux", windows, target_os = "macos", target_os = "illumos")))]
compile_error!(
    "Seawall knows Linux, Windows, macOS and illumos; add a folder under os/ and a table in methods.rs"
);
