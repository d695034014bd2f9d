//! Limits bandwidth: each transfer uses up its share of time before the next one begins.
//!
//! Invariant: over any time the bytes are no more than the rate allows, and one message or object; what was idle before is not saved up.

use std::num::NonZeroU64;
use std::time::Duration;

/// A bandwidth, and up to when it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    bytes_per_second: NonZeroU64,
    free_ns: u64,
}

impl Pace {
    /// So many bytes a second.
    #[must_use]
    pub fn new(bytes_per_second: NonZeroU64) -> Self {
        Self { bytes_per_second, free_ns: 0 }
    }

    /// How long to wait at `now_ns` before more may be sent.
    #[must_use]
    pub fn left(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.free_ns.saturating_sub(now_ns))
    }

    /// `bytes` are sent from `now_ns` on.
    pub fn took(&mut self, bytes: usize, now_ns: u64) {
        let cost_ns = bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_second.get());
        let cost_ns = u64::try_from(cost_ns).unwrap_or(u64::MAX);
        self.free_ns = self.free_ns.max(now_ns).saturating_add(cost_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::num::NonZeroU64;
    use std::time::Duration;

    #[test]
    fn bytes_cost_time_and_idleness_saves_none() {
        let mut pace = Pace::new(NonZeroU64::new(1000).expect("some"));
        assert_eq!(pace.left(5), Duration::ZERO);
        pace.took(500, 0);
        pace.took(250, 0);
        assert_eq!(pace.left(0), Duration::from_millis(750));
        assert_eq!(pace.left(750_000_000), Duration::ZERO);
        pace.took(1000, 9_000_000_000);
        assert_eq!(pace.left(9_000_000_000), Duration::from_secs(1));
    }
}
