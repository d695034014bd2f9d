//! Shows and moves what a queue has, for whoever looks after it: peek, dead letters, purge, counts.

use seawall::Log;

use super::{ANSWER_BYTES, Core, Done};
use crate::bodies::read;
use crate::error::Error;
use crate::record::{CHANGE, DEAD, MESSAGES, message, read_dead_letter};
use crate::state::{Held, Place};
use crate::wire::{Answer, DeadLetter, Delivered, Stats};

/// Bytes of dead letters that one transaction puts into the queue again.
const RETRY_BYTES: usize = 1 << 20;

impl Core {
    pub(super) fn peek(&self, log: &Log, messages_max: usize) -> Done {
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

    pub(super) fn retry_dead(log: &Log) -> Done {
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

    pub(super) fn purge(&mut self, log: &Log) -> Done {
        let durable = self.state.durable;
        let is_gone = |(seq, held): &(u64, Held)| *seq < durable && !matches!(held.place, Place::Out { .. });
        let gone: Vec<_> = self.state.held().filter(is_gone).collect();
        let counted = gone.iter().filter(|(_, held)| held.place != Place::Done).count();
        let count = self.state.in_line_count() + counted as u64;
        for (seq, _) in gone {
            self.state.set(seq, None);
        }
        self.state.next = self.state.next.max(durable);
        self.bodies.clear();
        let lsn = self.snapshot(log)?;
        Ok((Answer::Count(count), Some(lsn)))
    }

    pub(super) fn stats(&self, log: &Log) -> Answer {
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
                Place::Again { .. } | Place::Done => {}
            }
        }
        Answer::Stats(stats)
    }
}

pub(super) fn dead_letters(log: &Log, letters_max: usize) -> Done {
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

pub(super) fn drop_dead(log: &Log) -> Done {
    let dead = log.stream(DEAD);
    let count = dead.next_seq() - dead.first_seq();
    let lsn = if count > 0 { Some(dead.trim(dead.next_seq())?) } else { None };
    Ok((Answer::Count(count), lsn))
}
