//! Takes records in: waits until the core accepts them, or names what is lacking.

use super::Group;
use crate::commit::state::{Core, Refusal};
use crate::commit::sync::{MutexGuard, try_lock};
use crate::error::{Error, Result};
use crate::lsn::Lsn;

impl Group {
    /// Calls `accept` until it accepts the records, waiting for memory and segments in between.
    pub(crate) fn accept(
        &self,
        accept: impl FnMut(&mut Core) -> std::result::Result<Lsn, Refusal>,
    ) -> Result<(Lsn, MutexGuard<'_, Core>)> {
        self.accept_or::<true>(accept)
    }

    /// As [`Group::accept`] if it may `WAIT`. If not, what is lacking is requested all the same, so that a later call finds
    /// it, and the answer is [`Error::WouldBlock`].
    pub(crate) fn accept_or<const WAIT: bool>(
        &self,
        mut accept: impl FnMut(&mut Core) -> std::result::Result<Lsn, Refusal>,
    ) -> Result<(Lsn, MutexGuard<'_, Core>)> {
        self.status.check_process()?;
        // A caller that does not wait has made its request in an earlier call.
        let mut requested = !WAIT;
        loop {
            if self.status.is_closed() {
                return Err(self.status.refusal());
            }
            let mut core = self.core();
            let refusal = match accept(&mut core) {
                Ok(lsn) => {
                    if core.full_batches() > 0 {
                        self.threads.wake_writer();
                    }
                    return Ok((lsn, core));
                }
                Err(refusal) => refusal,
            };
            if let Some(error) = self.refused(refusal) {
                return Err(error);
            }
            if WAIT {
                self.recorder.stalled(refusal == Refusal::Lag);
            }
            let gate = &self.waiters.append_gate;
            let ticket = gate.ticket();
            // A log that is closed meanwhile opens the gate once, and may prepare no segment any more.
            if self.status.is_closed() {
                gate.leave();
                return Err(self.status.refusal());
            }
            if refusal == Refusal::Lag {
                drop(core);
                self.threads.wake_rewriter();
            } else if let Refusal::Segment { bytes } = refusal {
                drop(core);
                if let Some(failure) = self.housekeeping.request_segment(|| self.core(), bytes, requested) {
                    gate.leave();
                    return Err(failure);
                }
                self.threads.wake_maintenance();
                if self.is_bounded {
                    self.threads.wake_rewriter();
                }
                requested = true;
            } else {
                // The batch that still gathers must go as well, otherwise a record as large as the memory would wait
                // for ever after records that are never committed.
                self.waiters.request(self.config.own(), core.appended());
                drop(core);
                self.threads.wake_writer();
            }
            if !WAIT {
                gate.leave();
                return Err(Error::WouldBlock);
            }
            gate.wait(ticket);
        }
    }

    /// As [`Group::accept_or`], once and without waiting, also not for a thread that holds the core: what is lacking is not
    /// requested. The only system call that it may make wakes a thread.
    #[inline]
    pub(crate) fn try_accept<T>(
        &self,
        accept: impl FnOnce(&mut Core) -> std::result::Result<T, Refusal>,
    ) -> Result<T> {
        self.status.check_process()?;
        if self.status.is_closed() {
            return Err(self.status.refusal());
        }
        let Some(mut core) = try_lock(&self.core) else { return Err(Error::WouldBlock) };
        match accept(&mut core) {
            Ok(accepted) => {
                if core.full_batches() > 0 {
                    self.threads.wake_writer();
                }
                Ok(accepted)
            }
            Err(refusal) => Err(self.refused(refusal).unwrap_or(Error::WouldBlock)),
        }
    }

    /// What a refusal means that no wait will change; `None` for the others.
    fn refused(&self, refusal: Refusal) -> Option<Error> {
        match refusal {
            Refusal::Failed => Some(self.status.refusal()),
            Refusal::TooLong => Some(too_long()),
            Refusal::Number { stream, number: seq, first, .. } if seq < first => {
                Some(Error::StreamTrimmed { stream, seq, first })
            }
            Refusal::Number { stream, number: seq, next, .. } => Some(Error::StreamEnd { stream, seq, next }),
            Refusal::Memory | Refusal::Segment { .. } | Refusal::Lag => None,
        }
    }
}

fn too_long() -> Error {
    let bytes_max = crate::format::RECORD_BYTES_MAX as u64;
    Error::TooLong { bytes: bytes_max + 1, bytes_max }
}
