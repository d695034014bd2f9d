//! Starts threads that begin together, or not at all if one of them cannot be started or panics before.
//!
//! Invariant: no thread waits for one that does not exist. The calling thread holds a lock until all have prepared, and whatever
//! ends it earlier gives the lock back unchanged, which calls the beginning off.

use seawall_sys::{Error, Result};
use std::cell::Cell;
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{RwLock, mpsc};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// What an [`Error`] of [`spawn_scoped`] names as its operation.
pub(crate) const START_THREAD: &str = "start a thread for";

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
    let (go, (arrive, arrived)) = (RwLock::new(false), mpsc::channel());
    let run = |index, writer, arrive: mpsc::Sender<()>| {
        let prepared = prepare(index, writer);
        // Nobody counts any more if the beginning was called off, which the lock says.
        let _ = arrive.send(());
        drop(arrive);
        if go.read().is_ok_and(|go| *go) { prepared.and_then(&work).map(Some) } else { Ok(None) }
    };
    let run = &run;
    std::thread::scope(|scope| {
        let mut begins = go.write().expect("no other thread writes it");
        let mut threads = Vec::new();
        for (index, writer) in writers.into_iter().enumerate() {
            let (name, arrive) = (format!("writer {} of {count}", index + 1), arrive.clone());
            threads.push(spawn_scoped(scope, &name, move || run(index, writer, arrive))?);
        }
        drop(arrive);
        // Fewer come if one panics, which its join passes on.
        let between = (arrived.iter().count() == count).then(begin);
        *begins = between.is_some();
        drop(begins);
        let joined: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        let results = joined.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)));
        let results: Result<Vec<Option<T>>> = results.collect();
        let between = between.expect("all arrived, as none panicked");
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
        assert!(error.to_string().contains("ulimit -u"), "{error}");
    }

    #[test]
    fn a_thread_that_panics_before_the_beginning_keeps_no_other_waiting() {
        let prepare = |index, ()| if index == 1 { panic!("on its way") } else { Ok(()) };
        let work = |()| -> Result<()> { unreachable!("called off") };
        let run = || run_together(vec![(); 3], prepare, || unreachable!("called off"), work).map(drop);
        let panicked = std::panic::catch_unwind(run).expect_err("passed on");
        assert_eq!(panicked.downcast_ref(), Some(&"on its way"));
    }
}
