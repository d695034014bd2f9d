//! Drives the real core and recovery without threads, for crash harnesses that bring their own disk.
//!
//! [`Writer`] is the log without threads: the real recovery, core, sealing, execution and segment tasks, one action at
//! a time, on any [`Disk`]. [`judge`] opens the directory left by a crash with the real recovery, reads it back and
//! checks it against the ledger.
//!
//! Invariants: nothing is acknowledged before the core says that it is durable; after a failure nothing is.

use std::collections::HashMap;

use super::driver::{Execution, JobState};
use super::read_back::read_all;
use crate::commit::seal::Chain;
use crate::commit::state::{Core, CoreConfig, Refusal};
use crate::error::{Error, Result};
use crate::format::{BatchKind, LogId, RECORD_HEADER_BYTES, record_header, segment_name};
use crate::lsn::Lsn;
use crate::recovery::{self, Plan, recover};
use crate::segment::inventory::SegmentInventory;
use crate::segment::lifecycle::{SegmentTask, Task};
use crate::storage::disk::{Access, Disk, FileId, open};
use crate::stream::state::Numbering;
use crate::testing::oracle::{Judge, Ledger, Violation};
use seawall_sys::completion::SubmitOrder;
use seawall_sys::durability::Durability;

const BATCH_BYTES: usize = 16 * 1024;
const MEMORY_BYTES: usize = 64 * 1024;
const READ_BYTES: usize = 64 * 1024;

/// The bytes that a record of `payload_bytes` takes in the logical log.
#[must_use]
pub const fn record_bytes(payload_bytes: usize) -> u64 {
    (payload_bytes + RECORD_HEADER_BYTES) as u64
}

/// The bytes of a transaction of these records.
pub(super) fn encode_transaction(records: &[Vec<u8>]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (i, payload) in records.iter().enumerate() {
        encoded.extend(record_header(payload.len(), i + 1 < records.len()).unwrap_or_default());
        encoded.extend_from_slice(payload);
    }
    encoded
}

/// The config of a log that does not exist yet.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Block size in bytes, one of [`crate::format::BLOCK_SIZES`].
    pub block_bytes: u16,
    /// Size of a segment in bytes.
    pub segment_bytes: u64,
}

impl Layout {
    fn plan(&self) -> Plan {
        Plan {
            new_id: LogId(*b"outside harness!"),
            block_bytes: self.block_bytes,
            segment_bytes: self.segment_bytes,
            read_bytes: READ_BYTES,
            dsync: false,
            class: Durability::PowerLoss,
            create: true,
            disk_bytes_max: None,
        }
    }
}

/// A log in use.
#[derive(Debug)]
pub struct Writer<D: Disk> {
    disk: D,
    config: CoreConfig,
    core: Core,
    chain: Chain,
    inventory: SegmentInventory,
    files: HashMap<u64, FileId>,
}

impl<D: Disk> Writer<D> {
    /// Recovers what `disk` holds, or makes a new log.
    ///
    /// # Errors
    /// Those of recovery.
    pub fn open(mut disk: D, layout: &Layout) -> Result<Self> {
        let recovered = recover(&mut disk, &layout.plan())?;
        let config = recovery::config(&recovered, BATCH_BYTES, MEMORY_BYTES, 1);
        let headers = recovered.segments.iter().copied();
        let inventory = SegmentInventory::new(headers, recovered.next_number, layout.segment_bytes, 1..=2);
        let chain = recovered.chain;
        let core = Core::new(config, recovered.resume);
        Ok(Self { disk, config, core, chain, inventory, files: HashMap::new() })
    }

    /// The end of what is durable.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        self.core.durable()
    }

    /// Accepts one transaction; returns its end.
    ///
    /// # Errors
    /// Those of preparing a segment for it, and [`Error::WouldBlock`] if the log failed or is full.
    pub fn append(&mut self, records: &[Vec<u8>]) -> Result<Lsn> {
        let mut encoded = encode_transaction(records);
        let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
        for _ in 0..3 {
            match self.core.append_encoded(&mut encoded, count, Numbering::Untagged) {
                Ok(end) => return Ok(end),
                Err(Refusal::Segment { .. }) => self.keep()?,
                Err(_) => break,
            }
        }
        Err(Error::WouldBlock)
    }

    /// Writes everything that was accepted; returns the end of what is durable.
    ///
    /// # Errors
    /// Those of the disk; the log is failed then.
    pub fn commit(&mut self) -> Result<Lsn> {
        while let Some(issue) = self.core.issue() {
            let id = issue.id;
            let job = self.chain.seal(&self.config, issue);
            let name = segment_name(job.segment);
            let files =
                (self.file(job.segment)?, job.sync_first.map(|number| self.file(number)).transpose()?);
            let started = Execution::start(&mut self.disk, job, files, (false, SubmitOrder::OneByOne));
            let mut execution = started.map_err(|failure| Error::io("commit to", &name, failure.error))?;
            while let Some(completion) = self.disk.complete(true) {
                match execution.completed(&mut self.disk, completion) {
                    JobState::Pending => {}
                    JobState::Done => break,
                    JobState::Failed(source) => {
                        self.core.fail();
                        return Err(Error::io("commit to", &name, source));
                    }
                }
            }
            let job = execution.into_job();
            if let Some(header) = job.starts {
                self.inventory.started(header);
            }
            self.core.done(id, job.into_buffer());
        }
        Ok(self.durable())
    }

    fn file(&mut self, segment: u64) -> Result<FileId> {
        if let Some(file) = self.files.get(&segment) {
            return Ok(*file);
        }
        let name = segment_name(segment);
        let file = open(&mut self.disk, &name, Access::Direct)?;
        self.files.insert(segment, file);
        Ok(file)
    }

    /// Runs one segment task, if there is any.
    ///
    /// # Errors
    /// Those of the disk; a failed sync fails the log.
    pub fn keep(&mut self) -> Result<()> {
        let Some(task) = self.inventory.next_task(self.core.spares(), self.core.durable_trim()) else {
            return Ok(());
        };
        if let Task::Recycle { from, .. } | Task::Remove(from) = task
            && let Some(file) = self.files.remove(&from)
        {
            self.disk.close(file);
        }
        match SegmentTask::new(task, READ_BYTES).finish(&mut self.disk) {
            Ok(spare) => {
                self.inventory.task_done();
                if let Some(spare) = spare {
                    self.core.add_spare(spare);
                }
                Ok(())
            }
            Err(failed) => {
                self.inventory.task_failed(true);
                if failed.fatal {
                    self.core.fail();
                }
                Err(failed.error)
            }
        }
    }

    /// Everything before `lsn` may go.
    pub fn trim(&mut self, lsn: Lsn) {
        self.core.set_trim(lsn, lsn);
    }

    /// Writes the mark of a clean close.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn close(mut self) -> Result<()> {
        self.commit()?;
        self.core.mark(BatchKind::Close);
        self.commit().map(drop)
    }
}

/// Opens what is on `disk` by the real recovery, reads it back and holds it against `ledger`; with `twice` recovers
/// once more and requires the same end. Returns where the log ends.
///
/// # Errors
/// The broken promise.
pub fn judge<D: Disk>(disk: &mut D, layout: &Layout, ledger: &Ledger, twice: bool) -> Result<Lsn, Violation> {
    let refused = |error: Error| Violation::refused(&error);
    let recovered = recover(disk, &layout.plan()).map_err(refused)?;
    let mut judge = Judge::new(ledger);
    let read = read_all(disk, &recovered, READ_BYTES, |lsn, payload| judge.record(lsn, payload));
    read.map_err(refused)??;
    let end = recovered.resume.end;
    judge.finish(end)?;
    if twice {
        let again = recover(disk, &layout.plan()).map_err(refused)?;
        if again.resume.end != end {
            return Err(Violation::NotIdempotent);
        }
    }
    Ok(end)
}
