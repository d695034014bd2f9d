//! A page that two threads of a scene share, in place of the one that two processes share.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::channel::words::{Field, FollowerWords, WriterWords};
use crate::commit::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};

/// The numbers and the word, with what the kernel does between looking at the word and putting the thread to sleep.
#[derive(Debug, Default)]
pub(crate) struct LoomPage {
    numbers: [AtomicU64; 4],
    word: AtomicU32,
    queue: Mutex<()>,
    woken: loom::sync::Condvar,
}

impl WriterWords for Arc<LoomPage> {
    fn store(&self, field: Field, value: u64) {
        self.numbers[field as usize].store(value, Ordering::Release);
    }

    fn swap(&self, word: u32) -> u32 {
        self.word.swap(word, Ordering::SeqCst)
    }

    fn wake(&self) {
        let _queue = lock(&self.queue);
        self.woken.notify_all();
    }
}

impl FollowerWords for Arc<LoomPage> {
    fn load(&self, field: Field) -> io::Result<u64> {
        Ok(self.numbers[field as usize].load(Ordering::Acquire))
    }

    fn word(&self) -> io::Result<u32> {
        Ok(self.word.load(Ordering::Acquire))
    }

    fn set_word(&self, word: u32) -> io::Result<bool> {
        self.word.store(word, Ordering::SeqCst);
        Ok(true)
    }

    /// Without a limit, so that a wake-up that is lost is a deadlock, which `loom` reports.
    fn sleep(&self, word: u32, _: Duration) {
        let queue = lock(&self.queue);
        if self.word.load(Ordering::SeqCst) == word {
            drop(self.woken.wait(queue));
        }
    }
}
