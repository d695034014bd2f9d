//! Group commit: the first waiter to find a free I/O slot leads, writes the pending batch and wakes its members.
//!
//! A lone committer therefore writes itself, without a hand-over; while one batch is in flight the next one gathers,
//! and up to `in_flight_max` batches are in flight together. Relaxed commits take the same path at their own ack level;
//! a log without them pays one look at a flag for each batch.
//!
//! ```text
//!   commit ─► request ─► gather ─► issue ─► seal ─► write ─► done ─► wake      by the leader
//!                           └────► sleep at the gate of the batch              by the others
//!
//!   core lock      gather, issue, done            never held across a system call
//!   chain lock     sealing, taken under the core lock, so that batches are sealed in order of issue
//! ```
//!
//! Invariants: watermarks are published after the core has moved them and before any waiter is woken; after a failure
//! every waiter is woken and nothing is acknowledged, at any level; the leader that finishes a batch makes sure that the
//! batch gathered meanwhile gets a leader.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seawall_sys::durability::Durability;
use seawall_sys::planted;

use crate::channel::publisher::Publisher;
use crate::commit::group_wait::{GroupWait, YIELD_NS};
use crate::commit::housekeeping::Housekeeping;
use crate::commit::metrics::Metric;
use crate::commit::process_crash::CrashMemory;
use crate::commit::seal::{Chain, Job};
use crate::commit::segment_writers::SegmentWriters;
use crate::commit::stall::Stalls;
use crate::commit::state::{Closing, Core, CoreConfig, Issue, Refusal};
use crate::commit::stats::{Recorder, Stats};
use crate::commit::status::Status;
use crate::commit::stream_cuts::StreamCuts;
use crate::commit::sync::{
    AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock, monotonic_ns, time_us, try_lock,
    yield_now,
};
use crate::commit::threads::Threads;
use crate::commit::waiters::Waiters;
use crate::error::{Error, Result};
use crate::format::{BatchKind, Tag};
use crate::lock::Writing;
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::method::evidence::Evidence;
use crate::segment::inventory::SegmentInventory;
use crate::stream::cuts::CutList;

/// Alone in its cache line: readers look at it with every record, and appends write what lies beside it.
#[derive(Debug)]
#[repr(align(64))]
struct CutChanges(AtomicU64);

/// Everything that the threads of one log share.
#[derive(Debug)]
pub(crate) struct Group {
    config: CoreConfig,
    core: Mutex<Core>,
    /// What was cut off the log when a reader looked last, and how often that had changed.
    cuts: Mutex<(u64, Arc<CutList>)>,
    /// Counts the changes of `cuts`, 0 as long as nothing is cut off.
    cut_changes: CutChanges,
    stream_changes: AtomicU64,
    stream_cuts: StreamCuts,
    chain: Mutex<Chain>,
    writers: SegmentWriters,
    memory: CrashMemory,
    wait: GroupWait,
    /// Whether a batch is in flight, as the core knows it. Changed under the core lock.
    in_flight: AtomicBool,
    /// Threads that lead a batch now. Raised under the core lock.
    leading: AtomicU32,
    waiters: Waiters,
    housekeeping: Housekeeping,
    threads: Threads,
    status: Status,
    recorder: Recorder,
    stalls: Stalls,
    /// Whether the maintenance thread must look at every new segment and every trim, because the log has a cap or is trimmed
    /// by rules of its own.
    is_bounded: bool,
    /// Where followers in other processes read what is durable.
    publisher: OnceLock<Arc<Publisher>>,
}

impl Group {
    pub(crate) fn new(
        config: CoreConfig,
        core: Core,
        chain: Chain,
        writers: SegmentWriters,
        inventory: SegmentInventory,
    ) -> Self {
        Self {
            config,
            waiters: Waiters::new(core.acknowledged()),
            recorder: Recorder::new(writers.dir(), config.own()),
            cut_changes: CutChanges(AtomicU64::new(u64::from(!core.tagged().cuts.is_empty()))),
            cuts: Mutex::new(<(u64, Arc<CutList>)>::default()),
            stream_changes: AtomicU64::new(0),
            stream_cuts: StreamCuts::default(),
            core: Mutex::new(core),
            chain: Mutex::new(chain),
            writers,
            memory: CrashMemory::new(Err("this log was opened without it")),
            wait: GroupWait::new(),
            in_flight: AtomicBool::new(false),
            leading: AtomicU32::new(0),
            housekeeping: Housekeeping::new(inventory),
            threads: Threads::default(),
            status: Status::new(),
            publisher: OnceLock::new(),
            stalls: Stalls::new(None),
            is_bounded: false,
        }
    }

    /// The same for a log that has a cap or is trimmed by rules of its own, if it is.
    pub(crate) fn bounded(self, is_bounded: bool) -> Self {
        Self { is_bounded, ..self }
    }

    /// The first LSN was moved. The next batch or, in an idle log, the next mark makes it durable.
    pub(crate) fn trimmed(&self) {
        self.threads.note_activity();
        self.threads.wake_sleeping_writer();
        self.threads.wake_rewriter();
        if self.is_bounded {
            self.threads.wake_maintenance();
        }
    }

    /// States the trims that were held back at the cap if that lets a segment go.
    pub(crate) fn let_held_go(&self) {
        let mut core = self.core();
        let stated = core.let_held_go();
        let end = core.appended();
        drop(core);
        if stated {
            self.request(end, self.config.own());
        }
    }

    /// Watches for batches that are in flight for longer than `threshold`, if there is one.
    pub(crate) fn watched(self, threshold: Option<Duration>) -> Self {
        Self { stalls: Stalls::new(threshold), ..self }
    }

    /// Publishes from now on, to followers in other processes, what is durable.
    pub(crate) fn publish_to(&self, publisher: Arc<Publisher>) {
        let _ = self.publisher.set(publisher);
    }

    /// The same with memory for commits that are to outlive the process only.
    pub(crate) fn with_memory(self, memory: CrashMemory) -> Self {
        Self { memory, ..self }
    }

    /// What stays the same as long as the log is open.
    #[inline]
    pub(crate) fn config(&self) -> &CoreConfig {
        &self.config
    }

    /// The state machine, locked.
    #[inline]
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        lock(&self.core)
    }

    /// The open files of the segments.
    pub(crate) fn writers(&self) -> &SegmentWriters {
        &self.writers
    }

    /// What waits for this log.
    pub(crate) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// The segments, and what is requested of the maintenance thread.
    pub(crate) fn housekeeping(&self) -> &Housekeeping {
        &self.housekeeping
    }

    /// The background threads.
    pub(crate) fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Whether the log is open, closed or failed.
    #[inline]
    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    /// The counters and distributions.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The batches in flight, and which of them have stalled.
    pub(crate) fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// Makes the next committer wait for others, as if this many records had come last time.
    #[cfg(all(test, loom))]
    pub(crate) fn expect_committers(&self, records: u32) {
        self.wait.expect(records);
    }

    /// Makes the writer thread expect a committer that is about to block.
    #[cfg(all(test, loom))]
    pub(crate) fn expect_committer(&self) {
        self.wait.writer_begins(0);
        self.wait.committer_blocks(|| 0);
        self.wait.writer_ends();
    }

    /// The end of what outlives what the log promises.
    pub(crate) fn durable(&self) -> Lsn {
        self.waiters.durable()
    }

    /// The level that serves a commit which is to outlive `class`.
    pub(crate) fn level(&self, class: Durability) -> Result<AckLevel> {
        let rows = self.writers.rows();
        if class > rows.class {
            return Err(Error::BeyondPromise { requested: class, promised: rows.class });
        }
        Ok(rows.level(class))
    }

    /// The end of what has reached the level by what was written. One above the log's own, which only closing requests, is read from
    /// the core; at its own it is what readers show.
    pub(crate) fn reached(&self, level: AckLevel) -> Lsn {
        match level.cmp(&self.config.own()) {
            std::cmp::Ordering::Greater => self.core().reached(level),
            std::cmp::Ordering::Equal => self.durable(),
            std::cmp::Ordering::Less => self.waiters.reached(level),
        }
    }

    /// What is cut off the log, `None` if nothing is.
    pub(crate) fn cuts(&self) -> Option<Arc<CutList>> {
        let changes = self.cut_changes();
        if changes == 0 {
            return None;
        }
        let seen = lock(&self.cuts).clone();
        if seen.0 == changes {
            return Some(seen.1);
        }
        // Copied for the first reader that comes after a cut: cutting alone costs the same however much is cut.
        let core = self.core();
        let cuts = Arc::new(core.tagged().cuts.clone());
        *lock(&self.cuts) = (self.cut_changes(), Arc::clone(&cuts));
        Some(cuts)
    }

    /// Counts the changes of what is cut off the log, 0 as long as nothing is.
    #[inline]
    pub(crate) fn cut_changes(&self) -> u64 {
        self.cut_changes.0.load(Ordering::Acquire)
    }

    /// Counts the trims and cuts of streams.
    pub(crate) fn stream_changes(&self) -> u64 {
        self.stream_changes.load(Ordering::Acquire)
    }

    /// Where readers of streams learn what is cut. Asked and told under the core lock.
    pub(crate) fn stream_cuts(&self) -> &StreamCuts {
        &self.stream_cuts
    }

    /// Streams were trimmed, cut or removed: readers look up again where their records are. Called under the core lock.
    pub(crate) fn note_stream_changes(&self, tags: &[Tag]) {
        if tags.is_empty() {
            return;
        }
        for tag in tags {
            self.stream_cuts.note(tag);
        }
        self.stream_changes.fetch_add(1, Ordering::AcqRel);
        self.threads.wake_rewriter();
        if self.is_bounded {
            // Appends may wait for what it lets go.
            self.threads.wake_maintenance();
        }
    }

    /// Has readers see what is cut off now, as the locked core has it.
    pub(crate) fn publish_cuts(&self, _: &MutexGuard<'_, Core>) {
        self.cut_changes.0.fetch_add(1, Ordering::Release);
    }

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
            let gate = self.waiters.append_gate();
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
    /// processor for a moment, so that one write holds them all, as far as [`GroupWait`] finds that worth it. A lone
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
        if core.debt().is_used() {
            for level in AckLevel::ALL {
                core.request(level, self.waiters.requested(level));
            }
        }
        core.issue()
    }

    /// Writes the next batch on the writer thread, if it is time and a future requests it; gives the lock back if not. A
    /// committer that is about to block leads instead: see [`GroupWait::expects_committer`].
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

    /// Writes one batch and wakes everything that waited for it.
    fn lead<'a>(&'a self, core: MutexGuard<'a, Core>, issue: Issue) {
        self.in_flight.store(true, Ordering::SeqCst);
        self.leading.fetch_add(1, Ordering::AcqRel);
        let mut leading = Leading { group: self, ended: false, _writing: Writing::begin() };
        self.write_batch(core, issue);
        leading.ended = true;
    }

    fn write_batch<'a>(&'a self, core: MutexGuard<'a, Core>, issue: Issue) {
        // Taken before the core is released, so that batches are sealed in the order in which they were issued.
        let mut chain = lock(&self.chain);
        drop(core);
        chain.at(time_us());
        let job = chain.seal(&self.config, issue);
        drop(chain);
        let span = tracing::trace_span!(
            "batch",
            id = job.id,
            segment = job.segment,
            records = job.records,
            bytes = job.disk_bytes(),
            level = ?job.level
        );
        let _entered = span.entered();
        let began = monotonic_ns();
        self.stalls.begin(job.id, began);
        let written = match &job.starts {
            None => self.writers.write(&job),
            Some(header) => {
                let span =
                    tracing::debug_span!("rotate", segment = header.number, previous = header.previous);
                span.in_scope(|| self.writers.write(&job))
            }
        };
        let took_ns = monotonic_ns() - began;
        self.stalls.end(job.id);
        match written {
            Ok(()) => self.acknowledge(job, took_ns),
            Err(error) => self.fail(error),
        }
    }

    /// Moves the watermarks after a batch that was written, publishes them and wakes what waited for them.
    fn acknowledge(&self, job: Job, took_ns: u64) {
        let starts = job.starts;
        self.recorder.batch(took_ns, &job);
        if let Some(header) = starts {
            self.housekeeping.inventory().started(header);
            self.threads.wake_rewriter();
            if let Some(publisher) = self.publisher.get() {
                publisher.segment(header.number);
            }
        }
        let (records, bytes) = (job.records, job.disk_bytes());
        let mut core = self.core();
        let (durable_before, done_before) = (core.durable_batch(), core.done_batch());
        let trim = core.durable_trim();
        core.done(job.id, job.into_buffer());
        let durable = core.acknowledged();
        // A commit that waits for a debt to be synced sleeps at the gate of a batch that was written long ago.
        let first = if core.durable_batch() > durable_before { durable_before } else { done_before } + 1;
        let last = core.done_batch();
        // Before any committer here returns: a view that is opened then must show the record.
        if let Some(publisher) = self.publisher.get() {
            let durable = planted!(PublishBeforeDurable, core.appended(), durable);
            // A follower looks for a cut once: when it learns of it the disk must have it.
            let cuts = planted!(CutsPublishedEarly, core.tagged().cut, core.acknowledged_cuts());
            publisher.publish(durable, cuts);
        }
        self.waiters.publish_durable(durable);
        let behind = self.publish_relaxed(&core);
        let waiting = core.waiting();
        self.wait.batch_written(took_ns, bytes, records, core.gathered_records() + core.records_in_flight());
        // Before the requests are looked at: see `request`.
        self.in_flight.store(core.in_flight() > 0, Ordering::SeqCst);
        // Waking a thread takes half as long as a short write: it is not done in vain.
        let news = starts.is_some() || core.durable_trim() > trim;
        // Streams may have let a segment go, which the holds on the log may keep, or what is held back.
        let looks =
            core.awaits_look() || (self.is_bounded && (starts.is_some() || core.tagged().streams.holds()));
        let task =
            looks || (news && self.housekeeping.inventory().has_task(core.spares(), core.durable_trim()));
        drop(core);
        self.threads.note_activity();
        let room = self.config.batch_bytes;
        self.waiters.wake_written(first, last, room, || self.status.ended().is_some());
        if let Some(publisher) = self.publisher.get() {
            publisher.wake(durable);
        }
        let led = self.hand_over(waiting);
        let unled =
            |(next, newest)| !led && (self.waiters.requested(AckLevel::Full) > durable || newest > next);
        if behind || waiting.is_some_and(unled) {
            self.threads.wake_writer();
        }
        self.threads.wake_sleeping_writer();
        if task {
            self.threads.wake_maintenance();
        }
    }

    /// Publishes the watermarks of the relaxed levels, if any commit ever requested one; returns whether futures request
    /// more than was issued, which no committer may write.
    fn publish_relaxed(&self, core: &Core) -> bool {
        if !core.debt().is_used() {
            return false;
        }
        for level in AckLevel::RELAXED {
            self.waiters.publish_relaxed(level, core.reached(level));
        }
        self.is_behind(core)
    }

    /// Wakes one of the committers of the batches `waiting` to be issued, so that it leads; returns whether there was one.
    /// A thread that has gathered, or finished a batch, and does not lead the next one must call this.
    pub(crate) fn hand_over(&self, waiting: Option<(u64, u64)>) -> bool {
        waiting.is_some_and(|(next, newest)| self.waiters.wake_one_of(next, newest))
    }

    /// Fails the log for good: everything that waits is woken, nothing is acknowledged any more.
    pub(crate) fn fail(&self, error: Error) {
        tracing::error!(%error, "the log failed");
        if self.status.set_failed(error) {
            self.recorder.metrics.count(Metric::Failures, 1);
        }
        self.core().fail();
        self.waiters.end_appends();
        self.waiters.follower_gate().open();
        self.waiters.wake_commits();
        self.threads.wake_writer();
        self.threads.wake_maintenance();
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
    fn is_behind(&self, core: &Core) -> bool {
        let end = core.appended();
        let behind = |level| end.min(self.waiters.requested(level)) > core.debt().issued(level);
        behind(AckLevel::Full) || (core.debt().is_used() && AckLevel::RELAXED.into_iter().any(behind))
    }

    /// Lets the calling writer thread sleep, for `limit` if there is one, unless something has happened since `seen`.
    pub(crate) fn park_writer(&self, seen: u64, limit: Option<Duration>) {
        self.threads
            .park_writer(seen, limit, || !self.is_requested(&self.core()) && !self.status.is_stopping());
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

    /// Shows what the devices' counters say to the class.
    pub(crate) fn show_evidence(&self, evidence: &Evidence) {
        self.recorder.evidence(evidence);
    }

    /// What is counted here.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.recorder.stats();
        stats.stalled_for = self.stalls.stalled_for(monotonic_ns());
        stats.stalls_seen = self.stalls.seen();
        let core = self.core();
        (stats.appended, stats.durable, stats.first) = (core.appended(), core.acknowledged(), core.trim());
        stats.records = core.accepted_records();
        stats.streams = core.tagged().streams.len() as u64;
        stats.stream_bytes = core.tagged().streams.live_bytes();
        stats.stream_memory_bytes = core.tagged().streams.memory_bytes() as u64;
        drop(core);
        stats.follower_wakes = self.publisher.get().map_or(0, |publisher| publisher.wakes());
        let inventory = self.housekeeping.inventory();
        (stats.segments, stats.disk_bytes) = (inventory.segments().len() as u64, inventory.disk_bytes());
        stats.process_crash = self.memory.shown();
        stats
    }
}

/// What is longer than the format allows.
fn too_long() -> Error {
    let bytes_max = crate::format::RECORD_BYTES_MAX as u64;
    Error::TooLong { bytes: bytes_max + 1, bytes_max }
}

/// A batch that a thread leads. If the thread panics, which only a waker or a recorder that it calls can make it do, the
/// log fails, otherwise every committer would wait for that batch for ever.
struct Leading<'a> {
    group: &'a Group,
    ended: bool,
    _writing: Writing,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let panicked = std::io::Error::other("the thread that wrote a batch panicked");
            self.group.fail(Error::io("write", self.group.writers.dir(), panicked));
        }
        self.group.leading.fetch_sub(1, Ordering::AcqRel);
    }
}
