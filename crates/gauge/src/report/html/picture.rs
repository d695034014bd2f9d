//! Defines the data of a chart: shared x values and series of y values, drawn by `page.js`.
//!
//! ```text
//!   HDR axis:  x = -log10(1 - p)     0 %   50 %   90 %   99 %   99.9 %   99.99 %
//!                                     0    0.30    1      2       3        4
//! ```
//!
//! Invariants: values are those of the result, unrounded; a curve ends where its samples do, because beyond them
//! a percentile is the maximum under another name. Its last point is that maximum, drawn half a sample beyond the share
//! that took no longer than the last but one, as the share of the longest itself has no place on the axis.

use crate::latency::Latency;
use crate::row::Round;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Picture {
    /// Of its figure element.
    pub(super) id: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// In ascending order.
    pub(super) xs: Vec<f64>,
    pub(super) series: Vec<Line>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) spans: Vec<Span>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Span {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) words: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) kind: AxisUnit,
    pub(super) log: bool,
    /// Whether its marks stand at the values themselves.
    pub(super) at_points: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum AxisUnit {
    Ns,
    Seconds,
    Nines,
    Bytes,
    Number,
    Share,
}

impl Axis {
    pub(super) fn new(label: &str, kind: AxisUnit, log: bool) -> Self {
        Self { label: label.to_owned(), kind, log, at_points: false }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Line {
    pub(super) name: String,
    /// Which colour and dash it has: the same for the same row in every picture of a page.
    pub(super) look: usize,
    pub(super) on: bool,
    pub(super) points: bool,
    /// One an x value.
    pub(super) ys: Vec<Option<f64>>,
    /// Indices of x values at which the line is broken, though it has no value there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) gaps: Vec<usize>,
    /// Up to where a whisker goes from each point; empty: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) highs: Vec<Option<f64>>,
}

/// Each value once.
fn ascending(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Points per factor of ten of the samples beyond.
const STEPS_PER_NINE: u32 = 20;

/// Where `percent` stands on the HDR axis.
fn nines(percent: f64) -> f64 {
    -(1.0 - percent / 100.0).log10()
}

/// Where the longest of the samples stands on the HDR axis.
fn longest_at(latency: &Latency) -> f64 {
    (2.0 * latency.count().max(1) as f64).log10()
}

/// A name, its samples, and whether it is shown at first.
pub(super) type Distribution<'a> = (String, &'a Latency, bool);

/// Latency by percentile: one curve a name.
pub(super) fn percentiles(id: String, curves: &[Distribution<'_>]) -> Picture {
    let longest = curves.iter().map(|(_, latency, _)| longest_at(latency));
    let last = longest.clone().fold(longest_at(&Latency::new()), f64::max);
    // No histogram counts more than 2^64 samples, which is less than 20 nines.
    let steps = (0..=20 * STEPS_PER_NINE).map(|step| f64::from(step) / f64::from(STEPS_PER_NINE));
    let xs = ascending(steps.take_while(|x| *x < last).chain([nines(50.0)]).chain(longest));
    let line = |(look, (name, latency, on)): (usize, &Distribution<'_>)| {
        let (end, longest) = ((latency.count().max(1) as f64).log10(), longest_at(latency));
        let at = |x: &f64| match latency.count() {
            0 => None,
            _ if x.total_cmp(&longest).is_eq() => Some(latency.max_ns() as f64),
            _ if *x > end + 1e-9 => None,
            _ => Some(latency.raw_percentile_ns(100.0 * (1.0 - 10_f64.powf(-x))) as f64),
        };
        Line { name: name.clone(), look, on: *on, ys: xs.iter().map(at).collect(), ..Line::default() }
    };
    Picture {
        id,
        x: Axis::new("share that took no longer", AxisUnit::Nines, false),
        y: Axis::new("latency", AxisUnit::Ns, true),
        series: curves.iter().enumerate().map(line).collect(),
        xs,
        spans: Vec::new(),
    }
}

/// Median and longest commit of each block, over the time of the run.
pub(super) fn over_time(id: String, rows: &[(String, &[Round], bool)]) -> Picture {
    let at = |round: &Round| (round.start_ns as f64 + round.elapsed_ns as f64 / 2.0) / 1e9;
    let ran = rows.iter().flat_map(|(_, rounds, _)| rounds.iter()).filter(|round| round.commits > 0);
    let xs = ascending(ran.map(at));
    let line = |(look, (name, rounds, on)): (usize, &(String, &[Round], bool))| {
        let (mut ys, mut highs) = (vec![None; xs.len()], vec![None; xs.len()]);
        for round in rounds.iter().filter(|round| round.commits > 0) {
            if let Ok(index) = xs.binary_search_by(|x| x.total_cmp(&at(round))) {
                ys[index] = Some(round.p50_ns as f64);
                highs[index] = Some(round.max_ns as f64);
            }
        }
        Line { name: name.clone(), look, on: *on, points: true, ys, highs, ..Line::default() }
    };
    let series = rows.iter().enumerate().map(line).collect();
    Picture {
        id,
        x: Axis::new("time since the run began", AxisUnit::Seconds, false),
        y: Axis::new("latency", AxisUnit::Ns, true),
        xs,
        series,
        spans: Vec::new(),
    }
}

pub(super) type Curve = (String, Vec<(f64, f64)>);

/// Curves of named points, which need not share their x values.
pub(super) fn curves(id: String, x: Axis, y: Axis, curves: &[Curve], points: bool) -> Picture {
    let xs = ascending(curves.iter().flat_map(|(_, points)| points.iter().map(|(x, _)| *x)));
    let line = |(look, (name, values)): (usize, &Curve)| {
        let mut ys = vec![None; xs.len()];
        for (at, value) in values {
            if let Ok(index) = xs.binary_search_by(|x| x.total_cmp(at)) {
                ys[index] = Some(*value);
            }
        }
        Line { name: name.clone(), look, on: true, points, ys, ..Line::default() }
    };
    let series = curves.iter().enumerate().map(line).collect();
    Picture { id, x, y, xs, series, spans: Vec::new() }
}

impl Picture {
    pub(super) fn looking(mut self, looks: &[usize]) -> Self {
        for (line, look) in self.series.iter_mut().zip(looks) {
            line.look = *look;
        }
        self
    }

    pub(super) fn pointing_at(self, spans: Vec<Span>) -> Self {
        Self { spans, ..self }
    }

    pub(super) fn showing(mut self, shown: &[bool]) -> Self {
        for (line, shown) in self.series.iter_mut().zip(shown) {
            line.on = *shown;
        }
        self
    }

    /// The same with each line broken at these x values, which need not be points of any line.
    pub(super) fn broken(mut self, breaks: &[Vec<f64>]) -> Self {
        let old = std::mem::take(&mut self.xs);
        self.xs = ascending(old.iter().chain(breaks.iter().flatten()).copied());
        let index = |x: &f64| self.xs.binary_search_by(|known| known.total_cmp(x)).ok();
        let moved: Vec<Option<usize>> = old.iter().map(index).collect();
        for (number, line) in self.series.iter_mut().enumerate() {
            let mut ys = vec![None; self.xs.len()];
            for (to, value) in moved.iter().zip(&line.ys) {
                if let Some(to) = to {
                    ys[*to] = *value;
                }
            }
            line.ys = ys;
            line.gaps = breaks.get(number).into_iter().flatten().filter_map(index).collect();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: u64) -> Latency {
        let mut latency = Latency::new();
        (1..=samples).for_each(|n| latency.record(n * 1000));
        latency
    }

    #[test]
    fn a_curve_holds_the_histogram_s_values_and_ends_with_its_samples() {
        let (many, few) = (of(10_000), of(100));
        let picture = percentiles("p".into(), &[("many".into(), &many, true), ("few".into(), &few, false)]);
        let at = |line: usize, percent: f64| {
            let index =
                picture.xs.iter().position(|x| (x - nines(percent)).abs() < 1e-9).expect("a grid point");
            picture.series[line].ys[index]
        };
        assert_eq!(at(0, 50.0), Some(many.p50_ns() as f64));
        assert_eq!(at(0, 99.0), Some(many.raw_percentile_ns(99.0) as f64));
        assert_eq!(at(0, 99.99), Some(many.raw_percentile_ns(99.99) as f64));
        assert_eq!((at(1, 99.0), at(1, 99.9)), (Some(few.raw_percentile_ns(99.0) as f64), None));
        let last = |line: usize| picture.series[line].ys.iter().flatten().last().copied();
        assert_eq!(
            (last(0), last(1)),
            (Some(many.max_ns() as f64), Some(few.max_ns() as f64)),
            "the longest"
        );
        assert_eq!(picture.xs.last(), Some(&20_000_f64.log10()), "half a sample beyond the last but one");
        assert!(
            picture.xs.is_sorted() && picture.series.iter().all(|line| line.ys.len() == picture.xs.len())
        );
    }

    #[test]
    fn each_block_stands_at_its_middle_with_its_longest_commit() {
        let round = Round {
            start_ns: 1_000_000_000,
            elapsed_ns: 2_000_000_000,
            commits: 5,
            p50_ns: 10,
            max_ns: 30,
            ..Round::default()
        };
        let empty = Round { commits: 0, ..round };
        let picture = over_time("t".into(), &[("a".into(), &[round, empty], true)]);
        assert_eq!(picture.xs, [2.0]);
        assert_eq!((picture.series[0].ys[0], picture.series[0].highs[0]), (Some(10.0), Some(30.0)));
    }

    #[test]
    fn a_line_is_broken_where_it_pauses_and_its_values_stay() {
        let axis = || Axis::new("", AxisUnit::Seconds, false);
        let named = [("a".into(), vec![(1.0, 5.0), (4.0, 6.0)]), ("b".into(), vec![(2.0, 7.0)])];
        let picture = curves("c".into(), axis(), axis(), &named, false).broken(&[vec![2.5], Vec::new()]);
        assert_eq!(picture.xs, [1.0, 2.0, 2.5, 4.0]);
        assert_eq!(picture.series[0].ys, [Some(5.0), None, None, Some(6.0)]);
        assert_eq!((picture.series[0].gaps.clone(), picture.series[1].gaps.clone()), (vec![2], vec![]));
        assert_eq!(picture.series[1].ys, [None, Some(7.0), None, None]);
    }

    #[test]
    fn curves_meet_on_shared_x_values() {
        let axis = || Axis::new("", AxisUnit::Number, false);
        let picture = curves(
            "c".into(),
            axis(),
            axis(),
            &[("a".into(), vec![(2.0, 5.0)]), ("b".into(), vec![(1.0, 7.0), (2.0, 8.0)])],
            true,
        );
        assert_eq!(picture.xs, [1.0, 2.0]);
        assert_eq!(
            (picture.series[0].ys.clone(), picture.series[1].ys.clone()),
            (vec![None, Some(5.0)], vec![Some(7.0), Some(8.0)])
        );
    }
}
