//! Linux: waits on an address by futex(2), private to the process.
//!
//! Invariant: whatever the call returns (woken, another value, a signal), the caller reads the word again.

use std::ptr::null;
use std::sync::atomic::AtomicU32;

const WAIT: libc::c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;

pub(crate) fn wait(word: &AtomicU32, value: u32) {
    let timeout = null::<libc::timespec>();
    // SAFETY: the word outlives the call, which only reads it; the types are those of the man page.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), WAIT, value, timeout) };
}

pub(crate) fn wake_one(word: &AtomicU32) {
    wake(word, 1);
}

pub(crate) fn wake_all(word: &AtomicU32) {
    // The kernel takes the number as a signed one.
    wake(word, i32::MAX.unsigned_abs());
}

fn wake(word: &AtomicU32, threads: u32) {
    // SAFETY: the kernel takes the address of the word and does not touch what is there.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), WAKE, threads) };
}
