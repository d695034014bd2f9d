//! Runs a campaign of many seeds on every processor; resumable.
//!
//! Consecutive seeds are handed out in portions; a portion depends on its seeds alone. Finished portions are added up in
//! the order of the seeds, whichever worker was faster, so a [`CampaignProgress`] says exactly which seeds it counts: those from
//! the first up to the next, all of them and each once. Nothing else is kept; a portion that was running when the campaign
//! stopped is run again and is not counted before.
//!
//! Invariant: the standing after any seed is the same however many workers there were and however often it was stopped.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;

use super::campaign::Failure;
use super::sketch::Sketch;

/// Seeds that a worker takes at a time.
const PORTION: u64 = 32;

/// What is counted over many seeds.
pub trait Sum: Clone + Default + Send {
    /// Every number in it, each with a name of its own.
    fn numbers(&mut self) -> Vec<(String, &mut u64)>;

    /// The estimate of distinct states, if it holds one.
    fn sketch(&mut self) -> Option<&mut Sketch> {
        None
    }
}

/// A campaign that is run seed by seed.
pub trait BySeed: Sync {
    /// What it counts.
    type Sum: Sum;
    /// The first line of its standing.
    const TITLE: &'static str;

    /// What the seeds that are added up must have in common: a name and a value, in one line.
    fn shape(&self) -> String;

    /// The seed after the last one that is wanted.
    fn end(&self, first_seed: u64) -> u64;

    /// Whether no more seeds are wanted.
    fn is_enough(&self, sum: &Self::Sum) -> bool;

    /// Runs these seeds.
    ///
    /// # Errors
    /// The first broken promise.
    fn run(&self, seeds: Range<u64>) -> Result<Self::Sum, Failure>;

    /// Whether the campaign is done.
    #[must_use]
    fn is_done(&self, standing: &CampaignProgress<Self::Sum>) -> bool {
        standing.next_seed >= self.end(standing.first_seed) || self.is_enough(&standing.sum)
    }
}

/// How far a campaign has come.
#[derive(Clone, Debug, Default)]
pub struct CampaignProgress<S> {
    /// The first seed.
    pub first_seed: u64,
    /// The seed after the last one that is counted.
    pub next_seed: u64,
    /// Time spent by all runs together, in milliseconds.
    pub milliseconds: u64,
    /// The sum over these seeds.
    pub sum: S,
}

impl<S: Sum> CampaignProgress<S> {
    /// Before the first seed.
    #[must_use]
    pub fn new(first_seed: u64) -> Self {
        Self { first_seed, next_seed: first_seed, ..Self::default() }
    }

    fn numbers(&mut self) -> Vec<(String, &mut u64)> {
        let Self { first_seed, next_seed, milliseconds, sum } = self;
        let own = [("first_seed", first_seed), ("next_seed", next_seed), ("milliseconds", milliseconds)];
        let own = own.map(|(name, number)| (name.to_owned(), number));
        own.into_iter().chain(sum.numbers()).collect()
    }

    /// As text, to be read back by [`from_text`](Self::from_text); it names the shape of the campaign, because seeds of
    /// another one must not be added to these.
    #[must_use]
    pub fn to_text<C: BySeed<Sum = S>>(&self, campaign: &C) -> String {
        let mut own = self.clone();
        let mut text = format!("{}\n{}\n", C::TITLE, campaign.shape());
        for (name, number) in own.numbers() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {number}");
        }
        let sketch = own.sum.sketch().map(|sketch| format!("sketch {}\n", sketch.to_text()));
        text + &sketch.unwrap_or_default()
    }

    /// Reads back what [`to_text`](Self::to_text) wrote for a campaign of the same shape.
    ///
    /// # Errors
    /// `InvalidData` with what does not fit.
    pub fn from_text<C: BySeed<Sum = S>>(text: &str, campaign: &C) -> io::Result<Self> {
        let malformed = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let mut lines = text.lines();
        if lines.next() != Some(C::TITLE) {
            return Err(malformed(format!("it does not start with \"{}\"", C::TITLE)));
        }
        let fields: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(' ')).collect();
        let shape = campaign.shape();
        let found = shape.split_once(' ').and_then(|(name, value)| Some((*fields.get(name)?, value)));
        if found.is_none_or(|(found, wanted)| found != wanted) {
            return Err(malformed(format!("it is of another campaign than \"{shape}\"")));
        }
        let mut standing = Self::default();
        for (name, number) in standing.numbers() {
            let value = fields.get(name.as_str()).and_then(|value| value.parse().ok());
            *number = value.ok_or_else(|| malformed(format!("it has no number \"{name}\"")))?;
        }
        if let Some(sketch) = standing.sum.sketch() {
            let found = fields.get("sketch").and_then(|value| Sketch::from_text(value));
            *sketch = found.ok_or_else(|| malformed("it has no sketch".to_owned()))?;
        }
        Ok(standing)
    }

    fn add(&mut self, mut portion: S) {
        for ((_, sum), (_, more)) in self.sum.numbers().into_iter().zip(portion.numbers()) {
            *sum += *more;
        }
        if let Some((sum, more)) = self.sum.sketch().zip(portion.sketch()) {
            sum.merge(more);
        }
    }
}

/// Continues from `standing` with `workers` threads until the campaign is done; shows the standing to `see` whenever it
/// grew, and ends early once that returns false.
///
/// # Errors
/// The broken promise of the lowest seed that broke one.
pub fn go_on<C: BySeed>(
    campaign: &C,
    mut standing: CampaignProgress<C::Sum>,
    workers: usize,
    mut see: impl FnMut(&CampaignProgress<C::Sum>) -> bool,
) -> Result<CampaignProgress<C::Sum>, Failure> {
    let end = campaign.end(standing.first_seed);
    let portion_of = move |from: u64| from..from.saturating_add(PORTION).min(end);
    let (next, stop) = (AtomicU64::new(standing.next_seed), AtomicBool::new(false));
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let from = next.fetch_add(PORTION, Ordering::SeqCst);
                    if from >= end || sender.send((from, campaign.run(portion_of(from)))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut wanted = true;
        while wanted && !campaign.is_done(&standing) {
            let Ok((from, portion)) = receiver.recv() else { break };
            early.insert(from, portion);
            while let Some(portion) = early.remove(&standing.next_seed) {
                if !wanted || campaign.is_done(&standing) {
                    break;
                }
                standing.add(portion.inspect_err(|_| stop.store(true, Ordering::SeqCst))?);
                standing.next_seed = portion_of(standing.next_seed).end;
                wanted = see(&standing);
            }
        }
        stop.store(true, Ordering::SeqCst);
        Ok(standing)
    })
}

#[cfg(test)]
mod tests {
    use super::{BySeed, CampaignProgress, go_on};
    use crate::testing::sim::campaign::Campaign;
    use crate::testing::sim::rot::{Cell, Injections};

    /// Runs the campaign in one go by one worker, then by three that are stopped after every portion.
    fn whole<C: BySeed>(campaign: &C, first_seed: u64) -> CampaignProgress<C::Sum> {
        let whole =
            go_on(campaign, CampaignProgress::new(first_seed), 1, |_| true).expect("every promise is kept");
        let mut standing = CampaignProgress::new(first_seed);
        let mut stops = 0;
        while !campaign.is_done(&standing) {
            standing = go_on(campaign, standing, 3, |_| false).expect("every promise is kept");
            let text = standing.to_text(campaign);
            standing = CampaignProgress::from_text(&text, campaign).expect("it was written like that");
            stops += 1;
        }
        assert!(stops > 1, "{stops}");
        assert_eq!(standing.to_text(campaign), whole.to_text(campaign));
        whole
    }

    #[test]
    fn neither_workers_nor_stops_change_what_is_counted_of_crash_states() {
        let campaign = Campaign { states: 30_000, images_per_step: 2, depth: 0, ..Campaign::default() };
        let tally = whole(&campaign, 5).sum;
        assert!(tally.states >= campaign.states);
        let near = tally.sketch.estimate() as f64 / tally.states as f64;
        assert!((0.8..1.02).contains(&near), "{near}");
    }

    #[test]
    fn neither_workers_nor_stops_change_what_is_counted_of_logs_at_rest() {
        let whole = whole(&Injections { per_log: 20, logs: 143 }, 7);
        assert_eq!(whole.next_seed, 150, "the last portion is a part of one");
        assert!(Cell::sum(whole.sum.iter().flatten()).injections > 1000, "{whole:?}");
    }

    /// A standing is read for the campaign that wrote it and for no other, and only in full.
    fn refused_elsewhere<C: BySeed>(one: &C, other: &C, number: &str) {
        let text = CampaignProgress::new(1).to_text(one);
        assert!(CampaignProgress::from_text(&text, one).is_ok());
        assert!(
            CampaignProgress::from_text(&text, other)
                .is_err_and(|why| why.to_string().contains("another campaign"))
        );
        assert!(CampaignProgress::from_text("", one).is_err());
        assert!(CampaignProgress::from_text(&text.replace(number, "x"), one).is_err());
    }

    #[test]
    fn a_standing_of_another_campaign_is_refused() {
        let one = Campaign::default();
        refused_elsewhere(&one, &Campaign { depth: 1, ..one.clone() }, "lives");
        let one = Injections { per_log: 20, logs: 1 };
        refused_elsewhere(&one, &Injections { per_log: 21, ..one }, "cell12");
    }
}
