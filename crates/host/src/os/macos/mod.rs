//! macOS: reads the thread's accounts; the rest is as on every Unix.

pub(crate) mod journal;
pub(crate) mod thread;

pub(crate) use super::fallback::{WRITE_VECTOR, raw_device};
pub(crate) use super::unix::{is_same, open_to_sync, process, write_at};

pub(crate) const SYNC_CALLS: &[crate::flush::SyncCall] = &[super::unix::FSYNC];
