//! Decides when a burst is due, how much it may take and when it is put off, without a clock, a disk or a thread.
//!
//! ```text
//!   due ── the device is looked at for a moment ──► busy with others' I/O: put off, due again after `every`
//!                                               └─► burst: at most N commits, at most 0.1 % of `every`
//!                                                        └─► due again after `every`, or 1,000 times what it took
//! ```
//!
//! Invariants: over any two bursts the share of the disk's time is 0.1 % at most, unless a single commit takes more than
//! 0.1 % of [`PAUSE_NS_MAX`]; a device whose counters cannot be read is never taken for busy, nor for idle.

/// A burst may take this fraction (1/N) of the time until the next.
pub(crate) const SHARE: u64 = 1_000;
/// The longest pause after a burst that took long, so that a disk in trouble is still looked at, nanoseconds.
pub(crate) const PAUSE_NS_MAX: u64 = 600_000_000_000;
/// How long the device is looked at before a burst, nanoseconds.
const LOOK_NS_MAX: u64 = 1_000_000_000;

const DAY_NS: u64 = 86_400_000_000_000;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// From one burst to the next, nanoseconds.
    pub every_ns: u64,
    /// Commits of a burst, at most.
    pub commits: u32,
    /// Others' I/O may keep the device busy for so much of the time, per cent.
    pub busy_percent: u32,
}

/// What follows from looking at the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Commit now.
    Burst,
    /// Commit now; whether the device is busy could not be read.
    BurstUnread,
    /// The device is busy: not now.
    PutOff,
}

impl Policy {
    /// When a burst ends, if not by its commits, nanoseconds.
    pub(crate) fn burst_ns(&self) -> u64 {
        self.every_ns / SHARE
    }

    /// How long the device is looked at before a burst, nanoseconds.
    pub fn look_ns(&self) -> u64 {
        LOOK_NS_MAX.min(self.every_ns / 2)
    }

    /// The most commits in a day.
    pub fn commits_a_day(&self) -> u64 {
        DAY_NS.div_ceil(self.every_ns.max(1)) * u64::from(self.commits)
    }

    fn decide(&self, busy_ms: Option<u64>, over_ns: u64) -> Decision {
        let Some(busy_ms) = busy_ms else { return Decision::BurstUnread };
        let busy = u128::from(busy_ms) * 1_000_000 * 100;
        let is_busy = busy > u128::from(over_ns) * u128::from(self.busy_percent);
        if is_busy { Decision::PutOff } else { Decision::Burst }
    }
}

/// When the next burst is due, on the caller's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    policy: Policy,
    due_ns: u64,
}

impl Schedule {
    /// The first burst is due as soon as the device was looked at.
    pub fn new(policy: Policy, now_ns: u64) -> Self {
        Self { policy, due_ns: now_ns + policy.look_ns() }
    }

    /// When to begin looking at the device, nanoseconds.
    pub fn look_at_ns(&self) -> u64 {
        self.due_ns - self.policy.look_ns()
    }

    /// The device was looked at for `over_ns`, until `now_ns`; it was busy for `busy_ms` of that, if that could be read.
    pub fn looked(&mut self, now_ns: u64, busy_ms: Option<u64>, over_ns: u64) -> Decision {
        let decision = self.policy.decide(busy_ms, over_ns);
        if decision == Decision::PutOff {
            self.wait(now_ns, 0);
        }
        decision
    }

    /// A burst began at `began_ns` and took `spent_ns`, whatever its outcome.
    pub fn done(&mut self, began_ns: u64, spent_ns: u64) {
        self.wait(began_ns, spent_ns);
    }

    fn wait(&mut self, from_ns: u64, spent_ns: u64) {
        let rest_ns = spent_ns.saturating_mul(SHARE).min(PAUSE_NS_MAX);
        let ended_ns = from_ns.saturating_add(spent_ns);
        // After a commit that took longer than the pause there is still time to look.
        let earliest_ns = ended_ns.saturating_add(self.policy.look_ns());
        self.due_ns = from_ns.saturating_add(rest_ns.max(self.policy.every_ns)).max(earliest_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const POLICY: Policy = Policy { every_ns: 15 * SECOND, commits: 8, busy_percent: 50 };

    #[test]
    fn a_day_has_so_many_commits_at_most() {
        assert_eq!((POLICY.commits_a_day(), POLICY.burst_ns()), (46_080, 15_000_000));
        assert_eq!(Policy { every_ns: 7 * SECOND, ..POLICY }.commits_a_day(), 12_343 * 8);
        assert_eq!((POLICY.look_ns(), Policy { every_ns: SECOND, ..POLICY }.look_ns()), (SECOND, SECOND / 2));
    }

    #[test]
    fn an_ordinary_burst_is_followed_by_the_next_after_the_interval() {
        let mut schedule = Schedule::new(POLICY, 100);
        assert_eq!(schedule.look_at_ns(), 100, "at once");
        assert_eq!(schedule.looked(SECOND + 100, Some(0), SECOND), Decision::Burst);
        schedule.done(SECOND + 100, 8_000_000);
        assert_eq!(schedule.look_at_ns(), 15 * SECOND + 100);
    }

    #[test]
    fn what_a_burst_takes_of_the_time_until_the_next_is_bounded() {
        for (spent_ns, pause_ns) in [
            (1_000_000, 15 * SECOND),
            (15_000_000, 15 * SECOND),
            (20_000_000, 20 * SECOND),
            (300_000_000, 300 * SECOND),
            // A stall of two seconds: not silent for half an hour.
            (2 * SECOND, PAUSE_NS_MAX),
            // An hour in one commit.
            (3600 * SECOND, 3601 * SECOND),
        ] {
            let mut schedule = Schedule::new(POLICY, 0);
            schedule.done(SECOND, spent_ns);
            assert_eq!(schedule.look_at_ns() + POLICY.look_ns(), SECOND + pause_ns, "{spent_ns}");
            assert!(spent_ns * SHARE <= pause_ns || pause_ns >= PAUSE_NS_MAX, "{spent_ns}");
        }
    }

    #[test]
    fn a_burst_is_put_off_while_the_device_is_busy_and_comes_when_it_is_not() {
        let mut schedule = Schedule::new(POLICY, 0);
        for (at, busy_ms, decision) in
            [(1, 501, Decision::PutOff), (16, 1000, Decision::PutOff), (31, 500, Decision::Burst)]
        {
            assert_eq!(schedule.look_at_ns(), (at - 1) * SECOND);
            assert_eq!(schedule.looked(at * SECOND, Some(busy_ms), SECOND), decision, "{busy_ms}");
        }
        assert_eq!(schedule.looked(31 * SECOND, Some(1100), 2 * SECOND), Decision::PutOff, "by share");
        let never = Policy { busy_percent: 100, ..POLICY };
        assert_eq!(Schedule::new(never, 0).looked(SECOND, Some(1000), SECOND), Decision::Burst);
    }

    #[test]
    fn counters_that_cannot_be_read_neither_stop_it_nor_pass_for_idle() {
        let mut schedule = Schedule::new(POLICY, 0);
        assert_eq!(schedule.looked(SECOND, None, SECOND), Decision::BurstUnread);
    }
}
