//! macOS: reads the calling thread's user and system time in microseconds.
//!
//! The call is `thread_info` with `THREAD_BASIC_INFO`; the system reports no context switches and run-queue waits per
//! thread.

pub(crate) use crate::os::fallback::thread::{RunQueue, pin};
pub(crate) use crate::os::unix::thread::{cpu_ns, process_cpu_ns};

use crate::thread::Times;

pub(crate) fn times() -> Times {
    // SAFETY: all zeros is a valid `thread_basic_info`.
    let mut info: libc::thread_basic_info = unsafe { std::mem::zeroed() };
    let mut count = libc::THREAD_BASIC_INFO_COUNT;
    // SAFETY: takes nothing.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: the calling thread is alive; its port is borrowed and needs no release.
    let port = unsafe { libc::pthread_mach_thread_np(own) };
    let (flavor, target) = (libc::THREAD_BASIC_INFO.cast_unsigned(), (&raw mut info).cast());
    // SAFETY: the structure is live, and its size is passed with it, in the units that the call wants.
    let code = unsafe { libc::thread_info(port, flavor, target, &raw mut count) };
    if code != libc::KERN_SUCCESS {
        return Times::default();
    }
    let ns = |time: libc::time_value_t| {
        u64::try_from(time.seconds).unwrap_or(0) * 1_000_000_000
            + u64::try_from(time.microseconds).unwrap_or(0) * 1000
    };
    Times { user_ns: ns(info.user_time), system_ns: ns(info.system_time), ..Times::default() }
}
