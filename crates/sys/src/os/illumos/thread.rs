//! What has the kernel counted for the calling thread? Here: nothing that this program reads.

use crate::error::{Error, Result};
use crate::thread::{Pinned, Times};
use std::io;

/// No accounts are kept per thread in a form that costs little enough to read.
pub(crate) struct Accounts;

impl Accounts {
    pub(crate) fn open() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the same shape on every system")]
    pub(crate) fn wait_ns(&self) -> Option<u64> {
        None
    }

    #[expect(clippy::unused_self, reason = "the same shape on every system")]
    pub(crate) fn times(&self) -> Times {
        Times::default()
    }
}

pub(crate) fn pin(_: usize) -> Result<Pinned> {
    Err(Error::new("pin", "thread", io::ErrorKind::Unsupported.into()))
}
