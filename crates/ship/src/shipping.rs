//! Ships a log: two threads between the log and a destination, and the watermark that commits wait for.
//!
//! ```text
//!  log ─► reader thread: follows it, gathers batches ─► inbox ─► sender thread: `Writer` ─► destination
//!                         ▲  waits while the inbox is full            │ ▲                       │
//!                         └───────────────────────────────────────────┘ └──── answers ──────────┘
//!                                                    acknowledged ─► commits that wait, the note, the hold on the log
//! ```
//!
//! `state.rs` is what both share, `reader.rs` and `sender.rs` are the threads; this file is what a program holds.
//!
//! The sender does what [`Writer`] decides. Requests that fail are retried after a pause that grows to a second, for ever:
//! an outage of any length ends with everything shipped. Now and then it looks at what it had stored ([`Settings::look_time`]), and for
//! another writer's message.
//!
//! Invariants: memory is bounded by [`Settings::memory_bytes`] and one parcel; the note is written only of what is stored, so that a trim never passes
//! what is not there yet; one ships a log to a destination at a time; from a request that fails, or has no answer for half a minute, on
//! [`Shipping::failing`] says why until something is stored again; ages are by the monotonic clock, but for what was there before.

mod reader;
mod sender;
mod state;

use crate::destination::{Destination, Identity};
use crate::error::{Error, Result};
use crate::failure::Facts;
use crate::folder::lies_apart;
use crate::message::Chain;
use crate::metrics::MetricHandles;
use crate::note::{Note, hold_name, random};
use crate::pace::Pace;
use crate::writer::{Bounds, Ground, Writer, WriterId};
use crate::{compression, guess};
use reader::Reader;
use seawall::{Hold, Lsn, View};
use seawall_sys::clock::monotonic_ns;
use sender::Sender;
pub use state::{AtRisk, ShipStats};
use state::{LOOK, Shared, State, passed};
use std::future::Future;
use std::num::NonZeroU64;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a commit that continues within bounds looks at them.
const LOOK_AT_RISK: Duration = Duration::from_millis(10);
/// How long the threads are waited for at the end; a request that hangs is left to its own end.
const ENDING: Duration = Duration::from_secs(8);

/// How a log is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most memory for batches in flight, in bytes: a parcel is gathered up to an eighth of it. A single batch that is longer takes what it needs.
    pub memory_bytes: usize,
    /// Where batches are gathered: how long the oldest waits for others.
    pub gather_time: Duration,
    /// Whether a recorder of metrics is told once a second what is at risk, in a build that has them: it reads once more what was written.
    pub measures: bool,
    /// How often it looks whether what was stored last is still there, and whether another writer has come.
    pub look_time: Duration,
    /// No more than this many bytes of the log are sent a second, over any longer time.
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

/// A log that is being shipped. Dropping it stops; the next one sends
/// what was not acknowledged.
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
fn introduce(dir: &Path, destination: &mut dyn Destination) -> Result<(Note, WriterId, bool)> {
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
    if knows && destination.identity()? == Identity::Missing && destination.head(position)?.is_none() {
        return Err(Error::Lost { position });
    }
    destination.prepare()?;
    if let Identity::Is(mark) = destination.identity()? {
        note.identity = Some(mark);
    }
    note.write(dir)?;
    note.former = None;
    // After the hold, which keeps what is there now.
    let view = View::open(dir)?;
    let (log_id, first) = (view.log_id(), view.first_sealed());
    let base = (first, view.follow_sealed(first)?.link());
    let identity = WriterId { log_id, owner: note.owner, nonce: random()?, ground: Ground::Continue, base };
    Ok((note, identity, is_begin))
}

/// The note of this directory on a destination that has another address now: by the owner that the last messages name.
fn owned(dir: &Path, destination: &mut dyn Destination) -> Result<Option<Note>> {
    let Some(end) = guess::end(destination)? else { return Ok(None) };
    let known = Note::all(dir).into_iter().find(|(_, note)| note.owner == end.owner);
    Ok(known.map(|(name, note)| note.moved(name, destination)))
}

impl Shipping {
    /// Begins to ship the log in `dir`, which another process or this one may have open for writing. Returns when it has taken
    /// an epoch at the destination.
    ///
    /// # Errors
    /// [`Error::InUse`] if it is being shipped there already; [`Error::Other`] if the address leads to another destination than before,
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
        let (lsn, follower) = sender.begin()?;
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

    /// The properties of the destination.
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

    /// Why nothing is being stored: a failure, or a request without an answer for half a minute; `None` once something is stored again.
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

    /// As [`Shipping::wait`]; the limit begins again whenever something is stored.
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

    /// As [`Shipping::wait`], and also once no more is at risk than this many records, the oldest of them for `time`.
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

    /// What is at risk now: exact, even while the destination is unreachable and the memory is full. It reads and counts the durable batches
    /// that it has not counted before.
    ///
    /// # Errors
    /// [`Error::Log`] if they cannot be read.
    pub fn at_risk(&self) -> Result<AtRisk> {
        self.shared.at_risk()
    }

    /// Its counters so far.
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

    /// As [`Shipping::finish`]; the limit begins again whenever something is stored.
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
        self.shared.end(|state| state.stop = true);
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
            Error::Diverged { lsn, what: format!("the log ends before, at LSN {end}") }
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
