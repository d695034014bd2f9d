//! illumos: reads the calling thread's CPU times and context switches by getrusage(3C) of the LWP.
//!
//! The wait for a CPU is a microstate that only `/proc` reports and this program does not read.

pub(crate) use crate::os::fallback::thread::{RunQueue, pin};
pub(crate) use crate::os::unix::thread::{cpu_ns, process_cpu_ns};

use crate::os::unix::thread::usage;
use crate::thread::Times;

/// The calling thread alone (`sys/resource.h`).
const RUSAGE_LWP: libc::c_int = 1;

pub(crate) fn times() -> Times {
    usage(RUSAGE_LWP)
}
