//! Seawall's only clock: monotonic for measuring, wall clock for naming results.
//!
//! Invariant: nothing measured uses the wall clock, because it can jump.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Monotonic {
    start: Instant,
}

impl Monotonic {
    #[expect(clippy::disallowed_methods, reason = "this is the clock's one home")]
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Nanoseconds since [`Monotonic::start`].
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        let since = self.start.elapsed();
        since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
    }
}

/// Nanoseconds on a monotonic clock shared by all threads of the process, counted from its first use.
#[must_use]
#[inline]
pub fn monotonic_ns() -> u64 {
    static CLOCK: OnceLock<Monotonic> = OnceLock::new();
    CLOCK.get_or_init(Monotonic::start).now_ns()
}

/// A time in nanoseconds; the largest number for one that is longer, 584 years.
#[must_use]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds since 1970-01-01 UTC, by the wall clock; 0 if that is set before 1970.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the clock's one home")]
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Microseconds since 1970-01-01 UTC, by the wall clock; 0 if that is set before 1970. For ages of hours and days, of which a
/// jump of the clock is a part, and for the times of batches.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the clock's one home")]
pub fn unix_us() -> u64 {
    since_1970_us(SystemTime::now())
}

/// Microseconds from 1970-01-01 UTC to `time`; 0 before.
pub(crate) fn since_1970_us(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// What reading the clock costs and how finely it ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Resolution {
    /// Mean cost of one reading, nanoseconds.
    pub read_ns: f64,
    /// Smallest step seen between two readings that differ, nanoseconds.
    pub tick_ns: u64,
}

/// Measures the clock by reading it 20,000 times (about a millisecond).
pub(crate) fn resolution() -> Resolution {
    const READS: u32 = 20_000;
    let clock = Monotonic::start();
    let first = clock.now_ns();
    let mut last = first;
    let mut tick_ns = u64::MAX;
    for _ in 0..READS {
        let now = clock.now_ns();
        if now != last {
            tick_ns = tick_ns.min(now - last);
        }
        last = now;
    }
    Resolution { read_ns: (last - first) as f64 / f64::from(READS), tick_ns }
}

/// Sleeps until [`monotonic_ns`] reads `deadline_ns`: coarse sleep first, then a spin of at most 60 µs, so
/// that scheduled arrivals are not late by the timer's slack.
pub fn sleep_until(deadline_ns: u64) {
    const SPIN_NS: u64 = 60_000;
    loop {
        let now = monotonic_ns();
        if now >= deadline_ns {
            return;
        }
        let left = deadline_ns - now;
        if left > SPIN_NS {
            std::thread::sleep(Duration::from_nanos(left - SPIN_NS));
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_runs_backwards_and_ticks() {
        let resolution = resolution();
        assert!(resolution.tick_ns > 0 && resolution.tick_ns < u64::MAX, "{resolution:?}");
        let before = monotonic_ns();
        sleep_until(before + 200_000);
        assert!(monotonic_ns() >= before + 200_000);
    }
}
