//! Blocks and wakes everything that waits for a log: committers, appends, followers and futures.
//!
//! ```text
//!   batch gates      one for each of the last 64 batches; a committer sleeps at the gate of its batch
//!   append gate      appends that found no memory or no prepared segment
//!   follower gate    readers at the end of the log
//!   wakers           commits, followers and closes that are polled, each with the ack level and the LSN that it waits for
//!   watcher          one waker that is called whenever a watermark may have moved
//!   append queue     appends that are polled and found no room
//! ```
//!
//! Invariant: a watermark is published after the core has moved it and before any waiter is woken, so a woken waiter
//! finds it.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::task::Waker;

use crate::commit::append_queue::AppendQueue;
use crate::commit::gate::Gate;
use crate::commit::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;

const GATES: usize = if cfg!(loom) { 2 } else { 64 };

/// The published watermarks of one log, and what waits for them.
#[derive(Debug)]
pub(crate) struct Waiters {
    /// The acknowledged LSN of the core: the end of what outlives the log's class.
    durable: AtomicU64,
    /// The end of what has reached each relaxed level.
    relaxed: [AtomicU64; 2],
    /// Futures request everything before these LSNs, by level.
    requested: [AtomicU64; 3],
    batch_gates: [Gate; GATES],
    /// Where appends sleep that found no memory or no segment.
    pub(crate) append_gate: Gate,
    /// Where followers sleep at the end of the log.
    pub(crate) follower_gate: Gate,
    wakers: Mutex<Wakers>,
    watcher: OnceLock<Waker>,
    /// Where append futures wait that found no room.
    pub(crate) appends: AppendQueue,
}

/// The futures that wait for a watermark.
#[derive(Debug, Default)]
struct Wakers {
    registered: u64,
    /// By level and LSN, because many tasks may wait: neither adding nor waking nor removing one may look at all others, even
    /// if they all wait for the same LSN.
    waiting: [BTreeMap<(Lsn, u64), Waker>; 3],
}

/// Where the waker of one future is, if it has one there.
#[derive(Debug, Default)]
pub(crate) struct Registration(Option<(AckLevel, Lsn, u64)>);

impl Waiters {
    /// Nothing waits; everything before `durable` is durable.
    pub(crate) fn new(durable: Lsn) -> Self {
        Self {
            durable: AtomicU64::new(durable.get()),
            relaxed: std::array::from_fn(|_| AtomicU64::new(0)),
            requested: std::array::from_fn(|_| AtomicU64::new(0)),
            batch_gates: std::array::from_fn(|_| Gate::default()),
            append_gate: Gate::default(),
            follower_gate: Gate::default(),
            wakers: Mutex::default(),
            watcher: OnceLock::new(),
            appends: AppendQueue::default(),
        }
    }

    pub(crate) fn durable(&self) -> Lsn {
        Lsn::new(self.durable.load(Ordering::Acquire))
    }

    /// Where that is kept.
    #[cfg(not(loom))]
    pub(crate) fn durable_word(&self) -> *const u64 {
        self.durable.as_ptr()
    }

    /// The end of what has reached a level that is not above the log's own.
    pub(crate) fn reached(&self, level: AckLevel) -> Lsn {
        let relaxed = self.relaxed.get(level as usize).map_or(0, |lsn| lsn.load(Ordering::Acquire));
        self.durable().max(Lsn::new(relaxed))
    }

    /// Publishes the end of what outlives the log's class.
    pub(crate) fn publish_durable(&self, lsn: Lsn) {
        self.durable.store(lsn.get(), Ordering::Release);
    }

    /// Publishes the end of what has reached a relaxed level, called with the core lock held. It never moves back: what lies
    /// in crash memory reaches the lowest level before the batch that holds it does.
    #[inline]
    pub(crate) fn publish_relaxed(&self, level: AckLevel, lsn: Lsn) {
        if let Some(relaxed) = self.relaxed.get(level as usize)
            && lsn.get() > relaxed.load(Ordering::Relaxed)
        {
            relaxed.store(lsn.get(), Ordering::Release);
        }
    }

    /// Requests everything before `lsn` in the level on behalf of a future.
    pub(crate) fn request(&self, level: AckLevel, lsn: Lsn) {
        self.requested[level as usize].fetch_max(lsn.get(), Ordering::SeqCst);
    }

    pub(crate) fn requested(&self, level: AckLevel) -> Lsn {
        Lsn::new(self.requested[level as usize].load(Ordering::SeqCst))
    }

    /// Where the committers of a batch sleep.
    pub(crate) fn batch_gate(&self, batch: u64) -> &Gate {
        &self.batch_gates[usize::try_from(batch % GATES as u64).unwrap_or(0)]
    }

    /// Wakes `waker` when everything before `lsn` has reached the level, in place of the one that was registered before.
    pub(crate) fn register(
        &self,
        registration: &mut Registration,
        (level, lsn): (AckLevel, Lsn),
        waker: &Waker,
    ) {
        let waker = waker.clone();
        let mut wakers = lock(&self.wakers);
        // Dropped after the lock: a waker may own anything, even the log.
        let replaced = wakers.remove(registration);
        wakers.registered += 1;
        let number = wakers.registered;
        wakers.waiting[level as usize].insert((lsn, number), waker);
        drop(wakers);
        drop(replaced);
        registration.0 = Some((level, lsn, number));
    }

    /// Removes the waker of a future that goes.
    pub(crate) fn forget(&self, registration: &mut Registration) {
        if registration.0.is_some() {
            let forgotten = lock(&self.wakers).remove(registration);
            drop(forgotten);
        }
    }

    /// Has `waker` called whenever a watermark may have moved, and when the log has ended. The first one stays; returns whether
    /// this is the first.
    pub(crate) fn watch(&self, waker: Waker) -> bool {
        self.watcher.set(waker).is_ok()
    }

    /// There is room for appends, of about `bytes` bytes: those that wait look again. Not to be called under a lock.
    pub(crate) fn room_for_appends(&self, bytes: usize) {
        self.append_gate.open();
        self.appends.wake_up_to(bytes);
    }

    /// Nothing is accepted any more: every append that waits looks again.
    pub(crate) fn end_appends(&self) {
        self.append_gate.open();
        self.appends.wake_all();
    }

    /// Wakes the committers of the batches from `first` to `last`, appends of about `room` bytes, the followers, and the
    /// futures whose level is reached; all futures if the log has `ended`.
    pub(crate) fn wake_written(&self, first: u64, last: u64, room: usize, ended: impl FnOnce() -> bool) {
        // There are only this many gates, however many batches the sync of a debt covered.
        for batch in first.max((last + 1).saturating_sub(GATES as u64))..=last {
            self.batch_gate(batch).open();
        }
        self.room_for_appends(room);
        self.follower_gate.open();
        self.wake_futures(ended);
    }

    /// Wakes every committer and every future, because the log has ended.
    pub(crate) fn wake_commits(&self) {
        self.batch_gates.iter().for_each(Gate::open);
        self.wake_futures(|| true);
    }

    /// Wakes one committer of the batches from `next` to `newest`, so that it leads; returns whether there was one.
    pub(crate) fn wake_one_of(&self, next: u64, newest: u64) -> bool {
        (next..=newest.min(next + GATES as u64)).any(|batch| self.batch_gate(batch).open_for_one())
    }

    fn wake_futures(&self, ended: impl FnOnce() -> bool) {
        self.watcher.get().cloned().into_iter().for_each(wake);
        let mut wakers = lock(&self.wakers);
        if wakers.waiting.iter().all(BTreeMap::is_empty) {
            return;
        }
        let ended = ended();
        let mut due = Vec::new();
        for level in AckLevel::ALL {
            let reached = self.reached(level);
            let waiting = &mut wakers.waiting[level as usize];
            while let Some(first) = waiting.first_entry().filter(|first| ended || first.key().0 <= reached) {
                due.push(first.remove());
            }
        }
        drop(wakers);
        due.into_iter().for_each(wake);
    }
}

impl Wakers {
    /// The waker of a future, taken out.
    fn remove(&mut self, registration: &mut Registration) -> Option<Waker> {
        let (level, lsn, number) = registration.0.take()?;
        self.waiting[level as usize].remove(&(lsn, number))
    }
}

/// Wakes a future. A waker that panics is reported and harms neither the other futures nor this thread.
pub(crate) fn wake(waker: Waker) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake())).is_err() {
        tracing::error!("a waker panicked");
    }
}
