//! illumos: reads the calling thread's CPU times and context switches by getrusage(3C) of the LWP.
//!
//! The wait for a CPU is a microstate that only `/proc` reports and this program does not read.

use crate::error::{Error, Result};
use crate::thread::{Pinned, Times};
use std::io;

/// The calling thread alone (`sys/resource.h`).
const RUSAGE_LWP: libc::c_int = 1;

/// The calling thread's accounts; there is nothing to hold open.
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
        // SAFETY: all zeros is a valid `rusage`.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live, writable structure of the right type.
        let code = unsafe { libc::getrusage(RUSAGE_LWP, &raw mut usage) };
        if code != 0 {
            return Times::default();
        }
        let ns = |time: libc::timeval| {
            u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
                + u64::try_from(time.tv_usec).unwrap_or(0) * 1000
        };
        Times {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            voluntary_switches: u64::try_from(usage.ru_nvcsw).ok(),
            involuntary_switches: u64::try_from(usage.ru_nivcsw).ok(),
            wait_ns: None,
        }
    }
}

pub(crate) fn pin(_: usize) -> Result<Pinned> {
    Err(Error::new("pin", "thread", io::ErrorKind::Unsupported.into()))
}
