//! Draws, recovers and judges crash images of a recording at file level.
//!
//! A recording is played into the model event by event; at each one images are drawn, those seen before with the same
//! acknowledgements are skipped, and each new one is recovered by the real code in this process and judged. Everything
//! follows from the recording and a seed, so a state has a number.
//!
//! Invariant: an image is judged against every acknowledgement that had been made while it was still legal, because
//! images are drawn again after each mark.

use std::collections::HashSet;

use seawall::oracle::Violation;
use seawall::sim::draw::{DRAWS, Draw};
use seawall::sim::outside::judge;
use seawall::sim::rng::{Rng, mix};

use super::disk::MemoryDisk;
use super::event::Event;
use super::model::{Model, Rule};
use crate::victim::LAYOUT;
use crate::workload::{Timeline, UnknownMark};

/// A broken promise and the state that shows it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// The state's number in its recording.
    pub(crate) state: u64,
    /// The number of the event behind which the power went.
    pub(crate) event: usize,
    /// What was broken.
    pub(crate) violation: Violation,
}

/// How a recording is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// Where chance begins.
    pub(crate) seed: u64,
    /// The rule for images.
    pub(crate) rule: Rule,
    /// Images drawn at each event.
    pub(crate) images_per_event: usize,
    /// Judge this state only.
    pub(crate) only: Option<u64>,
}

/// Judges the states of `events` until one breaks a promise, and counts the distinct ones in `judged`.
///
/// # Errors
/// A mark without meaning.
pub(crate) fn search(
    events: &[Event],
    mut timeline: Timeline,
    search: Search,
    judged: &mut u64,
) -> Result<Option<Finding>, UnknownMark> {
    let mut model = Model::new(search.rule);
    let mut rng = Rng::new(mix(search.seed));
    let mut seen = HashSet::new();
    let mut state = 0;
    for (number, event) in events.iter().enumerate() {
        model.take(event);
        if let Event::Mark(text) = event {
            timeline.mark(text)?;
        }
        let images = if model.is_durable() { 1 } else { search.images_per_event };
        // Nothing, everything, then by chance.
        for first in DRAWS.iter().take(2).map(Some).chain(std::iter::repeat(None)).take(images) {
            let draw = |rng: &mut Rng| first.copied().unwrap_or(DRAWS[rng.index(DRAWS.len())]);
            let (contents, names): (Draw, Draw) = (draw(&mut rng), draw(&mut rng));
            let (files, key) = model.image(contents, names, &mut rng);
            let twice = rng.one_in(16);
            let ledger = timeline.ledger();
            let key = mix(key ^ mix(ledger.acknowledged.get()) ^ mix(ledger.trimmed.get() << 1));
            if !seen.insert(key) {
                continue;
            }
            state += 1;
            if search.only.is_some_and(|only| only + 1 != state) {
                continue;
            }
            *judged += 1;
            if let Err(violation) = judge(&mut MemoryDisk::new(&files), &LAYOUT, ledger, twice) {
                return Ok(Some(Finding { state: state - 1, event: number, violation }));
            }
        }
    }
    Ok(None)
}
