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
//! What is acknowledged outlives what the log promises; what is durable outlives a power cut. In a log of class power loss
//! the two are one; in a log of a lower class the durable LSN moves when a segment is full, after a trim and at close.
//!
//! Invariants: an append is accepted only if there is a prepared place for it, so a full disk shows before anything
//! is written; a batch in a new segment is issued only when everything in the old one is durable; while the batch
//! that starts a segment is in flight nothing else is; a log of any class starts a segment, closes and
//! makes a trim durable only when all before it is durable; after one failure nothing is ever issued or acknowledged
//! again; nothing is accepted or issued behind the close mark, where recovery ends.

use std::collections::{HashMap, VecDeque};

use crate::commit::batch::{Batch, Start};
use crate::commit::pin_floor::PinFloor;
use crate::commit::sync_debt::SyncDebt;
use crate::format::buffer::AlignedBuf;
use crate::format::free_buffers::FreeBuffers;
use crate::format::{
    BATCH_HEADER_BYTES, BatchKind, LogId, RECORD_HEADER_BYTES, RecordHead, Records, TAG_BYTES, Tag, TagKind,
    record_header, tagged_header,
};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::segment::cap::RECORDS_LEAVE;
use crate::segment::inventory::SegmentInventory;
use crate::segment::lifecycle::Task;
use crate::segment::{Place, Spare};
use crate::stream::StreamId;
use crate::stream::state::{Numbering, TaggedState};
use seawall_sys::durability::Class;
use seawall_sys::planted;

/// The header of a record and its tag.
const HEAD_BYTES: usize = RECORD_HEADER_BYTES + TAG_BYTES;

/// Blocks for marks that trims of streams leave in the last segment of a log at its cap.
const MARKS: u64 = 2;

/// What stays the same as long as the log is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreConfig {
    /// Which log this is.
    pub(crate) log_id: LogId,
    /// The epoch of this opening.
    pub(crate) epoch: u64,
    /// Block size in bytes.
    pub(crate) block_bytes: u16,
    /// Capacity of an ordinary buffer in bytes: the longest batch but for transactions that need more.
    pub(crate) batch_bytes: usize,
    /// Batches that may be in flight at the same time.
    pub(crate) depth: usize,
    /// Memory for records that are appended and not yet written, in bytes.
    pub(crate) memory_bytes: usize,
    /// What an acknowledged record outlives.
    pub(crate) class: Class,
}

impl CoreConfig {
    /// The level at which a record is acknowledged.
    pub(crate) fn own(&self) -> AckLevel {
        AckLevel::of(self.class)
    }
}

/// Where recovery ended and appending resumes.
#[derive(Clone, Debug)]
pub(crate) struct ResumePoint {
    /// Where the log ends.
    pub(crate) end: Lsn,
    /// The first LSN that must be present.
    pub(crate) trim: Lsn,
    /// Where the next batch goes.
    pub(crate) place: Place,
    /// Segments that are prepared.
    pub(crate) spares: Vec<Spare>,
    /// What the tagged records say.
    pub(crate) tagged: TaggedState,
}

/// Why an append was not accepted. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// All memory is waiting for the disk.
    Memory,
    /// No prepared segment has room; one of at least this many bytes is needed.
    Segment {
        /// Size of the segment that is needed, in bytes.
        bytes: u64,
    },
    /// A stream lags so far behind that what it needs must be rewritten first.
    Lag,
    /// A stream has no record of this number: those that it has begin at `first`, and the next one gets `next`.
    Number {
        /// The stream.
        stream: StreamId,
        /// The number that was named.
        number: u64,
        /// The first number.
        first: u64,
        /// The next number.
        next: u64,
    },
    /// Longer than the format allows.
    TooLong,
    /// The log failed, or its close mark is issued.
    Failed,
}

/// A batch handed out to be sealed and written, with what it may claim.
#[derive(Debug)]
pub(crate) struct Issue {
    /// Its number.
    pub(crate) id: u64,
    /// The batch; `None` if nothing is written and only the batches of lower levels are synced.
    pub(crate) batch: Option<Batch>,
    /// The level at which it is acknowledged.
    pub(crate) level: AckLevel,
    /// A segment that must be synced before anything of this is written, because batches in it are not durable yet.
    pub(crate) sync_first: Option<u64>,
    /// The durable LSN at this moment.
    pub(crate) durable: Lsn,
    /// The acknowledged LSN at this moment.
    pub(crate) acknowledged: Lsn,
    /// The first LSN that must be present.
    pub(crate) trim: Lsn,
}

/// What closing the log needs next.
#[derive(Debug)]
pub(crate) enum Closing {
    /// That this batch, which is in flight, ends.
    Wait(u64),
    /// That this is written, which was gathered before.
    Before(Issue),
    /// That the close mark is written: nothing else is in flight.
    Mark(Issue),
    /// Nothing is written any more.
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

/// The state machine.
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
    /// The first spare, while it is being replaced by a larger one. Nothing may start a later one meanwhile.
    held: Option<Spare>,
    /// Segments that may still be prepared under the cap of the log: see `segment/cap.rs`.
    rooms: usize,
    open: Option<Batch>,
    ready: VecDeque<Batch>,
    flight: VecDeque<InFlight>,
    free: FreeBuffers,
    /// Bytes of buffers that are neither free nor of the ordinary size.
    large_bytes: usize,
    next_id: u64,
    accepted_records: u64,
    durable_id: u64,
    /// The last batch that has been written and acknowledged at its level.
    done_id: u64,
    debt: SyncDebt,
    /// What the tagged records appended so far say.
    tagged: TaggedState,
    /// How often the log was cut by what is acknowledged.
    acknowledged_cuts: u64,
    now: Appending,
    pins: PinFloor,
    /// How far neither streams nor untagged records needed anything at some moment: what is appended later lies behind that.
    free_to: Lsn,
    /// The end of the oldest segment when the holds were looked at last: see [`Core::awaits_look`].
    looked_at: Lsn,
    /// Everything before this outlives the process in crash memory, and is not on the disk for that reason.
    in_memory: Lsn,
    /// Bytes of all issued batches, but for records that were rewritten.
    written: u64,
    /// How many of these records are accepted up to, while streams that lag are caught up with; `None` if any.
    written_max: Option<u64>,
    failed: bool,
    /// The close mark is issued: recovery ends there, so nothing may follow it.
    closed: bool,
}

/// What the numbers of a stream are behind a record of this tag, where they were `bounds`, the first and the next one; `None` if there
/// is no such stream.
fn changed(stream: StreamId, tag: &Tag, bounds: Option<(u64, u64)>) -> Result<Option<(u64, u64)>, Refusal> {
    let (first, next) = bounds.unwrap_or_default();
    let number = tag.number;
    let refused = Err(Refusal::Number { stream, number, first, next });
    match tag.kind {
        _ if tag.removes() => Ok(None),
        TagKind::StreamTrim if number > next => refused,
        TagKind::StreamTrim => Ok(bounds.map(|_| (first.max(number), next))),
        TagKind::StreamCut if number < first || number > next => refused,
        TagKind::StreamCut => Ok(bounds.map(|_| (first, number))),
        _ => Ok(Some((first, next.saturating_add(1)))),
    }
}

/// What is special about the record that is appended now.
#[derive(Clone, Copy, Debug, Default)]
struct Appending {
    /// Its batch is opened to state all cuts.
    restates: bool,
    /// It may start so many of the segments that other records leave: all if it lets segments go.
    takes: usize,
    /// It is taken from the memory of an earlier opening, and must keep its LSN.
    taken_over: bool,
}

impl Appending {
    /// Whether it may use all segments that other records leave: what was accepted under the cap once fits under it, and
    /// nothing can be trimmed before it is there.
    fn takes_what_records_leave(self) -> bool {
        self.takes == RECORDS_LEAVE || self.taken_over
    }

    /// The segments that it leaves.
    fn leaves(self) -> usize {
        if self.taken_over { 0 } else { RECORDS_LEAVE - self.takes }
    }
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
            held: None,
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
            written: 0,
            written_max: None,
            failed: false,
            closed: false,
        }
    }

    /// The buffers that hold no batch.
    pub(crate) fn free_buffers(&mut self) -> &mut FreeBuffers {
        &mut self.free
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

    /// The levels that are requested, issued and reached.
    pub(crate) fn debt(&self) -> &SyncDebt {
        &self.debt
    }

    /// A commit requests everything before `lsn` at this level.
    #[inline]
    pub(crate) fn request(&mut self, level: AckLevel, lsn: Lsn) {
        self.debt.request(level, lsn.min(self.appended));
    }

    /// Everything before this outlives what the log promises. In a log of class power loss that is the durable LSN.
    pub(crate) fn acknowledged(&self) -> Lsn {
        self.reached(self.config.own())
    }

    /// How often the log was cut, since it was opened, by what is acknowledged.
    pub(crate) fn acknowledged_cuts(&self) -> u64 {
        self.acknowledged_cuts
    }

    /// Everything before this outlives what the level says.
    pub(crate) fn reached(&self, level: AckLevel) -> Lsn {
        if level == AckLevel::Full { self.durable } else { self.debt.reached(level).max(self.durable) }
    }

    /// Whether the close mark is issued. A thread that saw an open log may come here afterwards.
    fn is_closed(&self) -> bool {
        planted!(AppendBehindClose, false, self.closed)
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
        let owed = owed || planted!(MemoryNeverWritten, false, end > self.syncing);
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

    /// Begins or ends taking records from memory.
    pub(crate) fn set_taking_over(&mut self, taking_over: bool) {
        self.now.taken_over = taking_over;
    }

    /// Whether records are being taken from memory.
    pub(crate) fn is_taking_over(&self) -> bool {
        self.now.taken_over
    }

    /// Everything before `lsn` outlives the process in crash memory.
    pub(crate) fn note_in_memory(&mut self, lsn: Lsn) {
        self.in_memory = self.in_memory.max(lsn);
    }

    /// The first LSN that must be present.
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

    /// Records accepted so far.
    pub(crate) fn accepted_records(&self) -> u64 {
        self.accepted_records
    }

    /// Full batches that wait to be issued.
    pub(crate) fn full_batches(&self) -> usize {
        self.ready.len()
    }

    /// The last batch that is durable.
    pub(crate) fn durable_batch(&self) -> u64 {
        self.durable_id
    }

    /// The last batch that has ended at its level, the ones before it as well.
    pub(crate) fn done_batch(&self) -> u64 {
        self.done_id
    }

    /// Prepared segments that wait to be started.
    pub(crate) fn spares(&self) -> usize {
        self.spares.len()
    }

    /// Batches in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Records in the batches in flight.
    pub(crate) fn records_in_flight(&self) -> u32 {
        self.flight.iter().map(|flight| flight.records).sum()
    }

    /// Whether the next batch need not wait for those in flight: it is at least as large.
    pub(crate) fn is_due(&self) -> bool {
        self.gathered_records() >= self.records_in_flight()
    }

    /// Records waiting in the batch under assembly and behind it.
    pub(crate) fn gathered_records(&self) -> u32 {
        self.ready.iter().chain(&self.open).map(|batch| batch.records).sum()
    }

    /// Accepts records of so many bytes until this is called again, but for those that are rewritten and what lets segments go;
    /// any number of them if there is none. Returns whether there was or is a bound.
    pub(crate) fn pace(&mut self, bytes: Option<u64>) -> bool {
        let most = bytes.map(|bytes| self.taken().saturating_add(bytes));
        std::mem::replace(&mut self.written_max, most).is_some() || most.is_some()
    }

    /// What records take that were not rewritten, with those that wait to be issued, bytes on the disk.
    fn taken(&self) -> u64 {
        let waiting = self.ready.iter().chain(&self.open);
        self.written + waiting.map(|batch| self.taken_by(batch)).sum::<u64>()
    }

    fn taken_by(&self, batch: &Batch) -> u64 {
        self.padded(batch.used).saturating_sub(batch.rewritten)
    }

    /// Whether records wait for streams that lag.
    pub(crate) fn lags(&self) -> bool {
        self.keep_pace().is_err()
    }

    /// Refuses a record that comes faster than streams that lag are caught up with.
    #[inline]
    fn keep_pace(&self) -> Result<(), Refusal> {
        let Some(most) = self.written_max else { return Ok(()) };
        if planted!(LagUnbounded, false, self.taken() >= most) { Err(Refusal::Lag) } else { Ok(()) }
    }

    /// Accepts one record.
    pub(crate) fn append(&mut self, payload: &[u8]) -> Result<Lsn, Refusal> {
        self.keep_pace()?;
        let head = record_header(payload.len(), false).ok_or(Refusal::TooLong)?;
        let bytes = RECORD_HEADER_BYTES + payload.len();
        self.reserve(bytes)?.put([&head, payload], 1);
        self.accepted_records += 1;
        let end = self.accepted(bytes);
        self.tagged.plain_end = end;
        Ok(end)
    }

    /// Accepts the next record of a stream; returns the end of it and its number in the stream.
    pub(crate) fn append_to(&mut self, stream: StreamId, payload: &[u8]) -> Result<(Lsn, u64), Refusal> {
        self.keep_pace()?;
        let number = self.tagged.streams.next_number(stream);
        let tag = Tag { kind: TagKind::Data, stream: stream.get(), number };
        self.append_tagged(&tag, payload).map(|end| (end, number))
    }

    /// Trims, cuts or removes a stream, if it has that number; what changes nothing is not appended. Returns the end.
    pub(crate) fn change_stream(&mut self, tag: &Tag) -> Result<Lsn, Refusal> {
        let Some(stream) = StreamId::new(tag.stream) else { return Ok(self.appended) };
        let bounds = self.tagged.streams.bounds(stream);
        let changed = changed(stream, tag, bounds)?;
        if bounds.is_none() || bounds == changed { Ok(self.appended) } else { self.append_tagged(tag, &[]) }
    }

    /// Whether streams have the numbers that a transaction trims and cuts, each with what stands in front of it.
    fn check_numbers(&self, records: &[u8]) -> Result<(), Refusal> {
        let mut streams = HashMap::new();
        for tag in Records::new(records).filter_map(|record| record.tag) {
            let Some(stream) = StreamId::new(tag.stream) else { continue };
            let bounds = streams.entry(stream).or_insert_with(|| self.tagged.streams.bounds(stream));
            *bounds = changed(stream, &tag, *bounds)?;
        }
        Ok(())
    }

    /// Accepts one tagged record; what it says holds from now on.
    pub(crate) fn append_tagged(&mut self, tag: &Tag, payload: &[u8]) -> Result<Lsn, Refusal> {
        let head = tagged_header(payload.len(), false, tag).ok_or(Refusal::TooLong)?;
        let bytes = head.len() + payload.len();
        // What lets segments go may use those that records must leave.
        let frees = matches!(tag.kind, TagKind::StreamTrim | TagKind::StreamCut);
        let holds = self.tagged.streams.holds() && self.is_full();
        if planted!(TrimsTakeLastSegment, false, frees && (holds || self.is_short(bytes))) {
            return self.hold_back(tag);
        }
        if !matches!(tag.kind, TagKind::LogCut | TagKind::LogCuts) {
            self.state_held(bytes)?;
        }
        // A copy may take one, so that a log at its cap can be trimmed whatever streams hold; the other one is for a trim.
        let rewrites = matches!(tag.kind, TagKind::Copy | TagKind::StreamState);
        self.now.takes = if frees { RECORDS_LEAVE } else { usize::from(rewrites) };
        let reserved = self.reserve(bytes).map(drop);
        self.now.takes = 0;
        reserved?;
        self.put_tagged(tag, [&head, payload])
    }

    /// Whether a trim would take some of the last segment, which is for those that let a segment go.
    fn is_short(&self, bytes: usize) -> bool {
        let open = self.open.as_ref();
        let joins =
            open.is_some_and(|open| open.kind == BatchKind::Records && open.used + bytes <= open.room);
        let at = self.place.offset + open.map_or(0, |open| self.padded(open.used));
        let block = u64::from(self.config.block_bytes);
        let fits = joins || at + self.padded(BATCH_HEADER_BYTES + bytes) + block <= self.place.data_end;
        self.ahead() == 0 || (self.ahead() == 1 && !fits)
    }

    /// A trim, cut or removal holds from now on, and is stated with the one that lets a segment go.
    fn hold_back(&mut self, tag: &Tag) -> Result<Lsn, Refusal> {
        if self.has_ended() {
            return Err(Refusal::Failed);
        }
        self.tagged.streams.hold_back(tag);
        self.let_held_go();
        Ok(self.appended)
    }

    /// States the trims that are held back if that lets the oldest segment go; whether it did. Not among records that are taken
    /// from memory: each keeps its LSN.
    pub(crate) fn let_held_go(&mut self) -> bool {
        if planted!(HeldStatedInTakeOver, false, self.now.taken_over) {
            return false;
        }
        let Some(end) = self.tagged.streams.held_lets_go() else { return false };
        if self.trim_without_streams() < end || self.pins.bound(end) < end {
            return false;
        }
        [None, Some(end)].into_iter().any(|before| self.state(&self.tagged.streams.held(before)).is_ok())
    }

    /// States all trims that are held back in front of a record of `bytes` bytes, if there is room for records.
    fn state_held(&mut self, bytes: usize) -> Result<(), Refusal> {
        if !self.tagged.streams.holds() || self.now.taken_over {
            return Ok(());
        }
        if self.is_full() {
            let block = u64::from(self.config.block_bytes);
            return Err(Refusal::Segment { bytes: self.padded(BATCH_HEADER_BYTES + bytes) + 3 * block });
        }
        self.state(&self.tagged.streams.held(None))
    }

    /// Appends trims as one transaction.
    fn state(&mut self, tags: &[Tag]) -> Result<(), Refusal> {
        let last = tags.len().saturating_sub(1);
        let heads = tags.iter().enumerate().filter_map(|(at, tag)| tagged_header(0, at < last, tag));
        let mut records: Vec<u8> = heads.flatten().collect();
        self.now.takes = RECORDS_LEAVE;
        let reserved = self.reserve(records.len()).map(drop);
        self.now.takes = 0;
        reserved?;
        self.number(&mut records, Numbering::Kept);
        let Some(batch) = &mut self.open else { return Err(Refusal::Failed) };
        batch.put([&records, &[]], u32::try_from(tags.len()).unwrap_or(u32::MAX));
        self.accepted(records.len());
        Ok(())
    }

    /// Puts a tagged record with its header into the open batch, which has room for it.
    fn put_tagged(&mut self, tag: &Tag, [head, payload]: [&[u8]; 2]) -> Result<Lsn, Refusal> {
        let Some(batch) = &mut self.open else { return Err(Refusal::Failed) };
        let (place, segment) = ((self.appended, head.len() + payload.len()), batch.segment);
        batch.note(tag, place.1);
        batch.put([head, payload], 1);
        self.accepted_records += u64::from(tag.kind == TagKind::Data);
        self.tagged.apply(tag, payload, place, segment);
        Ok(self.accepted(place.1))
    }

    /// Accepts the records of one transaction, encoded already, all into one batch; those of streams get their numbers.
    pub(crate) fn append_encoded(
        &mut self,
        records: &mut [u8],
        count: u32,
        numbering: Numbering,
    ) -> Result<Lsn, Refusal> {
        planted!(
            SplitTransaction,
            if count > 1 {
                return crate::testing::mutant::split(self, records, numbering);
            }
        );
        self.admit(records, numbering)?;
        self.reserve(records.len())?;
        self.number(records, numbering);
        let Some(batch) = &mut self.open else { return Err(Refusal::Failed) };
        batch.put([records, &[]], count);
        self.accepted_records += u64::from(count);
        Ok(self.accepted(records.len()))
    }

    /// Whether a transaction may be appended now; states in front of it what is held back.
    fn admit(&mut self, records: &[u8], numbering: Numbering) -> Result<(), Refusal> {
        if numbering != Numbering::Kept {
            self.keep_pace()?;
        }
        if numbering == Numbering::Checked {
            self.check_numbers(records)?;
        }
        if numbering == Numbering::Untagged {
            return Ok(());
        }
        self.state_held(records.len())
    }

    /// Takes in the tags of the records of a transaction, as part of the open batch, and gives those of streams their numbers.
    fn number(&mut self, records: &mut [u8], numbering: Numbering) {
        if numbering == Numbering::Untagged {
            self.tagged.plain_end = self.appended.saturating_add(records.len() as u64);
            return;
        }
        let Some(batch) = &mut self.open else { return };
        let (mut at, mut lsn) = (0, self.appended);
        while let Some(head) = records[at..].first_chunk::<RECORD_HEADER_BYTES>() {
            let head = RecordHead::read(*head);
            let end = lsn.saturating_add(head.record_bytes() as u64);
            let room = at + RECORD_HEADER_BYTES..at + head.front_bytes();
            if let Some(mut tag) = records[room.clone()].try_into().ok().and_then(Tag::decode) {
                if numbering != Numbering::Kept {
                    self.tagged.streams.number(&mut tag);
                    records[room].copy_from_slice(&tag.encode());
                }
                let payload = at + head.front_bytes()..at + head.record_bytes();
                batch.note(&tag, head.record_bytes());
                let place = (lsn, head.record_bytes());
                if planted!(
                    TransactionTrimsUnseen,
                    numbering == Numbering::Kept || tag.kind == TagKind::Data,
                    true
                ) {
                    planted!(
                        NumberedOnceOnly,
                        (),
                        self.tagged.apply(&tag, &records[payload], place, batch.segment)
                    );
                }
            } else {
                self.tagged.plain_end = end;
            }
            at += head.record_bytes();
            lsn = end;
        }
    }

    /// Lends a buffer to assemble records in, [`BATCH_HEADER_BYTES`] from its start, if enough are left.
    pub(crate) fn lend(&mut self) -> Option<AlignedBuf> {
        if self.free.len() > 2 && !self.has_ended() { self.free.pop() } else { None }
    }

    /// Takes a lent buffer back.
    pub(crate) fn give_back(&mut self, buf: AlignedBuf) {
        self.recycle(buf);
    }

    /// Accepts a transaction that was assembled in a lent buffer, as a batch of its own, without copying it; `sum` is
    /// the checksum of its records. Either way the caller gives back what is left in `buf`.
    pub(crate) fn adopt(
        &mut self,
        buf: &mut Option<AlignedBuf>,
        used: usize,
        (count, numbering): (u32, Numbering),
        sum: u32,
    ) -> Result<Lsn, Refusal> {
        if self.has_ended() || self.open.as_ref().is_some_and(|open| open.kind == BatchKind::Close) {
            return Err(Refusal::Failed);
        }
        if self.appended.checked_add(used as u64).is_none() {
            return Err(Refusal::TooLong);
        }
        let records = buf.as_ref().map_or(&[][..], |buf| &buf.bytes()[BATCH_HEADER_BYTES..used]);
        self.admit(records, numbering)?;
        self.open_batch(BatchKind::Records, used, buf)?;
        let Some(batch) = &mut self.open else { return Err(Refusal::Failed) };
        (batch.used, batch.sum, batch.summed, batch.records) = (used, sum, used, count);
        self.number_adopted(used, numbering);
        self.accepted_records += u64::from(count);
        Ok(self.accepted(used - BATCH_HEADER_BYTES))
    }

    /// Numbers the records of the open batch, which were encoded elsewhere. The checksum that came with them does not hold
    /// any more: it is computed when the batch is sealed.
    fn number_adopted(&mut self, used: usize, numbering: Numbering) {
        let Some(batch) = &mut self.open else { return };
        if numbering == Numbering::Untagged {
            self.tagged.plain_end = batch.end();
            return;
        }
        (batch.sum, batch.summed) = (0, BATCH_HEADER_BYTES);
        let mut buf = std::mem::replace(&mut batch.buf, AlignedBuf::zeroed(0));
        self.number(&mut buf.bytes_mut()[BATCH_HEADER_BYTES..used], numbering);
        if let Some(batch) = &mut self.open {
            batch.buf = buf;
        }
    }

    fn accepted(&mut self, bytes: usize) -> Lsn {
        self.appended = self.appended.saturating_add(bytes as u64);
        self.appended
    }

    /// The batch that has room for `bytes` more.
    fn reserve(&mut self, bytes: usize) -> Result<&mut Batch, Refusal> {
        if self.has_ended() {
            return Err(Refusal::Failed);
        }
        if u32::try_from(bytes).is_err() || self.appended.checked_add(bytes as u64).is_none() {
            return Err(Refusal::TooLong);
        }
        // Without a segment ahead what is left of this one is for marks.
        let joins = |open: &Batch| {
            let planted = planted!(RecordsJoinLastTrim, true, false) && open.kind == BatchKind::Records;
            planted || self.now.takes_what_records_leave() || self.ahead() > 0
        };
        let fits = self.open.as_ref().is_some_and(|open| open.used + bytes <= open.room && joins(open));
        if !fits {
            self.open_batch(BatchKind::Records, BATCH_HEADER_BYTES + bytes, &mut None)?;
        }
        let batch = self.open.as_mut().filter(|open| open.kind != BatchKind::Close).ok_or(Refusal::Failed)?;
        // A record that joins a waiting mark turns it into a batch of records.
        planted!(RecordsInMark, (), batch.kind = BatchKind::Records);
        Ok(batch)
    }

    fn padded(&self, used: usize) -> u64 {
        (used as u64).next_multiple_of(self.config.block_bytes.into())
    }

    /// Begins a new batch that can hold `used` bytes, header included; the one before it is ready to be issued.
    /// Takes the buffer in `own` if there is one.
    fn open_batch(
        &mut self,
        kind: BatchKind,
        used: usize,
        own: &mut Option<AlignedBuf>,
    ) -> Result<(), Refusal> {
        let block = u64::from(self.config.block_bytes);
        let padded = self.padded(used);
        let mut place = self.place;
        if let Some(open) = planted!(PlaceReused, None, self.open.as_ref()) {
            place.offset += self.padded(open.used);
        }
        // One block stays free for the close mark.
        let reserve = if kind == BatchKind::Close { 0 } else { block };
        let is_records = kind == BatchKind::Records;
        // In the last segment what frees others leaves room for the marks that make it durable.
        let marks = if self.now.takes_what_records_leave() { MARKS * block } else { u64::MAX };
        if is_records
            && self.ahead() == 0
            && place.offset.saturating_add(padded).saturating_add(marks) > place.data_end
        {
            return Err(Refusal::Segment { bytes: padded + 3 * block });
        }
        let mut start = None;
        if place.offset + padded + reserve > place.data_end || self.now.restates {
            // Header, batch, close mark, second copy of the header; in the last segment a mark as well.
            // What is taken from memory states its cuts itself, and another record in between would move it.
            let silent = self.now.restates || planted!(MemoryMoved, false, self.now.taken_over);
            let restated = if silent { None } else { self.tagged.restatement(self.cuts_from_here()) };
            let first =
                restated.as_ref().map_or(0, |cuts| self.padded(BATCH_HEADER_BYTES + HEAD_BYTES + cuts.len()));
            let behind = if is_records && self.ahead() <= 1 { MARKS } else { 1 };
            let needed = first + padded + (2 + behind) * block;
            // The batch that restates the cuts does not check `may_start`: the records behind it did.
            let asks = is_records && planted!(CutsTakeNoLastSegment, true, !self.now.restates);
            // A mark that states no trim leaves the last one to those that do.
            let idle = kind == BatchKind::Mark && self.durable_trim == self.trim && self.ahead() <= 1;
            let held = self.held.is_some() || idle || (asks && !self.may_start());
            let spare = self.spares.front().filter(|spare| spare.bytes >= needed && !held);
            let spare = *spare.ok_or(Refusal::Segment { bytes: needed })?;
            if let Some(cuts) = restated {
                self.restate(&cuts)?;
                return self.open_batch(kind, used, own);
            }
            // A crash may leave the header without the batch behind it: so it names an earlier statement than its own.
            let streams_from = self.tagged.streams_from;
            let cuts_from = planted!(
                CutsFromUnwritten,
                if self.now.restates { spare.number } else { self.tagged.cuts_from },
                self.tagged.cuts_from
            );
            start = Some(Start { bytes: spare.bytes, previous: place.segment, streams_from, cuts_from });
            place = Place { segment: spare.number, offset: block, data_end: spare.bytes - block };
        }
        let capacity = usize::try_from(padded).map_err(|_| Refusal::TooLong)?;
        let buf = match own.take() {
            Some(own) => own,
            None => self.buffer(capacity)?,
        };
        if start.is_some() {
            self.spares.pop_front();
            self.tagged.streams.segment_started(self.appended);
        }
        let room = self.room(&place, (kind, padded)).min(buf.capacity());
        let batch = Batch { room, start, ..Batch::empty(self.next_id, kind, buf, self.appended, place) };
        self.next_id += 1;
        self.place = place;
        if let Some(full) = self.open.replace(batch) {
            self.ready.push_back(full);
        }
        Ok(())
    }

    /// How long a batch of this kind at `place` may grow that fills `padded` bytes already. The close mark has its block
    /// behind it, and in the last segment the marks have theirs.
    fn room(&self, place: &Place, (kind, padded): (BatchKind, u64)) -> usize {
        let blocks = match kind {
            BatchKind::Close => 0,
            _ if self.ahead() == 0 => planted!(RecordsJoinLastTrim, 1, MARKS),
            _ => 1,
        };
        let end = place.data_end.saturating_sub(blocks * u64::from(self.config.block_bytes));
        usize::try_from(end.saturating_sub(place.offset).max(padded)).unwrap_or(usize::MAX)
    }

    /// Where the cuts begin that a new segment states again: the first LSN as the disk knows it. Memory that outlives the process
    /// keeps the statement, and not the later trim of the batch that it was written in.
    pub(crate) fn cuts_from_here(&self) -> Lsn {
        planted!(CutsRestatedPastTrim, self.trim, self.durable_trim)
    }

    /// Starts the next segment with all cuts that are still needed.
    fn restate(&mut self, cuts: &[u8]) -> Result<(), Refusal> {
        let tag = Tag { kind: TagKind::LogCuts, stream: 0, number: 0 };
        let head = tagged_header(cuts.len(), false, &tag).ok_or(Refusal::TooLong)?;
        let bytes = head.len() + cuts.len();
        self.now.restates = true;
        let opened = self.open_batch(BatchKind::Records, BATCH_HEADER_BYTES + bytes, &mut None);
        self.now.restates = false;
        opened?;
        self.put_tagged(&tag, [&head, cuts]).map(drop)
    }

    fn buffer(&mut self, capacity: usize) -> Result<AlignedBuf, Refusal> {
        if capacity <= self.config.batch_bytes {
            return self.free.pop().ok_or(Refusal::Memory);
        }
        self.admit_large(capacity)?;
        Ok(AlignedBuf::zeroed(capacity))
    }

    /// Whether records that fill `used` bytes, header room included, need a buffer of their own size.
    #[inline]
    pub(crate) fn is_large(config: &CoreConfig, used: usize) -> bool {
        used.next_multiple_of(config.block_bytes.into()) > config.batch_bytes
    }

    /// Sets memory aside for a buffer of `capacity` bytes, more than an ordinary one, that the caller makes; it comes back
    /// with the buffer. Returns the end of what was appended.
    pub(crate) fn admit_large(&mut self, capacity: usize) -> Result<Lsn, Refusal> {
        if self.has_ended() {
            return Err(Refusal::Failed);
        }
        if self.large_bytes > 0 && self.large_bytes + capacity > self.config.memory_bytes {
            return Err(Refusal::Memory);
        }
        self.large_bytes += capacity;
        Ok(self.appended)
    }

    /// Gathers a batch without records: a durable mark or the close mark. A durable mark states what is acknowledged now.
    /// If records wait that no commit has requested, the mark goes in front of them; where it has no place there, their
    /// batch is issued and states it. Where the segment is full the next one starts with the mark. Returns whether
    /// there is something to issue.
    pub(crate) fn mark(&mut self, kind: BatchKind) -> bool {
        let owed = kind == BatchKind::Close && self.owed_to_close().is_some();
        if self.has_ended() || owed || self.acknowledged() != self.syncing || !self.ready.is_empty() {
            return false;
        }
        if self.open.is_some() {
            self.mark_in_front();
            return kind != BatchKind::Close;
        }
        let close = kind == BatchKind::Close;
        let room = self.place.offset + u64::from(self.config.block_bytes) <= self.place.data_end;
        (room || !close) && self.open_batch(kind, BATCH_HEADER_BYTES, &mut None).is_ok()
    }

    /// Puts a durable mark in front of the batch under assembly, which moves one block back, unless its segment starts
    /// with it or there is no room or memory for both.
    fn mark_in_front(&mut self) {
        let block = u64::from(self.config.block_bytes);
        let padded = self.open.as_ref().map_or(0, |open| self.padded(open.used));
        let is_last = self.ahead() == 0;
        let Some(open) =
            self.open.as_mut().filter(|open| open.kind == BatchKind::Records && open.start.is_none())
        else {
            return;
        };
        // Behind both there must still be room for the close mark, and in the last segment for one that states a trim.
        let behind = if is_last { MARKS } else { 1 };
        if open.offset + block + padded + behind * block > self.place.data_end {
            return;
        }
        let Some(buf) = self.free.pop() else { return };
        let place = Place { segment: open.segment, offset: open.offset, ..self.place };
        let mark = Batch::empty(open.id, BatchKind::Mark, buf, open.lsn, place);
        open.id = self.next_id;
        self.next_id += 1;
        open.offset += block;
        self.place.offset = open.offset;
        let left = self.place.data_end.saturating_sub(behind * block).saturating_sub(open.offset);
        open.room = usize::try_from(left.max(padded)).unwrap_or(usize::MAX).min(open.buf.capacity());
        self.ready.push_back(mark);
    }

    /// Whether something acknowledged has no witness yet, so that a mark would state something new. What was appended
    /// and not issued does not count, because it may never be committed.
    pub(crate) fn needs_mark(&self) -> bool {
        let acknowledged = self.acknowledged();
        let news = self.witnessed < acknowledged || self.durable_trim < self.trim;
        let end = planted!(MarkBehindEverything, self.appended, self.syncing);
        news && acknowledged == end
    }

    /// The level that everything appended must still reach before the close mark is written, and the end of what was
    /// appended: in full, in a log of any class, because the mark says that nothing is left which a power cut could take.
    pub(crate) fn owed_to_close(&self) -> Option<(AckLevel, Lsn)> {
        let level = planted!(RelaxedCloseWithoutSync, self.config.own(), AckLevel::Full);
        (self.reached(level) < self.appended).then_some((level, self.appended))
    }

    /// Takes the next step towards a closed log, when everything is durable. The close mark is written alone: a mark that
    /// is still in flight would be missing in front of it after a power cut, and the log would not count as closed.
    pub(crate) fn close(&mut self) -> Closing {
        if let Some(last) = planted!(CloseDuringMark, None, self.flight.back()) {
            return Closing::Wait(last.id);
        }
        if self.open.is_some() || !self.ready.is_empty() {
            return self.issue().map_or(Closing::Refused, Closing::Before);
        }
        let mark = self.mark(BatchKind::Close).then(|| self.issue()).flatten();
        self.closed |= mark.is_some();
        mark.map_or(Closing::Refused, Closing::Mark)
    }

    /// The level of a batch. The start of a segment, the close mark, a mark that makes a trim durable, and every mark of a
    /// log of class power loss are issued in full.
    fn level_of(&self, kind: BatchKind, starts: bool) -> AckLevel {
        let relaxed = self.config.own() != AckLevel::Full;
        let full = match kind {
            _ if starts => planted!(RelaxedStartWithoutSync, !relaxed, true),
            BatchKind::Records => false,
            BatchKind::Mark => !relaxed || self.durable_trim < self.trim,
            BatchKind::Close | BatchKind::Open => planted!(RelaxedCloseWithoutSync, !relaxed, true),
        };
        if full { AckLevel::Full } else { self.debt.next_level(self.durable_id) }
    }

    /// The first LSN as the disk knows it: what lies before it may be removed.
    pub(crate) fn durable_trim(&self) -> Lsn {
        planted!(RetireBeforeMark, self.trim, self.durable_trim)
    }

    /// How far streams let the first LSN move by now. Asked before the holds are looked at: what is let go afterwards waits for
    /// the next look.
    pub(crate) fn let_go(&self) -> Lsn {
        let needed = if self.tagged.streams_from == 0 { None } else { self.tagged.streams.needed_from() };
        planted!(TrimPastStreams, None, needed).unwrap_or(Lsn::MAX).min(self.acknowledged())
    }

    /// Moves the first LSN that must be present: to `lsn` for records of no stream, and as streams had `let_go`. Takes effect on
    /// disk with the next batch, so not where there is none. Never moves back, never past what is acknowledged or pinned. Returns
    /// what it is now.
    pub(crate) fn set_trim(&mut self, lsn: Lsn, let_go: Lsn) -> Lsn {
        if self.is_closed() {
            return self.trim;
        }
        self.plain_trim = self.plain_trim.max(lsn.min(self.acknowledged()));
        let bound = self.free_to();
        // In a log without streams whoever trims has looked at the pins itself.
        let bound = if self.tagged.streams_from == 0 { bound } else { self.pins.bound(bound.min(let_go)) };
        let oldest_end = self.oldest_end();
        if let_go >= oldest_end {
            self.looked_at = oldest_end;
        }
        self.trim = self.trim.max(bound);
        self.tagged.streams.trimmed(self.trim);
        self.trim
    }

    /// How far neither untagged records nor streams need what is acknowledged.
    fn trim_bound(&self) -> Lsn {
        self.tagged.trim_bound(self.plain_trim).min(self.acknowledged())
    }

    fn free_to(&self) -> Lsn {
        self.free_to.max(self.trim_bound())
    }

    fn oldest_end(&self) -> Lsn {
        self.tagged.streams.oldest().map_or(Lsn::MAX, |(_, end)| end)
    }

    /// Whether streams have let the oldest segment go, which pins and holds may keep.
    pub(crate) fn is_let_go(&self) -> bool {
        self.tagged.streams_from != 0 && self.oldest_end() <= self.free_to()
    }

    /// Whether they have since the holds were looked at.
    pub(crate) fn awaits_look(&self) -> bool {
        self.looked_at != self.oldest_end() && self.is_let_go()
    }

    /// How far the log could be trimmed if no stream needed anything.
    pub(crate) fn trim_without_streams(&self) -> Lsn {
        if self.tagged.plain_end <= self.plain_trim { Lsn::MAX } else { self.plain_trim }
    }

    /// What pins hold.
    pub(crate) fn pins(&self) -> &PinFloor {
        &self.pins
    }

    /// What the tagged records say.
    pub(crate) fn tagged(&self) -> &TaggedState {
        &self.tagged
    }

    /// The segments that can still be started, prepared or not.
    fn ahead(&self) -> usize {
        self.spares.len().saturating_add(self.rooms)
    }

    /// Whether the log is at its cap: records may start no segment.
    pub(crate) fn is_full(&self) -> bool {
        self.ahead() <= RECORDS_LEAVE
    }

    /// Whether the next record may start a segment, and leaves enough to trims and openings.
    fn may_start(&self) -> bool {
        self.ahead() > planted!(RecordsTakeLastSpare, 0, self.now.leaves())
    }

    /// So many segments may still be prepared.
    pub(crate) fn set_rooms(&mut self, rooms: usize) {
        self.rooms = rooms;
    }

    /// Makes a prepared segment available; one that was prepared to replace the held spare takes its place.
    pub(crate) fn add_spare(&mut self, spare: Spare) {
        if self.held.take().is_some() {
            self.spares.push_front(spare);
        } else {
            self.spares.push_back(spare);
        }
    }

    /// Makes the held spare available again: it was not replaced.
    pub(crate) fn release_spare(&mut self) {
        if let Some(held) = self.held.take() {
            self.spares.push_front(held);
        }
    }

    /// The spare that is being replaced.
    pub(crate) fn held_spare(&self) -> Option<Spare> {
        self.held
    }

    /// The next segment task, if there is any, when appends need a segment of `needed` bytes; `needed` is cleared if that is
    /// there. A first spare that is too small is held until it is replaced.
    pub(crate) fn next_task(
        &mut self,
        inventory: &mut SegmentInventory,
        needed: &mut Option<u64>,
    ) -> Option<Task> {
        self.rooms = inventory.cap().rooms();
        let (first, starts) = (self.spares.front().copied(), self.may_start());
        *needed = needed.filter(|bytes| !starts || first.is_none_or(|spare| spare.bytes < *bytes));
        let task = if let Some(task) = needed.and_then(|bytes| inventory.task_for(bytes, first)) {
            self.held = self.spares.pop_front();
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
        if self.has_ended() || planted!(IssueDuringStart, false, busy) {
            return None;
        }
        let Some(next) = self.ready.front().or(self.open.as_ref()) else { return self.issue_sync_only() };
        let wait = next.start.is_some() && !self.flight.is_empty();
        if planted!(RotateBeforeDurable, false, wait) {
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
        self.written += self.taken_by(&batch);
        let owed = self.sync_first(level);
        let sync_first = planted!(
            FullWithoutDebtSync,
            owed.filter(|_| starts),
            planted!(
                RotateBeforeDebtSync,
                owed.filter(|_| !starts),
                planted!(
                    RelaxedMarkBeforeSync,
                    owed.filter(|_| batch.kind != BatchKind::Mark || self.config.own() == AckLevel::Full),
                    owed
                )
            )
        );
        self.debt.issue(id, level, end, batch.segment);
        let (trim, cuts) = (self.trim, self.issued_cuts());
        let flight = InFlight { id, records, end, trim, cuts, level, done: false, starts };
        self.flight.push_back(flight);
        // A batch may only claim what is durable: relaxed batches may be lost in a power cut.
        let durable = planted!(
            WitnessTooMuch,
            batch.lsn,
            planted!(WitnessClaimsRelaxed, self.reached(AckLevel::Process), self.durable)
        );
        let acknowledged = self.acknowledged().max(durable);
        self.witnessed = self.witnessed.max(acknowledged);
        planted!(AckAtIssue, self.durable = self.syncing);
        planted!(
            RelaxedAckAtIssue,
            if level != AckLevel::Full {
                self.debt.reach(level, end);
            }
        );
        Some(Issue { id, batch: Some(batch), level, sync_first, durable, acknowledged, trim: self.trim })
    }

    /// How often the log was cut by what is issued.
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
        let sync_first = planted!(FullWithoutDebtSync, None, self.sync_first(AckLevel::Full));
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
        if planted!(AckAfterFailure, false, self.failed) {
            return;
        }
        if let Some(flight) = self.flight.iter_mut().find(|flight| flight.id == id) {
            flight.done = true;
            self.debt.ended(flight.level);
            planted!(AckOutOfOrder, self.durable = self.durable.max(flight.end));
        }
        while let Some(flight) = self.flight.front().filter(|flight| flight.done) {
            self.done_id = flight.id;
            self.debt.reach(flight.level, flight.end);
            if flight.level >= self.config.own() {
                self.acknowledged_cuts = flight.cuts;
            }
            if planted!(RelaxedIsDurable, true, flight.level == AckLevel::Full) {
                self.durable = self.durable.max(flight.end);
                self.durable_trim = self.durable_trim.max(flight.trim).max(self.relaxed_trim);
                self.durable_id = flight.id;
            } else {
                self.relaxed_trim = self.relaxed_trim.max(flight.trim);
                planted!(RelaxedTrim, self.durable_trim = self.relaxed_trim);
            }
            self.flight.pop_front();
        }
        if self.tagged.streams_from != 0 {
            self.tagged.streams.acknowledged(self.acknowledged());
            // The first LSN moves when the holds have been looked at.
            self.free_to = self.free_to();
            planted!(TrimUnlooked, _ = self.set_trim(Lsn::ZERO, Lsn::MAX));
        }
    }

    fn recycle(&mut self, buf: AlignedBuf) {
        if buf.capacity() == self.config.batch_bytes {
            self.free.push(buf);
        } else {
            self.large_bytes = self.large_bytes.saturating_sub(buf.capacity());
        }
    }

    /// A write or a sync failed: nothing will be issued or acknowledged any more.
    pub(crate) fn fail(&mut self) {
        planted!(
            GoOnAfterFailure,
            {
                self.flight.clear();
                self.durable = self.syncing;
            },
            self.failed = true
        );
    }
}
