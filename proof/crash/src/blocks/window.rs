//! Enumerates the states that a disk may be in when the power goes, from recorded writes and flushes.
//!
//! A flush makes durable every write that completed before the flush arrived. A write with FUA is durable by itself when
//! it completes; what completed before it and lies under it never comes back. Between the ends of two flushes, or writes
//! with FUA, lies a *window*: the durable part is certain, and of the later writes any subset may be on the disk.
//!
//! | writes in the window | states |
//! | --- | --- |
//! | up to 4 | every subset; each also with its last write torn at 512 and at 4096 bytes |
//! | more | every prefix, whole and torn; every single omission; 32 subsets by chance |
//!
//! Each state is judged at the end of its window, the latest moment at which it is legal, so every acknowledgement
//! made until then is due. States with the same contents and the same acknowledgements count once.
//!
//! Invariant: everything follows from the record and the seed, so the number of a state names it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use seawall::oracle::Ledger;
use seawall::sim::rng::{Rng, mix};

use super::event::{Event, Payload};
use crate::bytes::index;
use crate::workload::{Timeline, UnknownMark};
use seawall_crash_test::content::{Content, Hashes};

const EXHAUSTIVE_WRITES_MAX: usize = 4;
const RANDOM_SUBSETS: usize = 32;
/// The units by which a write is torn, in bytes.
const TEAR_UNITS: [u64; 2] = [512, 4096];

/// One state of a disk.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) number: u64,
    pub(crate) image: Content,
    /// What is due.
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) torn: Option<Tear>,
}

/// A write of which only the first part arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tear {
    /// The unit by which it was torn, in bytes.
    pub(crate) unit: u64,
    /// Where it goes, in bytes from the start of the disk.
    pub(crate) offset: u64,
    /// Its length in bytes.
    pub(crate) bytes: u64,
    /// What arrived, in bytes.
    pub(crate) arrived: u64,
}

impl std::fmt::Display for Tear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { unit, offset, bytes, arrived } = self;
        write!(f, "of {bytes} bytes written at byte {offset} {arrived} arrived, by {unit}")
    }
}

#[derive(Clone, Debug)]
struct RecordedWrite {
    number: u64,
    offset: u64,
    payload: Payload,
    done: bool,
    /// Whether it is durable when it is done.
    forced: bool,
    /// Writes that were done when it arrived.
    under: Vec<u64>,
}

/// A recording with the contents that it starts from.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// The contents at the start, all durable.
    pub(crate) start: Content,
    pub(crate) events: Vec<Event>,
    /// What the ledger held at the start.
    pub(crate) timeline: Timeline,
    pub(crate) seed: u64,
}

impl RecordedWrite {
    fn end(&self) -> u64 {
        self.offset + self.payload.bytes()
    }

    fn lay(&self, disk: &mut Content) {
        self.payload.lay(disk, self.offset, self.payload.bytes());
    }

    /// Takes the bytes of `over` where both lie.
    fn lie_under(&mut self, over: &Self) {
        if self.offset.max(over.offset) < self.end().min(over.end()) {
            let mut both = Content::default();
            both.resize(index(self.end().max(over.end())));
            self.lay(&mut both);
            over.lay(&mut both);
            self.payload = Payload::Data(both.read(index(self.offset), index(self.end())).into());
        }
    }
}

/// Which writes of a window arrived, and how far the last of them got if it was torn.
struct Choice {
    writes: Vec<usize>,
    tear: Option<Tear>,
}

/// Walks through a recording and yields its states.
struct Windows<'a, F: FnMut(State) -> bool> {
    /// What is certain.
    below: Content,
    hashes: Hashes,
    open: Vec<RecordedWrite>,
    flushes: HashMap<u64, Vec<u64>>,
    timeline: Timeline,
    seen: HashSet<u64>,
    rng: Rng,
    number: u64,
    recording: &'a Recording,
    see: F,
}

/// Calls `see` with every state of `recording` until it returns false.
pub(crate) fn walk(recording: &Recording, see: impl FnMut(State) -> bool) -> Result<(), UnknownMark> {
    let mut windows = Windows {
        below: recording.start.clone(),
        hashes: Hashes::default(),
        open: Vec::new(),
        flushes: HashMap::new(),
        timeline: recording.timeline.clone(),
        seen: HashSet::new(),
        rng: Rng::new(mix(recording.seed)),
        number: 0,
        recording,
        see,
    };
    windows.run()
}

impl<F: FnMut(State) -> bool> Windows<'_, F> {
    fn run(&mut self) -> Result<(), UnknownMark> {
        for event in &self.recording.events {
            match event {
                Event::Write { number, offset, payload } => {
                    let (number, offset, payload) = (*number, *offset, payload.clone());
                    let (done, forced, under) = (false, false, Vec::new());
                    self.open.push(RecordedWrite { number, offset, payload, done, forced, under });
                }
                Event::Forced { number } => {
                    let under = self.open.iter().filter(|write| write.done).map(|write| write.number);
                    let under = under.collect();
                    if let Some(write) = self.open.iter_mut().find(|write| write.number == *number) {
                        (write.forced, write.under) = (true, under);
                    }
                }
                Event::Flush { number } => {
                    let covered = self.open.iter().filter(|write| write.done).map(|write| write.number);
                    self.flushes.insert(*number, covered.collect());
                }
                Event::Done { number } => {
                    if !self.done(*number) {
                        return Ok(());
                    }
                }
                Event::Mark(text) => self.timeline.mark(text)?,
            }
        }
        self.states();
        Ok(())
    }

    /// A request is answered: a window ends with a flush that covers something, and with a write with FUA. Whether to go on.
    fn done(&mut self, number: u64) -> bool {
        if let Some(covered) = self.flushes.remove(&number) {
            let goes_on = covered.is_empty() || self.states();
            self.make_durable(&covered);
            return goes_on;
        }
        let Some(write) = self.open.iter_mut().find(|write| write.number == number) else { return true };
        write.done = true;
        if !write.forced {
            return true;
        }
        let goes_on = self.states();
        self.cover(number);
        self.make_durable(&[number]);
        goes_on
    }

    /// What was done before this write arrived is under it, and never replaces it.
    fn cover(&mut self, number: u64) {
        let Some(at) = self.open.iter().position(|write| write.number == number) else { return };
        let over = self.open[at].clone();
        for write in self.open[..at].iter_mut().filter(|write| over.under.contains(&write.number)) {
            write.lie_under(&over);
        }
    }

    /// Makes the writes that `covered` names durable.
    fn make_durable(&mut self, covered: &[u64]) {
        for write in self.open.extract_if(.., |write| covered.contains(&write.number)) {
            write.lay(&mut self.below);
        }
    }

    fn choices(&mut self) -> Vec<Choice> {
        let count = self.open.len();
        let mut choices = Vec::new();
        let whole = |writes: Vec<usize>| Choice { writes, tear: None };
        if count <= EXHAUSTIVE_WRITES_MAX {
            for mask in 0..1_usize << count {
                let writes: Vec<usize> = (0..count).filter(|i| mask >> i & 1 == 1).collect();
                choices.extend(TEAR_UNITS.iter().filter_map(|unit| self.torn(&writes, *unit)));
                choices.push(whole(writes));
            }
            return choices;
        }
        for end in 0..=count {
            let writes: Vec<usize> = (0..end).collect();
            let unit = TEAR_UNITS[usize::from(!self.rng.coin())];
            choices.extend(self.torn(&writes, unit));
            choices.push(whole(writes));
        }
        choices.extend((0..count).map(|out| whole((0..count).filter(|i| *i != out).collect())));
        for _ in 0..RANDOM_SUBSETS {
            choices.push(whole((0..count).filter(|_| self.rng.coin()).collect()));
        }
        choices
    }

    /// The same writes with the last one torn at a multiple of `unit`, if it is long enough.
    fn torn(&mut self, writes: &[usize], unit: u64) -> Option<Choice> {
        let last = &self.open[*writes.last()?];
        let units = last.payload.bytes().div_ceil(unit);
        if units < 2 {
            return None;
        }
        let arrived = unit * (1 + self.rng.below(units - 1));
        let tear = Tear { unit, offset: last.offset, bytes: last.payload.bytes(), arrived };
        Some(Choice { writes: writes.to_vec(), tear: Some(tear) })
    }

    /// Yields the states of the window that ends here.
    fn states(&mut self) -> bool {
        let ledger = Arc::new(self.timeline.ledger.clone());
        for choice in self.choices() {
            let mut image = self.below.clone();
            for (i, write) in choice.writes.iter().enumerate() {
                let write = &self.open[*write];
                let torn = choice.tear.filter(|_| i + 1 == choice.writes.len());
                let bytes = torn.map_or(write.payload.bytes(), |tear| tear.arrived);
                write.payload.lay(&mut image, write.offset, bytes);
            }
            if !self.seen.insert(mix(self.hashes.of(&image) ^ mix(ledger.acknowledged.get()))) {
                continue;
            }
            let number = self.number;
            self.number += 1;
            let ledger = Arc::clone(&ledger);
            if !(self.see)(State { number, image, ledger, torn: choice.tear }) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Recording, walk};
    use crate::blocks::event::{Event, Payload};
    use crate::workload::Timeline;
    use seawall_crash_test::content::Content;
    use std::collections::HashSet;

    const PAGE: usize = 4096;

    /// What the first two pages may hold after what is recorded, with what is acknowledged then.
    fn ends(events: Vec<Event>) -> HashSet<(u8, u8, u64)> {
        let timeline = Timeline::new(1, 1);
        let mut start = Content::default();
        start.resize(2 * PAGE);
        let recording = Recording { start, events, timeline, seed: 1 };
        let mut ends = HashSet::new();
        walk(&recording, |state| {
            let image = state.image.to_vec();
            ends.insert((image[0], image[PAGE], state.ledger.acknowledged.get()));
            true
        })
        .expect("marks are known");
        ends
    }

    fn write(number: u64, page: u64, value: u8) -> Event {
        Event::Write { number, offset: page * PAGE as u64, payload: Payload::Data(vec![value; PAGE].into()) }
    }

    fn acked() -> Event {
        Event::Mark("acked 7".to_owned())
    }

    #[test]
    fn a_write_with_fua_is_durable_alone_and_a_flush_takes_what_was_done_before() {
        let body = || vec![write(1, 0, 1), Event::Done { number: 1 }];
        let head = [write(2, 1, 2), Event::Forced { number: 2 }, Event::Done { number: 2 }, acked()];
        // What trusts in a flush that is not sent: the head is there, and what it speaks of is not.
        let found = ends([body(), head.to_vec()].concat());
        assert!(found.contains(&(0, 2, 7)) && found.contains(&(1, 2, 7)), "{found:?}");
        assert!(!found.contains(&(1, 0, 7)), "what was forced is there: {found:?}");
        // The same where FUA is a write and a flush.
        let flushed = [write(2, 1, 2), Event::Done { number: 2 }, Event::Flush { number: 3 }];
        let found = ends([body(), flushed.to_vec(), vec![Event::Done { number: 3 }, acked()]].concat());
        assert_eq!(found.iter().filter(|end| end.2 == 7).collect::<Vec<_>>(), [&(1, 2, 7)], "{found:?}");
    }

    #[test]
    fn what_lies_under_a_write_with_fua_never_comes_back_and_what_overlaps_it_in_time_may() {
        let forced =
            |number| [write(number, 0, 2), Event::Forced { number }, Event::Done { number }, acked()];
        let before = ends([vec![write(1, 0, 1), Event::Done { number: 1 }], forced(2).to_vec()].concat());
        assert_eq!(before.iter().filter(|end| end.2 == 7).collect::<Vec<_>>(), [&(2, 0, 7)], "{before:?}");
        let both = ends([vec![write(1, 0, 1)], forced(2).to_vec()].concat());
        assert!(both.contains(&(1, 0, 7)) && both.contains(&(2, 0, 7)), "{both:?}");
    }
}
