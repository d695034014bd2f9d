//! macOS and illumos: reads the system's name and its load.

use crate::inspect::Pressure;
use std::ffi::CStr;

pub(crate) fn system() -> String {
    let name = rustix::system::uname();
    [name.sysname(), name.release(), name.machine()].map(CStr::to_string_lossy).join(" ")
}

/// The load averages; waiting and stolen time are not reported.
pub(crate) fn pressure() -> Pressure {
    let mut loads = [0.0];
    // SAFETY: the pointer is to room for the one number that is asked for.
    let count = unsafe { libc::getloadavg(loads.as_mut_ptr(), 1) };
    Pressure { load_1m: (count == 1).then_some(loads[0]), ..Pressure::default() }
}
