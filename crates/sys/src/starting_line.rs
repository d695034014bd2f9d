//! Starts threads that begin together, or not at all if one of them cannot be started: a barrier that can be called off.
//!
//! Invariants: no thread waits for one that does not exist: a failure to start a thread calls the start off, and so does
//! a panic before the line; once called off, always called off.

use crate::error::{Error, Result};
use std::cell::Cell;
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// What an [`Error`] of [`spawn_scoped`] names as its operation.
pub(crate) const START_THREAD: &str = "start a thread for";

#[derive(Debug)]
pub(crate) struct StartingLine {
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
    pub(crate) fn new(expected: usize) -> Self {
        Self { expected, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all threads have arrived; returns whether to begin, `false` if it was called off.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.lock();
        state.arrived += 1;
        self.changed.notify_all();
        while state.arrived < self.expected && !state.called_off {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.called_off
    }

    /// Calls it off: every thread that waits or arrives later returns at once.
    pub(crate) fn call_off(&self) {
        self.lock().called_off = true;
        self.changed.notify_all();
    }
}

/// Calls the starts off if its thread panics.
#[derive(Debug)]
pub(crate) struct CallOffOnPanic<'a, const N: usize>(pub [&'a StartingLine; N]);

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

/// A mistake made on purpose, for tests: [`spawn_scoped`] fails in the calling thread after it has started this many
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

/// Starts a thread in `scope`; `name` stands for it in the error.
///
/// # Errors
/// [`START_THREAD`], `name`, and the system's error, with the remedy: a limit on processes or memory was reached.
pub fn spawn_scoped<'scope, 'env, F, T>(
    scope: &'scope Scope<'scope, 'env>,
    name: &str,
    work: F,
) -> Result<ScopedJoinHandle<'scope, T>>
where
    F: FnOnce() -> T + Send + 'scope,
    T: Send + 'scope,
{
    planted().and_then(|()| Builder::new().spawn_scoped(scope, work)).map_err(|error| {
        let remedy = format!(
            "{error}: run fewer writers, or raise the limit on processes and memory (ulimit -u, ulimit -v, pids.max)"
        );
        Error::new(START_THREAD, Path::new(name), io::Error::new(error.kind(), remedy))
    })
}

/// Runs a thread for each of `writers`: all prepare, `begin` runs in the calling thread, then all work at once. Returns
/// what `begin` returned and the results in the order of the writers, which `prepare` gets numbered from 0.
///
/// The results are the first error in the order of the writers instead, after all have ended, if there was one.
///
/// # Errors
/// A thread that cannot be started, as [`spawn_scoped`]: none then works.
///
/// # Panics
/// With the panic of a thread.
pub fn run_together<W: Send, P, T: Send, B>(
    writers: Vec<W>,
    prepare: impl Fn(usize, W) -> Result<P> + Sync,
    begin: impl FnOnce() -> B,
    work: impl Fn(P) -> Result<T> + Sync,
) -> Result<(B, Result<Vec<T>>)> {
    let count = writers.len();
    let lines = [StartingLine::new(count + 1), StartingLine::new(count + 1)];
    let [ready, go] = [&lines[0], &lines[1]];
    let run = |index, writer| {
        let _guard = CallOffOnPanic([ready, go]);
        let prepared = prepare(index, writer);
        // Both lines are passed even after an error, because the other threads wait there.
        if ready.wait() && go.wait() { prepared.and_then(&work).map(Some) } else { Ok(None) }
    };
    let run = &run;
    std::thread::scope(|scope| {
        let _guard = CallOffOnPanic([ready, go]);
        let mut threads = Vec::new();
        for (index, writer) in writers.into_iter().enumerate() {
            let name = format!("writer {} of {count}", index + 1);
            threads.push(spawn_scoped(scope, &name, move || run(index, writer)).inspect_err(|_| {
                ready.call_off();
                go.call_off();
            })?);
        }
        // Called off only by a panic, which the joins below pass on.
        let _ = ready.wait();
        let between = begin();
        let _ = go.wait();
        let joined: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        let results = joined.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)));
        let results: Result<Vec<Option<T>>> = results.collect();
        Ok((between, results.map(|results| results.into_iter().flatten().collect())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn writers_prepare_before_the_beginning_and_work_after_it() {
        let (prepared, worked) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let result = run_together(
            vec![10, 20, 30],
            |index, writer| {
                prepared.fetch_add(1, Ordering::SeqCst);
                Ok((index, writer))
            },
            || (prepared.load(Ordering::SeqCst), worked.load(Ordering::SeqCst)),
            |(index, writer)| {
                worked.fetch_add(1, Ordering::SeqCst);
                Ok(index + writer)
            },
        );
        let (begun, results) = result.expect("all started");
        assert_eq!((begun, results.expect("all ran")), ((3, 0), vec![10, 21, 32]));
    }

    #[test]
    fn the_first_error_is_returned_after_all_writers_have_ended() {
        let worked = AtomicUsize::new(0);
        let fails =
            |index| Error::new("write", format!("journal {index}"), io::ErrorKind::StorageFull.into());
        let result = run_together(
            vec![(); 4],
            |index, ()| if index == 2 { Err(fails(index)) } else { Ok(index) },
            || (),
            |index| {
                worked.fetch_add(1, Ordering::SeqCst);
                if index == 1 { Err(fails(index)) } else { Ok(()) }
            },
        );
        let ((), results) = result.expect("all started");
        assert_eq!(results.expect_err("one failed").path(), Path::new("journal 1"));
        assert_eq!(worked.load(Ordering::SeqCst), 3, "the one whose preparation failed does not work");
    }

    #[test]
    fn no_writer_works_if_one_cannot_be_started() {
        plant_spawn_failure(Some(2));
        let work = |()| -> Result<()> { unreachable!("called off") };
        let result = run_together(vec![(); 4], |_, ()| Ok(()), || unreachable!("called off"), work);
        plant_spawn_failure(None);
        let error = result.expect_err("the third writer");
        assert_eq!((error.operation(), error.path()), (START_THREAD, Path::new("writer 3 of 4")));
    }

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
    fn a_thread_that_cannot_be_started_or_panics_keeps_no_other_waiting() {
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
