//! Answers system calls of another process that a seccomp filter hands to a listener.

use crate::os::unix::check;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`.
const MADE: u32 = 1;

/// `sync(2)`.
pub const SYNC: libc::c_long = libc::SYS_sync;
/// `syncfs(2)`.
pub const SYNCFS: libc::c_long = libc::SYS_syncfs;

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    id: u64,
    /// The thread that made it, as this process sees it.
    pub thread: u32,
    /// Its number, as `libc::SYS_*` has it.
    pub call: libc::c_long,
    /// Its first argument.
    pub argument: u64,
}

/// The next call; nothing if the one that was there has been given up meanwhile.
///
/// # Errors
/// The system's.
pub fn next(listener: &OwnedFd) -> io::Result<Option<Notification>> {
    // SAFETY: the kernel wants it filled with zeros, which are valid for integers.
    let mut notification: libc::seccomp_notif = unsafe { MaybeUninit::zeroed().assume_init() };
    let request = request(0, size_of::<libc::seccomp_notif>(), 3);
    // SAFETY: the kernel fills in a value of this size.
    let code = unsafe { libc::ioctl(listener.as_raw_fd(), request as _, &raw mut notification) };
    match check(code) {
        Ok(()) => Ok(Some(Notification {
            id: notification.id,
            thread: notification.pid,
            call: notification.data.nr.into(),
            argument: notification.data.args[0],
        })),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lets the call return 0 without being made, or be made after all.
///
/// # Errors
/// The system's; not that the caller is gone.
pub fn answer(listener: &OwnedFd, notification: &Notification, made: bool) -> io::Result<()> {
    // SAFETY: zeros are valid for integers.
    let mut response: libc::seccomp_notif_resp = unsafe { MaybeUninit::zeroed().assume_init() };
    response.id = notification.id;
    if made {
        response.flags = MADE;
    }
    let request = request(1, size_of::<libc::seccomp_notif_resp>(), 3);
    // SAFETY: the kernel reads a value of this size.
    let code = unsafe { libc::ioctl(listener.as_raw_fd(), request as _, &raw mut response) };
    match check(code) {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
        _ => Ok(()),
    }
}

/// The number of a request to a listener (`linux/seccomp.h`): its own number, the size of its value, read and write.
const fn request(number: u64, bytes: usize, directions: u64) -> u64 {
    (directions << 30) | ((bytes as u64) << 16) | ((b'!' as u64) << 8) | number
}
