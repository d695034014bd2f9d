//! Serves the queue in the process that owns the log: what any handle asks, in any process, is done here.
//!
//! ```text
//! request ─► the lock: decide and append (`core.rs`) ─► pending, by LSN ─► durable ─► answer
//!                └─ a consumer waits in line ─► the next messages, their attempts noted ─► answer
//! a thread: what became durable, what is due
//! ```
//!
//! Invariants: an answer that promises something is given only after the log's commit, and without the lock; what the log's threads
//! call takes no lock that is held while something is appended.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use seawall::{Log, Lsn, Options};
use seawall_sys::wait::block_on;

use crate::core::{Accepted, Answers, Core, Reply, now_ms};
use crate::error::{Error, Result};
use crate::wire::Request;

/// How often a log that has failed is offered to be closed.
const FAILED_MS: u64 = 20;

/// The queue of a log.
pub(crate) struct Broker {
    log: Log,
    core: Mutex<Core>,
    signal: Arc<Signal>,
    /// A handle has left.
    left: Condvar,
    /// Called when the log has failed, until it says that this broker is being closed.
    on_failure: Box<dyn Fn() -> bool + Send + Sync>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Wakes the thread of a broker.
#[derive(Default)]
struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
    /// Whether an answer waits for the log that no caller's thread will give.
    awaited: AtomicBool,
    /// Until when the thread sleeps.
    until: AtomicU64,
}

impl Signal {
    fn raise(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    /// Waits until it is raised, or until then.
    fn wait(&self, until: Option<u64>) {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        while !std::mem::take(&mut *raised) {
            let Some(until) = until else {
                raised = self.changed.wait(raised).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_sub(now_ms());
            if left == 0 {
                return;
            }
            let waited = self.changed.wait_timeout(raised, Duration::from_millis(left));
            raised = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        if self.awaited.load(Ordering::SeqCst) {
            self.raise();
        }
    }
}

impl Broker {
    /// Opens the queue in `dir` for the handle of this process, of the session `own`. [`seawall::Error::Locked`] if another process has it.
    pub(crate) fn open(
        dir: &Path,
        options: Options,
        own: u64,
        on_failure: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Arc<Self>> {
        let log = Log::open(dir, options)?;
        let core = match Core::recover(&log, own) {
            Ok(core) => Mutex::new(core),
            Err(error) => {
                // A log that is not a queue is left with a clean end, as it was.
                let _ = log.close();
                return Err(error);
            }
        };
        let broker = Arc::new(Self {
            log,
            core,
            signal: Arc::default(),
            left: Condvar::new(),
            on_failure: Box::new(on_failure),
            thread: Mutex::default(),
        });
        broker.log.watch(Waker::from(Arc::clone(&broker.signal)));
        let of_thread = Arc::clone(&broker);
        let failed =
            |source| seawall::Error::Io { operation: "start a thread for", path: dir.into(), source };
        let thread = std::thread::Builder::new().name("seawall-queue".into()).spawn(move || of_thread.run());
        *broker.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread.map_err(failed)?);
        Ok(broker)
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers what has become durable, and does what is due, until the queue is closed.
    fn run(&self) {
        loop {
            self.look(self.core(), true);
            let core = self.core();
            if core.is_closed() {
                return;
            }
            self.signal.awaited.store(core.is_awaited(), Ordering::SeqCst);
            if core.has_failed() {
                drop(core);
                if (self.on_failure)() {
                    return;
                }
                self.signal.wait(Some(now_ms() + FAILED_MS));
                continue;
            }
            let until = core.first_due();
            self.signal.until.store(until.unwrap_or(u64::MAX), Ordering::SeqCst);
            drop(core);
            self.signal.wait(until);
        }
    }

    /// Does what `request` asks, which is that of a session and its number, and answers now or later. Returns the LSN that has to be committed for that, if any:
    /// [`Broker::settle`] does it and waits, [`Broker::request`] does not.
    pub(crate) fn submit(&self, of: (u64, u64), request: Request, reply: Reply) -> Option<Lsn> {
        let mut core = self.core();
        if core.is_closed() {
            drop(core);
            reply(Err(Error::Closed));
            return None;
        }
        let (lsn, answer) = match core.accept(&self.log, of, request, reply) {
            Accepted::Answer(reply, answer) => (None, Some((reply, answer))),
            Accepted::Durable(lsn) => (Some(lsn), None),
            Accepted::Waits => (None, None),
        };
        self.look(core, false);
        if let Some((reply, answer)) = answer {
            reply(answer);
        }
        lsn
    }

    /// Commits up to `lsn`, and answers what has become durable.
    pub(crate) fn settle(&self, lsn: Lsn) {
        // The answers say why it failed.
        let has_failed = self.log.commit(lsn).is_err();
        self.look(self.core(), has_failed);
    }

    /// Has the log commit up to `lsn`; the thread of the broker answers.
    pub(crate) fn request(&self, lsn: Lsn) {
        self.signal.awaited.store(true, Ordering::SeqCst);
        let commit = self.log.commit_async(lsn);
        // Otherwise the log wakes nobody.
        if commit.is_durable() {
            self.signal.raise();
        }
    }

    /// A handle of another process connects, and names what is out there.
    pub(crate) fn enter(&self, session: u64, out: &[(u64, u32)], redeliver_ms: Option<u64>) {
        let mut core = self.core();
        // Its last connection ends first: a consumer that waits there would be handed what nobody reads.
        while core.is_connected(session) && !core.is_closed() {
            core = self.left.wait(core).unwrap_or_else(PoisonError::into_inner);
        }
        core.enter(session, out, redeliver_ms);
        drop(core);
        // The time of what is out may end before anything else happens.
        self.signal.raise();
    }

    /// It is gone: so are its waiting consumers, and what is out there waits again.
    pub(crate) fn leave(&self, session: u64) {
        let mut core = self.core();
        let gone = core.leave(&self.log, session);
        self.left.notify_all();
        self.look(core, false);
        drop(gone);
    }

    /// Answers what is durable, does what is due, and serves consumers.
    fn look(&self, mut core: MutexGuard<'_, Core>, asks: bool) {
        let mut answers = Answers::new();
        core.look(&self.log, asks, &mut answers);
        let is_sooner = core.first_due().is_some_and(|due| due < self.signal.until.load(Ordering::SeqCst));
        if core.has_noted() {
            self.signal.awaited.store(true, Ordering::SeqCst);
        }
        // Before the log would have waked anybody for it.
        let is_noted = core.is_noted(&self.log);
        let has_failed = core.has_failed();
        drop(core);
        if is_sooner || is_noted || has_failed {
            self.signal.raise();
        }
        for (reply, answer) in answers {
            reply(answer);
        }
    }

    /// Makes durable and answers what was accepted, tells consumers that wait, and closes the log.
    pub(crate) fn close(&self) -> Result<()> {
        let mut core = self.core();
        if core.is_closed() {
            return Ok(());
        }
        let mut answers = Answers::new();
        let done = core.close(&self.log, &mut answers);
        drop(core);
        self.left.notify_all();
        self.signal.raise();
        for (reply, answer) in answers {
            reply(answer);
        }
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        let closed = block_on(self.log.close_async());
        done.and(closed.map_err(Error::Log))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_handle_that_connects_again_is_served_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let broker = Broker::open(dir.path(), Options::default(), 1, || true).expect("opens");
        let (sender, answers) = channel();
        let get = |number| {
            let wanted = Request::Get { messages_max: 1, wait_ms: None, redeliver_ms: None, attempts_max: 1 };
            let sender = sender.clone();
            broker.submit((7, number), wanted, Box::new(move |_| sender.send(number).expect("is read")));
        };
        broker.enter(7, &[], None);
        get(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                broker.enter(7, &[], None);
                get(2);
            });
            // Time for the second one to come too early.
            std::thread::sleep(Duration::from_millis(50));
            broker.leave(7);
        });
        let put = Request::Put { bodies: vec![Vec::new()], delay_ms: 0 };
        let lsn = broker.submit((1, 1), put, Box::new(drop)).expect("is to be committed");
        broker.settle(lsn);
        assert_eq!(answers.recv_timeout(Duration::from_secs(20)), Ok(2));
        broker.close().expect("closes");
    }
}
