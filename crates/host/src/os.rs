//! Selects the operating system's implementation: each system's folder provides the same items, the rows of this table.
//!
//! | item | purpose | linux | windows | macos | illumos |
//! | --- | --- | --- | --- | --- | --- |
//! | `confinement` | forbids `io_uring` (feature `testing`) | own | none | none | none |
//! | `is_same` | whether two open files are one | unix | fallback | unix | unix |
//! | `isolation`, `notification`, `seccomp` | commands set apart, and their calls filtered and answered | own | none | none | none |
//! | `journal` | reserves and zeroes the journal's blocks, evicts it from the cache | own | own | own | own |
//! | `process` | what this process takes, and how signals reach it | own | own | unix | unix |
//! | `ptrace` | follows a program and its children | own | none | none | none |
//! | `thread` | the calling thread's CPU and waiting time | own | own | own | own |
//!
//! `unix` holds what the three Unix systems share, `fallback` the refusals and substitutes of systems that lack something.
//!
//! Invariant: `unsafe` and `cfg(target_os)` appear below this file, and the latter where `lib.rs` passes Linux' items on.

#![allow(unsafe_code, reason = "the one home of system calls; each block states why it is sound")]

#[cfg_attr(target_os = "linux", path = "os/linux/mod.rs")]
#[cfg_attr(windows, path = "os/windows/mod.rs")]
#[cfg_attr(target_os = "macos", path = "os/macos/mod.rs")]
#[cfg_attr(target_os = "illumos", path = "os/illumos/mod.rs")]
mod system;

#[allow(
    dead_code,
    clippy::unnecessary_wraps,
    reason = "a system takes what it lacks, in the shape of the others"
)]
mod fallback;
#[cfg(unix)]
mod unix;

#[cfg(all(target_os = "linux", feature = "testing"))]
pub use system::confinement;
pub(crate) use system::{is_same, journal, process, thread};
#[cfg(target_os = "linux")]
pub use system::{isolation, notification, ptrace, seccomp};
