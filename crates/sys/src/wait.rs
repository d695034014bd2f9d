//! How does a thread sleep until a word changes, at no cost to those who do not sleep?

use crate::os::wait as os;
use std::sync::atomic::AtomicU32;

/// Sleeps while `word` is `value`. May return early.
#[inline]
pub fn wait(word: &AtomicU32, value: u32) {
    os::wait(word, value);
}

/// Wakes at least one of those who sleep on `word`, if any does. Change the word first.
#[inline]
pub fn wake_one(word: &AtomicU32) {
    os::wake_one(word);
}

/// Wakes all who sleep on `word`. Change the word first.
#[inline]
pub fn wake_all(word: &AtomicU32) {
    os::wake_all(word);
}
