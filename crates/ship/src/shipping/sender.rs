//! The sender thread: does what [`Writer`] decides, checks what was stored, and writes the note.
//!
//! Invariants: the note is written only of what is stored; why a request fails is said until something is stored again.

use super::diverged;
use super::state::{LOOK, Shared, State, passed};
use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::message::HEADER_BYTES;
use crate::metrics::{Metric, MetricHandles};
use crate::note::Note;
use crate::writer::{Action, Outcome, Writer};
use seawall::{HoldLock, Lsn, SealedFollower, View};
use seawall_sys::clock::monotonic_ns;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// After this many failures in a row shipping does not begin.
const TRIES_MAX: u64 = 5;
/// After this long without the right to write it does not begin either: an operator hears of it within a minute.
const STARTING: Duration = Duration::from_secs(30);
/// How often the note is written while messages are acknowledged.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// The longest pause before a request is retried.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long what was stored must be missing at least, so that one look at an old list ends nothing.
const MISSING_FOR: Duration = Duration::from_secs(1);

/// Does what the writer decides.
pub(super) struct Sender {
    shared: Arc<Shared>,
    destination: Box<dyn Destination>,
    writer: Writer,
    note: Note,
    /// Held so that no other process ships the log there.
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
    /// The headers of messages that were sent, by their numbers: those that may be in flight, and the last one that was stored.
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
    /// The first message that is not stored, and why: those after it are refused because of it.
    append: Option<(u64, String)>,
    read: Option<String>,
    note: Option<String>,
}

/// The header of a message.
fn head(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(HEADER_BYTES)].to_vec()
}

impl Sender {
    pub(super) fn new(
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

    /// Takes the right to write, and finds where the log continues; returns that.
    ///
    /// # Errors
    /// As [`super::Shipping::start`].
    pub(super) fn begin(&mut self) -> Result<(Lsn, SealedFollower)> {
        let begun_ns = monotonic_ns();
        while !self.writer.is_shipping() {
            self.step()?;
            if let Some(end) = self.writer.ended() {
                return Err(end.error());
            }
            let (failures, failing) = {
                let state = self.shared.lock();
                (state.stats.failures, state.failing().unwrap_or_default())
            };
            // Reads may be answered where nothing is stored, and each may take as long as a request may.
            let long = passed(begun_ns) > STARTING && (self.unanswered || failures > 0);
            if failures >= TRIES_MAX || long {
                let what = "the destination accepts nothing, or is unreachable";
                return Err(Error::unavailable(what, std::io::Error::other(failing)));
            }
            self.wait();
        }
        let (lsn, _) = self.writer.due();
        let follower = self.follower.take();
        Ok((
            lsn,
            follower.ok_or_else(|| {
                Error::unavailable("the log was not found to continue the destination", "no follower")
            })?,
        ))
    }

    pub(super) fn run(mut self) {
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

    /// Checks every [`super::Settings::look_time`] that what was stored is still there, and that no other writer has come.
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

    /// Publishes why nothing is stored, until something is.
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

    /// Returns whether an append was not stored: then it is retried after a pause, because a destination that answers reads alone
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

/// Tells the sender the outcome of an append; that nothing is known, if it is dropped.
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
