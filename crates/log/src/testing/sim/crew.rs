//! Runs a crash campaign of many seeds on every processor; resumable.
//!
//! The lives of consecutive seeds are handed out in portions; a portion depends on its seeds alone. Finished portions
//! are added up in the order of the seeds, whichever worker was faster, so a [`Standing`] says exactly which seeds it
//! counts: those from the first up to the next, all of them and each once. Nothing else is kept; a portion that was
//! running when the campaign stopped is run again and is not counted before.
//!
//! Invariant: the standing after any seed is the same however many workers there were and however often it was stopped.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;

use super::campaign::{Campaign, DIMENSIONS, Failure, Tally, lives};
use super::sketch::Sketch;

/// Seeds that a worker takes at a time.
const PORTION: u64 = 32;

/// How far a campaign has come.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// The first seed.
    pub first_seed: u64,
    /// The seed after the last one that is counted.
    pub next_seed: u64,
    /// Time spent by all runs together, in milliseconds.
    pub milliseconds: u64,
    /// The sum over these seeds.
    pub tally: Tally,
}

const TITLE: &str = "seawall crash campaign 1";

impl Standing {
    /// Before the first life.
    #[must_use]
    pub fn new(first_seed: u64) -> Self {
        Self { first_seed, next_seed: first_seed, ..Self::default() }
    }

    fn numbers(&self) -> [(&'static str, u64); 10] {
        let Self { first_seed, next_seed, milliseconds, tally } = self;
        [
            ("first_seed", *first_seed),
            ("next_seed", *next_seed),
            ("milliseconds", *milliseconds),
            ("states", tally.states),
            ("repeated", tally.repeated),
            ("lives", tally.lives),
            ("faults", tally.faults),
            ("damaged", tally.damaged),
            ("refused", tally.refused),
            ("undecidable", tally.undecidable),
        ]
    }

    /// As text, to be read back by [`from_text`](Self::from_text); it names the shape of the campaign, because seeds of
    /// another one must not be added to these.
    #[must_use]
    pub fn to_text(&self, campaign: &Campaign) -> String {
        let mut text = format!("{TITLE}\n{}\n", shape(campaign));
        for (name, number) in self.numbers() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {number}");
        }
        for (name, lives) in DIMENSIONS.iter().zip(self.tally.dimensions) {
            let _ = writeln!(text, "{name} {lives}");
        }
        text + "sketch " + &self.tally.sketch.to_text() + "\n"
    }

    /// Reads back what [`to_text`](Self::to_text) wrote for a campaign of the same shape.
    ///
    /// # Errors
    /// What does not fit, in words.
    pub fn from_text(text: &str, campaign: &Campaign) -> Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err(format!("it does not start with \"{TITLE}\""));
        }
        let found = lines.next().unwrap_or_default();
        if found != shape(campaign) {
            return Err(format!("it is of another campaign: \"{found}\", not \"{}\"", shape(campaign)));
        }
        let fields: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(' ')).collect();
        let number = |name: &str| {
            let value = fields.get(name).and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| format!("it has no number \"{name}\""))
        };
        let sketch = fields.get("sketch").and_then(|value| Sketch::from_text(value));
        Ok(Self {
            first_seed: number("first_seed")?,
            next_seed: number("next_seed")?,
            milliseconds: number("milliseconds")?,
            tally: Tally {
                states: number("states")?,
                repeated: number("repeated")?,
                lives: number("lives")?,
                // A standing from before a dimension was counted has no line for it.
                dimensions: DIMENSIONS.map(|name| number(name).unwrap_or(0)),
                faults: number("faults")?,
                damaged: number("damaged")?,
                refused: number("refused")?,
                undecidable: number("undecidable")?,
                sketch: sketch.ok_or("it has no sketch")?,
            },
        })
    }
}

fn shape(campaign: &Campaign) -> String {
    let Campaign { images_per_step, depth, faults, damage, .. } = campaign;
    format!("images_per_step {images_per_step} depth {depth} faults {faults} damage {damage}")
}

/// Continues from `standing` with `workers` threads until it counts `campaign.states` states; shows the standing to `see`
/// whenever it grew, and ends early once that returns false.
///
/// # Errors
/// The broken promise of the lowest seed that broke one.
pub fn go_on(
    campaign: &Campaign,
    mut standing: Standing,
    workers: usize,
    mut see: impl FnMut(&Standing) -> bool,
) -> Result<Standing, Failure> {
    let (next, stop) = (AtomicU64::new(standing.next_seed), AtomicBool::new(false));
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let from = next.fetch_add(PORTION, Ordering::SeqCst);
                    if sender.send((from, lives(campaign, from..from + PORTION))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut wanted = true;
        while wanted && standing.tally.states < campaign.states {
            let Ok((from, portion)) = receiver.recv() else { break };
            early.insert(from, portion);
            while let Some(portion) = early.remove(&standing.next_seed) {
                if !wanted || standing.tally.states >= campaign.states {
                    break;
                }
                standing.tally.add(&portion.inspect_err(|_| stop.store(true, Ordering::SeqCst))?);
                standing.next_seed += PORTION;
                wanted = see(&standing);
            }
        }
        stop.store(true, Ordering::SeqCst);
        Ok(standing)
    })
}

#[cfg(test)]
mod tests {
    use super::{Campaign, Standing, go_on};

    #[test]
    fn neither_workers_nor_stops_change_what_is_counted() {
        let campaign = Campaign { states: 60_000, images_per_step: 2, ..Campaign::default() };
        let whole = go_on(&campaign, Standing::new(5), 1, |_| true).expect("every promise is kept");
        assert!(whole.tally.states >= 60_000);
        let mut standing = Standing::new(5);
        let mut stops = 0;
        while standing.tally.states < campaign.states {
            standing = go_on(&campaign, standing, 3, |_| false).expect("every promise is kept");
            let text = standing.to_text(&campaign);
            standing = Standing::from_text(&text, &campaign).expect("it was written like that");
            stops += 1;
        }
        assert!(stops > 1, "{stops}");
        assert_eq!(standing.to_text(&campaign), whole.to_text(&campaign));
        let near = whole.tally.sketch.estimate() as f64 / whole.tally.states as f64;
        assert!((0.8..1.02).contains(&near), "{near}");
    }

    #[test]
    fn a_standing_of_another_campaign_is_refused() {
        let (one, other) = (Campaign::default(), Campaign { depth: 1, ..Campaign::default() });
        let text = Standing::new(1).to_text(&one);
        assert!(Standing::from_text(&text, &one).is_ok());
        assert!(Standing::from_text(&text, &other).is_err_and(|why| why.contains("another campaign")));
        assert!(Standing::from_text("", &one).is_err());
        assert!(Standing::from_text(&text.replace("lives", "lifes"), &one).is_err());
    }
}
