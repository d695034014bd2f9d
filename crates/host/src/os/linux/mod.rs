//! Linux: reads `/proc`, and sets apart, filters and follows programs.

#[cfg(feature = "testing")]
pub mod confinement;
pub mod isolation;
pub(crate) mod journal;
pub mod notification;
pub(crate) mod process;
pub mod ptrace;
pub mod seccomp;
pub(crate) mod thread;

pub(crate) use super::unix::is_same;
