//! Reports a batch that the disk does not finish, while it hangs.
//!
//! ```text
//!   leader         note when the batch began ─► write ─► forget it
//!   watch thread   sleep without a limit while nothing is in flight, else until the oldest batch is older than the
//!                  threshold; report it, and look again
//! ```
//!
//! The watch thread makes no call to the disk: every other thread of a log may be inside one that hangs. There is one only
//! if [`Options::stall_threshold`](crate::Options::stall_threshold) is set; without it nothing is noted.
//!
//! Invariants: a batch is noted before it is written and forgotten when its write returns, so that a finished one is never
//! reported; a leader notes its batch before it looks whether the watch thread sleeps, and that says so before it looks at
//! the batches, so one of the two sees the other; batches that hang together are one stall, which is reported once; the
//! callback runs under no lock, and its panic harms nothing.

use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use crate::commit::sync::{AtomicBool, AtomicU64, Ordering};
use crate::lsn::Lsn;
use seawall_sys::planted;

/// More than are ever in flight together: 16, whose numbers follow each other.
const SLOTS: usize = if cfg!(loom) { 2 } else { 32 };
/// Nothing is in flight there.
const NONE: u64 = u64::MAX;

/// A batch that the disk has not finished for longer than [`Options::stall_threshold`](crate::Options::stall_threshold).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// How long the oldest batch has been in flight.
    pub lasted: Duration,
    /// The end of what is durable: nothing after it is acknowledged before the disk continues.
    pub durable: Lsn,
    /// The end of what was appended.
    pub appended: Lsn,
}

/// What is called when a stall is seen.
#[derive(Clone)]
pub(crate) struct OnStall(pub(crate) Arc<dyn Fn(Stall) + Send + Sync>);

impl std::fmt::Debug for OnStall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnStall")
    }
}

/// When each batch in flight began.
#[derive(Debug)]
pub(crate) struct Stalls {
    threshold: Option<Duration>,
    began_ns: [AtomicU64; SLOTS],
    seen: AtomicU64,
    pub(crate) watcher: OnceLock<Thread>,
    /// The watch thread sleeps without a limit.
    watcher_asleep: AtomicBool,
}

impl Stalls {
    /// Nothing is in flight. Without a threshold nothing is watched.
    pub(crate) fn new(threshold: Option<Duration>) -> Self {
        Self {
            threshold,
            began_ns: std::array::from_fn(|_| AtomicU64::new(NONE)),
            seen: AtomicU64::new(0),
            watcher: OnceLock::new(),
            watcher_asleep: AtomicBool::new(false),
        }
    }

    pub(crate) fn wake_watcher(&self) {
        if let Some(watcher) = self.watcher.get() {
            watcher.unpark();
        }
    }

    fn slot(&self, batch: u64) -> &AtomicU64 {
        &self.began_ns[usize::try_from(batch % SLOTS as u64).unwrap_or(0)]
    }

    /// A batch is about to be written.
    #[inline]
    pub(crate) fn begin(&self, batch: u64, now_ns: u64) {
        if self.threshold.is_some() {
            self.slot(batch).store(now_ns, Ordering::SeqCst);
            if self.watcher_asleep.load(Ordering::SeqCst) {
                self.wake_watcher();
            }
        }
    }

    /// The write of the batch has returned.
    #[inline]
    pub(crate) fn end(&self, batch: u64) {
        if self.threshold.is_some() {
            planted!(StallOfFinishedBatch, self.slot(batch).store(NONE, Ordering::SeqCst));
        }
    }

    /// When the oldest batch in flight began.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        let began = self.began_ns.iter().map(|slot| slot.load(Ordering::SeqCst));
        began.min().filter(|began| *began != NONE)
    }

    /// For how long the oldest batch has been in flight, if that is longer than the threshold.
    pub(crate) fn stalled_for(&self, now_ns: u64) -> Option<Duration> {
        let threshold = self.threshold?;
        let lasted = Duration::from_nanos(now_ns.saturating_sub(self.oldest_ns()?));
        Some(lasted).filter(|lasted| *lasted >= threshold)
    }

    /// Stalls that the watch thread has reported.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    pub(crate) fn note_seen(&self) {
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the watch thread sleeps without a limit from now on.
    pub(crate) fn watcher_sleeps(&self, asleep: bool) {
        self.watcher_asleep.store(asleep, Ordering::SeqCst);
    }
}

/// What the watch thread has reported.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    reported_ns: Option<u64>,
}

/// What the watch thread does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing is in flight: it sleeps without a limit.
    Sleep,
    LookAgain(Duration),
    /// It reports a stall that has lasted this long.
    Report(Duration),
}

impl Watch {
    /// A batch that began before the last report hung together with the one that was reported.
    pub(crate) fn look(&mut self, oldest_ns: Option<u64>, threshold: Duration, now_ns: u64) -> Next {
        let Some(began_ns) = oldest_ns else { return Next::Sleep };
        let lasted = Duration::from_nanos(now_ns.saturating_sub(began_ns));
        if lasted < threshold {
            return Next::LookAgain(threshold.saturating_sub(lasted));
        }
        if self.reported_ns.is_some_and(|reported| began_ns <= reported) {
            return Next::LookAgain(threshold);
        }
        self.reported_ns = Some(now_ns);
        Next::Report(lasted)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::{Next, Stalls, Watch};

    const THRESHOLD: Duration = Duration::from_nanos(100);

    fn only_what_is_in_flight_has_stalled() {
        let stalls = Stalls::new(Some(THRESHOLD));
        assert_eq!(stalls.stalled_for(1_000), None);
        stalls.begin(7, 1_000);
        stalls.begin(8, 1_050);
        assert_eq!(stalls.stalled_for(1_099), None);
        assert_eq!(stalls.stalled_for(1_100), Some(Duration::from_nanos(100)));
        stalls.end(7);
        assert_eq!(stalls.stalled_for(1_149), None, "the oldest has ended");
        assert_eq!(stalls.stalled_for(1_160), Some(Duration::from_nanos(110)));
        stalls.end(8);
        assert_eq!(stalls.stalled_for(u64::MAX - 1), None);
        let unwatched = Stalls::new(None);
        unwatched.begin(1, 0);
        assert_eq!(unwatched.stalled_for(u64::MAX - 1), None);
    }

    #[test]
    fn a_stall_is_that_of_a_batch_in_flight() {
        only_what_is_in_flight_has_stalled();
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn the_stall_of_a_finished_batch_is_found() {
        use crate::testing::mutant::{Mutant, finds};
        assert!(finds(Mutant::StallOfFinishedBatch, only_what_is_in_flight_has_stalled));
    }

    #[test]
    fn what_hangs_together_is_reported_once_and_what_hangs_later_again() {
        let mut watch = Watch::default();
        let mut look = |oldest, now| watch.look(oldest, THRESHOLD, now);
        let nanos = Duration::from_nanos;
        assert_eq!(look(None, 10), Next::Sleep);
        assert_eq!(look(Some(1_000), 1_030), Next::LookAgain(nanos(70)));
        assert_eq!(look(Some(1_000), 1_130), Next::Report(nanos(130)));
        assert_eq!(look(Some(1_000), 1_131), Next::LookAgain(THRESHOLD));
        assert_eq!(look(Some(1_120), 1_300), Next::LookAgain(THRESHOLD), "issued while the first one hung");
        assert_eq!(look(None, 1_400), Next::Sleep);
        assert_eq!(look(Some(1_500), 1_600), Next::Report(nanos(100)));
    }
}
