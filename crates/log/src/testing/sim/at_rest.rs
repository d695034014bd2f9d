//! Runs the damage-at-rest test over many seeds on every processor; resumable.
//!
//! As [`crew`](super::crew) does for crash states, with a simpler schedule: the seeds of one portion are split among
//! the workers, and the [`Standing`] advances when all of them are done.
//!
//! Invariant: the standing after any seed is the same however many workers there were and however often it was stopped.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::campaign::Failure;
use super::rot::{Cell, Table, rot};

/// Logs that one worker damages between two looks at the clock.
const PORTION: u64 = 32;

const TITLE: &str = "seawall logs at rest 1";

/// How far the injections have come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The first seed.
    pub first_seed: u64,
    /// The seed after the last one that is counted.
    pub next_seed: u64,
    /// Injections that are tried into each log.
    pub per_log: u64,
    /// Time spent by all runs together, in milliseconds.
    pub milliseconds: u64,
    /// The sum over these seeds.
    pub table: Table,
}

impl Standing {
    /// Before the first log.
    #[must_use]
    pub fn new(first_seed: u64, per_log: u64) -> Self {
        Self { first_seed, next_seed: first_seed, per_log, ..Self::default() }
    }

    /// Everything in the table together.
    #[must_use]
    pub fn sum(&self) -> Cell {
        self.table.iter().flatten().fold(Cell::default(), |sum, cell| sum.plus(*cell))
    }

    /// As text, to be read back by [`from_text`](Self::from_text).
    #[must_use]
    pub fn to_text(&self) -> String {
        let Self { first_seed, next_seed, per_log, milliseconds, table } = self;
        let mut text = format!(
            "{TITLE}\nfirst_seed {first_seed}\nnext_seed {next_seed}\nper_log {per_log}\nmilliseconds {milliseconds}\n"
        );
        for (ending, cells) in table.iter().enumerate() {
            for (kind, cell) in cells.iter().enumerate() {
                let Cell { injections, refused, whole, shortened, window } = cell;
                // Writing to a string cannot fail.
                let _ =
                    writeln!(text, "cell{ending}{kind} {injections} {refused} {whole} {shortened} {window}");
            }
        }
        text
    }

    /// Reads back what [`to_text`](Self::to_text) wrote for as many injections into each log.
    ///
    /// # Errors
    /// What does not fit, in words.
    pub fn from_text(text: &str, per_log: u64) -> Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return Err(format!("it does not start with \"{TITLE}\""));
        }
        let fields: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(' ')).collect();
        let numbers = |name: &str| {
            let value = fields.get(name).copied().unwrap_or_default();
            value.split(' ').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>().unwrap_or_default()
        };
        let number = |name: &str| match numbers(name)[..] {
            [number] => Ok(number),
            _ => Err(format!("it has no number \"{name}\"")),
        };
        let found = number("per_log")?;
        if found != per_log {
            return Err(format!("it has {found} injections a log, not {per_log}"));
        }
        let mut table = Table::default();
        for (ending, cells) in table.iter_mut().enumerate() {
            for (kind, cell) in cells.iter_mut().enumerate() {
                let name = format!("cell{ending}{kind}");
                let [injections, refused, whole, shortened, window] = numbers(&name)[..] else {
                    return Err(format!("it has no five numbers \"{name}\""));
                };
                *cell = Cell { injections, refused, whole, shortened, window };
            }
        }
        let (first_seed, next_seed) = (number("first_seed")?, number("next_seed")?);
        Ok(Self { first_seed, next_seed, per_log, milliseconds: number("milliseconds")?, table })
    }
}

/// Continues from `standing` with `workers` threads up to the seed before `end`; shows the standing to `see` whenever it
/// grew, and ends early once that returns false.
///
/// # Errors
/// A broken promise, the one of the lowest seed in its portion.
pub fn go_on(
    mut standing: Standing,
    end: u64,
    workers: usize,
    mut see: impl FnMut(&Standing) -> bool,
) -> Result<Standing, Failure> {
    let per_log = standing.per_log;
    while standing.next_seed < end {
        let spans: Vec<_> = (0..workers.max(1) as u64)
            .map(|worker| standing.next_seed + worker * PORTION)
            .map(|from| from.min(end)..(from + PORTION).min(end))
            .collect();
        let reached = spans.last().map_or(end, |span| span.end);
        let tables: Vec<Result<Table, Failure>> = std::thread::scope(|scope| {
            let started: Vec<_> =
                spans.into_iter().map(|span| scope.spawn(move || rot(span, per_log))).collect();
            let ended = started.into_iter().map(std::thread::ScopedJoinHandle::join);
            ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        for table in tables {
            for (cells, more) in standing.table.iter_mut().zip(table?) {
                cells.iter_mut().zip(more).for_each(|(cell, more)| *cell = cell.plus(more));
            }
        }
        standing.next_seed = reached;
        if !see(&standing) {
            break;
        }
    }
    Ok(standing)
}

#[cfg(test)]
mod tests {
    use super::{Standing, go_on};

    #[test]
    fn neither_workers_nor_stops_change_what_is_counted() {
        let whole = go_on(Standing::new(7, 20), 150, 1, |_| true).expect("every promise is kept");
        let mut standing = Standing::new(7, 20);
        let mut stops = 0;
        while standing.next_seed < 150 {
            standing = go_on(standing, 150, 3, |_| false).expect("every promise is kept");
            standing = Standing::from_text(&standing.to_text(), 20).expect("it was written like that");
            stops += 1;
        }
        assert!(stops > 1 && whole.sum().injections > 1000, "{stops} {whole:?}");
        assert_eq!(standing, whole);
    }

    #[test]
    fn a_standing_of_something_else_is_refused() {
        let text = Standing::new(1, 20).to_text();
        assert!(Standing::from_text(&text, 20).is_ok());
        assert!(Standing::from_text(&text, 21).is_err_and(|why| why.contains("20 injections")));
        assert!(Standing::from_text(&text.replace("cell12", "cell99"), 20).is_err());
        assert!(Standing::from_text("", 20).is_err());
    }
}
