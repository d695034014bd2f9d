//! Linux: reads the calling thread's CPU and run-queue wait times from `schedstat`.
//!
//! `/proc/thread-self/schedstat` (kernel `Documentation/scheduler/sched-stats.rst`) holds three numbers: time
//! on a CPU, time waiting on a run queue, both nanoseconds, and timeslices. The file is opened once a thread
//! and read again at offset 0.

use crate::error::{Error, Result};
use crate::thread::{Pinned, Times};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The calling thread's accounts, held open.
pub(crate) struct Accounts {
    schedstat: Option<File>,
}

impl Accounts {
    /// Opens the calling thread's accounts; they must be read by the same thread.
    pub(crate) fn open() -> Self {
        Self { schedstat: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// Run-queue wait so far, nanoseconds; `None` where the kernel was built without it.
    pub(crate) fn wait_ns(&self) -> Option<u64> {
        let mut text = [0; 96];
        let read = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..read]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    /// CPU time and context switches so far: getrusage(2) with `RUSAGE_THREAD`.
    pub(crate) fn times(&self) -> Times {
        // SAFETY: all zeros is a valid `rusage`.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live, writable structure of the right type.
        let code = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
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
            wait_ns: self.wait_ns(),
        }
    }
}

/// Pins the calling thread to `cpu`: `sched_setaffinity(2)`.
pub(crate) fn pin(cpu: usize) -> Result<Pinned> {
    if cpu >= 1024 {
        let absurd = io::Error::new(io::ErrorKind::InvalidInput, format!("there is no CPU {cpu}"));
        return Err(Error::new("sched_setaffinity", "thread", absurd));
    }
    // SAFETY: all zeros is a valid, empty CPU set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below the 1,024 bits of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is live and its size is passed with it; 0 means the calling thread.
    let code = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if code == 0 { Ok(Pinned::To(cpu)) } else { Err(Error::last_os("sched_setaffinity", "thread")) }
}
