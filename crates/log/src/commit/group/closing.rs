//! Ends writing: fails the log, writes its close mark, or waits for the batches in flight.

use std::time::Duration;

use super::Group;
use crate::commit::metrics::Metric;
use crate::commit::state::Closing;
use crate::commit::sync::Ordering;
use crate::error::{Error, Result};

impl Group {
    /// Fails the log for good: everything that waits is woken, nothing is acknowledged any more.
    pub(crate) fn fail(&self, error: Error) {
        tracing::error!(%error, "the log failed");
        if self.status.set_failed(error) {
            self.recorder.metrics.count(Metric::Failures, 1);
        }
        self.core().fail();
        self.waiters.end_appends();
        self.waiters.follower_gate.open();
        self.waiters.wake_commits();
        self.threads.wake_writer();
        self.threads.wake_maintenance();
    }

    /// Commits everything and then writes the close mark, after all that is in flight. What lies in crash memory is of no use
    /// afterwards.
    pub(crate) fn close_log(&self) -> Result<()> {
        loop {
            let mut core = self.core();
            if let Some((level, end)) = core.owed_to_close() {
                self.commit_and_wait(core, end, level)?;
                core = self.core();
            }
            if let Some(ended) = self.status.ended() {
                return Err(ended);
            }
            match core.close() {
                Closing::Wait(batch) => {
                    let gate = self.waiters.batch_gate(batch);
                    let ticket = gate.ticket();
                    drop(core);
                    gate.wait(ticket);
                }
                Closing::Before(issue) => self.lead(core, issue),
                Closing::Mark(issue) => {
                    self.lead(core, issue);
                    let sealed = self.status.failed().map_or(Ok(()), Err);
                    if sealed.is_ok() {
                        self.memory.remove();
                    }
                    return sealed;
                }
                Closing::Refused => return Err(self.status.refusal()),
            }
        }
    }

    /// Ends writing for good, before the lock on the directory is released: a [`crate::CommitFuture`] may outlive its log, and
    /// must not write into what another process has opened by then. Everything that still waits is woken and fails.
    pub(crate) fn shut_down(&self) {
        const LOOK_AGAIN: Duration = Duration::from_micros(50);
        let core = self.core();
        self.status.shut_down();
        drop(core);
        self.waiters.wake_commits();
        while self.leading.load(Ordering::Acquire) > 0 {
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
