//! Ranks methods by median latency within each durability class, and picks the best durable one.
//!
//! ```text
//!   class                              recommended from
//!   power loss                            yes
//!   ---------------------------------------------------- the line
//!   not confirmed (claims power loss,     no: evidence::EvidenceOutcome::Contradicted
//!                  the device disagrees)
//!   system crash                          no
//!   process crash                         no
//! ```
//!
//! Invariants: nothing is compared across classes; a ratio is of medians of the same round only, so that drift
//! cancels; the order is total and depends on the figures alone.

use crate::evidence::{self, Evidence, EvidenceOutcome};
use crate::lookup;
use crate::result::RunResult;
use crate::row::{Measured, Row};
use crate::stats::{Ratio, paired_ratio};
use seawall_sys::durability::{Claim, Durability};
use serde::Serialize;
use std::collections::HashMap;

/// What a commit of a method outlives, as far as the evidence bears it out. Best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectiveClass {
    /// Outlives a power cut.
    PowerLoss,
    /// Should outlive a power cut, but the device's counters say otherwise, or the log and the probe have seen none.
    NotConfirmed,
    /// Outlives a crash of the system.
    SystemCrash,
    /// Outlives a crash of the process.
    ProcessCrash,
}

impl EffectiveClass {
    /// All, best first.
    pub const ALL: [Self; 4] = [Self::PowerLoss, Self::NotConfirmed, Self::SystemCrash, Self::ProcessCrash];

    /// The class that calls promise, unless that is contradicted.
    pub fn of(claimed: Durability, contradicted: bool) -> Self {
        match claimed {
            Durability::PowerLoss if contradicted => Self::NotConfirmed,
            Durability::PowerLoss => Self::PowerLoss,
            Durability::SystemCrash => Self::SystemCrash,
            Durability::ProcessCrash => Self::ProcessCrash,
        }
    }

    /// The class that a log or a probe promises, unless its evidence leaves that unconfirmed, or there is none.
    pub fn after(claimed: Durability, evidence: Option<&seawall::Evidence>) -> Self {
        Self::of(claimed, evidence.is_none_or(|evidence| evidence.why().is_some()))
    }

    /// What may be counted on: of what is not confirmed, a crash of the system at most.
    pub fn counted_on(self) -> Durability {
        match self {
            Self::PowerLoss => Durability::PowerLoss,
            Self::NotConfirmed | Self::SystemCrash => Durability::SystemCrash,
            Self::ProcessCrash => Durability::ProcessCrash,
        }
    }

    /// Its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::PowerLoss => "power loss",
            Self::NotConfirmed => "power loss, not confirmed",
            Self::SystemCrash => "system crash",
            Self::ProcessCrash => "process crash",
        }
    }
}

/// A method's figure against the best of its class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ToBest {
    /// It is the best.
    Best,
    /// So many times the best's median, with its interval.
    Ratio(Ratio),
    /// So many times, from a single round: no interval.
    Single(f64),
}

impl ToBest {
    /// Whether it is the best, or does not differ from it beyond noise.
    pub(crate) fn within_noise(&self) -> bool {
        match self {
            Self::Best => true,
            Self::Ratio(ratio) => same(ratio),
            Self::Single(_) => false,
        }
    }
}

/// One method in its place.
#[derive(Debug, Clone, Copy)]
pub struct Ranked<'a> {
    /// Its row.
    pub row: &'a Row,
    /// Its figures.
    pub measured: &'a Measured,
    /// What an acknowledged commit outlives.
    pub durability: &'a Claim,
    /// What the device says to it.
    pub evidence: Evidence,
    /// Its class.
    pub class: EffectiveClass,
    /// Against the best of its class.
    pub to_best: ToBest,
}

impl Ranked<'_> {
    /// The method's id.
    pub fn id(&self) -> &str {
        &self.row.id
    }

    /// Its calls in words.
    pub fn calls(&self) -> &str {
        &self.row.what
    }

    /// The median, nanoseconds.
    pub fn p50_ns(&self) -> u64 {
        self.measured.main().p50_ns()
    }
}

/// All rows that ran and claim to outlive something, judged; what findings, advice and reports are computed from.
#[derive(Debug, Clone)]
pub struct Ranking<'a> {
    /// The result it was computed from.
    pub result: &'a RunResult,
    /// Best class first, best median first within it; in the table's order where rows are not ranked.
    pub rows: Vec<Ranked<'a>>,
}

impl<'a> Ranking<'a> {
    /// Judges and orders the methods of `result`.
    pub fn new(result: &'a RunResult) -> Self {
        let mut rows: Vec<Ranked<'a>> = result
            .measured()
            .filter_map(|(row, measured)| {
                let durability = measured.durability.as_ref()?;
                let evidence = evidence::of(result, row, measured, durability);
                let class = class(durability, &evidence);
                Some(Ranked { row, measured, durability, evidence, class, to_best: ToBest::Best })
            })
            .collect();
        if !result.study.ranked {
            return Self { result, rows };
        }
        // Equal medians are ordered by mean, then by place in the method table (the sort is stable).
        rows.sort_by(|a, b| {
            let key = |row: &Ranked<'_>| (row.class, row.p50_ns());
            key(a).cmp(&key(b)).then(a.measured.main().mean_ns().total_cmp(&b.measured.main().mean_ns()))
        });
        for i in 1..rows.len() {
            let best = rows[..i].iter().find(|other| other.class == rows[i].class);
            if let Some(to_best) = best.map(|best| to_best(&rows[i], best)) {
                rows[i].to_best = to_best;
            }
        }
        Self { result, rows }
    }

    /// The rows of one class, best first.
    pub fn of(&self, class: EffectiveClass) -> impl Iterator<Item = &Ranked<'a>> {
        self.rows.iter().filter(move |row| row.class == class)
    }

    pub(crate) fn best_durable(&self) -> Option<&Ranked<'a>> {
        self.of(EffectiveClass::PowerLoss).next().filter(|_| self.result.study.ranked)
    }

    /// The method to recommend: the best durable one, unless a published one, which is widely supported, is
    /// the same within noise and its median no more than a tenth higher.
    pub fn recommended(&self) -> Option<&Ranked<'a>> {
        const TIMES_MAX: f64 = 1.1;
        let best = self.best_durable()?;
        let published = |row: &&Ranked<'_>| {
            row.to_best.within_noise()
                && row.p50_ns() as f64 <= best.p50_ns() as f64 * TIMES_MAX
                && lookup::is_published(self.result, row.row)
        };
        Some(self.of(EffectiveClass::PowerLoss).find(published).unwrap_or(best))
    }

    /// The method called `id`, if it ran.
    pub fn find(&self, id: &str) -> Option<&Ranked<'a>> {
        self.rows.iter().find(|row| row.row.id == id)
    }
}

fn class(durability: &Claim, evidence: &Evidence) -> EffectiveClass {
    EffectiveClass::of(durability.class, evidence.outcome == EvidenceOutcome::Contradicted)
}

fn to_best(row: &Ranked<'_>, best: &Ranked<'_>) -> ToBest {
    ratio(row.measured, best.measured)
        .map_or_else(|| ToBest::Single(row.p50_ns() as f64 / (best.p50_ns() as f64).max(1.0)), ToBest::Ratio)
}

/// Whether two methods count as equal: by noise, or because they differ by no more than the
/// histograms resolve.
pub fn same(ratio: &Ratio) -> bool {
    const RESOLUTION: f64 = 0.002;
    ratio.within_noise() || (ratio.estimate - 1.0).abs() <= RESOLUTION
}

/// The ratio of two methods' medians over the rounds that both ran; `None` with fewer than two such rounds.
pub fn ratio(row: &Measured, base: &Measured) -> Option<Ratio> {
    let bases: HashMap<u32, u64> = base
        .rounds
        .iter()
        .filter(|round| round.commits > 0)
        .map(|round| (round.round, round.p50_ns))
        .collect();
    let ran = row.rounds.iter().filter(|round| round.commits > 0);
    let pairs = ran.filter_map(|round| Some((round.p50_ns as f64, *bases.get(&round.round)? as f64)));
    let (values, bases): (Vec<f64>, Vec<f64>) = pairs.unzip();
    paired_ratio(&values, &bases)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::sample::{measured, volatile};
    use crate::testbed::sim::Plant;

    #[test]
    fn classes_come_best_first_and_the_fast_baseline_never_wins() {
        let result = volatile(Vec::new());
        let ranking = Ranking::new(&result);
        assert!(ranking.rows.is_sorted_by_key(|row| (row.class, row.p50_ns())));
        let best = ranking.best_durable().expect("one");
        assert!(best.p50_ns() > ranking.find("direct").expect("ran").p50_ns());
        assert_eq!(best.to_best, ToBest::Best);
        assert_eq!(ranking.of(EffectiveClass::SystemCrash).next().map(|row| row.to_best), Some(ToBest::Best));
    }

    #[test]
    fn a_published_method_that_is_much_slower_is_not_recommended_though_noise_hides_it() {
        use crate::sample::{latency, run};
        let mut result = run("dsync,rwf-dsync", Vec::new(), |_| {});
        // Five times slower in the median of all, with rounds so uneven that their ratio spans 1.
        let slow = measured(&mut result, "dsync");
        let p50_ns = slow.main().p50_ns();
        (0..40_000).for_each(|_| latency(slow).record(p50_ns * 5));
        for (index, round) in slow.rounds.iter_mut().enumerate() {
            round.p50_ns = if index % 2 == 0 { p50_ns * 90 } else { p50_ns / 9 };
        }
        let ranking = Ranking::new(&result);
        assert!(ranking.find("dsync").expect("ran").to_best.within_noise());
        assert_eq!(ranking.recommended().map(Ranked::id), Some("rwf-dsync"));
    }

    #[test]
    fn a_contradicted_method_is_below_the_line() {
        let result = volatile(vec![Plant::NoFlushes]);
        let ranking = Ranking::new(&result);
        assert_eq!(ranking.find("dsync").expect("ran").class, EffectiveClass::NotConfirmed);
        assert!(ranking.best_durable().is_none());
    }

    #[test]
    fn ratios_pair_rounds_by_number_not_by_place() {
        let mut result = volatile(Vec::new());
        let slow = measured(&mut result, "dsync");
        slow.rounds.iter_mut().for_each(|round| round.p50_ns = 1000 * u64::from(round.round + 1) * 3);
        slow.rounds.remove(0);
        let fast = measured(&mut result, "buffered+fsync");
        fast.rounds.iter_mut().for_each(|round| round.p50_ns = 1000 * u64::from(round.round + 1));
        let find = |id: &str| result.measured().find(|(row, _)| row.id == id).expect("ran").1;
        let three = ratio(find("dsync"), find("buffered+fsync")).expect("three rounds");
        assert!((three.estimate - 3.0).abs() < 1e-9 && !three.within_noise());
    }
}
