//! Seawall's operating-system layer: commit methods, durability classes, storage inspection and clocks.
//!
//! * [`methods`] is the table of commit methods: how each opens, writes and syncs. Data, for every system.
//! * [`method`] defines the parts of a row of that table, and how deep its calls reach.
//! * [`durability`] computes what an acknowledged write outlives, from a row and its surroundings.
//! * [`commit`] runs a row: [`open`] gives a [`CommitHandle`], the very code that gauge and log both use.
//! * [`completion`] decides what the completions of a batch mean, for calls, rings and simulated disks.
//! * [`engine`] lists the I/O engines, and sets one up for a log.
//! * [`layout`] reads where a file's bytes lie, and which of the file states that shows.
//! * [`inspect`] describes the machine: path, file system, device stack, write caches, lies.
//! * [`raw_device`] opens an unused block device exclusively, to overwrite it.
//! * [`counters`] reads what the device and the kernel counted.
//! * [`clock`] is the only clock.
//! * [`flush`] syncs through a descriptor of its own; [`write_call`] writes without syncing, call by call;
//!   [`residency`] reports what is in the page cache: for the gauge's scenarios.
//! * [`directory`] holds a directory by a handle, so that no file of it is looked for elsewhere.
//! * [`fork`] distinguishes a process from those forked off it.
//! * [`store`] is the log's access to its directory apart from commits.
//! * [`scratch`] holds temporary files in a private folder.
//! * [`shared_memory`] shares words between processes, on which they sleep.
//! * [`crash_memory`] is memory that outlives its process.
//! * [`thread`] keeps a thread from being cancelled in a call.
//! * [`chance`] is a seeded random generator, the same on every machine.
//! * `skip` reports tests that cannot run here (feature `testing`).
//! * [`local_socket`] connects processes of this machine.
//! * [`signal`] is a descriptor that event loops wait for.
//! * [`wait`] lets a thread sleep until a word changes.
//! * `os` holds the system calls, one folder a system; which one is compiled is decided in `os.rs`.
//!
//! Invariants: every return code is checked; no method runs under another's name; what a system or file
//! system lacks is [`Unavailable`] with a reason, never a silent substitute.

pub mod buffer;
pub mod chance;
pub mod clock;
pub mod commit;
pub mod completion;
pub mod counters;
pub mod crash_memory;
pub mod directory;
pub mod durability;
pub mod engine;
mod error;
pub mod flush;
pub mod fork;
pub mod inspect;
pub mod layout;
pub mod local_socket;
pub mod method;
pub mod methods;
mod os;
#[cfg(feature = "mutants")]
pub mod planted;
#[cfg(not(feature = "mutants"))]
mod planted;
pub mod raw_device;
pub mod residency;
pub mod scratch;
pub mod shared_memory;
pub mod signal;
#[cfg(any(test, feature = "testing"))]
pub mod skip;
pub mod store;
pub mod thread;
pub mod wait;
pub mod write_call;
#[cfg(feature = "mutants")]
mod wrong;

pub use commit::{BatchWrite, CommitHandle, NumberedBuffer, OpenError, Target, Unavailable, open, prove};
pub use directory::{Directory, Permissions};
pub use engine::Engine;
pub use error::{Error, Result};
pub use method::Method;
#[cfg(feature = "testing")]
pub use os::mistakes;

/// A folder beside the test's binary: the sources may be read-only, and the system's folder for such may lie in memory.
#[cfg(all(test, target_os = "linux"))]
fn test_folder() -> tempfile::TempDir {
    let binary = std::env::current_exe().expect("a test has a binary");
    tempfile::tempdir_in(binary.parent().expect("it lies in a folder")).expect("a folder beside the binary")
}
