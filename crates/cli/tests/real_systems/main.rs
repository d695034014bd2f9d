//! Does the real program keep its word on real file systems, and say so when they do not keep theirs?
//!
//! * [`calls`]: each method makes exactly the system calls that its row names (strace);
//! * [`evidence`]: each method makes the device do what its depth demands (block counters of a loop device);
//! * [`lies`]: a file system or library that turns syncs into nothing is named, and classes are lowered;
//! * [`jvm`]: each row of a JVM makes its calls, and what is missing is told;
//! * [`scenarios`]: every scenario runs, counts what it says, and cleans up;
//! * [`log_faults`]: a call of the log that fails acknowledges nothing falsely (strace);
//! * [`everywhere`]: every scenario on ext4, xfs, btrfs and in memory, several side by side, and all at once;
//! * [`refusals`]: bad input ends with a message, an exit code, and no file left behind.
//!
//! Tests that need root or tools are ignored by their own word; `cargo xtask test` runs them, in a mount
//! namespace of their own. All assert counts, calls and words, never latencies.
#![cfg(target_os = "linux")]

mod calls;
mod everywhere;
mod evidence;
mod ground;
mod jvm;
mod lies;
mod log_faults;
mod program;
mod refusals;
mod scenarios;
mod trace;
