//! Compares methods statistically: paired ratios of round medians with a 95 % confidence interval.
//!
//! Methods run in blocks, all of them once a round, in random order. A round's medians are compared with each
//! other only (paired), so that drift between rounds cancels; the rounds' log ratios give a mean and, by
//! Student's t, a 95 % interval.

/// A ratio with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Geometric mean of the rounds' ratios.
    pub estimate: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Ratio {
    /// Whether 1 lies inside the interval: the two do not differ beyond noise.
    pub(crate) fn within_noise(&self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }

    pub(crate) fn half_width(&self) -> f64 {
        (self.high - self.estimate).max(self.estimate - self.low)
    }
}

/// The ratio of `values` to `base`, paired by position. `None` with fewer than two usable pairs: one round
/// says nothing of noise.
pub(crate) fn paired_ratio(values: &[f64], base: &[f64]) -> Option<Ratio> {
    let logs: Vec<f64> =
        values.iter().zip(base).filter(|(v, b)| **v > 0.0 && **b > 0.0).map(|(v, b)| (v / b).ln()).collect();
    if logs.len() < 2 {
        return None;
    }
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = t_975(logs.len() - 1) * (variance / n).sqrt();
    Some(Ratio { estimate: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

/// The interval of `ratio`, which is that of a value to its base in two runs that share no rounds: from the spread
/// of each run's rounds about its own mean (Welch). `None` with fewer than two usable rounds on either side.
pub(crate) fn unpaired_ratio(ratio: f64, values: &[f64], base: &[f64]) -> Option<Ratio> {
    let (a, freedom_a) = relative_variance(values)?;
    let (b, freedom_b) = relative_variance(base)?;
    let sum = a + b;
    let freedom = if sum > 0.0 { sum * sum / (a * a / freedom_a + b * b / freedom_b) } else { freedom_a };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 1 and far below 2^32"
    )]
    let half = t_975((freedom.clamp(1.0, 1e6)) as usize) * sum.sqrt();
    Some(Ratio { estimate: ratio, low: ratio * (-half).exp(), high: ratio * half.exp() })
}

/// The variance of the mean of the logs of `values`, and its degrees of freedom.
fn relative_variance(values: &[f64]) -> Option<(f64, f64)> {
    let logs: Vec<f64> = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
    if logs.len() < 2 {
        return None;
    }
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Some((variance / n, n - 1.0))
}

/// The 97.5 % quantile of Student's t with `freedom` degrees of freedom (any table of it).
fn t_975(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    TABLE.get(freedom.saturating_sub(1)).copied().unwrap_or(1.96)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_between_rounds_cancels() {
        let base = [10.0, 20.0, 40.0, 80.0];
        let values = base.map(|b| b * 1.5);
        let ratio = paired_ratio(&values, &base).expect("four pairs");
        assert!((ratio.estimate - 1.5).abs() < 1e-9 && ratio.high - ratio.low < 1e-9);
        assert!(!ratio.within_noise());
    }

    #[test]
    fn a_known_interval_comes_out() {
        // Log ratios ln 1, ln 2: mean ln sqrt 2, deviation (ln 2)/sqrt 2, half width 12.706 * (ln 2)/2.
        let ratio = paired_ratio(&[1.0, 2.0], &[1.0, 1.0]).expect("two pairs");
        let (mean, half) = (2_f64.sqrt().ln(), 12.706 * 2_f64.ln() / 2.0);
        assert!((ratio.estimate.ln() - mean).abs() < 1e-9);
        assert!(
            (ratio.low.ln() - (mean - half)).abs() < 1e-9 && (ratio.high.ln() - (mean + half)).abs() < 1e-9
        );
        assert!(ratio.within_noise());
    }

    #[test]
    fn two_runs_that_share_no_rounds_have_welch_s_interval() {
        // Both log variances are (ln 2)^2 / 2 over two rounds: their mean's is a quarter, two freedoms together.
        let ratio = unpaired_ratio(3.0, &[3.0, 6.0], &[1.0, 2.0]).expect("two rounds each");
        let half = 4.303 * (2_f64.ln().powi(2) / 2.0).sqrt();
        assert!(
            (ratio.low - 3.0 * (-half).exp()).abs() < 1e-9 && (ratio.high - 3.0 * half.exp()).abs() < 1e-9
        );
        let same = unpaired_ratio(1.5, &[3.0, 3.0], &[2.0, 2.0]).expect("no spread");
        assert!((same.high - same.low).abs() < 1e-12 && !same.within_noise());
        assert_eq!(unpaired_ratio(1.0, &[1.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn one_round_tells_nothing_of_noise() {
        assert_eq!(paired_ratio(&[1.0], &[2.0]), None);
        assert_eq!(paired_ratio(&[1.0, 0.0], &[2.0, 2.0]), None);
    }
}
