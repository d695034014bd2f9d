//! Decides and appends, under the lock of the broker, whatever is asked of a queue.
//!
//! Invariants: a message is handed out only when it is durable and its attempt outlives the process; all records are appended below
//! here, so that their order is that of the changes of the state, and a replay of the log makes the same state.

mod changes;
mod manage;

use std::collections::{HashSet, VecDeque};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use seawall::{CommitFuture, Durability, Error as LogError, Log, Lsn, Transaction};
use seawall_sys::clock::{monotonic_ns, unix_us};

use crate::bodies::Bodies;
use crate::error::{Error, Result};
use crate::record::{CHANGE, DEAD, MARKS, MESSAGES, Mark};
use crate::refusal::Refusal;
use crate::state::{Held, Place, State, change};
use crate::wire::{Answer, Delivered, Request};

/// How long messages that are out at other processes wait for these when the log has got a new owner.
const CLAIM_MS: u64 = 2_000;
/// An answer with messages ends with the one that reaches this many bytes.
const ANSWER_BYTES: usize = 4 << 20;

/// Takes the answer to a request.
pub(crate) type Reply = Box<dyn FnOnce(Result<Answer>) + Send>;
/// Answers to give without the lock.
pub(crate) type Answers = Vec<(Reply, Result<Answer>)>;

/// The outcome of a request.
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
    /// Why the log has failed, if it has.
    failed: Option<Refusal>,
}

/// An answer that waits for the log.
struct Pending {
    lsn: Lsn,
    /// The message after the last one that is durable then.
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
            failed: None,
        })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Notes whether an error is that the log has failed.
    fn refuse(&mut self, error: &Error) -> Refusal {
        let refusal = Refusal::of(error);
        if let Refusal::Failed(_) = refusal {
            self.failed.get_or_insert_with(|| refusal.clone());
        }
        refusal
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
            Request::DeadLetters { letters_max } => manage::dead_letters(log, letters_max as usize),
            Request::RetryDead => Self::retry_dead(log),
            Request::DropDead => manage::drop_dead(log),
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
            Err(error) => {
                self.refuse(&error);
                Accepted::Answer(reply, Err(error))
            }
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
            let error = Error::Log(error);
            self.refuse(&error);
            let failed = self.pending.pop_front().map(|pending| pending.reply);
            answers.extend(failed.map(|reply| (reply, Err(error))));
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
                Err(error) => {
                    self.refuse(&error);
                    answers.push((waiter.reply, Err(error)));
                }
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
            let refusal = self.refuse(&Error::Log(error));
            let failed = std::mem::take(&mut self.noted).into_iter();
            answers.extend(failed.map(|(_, reply, _)| (reply, Err(refusal.error(log.dir())))));
        }
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
        // Those of other processes ask the next owner.
        let failed = self.failed.as_ref();
        answers.extend(self.waiters.drain(..).map(|waiter| {
            let failed = failed.filter(|_| waiter.of.0 == self.own);
            (waiter.reply, Err(failed.map_or(Error::Closed, |failed| failed.error(log.dir()))))
        }));
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
