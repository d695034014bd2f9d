//! Relaxed commits: how they lead, wait and are woken, with watermarks of their own.
//!
//! A relaxed commit waits as a full one does (`group.rs`): it leads a write if it finds a free I/O slot, it sleeps at
//! the gate of its batch, and it is acknowledged when the batch has reached the requested grade. A log without
//! relaxed commits comes here once for each batch and finds a flag unset.
//!
//! Invariants: the watermark of a grade is published after the core has moved it and before any waiter is woken;
//! after a failure every waiter is woken and nothing is acknowledged, in any grade.

use std::task::Waker;

use crate::commit::group::{Group, wake_each};
use crate::commit::state::{Core, Issue};
use crate::commit::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::commit::sync_debt::Grade;
use crate::error::{Error, Result};
use crate::lsn::Lsn;
use seawall_sys::durability::Class;

/// What the waiters of the weaker grades share.
#[derive(Debug, Default)]
pub(crate) struct Weaker {
    reached: [AtomicU64; 2],
    /// Somebody who does not block wants everything before this LSN in the grade.
    wanted: [AtomicU64; 2],
    wakers: Mutex<Vec<(Grade, Lsn, Waker)>>,
}

impl Group {
    /// The grade that serves a commit which is to outlive `class`.
    pub(crate) fn grade(&self, class: Class) -> Result<Grade> {
        let rows = self.lanes.rows();
        if class > rows.class {
            return Err(Error::BeyondPromise { asked: class, promised: rows.class });
        }
        Ok(rows.grade(class))
    }

    /// The end of what outlives the grade. For one above the log's own the core is asked, which nobody does but to close.
    pub(crate) fn reached(&self, grade: Grade) -> Lsn {
        if grade > self.shape.own() {
            return lock(&self.core).reached(grade);
        }
        let durable = self.durable();
        let reached = self.weaker.reached.get(grade as usize).map_or(0, |lsn| lsn.load(Ordering::Acquire));
        durable.max(Lsn::new(reached))
    }

    /// The next batch, with what those want who do not block.
    pub(crate) fn issue(&self, core: &mut Core) -> Option<Issue> {
        if core.asked().is_used() {
            core.want(Grade::Full, Lsn::new(self.wanted.load(Ordering::SeqCst)));
            for grade in Grade::WEAKER {
                core.want(grade, Lsn::new(self.weaker.wanted[grade as usize].load(Ordering::SeqCst)));
            }
        }
        core.issue()
    }

    /// Wants everything before `lsn` in the grade without waiting for it.
    pub(crate) fn want_as(&self, lsn: Lsn, grade: Grade) {
        let Some(wanted) = self.weaker.wanted.get(grade as usize) else { return self.want(lsn) };
        wanted.fetch_max(lsn.get(), Ordering::SeqCst);
        let mut core = lock(&self.core);
        core.want(grade, lsn);
        if self.writer_asleep.load(Ordering::SeqCst) || core.in_flight() == 0 {
            self.wake_writer();
        }
    }

    /// Whether somebody who does not block wants more than what was issued will give, in whatever grade.
    pub(crate) fn is_short(&self, core: &Core) -> bool {
        let end = core.watermarks().appended;
        let short = |wanted: &AtomicU64, grade| {
            end.min(Lsn::new(wanted.load(Ordering::SeqCst))) > core.asked().issued(grade)
        };
        short(&self.wanted, Grade::Full)
            || (core.asked().is_used()
                && Grade::WEAKER.iter().any(|grade| short(&self.weaker.wanted[*grade as usize], *grade)))
    }

    /// Wants everything before `lsn` to be as safe as the log promises, without waking anyone.
    pub(crate) fn want_quietly(&self, lsn: Lsn) {
        let wanted = self.weaker.wanted.get(self.shape.own() as usize).unwrap_or(&self.wanted);
        wanted.fetch_max(lsn.get(), Ordering::SeqCst);
    }

    /// Publishes what the core says of the weaker grades, if anybody asked for one; returns whether the writer has
    /// something to do that no committer will.
    pub(crate) fn publish_weaker(&self, core: &Core) -> bool {
        if !core.asked().is_used() {
            return false;
        }
        for grade in Grade::WEAKER {
            self.weaker.reached[grade as usize].store(core.reached(grade).get(), Ordering::Release);
        }
        self.is_short(core)
    }

    /// Wakes `waker` when everything before `lsn` has reached the grade.
    pub(crate) fn wake_at_as(&self, lsn: Lsn, grade: Grade, waker: &Waker) {
        if grade == Grade::Full {
            return self.wake_at(lsn, waker);
        }
        let mut wakers = lock(&self.weaker.wakers);
        let known = wakers.iter().any(|(of, at, known)| (*of, *at) == (grade, lsn) && known.will_wake(waker));
        if !known {
            wakers.push((grade, lsn, waker.clone()));
        }
    }

    /// Wakes the futures whose grade has been reached; all of them when the log has ended.
    pub(crate) fn wake_weaker_futures(&self) {
        let mut wakers = lock(&self.weaker.wakers);
        let ended = self.ended().is_some();
        let due = wakers.extract_if(.., |(grade, lsn, _)| ended || *lsn <= self.reached(*grade));
        let due: Vec<Waker> = due.map(|(_, _, waker)| waker).collect();
        drop(wakers);
        wake_each(due);
    }
}
