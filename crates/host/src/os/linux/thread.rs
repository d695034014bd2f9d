//! Linux: reads the calling thread's CPU and run-queue wait times from `schedstat`.
//!
//! `/proc/thread-self/schedstat` (kernel `Documentation/scheduler/sched-stats.rst`) holds three numbers: time
//! on a CPU, time waiting on a run queue, both nanoseconds, and timeslices. The file is opened once a thread
//! and read again at offset 0.

pub(crate) use crate::os::unix::thread::{cpu_ns, process_cpu_ns};

use crate::os::unix::thread::usage;
use crate::thread::{Pinned, Times};
use rustix::thread::{CpuSet, sched_setaffinity};
use seawall_sys::{Error, Result};
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
    if cpu >= CpuSet::MAX_CPU {
        let absurd = io::Error::new(io::ErrorKind::InvalidInput, format!("there is no CPU {cpu}"));
        return Err(Error::new("sched_setaffinity", "thread", absurd));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    match sched_setaffinity(None, &set) {
        Ok(()) => Ok(Pinned::To(cpu)),
        Err(error) => Err(Error::new("sched_setaffinity", "thread", error.into())),
    }
}
