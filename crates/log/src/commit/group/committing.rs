//! Commits: decides which thread leads the next batch, and lets the others sleep until it is written.

use std::time::Duration;

use seawall_sys::durability::Durability;

use super::Group;
use crate::commit::group_wait::YIELD_NS;
use crate::commit::state::{Core, Issue};
use crate::commit::sync::{MutexGuard, Ordering, monotonic_ns, try_lock, yield_now};
use crate::error::{Error, Result};
use crate::format::BatchKind;
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;

impl Group {
    /// Has everything before `lsn` outlive `class` if that is the end of the process, and there is room for it in memory. In a log
    /// of any class: one that promises no more than that writes for `Log::commit`, which covers what readers show.
    #[inline]
    pub(crate) fn outlives(&self, lsn: Lsn, class: Durability) -> Result<bool> {
        if class != Durability::ProcessCrash {
            return Ok(false);
        }
        if self.waiters.reached(AckLevel::Process) >= lsn {
            return Ok(true);
        }
        self.status.check_process()?;
        if !self.memory.is_there() {
            return Ok(false);
        }
        let mut core = self.core();
        if lsn > core.appended() {
            return Ok(false);
        }
        // Under the lock, because the end of the log is noted under it: nothing is stored once another may open it.
        if let Some(ended) = self.status.ended() {
            return Err(ended);
        }
        let end = self.memory.store(&mut core);
        self.waiters.publish_relaxed(AckLevel::Process, end);
        drop(core);
        // The writer thread writes it once the log is idle.
        self.threads.note_activity();
        self.threads.wake_sleeping_writer();
        Ok(end >= lsn)
    }

    /// Returns when everything before `lsn`, which may have been reached already, has reached the level.
    pub(crate) fn commit(&self, lsn: Lsn, level: AckLevel) -> Result<()> {
        if self.reached(level) >= lsn {
            return Ok(());
        }
        self.status.check_process()?;
        let core = self.core();
        let end = core.appended();
        if lsn > end {
            return Err(Error::BeyondEnd { lsn, end });
        }
        self.commit_and_wait(core, lsn, level)
    }

    /// Returns when everything before `lsn` has reached the level; leads the write if no other thread does.
    pub(crate) fn commit_and_wait<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        lsn: Lsn,
        level: AckLevel,
    ) -> Result<()> {
        core.request(level, lsn);
        loop {
            if core.reached(level) >= lsn {
                return Ok(());
            }
            if let Some(ended) = self.status.ended() {
                return Err(ended);
            }
            let (ready, gathered) = self.gather(core);
            core = gathered;
            // Gathering releases the lock: a failure may have opened the gates meanwhile, and will not do so again.
            if let Some(ended) = self.status.ended() {
                return Err(ended);
            }
            if let Some(issue) = ready.then(|| self.issue(&mut core)).flatten() {
                self.lead(core, issue);
                if self.reached(level) >= lsn {
                    return Ok(());
                }
                core = self.core();
                continue;
            }
            if core.reached(level) >= lsn {
                return Ok(());
            }
            let gate = self.waiters.batch_gate(core.batch_of(lsn));
            let ticket = gate.ticket();
            drop(core);
            self.wait.committer_blocks(monotonic_ns);
            gate.wait(ticket);
            if self.reached(level) >= lsn {
                return Ok(());
            }
            core = self.core();
        }
    }

    /// Decides whether the next batch should go now, after a wait for committers that are about to come.
    ///
    /// A batch goes at once when it would be alone, or when it is at least as large as what is in flight. When several
    /// committers come in the same rhythm, because the last batch woke them together, the first of them yields the
    /// processor for a moment, so that one write holds them all, as far as `GroupWait` finds that worth it. A lone
    /// committer never yields, and no timer runs.
    pub(crate) fn gather<'a>(&'a self, core: MutexGuard<'a, Core>) -> (bool, MutexGuard<'a, Core>) {
        if core.in_flight() > 0 {
            return (core.is_due(), core);
        }
        let gathered = core.gathered_records();
        if self.wait.is_complete(gathered) {
            return (true, core);
        }
        let Some(mut budget) = self.wait.begin(gathered, monotonic_ns()) else { return (false, core) };
        drop(core);
        let core = loop {
            yield_now();
            let now = monotonic_ns();
            if !budget.is_due(now) {
                continue;
            }
            // An appending thread must not wait for one that only looks.
            let Some(core) = try_lock(&self.core) else { continue };
            let gathered = core.gathered_records();
            let complete = self.wait.is_complete(gathered) || core.in_flight() > 0;
            if complete || !budget.continues(gathered, now) {
                self.wait.end(gathered);
                break core;
            }
        };
        (true, core)
    }

    /// The next batch to write, at the strictest level that committers and futures request of it.
    fn issue(&self, core: &mut Core) -> Option<Issue> {
        if core.debt.is_used() {
            for level in AckLevel::ALL {
                core.request(level, self.waiters.requested(level));
            }
        }
        core.issue()
    }

    /// Writes the next batch on the writer thread, if it is time and a future requests it; gives the lock back if not. A
    /// committer that is about to block leads instead: see `GroupWait::expects_committer`.
    pub(crate) fn lead_for_futures<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
    ) -> std::result::Result<(), MutexGuard<'a, Core>> {
        let (ready, mut core) = self.gather(core);
        if ready && self.wait.expects_committer() && core.in_flight() == 0 && core.full_batches() == 0 {
            let began = monotonic_ns();
            drop(core);
            while !self.in_flight.load(Ordering::SeqCst) {
                if monotonic_ns() - began > YIELD_NS {
                    self.wait.no_committer_came();
                    break;
                }
                yield_now();
            }
            core = self.core();
        }
        let lead = ready && core.is_due() && self.is_requested(&core);
        let Some(issue) = lead.then(|| self.issue(&mut core)).flatten() else { return Err(core) };
        self.wait.writer_begins(monotonic_ns());
        self.lead(core, issue);
        self.wait.writer_ends();
        Ok(())
    }

    /// Writes what an idle log still owes: the sync of relaxed batches, or a durable mark. Gives the lock back if it owes
    /// nothing.
    pub(crate) fn lead_idle<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
    ) -> std::result::Result<(), MutexGuard<'a, Core>> {
        let mut issue = if core.request_debt_sync() { core.issue() } else { None };
        if issue.is_none() && core.needs_mark() && core.mark(BatchKind::Mark) {
            issue = core.issue();
        }
        let Some(issue) = issue else { return Err(core) };
        self.lead(core, issue);
        Ok(())
    }

    /// Wakes one of the committers of the batches `waiting` to be issued, so that it leads; returns whether there was one.
    /// A thread that has gathered, or finished a batch, and does not lead the next one must call this.
    pub(crate) fn hand_over(&self, waiting: Option<(u64, u64)>) -> bool {
        waiting.is_some_and(|(next, newest)| self.waiters.wake_one_of(next, newest))
    }

    /// Requests everything before `lsn` in the level, without waiting for it.
    ///
    /// If a batch is in flight, its leader looks at the requests afterwards: it lowers `in_flight` first and looks then,
    /// this raises the request first and looks at `in_flight` then, so one of the two sees the other.
    pub(crate) fn request(&self, lsn: Lsn, level: AckLevel) {
        self.waiters.request(level, lsn);
        let wake = if level == AckLevel::Full {
            self.threads.is_writer_asleep() || !self.in_flight.load(Ordering::SeqCst)
        } else {
            let mut core = self.core();
            core.request(level, lsn);
            self.threads.is_writer_asleep() || core.in_flight() == 0
        };
        if wake {
            self.threads.wake_writer();
        }
    }

    /// Whether the writer thread has a batch to write: a full one, or one that a future requests.
    pub(crate) fn is_requested(&self, core: &Core) -> bool {
        core.full_batches() > 0 || self.is_behind(core)
    }

    /// Whether futures request more than what was issued will give, at any level.
    pub(super) fn is_behind(&self, core: &Core) -> bool {
        let end = core.appended();
        let behind = |level| end.min(self.waiters.requested(level)) > core.debt.issued(level);
        behind(AckLevel::Full) || (core.debt.is_used() && AckLevel::RELAXED.into_iter().any(behind))
    }

    /// Lets the calling writer thread sleep, for `limit` if there is one, unless something has happened since `seen`.
    pub(crate) fn park_writer(&self, seen: u64, limit: Option<Duration>) {
        self.threads
            .park_writer(seen, limit, || !self.is_requested(&self.core()) && !self.status.is_stopping());
    }
}
