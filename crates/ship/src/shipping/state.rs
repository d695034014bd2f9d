//! What the two threads and the commits that wait share: what is in flight, what is acknowledged, what is at risk and why
//! nothing is stored.

use super::Settings;
use crate::error::{Error, Result};
use crate::failure::Facts;
use crate::metrics::MetricHandles;
use crate::pace::Pace;
use crate::writer::{Outcome, Parcel};
use seawall::{Lsn, SealedFollower, View};
use seawall_sys::clock::{monotonic_ns, unix_us};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// How long a thread waits before it looks whether it is to end.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// A request without an answer for this long is said to fail.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// What is at risk: durable here, and not acknowledged by the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtRisk {
    /// Records.
    pub records: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// How long the oldest of them has been at risk: by a monotonic clock since it was read, by the log's time before that.
    pub time: Duration,
}

/// The counters of shipping since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShipStats {
    /// Everything before this is acknowledged.
    pub acknowledged: Lsn,
    /// What is at risk.
    pub at_risk: AtRisk,
    /// Messages that were acknowledged.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Appends that were refused or had no answer, and were resolved by reading.
    pub doubts: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Why nothing is stored now: the last failure, until something is stored again.
    pub failing: Option<String>,
    /// The last failure there was, and how long ago.
    pub last_failure: Option<(String, Duration)>,
    /// How long ago something was stored last.
    pub stored_ago: Option<Duration>,
}

/// Since when something has been at risk.
#[derive(Clone, Copy)]
pub(super) struct Age {
    pub(super) since_ns: u64,
    pub(super) before: Duration,
}

impl Age {
    /// A batch that was gathered at `time_us` and is seen now: its age is that of the log's clock only if it was there `before` shipping began.
    pub(super) fn of(time_us: u64, before: bool) -> Self {
        let us = if before && time_us > 0 { unix_us().saturating_sub(time_us) } else { 0 };
        Self { since_ns: monotonic_ns(), before: Duration::from_micros(us) }
    }

    pub(super) fn now(self) -> Duration {
        self.before + passed(self.since_ns)
    }
}

pub(super) fn passed(since_ns: u64) -> Duration {
    Duration::from_nanos(monotonic_ns().saturating_sub(since_ns))
}

/// A parcel in flight.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) end: Lsn,
    pub(super) age: Age,
    /// With all records before it.
    pub(super) records: u64,
    pub(super) batches: u64,
    pub(super) bytes: usize,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) inbox: VecDeque<Parcel>,
    pub(super) inbox_bytes: usize,
    /// Where the bandwidth is bounded.
    pub(super) pace: Option<Pace>,
    /// The outcome of appends: position, number, outcome.
    pub(super) outcomes: Vec<(u64, u64, Outcome)>,
    pub(super) acknowledged: Lsn,
    /// Every parcel that is not acknowledged, oldest first.
    pub(super) unacknowledged: VecDeque<Sent>,
    /// Records that the reader has read, and of these acknowledged.
    pub(super) records_read: u64,
    pub(super) records_acknowledged: u64,
    /// The end of what the reader has read.
    pub(super) read: Lsn,
    /// The oldest batch of the parcel that is being gathered.
    pub(super) gathering: Option<Age>,
    /// Where the log ended when shipping began.
    pub(super) begun_end: Lsn,
    /// Since when a request has no answer.
    pub(super) waiting_ns: Option<u64>,
    /// When something was stored last, and when something failed last.
    pub(super) stored_ns: Option<u64>,
    pub(super) failed_ns: Option<u64>,
    pub(super) shipping: bool,
    pub(super) stop: bool,
    /// Nothing waits for more to come, because shipping ends when everything is acknowledged.
    pub(super) hurry: bool,
    pub(super) failed: Option<Error>,
    pub(super) wakers: Vec<(Lsn, Waker)>,
    /// When a commit last waited for the destination.
    pub(super) asked_ns: Option<u64>,
    pub(super) stats: ShipStats,
}

impl State {
    /// Whether a commit waits for the destination, or did so lately that the next one is to be expected.
    pub(super) fn is_awaited(&self) -> bool {
        !self.wakers.is_empty() || self.asked_ns.is_some_and(|asked_ns| passed(asked_ns) < LOOK)
    }

    /// Why nothing is stored now.
    pub(super) fn failing(&self) -> Option<String> {
        let hangs = || self.waiting_ns.is_some_and(|since| passed(since) >= ANSWERED_WITHIN);
        let text = || format!("no answer to a request for {} s", ANSWERED_WITHIN.as_secs());
        self.stats.failing.clone().or_else(|| hangs().then(text))
    }
}

pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// For the sender.
    pub(super) work: Condvar,
    /// For the reader, and for commits that wait.
    pub(super) progress: Condvar,
    /// For the reader while it leaves batches to gather.
    pub(super) asked: Condvar,
    pub(super) facts: Facts,
    pub(super) dir: PathBuf,
    pub(super) settings: Settings,
    /// Counts what the reader has not read yet.
    pub(super) counter: Mutex<Option<Counter>>,
    pub(super) metrics: MetricHandles,
}

/// How far the log was counted.
pub(super) struct Counter {
    pub(super) follower: SealedFollower,
    pub(super) records: u64,
    /// The oldest that was not acknowledged, where it ends.
    pub(super) oldest: Option<(Lsn, Age)>,
}

impl Shared {
    pub(super) fn at_risk(&self) -> Result<AtRisk> {
        let mut kept_counter = self.counter.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, already, acknowledged, begun_end) = {
            let state = self.lock();
            (state.read, state.records_read, state.acknowledged, state.begun_end)
        };
        // A counter that lags would recount batches that the reader has already read.
        let kept = kept_counter.take().filter(|counter| counter.follower.lsn() >= read);
        let fresh = || {
            let follower = View::open(&self.dir)?.follow_sealed(read)?;
            Ok::<_, Error>(Counter { follower, records: already, oldest: None })
        };
        let counter = kept_counter.insert(kept.map_or_else(fresh, Ok)?);
        counter.oldest.take_if(|(end, _)| *end <= acknowledged);
        while let Some(batch) = counter.follower.next_batch(Duration::ZERO)? {
            counter.records += u64::from(batch.records);
            if batch.records > 0 && batch.end > acknowledged {
                let age = || (batch.end, Age::of(batch.time_us, batch.end <= begun_end));
                counter.oldest.get_or_insert_with(age);
            }
        }
        let state = self.lock();
        let records = counter.records.saturating_sub(state.records_acknowledged);
        let read_age = state.unacknowledged.front().map(|sent| sent.age).or(state.gathering);
        let age = read_age.or(counter.oldest.map(|(_, age)| age)).filter(|_| records > 0);
        Ok(AtRisk {
            records,
            bytes: counter.follower.lsn().since(state.acknowledged),
            time: age.map_or(Duration::ZERO, Age::now),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit waits from now on: the reader follows every batch.
    pub(super) fn ask(&self, state: &mut State) {
        state.asked_ns = Some(monotonic_ns());
        self.asked.notify_one();
    }

    pub(super) fn fail(&self, error: Error) {
        tracing::error!(%error, dir = %self.dir.display(), "shipping has ended");
        self.end(|state| {
            state.failed.get_or_insert(error);
        });
    }

    /// Ends shipping by this change, and tells whoever waits.
    pub(super) fn end(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.work.notify_all();
        self.progress.notify_all();
        for (_, waker) in wakers {
            waker.wake();
        }
    }
}
