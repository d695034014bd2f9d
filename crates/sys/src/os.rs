//! Selects the operating system's implementation: each system's folder provides the same items, the rows of this table.
//!
//! | item | purpose | linux | windows | macos | illumos |
//! | --- | --- | --- | --- | --- | --- |
//! | `SYSTEM` | the system's rows of the method table | own | own | own | own |
//! | `DEVICE_ERRORS` | the error numbers of a failing device | unix | own | unix | unix |
//! | `open` | opens a row as a [`crate::CommitHandle`] | own | own | own | own |
//! | `open_file`, `is_block_device` | opens the journal; recognises a raw device | unix | own | unix | unix |
//! | `SYNC_CALLS`, `open_to_sync` | the calls that sync a whole file, on a descriptor of its own | own, unix | own | own, unix | own, unix |
//! | `WRITE_VECTOR` | pwritev2(2) | own | fallback | fallback | fallback |
//! | `mistakes` | an `io_uring` used wrongly, for crash harnesses (feature `testing`) | own | fallback | fallback | fallback |
//! | `counters` | the block devices' counters | own | fallback | fallback | fallback |
//! | `directory` | a directory held by a handle | unix | own | unix | unix |
//! | `fork` | counts the forks above this process | unix | fallback | unix | unix |
//! | `inspect` | the machine, file system and devices under a path | own | own | own | own |
//! | `layout` | maps out a file's blocks | own | fallback | fallback | fallback |
//! | `local_socket` | connects processes by a socket in a directory | unix | fallback | unix | unix |
//! | `memory` | advises the kernel about a buffer, gives its pages back | own | fallback | fallback | fallback |
//! | `raw_device` | processes and mounts that use a block device | own | fallback | fallback | fallback |
//! | `residency` | what is in the page cache | own | fallback | fallback | fallback |
//! | `rings` | `io_uring` for a log | own | fallback | fallback | fallback |
//! | `scratch` | a folder that only this user can reach | own | fallback | posix | posix |
//! | `crash_memory` | memory that outlives its process | own | fallback | fallback | fallback |
//! | `shared_memory` | words that processes share and sleep on | own | fallback | fallback | fallback |
//! | `signal` | a descriptor that event loops wait for | unix | fallback | unix | unix |
//! | `store` | a log's reads, reservations and directory syncs | own | own | posix | posix |
//! | `thread` | forbids the cancellation of the calling thread | unix | fallback | unix | unix |
//! | `wait` | blocks a thread until a word changes | own | `atomic-wait` | `atomic-wait` | fallback |
//!
//! `unix` holds what the three Unix systems share, `posix` what macOS and illumos share, `fallback` the refusals and
//! substitutes of systems that lack something. `buffer` and `mapping` are the same on every system.
//!
//! Invariant: `unsafe` and `cfg(target_os)` appear below this file and nowhere else in this crate.

#![allow(unsafe_code, reason = "the one home of system calls; each block states why it is sound")]

#[cfg_attr(target_os = "linux", path = "os/linux/mod.rs")]
#[cfg_attr(windows, path = "os/windows/mod.rs")]
#[cfg_attr(target_os = "macos", path = "os/macos/mod.rs")]
#[cfg_attr(target_os = "illumos", path = "os/illumos/mod.rs")]
mod system;

pub(crate) mod buffer;
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::missing_errors_doc,
    clippy::needless_arbitrary_self_type,
    clippy::unnecessary_wraps,
    clippy::unused_self,
    reason = "a system takes what it lacks, in the shape of the others"
)]
mod fallback;
#[allow(dead_code, reason = "macOS and illumos have no mapped rows")]
mod mapping;
#[cfg(all(unix, not(target_os = "linux")))]
mod posix;
#[cfg(unix)]
mod unix;

#[cfg(feature = "testing")]
pub use system::mistakes;
pub(crate) use system::{
    DEVICE_ERRORS, SYNC_CALLS, SYSTEM, WRITE_VECTOR, counters, crash_memory, directory, fork, inspect,
    is_block_device, layout, local_socket, memory, open, open_file, open_to_sync, raw_device, residency,
    rings, scratch, shared_memory, signal, store, thread, wait,
};
