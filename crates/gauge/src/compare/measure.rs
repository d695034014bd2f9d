//! Defines the figures by which sides are compared: built-in measures and columns of scenarios and sources.
//!
//! Invariant: a measure has one unit, and states whether lower or higher is better.

use crate::report::columns::shown;
use crate::row::{Measured, Round};
use crate::study::{Unit, Value};
use serde::{Serialize, Serializer};

/// A figure that sides can share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Measure {
    /// As `--by` takes it.
    pub id: String,
    pub title: String,
    #[serde(serialize_with = "by_sign")]
    pub unit: Unit,
}

/// The unit as comparisons name it in JSON and CSV.
pub(crate) fn sign(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::PerSecond => "per-s",
        Unit::Count => "count",
        Unit::Share => "share",
        Unit::Bytes => "bytes",
        Unit::Ratio | Unit::Outlived => "number",
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it by reference")]
fn by_sign<S: Serializer>(unit: &Unit, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(sign(*unit))
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
    Own { id: "cost",   title: "cost of a commit: elapsed time by commits", unit: Unit::Nanoseconds, whole: cost, round: Some(|round| round.elapsed_ns as f64 / round.commits as f64) },
    Own { id: "p50",    title: "median latency of a commit",   unit: Unit::Nanoseconds,   whole: |m| Some(m.main().p50_ns() as f64), round: Some(|round| round.p50_ns as f64) },
    Own { id: "p99",    title: "p99 latency of a commit",      unit: Unit::Nanoseconds,   whole: |m| at(m, 99.0),   round: Some(|round| round.p99_ns as f64) },
    Own { id: "p99.9",  title: "p99.9 latency of a commit",    unit: Unit::Nanoseconds,   whole: |m| at(m, 99.9),   round: None },
    Own { id: "p99.99", title: "p99.99 latency of a commit",   unit: Unit::Nanoseconds,   whole: |m| at(m, 99.99),  round: None },
    Own { id: "max",    title: "longest commit",               unit: Unit::Nanoseconds,   whole: |m| Some(m.main().max_ns() as f64), round: Some(|round| round.max_ns as f64) },
    Own { id: "min",    title: "shortest commit",              unit: Unit::Nanoseconds,   whole: |m| Some(m.main().min_ns() as f64), round: None },
    Own { id: "rate",   title: "commits a second",             unit: Unit::PerSecond, whole: |m| Some(m.commits_per_s()), round: Some(|round| round.commits as f64 * 1e9 / (round.elapsed_ns as f64).max(1.0)) },
];

fn cost(measured: &Measured) -> Option<f64> {
    (measured.commits > 0).then(|| measured.elapsed_ns as f64 / measured.commits as f64)
}

fn at(measured: &Measured, percent: f64) -> Option<f64> {
    measured.main().percentile(percent).ns().map(|ns| ns as f64)
}

impl Measure {
    /// `value` for a column.
    pub(crate) fn cell(&self, value: f64) -> String {
        shown(Value { value, uncertain: false }, self.unit)
    }

    pub(crate) fn more_and_less(&self) -> (&'static str, &'static str) {
        if self.unit == Unit::Nanoseconds { ("slower", "faster") } else { ("more", "less") }
    }

    /// The measure of a commit run that is called `id`.
    pub(crate) fn known(id: &str) -> Option<Self> {
        OWN.iter().find(|own| own.id == id).map(Self::from)
    }
}

impl From<&Own> for Measure {
    fn from(own: &Own) -> Self {
        Self { id: own.id.to_owned(), title: own.title.to_owned(), unit: own.unit }
    }
}
