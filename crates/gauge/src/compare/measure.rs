//! Defines the figures by which sides are compared: built-in measures and columns of scenarios and sources.
//!
//! Invariant: a measure has one unit, and states whether lower or higher is better.

use crate::figures::{bytes, count, rate_tight, significant, tight};
use crate::row::{Measured, Round};
use crate::study;
use serde::Serialize;

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// A second.
    PerS,
    /// Things.
    Count,
    /// Part of one.
    Share,
    /// Bytes.
    Bytes,
    /// Any number without a unit.
    Number,
}

impl Unit {
    /// `value` for a column.
    #[must_use]
    pub fn cell(self, value: f64) -> String {
        match self {
            Self::Ns => tight(value),
            Self::PerS => rate_tight(value),
            Self::Share => format!("{:.0}%", value * 100.0),
            Self::Count | Self::Bytes if value.fract() == 0.0 && (0.0..1e15).contains(&value) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a whole number in bounds"
                )]
                let whole = value as u64;
                if self == Self::Bytes { bytes(whole) } else { count(whole) }
            }
            Self::Count | Self::Bytes | Self::Number => significant(value),
        }
    }

    /// The words for more and for less of it.
    #[must_use]
    pub fn more_and_less(self) -> (&'static str, &'static str) {
        match self {
            Self::Ns => ("slower", "faster"),
            _ => ("more", "less"),
        }
    }
}

/// A figure that sides can share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measure {
    /// As `--by` takes it.
    pub id: String,
    /// In words.
    pub title: String,
    /// Its unit.
    pub unit: Unit,
}

/// A measure of every commit run: over all of a method, and over one of its rounds where a round keeps it.
pub(super) struct Own {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: Unit,
    pub(super) whole: fn(&Measured) -> Option<f64>,
    pub(super) round: Option<fn(&Round) -> f64>,
}

/// The measures of a commit run. The first is the published one.
#[rustfmt::skip]
pub(super) const OWN: [Own; 8] = [
    Own { id: "cost",   title: "cost of a commit: elapsed time by commits", unit: Unit::Ns, whole: cost, round: Some(|round| round.elapsed_ns as f64 / round.commits as f64) },
    Own { id: "p50",    title: "median latency of a commit",   unit: Unit::Ns,   whole: |m| Some(m.main().p50_ns() as f64), round: Some(|round| round.p50_ns as f64) },
    Own { id: "p99",    title: "p99 latency of a commit",      unit: Unit::Ns,   whole: |m| at(m, 99.0),   round: Some(|round| round.p99_ns as f64) },
    Own { id: "p99.9",  title: "p99.9 latency of a commit",    unit: Unit::Ns,   whole: |m| at(m, 99.9),   round: None },
    Own { id: "p99.99", title: "p99.99 latency of a commit",   unit: Unit::Ns,   whole: |m| at(m, 99.99),  round: None },
    Own { id: "max",    title: "longest commit",               unit: Unit::Ns,   whole: |m| Some(m.main().max_ns() as f64), round: Some(|round| round.max_ns as f64) },
    Own { id: "min",    title: "shortest commit",              unit: Unit::Ns,   whole: |m| Some(m.main().min_ns() as f64), round: None },
    Own { id: "rate",   title: "commits a second",             unit: Unit::PerS, whole: |m| Some(m.commits_per_s()), round: Some(|round| round.commits as f64 * 1e9 / (round.elapsed_ns as f64).max(1.0)) },
];

fn cost(measured: &Measured) -> Option<f64> {
    (measured.commits > 0).then(|| measured.elapsed_ns as f64 / measured.commits as f64)
}

fn at(measured: &Measured, percent: f64) -> Option<f64> {
    measured.main().percentile(percent).ns().map(|ns| ns as f64)
}

impl Measure {
    /// The measure of a commit run that is called `id`.
    #[must_use]
    pub fn known(id: &str) -> Option<Self> {
        OWN.iter().find(|own| own.id == id).map(Self::from)
    }
}

impl From<&Own> for Measure {
    fn from(own: &Own) -> Self {
        Self { id: own.id.to_owned(), title: own.title.to_owned(), unit: own.unit }
    }
}

impl From<study::Unit> for Unit {
    fn from(unit: study::Unit) -> Self {
        match unit {
            study::Unit::Nanoseconds => Self::Ns,
            study::Unit::Count => Self::Count,
            study::Unit::PerSecond => Self::PerS,
            study::Unit::Bytes => Self::Bytes,
            study::Unit::Share => Self::Share,
            study::Unit::Ratio | study::Unit::Outlived => Self::Number,
        }
    }
}
