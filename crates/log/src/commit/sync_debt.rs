//! Chooses the ack level of the next batch and tracks the sync debt that relaxed batches leave.
//!
//! Every commit requests an ack level, a [`Grade`]; a batch is written in the strictest grade that any of its commits
//! requested, and in the log's own if none was requested. A batch of a weaker grade leaves a *sync debt*: it is written, but
//! not durable until a later batch in full, or a job that only syncs, has synced the file that it lies in.
//!
//! ```text
//!   full   weak   weak   full                 durable moves behind the last one, because it syncs what the two
//!   -----  -----  -----  -----                weak ones wrote before it is acknowledged itself
//!   ^ durable     ^ reached
//! ```
//!
//! Invariants: the grade of a batch is never below what its commits requested; nothing is issued in full while a
//! weaker batch is in flight, because a sync covers only what had been written when it began; a weaker grade is never
//! issued on top of a debt of a grade weaker still; all debts lie in one segment, because the batch that starts the
//! next segment syncs them first.

use crate::lsn::Lsn;
use seawall_sys::durability::Class;
use seawall_sys::planted;

/// What an acknowledged commit outlives, as the core sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grade {
    /// The end of the process.
    Process,
    /// A crash of the system.
    System,
    /// A power cut. In this grade a log of any class starts segments, closes, and lets go of what was trimmed.
    Full,
}

impl Grade {
    /// The grades below the strictest, weakest first.
    pub(crate) const WEAKER: [Self; 2] = [Self::Process, Self::System];

    /// The grade of a log that promises `class`.
    pub(crate) const fn of(class: Class) -> Self {
        match class {
            Class::ProcessCrash => Self::Process,
            Class::SystemCrash => Self::System,
            Class::PowerLoss => Self::Full,
        }
    }
}

/// What was asked for, issued and reached, in each grade.
#[derive(Debug)]
pub(crate) struct Asked {
    wanted: [Lsn; 3],
    /// Everything before this will have reached the grade when all that is under way has ended.
    issued: [Lsn; 3],
    /// Everything before this has; for `Full` the core's own durable LSN counts.
    reached: [Lsn; 2],
    /// The last batch that was issued in each weaker grade.
    last: [u64; 2],
    /// The segment of the last one of them: where the debts lie.
    segment: u64,
    /// Batches of a weaker grade under way.
    flying: u32,
    used: bool,
    /// What the log promises: the grade of a batch of which nobody asks anything.
    own: Grade,
}

impl Asked {
    /// Everything before `end` is durable, and the log promises `own`.
    pub(crate) fn new(end: Lsn, own: Grade) -> Self {
        Self {
            wanted: [end; 3],
            issued: [end; 3],
            reached: [end; 2],
            last: [0; 2],
            segment: 0,
            flying: 0,
            used: own != Grade::Full,
            own,
        }
    }

    /// Somebody waits for everything before `lsn` in this grade.
    #[inline]
    pub(crate) fn want(&mut self, grade: Grade, lsn: Lsn) {
        let wanted = &mut self.wanted[grade as usize];
        *wanted = lsn.max(*wanted);
        self.used |= grade != Grade::Full;
    }

    /// Whether anything weaker than `Full` was ever asked for.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }

    /// Everything before this is in the grade, or will be when what is under way has ended.
    pub(crate) fn issued(&self, grade: Grade) -> Lsn {
        self.issued[grade as usize]
    }

    /// Everything before this has reached the grade.
    pub(crate) fn reached(&self, grade: Grade) -> Lsn {
        self.reached.get(grade as usize).copied().unwrap_or(Lsn::MAX)
    }

    /// Whether something of what was issued before `end` is asked for in a higher grade than it was issued in.
    pub(crate) fn is_short(&self, end: Lsn) -> bool {
        self.wanted.iter().zip(&self.issued).any(|(wanted, issued)| end.min(*wanted) > *issued)
    }

    /// Whether batches behind number `durable` were written in a weaker grade.
    #[inline]
    pub(crate) fn owes(&self, durable: u64) -> bool {
        self.last[0].max(self.last[1]) > durable
    }

    /// The segment that must be synced to settle the debts, if there are any.
    #[inline]
    pub(crate) fn debtor(&self, durable: u64) -> Option<u64> {
        self.owes(durable).then_some(self.segment)
    }

    /// The grade of the next batch, when the last durable one is number `durable`.
    #[inline]
    pub(crate) fn next_grade(&self, durable: u64) -> Grade {
        let asks = |grade: Grade| self.wanted[grade as usize] > self.issued[grade as usize];
        if !self.used || asks(Grade::Full) {
            return Grade::Full;
        }
        let asked = Grade::WEAKER.into_iter().rev().find(|grade| asks(*grade));
        let grade = asked.unwrap_or(self.own);
        let shaky = grade == Grade::System && self.last[Grade::Process as usize] > durable;
        if shaky { Grade::Full } else { grade }
    }

    /// Whether a batch of this grade may go now.
    #[inline]
    pub(crate) fn may_issue(&self, grade: Grade) -> bool {
        grade != Grade::Full || planted!(SettleBesideWeak, true, self.flying == 0)
    }

    /// Batch number `id`, which ends at `end`, goes out.
    #[inline]
    pub(crate) fn issue(&mut self, id: u64, grade: Grade, end: Lsn, segment: u64) {
        self.issued[..=grade as usize].fill(end);
        if let Some(last) = self.last.get_mut(grade as usize) {
            *last = id;
            self.segment = segment;
            self.flying += 1;
        }
    }

    /// A batch of this grade has been written.
    #[inline]
    pub(crate) fn ended(&mut self, grade: Grade) {
        if grade != Grade::Full {
            self.flying = self.flying.saturating_sub(1);
        }
    }

    /// Everything before `end` has reached this grade.
    #[inline]
    pub(crate) fn reach(&mut self, grade: Grade, end: Lsn) {
        let grades = self.reached.len().min(grade as usize + 1);
        self.reached[..grades].fill(end);
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Grade};
    use crate::lsn::Lsn;

    fn at(lsn: u64) -> Lsn {
        Lsn::new(lsn)
    }

    #[test]
    fn nobody_who_asks_for_less_changes_anything_for_the_others() {
        let mut asked = Asked::new(at(0), Grade::Full);
        assert_eq!(asked.next_grade(0), Grade::Full, "nobody asked for anything");
        asked.want(Grade::Process, at(10));
        assert_eq!(asked.next_grade(0), Grade::Process);
        asked.want(Grade::System, at(5));
        assert_eq!(asked.next_grade(0), Grade::System, "the stricter of the two");
        asked.want(Grade::Full, at(1));
        assert_eq!(asked.next_grade(0), Grade::Full, "the strictest of all");
    }

    #[test]
    fn a_debt_is_settled_by_what_comes_after_it_and_covers_what_had_ended() {
        let mut asked = Asked::new(at(0), Grade::Full);
        asked.want(Grade::Process, at(10));
        asked.issue(1, Grade::Process, at(10), 7);
        assert_eq!(asked.debtor(0), Some(7));
        asked.want(Grade::Full, at(10));
        assert!(asked.is_short(at(10)));
        assert_eq!(asked.next_grade(0), Grade::Full, "nothing new is issued weakly before that");
        assert!(!asked.may_issue(Grade::Full), "the sync would not cover what is under way");
        asked.ended(Grade::Process);
        asked.reach(Grade::Process, at(10));
        assert!(asked.may_issue(Grade::Full));
        asked.issue(2, Grade::Full, at(10), 7);
        assert!(!asked.is_short(at(10)));
        assert_eq!(asked.debtor(2), None);
    }

    #[test]
    fn a_grade_is_never_built_on_a_weaker_debt() {
        let mut asked = Asked::new(at(0), Grade::Full);
        asked.want(Grade::Process, at(10));
        asked.issue(1, Grade::Process, at(10), 7);
        asked.ended(Grade::Process);
        asked.want(Grade::System, at(20));
        assert_eq!(asked.next_grade(0), Grade::Full);
        assert_eq!(asked.next_grade(1), Grade::System, "once it is settled");
        asked.issue(2, Grade::System, at(20), 7);
        assert_eq!((asked.issued(Grade::Process), asked.issued(Grade::Full)), (at(20), at(0)));
        asked.reach(Grade::System, at(20));
        assert_eq!((asked.reached(Grade::Process), asked.reached(Grade::System)), (at(20), at(20)));
    }

    #[test]
    fn in_a_weaker_log_nobody_s_batch_has_the_grade_of_the_log_and_is_not_built_on_less() {
        let mut asked = Asked::new(at(0), Grade::System);
        assert!(asked.is_used());
        assert_eq!(asked.next_grade(0), Grade::System);
        asked.want(Grade::Process, at(10));
        assert_eq!(asked.next_grade(0), Grade::Process);
        asked.issue(1, Grade::Process, at(10), 7);
        assert_eq!(asked.next_grade(0), Grade::Full, "it settles what the batch before owes");
        assert_eq!(Asked::new(at(0), Grade::Process).next_grade(0), Grade::Process);
    }
}
