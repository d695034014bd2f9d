//! illumos: reads the thread's accounts; the rest is as on every Unix.

pub(crate) mod journal;
pub(crate) mod thread;

pub(crate) use super::unix::{is_same, process};
