//! What the commands and the gauge need of the machine that the log does not.
//!
//! * [`output`] writes what a command puts out where no other user can divert it.
//! * [`journal`] makes the file that is written to, in one of the five file states.
//! * [`text`] shows text of unknown origin without obeying it.
//! * [`starting_line`] lets threads begin together.
//! * [`thread`] reads a thread's CPU time and waiting time.
//! * [`process`] reads what this process takes, and sets how signals reach it and what it starts.
//! * [`jdk`] finds the JDKs of this machine.
//! * [`machine`] says whether an address leads to this machine.
//! * `isolation` sets a command apart; `seccomp` filters its system calls, `notification` answers them, `ptrace` follows a
//!   program and its children (Linux).
//! * `confinement` forbids `io_uring` (Linux, feature `testing`).
//! * `os` holds the system calls, one folder a system; which one is compiled is decided in `os.rs`.
//!
//! Invariants: as those of [`seawall_sys`].

pub mod jdk;
pub mod journal;
pub mod machine;
mod os;
pub mod output;
pub mod process;
pub mod starting_line;
pub mod text;
pub mod thread;

#[cfg(all(target_os = "linux", feature = "testing"))]
pub use os::confinement;
#[cfg(target_os = "linux")]
pub use os::{isolation, notification, ptrace, seccomp};
