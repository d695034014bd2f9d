//! Simulates one use of the log from opening to crash, and records its trace.
//!
//! [`Life`] drives the real core, recovery, segment tasks and batch completion on a simulated disk, one small random
//! action at a time, and keeps a trace in which the events of the disk and the entries of the ledger stand in the
//! order in which they happened.

mod bounded;
mod memory;
mod tagged;

use std::collections::{BTreeMap, HashMap};

use self::bounded::Bounds;
use super::disk::{Cache, Event, FaultPlan, SimDisk};
use super::driver::{Execution, JobState};
use super::media::Media;
use super::memory::{MemoryEvent, Remains, SimMemory, Stores, boot_id};
use super::outside::encode_transaction;
use super::rng::Rng;
use crate::commit::seal::Chain;
use crate::commit::state::{Closing, Core, CoreConfig, Issue, Refusal};
use crate::crash_memory::left::{Left, LeftInMemory};
use crate::crash_memory::ring::Ring;
use crate::error::Error;
use crate::format::buffer::AlignedBuf;
use crate::format::checksum::crc32c;
use crate::format::{
    BATCH_HEADER_BYTES, BatchKind, LogId, RECORD_HEADER_BYTES, Tag, record_header, segment_name,
};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::recovery::{self, Plan, Recovered};
use crate::segment::inventory::SegmentInventory;
use crate::segment::lifecycle::{Progress, SegmentTask};
use crate::segment::retention::Retention;
use crate::storage::disk::{Access, Disk};
use crate::stream::cuts::CutList;
use crate::stream::state::Numbering;
use crate::stream::table::Needed;
use crate::testing::oracle::{Issued, Ledger, Violation, Witness};
use seawall_sys::completion::SubmitOrder;
use seawall_sys::durability::Durability;

/// Segment size of simulated logs in bytes, where nothing else is said.
pub(super) const SEGMENT_BYTES: u64 = 8 * 1024;
/// Block size of simulated logs in bytes.
pub(super) const BLOCK_BYTES: u16 = 512;
const BATCH_BYTES: usize = 2048;
const MEMORY_BYTES: usize = 8192;

/// As plain calls, a ring without links and a ring with them submit the steps of a batch.
const ORDERS: [SubmitOrder; 3] = [SubmitOrder::OneByOne, SubmitOrder::Grouped, SubmitOrder::Linked];

/// How recovery is done on the simulated disk.
pub(crate) fn plan(dsync: bool, class: Durability) -> Plan {
    plan_with(dsync, class, SEGMENT_BYTES, None)
}

/// The same with new segments of `segment_bytes` bytes, and a cap if there is one.
fn plan_with(dsync: bool, class: Durability, segment_bytes: u64, disk_bytes_max: Option<u64>) -> Plan {
    Plan {
        new_id: LogId(*b"a simulated log!"),
        block_bytes: BLOCK_BYTES,
        segment_bytes,
        // Small, so that walks through a segment often go past the end of what was read.
        read_bytes: 4096,
        dsync,
        class,
        create: true,
        disk_bytes_max,
    }
}

/// One entry of the trace.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Disk(Event),
    /// Something was stored in memory that outlives the process.
    Memory(MemoryEvent),
    Issued(Issued),
    /// Everything before this LSN was acknowledged.
    Acknowledged(Lsn),
    /// Everything before this LSN was acknowledged as outliving the process.
    Written(Lsn),
    /// Everything before this LSN was acknowledged as outliving a crash of the system.
    CrashProof(Lsn),
    Trimmed(Lsn),
    /// A batch that says something about the durable LSN is durable.
    Witnessed(Witness),
    /// The trims that a log at its cap holds back from this LSN on are about to be noted apart, or are noted.
    Holds(Lsn, Vec<Tag>, bool),
    /// An opening found the log to end at one LSN, and handed it out up to another, with what it took from memory.
    Exposed(Lsn, Lsn),
}

impl Step {
    /// Enters the step into a ledger.
    pub(crate) fn enter(&self, ledger: &mut Ledger) {
        match self {
            Self::Disk(_) | Self::Memory(_) => {}
            Self::Issued(record) => ledger.issued.push(record.clone()),
            Self::Acknowledged(lsn) => ledger.acknowledged = ledger.acknowledged.max(*lsn),
            Self::Written(lsn) => ledger.written = ledger.written.max(*lsn),
            Self::CrashProof(lsn) => ledger.crash_proof = ledger.crash_proof.max(*lsn),
            Self::Trimmed(lsn) => ledger.trimmed = ledger.trimmed.max(*lsn),
            Self::Witnessed(witness) => ledger.witnesses.push(*witness),
            Self::Holds(at, tags, noted) => {
                let now = (*at, tags.clone());
                if !noted {
                    ledger.holding.push(now);
                } else if ledger.holding.last() == Some(&now) {
                    ledger.holding.clear();
                    ledger.held = Some(now);
                } else {
                    // An opening found one of them. Its file still names an earlier LSN: damage may end the log before this
                    // opening, and after that LSN.
                    ledger.holding.extend(ledger.held.replace(now));
                }
            }
            Self::Exposed(found, end) => ledger.exposed_behind(*found, *end),
        }
    }
}

/// How one life is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// In the middle of whatever it does.
    Cut,
    /// Idle, with or without records that no commit requests, and the mark that says what is durable is written.
    Idle,
    /// By a clean close.
    Close,
}

/// How one life is to go.
#[expect(clippy::struct_excessive_bools, reason = "each is a dimension of the campaign")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Whether writes are durable on completion.
    pub(crate) dsync: bool,
    /// Batches in flight at the same time.
    pub(crate) depth: usize,
    /// Actions before it ends.
    pub(crate) actions: u32,
    /// Which life this is: part of every record.
    pub(crate) number: u64,
    /// How it ends, as far as the disk lets it.
    pub(crate) ending: Ending,
    /// Whether some commits request less than the log promises.
    pub(crate) relaxed: bool,
    /// Whether it has streams and cuts.
    pub(crate) tagged: bool,
    /// Whether nothing but these is appended, so that the first LSN moves by itself.
    pub(crate) streams_alone: bool,
    /// Whether those that are to outlive the process only go to memory.
    pub(crate) memory: bool,
    /// Size of the segments that it makes in bytes: another one than the life before it may have had.
    pub(crate) segment_bytes: u64,
    /// What the log promises.
    pub(crate) class: Durability,
    /// How reads get past the page cache.
    pub(crate) cache: Cache,
    /// What it may take of the disk, in bytes, if that is bounded.
    pub(crate) cap: Option<u64>,
    /// The rules by which it trims itself, while readers pin and release it.
    pub(crate) retention: Retention,
    /// Whether another process holds it now and then.
    pub(crate) holds: bool,
}

impl Habits {
    /// A log of class power loss, on a disk whose direct reads bypass the cache, that is closed after 500 actions.
    pub(crate) fn plain(number: u64, dsync: bool, depth: usize) -> Self {
        Self {
            dsync,
            depth,
            actions: 500,
            number,
            ending: Ending::Close,
            relaxed: false,
            tagged: false,
            streams_alone: false,
            memory: false,
            segment_bytes: SEGMENT_BYTES,
            class: Durability::PowerLoss,
            cache: Cache::Bypassed,
            cap: None,
            retention: Retention::default(),
            holds: false,
        }
    }
}

/// How a life ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) trace: Vec<Step>,
    /// Why opening failed, if it did.
    pub(crate) refused: Option<Error>,
    /// What was acknowledged after a failure, if anything was.
    pub(crate) acknowledged_after_failure: Option<Lsn>,
    /// The size of a segment that a record waited for and that no task was about to prepare.
    pub(crate) stuck: Option<u64>,
    /// What its cap, its rules or a reader of its streams found broken.
    pub(crate) broken: Option<Violation>,
    /// What was found in memory.
    pub(crate) left: LeftInMemory,
    /// The first LSN that was requested.
    pub(crate) trim: Lsn,
    pub(crate) operations: u64,
    /// Operations that were made to fail.
    pub(crate) faults: u64,
    /// The same by the name of the operation.
    pub(crate) failed: BTreeMap<&'static str, u64>,
    /// Openings that took another descriptor.
    pub(crate) openings: u64,
    pub(crate) log_failed: bool,
    /// How it came to an end: a mark that found no room or met a failure leaves it cut.
    pub(crate) ending: Ending,
    pub(crate) media: Media,
}

/// One log in use on one simulated disk.
struct Life {
    disk: SimDisk,
    rng: Rng,
    habits: Habits,
    config: CoreConfig,
    core: Core,
    chain: Chain,
    /// Memory that outlives the process, once a commit needed it, and the boot that it belongs to.
    ring: Option<Ring<SimMemory>>,
    boot: u64,
    stores: Stores,
    inventory: SegmentInventory,
    /// In which order the steps of a batch are submitted.
    order: SubmitOrder,
    task: Option<SegmentTask>,
    running: Vec<(u64, Witness, Execution)>,
    /// What batches of a relaxed level state, until they are durable.
    undurable: Vec<(u64, Witness)>,
    trace: Vec<Step>,
    /// What has reached each level, as the trace has it.
    reached: [Lsn; 3],
    ends: Vec<Lsn>,
    failed: bool,
    after_failure: Option<Lsn>,
    /// A record waits for a segment of this many bytes.
    needed: Option<u64>,
    stuck: Option<u64>,
    /// The end of what was traced as issued.
    traced_to: Lsn,
    /// The first LSN as the trace has it.
    traced_trim: Lsn,
    /// What is cut off the log, by the trace.
    cuts: CutList,
    /// Records of streams by the LSN of each.
    payloads: HashMap<Lsn, Vec<u8>>,
    /// Where each record of a stream was appended, by stream and number, and that of each copy of one.
    appended_at: HashMap<(u32, u64), Lsn>,
    copy_of: HashMap<Lsn, Lsn>,
    /// What is to be rewritten.
    to_rewrite: Vec<Needed>,
    bounds: Bounds,
    broken: Option<Violation>,
}

/// Runs one life on `media`.
pub(crate) fn live(media: Media, seed: u64, habits: Habits, fault: Option<FaultPlan>) -> End {
    live_with((media, &Remains::default()), seed, habits, fault)
}

/// The same where an earlier one may have left memory.
pub(crate) fn live_with(
    (media, remains): (Media, &Remains),
    seed: u64,
    habits: Habits,
    fault: Option<FaultPlan>,
) -> End {
    let mut disk = SimDisk::running(media, seed, fault, habits.cache);
    let mut trace = Vec::new();
    let stores = Stores::default();
    let mut left = remains.memory(&stores).map(|memory| Left::look(memory, Some(boot_id(remains.boot))));
    let plan = plan_with(habits.dsync, habits.class, habits.segment_bytes, habits.cap);
    let opened = recovery::recover_with(&mut disk, &plan, |log_id, epoch| {
        if let Some(left) = &mut left {
            left.bind(log_id, epoch);
        }
    });
    // It is bound before the disk changes.
    trace.extend(stores.take().into_iter().map(Step::Memory));
    trace.extend(disk.take_trace().into_iter().map(Step::Disk));
    let recovered = match opened {
        Ok(recovered) => recovered,
        Err(error) => return End { refused: Some(error), ..End::of(disk, trace) },
    };
    disk.holds = true;
    let mut life = Life::new(disk, (seed, remains.boot, stores), habits, recovered, trace);
    let found = match left.map_or(Ok(LeftInMemory::Nothing), |left| life.drain_crash_memory(left)) {
        Ok(found) => found,
        Err(error) => return End { refused: Some(error), ..End::of(life.disk, life.trace) },
    };
    let end = life.core.appended();
    life.trace.push(Step::Exposed(life.ends[0], end));
    // What it found of those that were about to be noted counts from now on.
    life.trace.push(Step::Holds(end, life.core.tagged.streams.held(None), true));
    life.look_at_the_cap();
    for _ in 0..habits.actions {
        life.act();
    }
    if habits.cap.is_some() {
        life.fill_up();
        if seed.is_multiple_of(2) {
            life.make_room();
        } else {
            life.make_room_behind_cuts();
        }
    }
    let marked = match habits.ending {
        Ending::Cut => false,
        Ending::Idle => life.come_to_rest(),
        Ending::Close => life.close(),
    };
    if marked && habits.ending == Ending::Close && life.ring.is_some() {
        life.trace.push(Step::Memory(MemoryEvent::Removed));
    }
    End {
        left: found,
        acknowledged_after_failure: life.after_failure,
        stuck: life.stuck,
        broken: life.broken,
        trim: life.core.trim(),
        log_failed: life.failed,
        ending: if marked { habits.ending } else { Ending::Cut },
        ..End::of(life.disk, life.trace)
    }
}

impl End {
    /// A log that was cut off on this disk before anything came of it.
    fn of(disk: SimDisk, trace: Vec<Step>) -> Self {
        Self {
            trace,
            refused: None,
            acknowledged_after_failure: None,
            stuck: None,
            broken: None,
            left: LeftInMemory::Nothing,
            trim: Lsn::ZERO,
            operations: disk.operations,
            faults: disk.faults,
            openings: disk.openings,
            log_failed: false,
            failed: disk.failed.clone(),
            ending: Ending::Cut,
            media: disk.into_media(),
        }
    }
}

impl Life {
    fn new(
        disk: SimDisk,
        (seed, boot, stores): (u64, u64, Stores),
        habits: Habits,
        recovered: Recovered,
        trace: Vec<Step>,
    ) -> Self {
        let config = recovery::config(&recovered, BATCH_BYTES, MEMORY_BYTES, habits.depth);
        let (end, trim) = (recovered.resume.end, recovered.resume.trim);
        let cuts = recovered.resume.tagged.cuts.clone();
        let headers = recovered.segments.iter().copied();
        // A third of the lives keep no trimmed segment beyond the one spare, others one or two.
        let kept = usize::try_from(seed % 3).unwrap_or(0);
        let spares = recovered.resume.spares.clone();
        let inventory =
            SegmentInventory::new(headers, recovered.next_number, habits.segment_bytes, 1..=1 + kept)
                .capped(&spares, habits.cap);
        let mut core = Core::new(config, recovered.resume);
        core.set_rooms(inventory.cap().rooms());
        Self {
            disk,
            rng: Rng::new(seed ^ 0x00AC_7104),
            habits,
            config,
            chain: recovered.chain,
            core,
            ring: None,
            boot,
            stores,
            inventory,
            order: ORDERS[usize::try_from(seed / 3 % 3).unwrap_or(0)],
            task: None,
            running: Vec::new(),
            undurable: Vec::new(),
            trace,
            reached: [end; 3],
            ends: vec![end],
            failed: false,
            after_failure: None,
            needed: None,
            stuck: None,
            traced_to: end,
            traced_trim: trim,
            cuts,
            payloads: HashMap::new(),
            appended_at: HashMap::new(),
            copy_of: HashMap::new(),
            to_rewrite: Vec::new(),
            bounds: Bounds::default(),
            broken: None,
        }
    }

    fn act(&mut self) {
        let relaxes = self.habits.relaxed || self.habits.class != Durability::PowerLoss;
        if relaxes && self.rng.one_in(4) {
            self.request();
        }
        if self.habits.tagged && self.rng.one_in(3) {
            self.act_tagged();
            self.drain();
            return self.read_streams();
        }
        if (self.habits.retention.is_set() || self.habits.holds) && self.rng.one_in(6) {
            if self.habits.holds && self.rng.coin() { self.hold() } else { self.pin() }
        }
        match self.rng.below(16) {
            0..=4 if self.habits.streams_alone => self.act_tagged(),
            0..=3 => self.append(),
            4 => self.transaction(),
            5..=7 => self.issue(),
            8..=11 => self.complete(false),
            12 | 13 => self.keep(),
            14 if self.rng.one_in(3) => self.trim(),
            _ => self.mark(),
        }
        self.drain();
    }

    fn drain(&mut self) {
        self.note_restatement(self.core.appended());
        self.check_bounds();
        // Streams move the first LSN by themselves.
        if self.core.trim() > self.traced_trim {
            self.traced_trim = self.core.trim();
            self.trace.push(Step::Trimmed(self.traced_trim));
        }
        let events = self.disk.take_trace();
        self.trace.extend(events.into_iter().map(Step::Disk));
        let steps: [fn(Lsn) -> Step; 3] = [Step::Written, Step::CrashProof, Step::Acknowledged];
        for (level, step) in AckLevel::ALL.into_iter().zip(steps) {
            let (reached, before) = (self.core.reached(level), &mut self.reached[level as usize]);
            if reached > *before {
                *before = reached;
                self.trace.push(step(reached));
                self.after_failure = self.failed.then_some(reached).or(self.after_failure);
            }
        }
    }

    /// A commit requests what has been appended so far, at one level or another.
    fn request(&mut self) {
        let level = match self.rng.below(8) {
            0 => AckLevel::Full,
            1 => AckLevel::System,
            _ => AckLevel::Process,
        };
        let own = self.config.own();
        let level = if self.habits.relaxed { level.min(own) } else { own };
        let end = self.core.appended();
        // A log that promises no more writes what `Log::commit` commits.
        let outlives = level == AckLevel::Process && self.habits.memory && (own != level || self.rng.coin());
        if !outlives || self.store() < end {
            self.core.request(level, end);
        }
    }

    fn payload(&mut self) -> Vec<u8> {
        let length = match self.rng.below(12) {
            0 => 0,
            1..=8 => self.rng.index(120),
            9 | 10 => self.rng.index(800),
            // Now and then more than a small segment holds.
            _ if self.rng.one_in(3) => self.rng.index(7000),
            _ => self.rng.index(2600),
        };
        let tag = crate::testing::sim::rng::mix(self.habits.number ^ self.core.appended().get() << 8);
        Rng::new(tag).bytes(length)
    }

    fn accepted(&mut self, accepted: Result<Lsn, Refusal>, records: Vec<Vec<u8>>) {
        let end = match accepted {
            Ok(end) => end,
            Err(refusal) => return self.refused(refusal),
        };
        let bytes: usize = records.iter().map(|payload| payload.len() + RECORD_HEADER_BYTES).sum();
        let mut start = Lsn::new(end.get() - bytes as u64);
        self.note_restatement(start);
        let last = records.len().saturating_sub(1);
        for (i, payload) in records.into_iter().enumerate() {
            let end = start.saturating_add((payload.len() + RECORD_HEADER_BYTES) as u64);
            self.trace_issued((start, end), (i == last, false), payload);
            start = end;
        }
        self.ends.push(end);
    }

    fn trace_issued(
        &mut self,
        (start, end): (Lsn, Lsn),
        (ends_transaction, tagged): (bool, bool),
        payload: Vec<u8>,
    ) {
        self.trace.push(Step::Issued(Issued { start, end, ends_transaction, tagged, payload }));
        self.traced_to = end;
    }

    /// There are no other appends while a record waits for its segment.
    fn wait_for_segment(&mut self) {
        for _ in 0..32 {
            self.keep();
            if self.failed || self.needed.is_none() || self.stuck.is_some() {
                return;
            }
        }
    }

    fn append(&mut self) {
        let payload = self.payload();
        let used = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + payload.len();
        let accepted = if Core::is_large(&self.config, used) {
            let head = record_header(payload.len(), false).unwrap_or_default();
            self.append_large(&head, &payload, Numbering::Untagged)
        } else {
            self.core.append(&payload)
        };
        self.accepted(accepted, vec![payload]);
    }

    /// Appends a record that fills a batch of its own, in a buffer that the core did not make.
    fn append_large(&mut self, head: &[u8], payload: &[u8], numbering: Numbering) -> Result<Lsn, Refusal> {
        let used = BATCH_HEADER_BYTES + head.len() + payload.len();
        let capacity = used.next_multiple_of(self.config.block_bytes.into());
        self.core.admit_large(capacity, numbering == Numbering::Kept)?;
        let mut buf = AlignedBuf::zeroed(capacity);
        let (front, body) = buf.bytes_mut()[BATCH_HEADER_BYTES..used].split_at_mut(head.len());
        front.copy_from_slice(head);
        body.copy_from_slice(payload);
        let sum = crc32c(&buf.bytes()[BATCH_HEADER_BYTES..used]);
        let mut buf = Some(buf);
        let accepted = self.core.adopt(&mut buf, used, (1, numbering), sum);
        if let Some(unused) = buf {
            self.core.recycle(unused);
        }
        accepted
    }

    fn transaction(&mut self) {
        let many = self.rng.one_in(8);
        let count = 2 + self.rng.index(if many { 40 } else { 4 });
        let records: Vec<Vec<u8>> = (0..count).map(|_| self.payload()).collect();
        let mut encoded = encode_transaction(&records);
        let count = u32::try_from(count).unwrap_or(0);
        let lent = if self.rng.coin() { self.core.lend() } else { None };
        let accepted = self.take_in(lent, &mut encoded, (count, Numbering::Untagged));
        self.accepted(accepted, records);
    }

    /// Appends a transaction, by copying it or as a batch of its own.
    fn take_in(
        &mut self,
        mut lent: Option<AlignedBuf>,
        encoded: &mut [u8],
        (count, numbering): (u32, Numbering),
    ) -> Result<Lsn, Refusal> {
        let used = BATCH_HEADER_BYTES + encoded.len();
        let room = lent.as_mut().and_then(|buf| buf.bytes_mut().get_mut(BATCH_HEADER_BYTES..used));
        let accepted = match room {
            Some(room) => {
                room.copy_from_slice(encoded);
                self.core.adopt(&mut lent, used, (count, numbering), crc32c(encoded))
            }
            None => self.core.append_encoded(encoded, count, numbering),
        };
        if let Some(buf) = lent {
            self.core.recycle(buf);
        }
        accepted
    }

    fn issue(&mut self) {
        if let Some(issue) = self.core.issue() {
            self.start(issue);
        }
    }

    fn start(&mut self, issue: Issue) {
        let id = issue.id;
        let offset = issue.batch.as_ref().map_or(0, |batch| batch.offset);
        self.chain.at(self.trace.len() as u64);
        let job = self.chain.seal(&self.config, issue);
        let witness = Witness {
            segment: job.segment,
            offset: if job.starts.is_some() { 0 } else { offset },
            end: offset + job.disk_bytes() as u64,
            says: job.witness,
        };
        let sync_first =
            job.sync_first.map(|number| self.disk.open(&segment_name(number), Access::Direct)).transpose();
        match (self.disk.open(&segment_name(job.segment), Access::Direct), sync_first) {
            (Ok(file), Ok(sync_first)) => {
                let by = (self.habits.dsync, self.order);
                match Execution::start(&mut self.disk, job, (file, sync_first), by) {
                    Ok(execution) => self.running.push((id, witness, execution)),
                    Err(_) => self.fail(),
                }
            }
            _ => self.fail(),
        }
    }

    /// The batch is as safe as its level says: what it states, and what those before it state, is durable once a batch
    /// in full has ended.
    fn witnessed(&mut self, id: u64, level: AckLevel, witness: Option<Witness>) {
        self.undurable.extend(witness.map(|witness| (id, witness)));
        if level != AckLevel::Full {
            return;
        }
        let durable = self.undurable.extract_if(.., |(earlier, _)| *earlier <= id);
        self.trace.extend(durable.map(|(_, witness)| Step::Witnessed(witness)));
    }

    fn fail(&mut self) {
        self.failed = true;
        self.core.fail();
    }

    fn complete(&mut self, block: bool) {
        let Some(completion) = self.disk.complete(block) else { return };
        let Some(at) = self.running.iter().position(|(_, _, execution)| execution.owns(completion.token))
        else {
            return;
        };
        match self.running[at].2.completed(&mut self.disk, completion) {
            JobState::Pending => {}
            JobState::Failed(_) => {
                self.running.swap_remove(at);
                self.fail();
            }
            JobState::Done => {
                let (id, witness, execution) = self.running.swap_remove(at);
                let job = execution.into_job();
                if let Some(header) = job.starts {
                    self.inventory.started(header);
                }
                // A sync alone writes nothing, and so states nothing itself.
                let (level, witness) = (job.level, (!job.is_sync_only()).then_some(witness));
                self.core.done(id, job.into_buffer());
                let events = self.disk.take_trace();
                self.trace.extend(events.into_iter().map(Step::Disk));
                if !self.failed {
                    self.witnessed(id, level, witness);
                }
            }
        }
    }

    fn keep(&mut self) {
        self.keep_on();
        self.look_at_the_cap();
    }

    fn keep_on(&mut self) {
        if self.task.is_none() {
            self.retain();
            self.let_go();
            let task = self.core.next_task(&mut self.inventory, &mut self.needed);
            // The append that waited returns that.
            self.needed = self.needed.filter(|bytes| !self.inventory.cap().never_fits(*bytes));
            // A log with a cap has a reason: see `make_room`.
            let waits = self.needed.filter(|_| task.is_none() && self.habits.cap.is_none());
            self.stuck = self.stuck.or(waits);
            self.task = task.map(|task| SegmentTask::new(task, 4096));
        }
        let Some(running) = &mut self.task else { return };
        // Segment tasks have handles of their own: they neither wait for the commits nor reap their completions.
        match self.disk.apart(|disk| running.step(disk)) {
            Ok(Progress::More) => {}
            Ok(Progress::Ended(spare)) => {
                self.task = None;
                self.inventory.task_done();
                if let Some(spare) = spare {
                    self.core.add_spare(spare);
                }
            }
            Err(failed) => {
                // What is left behind is removed at the next opening.
                let running = self.task.take().filter(|_| !failed.fatal);
                let given_up = running.map(|running| self.disk.apart(|disk| running.give_up(disk)));
                self.inventory.task_failed(given_up.is_some_and(|removed| removed.is_ok()));
                self.core.keep_outgrown_spare();
                // The append that waited returns why.
                self.needed = None;
                if failed.fatal {
                    self.fail();
                }
            }
        }
    }

    fn trim(&mut self) {
        let at = self.ends[self.rng.index(self.ends.len())];
        if at <= self.core.acknowledged() {
            self.trim_to(at);
        }
    }

    fn mark(&mut self) {
        if !self.core.request_debt_sync() && self.core.needs_mark() {
            self.core.mark(BatchKind::Mark);
        }
    }

    /// Lets the log be idle, with up to two records in it that no commit requests, until the writer has nothing left to do;
    /// returns whether it came to that.
    fn come_to_rest(&mut self) -> bool {
        for _ in 0..self.rng.below(3) {
            self.append();
        }
        for _ in 0..400 {
            self.drain();
            if self.failed {
                return false;
            }
            if !self.running.is_empty() {
                self.complete(true);
            } else if self.core.full_batches() > 0
                || self.core.request_debt_sync()
                || (self.core.needs_mark() && self.core.mark(BatchKind::Mark))
            {
                self.issue();
            } else if self.core.needs_mark() {
                // There is no place for the mark until a segment is prepared.
                self.keep();
            } else {
                return true;
            }
        }
        false
    }

    /// Other threads saw an open log and come to the core after its close mark: with appends, trims, marks and commits.
    fn overlap_the_close(&mut self) {
        for _ in 0..self.rng.below(3) {
            match self.rng.below(4) {
                0 => self.append(),
                1 => self.transaction(),
                2 => self.act_tagged(),
                _ => {
                    // If it moves it is traced below, and is due.
                    self.core.set_trim(self.core.acknowledged(), self.core.let_go());
                }
            }
            self.mark();
            let end = self.core.appended();
            self.core.request(self.config.own(), end);
            self.issue();
            self.complete(true);
            self.drain();
        }
    }

    /// Commits everything and writes the close mark, as the log does when it is closed; returns whether it says that it
    /// is closed.
    fn close(&mut self) -> bool {
        // The log may be about to mark what is durable when it is closed.
        let mut marks = self.rng.coin();
        for _ in 0..400 {
            self.drain();
            if self.failed {
                return false;
            }
            let end = self.core.appended();
            if let Some((level, end)) = self.core.owed_to_close() {
                self.core.request(level, end);
                self.issue();
                if self.running.is_empty() {
                    self.keep();
                }
                self.complete(true);
                continue;
            }
            if std::mem::take(&mut marks) && self.core.needs_mark() && self.core.mark(BatchKind::Mark) {
                self.issue();
            }
            match self.core.close() {
                Closing::Wait(_) => self.complete(true),
                Closing::Before(issue) => self.start(issue),
                Closing::Mark(issue) => {
                    let id = issue.id;
                    self.start(issue);
                    self.overlap_the_close();
                    while !self.failed && self.running.iter().any(|(running, ..)| *running == id) {
                        self.complete(true);
                    }
                    self.drain();
                    if !self.failed {
                        // A log of any class that was closed has nothing left that a power cut could take.
                        self.trace.push(Step::Acknowledged(end));
                    }
                    return !self.failed;
                }
                Closing::Refused => return false,
            }
        }
        false
    }
}
