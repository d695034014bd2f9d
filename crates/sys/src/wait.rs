//! Blocks a thread until a word changes, and wakes it, for one system call each.
//!
//! Linux, macOS and Windows wait on an address in memory (futex(2) and its kin); illumos has no such call, so there
//! one lock and one condition variable serve all words, and every waiter wakes.
//!
//! Invariant: [`wait`] may return without cause, so its caller checks the word again; a wake after the change of the
//! word is never lost.

use std::sync::atomic::AtomicU32;

/// Sleeps while `word` holds `value`, until woken. May return early.
#[inline]
pub fn wait(word: &AtomicU32, value: u32) {
    imp::wait(word, value);
}

/// Wakes one thread that waits on `word`, if any. On systems without such a call: all that wait on any word.
#[inline]
pub fn wake_one(word: &AtomicU32) {
    imp::wake_one(word);
}

/// Wakes all threads that wait on `word`.
#[inline]
pub fn wake_all(word: &AtomicU32) {
    imp::wake_all(word);
}

use crate::os::wait as imp;
