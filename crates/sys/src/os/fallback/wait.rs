//! Systems without a wait on an address: threads wait on one condition variable shared by all words.
//!
//! Invariant: the word is read under the lock, and a waking thread takes the lock first: a change made before the
//! wake is seen by the waiter, or the waiter is already asleep and woken.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

static LOCK: Mutex<()> = Mutex::new(());
static CHANGED: Condvar = Condvar::new();

pub(crate) fn wait(word: &AtomicU32, value: u32) {
    let guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    if word.load(Ordering::SeqCst) == value {
        drop(CHANGED.wait(guard).unwrap_or_else(PoisonError::into_inner));
    }
}

pub(crate) fn wake_one(word: &AtomicU32) {
    // The thread that the condition would wake may wait on another word.
    wake_all(word);
}

pub(crate) fn wake_all(_: &AtomicU32) {
    drop(LOCK.lock().unwrap_or_else(PoisonError::into_inner));
    CHANGED.notify_all();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_word_wakes_its_waiter() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                while word.load(Ordering::SeqCst) == 0 {
                    wait(&word, 0);
                }
            });
            word.store(1, Ordering::SeqCst);
            wake_one(&word);
            waiter.join().expect("woken");
        });
    }
}
