//! Counts distinct states: exactly within one simulated run, by `HyperLogLog` over a campaign.
//!
//! Within one life `Seen` knows every state by a 64-bit hash of what the disk holds and what is due, and a state that
//! was seen is not judged again. Over all lives of a long campaign that would take tens of gigabytes, so there
//! [`Sketch`] estimates it: `HyperLogLog` as Flajolet and others describe it, with 2^14
//! registers and so a standard error of 0.8 %.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Takes a hash for what it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |all, byte| all.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Hashes that were seen.
pub(super) type Seen = HashSet<u64, BuildHasherDefault<AsIs>>;

const INDEX_BITS: u32 = 14;
const REGISTERS: usize = 1 << INDEX_BITS;

/// An estimate of how many different hashes were put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch(Vec<u8>);

impl Default for Sketch {
    fn default() -> Self {
        Self(vec![0; REGISTERS])
    }
}

impl Sketch {
    /// Takes in one hash, all of whose bits are random.
    pub fn put(&mut self, hash: u64) {
        let register = usize::try_from(hash >> (64 - INDEX_BITS)).unwrap_or(0);
        // The bit below the index ends the run, so that it ends.
        let run = (hash << INDEX_BITS | 1 << (INDEX_BITS - 1)).leading_zeros() + 1;
        let place = &mut self.0[register];
        *place = (*place).max(u8::try_from(run).unwrap_or(u8::MAX));
    }

    /// Takes in everything that another one has seen.
    pub fn merge(&mut self, other: &Self) {
        for (mine, others) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*others);
        }
    }

    /// About how many different hashes were put in.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        let m = REGISTERS as f64;
        let sum: f64 = self.0.iter().map(|run| 0.5_f64.powi(i32::from(*run))).sum();
        let raw = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
        let empty = self.0.iter().map(|run| usize::from(*run == 0)).sum::<usize>();
        let few = raw <= 2.5 * m && empty > 0;
        let estimate = if few { m * (m / empty as f64).ln() } else { raw };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count below 2^53")]
        let whole = estimate.round() as u64;
        whole
    }

    /// As text, two digits for each register.
    #[must_use]
    pub fn to_text(&self) -> String {
        let digit = |number: u8| char::from(b'0' + number % 10);
        self.0.iter().flat_map(|run| [digit(run / 10), digit(*run)]).collect()
    }

    /// What [`to_text`](Self::to_text) wrote, `None` for any other text.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let register =
            |pair: &[u8]| std::str::from_utf8(pair).ok()?.parse::<u8>().ok().filter(|run| *run <= 64);
        let registers: Option<Vec<u8>> = digits.chunks(2).map(register).collect();
        registers.filter(|all| all.len() == REGISTERS && digits.len() == 2 * REGISTERS).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::Sketch;
    use crate::testing::sim::rng::mix;

    #[test]
    fn the_estimate_is_near_and_repeats_do_not_count() {
        for count in [0, 10, 5_000, 60_000, 2_000_000] {
            let mut sketch = Sketch::default();
            for repeat in 0..2 {
                (0..count).for_each(|i| sketch.put(mix(mix(i + 1) ^ 0x4D)));
                let off = sketch.estimate().abs_diff(count) as f64 / (count as f64).max(1.0);
                assert!(off < 0.03, "{count}, time {repeat}: {}", sketch.estimate());
            }
            let mut half = Sketch::default();
            (0..count / 2).for_each(|i| half.put(mix(mix(i + 1) ^ 0x4D)));
            half.merge(&sketch);
            assert_eq!(half, sketch);
            assert_eq!(Sketch::from_text(&sketch.to_text()), Some(sketch));
        }
        assert_eq!(Sketch::from_text("00"), None);
        assert_eq!(Sketch::from_text(&"x".repeat(2 << 14)), None);
    }
}
