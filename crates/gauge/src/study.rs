//! Defines a scenario's self-describing result table: a [`Study`].
//!
//! ```text
//!   RunResult ── study ─┬─ settings, facts       the parameters, what holds for all rows
//!                       ├─ places                the file systems it ran on, if there are several
//!                       ├─ columns               key, title, unit, which way is better, where the value comes from
//!                       └─ rows ── outcome ── latencies · figures · calls · series · rounds
//! ```
//!
//! A terminal table, CSV, Markdown, a page with pictures or a comparison is made from columns and rows alone, with
//! no code for any one scenario: [`Study::value`] is every cell.
//!
//! Invariants: ids of rows and keys of columns are unique and stay the same from run to run, so that runs can be
//! compared by them; figures are unrounded; a row that did not run states the reason; a value that a column does not
//! find in a row is unknown, never zero. Within a format version fields are only added, each with a default.

use crate::latency::{Latency, Percentile};
use crate::row::{Measured, Row};
use seawall_sys::inspect::Environment;
use serde::{Deserialize, Serialize};

/// A scenario's table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Study {
    /// What was done, in one line.
    pub title: String,
    /// The published experiment that it reproduces; empty if there is none.
    #[serde(default)]
    pub reproduces: String,
    /// What the first column of the table names, such as `design` or `writers`.
    pub row_title: String,
    /// The settings, as far as they decide the figures.
    #[serde(default)]
    pub settings: Vec<Fact>,
    /// What holds for all rows, such as the kernel's writeback settings.
    #[serde(default)]
    pub facts: Vec<Fact>,
    /// The folders measured, if several; `Row::place` is an index into it.
    #[serde(default)]
    pub places: Vec<MeasuredFolder>,
    /// Whether the rows are methods for the same work, of which the best is looked for: they are ranked by class and
    /// latency.
    #[serde(default)]
    pub ranked: bool,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// How to read the table: one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A named value in words.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fact {
    /// Stable name.
    pub key: String,
    /// What it is, for people.
    pub title: String,
    /// Its value, with its unit.
    pub value: String,
}

impl Fact {
    /// A named value.
    pub fn new(key: &str, title: &str, value: impl Into<String>) -> Self {
        Self { key: key.to_owned(), title: title.to_owned(), value: value.into() }
    }
}

/// One of several folders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredFolder {
    /// What it is called in the table: the file system, and a number if two are alike.
    pub label: String,
    /// What is under it.
    pub environment: Environment,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Stable name, unique in the study; ends in the unit where there is one.
    pub key: String,
    /// The heading above its title that it shares with its neighbours; empty if none.
    #[serde(default)]
    pub group: String,
    /// Its heading.
    pub title: String,
    /// The unit of its values.
    pub unit: Unit,
    /// Which way is better.
    #[serde(default)]
    pub better: Better,
    /// Where its values come from.
    pub of: Source,
    /// Whether it belongs into a table of 80 columns.
    #[serde(default)]
    pub essential: bool,
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// A number of things.
    Count,
    /// Things per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// A part of one, shown in per cent.
    Share,
    /// A multiple of something.
    Ratio,
    /// Whether something is outlived: 1 yes, 0 no, between them only if the nodes are on machines of their own.
    Outlived,
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Neither.
    #[default]
    Neither,
    /// The smaller.
    Smaller,
    /// The larger.
    Larger,
}

/// Where a column's value is found in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// In the latencies of this name, at a point.
    Latency {
        /// [`NamedLatency::name`](crate::row::NamedLatency::name).
        name: String,
        /// Where in the distribution.
        at: Point,
    },
    /// The figure of this name.
    Figure {
        /// [`Figure::name`](crate::row::Figure::name).
        name: String,
    },
}

/// A point of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// The smallest sample.
    Min,
    /// The mean.
    Mean,
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
    P999,
    /// The 99.99th percentile.
    P9999,
    /// The largest sample.
    Max,
    /// How many samples.
    Count,
}

/// What stands in a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// The value, in the column's unit.
    pub value: f64,
    /// Whether fewer than ten samples lie beyond this percentile: another run may differ much.
    pub uncertain: bool,
}

impl Column {
    /// A column of durations, smaller being better: a point of the latency `name`.
    pub fn latency(name: &str, at: Point, group: &str, title: &str, essential: bool) -> Self {
        let (unit, better) = match at {
            Point::Count => (Unit::Count, Better::Neither),
            _ => (Unit::Nanoseconds, Better::Smaller),
        };
        Self {
            key: format!("{name}_{}", at.key()),
            group: group.to_owned(),
            title: title.to_owned(),
            unit,
            better,
            of: Source::Latency { name: name.to_owned(), at },
            essential,
        }
    }

    /// Columns of a latency's median and tail: p50, p99, p99.9 and the longest.
    pub fn tail(name: &str, group: &str) -> [Self; 4] {
        [(Point::P50, "p50"), (Point::P99, "p99"), (Point::P999, "p99.9"), (Point::Max, "max")]
            .map(|(at, title)| Self::latency(name, at, group, title, true))
    }

    /// A column of the figure `name`.
    pub fn figure(name: &str, unit: Unit, better: Better, group: &str, title: &str, essential: bool) -> Self {
        Self {
            key: name.to_owned(),
            group: group.to_owned(),
            title: title.to_owned(),
            unit,
            better,
            of: Source::Figure { name: name.to_owned() },
            essential,
        }
    }
}

impl Point {
    /// The end of a column's key.
    pub fn key(self) -> &'static str {
        match self {
            Self::Min => "min_ns",
            Self::Mean => "mean_ns",
            Self::P50 => "p50_ns",
            Self::P90 => "p90_ns",
            Self::P99 => "p99_ns",
            Self::P999 => "p99_9_ns",
            Self::P9999 => "p99_99_ns",
            Self::Max => "max_ns",
            Self::Count => "count",
        }
    }

    /// The point of `latency`; `None` without samples, and for a percentile that would be the maximum under
    /// another name.
    pub fn of(self, latency: &Latency) -> Option<Value> {
        let sure = |value: f64| Some(Value { value, uncertain: false });
        let percentile = |percent: f64| match latency.percentile(percent) {
            Percentile::Sound(ns) => Some(Value { value: ns as f64, uncertain: false }),
            Percentile::Uncertain(ns) => Some(Value { value: ns as f64, uncertain: true }),
            Percentile::Refused => None,
        };
        if latency.count() == 0 && self != Self::Count {
            return None;
        }
        match self {
            Self::Min => sure(latency.min_ns() as f64),
            Self::Mean => sure(latency.mean_ns()),
            Self::P50 => percentile(50.0),
            Self::P90 => percentile(90.0),
            Self::P99 => percentile(99.0),
            Self::P999 => percentile(99.9),
            Self::P9999 => percentile(99.99),
            Self::Max => sure(latency.max_ns() as f64),
            Self::Count => sure(latency.count() as f64),
        }
    }
}

impl Study {
    /// The row of that id.
    pub fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// The figures of the rows that ran, with their rows.
    pub fn measured(&self) -> impl Iterator<Item = (&Row, &Measured)> {
        self.rows.iter().filter_map(|row| row.measured().map(|measured| (row, measured)))
    }

    /// A cell; `None` if the row did not run, or if the figure is unknown or not carried by its samples.
    pub fn value(row: &Row, column: &Column) -> Option<Value> {
        Self::found(row.measured()?, &column.of)
    }

    /// What `source` finds in a row.
    pub fn found(measured: &Measured, source: &Source) -> Option<Value> {
        match source {
            Source::Figure { name } => measured
                .figure(name)
                .filter(|value| value.is_finite())
                .map(|value| Value { value, uncertain: false }),
            Source::Latency { name, at } => at.of(measured.latency(name)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latency;
    use crate::row::{Figure, Iteration, NamedLatency, Round};
    use seawall_sys::counters::Counts;
    use seawall_sys::durability::Claim;

    fn measured(samples: u64) -> Measured {
        let mut latency = Latency::new();
        (1..=samples).for_each(|n| latency.record(n * 1000));
        Measured {
            latencies: vec![NamedLatency { name: "append".into(), title: "append".into(), latency }],
            figures: vec![Figure { name: "share".into(), value: 0.25 }],
            ..Measured::default()
        }
    }

    #[test]
    fn a_cell_is_found_by_its_source_and_an_uncarried_percentile_is_none() {
        let measured = measured(100);
        let at = |at| Study::found(&measured, &Source::Latency { name: "append".into(), at });
        assert_eq!(
            at(Point::P90).map(|value| (value.value > 89_000.0, value.uncertain)),
            Some((true, false))
        );
        assert_eq!(at(Point::P99).map(|value| value.uncertain), Some(true));
        assert_eq!(at(Point::P999), None, "a hundred samples have no p99.9");
        assert_eq!(at(Point::Count).map(|value| value.value), Some(100.0));
        let figure = |name: &str| Study::found(&measured, &Source::Figure { name: name.into() });
        assert_eq!(figure("share").map(|value| value.value), Some(0.25));
        assert_eq!(figure("unknown"), None, "what is unknown is not zero");
    }

    #[test]
    fn the_class_of_a_row_is_that_of_its_blocks() {
        use seawall_sys::durability::{Durability, Promiser};
        let class = |class| Claim { class, promised_by: Promiser::Device, because: Vec::new() };
        let block = || Measured { durability: Some(class(Durability::PowerLoss)), ..measured(1) };
        let mut row = Measured::default();
        row.absorb(block());
        row.absorb(block());
        assert_eq!(row.durability, Some(class(Durability::PowerLoss)));
        let mut row = Measured { durability: Some(class(Durability::SystemCrash)), ..Measured::default() };
        row.absorb(measured(1));
        assert_eq!(
            row.durability,
            Some(class(Durability::SystemCrash)),
            "blocks that say nothing change nothing"
        );
    }

    #[test]
    fn blocks_add_up_and_a_gap_in_the_counters_makes_the_sum_unknown() {
        let round = Round { elapsed_ns: 1, commits: 1, ..Round::default() };
        let counts = Some(Counts { writes: 2, sectors: 16, flushes: 1 });
        let block = |counts| Measured { elapsed_ns: 5, counts, rounds: vec![round], ..measured(10) };
        let mut sum = Measured::default();
        sum.absorb(block(counts));
        sum.absorb(block(counts));
        assert_eq!((sum.elapsed_ns, sum.counts.map(|counts| counts.writes)), (10, Some(4)));
        assert_eq!(sum.latency("append").map(Latency::count), Some(20));
        assert_eq!((sum.figure("share"), sum.rounds.len()), (Some(0.5), 2));
        sum.absorb(block(None));
        sum.absorb(block(counts));
        assert_eq!(sum.counts, None, "a sum with a gap would be too small");
    }

    #[test]
    fn an_iteration_is_printed_as_the_published_test_did_but_never_a_maximum_as_a_percentile() {
        let mut latency = Latency::new();
        (1..=100).for_each(|n| latency.record(n * 10));
        assert_eq!(Iteration::of(&latency).line(), "505,10,500,900,990,-,-,1000,100");
    }

    #[test]
    fn a_study_survives_its_file() {
        let row = Row {
            x: Some(1.0),
            outcome: crate::row::Outcome::Measured(Box::new(measured(10))),
            ..Row::waiting("one", "one")
        };
        let study = Study { title: "t".into(), rows: vec![row], ..Study::default() };
        let text = serde_json::to_string(&study).expect("JSON");
        assert_eq!(serde_json::from_str::<Study>(&text).expect("read back"), study);
    }
}
