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
//! an outage of any length ends with everything shipped.
//!
//! Invariants: memory is bounded by [`Settings::memory_bytes`] and one parcel; the note is written only of what is stored, so that a trim never passes
//! what is not there yet.

use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::failure::Facts;
use crate::message::Chain;
use crate::metrics::{Metric, MetricHandles};
use crate::note::{Note, random};
use crate::writer::{Action, Bounds, Ground, Identity, Outcome, Parcel, Writer};
use seawall::{Lsn, SealedBatch, SealedFollower, View};
use seawall_sys::clock::{monotonic_ns, unix_us};
use std::collections::VecDeque;
use std::future::Future;
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
/// After so long without the right to write it does not begin either.
const STARTING: Duration = Duration::from_mins(1);
/// The longest pause before a request is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How a log is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most memory for batches on their way, in bytes, beyond one parcel.
    pub memory_bytes: usize,
    /// Where batches are gathered: how long the oldest waits for others.
    pub gather_time: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { memory_bytes: 32 << 20, gather_time: Duration::from_secs(10) }
    }
}

/// What is at risk: durable here, and not acknowledged by the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtRisk {
    /// Records.
    pub records: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// How long ago the oldest of them was gathered.
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
    /// The last failure of a request, until one succeeds.
    pub failing: Option<String>,
}

/// A parcel on its way.
#[derive(Clone, Copy)]
struct Sent {
    end: Lsn,
    time_us: u64,
    /// With all records before it.
    records: u64,
    batches: u64,
    bytes: usize,
}

#[derive(Default)]
struct State {
    inbox: VecDeque<Parcel>,
    inbox_bytes: usize,
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
        let passed = |asked_ns| Duration::from_nanos(monotonic_ns().saturating_sub(asked_ns));
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
    counter: Mutex<Option<(SealedFollower, u64)>>,
    metrics: MetricHandles,
}

impl Shared {
    fn at_risk(&self) -> Result<AtRisk> {
        let mut kept_counter = self.counter.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, already) = {
            let state = self.lock();
            (state.read, state.records_read)
        };
        // One that is behind would read what the reader has records_seen.
        let kept = kept_counter.take().filter(|(follower, _)| follower.lsn() >= read);
        let fresh = || Ok::<_, Error>((View::open(&self.dir)?.follow_sealed(read)?, already));
        let (follower, records_seen) = kept_counter.insert(kept.map_or_else(fresh, Ok)?);
        let mut oldest_us = None;
        while let Some(batch) = follower.next_batch(Duration::ZERO)? {
            *records_seen += u64::from(batch.records);
            oldest_us = oldest_us.or(Some(batch.time_us).filter(|_| batch.records > 0));
        }
        let state = self.lock();
        let records = records_seen.saturating_sub(state.records_acknowledged);
        let oldest_us = state.unacknowledged.front().map(|sent| sent.time_us).or(oldest_us);
        let age = oldest_us.filter(|us| *us > 0 && records > 0).map_or(0, |us| unix_us().saturating_sub(us));
        Ok(AtRisk {
            records,
            bytes: follower.lsn().since(state.acknowledged),
            time: Duration::from_micros(age),
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

/// What a writer of the log in `dir` needs to begin: who it is, and what it knows.
fn introduce(dir: &Path, destination: &mut dyn Destination) -> Result<(Note, Identity)> {
    let view = View::open(dir)?;
    let begin = view.first_sealed();
    let note = if let Some(note) = Note::read(dir, destination)? {
        note
    } else {
        if destination.last()? > 0 {
            return Err(Error::NotOwner);
        }
        let chain = Chain { needed: begin, ..Chain::default() };
        let note = Note::new(destination, random()?, chain);
        note.write(dir)?;
        note
    };
    // Behind the hold, which keeps what is there now.
    let view = View::open(dir)?;
    let (log_id, first) = (view.log_id(), view.first_sealed());
    let base = (first, view.follow_sealed(first)?.link());
    let identity = Identity { log_id, owner: note.owner, nonce: random()?, ground: Ground::Continue, base };
    Ok((note, identity))
}

impl Shipping {
    /// Begins to ship the log in `dir`, which another process or this one may have open for writing. Returns when the right to
    /// write to the destination is taken.
    ///
    /// # Errors
    /// [`Error::Other`] if it is not the one that the log was shipped to, [`Error::NotOwner`] if it belongs to another directory, [`Error::Replaced`], [`Error::Diverged`],
    /// [`Error::Damaged`], [`Error::Lost`], [`Error::Unavailable`] if the destination cannot be reached.
    pub fn start(
        dir: impl AsRef<Path>,
        mut destination: Box<dyn Destination>,
        settings: Settings,
    ) -> Result<Self> {
        let dir = std::path::absolute(dir.as_ref())
            .map_err(|source| Error::unavailable("no such folder", source))?;
        let (note, identity) = introduce(&dir, destination.as_mut())?;
        let facts = destination.facts().clone();
        let address = note.address.clone();
        let bounds = Bounds {
            message_bytes_max: facts.message_bytes_max,
            in_flight_max: facts.in_flight_max,
            queue_bytes_max: settings.memory_bytes / 2,
        };
        let writer = Writer::new(identity, bounds, note.chain.clone());
        let metrics = MetricHandles::new(&dir, &address, &facts);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            progress: Condvar::new(),
            asked: Condvar::new(),
            facts,
            dir: dir.clone(),
            settings,
            counter: Mutex::new(None),
            metrics,
        });
        let mut sender = Sender {
            shared: Arc::clone(&shared),
            destination,
            writer,
            note,
            noted_ns: 0,
            measured_ns: 0,
            pause: Duration::ZERO,
            unanswered: false,
        };
        let begun_ns = monotonic_ns();
        while !sender.writer.is_shipping() {
            sender.step()?;
            if let Some(end) = sender.writer.ended() {
                return Err(end.error());
            }
            let (failures, failing) = {
                let state = shared.lock();
                (state.stats.failures, state.stats.failing.clone().unwrap_or_default())
            };
            // Reads may be answered where nothing is stored.
            let waited = Duration::from_nanos(monotonic_ns() - begun_ns);
            if failures >= TRIES_MAX || (waited > STARTING && sender.unanswered) {
                return Err(Error::unavailable(
                    "the destination cannot be reached",
                    std::io::Error::other(failing),
                ));
            }
            sender.wait();
        }
        let (lsn, link) = sender.writer.due();
        let mut follower = View::open(&dir)?.follow_sealed(lsn).map_err(|error| diverged(lsn, error))?;
        // Marks take no LSN: the last message may end with some of those that lie there.
        while follower.link() != link {
            let batch = follower.next_batch(Duration::ZERO)?;
            if batch.is_none_or(|batch| batch.records > 0) {
                break;
            }
        }
        sender.writer.join(Some(follower.link()));
        if let Some(end) = sender.writer.ended() {
            return Err(end.error());
        }
        {
            let mut state = shared.lock();
            (state.acknowledged, state.read, state.shipping) = (lsn, lsn, true);
        }
        let reader = Reader { shared: Arc::clone(&shared), follower };
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

    /// Why the last request failed, until one succeeds.
    #[must_use]
    pub fn failing(&self) -> Option<String> {
        self.shared.lock().stats.failing.clone()
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
        let begun = monotonic_ns();
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
            let waited = Duration::from_nanos(monotonic_ns() - begun);
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
        Ok(ShipStats { acknowledged: state.acknowledged, at_risk, ..state.stats.clone() })
    }

    /// Ships what is durable by now, waits until it is acknowledged, and ends.
    ///
    /// # Errors
    /// As [`Shipping::wait`].
    pub fn finish(mut self, limit: Option<Duration>) -> Result<Lsn> {
        let view = View::open(&self.shared.dir)?;
        let proven = view.end_lsn();
        let mut follower = view.follow_sealed(proven)?;
        // A writer knows more to be durable than the log itself proves.
        follower.next_batch(Duration::ZERO)?;
        let end = follower.end();
        self.shared.lock().hurry = true;
        self.shared.progress.notify_all();
        let waited = self.wait(end, limit);
        self.stop();
        waited.map(|()| end)
    }

    fn stop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_all();
        self.shared.progress.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
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
fn diverged(lsn: Lsn, error: seawall::Error) -> Error {
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
}

/// A parcel that is being gathered.
struct Gathered {
    parcel: Parcel,
    batches: u64,
    since_ns: u64,
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
                    Self::gather(&mut gathered, &batch, before);
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

    fn gather(gathered: &mut Option<Gathered>, batch: &SealedBatch, before: u32) {
        let open = gathered.get_or_insert_with(|| Gathered {
            parcel: Parcel {
                lsn: batch.lsn,
                end: batch.lsn,
                link_before: before,
                link: before,
                records: 0,
                time_us: 0,
                bytes: Vec::new(),
            },
            batches: 0,
            since_ns: monotonic_ns(),
        });
        open.batches += u64::from(batch.records > 0);
        batch.append_to(&mut open.parcel.bytes);
        let parcel = &mut open.parcel;
        (parcel.end, parcel.link) = (batch.end, batch.link);
        parcel.records += batch.records;
        parcel.time_us = parcel.time_us.max(batch.time_us);
    }

    fn is_due(&self, gathered: &Gathered) -> bool {
        let full = gathered.parcel.bytes.len() >= self.shared.facts.gather_bytes;
        gathered.parcel.records > 0 && (full || self.left(gathered).is_zero())
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
        let Some(Gathered { parcel, batches, .. }) = gathered.take_if(|open| open.parcel.records > 0) else {
            return true;
        };
        let mut state = self.shared.lock();
        while state.inbox_bytes > 0
            && state.inbox_bytes + parcel.bytes.len() > self.shared.settings.memory_bytes / 2
        {
            if state.stop || state.failed.is_some() {
                return false;
            }
            let woken = self.shared.progress.wait_timeout(state, LOOK);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.inbox_bytes += parcel.bytes.len();
        state.records_read += u64::from(parcel.records);
        state.read = parcel.end;
        let (records, bytes) = (state.records_read, parcel.bytes.len());
        let Parcel { end, time_us, .. } = parcel;
        state.unacknowledged.push_back(Sent { end, time_us, records, batches, bytes });
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
    noted_ns: u64,
    measured_ns: u64,
    /// Before the next request, because the last one failed.
    pause: Duration,
    /// An append had no answer, and none since was stored.
    unanswered: bool,
}

impl Sender {
    fn run(mut self) {
        loop {
            if let Err(error) = self.step() {
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
        if let Err(error) = self.write_note(true) {
            tracing::warn!(%error, "the next writer reads more of the destination");
        }
    }

    /// Everything that can be done without waiting.
    fn step(&mut self) -> Result<()> {
        self.take_outcomes();
        loop {
            self.take_parcels();
            let Some(action) = self.writer.next_action() else { break };
            match action {
                Action::Append { position, number, bytes } => {
                    let answer = answer(&self.shared, position, number);
                    self.destination.append(position, bytes, answer);
                }
                Action::Read { position } => {
                    self.shared.lock().stats.doubts += u64::from(self.writer.is_shipping());
                    match self.destination.read(position) {
                        Ok(found) => {
                            self.writer.read(position, found.as_deref());
                            if !self.unanswered {
                                self.pause = Duration::ZERO;
                            }
                            self.shared.lock().stats.failing = None;
                        }
                        Err(error) if error.is_passing() => {
                            self.writer.unread(position);
                            self.failed(&error);
                            break;
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            let unanswered = self.take_outcomes();
            self.publish();
            if unanswered {
                break;
            }
        }
        self.publish();
        self.write_note(false)
    }

    /// Tells a recorder of metrics what is at risk, once a second.
    fn measure(&mut self) {
        if !MetricHandles::IS_ON || Duration::from_nanos(monotonic_ns() - self.measured_ns) < NOTE_EVERY {
            return;
        }
        self.measured_ns = monotonic_ns();
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
        let mut state = self.shared.lock();
        state.stats.failures += 1;
        state.stats.failing = Some(error.to_string());
    }

    /// Returns whether an append had no answer.
    fn take_outcomes(&mut self) -> bool {
        let outcomes = std::mem::take(&mut self.shared.lock().outcomes);
        let unanswered = outcomes.iter().any(|(_, _, outcome)| *outcome == Outcome::Unknown);
        for (position, number, outcome) in outcomes {
            match outcome {
                Outcome::Stored => (self.pause, self.unanswered) = (Duration::ZERO, false),
                Outcome::Refused => self.shared.metrics.count(Metric::Refused, 1),
                // Otherwise a destination that answers reads alone would be asked without a pause.
                Outcome::Unknown => {
                    self.unanswered = true;
                    self.shared.metrics.count(Metric::Retries, 1);
                    self.longer_pause();
                }
            }
            self.writer.outcome(position, number, outcome);
        }
        unanswered
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
            metrics.count(Metric::Batches, sent.batches);
            metrics.count(Metric::Bytes, sent.bytes as u64);
            state.records_acknowledged = sent.records;
            state.stats.messages += 1;
            state.stats.bytes += sent.bytes as u64;
        }
        state.stats.failing = None;
        let due = state.wakers.extract_if(.., |(lsn, _)| *lsn <= acknowledged).map(|(_, waker)| waker);
        let due: Vec<Waker> = due.collect();
        drop(state);
        self.shared.progress.notify_all();
        due.into_iter().for_each(Waker::wake);
    }

    fn write_note(&mut self, now: bool) -> Result<()> {
        let elapsed = Duration::from_nanos(monotonic_ns() - self.noted_ns);
        let known = self.writer.known();
        let news =
            self.writer.is_shipping() && !known.is_open() && known.position != self.note.chain.position;
        if !news || !(now || elapsed >= NOTE_EVERY || self.noted_ns == 0) {
            return Ok(());
        }
        self.note.chain = known.clone();
        self.note.write(&self.shared.dir)?;
        self.noted_ns = monotonic_ns();
        Ok(())
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
            self.say(Outcome::Unknown);
        }
    }
    let mut unanswered = Unanswered(Some((Arc::clone(shared), position, number)));
    Box::new(move |outcome| unanswered.say(outcome))
}
