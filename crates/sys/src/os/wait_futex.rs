//! How do threads sleep on a word where the system has a call for that?

pub(crate) use atomic_wait::{wait, wake_all, wake_one};
