//! Lets threads begin together, or not at all if one of them cannot be started: a barrier that can be called off.
//!
//! Invariants: nobody waits for a thread that does not exist: whoever fails to start one calls the start off, and so
//! does a thread that panics on its way to it; once called off, always called off.

use crate::error::{Error, Result};
use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// What an [`Error`] of [`spawn_scoped`] names as its operation.
pub const START_THREAD: &str = "start a thread for";

/// Where threads wait for each other.
#[derive(Debug)]
pub struct StartingLine {
    expected: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    called_off: bool,
}

impl StartingLine {
    /// For so many threads.
    #[must_use]
    pub fn new(expected: usize) -> Self {
        Self { expected, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all have come; whether to begin. `false`: it was called off.
    #[must_use]
    pub fn wait(&self) -> bool {
        let mut state = self.lock();
        state.arrived += 1;
        self.changed.notify_all();
        while state.arrived < self.expected && !state.called_off {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.called_off
    }

    /// Calls it off: nobody waits any more.
    pub fn call_off(&self) {
        self.lock().called_off = true;
        self.changed.notify_all();
    }
}

/// Calls the starts off if its thread panics.
#[derive(Debug)]
pub struct CallOffOnPanic<'a, const N: usize>(pub [&'a StartingLine; N]);

impl<const N: usize> Drop for CallOffOnPanic<'_, N> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|line| line.call_off());
        }
    }
}

thread_local! {
    static SPAWNS_LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A mistake made on purpose, for tests: [`spawn_scoped`] fails in the calling thread after it has started so many
/// threads; `None` takes that back.
#[doc(hidden)]
pub fn plant_spawn_failure(after: Option<usize>) {
    SPAWNS_LEFT.set(after);
}

fn planted() -> io::Result<()> {
    match SPAWNS_LEFT.get() {
        Some(0) => Err(io::Error::new(io::ErrorKind::WouldBlock, "planted failure")),
        left => {
            SPAWNS_LEFT.set(left.map(|left| left - 1));
            Ok(())
        }
    }
}

/// Starts a thread in `scope`; `who` names it in the error.
///
/// # Errors
/// [`START_THREAD`], `who`, and the system's word, with the remedy: a limit on processes or memory was reached.
pub fn spawn_scoped<'scope, 'env, F, T>(
    scope: &'scope Scope<'scope, 'env>,
    who: &str,
    work: F,
) -> Result<ScopedJoinHandle<'scope, T>>
where
    F: FnOnce() -> T + Send + 'scope,
    T: Send + 'scope,
{
    planted().and_then(|()| Builder::new().spawn_scoped(scope, work)).map_err(|error| {
        let told = format!(
            "{error}: run fewer writers, or raise the limit on processes and memory (ulimit -u, ulimit -v, pids.max)"
        );
        Error::new(START_THREAD, Path::new(who), io::Error::new(error.kind(), told))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_begin_together_once_the_last_has_come() {
        let line = StartingLine::new(4);
        let began = std::thread::scope(|scope| {
            let others: Vec<_> =
                (0..3).map(|_| spawn_scoped(scope, "a test", || line.wait()).expect("started")).collect();
            let own = line.wait();
            others.into_iter().all(|other| other.join().expect("ended")) && own
        });
        assert!(began);
    }

    #[test]
    fn a_thread_that_cannot_be_started_or_panics_keeps_nobody_waiting() {
        let line = StartingLine::new(4);
        plant_spawn_failure(Some(2));
        std::thread::scope(|scope| {
            let mut started = Vec::new();
            let failure = loop {
                match spawn_scoped(scope, "writer 3", || line.wait()) {
                    Ok(thread) => started.push(thread),
                    Err(error) => break error,
                }
            };
            line.call_off();
            assert!(started.into_iter().all(|thread| !thread.join().expect("ended")));
            assert!(failure.to_string().contains("writer 3") && failure.to_string().contains("ulimit -u"));
        });
        plant_spawn_failure(None);
        let line = StartingLine::new(2);
        let panics = || {
            let _guard = CallOffOnPanic([&line]);
            panic!("on its way");
        };
        std::thread::scope(|scope| {
            let thread = scope.spawn(panics);
            assert!(!line.wait());
            assert!(thread.join().is_err());
        });
    }
}
