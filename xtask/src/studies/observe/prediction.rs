//! Judges predictions: ratios within a tolerance, and the same order where noise permits a ranking.
//!
//! Invariants: pure; a ratio is taken within a round, and the median over rounds counts; a case without figures never
//! passes.

use crate::studies::rounds::median;

/// What may lie between predicted and observed.
pub(super) const TOLERANCE: f64 = 0.15;

/// One setting of a product, one entry of each list a round, in nanoseconds a commit.
#[derive(Debug, Clone, Default)]
pub(super) struct Case {
    pub(super) product: &'static str,
    pub(super) setting: &'static str,
    /// The row of the method table that its syncs go through.
    pub(super) method: &'static str,
    /// Syncs a commit in the replay.
    pub(super) syncs: f64,
    /// The product without syncs.
    pub(super) own_ns: Vec<f64>,
    /// What the syncs cost: the replay with them less the replay without.
    pub(super) sync_ns: Vec<f64>,
    /// The product as it is.
    pub(super) observed_ns: Vec<f64>,
}

impl Case {
    /// Predicted commits a second, the median of rounds.
    pub(super) fn predicted(&self) -> Option<f64> {
        median(self.predicted_ns()).map(|ns| 1e9 / ns)
    }

    /// Observed commits a second, the median of rounds.
    pub(super) fn observed(&self) -> Option<f64> {
        median(self.observed_ns.iter().copied()).map(|ns| 1e9 / ns)
    }

    fn predicted_ns(&self) -> impl Iterator<Item = f64> {
        self.own_ns.iter().zip(&self.sync_ns).map(|(own, sync)| own + sync)
    }

    /// Observed rate over predicted rate: least, median, largest of the rounds.
    pub(super) fn ratio(&self) -> Option<[f64; 3]> {
        let ratios: Vec<f64> = self
            .predicted_ns()
            .zip(&self.observed_ns)
            .map(|(predicted, observed)| predicted / observed)
            .collect();
        Some([least(&ratios), median(ratios.iter().copied())?, largest(&ratios)])
    }

    /// Whether the median ratio is within the tolerance.
    pub(super) fn holds(&self) -> bool {
        self.ratio().is_some_and(|[_, middle, _]| (middle - 1.0).abs() <= TOLERANCE)
    }
}

/// Pairs of one product that came out in the other order than predicted, by more than the noise: the one that was
/// observed to be faster, then the other.
pub(super) fn misranked(cases: &[Case]) -> Vec<(&'static str, &'static str)> {
    let mut pairs = Vec::new();
    for a in cases {
        for b in cases.iter().filter(|b| b.product == a.product) {
            let faster = differs(&a.observed_ns, &b.observed_ns);
            let predicted: [Vec<f64>; 2] = [a.predicted_ns().collect(), b.predicted_ns().collect()];
            if faster && differs(&predicted[1], &predicted[0]) {
                pairs.push((a.setting, b.setting));
            }
        }
    }
    pairs
}

/// Whether `less` is below `more` in at least three of four rounds: otherwise they are within the noise.
fn differs(less: &[f64], more: &[f64]) -> bool {
    let rounds = less.len().min(more.len());
    let below = less.iter().zip(more).filter(|(less, more)| less < more).count();
    rounds > 0 && below * 4 >= rounds * 3
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(setting: &'static str, predicted: f64, observed: &[f64]) -> Case {
        let rounds = observed.len();
        Case {
            product: "one",
            setting,
            own_ns: vec![predicted / 4.0; rounds],
            sync_ns: vec![predicted * 0.75; rounds],
            observed_ns: observed.to_vec(),
            ..Case::default()
        }
    }

    #[test]
    fn a_prediction_holds_within_the_tolerance_on_both_sides() {
        assert!(case("a", 100.0, &[100.0, 100.0, 500.0]).holds(), "the median round counts");
        assert!(case("a", 100.0, &[117.0]).holds() && case("a", 100.0, &[88.0]).holds());
        assert!(!case("a", 100.0, &[118.0]).holds() && !case("a", 100.0, &[86.0]).holds());
        assert!(!case("a", 100.0, &[]).holds(), "nothing observed holds nothing");
        assert_eq!(case("a", 100.0, &[50.0, 100.0]).ratio(), Some([1.0, 1.5, 2.0]));
        assert_eq!(case("a", 100.0, &[50.0]).predicted(), Some(1e7));
    }

    #[test]
    fn an_order_is_wrong_only_beyond_the_noise() {
        let fast = case("fast", 100.0, &[100.0; 4]);
        assert!(misranked(&[fast.clone(), case("slow", 120.0, &[130.0; 4])]).is_empty());
        assert_eq!(misranked(&[fast.clone(), case("slow", 120.0, &[90.0; 4])]), [("slow", "fast")]);
        let noisy = case("noisy", 120.0, &[90.0, 110.0, 90.0, 110.0]);
        assert!(misranked(&[fast.clone(), noisy]).is_empty());
        let other = Case { product: "other", ..case("slow", 120.0, &[90.0; 4]) };
        assert!(misranked(&[fast, other]).is_empty(), "products are not compared");
    }
}
