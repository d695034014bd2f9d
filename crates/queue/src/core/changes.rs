//! Changes where messages are: put, acknowledged, given back, buried; each change is a record and then the state.

use seawall::{Error as LogError, Log, Lsn};
use seawall_sys::clock::unix_us;

use super::{Core, Done, append_mark, is_out_at, now_ms};
use crate::bodies::read;
use crate::error::{Error, Result};
use crate::record::{CHANGE, Change, DEAD, MARKS, MESSAGES, dead_letter, message, message_bytes};
use crate::state::{Held, Place, State, change};
use crate::wire::Answer;

/// Bytes of marks before they are written again, with those alone that count.
const MARK_BYTES_MIN: usize = 256 << 10;
/// The same of all that was appended, because messages that are gone keep the disk until then.
const APPENDED_BYTES_MIN: u64 = 16 << 20;
/// Changes of one mark of a snapshot.
const CHANGES_MAX: usize = 8_192;
/// A delayed message is moved to the end of its stream if this many messages after it are gone.
const GONE_MAX: u64 = 4_096;

impl Core {
    pub(super) fn put(&mut self, log: &Log, bodies: &[Vec<u8>], delay_ms: u64) -> Done {
        // A transaction has room for a little more than the longest record: for the burial of what is no longer.
        let bytes_max = log.record_bytes_max() as u64;
        let longest = bodies.iter().map(|body| message_bytes(body)).max().unwrap_or(0);
        if longest > bytes_max {
            return Err(Error::Log(LogError::TooLong { bytes: longest, bytes_max }));
        }
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

    pub(super) fn ack(&mut self, log: &Log, seqs: &[u64]) -> Done {
        // A consumer that is late knows where its message was.
        let seqs: Vec<u64> = seqs.iter().map(|seq| self.state.moved_to(*seq)).collect();
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
            self.state.acknowledge(*seq);
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
    pub(super) fn nack(
        &mut self,
        log: &Log,
        session: u64,
        out: (u64, u32),
        delay_ms: u64,
    ) -> Result<Option<Lsn>> {
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
    pub(super) fn give_back(&mut self, log: &Log, seq: u64, held: Held) {
        let is_spent = matches!(held.place, Place::Out { attempts_max, .. } if held.attempts >= attempts_max);
        // One that cannot be buried now is buried when it would be handed out.
        if !is_spent || self.bury(log, seq, held.attempts).is_err() {
            self.state.line_up(seq, held.attempts);
        }
    }

    pub(super) fn bury(&mut self, log: &Log, seq: u64, attempts: u32) -> Result<()> {
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

    pub(super) fn append(&mut self, log: &Log, changes: Vec<(u64, Change)>) -> Result<Lsn> {
        let bytes = self.state.mark(changes).encode();
        let appended = log.stream(MARKS).append(&bytes)?;
        self.mark_bytes += bytes.len();
        Ok(appended.end)
    }

    /// Writes the marks again that count, trims the others and the messages that are gone.
    pub(super) fn snapshot(&mut self, log: &Log) -> Result<Lsn> {
        // Nothing was handed out, delayed or purged.
        if log.stream(MARKS).next_seq() == 0 && self.state.next == log.stream(MESSAGES).first_seq() {
            return Ok(log.appended_lsn());
        }
        self.state.tidy();
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
            let changes = vec![(seq, State::moved(held, to)), (to, change(held, self.own))];
            let mark = self.state.mark(changes);
            log.transaction::<LogError>(|transaction| {
                transaction.append_to(MESSAGES, &record.payload)?;
                append_mark(transaction, &mark)
            })?;
            self.state.move_to(seq, to, held);
        }
    }
}
