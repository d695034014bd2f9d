//! Provides the synchronisation primitives: those of the standard library, or of `loom` when model-checking.
//!
//! In production they are those of the standard library and the system's wait on an address. With `--cfg loom` they
//! are those of the model checker `loom`, which runs a piece of code in every order of its threads (within bounds)
//! and lets each read see every value that the memory model allows; `testing/loom_scenes.rs` holds the checked scenes.
//!
//! `loom` treats a sequentially consistent access as an acquire-release one. The wrappers below put a sequentially
//! consistent fence, which `loom` does model, on both sides of such an access, so that an ordering dropped in the
//! code is dropped in the model as well.

pub(crate) use imp::*;

#[cfg(not(loom))]
mod imp {
    pub(crate) use seawall_sys::clock::{monotonic_ns, unix_us as time_us};
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
    pub(crate) use std::sync::{Mutex, MutexGuard};
    pub(crate) use std::thread::yield_now;

    /// The lock, if no thread holds it; a thread that panicked while holding it does not stop the others.
    pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        match mutex.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// A word that threads sleep on until it changes.
    #[derive(Debug, Default)]
    pub(crate) struct Word(AtomicU32);

    impl Word {
        #[inline]
        pub(crate) fn load(&self, order: Ordering) -> u32 {
            self.0.load(order)
        }

        #[inline]
        pub(crate) fn fetch_add(&self, by: u32, order: Ordering) -> u32 {
            self.0.fetch_add(by, order)
        }

        /// Sleeps while the word holds `value`. May return early.
        #[inline]
        pub(crate) fn wait(&self, value: u32) {
            seawall_sys::wait::wait(&self.0, value);
        }

        #[inline]
        pub(crate) fn wake_all(&self) {
            seawall_sys::wait::wake_all(&self.0);
        }

        #[inline]
        pub(crate) fn wake_one(&self) {
            seawall_sys::wait::wake_one(&self.0);
        }
    }
}

#[cfg(loom)]
mod imp {
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;
    pub(crate) use std::sync::atomic::Ordering;

    use loom::sync::Condvar;
    use loom::sync::atomic::fence;

    /// Time passes by being looked at, so that every run of one order sees the same.
    pub(crate) fn time_us() -> u64 {
        0
    }

    pub(crate) fn monotonic_ns() -> u64 {
        // All threads of a scene run on one thread of the test, and other scenes must not move its clock.
        std::thread_local!(static NOW: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
        NOW.with(|now| now.replace(now.get() + 10_000))
    }

    /// The lock, waiting for it: a `try_lock` in a loop of yields confuses `loom` 0.7 about which thread holds it.
    pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        Some(super::lock(mutex))
    }

    fn with_fences<T>(order: Ordering, access: impl FnOnce() -> T) -> T {
        if order != Ordering::SeqCst {
            return access();
        }
        fence(Ordering::SeqCst);
        let result = access();
        fence(Ordering::SeqCst);
        result
    }

    macro_rules! atomic {
        ($name:ident, $value:ty, $($method:ident),*) => {
            #[derive(Debug, Default)]
            pub(crate) struct $name(loom::sync::atomic::$name);

            #[allow(dead_code, reason = "one set of methods for all")]
            impl $name {
                pub(crate) fn new(value: $value) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    with_fences(order, || self.0.load(order))
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    with_fences(order, || self.0.store(value, order));
                }

                $(pub(crate) fn $method(&self, value: $value, order: Ordering) -> $value {
                    with_fences(order, || self.0.$method(value, order))
                })*
            }
        };
    }

    atomic!(AtomicBool, bool, swap);
    atomic!(AtomicU32, u32, swap, fetch_add, fetch_sub);
    atomic!(AtomicU64, u64, swap, fetch_add, fetch_max);

    /// The same, with what the kernel does between looking at the word and putting the thread to sleep.
    #[derive(Debug, Default)]
    pub(crate) struct Word {
        word: AtomicU32,
        queue: Mutex<()>,
        woken: Condvar,
    }

    impl Word {
        pub(crate) fn load(&self, order: Ordering) -> u32 {
            self.word.load(order)
        }

        pub(crate) fn fetch_add(&self, by: u32, order: Ordering) -> u32 {
            self.word.fetch_add(by, order)
        }

        pub(crate) fn wait(&self, value: u32) {
            let queue = lock(&self.queue);
            if self.word.load(Ordering::SeqCst) == value {
                drop(self.woken.wait(queue));
            }
        }

        pub(crate) fn wake_all(&self) {
            let _queue = lock(&self.queue);
            self.woken.notify_all();
        }

        pub(crate) fn wake_one(&self) {
            let _queue = lock(&self.queue);
            self.woken.notify_one();
        }
    }

    use super::lock;
}

/// Locks a mutex; a thread that panicked while holding it does not stop the others.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
