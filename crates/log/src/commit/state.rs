//! Commit state machine: gathers records into batches, issues them in order and advances the watermarks.
//!
//! It contains no files, threads, clocks or randomness. Each batch knows its place on disk from its first record on;
//! batches are issued in order, may complete in any order and are acknowledged in order. The watermarks always
//! satisfy
//!
//! ```text
//! durable  <=  acknowledged  <=  syncing  <=  appended
//! ```
//!
//! What is acknowledged outlives the log's class, and is what `Log::durable_lsn` returns; what is durable outlives a power cut.
//! In a log of class power loss the two are one; in one of a lower class the durable LSN moves when a segment is full, after a trim and at close.
//!
//! Invariants: an append is accepted only if there is a prepared place for it, so a full disk shows before anything
//! is written; a batch in a new segment is issued only when everything in the old one is durable; while the batch
//! that starts a segment is in flight nothing else is; a log of any class starts a segment, closes and
//! makes a trim durable only when all before it is durable; after one failure nothing is ever issued or acknowledged
//! again; nothing is accepted or issued after the close mark, where recovery ends.

mod accepting;
mod marks;
mod trimming;

use std::collections::VecDeque;

use seawall_sys::durability::Durability;
use seawall_sys::planted;

use crate::commit::batch::Batch;
use crate::commit::pin_floor::PinFloor;
use crate::commit::sync_debt::SyncDebt;
use crate::format::buffer::AlignedBuf;
use crate::format::free_buffers::FreeBuffers;
use crate::format::{BATCH_HEADER_BYTES, LogId, RECORD_HEADER_BYTES, TAG_BYTES};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::segment::cap::RECORDS_LEAVE;
use crate::segment::inventory::SegmentInventory;
use crate::segment::lifecycle::Task;
use crate::segment::{Place, Spare};
use crate::stream::StreamId;
use crate::stream::state::TaggedState;
use accepting::Appending;

/// The header of a record and its tag.
const HEAD_BYTES: usize = RECORD_HEADER_BYTES + TAG_BYTES;

/// Blocks for marks that trims of streams leave in the last segment of a log at its cap.
const MARKS: u64 = 2;

/// What stays the same as long as the log is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreConfig {
    pub(crate) log_id: LogId,
    pub(crate) epoch: u64,
    pub(crate) block_bytes: u16,
    /// Capacity of an ordinary buffer in bytes: the longest batch but for transactions that need more.
    pub(crate) batch_bytes: usize,
    /// Batches that may be in flight at the same time.
    pub(crate) depth: usize,
    /// Memory for records that are appended and not yet written, in bytes.
    pub(crate) memory_bytes: usize,
    /// What an acknowledged record outlives.
    pub(crate) class: Durability,
}

impl CoreConfig {
    /// The ack level of the log's class, which `Log::commit` requests.
    pub(crate) fn own(&self) -> AckLevel {
        AckLevel::of(self.class)
    }
}

/// Where recovery ended and appending resumes.
#[derive(Clone, Debug)]
pub(crate) struct ResumePoint {
    pub(crate) end: Lsn,
    /// The first LSN that must be present.
    pub(crate) trim: Lsn,
    pub(crate) place: Place,
    pub(crate) spares: Vec<Spare>,
    pub(crate) tagged: TaggedState,
}

/// Why an append was not accepted. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// All memory is waiting for the disk.
    Memory,
    /// No prepared segment has room; one of at least this many bytes is needed.
    Segment { bytes: u64 },
    /// A stream lags so far behind that what it needs must be rewritten first.
    Lag,
    /// A stream has no record of this number: those that it has begin at `first`, and the next one gets `next`.
    Number { stream: StreamId, number: u64, first: u64, next: u64 },
    /// Longer than the format allows.
    TooLong,
    /// The log failed, or its close mark is issued.
    Failed,
}

/// A batch handed out to be sealed and written, with what it may claim.
#[derive(Debug)]
pub(crate) struct Issue {
    pub(crate) id: u64,
    /// The batch; `None` if nothing is written and only the batches of lower levels are synced.
    pub(crate) batch: Option<Batch>,
    /// The level at which it is acknowledged.
    pub(crate) level: AckLevel,
    /// A segment that must be synced before anything of this is written, because batches in it are not durable yet.
    pub(crate) sync_first: Option<u64>,
    pub(crate) durable: Lsn,
    pub(crate) acknowledged: Lsn,
    pub(crate) trim: Lsn,
}

/// What closing the log needs next.
#[derive(Debug)]
pub(crate) enum Closing {
    /// Wait until this batch, which is in flight, ends.
    Wait(u64),
    /// Write this batch, which was gathered before.
    Before(Issue),
    /// Write the close mark: nothing else is in flight.
    Mark(Issue),
    /// Nothing: the log has ended.
    Refused,
}

#[derive(Debug)]
struct InFlight {
    id: u64,
    records: u32,
    end: Lsn,
    trim: Lsn,
    /// How often the log was cut up to its end.
    cuts: u64,
    level: AckLevel,
    done: bool,
    starts: bool,
}

#[derive(Debug)]
pub(crate) struct Core {
    config: CoreConfig,
    appended: Lsn,
    syncing: Lsn,
    durable: Lsn,
    trim: Lsn,
    /// Where the untagged records were trimmed to: past `trim` if a stream needs what lies before.
    plain_trim: Lsn,
    /// The first LSN as the disk knows it.
    durable_trim: Lsn,
    /// The first LSN that relaxed batches state: it is durable once they are synced.
    relaxed_trim: Lsn,
    /// The highest acknowledged LSN that any issued batch states.
    witnessed: Lsn,
    place: Place,
    spares: VecDeque<Spare>,
    /// The first spare, if it is too small, while a larger one is prepared to replace it. Nothing starts a later spare meanwhile.
    pub(crate) outgrown: Option<Spare>,
    /// Segments that may still be prepared under the cap of the log: see `segment/cap.rs`.
    rooms: usize,
    open: Option<Batch>,
    ready: VecDeque<Batch>,
    flight: VecDeque<InFlight>,
    pub(crate) free: FreeBuffers,
    /// Bytes of buffers that are neither free nor of the ordinary size.
    large_bytes: usize,
    next_id: u64,
    pub(crate) accepted_records: u64,
    pub(crate) durable_id: u64,
    /// The last batch that has been written and acknowledged at its level.
    pub(crate) done_id: u64,
    pub(crate) debt: SyncDebt,
    /// What the tagged records appended so far say.
    pub(crate) tagged: TaggedState,
    /// How often the log was cut by what is acknowledged.
    pub(crate) acknowledged_cuts: u64,
    now: Appending,
    pub(crate) pins: PinFloor,
    /// The highest LSN before which no stream and no untagged record needed anything: later appends lie after it.
    free_to: Lsn,
    /// The end of the oldest segment when the holds were looked at last: see [`Core::awaits_look`].
    looked_at: Lsn,
    /// The end of what crash memory holds, whether the disk has it or not.
    in_memory: Lsn,
    /// The paced bytes of all issued batches: see [`Core::paced_bytes`].
    paced_issued: u64,
    /// Appends wait at this many paced bytes while lagging streams catch up; `None` for no limit.
    paced_max: Option<u64>,
    failed: bool,
    /// The close mark is issued: recovery ends there, so nothing may follow it.
    closed: bool,
}

impl Core {
    /// Begins where recovery ended, with buffers of its own.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn new(config: CoreConfig, resume: ResumePoint) -> Self {
        let buffers =
            Self::take_buffers(&config).unwrap_or_else(|error| unreachable!("tests are small: {error}"));
        Self::with(config, resume, buffers)
    }

    /// The memory of a log: `memory_bytes / batch_bytes` buffers, at least two.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn take_buffers(config: &CoreConfig) -> std::io::Result<FreeBuffers> {
        FreeBuffers::take((config.memory_bytes / config.batch_bytes.max(1)).max(2), config.batch_bytes)
    }

    /// Begins where recovery ended, with these buffers.
    pub(crate) fn with(config: CoreConfig, resume: ResumePoint, free: FreeBuffers) -> Self {
        let buffers = free.len();
        Self {
            config,
            appended: resume.end,
            syncing: resume.end,
            durable: resume.end,
            trim: resume.trim,
            plain_trim: resume.trim,
            durable_trim: resume.trim,
            relaxed_trim: resume.trim,
            witnessed: resume.end,
            place: resume.place,
            spares: resume.spares.into(),
            outgrown: None,
            rooms: usize::MAX,
            open: None,
            ready: VecDeque::with_capacity(buffers),
            flight: VecDeque::with_capacity(config.depth + 1),
            free,
            large_bytes: 0,
            next_id: 1,
            accepted_records: 0,
            durable_id: 0,
            done_id: 0,
            debt: SyncDebt::new(resume.end, config.own()),
            tagged: resume.tagged,
            acknowledged_cuts: 0,
            now: Appending::default(),
            pins: PinFloor::default(),
            free_to: resume.trim,
            looked_at: Lsn::ZERO,
            in_memory: resume.end,
            paced_issued: 0,
            paced_max: None,
            failed: false,
            closed: false,
        }
    }

    /// The end of what was accepted.
    pub(crate) fn appended(&self) -> Lsn {
        debug_assert!(self.durable <= self.syncing && self.syncing <= self.appended);
        self.appended
    }

    /// The end of what outlives a power cut.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn durable(&self) -> Lsn {
        self.durable
    }

    #[inline]
    pub(crate) fn request(&mut self, level: AckLevel, lsn: Lsn) {
        self.debt.request(level, lsn.min(self.appended));
    }

    /// Everything before this outlives what the log promises. In a log of class power loss that is the durable LSN.
    pub(crate) fn acknowledged(&self) -> Lsn {
        self.reached(self.config.own())
    }

    /// Everything before this outlives what the level says.
    pub(crate) fn reached(&self, level: AckLevel) -> Lsn {
        if level == AckLevel::Full { self.durable } else { self.debt.reached(level).max(self.durable) }
    }

    /// Whether the close mark is issued. A thread that saw an open log may come here afterwards.
    fn is_closed(&self) -> bool {
        planted!(AppendBehindClose, self.closed)
    }

    /// Whether nothing is accepted or issued any more.
    fn has_ended(&self) -> bool {
        self.failed || self.is_closed()
    }

    /// Requests the sync of batches that were written at a level below the log's own, and the write of what outlives the
    /// process in crash memory only; returns whether there are any.
    pub(crate) fn request_debt_sync(&mut self) -> bool {
        let own = self.config.own();
        let owed = if own == AckLevel::Full {
            self.debt.is_owed(self.durable_id)
        } else {
            self.debt.issued(own) < self.syncing
        };
        let end = self.syncing.max(self.in_memory);
        let owed = owed || planted!(MemoryNeverWritten, end > self.syncing);
        if owed {
            self.debt.request(own, end);
        }
        owed
    }

    /// The records that are not issued yet, batch by batch: where they begin, and their bytes.
    pub(crate) fn unissued(&self) -> impl Iterator<Item = (Lsn, &[u8])> {
        let batches = self.ready.iter().chain(&self.open);
        batches.map(|batch| (batch.lsn, &batch.buf.bytes()[BATCH_HEADER_BYTES..batch.used]))
    }

    /// Everything before this outlives the process, in crash memory or as the segments have it.
    pub(crate) fn in_memory(&self) -> Lsn {
        self.in_memory
    }

    pub(crate) fn set_draining(&mut self, draining: bool) {
        self.now.draining = draining;
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.now.draining
    }

    /// Everything before `lsn` outlives the process in crash memory.
    pub(crate) fn note_in_memory(&mut self, lsn: Lsn) {
        self.in_memory = self.in_memory.max(lsn);
    }

    pub(crate) fn trim(&self) -> Lsn {
        self.trim
    }

    /// The batch that holds the byte before `lsn`; the one under assembly for anything later.
    pub(crate) fn batch_of(&self, lsn: Lsn) -> u64 {
        let flight = self.flight.iter().find(|flight| flight.end >= lsn).map(|flight| flight.id);
        let ready = || self.ready.iter().find(|batch| batch.end() >= lsn).map(|batch| batch.id);
        flight.or_else(ready).unwrap_or_else(|| self.next_id.saturating_sub(1))
    }

    /// The batches that wait to be issued, from first to last, `None` if there is none.
    pub(crate) fn waiting(&self) -> Option<(u64, u64)> {
        let first = self.ready.front().or(self.open.as_ref())?.id;
        let last = self.open.as_ref().or(self.ready.back())?.id;
        Some((first, last))
    }

    /// Full batches that wait to be issued.
    pub(crate) fn full_batches(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn spares(&self) -> usize {
        self.spares.len()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.flight.len()
    }

    pub(crate) fn records_in_flight(&self) -> u32 {
        self.flight.iter().map(|flight| flight.records).sum()
    }

    /// Whether the next batch need not wait for those in flight: it is at least as large.
    pub(crate) fn is_due(&self) -> bool {
        self.gathered_records() >= self.records_in_flight()
    }

    /// Records waiting in the batch under assembly and after it.
    pub(crate) fn gathered_records(&self) -> u32 {
        self.ready.iter().chain(&self.open).map(|batch| batch.records).sum()
    }

    /// Accepts records of this many more paced bytes until the next call, any number if `None`; what frees segments is
    /// accepted always. Returns whether a bound was or is set.
    pub(crate) fn pace(&mut self, bytes: Option<u64>) -> bool {
        let most = bytes.map(|bytes| self.paced_bytes().saturating_add(bytes));
        std::mem::replace(&mut self.paced_max, most).is_some() || most.is_some()
    }

    /// The segments that can still be started, prepared or not.
    fn segments_left(&self) -> usize {
        self.spares.len().saturating_add(self.rooms)
    }

    /// Whether the log is at its cap: records may start no segment.
    pub(crate) fn is_full(&self) -> bool {
        self.segments_left() <= RECORDS_LEAVE
    }

    /// Whether the next record may start a segment: enough must be left for trims and openings.
    fn may_start(&self) -> bool {
        self.segments_left() > planted!(RecordsTakeLastSpare, self.now.leaves())
    }

    pub(crate) fn set_rooms(&mut self, rooms: usize) {
        self.rooms = rooms;
    }

    /// Makes a prepared segment available, in place of the outgrown spare if there is one.
    pub(crate) fn add_spare(&mut self, spare: Spare) {
        if self.outgrown.take().is_some() {
            self.spares.push_front(spare);
        } else {
            self.spares.push_back(spare);
        }
    }

    /// Makes the outgrown spare available again: it was not replaced.
    pub(crate) fn keep_outgrown_spare(&mut self) {
        if let Some(spare) = self.outgrown.take() {
            self.spares.push_front(spare);
        }
    }

    /// Whether an append that needs a segment of `bytes` bytes must wait for one.
    pub(crate) fn lacks(&self, bytes: u64) -> bool {
        !self.may_start() || self.spares.front().is_none_or(|spare| spare.bytes < bytes)
    }

    /// The next segment task, if there is any, when appends need a segment of `needed` bytes; `needed` is cleared if that is
    /// there. A first spare that is too small is kept aside until it is replaced.
    pub(crate) fn next_task(
        &mut self,
        inventory: &mut SegmentInventory,
        needed: &mut Option<u64>,
    ) -> Option<Task> {
        self.rooms = inventory.cap().rooms();
        let first = self.spares.front().copied();
        *needed = needed.filter(|bytes| self.lacks(*bytes));
        let task = if let Some(task) = needed.and_then(|bytes| inventory.task_for(bytes, first)) {
            self.outgrown = self.spares.pop_front();
            Some(task)
        } else {
            inventory.next_task(self.spares(), self.durable_trim())
        };
        self.rooms = inventory.cap().rooms();
        task
    }

    /// Hands out the next batch to be written, if one may be issued now.
    pub(crate) fn issue(&mut self) -> Option<Issue> {
        let busy = self.flight.len() >= self.config.depth || self.flight.iter().any(|flight| flight.starts);
        if self.has_ended() || planted!(IssueDuringStart, busy) {
            return None;
        }
        let Some(next) = self.ready.front().or(self.open.as_ref()) else { return self.issue_sync_only() };
        let wait = next.start.is_some() && !self.flight.is_empty();
        if planted!(RotateBeforeDurable, wait) {
            return None;
        }
        let level = self.level_of(next.kind, next.start.is_some());
        if !self.debt.may_issue(level) {
            return None;
        }
        let batch = if let Some(batch) = self.ready.pop_front() {
            batch
        } else {
            let open = self.open.take()?;
            self.place.offset += self.padded(open.used);
            open
        };
        self.syncing = batch.end();
        let (end, starts) = (batch.end(), batch.start.is_some());
        let (id, records) = (batch.id, batch.records);
        self.paced_issued += self.paced_bytes_of(&batch);
        let sync_first = planted!(
            FullWithoutDebtSync
                | RotateBeforeDebtSync
                | RelaxedMarkBeforeSync(self.sync_first(level), &batch, self.config.own()),
            self.sync_first(level)
        );
        self.debt.issue(id, level, end, batch.segment);
        let (trim, cuts) = (self.trim, self.issued_cuts());
        let flight = InFlight { id, records, end, trim, cuts, level, done: false, starts };
        self.flight.push_back(flight);
        // A batch may only claim what is durable: relaxed batches may be lost in a power cut.
        let durable = planted!(
            WitnessTooMuch | WitnessClaimsRelaxed(&batch, self.reached(AckLevel::Process)),
            self.durable
        );
        let acknowledged = self.acknowledged().max(durable);
        self.witnessed = self.witnessed.max(acknowledged);
        planted!(AckAtIssue | RelaxedAckAtIssue(&mut self.durable, &mut self.debt, (level, end)));
        Some(Issue { id, batch: Some(batch), level, sync_first, durable, acknowledged, trim: self.trim })
    }

    fn issued_cuts(&self) -> u64 {
        let later: u64 = self.ready.iter().chain(&self.open).map(|batch| batch.log_cuts).sum();
        self.tagged.cut.saturating_sub(later)
    }

    /// The segment that a batch of `level` must sync before it is written.
    fn sync_first(&self, level: AckLevel) -> Option<u64> {
        if level == AckLevel::Full { self.debt.owed_segment(self.durable_id) } else { None }
    }

    /// Issues a sync alone, if nothing waits to be written and a commit requests a higher level for what was written.
    fn issue_sync_only(&mut self) -> Option<Issue> {
        let due = self.debt.is_used() && self.debt.needs_sync(self.syncing);
        if !due || !self.debt.may_issue(AckLevel::Full) {
            return None;
        }
        let (id, end) = (self.next_id, self.syncing);
        self.next_id += 1;
        let sync_first = planted!(FullWithoutDebtSync, self.sync_first(AckLevel::Full));
        self.debt.issue(id, AckLevel::Full, end, 0);
        let trim = self.trim;
        let flight = InFlight {
            id,
            records: 0,
            end,
            trim: self.durable_trim,
            cuts: self.issued_cuts(),
            level: AckLevel::Full,
            done: false,
            starts: false,
        };
        self.flight.push_back(flight);
        let (durable, acknowledged) = (self.durable, self.acknowledged());
        Some(Issue { id, batch: None, level: AckLevel::Full, sync_first, durable, acknowledged, trim })
    }

    /// The batch `id` has been written at its level; its buffer comes back. The durable LSN moves if every batch before
    /// this one is durable too.
    pub(crate) fn done(&mut self, id: u64, buf: AlignedBuf) {
        self.recycle(buf);
        if planted!(AckAfterFailure, self.failed) {
            return;
        }
        if let Some(flight) = self.flight.iter_mut().find(|flight| flight.id == id) {
            flight.done = true;
            self.debt.ended(flight.level);
            planted!(AckOutOfOrder(&mut self.durable, flight.end));
        }
        while let Some(flight) = self.flight.front().filter(|flight| flight.done) {
            self.done_id = flight.id;
            self.debt.reach(flight.level, flight.end);
            if flight.level >= self.config.own() {
                self.acknowledged_cuts = flight.cuts;
            }
            if planted!(RelaxedIsDurable, flight.level == AckLevel::Full) {
                self.durable = self.durable.max(flight.end);
                self.durable_trim = self.durable_trim.max(flight.trim).max(self.relaxed_trim);
                self.durable_id = flight.id;
            } else {
                self.relaxed_trim = self.relaxed_trim.max(flight.trim);
                planted!(RelaxedTrim(&mut self.durable_trim, self.relaxed_trim));
            }
            self.flight.pop_front();
        }
        if self.tagged.streams_from != 0 {
            self.tagged.streams.acknowledged(self.acknowledged());
            // The first LSN moves when the holds have been looked at.
            self.free_to = self.free_to();
            planted!(TrimUnlooked(self));
        }
    }

    /// Takes a buffer back: one of the ordinary size is used again.
    pub(crate) fn recycle(&mut self, buf: AlignedBuf) {
        if buf.capacity() == self.config.batch_bytes {
            self.free.push(buf);
        } else {
            self.large_bytes = self.large_bytes.saturating_sub(buf.capacity());
        }
    }

    /// A write or a sync failed: nothing will be issued or acknowledged any more.
    pub(crate) fn fail(&mut self) {
        planted!(GoOnAfterFailure(&mut self.flight, &mut self.durable, self.syncing), self.failed = true);
    }
}
