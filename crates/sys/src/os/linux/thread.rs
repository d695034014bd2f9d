//! Linux: reads the calling thread's CPU and run-queue wait times from `schedstat`.
//!
//! `/proc/thread-self/schedstat` (kernel `Documentation/scheduler/sched-stats.rst`) holds three numbers: time
//! on a CPU, time waiting on a run queue, both nanoseconds, and timeslices. The file is opened once a thread
//! and read again at offset 0.

pub(crate) use crate::os::unix::thread::{CancelState, cpu_ns, process_cpu_ns};

use crate::error::{Error, Result};
use crate::os::unix::thread::usage;
use crate::thread::{Pinned, Times};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

pub(crate) struct RunQueue {
    schedstat: Option<File>,
}

impl RunQueue {
    pub(crate) fn open() -> Self {
        Self { schedstat: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// `None` where the kernel was built without it.
    pub(crate) fn wait_ns(&self) -> Option<u64> {
        let mut text = [0; 96];
        let read = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..read]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

pub(crate) fn times() -> Times {
    usage(libc::RUSAGE_THREAD)
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
