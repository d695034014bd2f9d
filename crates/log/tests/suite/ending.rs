//! Tests that a log ends well on any thread and whatever its wakers do.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::fixture::{LIMIT, count, faulty, scratch, tiny};
use seawall::{CommitFuture, Error, Log, Lsn, Options, Tail};
use seawall_sys::clock::monotonic_ns;

fn small() -> Options {
    tiny().batch_bytes(4096)
}

/// Does `work` on a thread of its own, because one that hangs cannot be joined.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = work();
        let _ = done.send(());
        result
    });
    let timed_out = ended.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
    assert!(!timed_out, "{what} does not end");
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Opens the log as soon as its holder has released it.
fn reopen(dir: &Path) -> Log {
    let began_ns = monotonic_ns();
    loop {
        match Log::open(dir, small()) {
            Err(Error::Locked { .. }) if Duration::from_nanos(monotonic_ns() - began_ns) < LIMIT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.expect("opens again"),
        }
    }
}

/// A waker with a handle of the log, which goes with it.
struct Owner(Mutex<Option<Arc<Log>>>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().expect("no thread panicked").take());
    }
}

fn poll(commit: &mut CommitFuture, waker: &Waker) -> Poll<seawall::Result<Lsn>> {
    Pin::new(commit).poll(&mut Context::from_waker(waker))
}

/// A log of one record whose last handle is with the waker of the commit of that record, unless that was durable at once.
fn owned_by_its_waker(dir: &Path, options: Options) -> (CommitFuture, bool) {
    let log = Arc::new(Log::open(dir, options).expect("opens"));
    let lsn = log.append(b"record").expect("appends").end;
    let mut commit = log.commit_async(lsn);
    let waker = Waker::from(Arc::new(Owner(Mutex::new(Some(Arc::clone(&log))))));
    let pending = poll(&mut commit, &waker).is_pending();
    (commit, pending)
}

#[test]
fn the_last_handle_may_go_on_the_thread_that_completes_a_commit() {
    let dir = scratch();
    let path: PathBuf = dir.path().into();
    let pending = in_time("a log that is dropped while its commit ends", move || {
        let mut pending = 0;
        for round in 1..=60 {
            let (commit, was_pending) = owned_by_its_waker(&path, small());
            pending += u32::from(was_pending);
            // A waiting thread may lead the write, and then calls the waker; otherwise the writer thread does.
            let result = if round % 2 == 0 {
                commit.wait().map(drop)
            } else {
                drop(commit);
                Ok(())
            };
            let log = reopen(&path);
            assert!(matches!(result, Ok(()) | Err(Error::Closed)), "{result:?}");
            assert!(round % 2 == 1 || result.is_err() || count(&log) > 0);
            log.trim(log.durable_lsn()).expect("trims");
            log.close().expect("closes");
        }
        pending
    });
    assert!(pending > 0, "no waker was ever called");
}

#[test]
fn the_last_handle_may_go_on_the_thread_that_reports_a_failure() {
    in_time("a failed log", || {
        let dir = scratch();
        for _ in 0..20 {
            let (faults, options) = faulty(small());
            faults.fail_commit(0);
            let (commit, _) = owned_by_its_waker(dir.path(), options);
            let result = commit.wait();
            assert!(matches!(result, Err(Error::Failed { .. } | Error::Closed)), "{result:?}");
            reopen(dir.path()).close().expect("closes");
        }
    });
}

/// Closes the log that it owns.
struct Closer(Mutex<Option<Log>>, Arc<AtomicBool>);

impl Wake for Closer {
    fn wake(self: Arc<Self>) {
        let log = self.0.lock().expect("no thread panicked").take();
        if let Some(log) = log {
            log.close().expect("closes");
            self.1.store(true, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_log_may_be_closed_on_the_thread_that_completes_a_commit() {
    in_time("closing in a waker", || {
        let dir = scratch();
        let mut closed_by_waker = 0;
        for round in 0..30 {
            let log = Log::open(dir.path(), small()).expect("opens");
            assert!(round == 0 || log.opened().tail == Tail::Clean);
            let lsn = log.append(b"record").expect("appends").end;
            let mut commit = log.commit_async(lsn);
            let done = Arc::new(AtomicBool::new(false));
            let closer = Arc::new(Closer(Mutex::default(), Arc::clone(&done)));
            let waker = Waker::from(Arc::clone(&closer));
            // The waker gets the log only when it is registered.
            let pending = poll(&mut commit, &waker).is_pending();
            *closer.0.lock().expect("no thread panicked") = Some(log);
            if pending && commit.wait().is_ok() {
                closed_by_waker += u32::from(done.load(Ordering::SeqCst));
            }
            let left = closer.0.lock().expect("no thread panicked").take();
            left.map_or(Ok(()), Log::close).expect("closes");
            reopen(dir.path()).close().expect("closes");
        }
        println!("{closed_by_waker} times by the waker");
    });
}

/// At about the moment at which the mark of the idle log is written, with one batch in flight at most and with two.
#[test]
fn a_log_that_says_it_is_closed_is_found_closed() {
    for depth in [1, 2] {
        let dir = scratch();
        let options = || small().in_flight_max(depth).idle_mark(Duration::from_millis(1));
        for round in 0..80 {
            let log = Log::open(dir.path(), options()).expect("opens");
            let found = log.opened().tail;
            assert_eq!(
                found,
                if round == 0 { Tail::New } else { Tail::Clean },
                "round {round}, {depth} in flight"
            );
            log.append_commit(b"record").expect("commits");
            let began_ns = monotonic_ns();
            while monotonic_ns() - began_ns < 900_000 + 5_000 * round {
                std::hint::spin_loop();
            }
            log.close().expect("closes");
        }
    }
}
