//! Drains the crash memory of an earlier opening: appends what the segments lack, durably, before it is served.
//!
//! ```text
//!   find ─► bind, before the new epoch is on disk ─► append and commit what follows the end of the log ─► forget, remove
//! ```
//!
//! The opening that drains the memory first writes its epoch there. Killed half-way, it leaves a log of that epoch that
//! holds a part of the records, and memory that is still believed: the next opening drains the rest.
//!
//! Invariants: memory that is not believed is never read; it is removed only when what it held is as safe as a commit of
//! this log makes it; an error leaves it as it is.

use crate::crash_memory::{Memory, MemoryHeader, forget, is_drained_by, ring, state_drains};
use crate::error::Result;
use crate::format::{LogId, Records};
use crate::lsn::Lsn;
use seawall_sys::planted;

/// What commits that outlive the process only ([`crate::Log::commit_as`]) left in memory for this opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftInMemory {
    /// Nothing: there were none, or the log had been closed.
    #[default]
    Nothing,
    /// Records that the disk did not have yet, if there were any. They are durable now.
    Taken {
        /// How many.
        records: u64,
    },
    /// Memory that is not believed, and was removed.
    Worthless {
        /// Why.
        reason: &'static str,
    },
}

/// Memory that an earlier opening left.
#[derive(Debug)]
pub(crate) struct Left<M> {
    memory: M,
    /// Its header, if it is sound and of this boot.
    header: Option<MemoryHeader>,
    /// Why it is not believed, if so.
    worthless: Option<&'static str>,
}

impl<M: Memory> Left<M> {
    /// Reads its header; `boot` is this boot of the system, `None` if unknown.
    pub(crate) fn look(memory: M, boot: Option<[u8; 16]>) -> Self {
        let found = MemoryHeader::read(&memory);
        let of_boot = |header: &MemoryHeader| planted!(MemoryOfOtherBoot, boot == Some(header.boot));
        let header = found.filter(of_boot);
        let worthless = match (found, header) {
            (None, _) => "it is unfinished or damaged",
            (_, None) => "the system has crashed or rebooted since",
            // Until it is bound to one.
            _ => "it belongs to another log",
        };
        Self { memory, header, worthless: Some(worthless) }
    }

    /// Believes the memory only if it is of the log `log_id` and the opening before `epoch`, which is not on the disk yet.
    pub(crate) fn bind(&mut self, log_id: LogId, epoch: u64) {
        let Some(header) = self.header else { return };
        let before = epoch.saturating_sub(1);
        // The opening that stated its epoch last may have been killed before that was on the disk.
        let stated = || [before, epoch].iter().any(|epoch| is_drained_by(&self.memory, *epoch));
        let of_last = header.epoch == before || planted!(MemoryNotRebound, stated());
        if planted!(MemoryOfOtherLog, header.log_id != log_id) {
            return;
        }
        if planted!(MemoryOfOtherEpoch, !of_last) {
            self.worthless = Some("the log was opened without it since");
            return;
        }
        state_drains(&mut self.memory, epoch);
        self.worthless = None;
    }

    /// The transactions from `end` on, where the log ends, in bytes of records. One that is not whole was never committed.
    pub(crate) fn transactions(&self, end: Lsn) -> Transactions {
        let believed = self.header.filter(|_| self.worthless.is_none());
        Transactions {
            bytes: believed.map(|header| ring::read_from(&self.memory, &header, end)).unwrap_or_default(),
        }
    }

    /// Passes what the segments lack after `end` to `append`, transaction by transaction, and makes it durable by `commit`;
    /// then forgets the memory. Returns what was left.
    pub(crate) fn drain(
        &mut self,
        end: Lsn,
        append: impl FnMut(&[u8], u32) -> Result<Lsn>,
        commit: impl FnOnce(Lsn) -> Result<()>,
    ) -> Result<LeftInMemory> {
        let taken = self.transactions(end);
        let records = taken.append(append)?;
        planted!(MemoryForgottenEarly(&mut self.memory));
        if let Some(last) = records.1 {
            planted!(MemoryServedEarly, commit(last)?);
        }
        forget(&mut self.memory);
        Ok(self
            .worthless
            .map_or(LeftInMemory::Taken { records: records.0 }, |reason| LeftInMemory::Worthless { reason }))
    }
}

/// Transactions, one after the other.
#[derive(Debug)]
pub(crate) struct Transactions {
    bytes: Vec<u8>,
}

impl Transactions {
    /// Each transaction with the number of its records.
    fn each(&self) -> impl Iterator<Item = (&[u8], u32)> {
        let mut records = Records::new(&self.bytes);
        std::iter::from_fn(move || {
            let before = records.rest();
            let mut count = 0;
            loop {
                let record = records.next()?;
                count += 1;
                if planted!(MemoryHalfTransaction, !record.more) {
                    return Some((&before[..before.len() - records.rest().len()], count));
                }
            }
        })
    }

    /// Has `append` accept each; returns how many records that were and where the last one ends.
    fn append(&self, mut append: impl FnMut(&[u8], u32) -> Result<Lsn>) -> Result<(u64, Option<Lsn>)> {
        let mut taken = (0, None);
        for (records, count) in self.each() {
            taken = (taken.0 + u64::from(count), Some(append(records, count)?));
        }
        Ok(taken)
    }
}
