//! Knows which messages wait, are out, or are delayed.
//!
//! ```text
//!   gone, or in `held`        | in line                    | not durable yet
//!                             ^ next                       ^ durable
//! ```
//!
//! A message in `held` is out at a consumer, delayed, or came back and waits again: after those that waited when it did. A message that
//! is put with a delay is in `held` from the start, also from `next` on. It is pure: it knows neither the log nor its threads nor a clock.
//!
//! Invariants: a message before `next` that is not in `held` is gone for good; `held` and the two sets agree, because only
//! [`State::set`] changes them.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::{Change, Mark};

/// A message that is not simply in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// How often it was handed out.
    pub(crate) attempts: u32,
    pub(crate) place: Place,
}

/// Where such a message is. Times are milliseconds of the monotonic clock, but for `since_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At a consumer of this session: until then, if it has an end. It was to be tried so often.
    Out { session: u64, until: Option<u64>, attempts_max: u32 },
    /// Not to be handed out before.
    Delayed { due: u64, delay_ms: u64, since_ms: u64 },
    /// Waiting again, after the messages before this sequence number.
    Again { behind: u64 },
    /// Acknowledged by a late consumer after it was moved to where the line has not come yet.
    Done,
}

impl Place {
    fn due(self) -> Option<u64> {
        match self {
            Self::Out { until, .. } => until,
            Self::Delayed { due, .. } => Some(due),
            Self::Again { .. } | Self::Done => None,
        }
    }
}

/// The state of a queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The first message that was never handed out.
    pub(crate) next: u64,
    /// The message after the last durable one.
    pub(crate) durable: u64,
    held: BTreeMap<u64, Held>,
    /// By the place in line.
    again: BTreeSet<(u64, u64)>,
    /// By the time at which something happens to them.
    due: BTreeSet<(u64, u64)>,
    /// Messages that were handed out before they were moved, as their consumers know them: where they are now.
    moved: BTreeMap<u64, u64>,
}

impl State {
    /// That of a queue whose messages `first..durable` are all in line.
    pub(crate) fn new(first: u64, durable: u64) -> Self {
        Self { next: first, durable, ..Self::default() }
    }

    /// Takes in a mark, at opening: messages that were out at the owner wait again, those of other sessions have until `until` to be claimed.
    pub(crate) fn replay(&mut self, mark: &Mark, (now, now_wall, until): (u64, u64, u64)) {
        if mark.begins_snapshot {
            (self.held, self.again, self.due, self.moved) = Default::default();
        }
        self.next = mark.next;
        for (seq, change) in &mark.changes {
            let held = match *change {
                Change::Gone => self.gone(*seq),
                Change::Moved { to } => {
                    self.note_move(*seq, to);
                    None
                }
                Change::Out { attempts, session: 0 } => {
                    Some(Held { attempts, place: Place::Again { behind: 0 } })
                }
                Change::Out { attempts, session } => {
                    let place = Place::Out { session, until: Some(until), attempts_max: u32::MAX };
                    Some(Held { attempts, place })
                }
                Change::Delayed { attempts, delay_ms, since_ms } => {
                    // A clock that was set back delays nothing for longer than was wanted.
                    let left = since_ms.saturating_add(delay_ms).saturating_sub(now_wall).min(delay_ms);
                    let place = Place::Delayed { due: now.saturating_add(left), delay_ms, since_ms };
                    Some(Held { attempts, place })
                }
            };
            self.set(*seq, held);
        }
    }

    /// Moves a message, which is held as `held` says from now on.
    pub(crate) fn move_to(&mut self, from: u64, to: u64, held: Held) {
        if held.attempts > 0 {
            self.note_move(from, to);
        }
        self.set(from, None);
        self.set(to, Some(held));
    }

    fn note_move(&mut self, from: u64, to: u64) {
        self.moved.values_mut().filter(|now| **now == from).for_each(|now| *now = to);
        self.moved.insert(from, to);
    }

    /// How a message is held that is gone.
    fn gone(&self, seq: u64) -> Option<Held> {
        (seq >= self.next).then_some(Held { attempts: 0, place: Place::Done })
    }

    /// The change of a message that is moved: only one that was handed out may be asked for again by its old number.
    pub(crate) fn moved(held: Held, to: u64) -> Change {
        if held.attempts > 0 { Change::Moved { to } } else { Change::Gone }
    }

    /// Removes a message for good.
    pub(crate) fn acknowledge(&mut self, seq: u64) {
        self.set(seq, self.gone(seq));
    }

    /// Where a message is now.
    pub(crate) fn moved_to(&self, seq: u64) -> u64 {
        self.moved.get(&seq).copied().unwrap_or(seq)
    }

    /// Puts a message where it is now; `None`: it is gone.
    pub(crate) fn set(&mut self, seq: u64, held: Option<Held>) {
        let before = match held {
            Some(held) => self.held.insert(seq, held),
            None => self.held.remove(&seq),
        };
        if let Some(before) = before {
            before.place.due().map(|due| self.due.remove(&(due, seq)));
            if let Place::Again { behind } = before.place {
                self.again.remove(&(behind, seq));
            }
        }
        if let Some(now) = held {
            now.place.due().map(|due| self.due.insert((due, seq)));
            if let Place::Again { behind } = now.place {
                self.again.insert((behind, seq));
            }
        }
    }

    pub(crate) fn get(&self, seq: u64) -> Option<Held> {
        self.held.get(&seq).copied()
    }

    /// Whether it was never handed out, and is not delayed.
    pub(crate) fn is_in_line(&self, seq: u64) -> bool {
        seq >= self.next && !self.held.contains_key(&seq)
    }

    /// Whether it is gone for good.
    pub(crate) fn is_gone(&self, seq: u64) -> bool {
        self.get(seq).map_or(seq < self.next, |held| held.place == Place::Done)
    }

    /// The message that is handed out next, and how often it was before.
    pub(crate) fn first_waiting(&mut self) -> Option<(u64, u32)> {
        while self.next < self.durable && self.held.contains_key(&self.next) {
            self.next += 1;
        }
        match self.again.first() {
            Some((behind, seq)) if *behind <= self.next => {
                Some((*seq, self.held.get(seq).map_or(0, |held| held.attempts)))
            }
            _ => (self.next < self.durable).then_some((self.next, 0)),
        }
    }

    /// Hands a message out.
    pub(crate) fn hand_out(&mut self, seq: u64, held: Held) {
        if seq == self.next {
            self.next += 1;
        }
        self.set(seq, Some(held));
    }

    /// The messages that wait, in the order in which they would be handed out.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = u64> + '_ {
        let mut again = self.again.iter().peekable();
        let mut line = (self.next..self.durable).filter(|seq| !self.held.contains_key(seq)).peekable();
        std::iter::from_fn(move || match (again.peek(), line.peek()) {
            (Some((behind, _)), Some(next)) if behind > next => line.next(),
            (Some((behind, _)), None) if *behind > self.durable => None,
            (Some(_), _) => again.next().map(|(_, seq)| *seq),
            (None, _) => line.next(),
        })
    }

    /// How many wait.
    pub(crate) fn waiting_count(&self) -> u64 {
        self.in_line_count() + self.again.len() as u64
    }

    /// How many of them were never handed out.
    pub(crate) fn in_line_count(&self) -> u64 {
        let not_in_line = self.held.range(self.next..self.durable.max(self.next)).count() as u64;
        self.durable.saturating_sub(self.next).saturating_sub(not_in_line)
    }

    /// What is out, delayed, or waits again.
    pub(crate) fn held(&self) -> impl ExactSizeIterator<Item = (u64, Held)> + '_ {
        self.held.iter().map(|(seq, held)| (*seq, *held))
    }

    /// When something happens to a message by itself.
    pub(crate) fn first_due(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A message whose time has come.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<(u64, Held)> {
        let (_, seq) = *self.due.first().filter(|(due, _)| *due <= now)?;
        self.get(seq).map(|held| (seq, held))
    }

    /// Lines a message up again, after those that wait now; it waits itself when it is durable.
    pub(crate) fn line_up(&mut self, seq: u64, attempts: u32) {
        let behind = self.durable.max(seq + 1);
        self.set(seq, Some(Held { attempts, place: Place::Again { behind } }));
    }

    /// The first message that is not gone.
    pub(crate) fn first(&self) -> u64 {
        self.held.first_key_value().map_or(self.next, |(seq, _)| self.next.min(*seq))
    }

    /// Forgets what the line has come past since it was done.
    pub(crate) fn tidy(&mut self) {
        let next = self.next;
        self.held.retain(|seq, held| *seq >= next || held.place != Place::Done);
        self.moved.retain(|_, to| self.held.contains_key(to));
    }

    /// All of it as marks, of at most `changes_max` changes each; sessions as `own` has them.
    pub(crate) fn snapshot(&self, own: u64, changes_max: usize) -> Vec<Mark> {
        let held = self.held().map(|(seq, held)| (seq, change(held, own)));
        let moved = self.moved.iter().map(|(from, to)| (*from, Change::Moved { to: *to }));
        let changes: Vec<_> = held.chain(moved).collect();
        let mut marks: Vec<_> =
            changes.chunks(changes_max).map(|changes| self.mark(changes.to_vec())).collect();
        if marks.is_empty() {
            marks.push(self.mark(Vec::new()));
        }
        marks[0].begins_snapshot = true;
        marks
    }

    /// These changes as a mark.
    pub(crate) fn mark(&self, changes: Vec<(u64, Change)>) -> Mark {
        Mark { begins_snapshot: false, next: self.next, changes }
    }
}

/// A place as a record has it.
pub(crate) fn change(held: Held, own: u64) -> Change {
    match held.place {
        Place::Out { session, .. } if session != own => Change::Out { attempts: held.attempts, session },
        Place::Out { .. } | Place::Again { .. } => Change::Out { attempts: held.attempts, session: 0 },
        Place::Delayed { delay_ms, since_ms, .. } => {
            Change::Delayed { attempts: held.attempts, delay_ms, since_ms }
        }
        Place::Done => Change::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A replay of what it changed, or of its snapshot, makes the same state.
    #[test]
    fn a_moved_message_is_acknowledged_by_its_old_number_and_never_comes_up_in_line() {
        let delayed =
            |attempts| Held { attempts, place: Place::Delayed { due: 5, delay_ms: 5, since_ms: 0 } };
        let mut state = State::new(0, 3);
        for seq in [0, 1] {
            state.hand_out(seq, delayed(1));
        }
        let moved = state.mark(vec![(0, State::moved(delayed(1), 3)), (3, change(delayed(1), 7))]);
        state.move_to(0, 3, delayed(1));
        state.move_to(3, 4, delayed(1));
        assert_eq!([0, 3, 1].map(|seq| state.moved_to(seq)), [4, 4, 1]);
        state.durable = 5;
        let mut again = State::new(0, 5);
        for mark in state.snapshot(7, 9) {
            again.replay(&mark, (0, 0, 0));
        }
        assert_eq!(again, state);
        let mut replayed = State::new(0, 3);
        replayed.replay(&moved, (0, 0, 0));
        assert_eq!(replayed.moved_to(0), 3);
        state.acknowledge(4);
        assert!(state.is_gone(4) && !state.is_gone(2));
        assert_eq!(state.waiting().collect::<Vec<_>>(), [2, 3]);
        for mark in state.snapshot(7, 9) {
            again.replay(&mark, (0, 0, 0));
        }
        assert!(again.is_gone(4));
        state.next = 5;
        state.tidy();
        assert_eq!((state.first(), state.moved_to(0)), (1, 0));
        assert!(state.is_gone(0) && state.is_gone(4));
    }

    #[test]
    fn what_is_done_is_not_taken_for_moved_to_what_stands_beside_it() {
        let mut state = State::new(0, 5);
        state.acknowledge(1);
        let place = Place::Delayed { due: 5, delay_ms: 5, since_ms: 0 };
        state.set(3, Some(Held { attempts: 1, place }));
        let mut again = State::new(0, 5);
        for mark in state.snapshot(7, 9) {
            again.replay(&mark, (0, 0, 0));
        }
        assert_eq!(again, state);
        assert!(again.is_gone(1) && again.moved_to(1) == 1 && !again.is_gone(3));
    }

    #[test]
    fn a_delayed_message_whose_time_comes_before_it_is_durable_waits_for_that_alone() {
        let mut state = State::new(0, 1);
        let place = Place::Delayed { due: 5, delay_ms: 5, since_ms: 0 };
        state.set(1, Some(Held { attempts: 0, place }));
        assert_eq!(state.take_due(5), Some((1, Held { attempts: 0, place })));
        state.line_up(1, 0);
        assert_eq!((state.first_due(), state.waiting().collect::<Vec<_>>()), (None, vec![0]));
        let out = Place::Out { session: 1, until: None, attempts_max: 1 };
        state.hand_out(0, Held { attempts: 1, place: out });
        assert_eq!(state.first_waiting(), None);
        state.durable = 2;
        assert_eq!((state.first_waiting(), state.waiting().collect::<Vec<_>>()), (Some((1, 0)), vec![1]));
    }
}
