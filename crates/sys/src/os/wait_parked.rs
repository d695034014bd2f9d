//! How do threads sleep on a word where the system has no call for that? At one of a few condition variables.
//!
//! Invariant: a waker takes the lock between changing the word and notifying, and a sleeper looks at the word under
//! that lock, so no wake-up is lost. Words share variables, so a waker wakes everyone there.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

const PLACES: usize = 16;

struct Place(Mutex<()>, Condvar);

static TABLE: [Place; PLACES] = [const { Place(Mutex::new(()), Condvar::new()) }; PLACES];

fn place(word: *const AtomicU32) -> &'static Place {
    &TABLE[(word.addr() / 64) % PLACES]
}

pub(crate) fn wait(word: &AtomicU32, value: u32) {
    let Place(lock, changed) = place(word);
    let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
    if word.load(Ordering::SeqCst) == value {
        // May end early, as the caller allows.
        drop(changed.wait(held).unwrap_or_else(PoisonError::into_inner));
    }
}

pub(crate) fn wake_all(word: *const AtomicU32) {
    let Place(lock, changed) = place(word);
    drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
    changed.notify_all();
}

pub(crate) fn wake_one(word: *const AtomicU32) {
    wake_all(word);
}
