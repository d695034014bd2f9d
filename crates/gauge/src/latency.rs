//! How are latencies kept and told? In `HdrHistogram`s of nanoseconds, three significant digits, never clipped.
//!
//! Invariant: a percentile is told only if the samples can carry it: with fewer than ten samples beyond it, it
//! is marked as uncertain, and with none it is refused, because then it is just the maximum under another
//! name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Latencies in nanoseconds.
#[derive(Clone, PartialEq)]
pub struct Latency(Histogram<u64>);

/// A percentile and how far it can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percentile {
    /// At least ten samples lie beyond it.
    Sound(u64),
    /// One to nine samples lie beyond it: another run may differ much.
    Uncertain(u64),
    /// No sample lies beyond it: it would be the maximum under another name.
    Refused,
}

impl Percentile {
    /// Nanoseconds, unless refused.
    #[must_use]
    pub fn ns(self) -> Option<u64> {
        match self {
            Self::Sound(ns) | Self::Uncertain(ns) => Some(ns),
            Self::Refused => None,
        }
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Latency({} samples, p50 {} ns, max {} ns)", self.count(), self.p50_ns(), self.max_ns())
    }
}

impl Latency {
    /// No samples yet. Grows as needed, so that nothing is clipped.
    #[must_use]
    pub fn new() -> Self {
        // Pre-sized to a minute so that ordinary recording does not allocate inside a timed loop.
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
        histogram.auto(true);
        Self(histogram)
    }

    /// Adds one sample.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        // An auto-resizing histogram takes any value; `record` is the call that resizes.
        if self.0.record(ns).is_err() {
            self.0.saturating_record(ns);
        }
    }

    /// Adds all samples of `other`.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("an auto-resizing histogram takes any other");
    }

    /// Number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The sample that `percent` of the samples do not exceed, with its standing.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Percentile {
        let beyond = self.count() as f64 * (100.0 - percent) / 100.0;
        let ns = self.raw_percentile_ns(percent);
        // A hair's tolerance, because 100 - 99.9 is not 0.1 in binary.
        if beyond + 1e-6 >= 10.0 {
            Percentile::Sound(ns)
        } else if beyond + 1e-6 >= 1.0 {
            Percentile::Uncertain(ns)
        } else {
            Percentile::Refused
        }
    }

    /// The median, nanoseconds; 0 without samples.
    #[must_use]
    pub fn p50_ns(&self) -> u64 {
        self.raw_percentile_ns(50.0)
    }

    /// Any quantile, whatever its standing, nanoseconds.
    #[must_use]
    pub fn raw_percentile_ns(&self, percent: f64) -> u64 {
        // 99.9 in binary is a little more than 99.9: of 12,000 samples it would be the 11,989th instead of the 11,988th.
        self.0.value_at_percentile(percent.next_down().max(0.0))
    }

    /// The smallest sample, nanoseconds.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        self.0.min()
    }

    /// The largest sample, nanoseconds.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// The mean, nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// The histogram itself, for plots.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    fn encode(&self) -> Result<String, String> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).map_err(|error| error.to_string())?;
        Ok(STANDARD.encode(bytes))
    }

    fn decode(text: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))?;
        let mut histogram: Histogram<u64> = HdrDeserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| format!("not an HdrHistogram V2: {error}"))?;
        histogram.auto(true);
        Ok(Self(histogram))
    }
}

/// What stands in a result file: figures for people and scripts, and the histogram they came from.
#[derive(Serialize, Deserialize)]
struct Stored {
    count: u64,
    min_ns: u64,
    mean_ns: f64,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    p9999_ns: Option<u64>,
    max_ns: u64,
    /// `HdrHistogram` V2, deflated, base64.
    hdr: String,
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let at = |percent| self.percentile(percent).ns();
        Stored {
            count: self.count(),
            min_ns: self.min_ns(),
            mean_ns: self.mean_ns(),
            p50_ns: at(50.0),
            p90_ns: at(90.0),
            p99_ns: at(99.0),
            p999_ns: at(99.9),
            p9999_ns: at(99.99),
            max_ns: self.max_ns(),
            hdr: self.encode().map_err(serde::ser::Error::custom)?,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(deserializer)?;
        let latency = Self::decode(&stored.hdr).map_err(serde::de::Error::custom)?;
        if latency.count() != stored.count {
            return Err(serde::de::Error::custom(
                "the histogram does not hold the samples that the file counts",
            ));
        }
        Ok(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::new();
        samples.into_iter().for_each(|ns| latency.record(ns));
        latency
    }

    #[test]
    fn percentiles_are_told_only_as_far_as_the_samples_carry() {
        let latency = of(1..=1800);
        assert!(matches!(latency.percentile(99.0), Percentile::Sound(_)));
        assert!(matches!(latency.percentile(99.9), Percentile::Uncertain(_)));
        assert_eq!(latency.percentile(99.99), Percentile::Refused);
        assert!(matches!(of(1..=10_000).percentile(99.9), Percentile::Sound(_)));
        assert_eq!(of([]).percentile(50.0), Percentile::Refused);
    }

    #[test]
    fn nothing_is_clipped() {
        let a_day_ns = 86_400_000_000_000;
        let latency = of([1, a_day_ns]);
        assert!(latency.max_ns() >= a_day_ns);
    }

    #[test]
    fn a_stored_histogram_comes_back_whole_and_a_damaged_one_is_refused() {
        let latency = of((0..5000).map(|i| i * i));
        let text = serde_json::to_string(&latency).expect("stored");
        assert_eq!(serde_json::from_str::<Latency>(&text).expect("read back"), latency);
        let wrong = text.replace("\"count\":5000", "\"count\":4999");
        assert!(serde_json::from_str::<Latency>(&wrong).is_err());
    }
}
