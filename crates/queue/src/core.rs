//! Decides and appends, under the lock of the broker, whatever is asked of a queue.
//!
//! Invariants: a message is handed out only when it is durable and its attempt outlives the process; all records are appended here,
//! so that their order is that of the changes of the state, and a replay of the log makes the same state.

use std::collections::{HashSet, VecDeque};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use seawall::{CommitFuture, Durability, Error as LogError, Log, Lsn, Transaction};
use seawall_sys::clock::{monotonic_ns, unix_us};

use crate::bodies::{Bodies, read};
use crate::error::{Error, Result};
use crate::record::{CHANGE, Change, DEAD, MARKS, MESSAGES, Mark, dead_letter, message, read_dead_letter};
use crate::state::{Held, Place, State, change};
use crate::wire::{Answer, DeadLetter, Delivered, Request, Stats};

/// How long messages that are out at other processes wait for these when the log has got a new owner.
const CLAIM_MS: u64 = 2_000;
/// Bytes of marks before they are written anew, with those alone that count.
const MARK_BYTES_MIN: usize = 256 << 10;
/// The same of all that was appended, because messages that are gone keep the disk until then.
const APPENDED_BYTES_MIN: u64 = 16 << 20;
/// Changes of one mark of a snapshot.
const CHANGES_MAX: usize = 8_192;
/// A delayed message is moved to the end of its stream if so many messages behind it are gone.
const GONE_MAX: u64 = 4_096;
/// Bytes of dead letters that one transaction puts into the queue again.
const RETRY_BYTES: usize = 1 << 20;

/// An answer with messages ends with the one that reaches so many bytes.
const ANSWER_BYTES: usize = 4 << 20;

/// Takes the answer to a request.
pub(crate) type Reply = Box<dyn FnOnce(Result<Answer>) + Send>;
/// Answers to give without the lock.
pub(crate) type Answers = Vec<(Reply, Result<Answer>)>;

/// What became of a request.
pub(crate) enum Accepted {
    Answer(Reply, Result<Answer>),
    /// It is answered when everything before the LSN is durable.
    Durable(Lsn),
    /// It waits for messages.
    Waits,
}

/// What the lock of a broker guards.
pub(crate) struct Core {
    state: State,
    /// The session of this process's handle.
    own: u64,
    pending: VecDeque<Pending>,
    /// What is answered when everything before an LSN outlives the process.
    noted: VecDeque<(Lsn, Reply, Answer)>,
    /// Consumers, in the order in which they came.
    waiters: VecDeque<Waiter>,
    bodies: Bodies,
    /// Those of consumers that wait no more.
    cancelled: Vec<Reply>,
    /// Of the handles that are connected, and that of this process.
    sessions: HashSet<u64>,
    mark_bytes: usize,
    /// The end of the last snapshot, or of what opening found.
    snapshot: Lsn,
    is_closed: bool,
}

/// An answer that waits for the log.
struct Pending {
    lsn: Lsn,
    /// The message behind the last one that is durable then.
    durable: u64,
    reply: Reply,
    answer: Answer,
}

/// A consumer that waits for messages.
pub(crate) struct Waiter {
    /// The session, and the number of the request there.
    of: (u64, u64),
    until: Option<u64>,
    messages_max: usize,
    redeliver_ms: Option<u64>,
    attempts_max: u32,
    reply: Reply,
}

/// Milliseconds of the monotonic clock.
pub(crate) fn now_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

/// Appends a mark as part of a transaction.
fn append_mark(transaction: &mut Transaction, mark: &Mark) -> Result<(), LogError> {
    transaction.append_to(MARKS, &mark.encode())
}

impl Core {
    /// That of a log that was opened.
    pub(crate) fn recover(log: &Log, own: u64) -> Result<Self> {
        let not_a_queue = || Error::NotAQueue { path: log.dir().to_path_buf() };
        let known = [MESSAGES, MARKS, DEAD];
        let others = log.streams().iter().any(|found| !known.contains(found));
        if others || (log.streams().is_empty() && log.read(log.first_lsn())?.next_record()?.is_some()) {
            return Err(not_a_queue());
        }
        let messages = log.stream(MESSAGES);
        let mut state = State::new(messages.first_seq(), messages.next_seq());
        let (now, wall) = (now_ms(), unix_us() / 1_000);
        let mut mark_bytes = 0;
        if log.streams().contains(&MARKS) {
            let marks = log.stream(MARKS);
            for record in marks.read(marks.first_seq())? {
                let record = record?;
                let mark = Mark::decode(&record.payload).ok_or_else(not_a_queue)?;
                state.replay(&mark, (now, wall, now.saturating_add(CLAIM_MS)));
                mark_bytes += record.payload.len();
            }
        }
        Ok(Self {
            state,
            own,
            pending: VecDeque::new(),
            noted: VecDeque::new(),
            waiters: VecDeque::new(),
            bodies: Bodies::default(),
            cancelled: Vec::new(),
            sessions: HashSet::new(),
            mark_bytes,
            snapshot: log.appended_lsn(),
            is_closed: false,
        })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether an answer waits for the log.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.pending.is_empty() || !self.noted.is_empty()
    }

    /// Whether an answer waits for what no caller commits.
    pub(crate) fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    /// Whether that is reached.
    pub(crate) fn is_noted(&self, log: &Log) -> bool {
        self.noted.front().is_some_and(|(lsn, ..)| *lsn <= log.lsn_surviving(Durability::ProcessCrash))
    }

    /// When something happens by itself.
    pub(crate) fn first_due(&self) -> Option<u64> {
        let waiters = self.waiters.iter().filter_map(|waiter| waiter.until).min();
        [self.state.first_due(), waiters].into_iter().flatten().min()
    }

    /// Does what is asked by the session `of.0` with the number `of.1`.
    pub(crate) fn accept(&mut self, log: &Log, of: (u64, u64), request: Request, reply: Reply) -> Accepted {
        let session = of.0;
        let done = match request {
            Request::Get { messages_max, wait_ms, redeliver_ms, attempts_max } => {
                self.waiters.push_back(Waiter {
                    of,
                    until: wait_ms.map(|wait| now_ms().saturating_add(wait)),
                    messages_max: messages_max.max(1) as usize,
                    redeliver_ms,
                    attempts_max: attempts_max.max(1),
                    reply,
                });
                return Accepted::Waits;
            }
            Request::Hello { .. } => Err(Error::Closed),
            Request::Cancel { number } => {
                let at = self.waiters.iter().position(|waiter| waiter.of == (session, number));
                self.cancelled.extend(at.and_then(|at| self.waiters.remove(at)).map(|waiter| waiter.reply));
                Ok((Answer::Done, None))
            }
            Request::Put { bodies, delay_ms } => self.put(log, &bodies, delay_ms),
            Request::Ack { seqs } => self.ack(log, &seqs),
            Request::Nack { seq, attempts, delay_ms } => {
                match self.nack(log, session, (seq, attempts), delay_ms) {
                    Ok(Some(lsn)) => {
                        self.noted.push_back((lsn, reply, Answer::Done));
                        return Accepted::Waits;
                    }
                    done => done.map(|_| (Answer::Done, None)),
                }
            }
            Request::Peek { messages_max } => self.peek(log, messages_max as usize),
            Request::DeadLetters { letters_max } => dead_letters(log, letters_max as usize),
            Request::RetryDead => Self::retry_dead(log),
            Request::DropDead => drop_dead(log),
            Request::Purge => self.purge(log),
            Request::Stats => Ok((self.stats(log), None)),
        };
        match done {
            Ok((answer, Some(lsn))) => {
                let durable = log.stream(MESSAGES).next_seq();
                self.pending.push_back(Pending { lsn, durable, reply, answer });
                Accepted::Durable(lsn)
            }
            Ok((answer, None)) => Accepted::Answer(reply, Ok(answer)),
            Err(error) => Accepted::Answer(reply, Err(error)),
        }
    }

    /// Answers what is durable, or with `asks` what failed with the log; does what is due, and serves consumers.
    pub(crate) fn look(&mut self, log: &Log, asks: bool, answers: &mut Answers) {
        if self.is_closed {
            return;
        }
        self.answer_durable(log, answers);
        if asks {
            self.answer_failed(log, answers);
        }
        let now = now_ms();
        while let Some((seq, held)) = self.state.take_due(now) {
            match held.place {
                Place::Out { .. } => self.give_back(log, seq, held),
                _ => self.state.line_up(seq, held.attempts),
            }
        }
        let none = || Ok(Answer::Messages(Vec::new()));
        answers.extend(self.cancelled.drain(..).map(|reply| (reply, none())));
        self.serve(log, answers);
        self.answer_noted(log, answers);
        let is_late = |waiter: &Waiter| waiter.until.is_some_and(|until| until <= now);
        while let Some(at) = self.waiters.iter().position(is_late) {
            let late = self.waiters.remove(at).map(|waiter| waiter.reply);
            answers.extend(late.map(|reply| (reply, none())));
        }
    }

    fn answer_durable(&mut self, log: &Log, answers: &mut Answers) {
        let durable = log.durable_lsn();
        while let Some(pending) = self.pending.pop_front_if(|pending| pending.lsn <= durable) {
            self.state.durable = self.state.durable.max(pending.durable);
            answers.push((pending.reply, Ok(pending.answer)));
        }
    }

    /// Answers what the log will never commit. It asks the log's own thread to commit the rest, which a caller does at less cost.
    fn answer_failed(&mut self, log: &Log, answers: &mut Answers) {
        while let Some(error) = self.pending.front().and_then(|first| failure(log.commit_async(first.lsn))) {
            let failed = self.pending.pop_front().map(|pending| pending.reply);
            answers.extend(failed.map(|reply| (reply, Err(Error::Log(error)))));
        }
    }

    /// Hands out what waits: to each consumer its share, in the order in which they came.
    fn serve(&mut self, log: &Log, answers: &mut Answers) {
        while !self.waiters.is_empty() && self.state.first_waiting().is_some() {
            let waiters = self.waiters.len() as u64;
            let share = usize::try_from(self.state.waiting_count().div_ceil(waiters)).unwrap_or(usize::MAX);
            let Some(waiter) = self.waiters.pop_front() else { return };
            match self.hand_out(log, &waiter, share.clamp(1, waiter.messages_max)) {
                Ok(None) => self.waiters.push_front(waiter),
                Ok(Some((messages, lsn))) => {
                    self.noted.push_back((lsn, waiter.reply, Answer::Messages(messages)));
                }
                Err(error) => answers.push((waiter.reply, Err(error))),
            }
        }
    }

    /// Returns messages, and the LSN that has to outlive the process before they are seen.
    fn hand_out(
        &mut self,
        log: &Log,
        waiter: &Waiter,
        messages_max: usize,
    ) -> Result<Option<(Vec<Delivered>, Lsn)>> {
        let mut messages = Vec::new();
        let until = waiter.redeliver_ms.map(|after| now_ms().saturating_add(after));
        let place = Place::Out { session: waiter.of.0, until, attempts_max: waiter.attempts_max };
        let mut changes = Vec::new();
        let mut bytes = 0;
        while messages.len() < messages_max && bytes < ANSWER_BYTES {
            let Some((seq, attempts)) = self.state.first_waiting() else { break };
            let is_spent = attempts >= waiter.attempts_max;
            let read = if is_spent {
                self.bury(log, seq, attempts).map(|()| None)
            } else {
                self.bodies.take(log, seq, &self.state).map(Some)
            };
            let (id, body) = match read {
                Ok(Some(read)) => read,
                Ok(None) => continue,
                // The next call says so.
                Err(_) if !messages.is_empty() => break,
                Err(error) => return Err(error),
            };
            let held = Held { attempts: attempts + 1, place };
            self.state.hand_out(seq, held);
            changes.push((seq, change(held, self.own)));
            bytes += CHANGE + body.len();
            messages.push(Delivered { seq, id, attempts: attempts + 1, body });
        }
        if messages.is_empty() {
            return Ok(None);
        }
        match self.append(log, changes) {
            Ok(lsn) => Ok(Some((messages, lsn))),
            Err(error) => {
                for message in messages {
                    let held = Held { attempts: message.attempts - 1, place: Place::Again { behind: 0 } };
                    self.state.set(message.seq, Some(held));
                }
                Err(error)
            }
        }
    }

    /// Answers what outlives the process now. Not by a commit under the lock: that waits for the batch in flight.
    fn answer_noted(&mut self, log: &Log, answers: &mut Answers) {
        let Some((last, ..)) = self.noted.back() else { return };
        let requested = log.commit_async_as(*last, Durability::ProcessCrash);
        let outlives = log.lsn_surviving(Durability::ProcessCrash);
        while let Some((_, reply, answer)) = self.noted.pop_front_if(|(lsn, ..)| *lsn <= outlives) {
            answers.push((reply, Ok(answer)));
        }
        if let (false, Some(error)) = (self.noted.is_empty(), requested.map_or_else(Some, failure)) {
            let reason = error.to_string();
            let failed = std::mem::take(&mut self.noted).into_iter();
            answers.extend(failed.map(|(_, reply, _)| (reply, Err(Error::Owner { reason: reason.clone() }))));
        }
    }

    fn put(&mut self, log: &Log, bodies: &[Vec<u8>], delay_ms: u64) -> Done {
        let first = log.stream(MESSAGES).next_seq();
        let answer = Answer::Put { first };
        if bodies.is_empty() {
            return Ok((answer, None));
        }
        let seqs = first..first + bodies.len() as u64;
        let since_ms = unix_us() / 1_000;
        let delayed = Change::Delayed { attempts: 0, delay_ms, since_ms };
        let changes =
            if delay_ms == 0 { Vec::new() } else { seqs.clone().map(|seq| (seq, delayed)).collect() };
        let lsn = log.transaction::<LogError>(|transaction| {
            for (seq, body) in seqs.clone().zip(bodies) {
                transaction.append_to(MESSAGES, &message(seq, body))?;
            }
            for changes in changes.chunks(CHANGES_MAX) {
                append_mark(transaction, &self.state.mark(changes.to_vec()))?;
            }
            Ok(())
        })?;
        if delay_ms > 0 {
            self.mark_bytes += changes.len() * CHANGE;
            let place = Place::Delayed { due: now_ms().saturating_add(delay_ms), delay_ms, since_ms };
            seqs.for_each(|seq| self.state.set(seq, Some(Held { attempts: 0, place })));
        } else {
            seqs.zip(bodies).for_each(|(seq, body)| self.bodies.keep(seq, seq, body));
        }
        Ok((answer, Some(lsn)))
    }

    fn ack(&mut self, log: &Log, seqs: &[u64]) -> Done {
        if let Some(seq) = seqs.iter().find(|seq| **seq >= self.state.durable) {
            return Err(Error::NoMessage { seq: *seq });
        }
        let left: Vec<u64> = seqs.iter().copied().filter(|seq| !self.state.is_gone(*seq)).collect();
        if let Some(seq) = left.iter().find(|seq| self.state.get(**seq).is_none()) {
            return Err(Error::NoMessage { seq: *seq });
        }
        if left.is_empty() {
            // Whoever acknowledged them may wait for that still.
            return Ok((Answer::Done, Some(log.appended_lsn())));
        }
        let lsn = self.append(log, left.iter().map(|seq| (*seq, Change::Gone)).collect())?;
        for seq in &left {
            self.state.set(*seq, None);
        }
        let cost = 4 * CHANGE * self.state.held().len();
        let appended = lsn.get().saturating_sub(self.snapshot.get());
        let is_worth_it =
            self.mark_bytes > MARK_BYTES_MIN + cost || appended > APPENDED_BYTES_MIN + cost as u64;
        if is_worth_it && let Ok(lsn) = self.snapshot(log) {
            return Ok((Answer::Done, Some(lsn)));
        }
        if is_worth_it {
            // What is out and delayed may be more than a transaction has room for. Its marks are there; the next try is as far away.
            (self.mark_bytes, self.snapshot) = (0, lsn);
        }
        Ok((Answer::Done, Some(lsn)))
    }

    /// Returns the LSN that has to outlive the process for it, if any.
    fn nack(&mut self, log: &Log, session: u64, out: (u64, u32), delay_ms: u64) -> Result<Option<Lsn>> {
        let (seq, attempts) = out;
        let held = self.state.get(seq).filter(|held| is_out_at(*held, session) && held.attempts == attempts);
        let Some(held) = held else { return Ok(None) };
        let Place::Out { attempts_max, .. } = held.place else { return Ok(None) };
        if delay_ms == 0 || attempts >= attempts_max {
            self.give_back(log, seq, held);
            return Ok(None);
        }
        let since_ms = unix_us() / 1_000;
        let lsn = self.append(log, vec![(seq, Change::Delayed { attempts, delay_ms, since_ms })])?;
        let place = Place::Delayed { due: now_ms().saturating_add(delay_ms), delay_ms, since_ms };
        self.state.set(seq, Some(Held { attempts, place }));
        Ok(Some(lsn))
    }

    /// A message that was out waits again, or becomes a dead letter.
    fn give_back(&mut self, log: &Log, seq: u64, held: Held) {
        let is_spent = matches!(held.place, Place::Out { attempts_max, .. } if held.attempts >= attempts_max);
        // One that cannot be buried now is buried when it would be handed out.
        if !is_spent || self.bury(log, seq, held.attempts).is_err() {
            self.state.line_up(seq, held.attempts);
        }
    }

    fn bury(&mut self, log: &Log, seq: u64, attempts: u32) -> Result<()> {
        let (id, body) = read(log, seq)?;
        let mark = self.state.mark(vec![(seq, Change::Gone)]);
        let lsn = log.transaction::<LogError>(|transaction| {
            transaction.append_to(DEAD, &dead_letter(id, attempts, &body))?;
            append_mark(transaction, &mark)
        })?;
        self.state.set(seq, None);
        self.mark_bytes += CHANGE;
        drop(log.commit_async(lsn));
        Ok(())
    }

    fn append(&mut self, log: &Log, changes: Vec<(u64, Change)>) -> Result<Lsn> {
        let bytes = self.state.mark(changes).encode();
        let appended = log.stream(MARKS).append(&bytes)?;
        self.mark_bytes += bytes.len();
        Ok(appended.end)
    }

    /// Writes the marks anew that count, trims the others and the messages that are gone.
    fn snapshot(&mut self, log: &Log) -> Result<Lsn> {
        // Nothing was handed out, delayed or purged.
        if log.stream(MARKS).next_seq() == 0 && self.state.next == log.stream(MESSAGES).first_seq() {
            return Ok(log.appended_lsn());
        }
        self.move_delayed(log)?;
        let marks = self.state.snapshot(self.own, CHANGES_MAX);
        let first = log.stream(MARKS).next_seq();
        let trimmed = self.state.first().min(log.stream(MESSAGES).next_seq());
        let lsn = log.transaction::<LogError>(|transaction| {
            marks.iter().try_for_each(|mark| append_mark(transaction, mark))?;
            transaction.trim(MARKS, first)?;
            transaction.trim(MESSAGES, trimmed)
        })?;
        self.mark_bytes = 0;
        self.snapshot = lsn;
        Ok(lsn)
    }

    /// Moves delayed messages that keep many that are gone to the end of their stream.
    fn move_delayed(&mut self, log: &Log) -> Result<()> {
        loop {
            let Some((seq, held)) = self.state.held().next() else { return Ok(()) };
            let gone = self.state.next.saturating_sub(seq).saturating_sub(self.state.held().len() as u64);
            if gone < GONE_MAX || !matches!(held.place, Place::Delayed { .. }) {
                return Ok(());
            }
            let record = log.stream(MESSAGES).get(seq)?;
            let to = log.stream(MESSAGES).next_seq();
            let changes = vec![(seq, Change::Gone), (to, change(held, self.own))];
            let mark = self.state.mark(changes);
            log.transaction::<LogError>(|transaction| {
                transaction.append_to(MESSAGES, &record.payload)?;
                append_mark(transaction, &mark)
            })?;
            self.state.set(seq, None);
            self.state.set(to, Some(held));
        }
    }

    fn peek(&self, log: &Log, messages_max: usize) -> Done {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for seq in self.state.waiting().take(messages_max) {
            let (id, body) = read(log, seq)?;
            let attempts = self.state.get(seq).map_or(0, |held| held.attempts);
            bytes += CHANGE + body.len();
            messages.push(Delivered { seq, id, attempts, body });
            if bytes >= ANSWER_BYTES {
                break;
            }
        }
        Ok((Answer::Messages(messages), None))
    }

    fn retry_dead(log: &Log) -> Done {
        let (mut count, mut lsn) = (0, None);
        log.commit(log.appended_lsn())?;
        let dead = log.stream(DEAD);
        let mut letters = dead.read(dead.first_seq())?.peekable();
        while letters.peek().is_some() {
            let mut seq = log.stream(MESSAGES).next_seq();
            let (mut bytes, mut trimmed) = (0, 0);
            lsn = Some(log.transaction::<Error>(|transaction| {
                while bytes < RETRY_BYTES
                    && let Some(letter) = letters.next()
                {
                    let letter = letter?;
                    let (_, _, body) = read_dead_letter(&letter.payload)?;
                    transaction.append_to(MESSAGES, &message(seq, body))?;
                    (seq, bytes, count) = (seq + 1, bytes + letter.payload.len(), count + 1);
                    trimmed = letter.stream.map_or(0, |position| position.seq + 1);
                }
                Ok(transaction.trim(DEAD, trimmed)?)
            })?);
        }
        Ok((Answer::Count(count), lsn))
    }

    fn purge(&mut self, log: &Log) -> Done {
        let is_out = |held: Held| matches!(held.place, Place::Out { .. });
        let durable = self.state.durable;
        let gone: Vec<u64> = self
            .state
            .held()
            .filter(|(seq, held)| *seq < durable && !is_out(*held))
            .map(|(seq, _)| seq)
            .collect();
        let in_line = self.state.waiting().filter(|seq| self.state.get(*seq).is_none()).count();
        for seq in &gone {
            self.state.set(*seq, None);
        }
        self.state.next = self.state.next.max(durable);
        self.bodies.clear();
        let lsn = self.snapshot(log)?;
        Ok((Answer::Count((gone.len() + in_line) as u64), Some(lsn)))
    }

    fn stats(&self, log: &Log) -> Answer {
        let dead = log.stream(DEAD);
        let mut stats = Stats {
            waiting: self.state.waiting_count(),
            dead: dead.next_seq() - dead.first_seq(),
            handles: self.sessions.len() as u64,
            ..Stats::default()
        };
        for (_, held) in self.state.held() {
            match held.place {
                Place::Out { .. } => stats.out += 1,
                Place::Delayed { .. } => stats.delayed += 1,
                Place::Again { .. } => {}
            }
        }
        Answer::Stats(stats)
    }

    pub(crate) fn is_connected(&self, session: u64) -> bool {
        self.sessions.contains(&session)
    }

    /// A handle connects, and names what is out there.
    pub(crate) fn enter(&mut self, session: u64, out: &[(u64, u32)], redeliver_ms: Option<u64>) {
        let until = redeliver_ms.map(|after| now_ms().saturating_add(after));
        self.sessions.insert(session);
        for (seq, attempts) in out {
            let Some(held) = self.state.get(*seq) else { continue };
            if let Place::Out { attempts_max, .. } = held.place
                && is_out_at(held, session)
                && held.attempts == *attempts
            {
                let place = Place::Out { session, until, attempts_max };
                self.state.set(*seq, Some(Held { place, ..held }));
            }
        }
    }

    /// A handle is gone, and what is out there waits again. Returns its consumers, to be dropped without the lock.
    pub(crate) fn leave(&mut self, log: &Log, session: u64) -> VecDeque<Waiter> {
        if !self.sessions.remove(&session) || self.is_closed {
            return VecDeque::new();
        }
        let (gone, stay) =
            std::mem::take(&mut self.waiters).into_iter().partition(|waiter| waiter.of.0 == session);
        self.waiters = stay;
        let out: Vec<_> = self.state.held().filter(|(_, held)| is_out_at(*held, session)).collect();
        for (seq, held) in out {
            self.give_back(log, seq, held);
        }
        gone
    }

    /// Makes durable and answers what was accepted, and ends the consumers that wait.
    pub(crate) fn close(&mut self, log: &Log, answers: &mut Answers) -> Result<()> {
        // Without a snapshot the marks that are there count on.
        let _ = self.snapshot(log);
        let done = log.commit(log.appended_lsn()).map_err(Error::Log);
        self.answer_durable(log, answers);
        self.answer_failed(log, answers);
        self.answer_noted(log, answers);
        self.is_closed = true;
        answers.extend(self.waiters.drain(..).map(|waiter| (waiter.reply, Err(Error::Closed))));
        done
    }
}

/// An answer, and the LSN that has to be durable for it.
type Done = Result<(Answer, Option<Lsn>)>;

/// Why a log will never commit that, if it has failed.
fn failure(commit: CommitFuture) -> Option<LogError> {
    match pin!(commit).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(error)) => Some(error),
        _ => None,
    }
}

fn is_out_at(held: Held, session: u64) -> bool {
    matches!(held.place, Place::Out { session: of, .. } if of == session)
}

fn dead_letters(log: &Log, letters_max: usize) -> Done {
    let dead = log.stream(DEAD);
    if dead.next_seq() == 0 {
        return Ok((Answer::DeadLetters(Vec::new()), None));
    }
    log.commit(log.appended_lsn())?;
    let (mut letters, mut bytes) = (Vec::new(), 0);
    for record in dead.read(dead.first_seq())?.take(letters_max) {
        let record = record?;
        let (id, attempts, body) = read_dead_letter(&record.payload)?;
        bytes += CHANGE + body.len();
        letters.push(DeadLetter { id, attempts, body: body.to_vec() });
        if bytes >= ANSWER_BYTES {
            break;
        }
    }
    Ok((Answer::DeadLetters(letters), None))
}

fn drop_dead(log: &Log) -> Done {
    let dead = log.stream(DEAD);
    let count = dead.next_seq() - dead.first_seq();
    let lsn = if count > 0 { Some(dead.trim(dead.next_seq())?) } else { None };
    Ok((Answer::Count(count), lsn))
}
