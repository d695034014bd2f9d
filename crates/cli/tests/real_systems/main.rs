//! Tests the real program on real file systems, and its reports about file systems that ignore syncs.
//!
//! * [`calls`]: each method makes exactly the system calls that its row names (strace);
//! * [`crash_test`]: programs with a known verdict get it from `crash-test`, with the missing call;
//! * [`evidence`]: each method makes the device do what its reach demands (block counters of a loop device);
//! * [`lies`]: a file system or library that turns syncs into nothing is named, and classes are lowered;
//! * [`jvm`]: each row of a JVM makes its calls;
//! * [`scenarios`]: every scenario runs, counts correctly, and cleans up;
//! * [`log_faults`]: a call of the log that fails acknowledges nothing falsely (strace);
//! * [`everywhere`]: every scenario on ext4, xfs, btrfs and in memory, several side by side, and all at once;
//! * [`gates`]: no gate passes where figures are not a disk's; limits of control groups are read;
//! * [`nvme`]: rows that need FUA, poll queues or atomic writes make their calls and their drive's requests;
//! * [`others`]: what a user may do with another one's files;
//! * [`refusals`]: bad input ends with a message, an exit code, and no file left behind.
//!
//! Tests that need root or tools are `#[ignore]`d; `cargo xtask test` runs them, in a mount namespace of their own.
//! All assert counts, calls and messages, never latencies.
#![cfg(target_os = "linux")]

mod calls;
mod crash_test;
mod everywhere;
mod evidence;
mod gates;
mod ground;
mod jvm;
mod lies;
mod log_faults;
mod nvme;
mod others;
#[path = "../suite/path_table.rs"]
mod path_table;
mod program;
mod refusals;
mod scenarios;
mod trace;
