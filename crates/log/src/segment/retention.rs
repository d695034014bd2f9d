//! Decides how far retention trims a log: by bytes and by age, whole segments, never past a pin.
//!
//! Invariants: the newest segment never goes; segments go oldest first, and one that must stay keeps all after it; a segment
//! whose age is unknown is not old; what a pin holds stays, whatever the rules say; nothing goes by a clock that has just jumped
//! ([`Now`]).

use std::time::Duration;

use seawall_sys::planted;

use crate::lsn::Lsn;

/// How much of a log is kept: see [`crate::Options::retention`]. Both bounds may be set; what exceeds either goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Retention {
    pub(crate) bytes: Option<u64>,
    pub(crate) age: Option<Duration>,
}

impl Retention {
    /// The log is trimmed so that its segments take at most this many bytes, the one that is written to included, which
    /// always stays.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// The log is trimmed so that segments go whose newest record is older than this, as the system's clock has it. A record
    /// stays as long as any in its segment does.
    ///
    /// The age of a segment is that of its file, not the time in its batches by which [`crate::Log::lsn_at`] searches: in a log
    /// that was copied or restored without the times of its files, ages begin with the copy.
    ///
    /// A clock that jumps ahead removes nothing by that alone: a new time counts once it has lasted for an hour. So does the time at
    /// opening if it would make even the newest full segment too old.
    pub fn age(mut self, age: Duration) -> Self {
        self.age = Some(age);
        self
    }

    /// Whether there is any bound.
    pub(crate) fn is_set(&self) -> bool {
        *self != Self::default()
    }
}

/// A segment as the rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aged {
    /// Where its first record starts.
    pub(crate) first_lsn: Lsn,
    pub(crate) bytes: u64,
    /// When its newest record was written at the latest, in microseconds since 1970; `None` if that is unknown.
    pub(crate) newest_us: Option<u64>,
}

/// What the rules come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Everything before this is to be trimmed.
    pub(crate) trim: Option<Lsn>,
    /// In how many microseconds the oldest segment that is left will be too old.
    pub(crate) again_us: Option<u64>,
}

/// How long a clock that has jumped must stay there before ages are counted by it.
const LASTS_US: u64 = 60 * 60 * 1_000_000;
/// What a clock that is set right moves at most.
const SLEW_US: u64 = 60 * 1_000_000;

/// The time by which ages are counted: the system's clock, but for jumps that have not lasted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    /// What the clock is ahead of the monotonic one, where that is believed.
    ahead_us: Option<u64>,
    /// The same where it has jumped to, and since when.
    other: Option<(u64, u64)>,
}

impl Now {
    /// The time when the clock says `unix_us` and the monotonic one `monotonic_us`; `None` as long as there is none to count by.
    /// `expires_us` is when the newest full segment becomes too old.
    pub(crate) fn at(&mut self, unix_us: u64, monotonic_us: u64, expires_us: Option<u64>) -> Option<u64> {
        let here = unix_us.saturating_sub(monotonic_us);
        let near = |other: u64| here.abs_diff(other) <= SLEW_US;
        let believed = match self.ahead_us {
            Some(ahead) => near(ahead),
            None => expires_us.is_none_or(|expires| unix_us <= expires),
        };
        let since = self.other.filter(|(other, _)| near(*other)).map_or(monotonic_us, |(_, since)| since);
        if planted!(RetainByJump, believed || monotonic_us - since >= LASTS_US) {
            (self.ahead_us, self.other) = (Some(here), None);
        } else {
            self.other = Some((here, since));
        }
        self.ahead_us.map(|ahead| monotonic_us.saturating_add(ahead).min(unix_us))
    }
}

/// What is to be trimmed of `segments`, oldest first, at `now_us`, if the lowest pin is `pinned`.
pub(crate) fn judge(segments: &[Aged], rules: &Retention, now_us: u64, pinned: Option<Lsn>) -> Verdict {
    let age_us = rules.age.map(|age| u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
    let mut bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let mut kept = segments;
    let mut again_us = None;
    while let [first, rest @ ..] = kept
        && !rest.is_empty()
    {
        let expires = age_us.and_then(|age| Some(first.newest_us?.saturating_add(age)));
        let old = expires.is_some_and(|expires| expires <= now_us);
        if !old && rules.bytes.is_none_or(|bound| bytes <= bound) {
            again_us = expires.map(|expires| expires - now_us);
            break;
        }
        bytes -= first.bytes;
        kept = rest;
    }
    let gone = kept.len() < segments.len();
    let trim = kept.first().filter(|_| gone).map(|first| first.first_lsn);
    let held = |lsn: Lsn| pinned.map_or(lsn, |pinned| lsn.min(pinned));
    Verdict { trim: trim.map(|lsn| planted!(RetainPinned(lsn), held(lsn))), again_us }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Aged, Now, Retention, Verdict, judge};
    use crate::lsn::Lsn;
    use std::time::Duration;

    const SECOND: u64 = 1_000_000;

    /// Segments of 10 bytes that start at 0, 100, 200 and so on, with the second in which each got its last record.
    fn segments(newest: &[Option<u64>]) -> Vec<Aged> {
        let one = |(i, newest): (usize, &Option<u64>)| Aged {
            first_lsn: Lsn::new(100 * i as u64),
            bytes: 10,
            newest_us: newest.map(|seconds| seconds * SECOND),
        };
        newest.iter().enumerate().map(one).collect()
    }

    fn verdict(trim: Option<u64>, again: Option<u64>) -> Verdict {
        Verdict { trim: trim.map(Lsn::new), again_us: again.map(|seconds| seconds * SECOND) }
    }

    #[test]
    fn bytes_and_age_take_whole_segments_and_leave_the_newest() {
        let all = segments(&[Some(1), Some(2), Some(5), Some(9)]);
        let bytes = |bytes| Retention::default().bytes(bytes);
        let age = |seconds| Retention::default().age(Duration::from_secs(seconds));
        for (rules, now, expected) in [
            (Retention::default(), 1000, verdict(None, None)),
            (bytes(40), 1000, verdict(None, None)),
            (bytes(39), 1000, verdict(Some(100), None)),
            (bytes(20), 1000, verdict(Some(200), None)),
            (bytes(0), 1000, verdict(Some(300), None)),
            (age(10), 10, verdict(None, Some(1))),
            (age(10), 11, verdict(Some(100), Some(1))),
            (age(10), 14, verdict(Some(200), Some(1))),
            (age(10), 15, verdict(Some(300), None)),
            (age(10), 1000, verdict(Some(300), None)),
            // Whichever takes more.
            (bytes(30).age(Duration::from_secs(10)), 14, verdict(Some(200), Some(1))),
            (bytes(10).age(Duration::from_secs(10)), 14, verdict(Some(300), None)),
        ] {
            assert_eq!(judge(&all, &rules, now * SECOND, None), expected, "{rules:?} at {now}");
        }
    }

    #[cfg(feature = "mutants")]
    #[test]
    fn a_clock_that_is_believed_at_once_is_found() {
        use crate::testing::mutant::{Mutant, finds};
        let found = [(Mutant::RetainByJump, a_clock_that_jumps_counts_once_it_has_lasted as fn())];
        assert!(found.into_iter().all(|(mutant, test)| finds(mutant, test)));
    }

    #[test]
    fn a_clock_that_jumps_counts_once_it_has_lasted() {
        let (hour, month) = (3600 * SECOND, 30 * 24 * 3600 * SECOND);
        let boot = 1000 * month;
        let mut now = Now::default();
        assert_eq!(now.at(boot, 0, Some(boot + 1)), Some(boot));
        assert_eq!(now.at(boot + 5 * SECOND, 5 * SECOND, None), Some(boot + 5 * SECOND));
        // A month ahead for a second, and back.
        assert_eq!(now.at(boot + month, 6 * SECOND, None), Some(boot + 6 * SECOND));
        assert_eq!(now.at(boot + 7 * SECOND, 7 * SECOND, None), Some(boot + 7 * SECOND));
        // Ahead for good, and behind.
        assert_eq!(now.at(boot + month, 8 * SECOND, None), Some(boot + 8 * SECOND));
        let later = now.at(boot + month + hour - SECOND, hour + 7 * SECOND, None);
        assert_eq!(later, Some(boot + hour + 7 * SECOND));
        let lasting = boot + month + hour;
        assert_eq!(now.at(lasting, hour + 8 * SECOND, None), Some(lasting));
        assert_eq!(now.at(boot, 2 * hour, None), Some(boot), "no later than the clock itself");
        // A clock that is ahead at opening.
        let mut now = Now::default();
        assert_eq!(now.at(boot + month, 0, Some(boot)), None);
        assert_eq!(now.at(boot + month + hour, hour, Some(boot)), Some(boot + month + hour));
        let mut now = Now::default();
        assert_eq!(now.at(boot + month, 0, Some(boot)), None);
        assert_eq!(now.at(boot - SECOND, SECOND, Some(boot)), Some(boot - SECOND), "it was set right");
    }

    #[test]
    fn a_segment_of_unknown_age_is_not_old_and_keeps_all_behind_it() {
        let all = segments(&[Some(1), None, Some(2), Some(9)]);
        let age = Retention::default().age(Duration::from_secs(1));
        assert_eq!(judge(&all, &age, 100 * SECOND, None), verdict(Some(100), None));
        assert_eq!(judge(&all, &age.bytes(20), 100 * SECOND, None), verdict(Some(300), None));
    }

    #[test]
    fn a_pin_holds_what_the_rules_would_take() {
        let all = segments(&[Some(1); 4]);
        for (pin, trim) in [(0, 0), (50, 50), (100, 100), (250, 250), (300, 300), (390, 300)] {
            let found = judge(&all, &Retention::default().bytes(10), SECOND, Some(Lsn::new(pin)));
            assert_eq!(found.trim, Some(Lsn::new(trim)), "a pin at {pin}");
        }
        assert_eq!(judge(&[], &Retention::default().bytes(0), SECOND, None), Verdict::default());
    }
}
