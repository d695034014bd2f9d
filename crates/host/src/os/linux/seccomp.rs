//! Builds seccomp filters: calls by number that a tracer, a listener or an error number answers; all others run.
//!
//! Invariants: only calls of the native architecture are matched, because another one numbers its calls otherwise; the
//! program is complete before it is installed, so that a child between fork and exec installs it without allocating.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

#[cfg(target_arch = "x86_64")]
const NATIVE: Option<u32> = Some(0xC000_003E);
#[cfg(target_arch = "aarch64")]
const NATIVE: Option<u32> = Some(0xC000_00B7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NATIVE: Option<u32> = None;

/// Where a filter finds the parts of a call (`struct seccomp_data`).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The thread stops and its tracer is asked, with this number as the event message.
    Trace(u16),
    /// The holder of the listener is asked.
    Notify,
    /// The call fails with this error number.
    Errno(u16),
}

impl Action {
    fn answer(self) -> u32 {
        match self {
            Self::Trace(data) => libc::SECCOMP_RET_TRACE | u32::from(data),
            Self::Notify => libc::SECCOMP_RET_USER_NOTIF,
            Self::Errno(errno) => libc::SECCOMP_RET_ERRNO | u32::from(errno),
        }
    }
}

/// A call and what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number, as `libc::SYS_*` has it.
    pub call: libc::c_long,
    /// Only calls of which this argument (from 0) has one of these bits; `None`: all.
    pub when: Option<(u8, u32)>,
    /// What happens to it.
    pub action: Action,
}

/// A filter that is ready to be installed.
#[derive(Clone, Debug)]
pub struct Filter(Vec<libc::sock_filter>);

/// One step of a filter (`linux/filter.h`).
#[allow(clippy::cast_possible_truncation, reason = "the codes have eight bits")]
const fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

const fn load(offset: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

const fn answer(with: u32) -> libc::sock_filter {
    step(libc::BPF_RET | libc::BPF_K, with, 0, 0)
}

impl Filter {
    /// A filter of these rows, of which the first that matches counts. On an architecture other than `x86_64` and
    /// `aarch64` installing it fails.
    #[must_use]
    pub fn new(rows: &[Row]) -> Self {
        let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let has_bits = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
        let Some(native) = NATIVE else { return Self(Vec::new()) };
        let allow = answer(libc::SECCOMP_RET_ALLOW);
        let mut steps = vec![load(ARCHITECTURE), step(equals, native, 1, 0), allow, load(NUMBER)];
        for row in rows {
            // No call has a number of more bits.
            let Ok(call) = u32::try_from(row.call) else { continue };
            let action = answer(row.action.answer());
            match row.when {
                None => steps.extend([step(equals, call, 0, 1), action]),
                Some((argument, bits)) => steps.extend([
                    step(equals, call, 0, 4),
                    load(
                        ARGUMENTS + 8 * u32::from(argument) + if cfg!(target_endian = "big") { 4 } else { 0 },
                    ),
                    step(has_bits, bits, 0, 1),
                    action,
                    load(NUMBER),
                ]),
            }
        }
        steps.push(allow);
        Self(steps)
    }

    /// Installs it for the calling thread and what it starts, for good; safe between fork and exec.
    ///
    /// # Errors
    /// The system's, of prctl(2) or seccomp(2).
    pub fn install(&self) -> io::Result<()> {
        self.set(0).map(|_| ())
    }

    /// Installs it like [`Filter::install`]; gives the descriptor that [`Action::Notify`] calls are read from.
    pub(crate) fn install_with_listener(&self) -> io::Result<OwnedFd> {
        let descriptor = self.set(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
        // SAFETY: the call made this descriptor, and nothing else holds it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    fn set(&self, flags: libc::c_ulong) -> io::Result<libc::c_int> {
        let Ok(len) = u16::try_from(self.0.len()) else { return Err(io::ErrorKind::InvalidInput.into()) };
        if len == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let program = libc::sock_fprog { len, filter: self.0.as_ptr().cast_mut() };
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        let install = || {
            // SAFETY: the program and its steps outlive the call, which copies them and writes nothing.
            unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) }
        };
        let mut code = install();
        // Who has no CAP_SYS_ADMIN has to give up set-uid programs for it.
        if code == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EACCES) {
            rustix::thread::set_no_new_privs(true)?;
            code = install();
        }
        match libc::c_int::try_from(code) {
            Ok(code) if code >= 0 => Ok(code),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(call: libc::c_long, argument: libc::c_long) -> Option<i32> {
        // SAFETY: getpriority takes integers only.
        let code = unsafe { libc::syscall(call, argument, 0) };
        (code == -1).then(|| io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// In a thread of its own: a filter stays.
    #[test]
    fn a_row_answers_its_call_and_no_other() {
        let thread = std::thread::spawn(|| {
            let rows = [
                Row { call: libc::SYS_getppid, when: None, action: Action::Errno(77) },
                Row { call: libc::SYS_getpriority, when: Some((0, 1)), action: Action::Errno(78) },
                Row { call: libc::SYS_getpgid, when: None, action: Action::Errno(79) },
            ];
            Filter::new(&rows).install().expect("a filter");
            let calls = [
                (libc::SYS_getppid, 0),
                (libc::SYS_getpriority, 1),
                (libc::SYS_getpriority, 2),
                (libc::SYS_getpgid, 0),
                (libc::SYS_getuid, 0),
            ];
            calls.map(|(call, argument)| refused(call, argument))
        });
        assert_eq!(thread.join().expect("ends"), [Some(77), Some(78), None, Some(79), None]);
    }
}
