//! Reads the CPU clocks of the calling thread and of the process, and their usage by getrusage(2).

use crate::thread::Times;

/// CPU time of the calling thread: `clock_gettime(CLOCK_THREAD_CPUTIME_ID)`.
pub(crate) fn cpu_ns() -> Option<u64> {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of the process: `clock_gettime(CLOCK_PROCESS_CPUTIME_ID)`.
pub(crate) fn process_cpu_ns() -> Option<u64> {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read_clock(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live, writable structure of the right type.
    let code = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let (seconds, ns) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    (code == 0).then_some(seconds * 1_000_000_000 + ns)
}

/// CPU times and context switches so far of `whom`, a thread or the process; the wait for a CPU is not among them.
#[allow(dead_code, reason = "macOS knows no single thread here")]
pub(crate) fn usage(whom: libc::c_int) -> Times {
    // SAFETY: all zeros is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live, writable structure of the right type.
    let code = unsafe { libc::getrusage(whom, &raw mut usage) };
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
