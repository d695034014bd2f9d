//! Chooses the ack level of the next batch and tracks the sync debt that relaxed batches leave.
//!
//! Every commit requests an [`AckLevel`]; a batch is written at the strictest level that any of its commits requested,
//! and at the log's own if none was requested. A batch below `Full` leaves a *sync debt*: it is written, but not
//! durable until a later batch in full, or a job that only syncs, has synced the file that it lies in.
//!
//! ```text
//!   full  relaxed relaxed full                 durable moves after the last one, because it syncs what the two
//!   ----- ------- ------- -----              relaxed ones wrote before it is acknowledged
//!   ^ durable     ^ reached
//! ```
//!
//! Invariants: the level of a batch is never below what its commits requested; nothing is issued in full while a
//! relaxed batch is in flight, because a sync covers only what had been written when it began; a relaxed level is never
//! issued on top of a debt of a lower one; all debts lie in one segment, because the batch that starts the
//! next segment syncs them first.

use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use seawall_sys::planted;

/// What was requested, issued and reached at each level.
#[derive(Debug)]
pub(crate) struct SyncDebt {
    requested: [Lsn; 3],
    /// Everything before this will have reached the level when all batches in flight have ended.
    issued: [Lsn; 3],
    /// Everything before this has; for `Full` the core's own durable LSN counts.
    reached: [Lsn; 2],
    /// The last batch that was issued at each relaxed level.
    last: [u64; 2],
    /// The segment of the last one of them: where the debts lie.
    segment: u64,
    /// Batches of a relaxed level in flight.
    in_flight: u32,
    used: bool,
    /// What the log promises: the level of a batch that no commit requested.
    own: AckLevel,
}

impl SyncDebt {
    /// Everything before `end` is durable, and the log promises `own`.
    pub(crate) fn new(end: Lsn, own: AckLevel) -> Self {
        Self {
            requested: [end; 3],
            issued: [end; 3],
            reached: [end; 2],
            last: [0; 2],
            segment: 0,
            in_flight: 0,
            used: own != AckLevel::Full,
            own,
        }
    }

    #[inline]
    pub(crate) fn request(&mut self, level: AckLevel, lsn: Lsn) {
        let requested = &mut self.requested[level as usize];
        *requested = lsn.max(*requested);
        self.used |= level != AckLevel::Full;
    }

    /// Whether a level below `Full` was ever requested.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }

    /// Everything before this has reached the level, or will have when all batches in flight have ended.
    pub(crate) fn issued(&self, level: AckLevel) -> Lsn {
        self.issued[level as usize]
    }

    pub(crate) fn reached(&self, level: AckLevel) -> Lsn {
        self.reached.get(level as usize).copied().unwrap_or(Lsn::MAX)
    }

    /// Whether anything before `end` is requested at a higher level than it was issued at.
    pub(crate) fn needs_sync(&self, end: Lsn) -> bool {
        self.requested.iter().zip(&self.issued).any(|(requested, issued)| end.min(*requested) > *issued)
    }

    /// Whether batches after number `durable` were written at a relaxed level.
    #[inline]
    pub(crate) fn is_owed(&self, durable: u64) -> bool {
        self.last[0].max(self.last[1]) > durable
    }

    /// The segment that must be synced to make relaxed batches durable, if there are any.
    #[inline]
    pub(crate) fn owed_segment(&self, durable: u64) -> Option<u64> {
        self.is_owed(durable).then_some(self.segment)
    }

    /// The level of the next batch, when the last durable one is number `durable`.
    #[inline]
    pub(crate) fn next_level(&self, durable: u64) -> AckLevel {
        let is_requested = |level: AckLevel| self.requested[level as usize] > self.issued[level as usize];
        if !self.used || is_requested(AckLevel::Full) {
            return AckLevel::Full;
        }
        let requested = AckLevel::RELAXED.into_iter().rev().find(|level| is_requested(*level));
        let level = requested.unwrap_or(self.own);
        let on_lower_debt = level == AckLevel::System && self.last[AckLevel::Process as usize] > durable;
        if on_lower_debt { AckLevel::Full } else { level }
    }

    #[inline]
    pub(crate) fn may_issue(&self, level: AckLevel) -> bool {
        level != AckLevel::Full || planted!(DebtSyncDuringRelaxed, self.in_flight == 0)
    }

    /// Batch number `id`, which ends at `end`, is issued.
    #[inline]
    pub(crate) fn issue(&mut self, id: u64, level: AckLevel, end: Lsn, segment: u64) {
        self.issued[..=level as usize].fill(end);
        if let Some(last) = self.last.get_mut(level as usize) {
            *last = id;
            self.segment = segment;
            self.in_flight += 1;
        }
    }

    /// A batch of this level has been written.
    #[inline]
    pub(crate) fn ended(&mut self, level: AckLevel) {
        if level != AckLevel::Full {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
    }

    #[inline]
    pub(crate) fn reach(&mut self, level: AckLevel, end: Lsn) {
        let levels = self.reached.len().min(level as usize + 1);
        self.reached[..levels].fill(end);
    }
}

#[cfg(test)]
mod tests {
    use super::SyncDebt;
    use crate::lsn::Lsn;
    use crate::method::ack_level::AckLevel;

    fn at(lsn: u64) -> Lsn {
        Lsn::new(lsn)
    }

    #[test]
    fn a_batch_has_the_strictest_level_requested() {
        let mut debt = SyncDebt::new(at(0), AckLevel::Full);
        assert_eq!(debt.next_level(0), AckLevel::Full, "nothing was requested");
        debt.request(AckLevel::Process, at(10));
        assert_eq!(debt.next_level(0), AckLevel::Process);
        debt.request(AckLevel::System, at(5));
        assert_eq!(debt.next_level(0), AckLevel::System, "the stricter of the two");
        debt.request(AckLevel::Full, at(1));
        assert_eq!(debt.next_level(0), AckLevel::Full, "the strictest of all");
    }

    #[test]
    fn a_debt_is_synced_by_a_later_full_batch_once_relaxed_ones_have_ended() {
        let mut debt = SyncDebt::new(at(0), AckLevel::Full);
        debt.request(AckLevel::Process, at(10));
        debt.issue(1, AckLevel::Process, at(10), 7);
        assert_eq!(debt.owed_segment(0), Some(7));
        debt.request(AckLevel::Full, at(10));
        assert!(debt.needs_sync(at(10)));
        assert_eq!(
            debt.next_level(0),
            AckLevel::Full,
            "nothing new is issued at a relaxed level before that"
        );
        assert!(!debt.may_issue(AckLevel::Full), "the sync would not cover what is in flight");
        debt.ended(AckLevel::Process);
        debt.reach(AckLevel::Process, at(10));
        assert!(debt.may_issue(AckLevel::Full));
        debt.issue(2, AckLevel::Full, at(10), 7);
        assert!(!debt.needs_sync(at(10)));
        assert_eq!(debt.owed_segment(2), None);
    }

    #[test]
    fn a_level_is_never_issued_on_the_debt_of_a_lower_one() {
        let mut debt = SyncDebt::new(at(0), AckLevel::Full);
        debt.request(AckLevel::Process, at(10));
        debt.issue(1, AckLevel::Process, at(10), 7);
        debt.ended(AckLevel::Process);
        debt.request(AckLevel::System, at(20));
        assert_eq!(debt.next_level(0), AckLevel::Full);
        assert_eq!(debt.next_level(1), AckLevel::System, "once it is synced");
        debt.issue(2, AckLevel::System, at(20), 7);
        assert_eq!((debt.issued(AckLevel::Process), debt.issued(AckLevel::Full)), (at(20), at(0)));
        debt.reach(AckLevel::System, at(20));
        assert_eq!((debt.reached(AckLevel::Process), debt.reached(AckLevel::System)), (at(20), at(20)));
    }

    #[test]
    fn in_a_relaxed_log_an_unrequested_batch_has_the_level_of_the_log() {
        let mut debt = SyncDebt::new(at(0), AckLevel::System);
        assert!(debt.is_used());
        assert_eq!(debt.next_level(0), AckLevel::System);
        debt.request(AckLevel::Process, at(10));
        assert_eq!(debt.next_level(0), AckLevel::Process);
        debt.issue(1, AckLevel::Process, at(10), 7);
        assert_eq!(debt.next_level(0), AckLevel::Full, "it syncs the batch before");
        assert_eq!(SyncDebt::new(at(0), AckLevel::Process).next_level(0), AckLevel::Process);
    }
}
