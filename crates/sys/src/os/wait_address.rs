//! macOS and Windows: wait on an address by the crate `atomic-wait`.

use std::sync::atomic::AtomicU32;

pub(crate) fn wait(word: &AtomicU32, value: u32) {
    atomic_wait::wait(word, value);
}

pub(crate) fn wake_one(word: &AtomicU32) {
    atomic_wait::wake_one(word);
}

pub(crate) fn wake_all(word: &AtomicU32) {
    atomic_wait::wake_all(word);
}
