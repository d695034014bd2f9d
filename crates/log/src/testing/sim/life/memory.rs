//! Has a life store records in crash memory, and drain what an earlier one left there.

use super::{Life, Step};
use crate::commit::process_crash::store_unissued;
use crate::commit::state::Refusal;
use crate::crash_memory::left::{Left, LeftInMemory};
use crate::error::Error;
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::stream::state::Numbering;
use crate::testing::sim::memory::{MemoryEvent, SimMemory, make};

impl Life {
    /// Stores what was not issued in memory, as a commit does that is to outlive the process only; returns up to where
    /// everything does.
    pub(super) fn store(&mut self) -> Lsn {
        if self.failed {
            return Lsn::ZERO;
        }
        let Self { config, boot, stores, core, ring, .. } = self;
        let ring = ring.get_or_insert_with(|| make(config.log_id, config.epoch, *boot, stores));
        let end = store_unissued(ring, core);
        self.drain_stores();
        let reached = &mut self.reached[AckLevel::Process as usize];
        if end > *reached {
            *reached = end;
            self.trace.push(Step::Written(end));
        }
        end
    }

    pub(super) fn drain_stores(&mut self) {
        self.trace.extend(self.stores.take().into_iter().map(Step::Memory));
    }

    /// Drains what an earlier life left in crash memory, as an opening does.
    pub(super) fn drain_crash_memory(&mut self, mut left: Left<SimMemory>) -> Result<LeftInMemory, Error> {
        let end = self.core.appended();
        self.core.set_draining(true);
        let life = std::cell::RefCell::new(self);
        let found = left.drain(
            end,
            |records, count| life.borrow_mut().append_taken(records, count),
            |end| life.borrow_mut().commit_taken(end),
        );
        let life = life.into_inner();
        life.core.set_draining(false);
        life.drain();
        life.drain_stores();
        if found.is_ok() {
            life.trace.push(Step::Memory(MemoryEvent::Removed));
        }
        found
    }

    fn taken_failed() -> Error {
        Error::io("drain", "memory", std::io::Error::other("the log failed"))
    }

    /// Appends a transaction from memory, waiting for memory and segments.
    fn append_taken(&mut self, records: &[u8], count: u32) -> crate::Result<Lsn> {
        let mut records = records.to_vec();
        for _ in 0..400 {
            match self.take_in(None, &mut records, (count, Numbering::Kept)) {
                Ok(lsn) => {
                    // It was traced when it was issued first.
                    self.traced_to = lsn;
                    self.cuts = self.core.tagged.cuts.clone();
                    return Ok(lsn);
                }
                Err(Refusal::Segment { bytes }) => {
                    self.needed = Some(bytes);
                    self.keep();
                    self.issue();
                    self.complete(true);
                }
                Err(Refusal::Memory) => {
                    self.request_full();
                    self.complete(true);
                }
                Err(_) => break,
            }
        }
        Err(Self::taken_failed())
    }

    fn request_full(&mut self) {
        let end = self.core.appended();
        self.core.request(AckLevel::Full, end);
        self.issue();
    }

    /// Commits what was taken from memory.
    fn commit_taken(&mut self, end: Lsn) -> crate::Result<()> {
        self.drain();
        self.drain_stores();
        for _ in 0..400 {
            if self.failed {
                break;
            }
            if self.core.durable() >= end {
                return Ok(());
            }
            self.request_full();
            if self.running.is_empty() {
                self.keep();
            }
            self.complete(true);
            self.drain();
        }
        Err(Self::taken_failed())
    }
}
