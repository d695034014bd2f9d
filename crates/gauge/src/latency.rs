//! Records latencies in `HdrHistogram`s of nanoseconds, three significant digits, never clipped.
//!
//! Invariant: a percentile is reported only if there are enough samples: with fewer than ten samples beyond it, it is
//! marked as uncertain, and with none it is refused, because then it is just the maximum under another name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{
    DeserializeError, Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializeError,
    V2DeflateSerializer,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::Cell;
use std::fmt;
use std::io::{self, Read as _};

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
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// How many samples do not exceed `ns`, as finely as the histogram resolves.
    pub fn count_at_most(&self, ns: u64) -> u64 {
        self.0.count_between(0, ns)
    }

    /// The sample that `percent` of the samples do not exceed, with how sound it is.
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
    pub fn p50_ns(&self) -> u64 {
        self.raw_percentile_ns(50.0)
    }

    /// Any quantile, however few samples carry it, nanoseconds.
    pub fn raw_percentile_ns(&self, percent: f64) -> u64 {
        // 99.9 in binary is a little more than 99.9: of 12,000 samples it would be the 11,989th instead of the 11,988th.
        self.0.value_at_percentile(percent.next_down().max(0.0))
    }

    /// The smallest sample, nanoseconds.
    pub fn min_ns(&self) -> u64 {
        self.0.min()
    }

    /// The largest sample, nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// The mean, nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// The histogram itself, for plots.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    fn encode(&self) -> Result<String, V2DeflateSerializeError> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes)?;
        Ok(STANDARD.encode(bytes))
    }

    /// Reads what [`Self::encode`] wrote; anything else is refused before memory is taken for it.
    fn decode(text: &str) -> Result<Self, Refused> {
        let packed = STANDARD.decode(text).map_err(Refused::Base64)?;
        let plain = unpacked(&packed)?;
        let header = Header::of(&plain)?;
        spend(header.histogram_bytes())?;
        let mut histogram: Histogram<u64> =
            HdrDeserializer::new().deserialize(&mut plain.as_slice()).map_err(Refused::Histogram)?;
        if histogram.len() > SAMPLES_MAX {
            return Err(Refused::Samples(histogram.len()));
        }
        histogram.auto(true);
        Ok(Self(histogram))
    }
}

const NOT: &str = "not an HdrHistogram V2";

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("not base64: {0}")]
    Base64(base64::DecodeError),
    #[error("{NOT}: {0}")]
    Deflated(io::Error),
    #[error("{NOT}: {0}")]
    Histogram(DeserializeError),
    #[error("{NOT}: it ends within its header")]
    Header,
    #[error("{NOT}: it claims more counts than it has")]
    Counts,
    #[error("a histogram has more counts than three digits up to an hour take")]
    Unpacked,
    #[error("a histogram of {0} digits is refused: results have {DIGITS_MAX}")]
    Digits(u64),
    #[error("a histogram that reaches beyond an hour is refused")]
    Range,
    #[error("{0} samples are more than a run can take")]
    Samples(u64),
    #[error("its histograms take more memory than a file of its size may")]
    Budget,
}

/// The finest histogram that is read: this program keeps three digits.
const DIGITS_MAX: u64 = 3;
/// The widest histogram that is read, nanoseconds: one that grew, by powers of two, to hold an hour.
const RANGE_MAX_NS: u64 = 1 << 43;
/// The most samples: an hour at 100 million a second.
const SAMPLES_MAX: u64 = 400_000_000_000;
/// Counts of [`DIGITS_MAX`] digits over [`RANGE_MAX_NS`]: 1,024 for each power of two from 2,048 on, and its first 2,048.
const COUNTS_MAX: u64 = 1024 * (43 - 11 + 3);

/// What stands before the counts of an `HdrHistogram` V2, unpacked.
///
/// ```text
///   0  cookie   4  bytes of counts   8  offset   12  digits   16  lowest   24  highest   32  ratio   40  counts
/// ```
struct Header {
    highest_ns: u64,
}

const HEADER_BYTES: usize = 40;
/// A count or a run of zeros takes nine bytes at most.
const PLAIN_BYTES_MAX: u64 = HEADER_BYTES as u64 + 9 * COUNTS_MAX;

impl Header {
    fn of(plain: &[u8]) -> Result<Self, Refused> {
        // By hand, because the byte order is the format's and not a machine's.
        let number = |from: usize, bytes: usize| {
            plain[from..from + bytes].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        if plain.len() < HEADER_BYTES {
            return Err(Refused::Header);
        }
        let (counts_bytes, digits, highest_ns) = (number(4, 4), number(12, 4), number(24, 8));
        if digits > DIGITS_MAX {
            return Err(Refused::Digits(digits));
        }
        if highest_ns > RANGE_MAX_NS {
            return Err(Refused::Range);
        }
        if counts_bytes > (plain.len() - HEADER_BYTES) as u64 {
            return Err(Refused::Counts);
        }
        Ok(Self { highest_ns })
    }

    fn histogram_bytes(&self) -> u64 {
        let powers = u64::from(64 - self.highest_ns.leading_zeros()).saturating_sub(11) + 2;
        8 * 1024 * powers
    }
}

/// The deflated histogram, unpacked; no further than the largest that is read.
fn unpacked(packed: &[u8]) -> Result<Vec<u8>, Refused> {
    // A cookie and a length stand before what is deflated.
    let deflated = packed.get(8..).ok_or(Refused::Header)?;
    let mut plain = Vec::new();
    ZlibDecoder::new(deflated)
        .take(PLAIN_BYTES_MAX + 1)
        .read_to_end(&mut plain)
        .map_err(Refused::Deflated)?;
    if plain.len() as u64 > PLAIN_BYTES_MAX {
        return Err(Refused::Unpacked);
    }
    Ok(plain)
}

thread_local! {
    /// Bytes that histograms read by this thread may still take; `None`: as many as they like. Serde gives a
    /// deserializer of a field no other way to know what its neighbours took.
    static BUDGET: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs `read`, during which the histograms that this thread reads may take `bytes` together.
pub(crate) fn within<T>(bytes: u64, read: impl FnOnce() -> T) -> T {
    /// Gives the budget back however `read` ends.
    struct Restored(Option<u64>);
    impl Drop for Restored {
        fn drop(&mut self) {
            BUDGET.set(self.0);
        }
    }
    let _restored = Restored(BUDGET.replace(Some(bytes)));
    read()
}

fn spend(bytes: u64) -> Result<(), Refused> {
    let Some(left) = BUDGET.get() else { return Ok(()) };
    BUDGET.set(Some(left.checked_sub(bytes).ok_or(Refused::Budget)?));
    Ok(())
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
    fn percentiles_are_given_only_as_far_as_the_samples_reach() {
        let latency = of(1..=1800);
        assert!(matches!(latency.percentile(99.0), Percentile::Sound(_)));
        assert!(matches!(latency.percentile(99.9), Percentile::Uncertain(_)));
        assert_eq!(latency.percentile(99.99), Percentile::Refused);
        assert!(matches!(of(1..=10_000).percentile(99.9), Percentile::Sound(_)));
        assert_eq!(of([]).percentile(50.0), Percentile::Refused);
    }

    #[test]
    fn samples_are_counted_up_to_a_bound() {
        let latency = of([10, 20, 30_000, 90_000_000_000]);
        let counts = [5, 10, 25, 31_000, 89_000_000_000, 100_000_000_000].map(|ns| latency.count_at_most(ns));
        assert_eq!(counts, [0, 1, 2, 3, 3, 4]);
        assert_eq!(of([]).count_at_most(1), 0);
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

    fn packed(histogram: &Histogram<u64>) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("packed");
        STANDARD.encode(bytes)
    }

    #[test]
    fn a_histogram_that_no_run_makes_is_refused() {
        let made = |high, digits, count| {
            let mut histogram = Histogram::new_with_bounds(1, high, digits).expect("bounds");
            histogram.record_n(1, count).expect("in range");
            packed(&histogram)
        };
        assert!(Latency::decode(&made(3_600_000_000_000, 3, 5)).is_ok(), "an hour is within");
        let refused = |text: &str| Latency::decode(text).expect_err(text);
        assert!(matches!(refused(&made(60_000_000_000, 4, 1)), Refused::Digits(4)));
        assert!(matches!(refused(&made(60_000_000_000, 5, 1)), Refused::Digits(5)));
        assert!(matches!(refused(&made(u64::MAX / 2, 3, 1)), Refused::Range));
        assert!(matches!(refused(&made(60_000_000_000, 3, u64::MAX / 2)), Refused::Samples(_)));
        assert!(matches!(refused("AAAA"), Refused::Header));
        assert!(matches!(refused("not base64!"), Refused::Base64(_)));
    }

    #[test]
    fn a_sample_of_an_hour_can_be_read_back() {
        let text = serde_json::to_string(&of([1, 3_600_000_000_000])).expect("stored");
        assert_eq!(serde_json::from_str::<Latency>(&text).expect("read back").count(), 2);
    }

    #[test]
    fn histograms_share_a_budget_while_one_holds() {
        let text = packed(of([1, 2]).histogram());
        let many = |n| (0..n).try_for_each(|_| Latency::decode(&text).map(drop));
        assert!(within(1 << 20, || many(4)).is_ok());
        assert!(matches!(within(1 << 20, || many(5)), Err(Refused::Budget)));
        assert!(many(5).is_ok(), "the budget ended with its reading");
    }
}
