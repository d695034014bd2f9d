//! Ships a log: two threads between the log and a destination, and the watermark that commits wait for.
//!
//! ```text
//!  log ─► reader thread: follows it, gathers batches ─► inbox ─► sender thread: `Writer` ─► destination
//!                         ▲  waits while the inbox is full            │ ▲                       │
//!                         └───────────────────────────────────────────┘ └──── answers ──────────┘
//!                                                    acknowledged ─► commits that wait, the note, the hold on the log
//! ```
//!
//! The sender does what [`Writer`] decides. Requests that fail are tried again after a pause that grows to a second, for ever:
//! an outage of any length ends with everything shipped. Now and then it looks at what it had stored ([`Settings::look_time`]), and for
//! another writer's message.
//!
//! Invariants: memory is bounded by [`Settings::memory_bytes`] and one parcel; the note is written only of what is stored, so that a trim never passes
//! what is not there yet; one ships a log to a destination at a time; from a request that fails, or has no answer for half a minute, on
//! [`Shipping::failing`] says why until something is stored again; ages are by the monotonic clock, but for what was there before.

use crate::compression;
use crate::destination::{Destination, Mark};
use crate::error::{Error, Result};
use crate::failure::Facts;
use crate::folder::lies_apart;
use crate::guess;
use crate::message::{Chain, HEADER_BYTES};
use crate::metrics::{Metric, MetricHandles};
use crate::note::{Note, hold_name, random};
use crate::pace::Pace;
use crate::writer::{Action, Bounds, Ground, Identity, Outcome, Parcel, Writer};
use seawall::{Hold, HoldLock, Lsn, SealedBatch, SealedFollower, View};
use seawall_sys::clock::{monotonic_ns, unix_us};
use std::collections::VecDeque;
use std::future::Future;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the note is written while messages are acknowledged.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// How long a thread waits before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// How often a commit that goes on within bounds looks at them.
const LOOK_AT_RISK: Duration = Duration::from_millis(10);
/// How long batches are left to gather in the log while no commit waits for the destination: a read of each as it comes would share the
/// disk with the next commit, which then takes twice as long.
const BEHIND: Duration = Duration::from_millis(5);
/// After so many failures in a row shipping does not begin.
const TRIES_MAX: u64 = 5;
/// After so long without the right to write it does not begin either: an operator hears of it within a minute.
const STARTING: Duration = Duration::from_secs(30);
/// The longest pause before a request is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A request without an answer for so long is said to fail.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);
/// How long what was stored must be missing at least, so that one look at an old list ends nothing.
const MISSING_FOR: Duration = Duration::from_secs(1);
/// How long the threads are waited for at the end; a request that hangs is left to its own end.
const ENDING: Duration = Duration::from_secs(8);

/// How a log is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most memory for batches on their way, in bytes: a parcel is gathered up to an eighth of it. A single batch that is longer takes what it needs.
    pub memory_bytes: usize,
    /// Where batches are gathered: how long the oldest waits for others.
    pub gather_time: Duration,
    /// Whether a recorder of metrics is told once a second what is at risk, in a build that has them: it reads once more what was written.
    pub measures: bool,
    /// How often it looks whether what was stored last is still there, and whether another writer has come.
    pub look_time: Duration,
    /// No more than so many bytes of the log are sent a second, over any longer time.
    pub bytes_per_second: Option<NonZeroU64>,
    /// Whether messages are compressed, in a build with the feature `zstd`; a reader needs it too.
    pub compresses: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            gather_time: Duration::from_secs(10),
            measures: true,
            look_time: Duration::from_secs(30),
            bytes_per_second: None,
            compresses: false,
        }
    }
}

/// What is at risk: durable here, and not acknowledged by the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtRisk {
    /// Records.
    pub records: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// How long the oldest of them has been at risk: by a clock that does not jump since it was read, by the log's time before that.
    pub time: Duration,
}

/// What shipping has done since it was started.
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
    /// Appends that were refused, or had no answer, and were settled by reading.
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
struct Age {
    since_ns: u64,
    before: Duration,
}

impl Age {
    /// A batch that was gathered at `time_us` and is seen now: its age is that of the log's clock only if it was there `before` shipping began.
    fn of(time_us: u64, before: bool) -> Self {
        let us = if before && time_us > 0 { unix_us().saturating_sub(time_us) } else { 0 };
        Self { since_ns: monotonic_ns(), before: Duration::from_micros(us) }
    }

    fn now(self) -> Duration {
        self.before + passed(self.since_ns)
    }
}

fn passed(since_ns: u64) -> Duration {
    Duration::from_nanos(monotonic_ns().saturating_sub(since_ns))
}

/// A parcel on its way.
#[derive(Clone, Copy)]
struct Sent {
    end: Lsn,
    age: Age,
    /// With all records before it.
    records: u64,
    batches: u64,
    bytes: usize,
}

#[derive(Default)]
struct State {
    inbox: VecDeque<Parcel>,
    inbox_bytes: usize,
    /// Where the bandwidth is bounded.
    pace: Option<Pace>,
    /// What became of appends: position, number, outcome.
    outcomes: Vec<(u64, u64, Outcome)>,
    acknowledged: Lsn,
    /// Every parcel that is not acknowledged, oldest first.
    unacknowledged: VecDeque<Sent>,
    /// Records that the reader has read, and of these acknowledged.
    records_read: u64,
    records_acknowledged: u64,
    /// The end of what the reader has read.
    read: Lsn,
    /// The oldest batch of the parcel that is being gathered.
    gathering: Option<Age>,
    /// Where the log ended when shipping began.
    begun_end: Lsn,
    /// Since when a request has no answer.
    waiting_ns: Option<u64>,
    /// When something was stored last, and when something failed last.
    stored_ns: Option<u64>,
    failed_ns: Option<u64>,
    shipping: bool,
    stop: bool,
    /// Nothing waits for more to come, because shipping ends when everything is acknowledged.
    hurry: bool,
    failed: Option<Error>,
    wakers: Vec<(Lsn, Waker)>,
    /// When a commit last waited for the destination.
    asked_ns: Option<u64>,
    stats: ShipStats,
}

impl State {
    /// Whether a commit waits for the destination, or did so lately that the next one is to be expected.
    fn is_awaited(&self) -> bool {
        !self.wakers.is_empty() || self.asked_ns.is_some_and(|asked_ns| passed(asked_ns) < LOOK)
    }
}

struct Shared {
    state: Mutex<State>,
    /// For the sender.
    work: Condvar,
    /// For the reader, and for commits that wait.
    progress: Condvar,
    /// For the reader while it leaves batches to gather.
    asked: Condvar,
    facts: Facts,
    dir: PathBuf,
    settings: Settings,
    /// Counts what the reader has not read yet.
    counter: Mutex<Option<Counter>>,
    metrics: MetricHandles,
}

/// How far the log was counted.
struct Counter {
    follower: SealedFollower,
    records: u64,
    /// The oldest that was not acknowledged, where it ends.
    oldest: Option<(Lsn, Age)>,
}

impl State {
    /// Why nothing is stored now.
    fn failing(&self) -> Option<String> {
        let hangs = || self.waiting_ns.is_some_and(|since| passed(since) >= ANSWERED_WITHIN);
        let text = || format!("no answer to a request for {} s", ANSWERED_WITHIN.as_secs());
        self.stats.failing.clone().or_else(|| hangs().then(text))
    }
}

impl Shared {
    fn at_risk(&self) -> Result<AtRisk> {
        let mut kept_counter = self.counter.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, already, acknowledged, begun_end) = {
            let state = self.lock();
            (state.read, state.records_read, state.acknowledged, state.begun_end)
        };
        // One that is behind would read what the reader has read.
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit waits from now on: the reader follows every batch.
    fn ask(&self, state: &mut State) {
        state.asked_ns = Some(monotonic_ns());
        self.asked.notify_one();
    }

    fn fail(&self, error: Error) {
        tracing::error!(%error, dir = %self.dir.display(), "shipping has ended");
        let mut state = self.lock();
        state.failed.get_or_insert(error);
        let wakers: Vec<_> = state.wakers.drain(..).collect();
        drop(state);
        self.work.notify_all();
        self.progress.notify_all();
        for (_, waker) in wakers {
            waker.wake();
        }
    }
}

/// A log that is being shipped. Dropping it stops; the destination then lacks what was not acknowledged, which the next one
/// sends.
pub struct Shipping {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    address: String,
}

impl std::fmt::Debug for Shipping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shipping").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What a writer of the log in `dir` needs to begin: who it is, what it knows, and whether its last message was removed by a retention.
fn introduce(dir: &Path, destination: &mut dyn Destination) -> Result<(Note, Identity, bool)> {
    let view = View::open(dir)?;
    if let Some(folder) = destination.folder() {
        lies_apart(dir, &folder)?;
    }
    let mut note = match Note::read(dir, destination)? {
        Some(note) => note,
        None if destination.last()? > 0 => owned(dir, destination)?.ok_or(Error::NotOwner)?,
        None => {
            let chain = Chain { needed: view.first_sealed(), ..Chain::default() };
            Note::new(destination, random()?, chain)?
        }
    };
    // What was set back or is another place is left as it is.
    let begin = destination.begin()?;
    let is_begin = begin.number > 0 && (begin.number, begin.last) == (note.chain.number, note.chain.last);
    let (position, knows) = (note.chain.last_at.max(1), note.chain.number > 0 && !is_begin);
    if knows && destination.identity()? == Mark::Missing && destination.head(position)?.is_none() {
        return Err(Error::Lost { position });
    }
    destination.found()?;
    if let Mark::Is(mark) = destination.identity()? {
        note.identity = Some(mark);
    }
    note.write(dir)?;
    note.former = None;
    // Behind the hold, which keeps what is there now.
    let view = View::open(dir)?;
    let (log_id, first) = (view.log_id(), view.first_sealed());
    let base = (first, view.follow_sealed(first)?.link());
    let identity = Identity { log_id, owner: note.owner, nonce: random()?, ground: Ground::Continue, base };
    Ok((note, identity, is_begin))
}

/// The note of this directory on a destination that has another address now: by the owner that the last messages name.
fn owned(dir: &Path, destination: &mut dyn Destination) -> Result<Option<Note>> {
    let Some(end) = guess::end(destination)? else { return Ok(None) };
    let known = Note::all(dir).into_iter().find(|(_, note)| note.owner == end.owner);
    Ok(known.map(|(name, note)| note.moved(name, destination)))
}

impl Shipping {
    /// Begins to ship the log in `dir`, which another process or this one may have open for writing. Returns when the right to
    /// write to the destination is taken.
    ///
    /// # Errors
    /// [`Error::InUse`] if it is being shipped there already; [`Error::Other`] if it is not the one that the log was shipped to,
    /// [`Error::NotOwner`] if it belongs to another directory, [`Error::Replaced`], [`Error::Second`], [`Error::Diverged`],
    /// [`Error::Damaged`], [`Error::Lost`], [`Error::Altered`], [`Error::Unavailable`] if the destination cannot be reached.
    pub fn start(
        dir: impl AsRef<Path>,
        mut destination: Box<dyn Destination>,
        settings: Settings,
    ) -> Result<Self> {
        let dir = std::path::absolute(dir.as_ref())
            .map_err(|source| Error::unavailable("no such folder", source))?;
        if settings.compresses {
            compression::check()?;
        }
        let address = destination.address();
        let in_use = || Error::InUse { address: address.clone() };
        let lock = Hold::lock(&dir, &hold_name(&address))?.ok_or_else(in_use)?;
        let (note, identity, is_begin) = introduce(&dir, destination.as_mut())?;
        let facts = destination.facts().clone();
        let bounds = Bounds {
            message_bytes_max: facts.message_bytes_max,
            in_flight_max: facts.in_flight_max,
            queue_bytes_max: settings.memory_bytes / 4,
            compresses: settings.compresses,
        };
        let writer = Writer::new(identity, bounds, note.chain.clone());
        let writer = if is_begin { writer.with_last_found() } else { writer };
        let metrics = MetricHandles::new(&dir, &address, &facts);
        let shared = Arc::new(Shared {
            state: Mutex::new(State { pace: settings.bytes_per_second.map(Pace::new), ..State::default() }),
            work: Condvar::new(),
            progress: Condvar::new(),
            asked: Condvar::new(),
            facts,
            dir: dir.clone(),
            settings,
            counter: Mutex::new(None),
            metrics,
        });
        let mut sender = Sender::new(Arc::clone(&shared), destination, writer, note, lock);
        let begun_ns = monotonic_ns();
        while !sender.writer.is_shipping() {
            sender.step()?;
            if let Some(end) = sender.writer.ended() {
                return Err(end.error());
            }
            let (failures, failing) = {
                let state = shared.lock();
                (state.stats.failures, state.failing().unwrap_or_default())
            };
            // Reads may be answered where nothing is stored, and each may take as long as a request may.
            let long = passed(begun_ns) > STARTING && (sender.unanswered || failures > 0);
            if failures >= TRIES_MAX || long {
                let what = "the destination takes nothing, or cannot be reached";
                return Err(Error::unavailable(what, std::io::Error::other(failing)));
            }
            sender.wait();
        }
        let (lsn, _) = sender.writer.due();
        let Some(follower) = sender.follower.take() else {
            return Err(Error::unavailable("the log was not found to go on", "no follower"));
        };
        let begun_end = View::open(&dir)?.end_lsn();
        {
            let mut state = shared.lock();
            (state.acknowledged, state.read, state.shipping, state.begun_end) = (lsn, lsn, true, begun_end);
        }
        let reader = Reader { shared: Arc::clone(&shared), follower, begun_end };
        let threads = vec![
            spawn("seawall-ship-read", move || reader.run())?,
            spawn("seawall-ship", move || sender.run())?,
        ];
        Ok(Self { shared, threads, address })
    }

    /// What is known of the destination.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.shared.facts
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Everything before this is acknowledged by the destination.
    #[must_use]
    pub fn acknowledged(&self) -> Lsn {
        self.shared.lock().acknowledged
    }

    /// Why nothing is stored now: a failure, or that a request has had no answer for half a minute; until something is stored again.
    #[must_use]
    pub fn failing(&self) -> Option<String> {
        self.shared.lock().failing()
    }

    /// Why shipping has ended, if it has.
    #[must_use]
    pub fn failed(&self) -> Option<Error> {
        self.shared.lock().failed.clone()
    }

    /// Returns when everything before `lsn`, which must be durable here, is acknowledged.
    ///
    /// # Errors
    /// [`Error::TimedOut`] after `limit`, and why shipping has ended.
    pub fn wait(&self, lsn: Lsn, limit: Option<Duration>) -> Result<()> {
        let begun_ns = monotonic_ns();
        self.wait_since(lsn, limit, &|_| begun_ns)
    }

    /// As [`Shipping::wait`]; the limit begins anew whenever something is stored.
    ///
    /// # Errors
    /// As [`Shipping::wait`]; [`Error::Unavailable`] with the reason where that is known.
    pub fn wait_while_it_moves(&self, lsn: Lsn, limit: Duration) -> Result<()> {
        let begun_ns = monotonic_ns();
        let waited = self
            .wait_since(lsn, Some(limit), &|state| state.stored_ns.map_or(begun_ns, |at| at.max(begun_ns)));
        match (waited, self.failing()) {
            (Err(error @ Error::TimedOut { .. }), Some(why)) => {
                Err(Error::unavailable(error.to_string(), why))
            }
            (waited, _) => waited,
        }
    }

    fn wait_since(&self, lsn: Lsn, limit: Option<Duration>, since_ns: &dyn Fn(&State) -> u64) -> Result<()> {
        let mut state = self.shared.lock();
        loop {
            if state.acknowledged >= lsn {
                return Ok(());
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.stop {
                return Err(Error::Closed);
            }
            let waited = passed(since_ns(&state));
            let left = limit.map_or(LOOK, |limit| limit.saturating_sub(waited).min(LOOK));
            if left.is_zero() {
                return Err(Error::TimedOut { lsn });
            }
            self.shared.ask(&mut state);
            let woken = self.shared.progress.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// As [`Shipping::wait`], and also once no more is at risk than so many records, the oldest of them for `time`.
    ///
    /// # Errors
    /// As [`Shipping::wait`] and [`Shipping::at_risk`].
    pub fn wait_within(&self, lsn: Lsn, records: u64, time: Duration, limit: Option<Duration>) -> Result<()> {
        let begun = monotonic_ns();
        loop {
            if self.acknowledged() >= lsn {
                return Ok(());
            }
            let risk = self.at_risk()?;
            if risk.records <= records && risk.time <= time {
                return Ok(());
            }
            let waited = Duration::from_nanos(monotonic_ns() - begun);
            let left = limit.map_or(LOOK_AT_RISK, |limit| limit.saturating_sub(waited).min(LOOK_AT_RISK));
            match self.wait(lsn, Some(left)) {
                Err(Error::TimedOut { .. }) if limit.is_none_or(|limit| waited < limit) => {}
                waited => return waited,
            }
        }
    }

    /// As [`Shipping::wait`] without a limit, as a future, which needs no runtime.
    pub fn wait_async(&self, lsn: Lsn) -> Acknowledged {
        Acknowledged { shared: Arc::clone(&self.shared), lsn }
    }

    /// What is at risk now: exact, also while the destination is away and the memory is full. It counts the batches that are durable and
    /// that it has not counted before, which reads them.
    ///
    /// # Errors
    /// [`Error::Log`] if they cannot be read.
    pub fn at_risk(&self) -> Result<AtRisk> {
        self.shared.at_risk()
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// As [`Shipping::at_risk`].
    pub fn stats(&self) -> Result<ShipStats> {
        let at_risk = self.at_risk()?;
        let state = self.shared.lock();
        let mut done = ShipStats { acknowledged: state.acknowledged, at_risk, ..state.stats.clone() };
        done.failing = state.failing();
        done.stored_ago = state.stored_ns.map(passed);
        if let (Some((_, ago)), Some(at)) = (&mut done.last_failure, state.failed_ns) {
            *ago = passed(at);
        }
        Ok(done)
    }

    /// Ships what is durable by now, without waiting for more to gather; returns where that ends.
    fn hurry(&self) -> Result<Lsn> {
        let view = View::open(&self.shared.dir)?;
        let proven = view.end_lsn();
        let mut follower = view.follow_sealed(proven)?;
        // A writer knows more to be durable than the log itself proves.
        follower.next_batch(Duration::ZERO)?;
        let end = follower.end();
        let mut state = self.shared.lock();
        state.hurry = true;
        self.shared.ask(&mut state);
        drop(state);
        self.shared.progress.notify_all();
        Ok(end)
    }

    /// Ships what is durable by now, and waits until it is acknowledged. Nothing is left to gather from then on.
    ///
    /// # Errors
    /// As [`Shipping::wait`].
    pub fn drain(&self, limit: Option<Duration>) -> Result<Lsn> {
        let end = self.hurry()?;
        self.wait(end, limit).map(|()| end)
    }

    /// Ships what is durable by now, waits until it is acknowledged, and ends.
    ///
    /// # Errors
    /// As [`Shipping::wait`].
    pub fn finish(mut self, limit: Option<Duration>) -> Result<Lsn> {
        let drained = self.drain(limit);
        self.stop();
        drained
    }

    /// As [`Shipping::finish`]; the limit begins anew whenever something is stored.
    ///
    /// # Errors
    /// As [`Shipping::wait_while_it_moves`].
    pub fn finish_while_it_moves(mut self, limit: Duration) -> Result<Lsn> {
        let end = self.hurry()?;
        let waited = self.wait_while_it_moves(end, limit);
        self.stop();
        waited.map(|()| end)
    }

    fn stop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_all();
        self.shared.progress.notify_all();
        let begun_ns = monotonic_ns();
        for thread in self.threads.drain(..) {
            while !thread.is_finished() && passed(begun_ns) < ENDING {
                std::thread::sleep(Duration::from_millis(1));
            }
            if thread.is_finished() && thread.join().is_err() {
                tracing::error!("a thread that ships panicked");
            }
        }
    }
}

impl Drop for Shipping {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(|source| Error::unavailable("cannot start a thread", source))
}

/// What the log says where the destination ends.
pub(crate) fn diverged(lsn: Lsn, error: seawall::Error) -> Error {
    match error {
        seawall::Error::NoBatch { .. } => Error::Diverged { lsn, what: "no batch ends there".to_owned() },
        seawall::Error::BeyondEnd { end, .. } => {
            Error::Diverged { lsn, what: format!("the log ends at LSN {end} already") }
        }
        other => other.into(),
    }
}

/// Ready when everything before an LSN is acknowledged: see [`Shipping::wait_async`].
#[must_use = "a future does nothing before it is polled"]
pub struct Acknowledged {
    shared: Arc<Shared>,
    lsn: Lsn,
}

impl std::fmt::Debug for Acknowledged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acknowledged").field("lsn", &self.lsn).finish_non_exhaustive()
    }
}

impl Future for Acknowledged {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut state = self.shared.lock();
        if state.acknowledged >= self.lsn {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = &state.failed {
            return Poll::Ready(Err(error.clone()));
        }
        if state.stop {
            return Poll::Ready(Err(Error::Closed));
        }
        let known =
            state.wakers.iter().any(|(lsn, waker)| *lsn == self.lsn && waker.will_wake(context.waker()));
        if !known {
            state.wakers.push((self.lsn, context.waker().clone()));
        }
        self.shared.ask(&mut state);
        Poll::Pending
    }
}

/// Reads the log and gathers its batches.
struct Reader {
    shared: Arc<Shared>,
    follower: SealedFollower,
    /// Where the log ended when shipping began.
    begun_end: Lsn,
}

/// A parcel that is being gathered.
struct Gathered {
    parcel: Parcel,
    batches: u64,
    since_ns: u64,
    /// Of its oldest batch with records.
    age: Option<Age>,
}

impl Reader {
    fn run(mut self) {
        let mut gathered: Option<Gathered> = None;
        loop {
            let (stop, hurry, awaited) = {
                let state = self.shared.lock();
                (state.stop || state.failed.is_some(), state.hurry, state.is_awaited())
            };
            if stop {
                return;
            }
            let due = gathered.as_ref().is_some_and(|gathered| self.is_due(gathered));
            if due && !self.put(&mut gathered) {
                return;
            }
            let wait = gathered.as_ref().map_or(LOOK, |gathered| self.left(gathered).min(LOOK));
            let before = self.follower.link();
            let batch = match self.follower.next_batch(if awaited && !hurry { wait } else { Duration::ZERO })
            {
                Ok(None) if !awaited && !hurry => {
                    self.leave(wait.min(BEHIND));
                    self.follower.next_batch(wait)
                }
                batch => batch,
            };
            match batch {
                Ok(Some(batch)) => {
                    if batch.segment.is_some()
                        && gathered.as_ref().is_some_and(|open| open.parcel.records > 0)
                        && !self.put(&mut gathered)
                    {
                        return;
                    }
                    self.gather(&mut gathered, &batch, before);
                }
                Ok(None) if hurry => {
                    if !self.put(&mut gathered) {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(None) => {}
                Err(error) => return self.shared.fail(error.into()),
            }
        }
    }

    /// Waits for `time`, or until a commit waits.
    fn leave(&self, time: Duration) {
        let until_ns = monotonic_ns() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.shared.lock();
        while !(state.is_awaited() || state.hurry || state.stop) {
            let left = Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()));
            if left.is_zero() {
                return;
            }
            state = self.shared.asked.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn gather(&self, gathered: &mut Option<Gathered>, batch: &SealedBatch, before: u32) {
        let open = gathered.get_or_insert_with(|| Gathered {
            parcel: Parcel {
                lsn: batch.lsn,
                end: batch.lsn,
                link_before: before,
                link: before,
                records: 0,
                time_us: 0,
                sent_us: 0,
                // As it grows, the old and the new one would be there at once.
                bytes: Vec::with_capacity(self.gather_bytes()),
            },
            batches: 0,
            since_ns: monotonic_ns(),
            age: None,
        });
        if batch.records > 0 && open.age.is_none() {
            open.age = Some(Age::of(batch.time_us, batch.end <= self.begun_end));
            self.shared.lock().gathering = open.age;
        }
        open.batches += u64::from(batch.records > 0);
        batch.append_to(&mut open.parcel.bytes);
        let parcel = &mut open.parcel;
        (parcel.end, parcel.link) = (batch.end, batch.link);
        parcel.records += batch.records;
        parcel.time_us = parcel.time_us.max(batch.time_us);
    }

    fn is_due(&self, gathered: &Gathered) -> bool {
        let full = gathered.parcel.bytes.len() >= self.gather_bytes();
        gathered.parcel.records > 0 && (full || self.left(gathered).is_zero())
    }

    /// Batches are gathered up to so many bytes.
    fn gather_bytes(&self) -> usize {
        let Settings { memory_bytes, bytes_per_second, .. } = self.shared.settings;
        // No object takes longer than half a minute of the bandwidth.
        let paid = bytes_per_second
            .map_or(usize::MAX, |rate| usize::try_from(rate.get()).unwrap_or(usize::MAX).saturating_mul(30));
        self.shared.facts.gather_bytes.min(memory_bytes / 8).min(paid)
    }

    /// How long the parcel may wait for more.
    fn left(&self, gathered: &Gathered) -> Duration {
        let waited = Duration::from_nanos(monotonic_ns() - gathered.since_ns);
        let bound = if self.shared.facts.gather_bytes == 0 {
            Duration::ZERO
        } else {
            self.shared.settings.gather_time
        };
        if gathered.parcel.records == 0 { LOOK } else { bound.saturating_sub(waited) }
    }

    /// Puts what was gathered into the inbox, once there is room; `false` if shipping ends.
    fn put(&self, gathered: &mut Option<Gathered>) -> bool {
        let Some(Gathered { mut parcel, batches, age, .. }) =
            gathered.take_if(|open| open.parcel.records > 0)
        else {
            return true;
        };
        parcel.sent_us = unix_us();
        // Many may wait while the destination is away: each takes what it holds.
        parcel.bytes.shrink_to_fit();
        let mut state = self.shared.lock();
        loop {
            let inbox_bytes = state.inbox_bytes + parcel.bytes.len();
            let is_full = state.inbox_bytes > 0 && inbox_bytes > self.shared.settings.memory_bytes / 4;
            let left = state.pace.map_or(Duration::ZERO, |pace| pace.left(monotonic_ns()));
            if !is_full && left.is_zero() {
                break;
            }
            if state.stop || state.failed.is_some() {
                return false;
            }
            let wait = if is_full { LOOK } else { left.min(LOOK) };
            let woken = self.shared.progress.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(pace) = &mut state.pace {
            pace.took(parcel.bytes.len(), monotonic_ns());
        }
        state.inbox_bytes += parcel.bytes.len();
        state.records_read += u64::from(parcel.records);
        state.read = parcel.end;
        let (records, bytes) = (state.records_read, parcel.bytes.len());
        let (end, age) = (parcel.end, age.unwrap_or_else(|| Age::of(0, false)));
        state.gathering = None;
        state.unacknowledged.push_back(Sent { end, age, records, batches, bytes });
        state.inbox.push_back(parcel);
        drop(state);
        self.shared.work.notify_one();
        true
    }
}

/// Does what the writer decides.
struct Sender {
    shared: Arc<Shared>,
    destination: Box<dyn Destination>,
    writer: Writer,
    note: Note,
    /// Nobody else ships the log there meanwhile.
    _lock: HoldLock,
    /// Where the log continues the chain, once that was found.
    follower: Option<SealedFollower>,
    noted_ns: u64,
    measured_ns: u64,
    /// Before the next request, because the last one failed.
    pause: Duration,
    /// An append was not stored, and none since was.
    unanswered: bool,
    /// Appends in a row that were refused.
    refused: u32,
    /// How many messages were known to be stored when that was last looked at.
    stored: u64,
    failing: Failing,
    /// The headers of messages that were sent, by their numbers: those that may be on their way, and the last one that was stored.
    heads: VecDeque<(u64, Vec<u8>)>,
    /// A message that was found to be stored, and its header.
    anchor: Option<(u64, Vec<u8>)>,
    looked_ns: u64,
    /// Since when a message is missing that was stored.
    missing_ns: Option<u64>,
}

/// Why something fails, each until it succeeds.
#[derive(Default)]
struct Failing {
    /// The first message that is not stored, and why: those behind it are refused because of it.
    append: Option<(u64, String)>,
    read: Option<String>,
    note: Option<String>,
}

/// The header of a message.
fn head(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(HEADER_BYTES)].to_vec()
}

impl Sender {
    fn new(
        shared: Arc<Shared>,
        destination: Box<dyn Destination>,
        writer: Writer,
        note: Note,
        lock: HoldLock,
    ) -> Self {
        Self {
            shared,
            destination,
            stored: writer.known().number,
            writer,
            note,
            _lock: lock,
            follower: None,
            noted_ns: 0,
            measured_ns: 0,
            pause: Duration::ZERO,
            unanswered: false,
            refused: 0,
            failing: Failing::default(),
            heads: VecDeque::new(),
            anchor: None,
            looked_ns: monotonic_ns(),
            missing_ns: None,
        }
    }

    fn run(mut self) {
        loop {
            if let Err(error) = self.step().and_then(|()| self.look()) {
                return self.shared.fail(error);
            }
            if let Some(end) = self.writer.ended() {
                return self.shared.fail(end.error());
            }
            self.measure();
            if self.shared.lock().stop {
                break;
            }
            self.wait();
        }
        self.write_note(true);
        if let Some(why) = &self.failing.note {
            tracing::warn!(why, "the next writer reads more of the destination");
        }
    }

    /// Everything that can be done without waiting.
    fn step(&mut self) -> Result<()> {
        self.take_outcomes();
        loop {
            self.join()?;
            self.take_parcels();
            let Some(action) = self.writer.next_action() else { break };
            let goes_on = match action {
                Action::Append { position, number, bytes } => {
                    self.heads.retain(|(known, _)| *known != number);
                    self.heads.push_back((number, head(&bytes)));
                    self.shared.lock().waiting_ns.get_or_insert_with(monotonic_ns);
                    let answer = answer(&self.shared, position, number);
                    self.destination.append(position, bytes, answer);
                    true
                }
                Action::Read { position } => self.read(position)?,
            };
            let unstored = self.take_outcomes();
            self.publish();
            if unstored || !goes_on {
                break;
            }
        }
        self.publish();
        self.write_note(false);
        self.say();
        Ok(())
    }

    /// Has the log continue the chain, when the writer wants to know that.
    fn join(&mut self) -> Result<()> {
        while self.writer.wants_join() {
            let (lsn, link) = self.writer.due();
            let view = View::open(&self.shared.dir)?;
            let mut follower = view.follow_sealed(lsn).map_err(|error| diverged(lsn, error))?;
            // Marks take no LSN: the last message may end with some of those that lie there.
            while follower.link() != link {
                let batch = follower.next_batch(Duration::ZERO)?;
                if batch.is_none_or(|batch| batch.records > 0) {
                    break;
                }
            }
            self.writer.join(Some(follower.link()));
            self.follower = Some(follower);
        }
        Ok(())
    }

    /// Reads a position for the writer; returns whether more is to be done at once.
    fn read(&mut self, position: u64) -> Result<bool> {
        {
            let mut state = self.shared.lock();
            state.stats.doubts += u64::from(self.writer.is_shipping() && !self.writer.is_idle());
            state.waiting_ns.get_or_insert_with(monotonic_ns);
        }
        let found = self.destination.read(position);
        if !self.unanswered {
            self.shared.lock().waiting_ns = None;
        }
        match found {
            Ok(found) => {
                self.failing.read = None;
                let is_known = position <= self.writer.known().position;
                if is_known && found.is_none() && self.is_settling() {
                    self.writer.unread(position);
                    self.longer_pause();
                    return Ok(false);
                }
                if is_known {
                    self.missing_ns = None;
                    self.anchor = found.as_deref().map(|bytes| (position, head(bytes)));
                }
                self.writer.read(position, found.as_deref());
                if !self.unanswered {
                    self.pause = Duration::ZERO;
                }
                Ok(true)
            }
            Err(error) if error.is_passing() => {
                self.writer.unread(position);
                self.failed(&error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether what is missing may not be shown yet by a destination that changes its leader.
    fn is_settling(&mut self) -> bool {
        let since_ns = *self.missing_ns.get_or_insert_with(monotonic_ns);
        passed(since_ns) < self.destination.settles_within().max(MISSING_FOR)
    }

    /// Looks now and then whether what was stored is still there, and for another writer's message.
    fn look(&mut self) -> Result<()> {
        let every = if self.missing_ns.is_some() { MISSING_FOR } else { self.shared.settings.look_time };
        if !self.writer.is_shipping() || passed(self.looked_ns) < every {
            return Ok(());
        }
        self.looked_ns = monotonic_ns();
        let known = self.writer.known();
        let last = self.heads.iter().find(|(number, _)| number + 1 == known.number);
        let last = last.map(|(_, head)| (known.last_at, head.clone()));
        for (position, head) in self.anchor.clone().into_iter().chain(last.clone()) {
            match self.is_lost(position, &head) {
                Ok(None) => {}
                Ok(Some(_)) if self.is_settling() => return Ok(()),
                Ok(Some(gone)) => return Err(gone),
                Err(error) if error.is_passing() => {
                    self.failed(&error);
                    self.say();
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        (self.missing_ns, self.failing.read) = (None, None);
        self.anchor = last.or(self.anchor.take());
        self.writer.look();
        self.say();
        Ok(())
    }

    /// Whether a message with this header is there no more, and no retention removed it.
    fn is_lost(&mut self, position: u64, head: &[u8]) -> Result<Option<Error>> {
        let found = self.destination.head(position)?;
        if found.as_deref() == Some(head) || self.destination.begin()?.position >= position {
            return Ok(None);
        }
        Ok(Some(if found.is_none() { Error::Lost { position } } else { Error::Altered { position } }))
    }

    /// Tells the others why nothing is stored, as long as that is so.
    fn say(&mut self) {
        let Failing { append, read, note } = &self.failing;
        let failing = read.as_ref().or(append.as_ref().map(|(_, why)| why)).or(note.as_ref());
        let mut state = self.shared.lock();
        if let Some(why) = failing {
            state.failed_ns = Some(monotonic_ns());
            state.stats.last_failure = Some((why.clone(), Duration::ZERO));
        }
        state.stats.failing = failing.cloned();
    }

    /// Tells a recorder of metrics what is at risk, once a second.
    fn measure(&mut self) {
        let is_on = MetricHandles::IS_ON && self.shared.settings.measures;
        if !is_on || Duration::from_nanos(monotonic_ns() - self.measured_ns) < NOTE_EVERY {
            return;
        }
        self.measured_ns = monotonic_ns();
        self.shared.metrics.failing(self.shared.lock().stats.failing.is_some());
        match self.shared.at_risk() {
            Ok(risk) => self.shared.metrics.at_risk(&risk),
            Err(error) => tracing::warn!(%error, "what is at risk was not counted"),
        }
    }

    fn longer_pause(&mut self) {
        self.pause = (self.pause * 2).clamp(Duration::from_millis(20), PAUSE_MAX);
    }

    fn failed(&mut self, error: &Error) {
        self.longer_pause();
        self.shared.metrics.count(Metric::Retries, 1);
        self.shared.lock().stats.failures += 1;
        self.failing.read = Some(error.to_string());
        self.say();
    }

    /// Returns whether an append was not stored: then it is tried again after a pause, because a destination that answers reads alone
    /// would be asked without one.
    fn take_outcomes(&mut self) -> bool {
        let outcomes = std::mem::take(&mut self.shared.lock().outcomes);
        let mut unstored = false;
        for (position, number, outcome) in outcomes {
            match &outcome {
                Outcome::Stored => {}
                Outcome::Refused(why) => {
                    self.refused += 1;
                    self.shared.metrics.count(Metric::Refused, 1);
                    // The first one is that of a message that was stored without an answer, as a rule.
                    if self.refused > 1 {
                        self.unstored(position, why);
                    }
                    unstored = true;
                }
                Outcome::Unknown(why) => {
                    self.unstored(position, why);
                    self.shared.metrics.count(Metric::Retries, 1);
                    unstored = true;
                }
            }
            self.writer.outcome(position, number, outcome);
        }
        if unstored {
            self.unanswered = true;
            self.longer_pause();
        }
        self.note_progress();
        unstored
    }

    fn unstored(&mut self, position: u64, why: &str) {
        let is_first = self.failing.append.as_ref().is_none_or(|(first, _)| position <= *first);
        // What comes late of one that is stored says nothing any more.
        if is_first && position > self.writer.known().position {
            self.failing.append = Some((position, why.to_string()));
        }
    }

    /// Something was stored since the last look: whatever failed does so no more.
    fn note_progress(&mut self) {
        let number = self.writer.known().number;
        if number == self.stored || !self.writer.is_shipping() {
            return;
        }
        self.stored = number;
        (self.pause, self.unanswered, self.refused) = (Duration::ZERO, false, 0);
        self.failing.append = None;
        while self.heads.front().is_some_and(|(sent, _)| sent + 1 < number) {
            self.heads.pop_front();
        }
        let mut state = self.shared.lock();
        state.stored_ns = Some(monotonic_ns());
        state.waiting_ns = (!self.writer.is_idle()).then(monotonic_ns);
    }

    fn take_parcels(&mut self) {
        while self.writer.has_room() {
            let mut state = self.shared.lock();
            let Some(parcel) = state.inbox.pop_front() else { return };
            state.inbox_bytes -= parcel.bytes.len();
            drop(state);
            self.shared.progress.notify_all();
            self.writer.offer(&parcel);
        }
    }

    /// Moves the watermark.
    fn publish(&mut self) {
        self.note_progress();
        let acknowledged = self.writer.acknowledged();
        let mut state = self.shared.lock();
        if !state.shipping || acknowledged <= state.acknowledged {
            return;
        }
        state.acknowledged = acknowledged;
        while let Some(sent) = state.unacknowledged.pop_front_if(|sent| sent.end <= acknowledged) {
            let metrics = &self.shared.metrics;
            metrics.count(Metric::Records, sent.records - state.records_acknowledged);
            metrics.count(Metric::Messages, 1);
            metrics.acknowledged();
            metrics.count(Metric::Batches, sent.batches);
            metrics.count(Metric::Bytes, sent.bytes as u64);
            state.records_acknowledged = sent.records;
            state.stats.messages += 1;
            state.stats.bytes += sent.bytes as u64;
        }
        let due = state.wakers.extract_if(.., |(lsn, _)| *lsn <= acknowledged).map(|(_, waker)| waker);
        let due: Vec<Waker> = due.collect();
        drop(state);
        self.shared.progress.notify_all();
        due.into_iter().for_each(Waker::wake);
    }

    fn write_note(&mut self, now: bool) {
        let elapsed = passed(self.noted_ns);
        let known = self.writer.known();
        let news =
            self.writer.is_shipping() && !known.is_open() && known.position != self.note.chain.position;
        if !news || !(now || elapsed >= NOTE_EVERY || self.noted_ns == 0) {
            return;
        }
        let note = Note { chain: known.clone(), ..self.note.clone() };
        self.noted_ns = monotonic_ns();
        // As long as it cannot be written the log keeps more, and the next writer reads more.
        match note.write(&self.shared.dir) {
            Ok(()) => (self.note, self.failing.note) = (note, None),
            Err(error) => self.failing.note = Some(error.to_string()),
        }
    }

    /// Waits for something to do, or for the end of a pause.
    fn wait(&mut self) {
        let pause = std::mem::take(&mut self.pause);
        if pause > Duration::ZERO {
            std::thread::sleep(pause);
            // The next failure waits longer.
            self.pause = pause;
        }
        let mut state = self.shared.lock();
        let has_work = |state: &State, writer: &Writer| {
            state.stop || !state.outcomes.is_empty() || (!state.inbox.is_empty() && writer.has_room())
        };
        if pause.is_zero() && !has_work(&state, &self.writer) {
            let limit = if self.writer.is_idle() { LOOK } else { NOTE_EVERY };
            let woken = self.shared.work.wait_timeout(state, limit.min(LOOK));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
    }
}

/// Tells the sender what becomes of an append; that nothing is known, if it is dropped.
fn answer(shared: &Arc<Shared>, position: u64, number: u64) -> Box<dyn FnOnce(Outcome) + Send> {
    struct Unanswered(Option<(Arc<Shared>, u64, u64)>);
    impl Unanswered {
        fn say(&mut self, outcome: Outcome) {
            let Some((shared, position, number)) = self.0.take() else { return };
            shared.lock().outcomes.push((position, number, outcome));
            shared.work.notify_one();
        }
    }
    impl Drop for Unanswered {
        fn drop(&mut self) {
            self.say(Outcome::unknown("a request ended without an answer"));
        }
    }
    let mut unanswered = Unanswered(Some((Arc::clone(shared), position, number)));
    Box::new(move |outcome| unanswered.say(outcome))
}
