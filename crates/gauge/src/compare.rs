//! Compares results and published tables method by method, with intervals and caveats.
//!
//! ```text
//!   side A (the base)   side B   side C …        own results and published tables alike (`side`, `published`)
//!        row  ───────────row────row              paired by id, across systems by `kin`
//!             difference of B against A = value B / value A - 1, from unrounded values only
//! ```
//!
//! Invariants: a difference is computed from unrounded values and never from printed ones; its interval comes from
//! the rounds of both sides or is reported as not stated; two rows of different durability classes, or with different
//! requests to the device, are marked as such and never ranked.

pub(crate) mod caveats;
pub(crate) mod conclusion;
pub mod families;
pub mod formats;
pub mod gate;
pub(crate) mod kin;
pub(crate) mod measure;
pub(crate) mod published;
pub mod side;
pub mod text;

use crate::stats::{Ratio, unpaired_ratio};
use measure::Measure;
use side::{Figure, Row, Side};

/// Why sides cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Incomparable {
    /// There is one side only.
    #[error(
        "there is nothing to compare with: name a second result, or a published table (--with published:ID; --list names them)"
    )]
    Alone,
    /// There is no published table of this id.
    #[error("there is no published table `{0}`; `seawall compare --list` names them all")]
    Unknown(String),
    /// The sides' commits have different numbers of writes.
    #[error(
        "their commits differ in the number of writes (--writes), which decides how often a method flushes: {writes}"
    )]
    Writes {
        /// Each side's number.
        writes: String,
    },
    /// No figure is common to the sides.
    #[error("there is no figure that all of them have: {scenarios}")]
    Figure {
        /// Each side's scenario.
        scenarios: String,
    },
    /// Not all sides have the requested figure.
    #[error("{}", if shared.is_empty() { format!("{sides} have no figure in common") } else { format!("not all of {sides} have `{by}`; they share {shared}") })]
    By {
        /// Their names.
        sides: String,
        /// The requested figure.
        by: String,
        /// The figures that all of them have; may be empty.
        shared: String,
    },
    /// No row is common to the sides.
    #[error("{sides} have no row in common: they measured different things")]
    Row {
        /// Their names.
        sides: String,
    },
    /// No two sides are of the same scenario.
    #[error(
        "no two of these can be compared: {scenarios}: name two results of one scenario, or see them one by one in `seawall report`"
    )]
    Scenario {
        /// Each side's scenario.
        scenarios: String,
    },
    /// Each group of one scenario has a reason of its own.
    #[error("{}", .0.iter().map(Self::to_string).collect::<Vec<_>>().join("; "))]
    Each(Vec<Self>),
}

/// Sides and their differences by one measure.
#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    /// The sides; the first is the base.
    pub sides: Vec<Side>,
    pub measure: Measure,
    /// The measures that could have been chosen instead.
    pub others: Vec<Measure>,
    /// Every row of the base, then those that only others have.
    pub rows: Vec<Line>,
}

/// One row over all sides.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// One a side; `None` where the side lacks it.
    pub cells: Vec<Option<Cell>>,
}

/// A row's figure on one side.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub row: Row,
    /// Its figure, if it has one of this measure.
    pub figure: Option<Figure>,
    /// Against the base; `None` for the base itself and where one of both is missing.
    pub difference: Option<Difference>,
}

/// A side's value against the base's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Difference {
    /// The one by the other.
    pub ratio: f64,
    /// The same with its 95 % interval, if both sides kept rounds.
    pub interval: Option<Ratio>,
    /// Whether both promise the same: outlive the same thing by asking the device for the same.
    pub same_promise: bool,
}

impl Difference {
    /// In per cent of the base; negative where the side's value is lower.
    pub(crate) fn percent(&self) -> f64 {
        (self.ratio - 1.0) * 100.0
    }

    /// Whether the difference is within noise; `None` if nothing is known of noise.
    pub(crate) fn within_noise(&self) -> Option<bool> {
        self.interval.map(|interval| interval.within_noise())
    }
}

impl Comparison {
    /// Compares `sides` by `by`, or by the first measure that all of them have.
    ///
    /// # Errors
    /// There are fewer than two sides, or their commits differ in the number of writes, or they have no measure in
    /// common, or not that one.
    pub(crate) fn new(sides: Vec<Side>, by: Option<&str>) -> Result<Self, Incomparable> {
        if sides.len() < 2 {
            return Err(Incomparable::Alone);
        }
        if sides.iter().any(|side| side.writes != sides[0].writes) {
            let each = |side: &Side| format!("{} in {}", side.writes, side.name);
            return Err(Incomparable::Writes {
                writes: sides.iter().map(each).collect::<Vec<_>>().join(", "),
            });
        }
        let shared = shared(&sides);
        let measure = choose(&sides, &shared, by)?;
        let others = shared.into_iter().filter(|other| other.id != measure.id).collect();
        let rows = lines(&sides, &measure);
        if rows.iter().all(|line| line.cells.iter().flatten().count() < 2) {
            return Err(Incomparable::Row { sides: listed(&sides) });
        }
        Ok(Self { sides, measure, others, rows })
    }

    /// What its sides did: the first one's scenario.
    pub(crate) fn scenario(&self) -> &str {
        self.sides.first().map_or("", |side| side.scenario.as_str())
    }

    /// `A`, `B`, …: how side `index` is called in tables.
    pub(crate) fn letter(index: usize) -> String {
        u8::try_from(index)
            .ok()
            .filter(|index| *index < 26)
            .map_or_else(|| format!("S{}", index + 1), |index| char::from(b'A' + index).to_string())
    }
}

fn listed(sides: &[Side]) -> String {
    let names: Vec<&str> = sides.iter().map(|side| side.name.as_str()).collect();
    crate::figures::listing(&names, 4)
}

fn shared(sides: &[Side]) -> Vec<Measure> {
    let has = |side: &Side, id: &str| side.measures().iter().any(|measure| measure.id == id);
    let (base, rest) = sides.split_first().expect("at least two are given");
    let in_all = |measure: &&Measure| rest.iter().all(|side| has(side, &measure.id));
    let mut shared: Vec<Measure> = base.measures().into_iter().filter(in_all).cloned().collect();
    // The cost of one operation says more than the total that it comes from.
    shared.sort_by_key(|measure| measure.id != "cost");
    shared
}

fn choose(sides: &[Side], shared: &[Measure], by: Option<&str>) -> Result<Measure, Incomparable> {
    let Some(by) = by else {
        return shared.first().cloned().ok_or_else(|| Incomparable::Figure { scenarios: scenarios(sides) });
    };
    shared.iter().find(|measure| measure.id == by).cloned().ok_or_else(|| Incomparable::By {
        sides: listed(sides),
        by: by.to_owned(),
        shared: shared.iter().map(|measure| measure.id.as_str()).collect::<Vec<_>>().join(", "),
    })
}

fn scenarios(sides: &[Side]) -> String {
    let each: Vec<String> =
        sides.iter().map(|side| format!("{} is of `{}`", side.name, side.scenario)).collect();
    each.join("; ")
}

fn lines(sides: &[Side], measure: &Measure) -> Vec<Line> {
    let mut lines = Vec::new();
    for (first, side) in sides.iter().enumerate() {
        for row in &side.rows {
            // A row that an earlier side has too stands there already.
            let earlier = |index: usize| {
                kin::kin(&row.id, side.system, sides[index].system)
                    .is_some_and(|id| sides[index].row(id).is_some())
            };
            if (0..first).any(earlier) {
                continue;
            }
            let paired = sides.iter().enumerate().map(|(index, other)| {
                (index >= first)
                    .then(|| kin::kin(&row.id, side.system, other.system).and_then(|id| other.row(id)))
                    .flatten()
            });
            lines.push(line(paired.collect(), measure));
        }
    }
    lines
}

fn line(rows: Vec<Option<&Row>>, measure: &Measure) -> Line {
    let base = rows.first().copied().flatten();
    let cell = |(index, row): (usize, Option<&Row>)| {
        let row = row?;
        let figure = row.figure(&measure.id).cloned();
        let difference = base
            .filter(|_| index > 0)
            .and_then(|base| difference(base, base.figure(&measure.id)?, row, figure.as_ref()?));
        Some(Cell { row: row.clone(), figure, difference })
    };
    Line { cells: rows.into_iter().enumerate().map(cell).collect() }
}

fn difference(base: &Row, base_figure: &Figure, row: &Row, figure: &Figure) -> Option<Difference> {
    let ratio = figure.value / base_figure.value;
    ratio.is_finite().then(|| Difference {
        ratio,
        interval: unpaired_ratio(ratio, &figure.rounds, &base_figure.rounds),
        same_promise: row.class == base.class && row.depth == base.depth,
    })
}

#[cfg(test)]
mod tests;
