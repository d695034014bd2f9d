//! Windows: reads the calling thread's user and kernel time in units of 100 ns.
//!
//! The call is `GetThreadTimes`, in steps of the scheduler's tick. `QueryThreadCycleTime` is finer but counts cycles,
//! and Microsoft warns against turning them into time. The system reports no context switches and run-queue waits per
//! thread.

pub(crate) use crate::os::fallback::thread::RunQueue;

use crate::thread::{Pinned, Times};
use seawall_sys::{Error, Result};
use std::io;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::{GetCurrentThread, GetThreadTimes, SetThreadAffinityMask};

pub(crate) fn times() -> Times {
    let [mut created, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: takes nothing; gives a constant that stands for the calling thread.
    let thread = unsafe { GetCurrentThread() };
    // SAFETY: the four pointers are to live, writable structures of the right type.
    let known =
        unsafe { GetThreadTimes(thread, &raw mut created, &raw mut ended, &raw mut kernel, &raw mut user) };
    if known == 0 {
        return Times::default();
    }
    Times { user_ns: nanoseconds(user), system_ns: nanoseconds(kernel), ..Times::default() }
}

/// `GetThreadTimes` goes in steps of the tick, which is longer than any call.
pub(crate) fn cpu_ns() -> Option<u64> {
    None
}

/// So does `GetProcessTimes`.
pub(crate) fn process_cpu_ns() -> Option<u64> {
    None
}

fn nanoseconds(time: FILETIME) -> u64 {
    ((u64::from(time.dwHighDateTime) << 32) | u64::from(time.dwLowDateTime)) * 100
}

/// Pins the calling thread to `cpu` of its processor group: `SetThreadAffinityMask`.
pub(crate) fn pin(cpu: usize) -> Result<Pinned> {
    let mask = u32::try_from(cpu).ok().and_then(|cpu| 1_usize.checked_shl(cpu));
    let Some(mask) = mask else {
        let absurd =
            io::Error::new(io::ErrorKind::InvalidInput, format!("a processor group has no CPU {cpu}"));
        return Err(Error::new("SetThreadAffinityMask", "thread", absurd));
    };
    // SAFETY: takes nothing; gives a constant that stands for the calling thread.
    let thread = unsafe { GetCurrentThread() };
    // SAFETY: takes a handle and an integer; a wrong mask is an error, not undefined behaviour.
    let before = unsafe { SetThreadAffinityMask(thread, mask) };
    if before == 0 {
        return Err(Error::new("SetThreadAffinityMask", "thread", io::Error::last_os_error()));
    }
    Ok(Pinned::To(cpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::System::Threading::GetCurrentProcessorNumber;

    #[test]
    fn a_thread_stays_on_the_cpu_it_is_pinned_to() {
        let pinned = std::thread::spawn(|| {
            let pinned = pin(0)?;
            // SAFETY: takes nothing.
            Ok::<_, Error>((pinned, unsafe { GetCurrentProcessorNumber() }))
        });
        let (pinned, cpu) = pinned.join().expect("no panic").expect("CPU 0 is there");
        assert_eq!((pinned, cpu), (Pinned::To(0), 0));
    }

    #[test]
    fn a_file_time_is_in_units_of_100_ns() {
        assert_eq!(nanoseconds(FILETIME { dwLowDateTime: 3, dwHighDateTime: 1 }), ((1 << 32) + 3) * 100);
    }
}
