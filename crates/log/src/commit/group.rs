//! Group commit: the first waiter to find a free I/O slot leads, writes the pending batch and wakes its members.
//!
//! A lone committer therefore writes itself, without a hand-over; while one batch is in flight the next one gathers,
//! and up to `in_flight_max` batches are in flight together.
//!
//! ```text
//!   core lock      gather, issue, done                      never held across a system call
//!   chain lock     sealing, taken under the core lock, so that batches are sealed in order of issue
//!   gates          one for each of the last 64 batches; committers sleep at the gate of their batch
//! ```
//!
//! Invariants: the durable LSN is published after the core has moved it and before anyone is woken; after a failure
//! everyone is woken and nothing is acknowledged; the leader that finishes a batch makes sure that the batch gathered
//! meanwhile gets a leader.

use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::thread::Thread;

use seawall_sys::fork::Home;

use crate::commit::ending::{Held, Writing};
use crate::commit::gate::Gate;
use crate::commit::group_wait::{Crowd, PROMPT_NS};
use crate::commit::metrics::Metric;
use crate::commit::seal::Chain;
use crate::commit::segment_writers::Lanes;
use crate::commit::state::{Closing, Core, Issue, Refusal, Shape};
use crate::commit::stats::Meters;
use crate::commit::sync::{
    AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock, monotonic_ns, try_lock, yield_now,
};
use crate::commit::sync_debt::Grade;
use crate::commit::weaker::Weaker;
use crate::error::{Error, Result};
use crate::lsn::Lsn;
use crate::segment::inventory::Shelf;

const GATES: usize = if cfg!(loom) { 2 } else { 64 };

/// What the keeper thread is told, and what it tells.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// A segment of this many bytes is needed.
    pub(crate) needed: Option<u64>,
    /// Why the last attempt to prepare a segment failed.
    pub(crate) setback: Option<Error>,
}

/// Everything that the threads of one log share.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) shape: Shape,
    pub(crate) core: Mutex<Core>,
    chain: Mutex<Chain>,
    pub(crate) lanes: Lanes,
    pub(crate) shelf: Mutex<Shelf>,
    pub(crate) desk: Mutex<Desk>,
    durable: AtomicU64,
    gates: [Gate; GATES],
    /// Appends that found no memory or no segment wait here.
    pub(crate) room: Gate,
    /// Followers wait here.
    pub(crate) news: Gate,
    failure: OnceLock<Arc<Error>>,
    wakers: Mutex<Vec<(Lsn, Waker)>>,
    /// Those who ask for less than durable.
    pub(crate) weaker: Weaker,
    crowd: Crowd,
    /// Somebody who does not block wants everything before this LSN committed.
    pub(crate) wanted: AtomicU64,
    pub(crate) writer: OnceLock<Thread>,
    pub(crate) keeper: OnceLock<Thread>,
    /// The writer sleeps without a time limit.
    pub(crate) writer_asleep: AtomicBool,
    /// Counts batches that became durable: whether anything happened.
    pub(crate) activity: AtomicU64,
    pub(crate) stopping: AtomicBool,
    pub(crate) closed: AtomicBool,
    /// What the keeper is to give up in the end, because whoever ended the log could not wait.
    pub(crate) left: Mutex<Option<Held>>,
    /// The log is about to be let go: whoever still waits is told, and nothing more is written. Changed under the
    /// core lock.
    retired: AtomicBool,
    /// Whether a batch is on its way, as the core knows it. Changed under the core lock.
    flying: AtomicBool,
    /// Batches that are being written right now. Raised under the core lock.
    driving: AtomicU32,
    pub(crate) stalls: AtomicU64,
    pub(crate) meters: Meters,
    /// The process whose threads these are.
    home: Home,
}

impl Group {
    pub(crate) fn new(shape: Shape, core: Core, chain: Chain, lanes: Lanes, shelf: Shelf) -> Self {
        let durable = core.acknowledged().get();
        let meters = Meters::new(lanes.dir(), shape.own());
        Self {
            shape,
            core: Mutex::new(core),
            chain: Mutex::new(chain),
            lanes,
            shelf: Mutex::new(shelf),
            desk: Mutex::default(),
            durable: AtomicU64::new(durable),
            gates: std::array::from_fn(|_| Gate::default()),
            room: Gate::default(),
            news: Gate::default(),
            failure: OnceLock::new(),
            wakers: Mutex::default(),
            weaker: Weaker::default(),
            crowd: Crowd::new(),
            wanted: AtomicU64::new(0),
            writer: OnceLock::new(),
            keeper: OnceLock::new(),
            writer_asleep: AtomicBool::new(false),
            activity: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            left: Mutex::default(),
            retired: AtomicBool::new(false),
            flying: AtomicBool::new(false),
            driving: AtomicU32::new(0),
            stalls: AtomicU64::new(0),
            meters,
            home: Home::here(),
        }
    }

    /// Whether this is the process that opened the log: one that was forked off has its memory and none of its threads,
    /// and finds locks that nobody will ever give up.
    #[inline]
    pub(crate) fn is_at_home(&self) -> bool {
        self.home.is_here()
    }

    /// As [`Group::is_at_home`], with the error of a process that is not.
    #[inline]
    pub(crate) fn at_home(&self) -> Result<()> {
        if self.is_at_home() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Makes the next committer wait for others, as if so many had come last time.
    #[cfg(all(test, loom))]
    pub(crate) fn expect_crowd(&self, records: u32) {
        self.crowd.expect(records);
    }

    /// Makes the writer expect somebody who is about to block.
    #[cfg(all(test, loom))]
    pub(crate) fn expect_prompt(&self) {
        self.crowd.writer_begins(0);
        self.crowd.blocks(|| 0);
        self.crowd.writer_ends();
    }

    /// The end of what outlives what the log promises.
    pub(crate) fn durable(&self) -> Lsn {
        Lsn::new(self.durable.load(Ordering::Acquire))
    }

    /// The error that every operation returns after the first failure.
    pub(crate) fn failed(&self) -> Option<Error> {
        self.failure.get().map(|cause| Error::Failed { cause: Arc::clone(cause) })
    }

    /// Why nothing more will become durable, if so.
    pub(crate) fn ended(&self) -> Option<Error> {
        if !self.is_at_home() {
            return Some(Error::Forked);
        }
        self.failed().or_else(|| self.retired.load(Ordering::Acquire).then_some(Error::Closed))
    }

    /// Ends writing for good, before the lock on the directory is given up: a [`crate::Commit`] may outlive its log,
    /// and must not write into what somebody else has opened by then. Who still waits is told.
    pub(crate) fn retire(&self) {
        const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_micros(50);
        let core = lock(&self.core);
        self.retired.store(true, Ordering::Release);
        drop(core);
        self.gates.iter().for_each(Gate::open);
        self.wake_futures(Lsn::MAX);
        self.wake_weaker_futures();
        while self.driving.load(Ordering::Acquire) > 0 {
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Why nothing can be appended or committed, if so.
    fn refusal(&self) -> Error {
        self.failed().unwrap_or(Error::Closed)
    }

    pub(crate) fn gate(&self, batch: u64) -> &Gate {
        &self.gates[usize::try_from(batch % GATES as u64).unwrap_or(0)]
    }

    /// Has `accept` take records in, waiting for memory and segments as long as it must.
    pub(crate) fn accept(
        &self,
        mut accept: impl FnMut(&mut Core) -> std::result::Result<Lsn, Refusal>,
    ) -> Result<(Lsn, MutexGuard<'_, Core>)> {
        self.at_home()?;
        let mut asked = false;
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(self.refusal());
            }
            let mut core = lock(&self.core);
            let refusal = match accept(&mut core) {
                Ok(lsn) => {
                    if core.full() > 0 {
                        self.wake_writer();
                    }
                    return Ok((lsn, core));
                }
                Err(refusal) => refusal,
            };
            self.stalls.fetch_add(1, Ordering::Relaxed);
            self.meters.metered.count(Metric::Stalls, 1);
            let ticket = self.room.ticket();
            match refusal {
                Refusal::Failed => {
                    self.room.leave();
                    return Err(self.refusal());
                }
                Refusal::TooLong => {
                    self.room.leave();
                    let bytes_max = crate::format::RECORD_BYTES_MAX as u64;
                    return Err(Error::TooLong { bytes: bytes_max + 1, bytes_max });
                }
                Refusal::Memory => {
                    // Even what is still gathering must go, or a record that is as large as the memory would wait for
                    // ever behind another one that nobody commits.
                    self.want_quietly(core.watermarks().appended);
                    drop(core);
                    self.wake_writer();
                }
                Refusal::Segment { bytes } => {
                    drop(core);
                    let setback = self.ask_for_segment(bytes, asked);
                    if let Some(setback) = setback {
                        self.room.leave();
                        return Err(setback);
                    }
                    asked = true;
                }
            }
            self.room.wait(ticket);
        }
    }

    /// Asks the keeper for a segment; returns why there is none if it has been asked before and failed.
    fn ask_for_segment(&self, bytes: u64, asked: bool) -> Option<Error> {
        let mut desk = lock(&self.desk);
        if asked {
            if let Some(setback) = desk.setback.take() {
                return Some(setback);
            }
        } else {
            desk.setback = None;
        }
        desk.needed = Some(desk.needed.unwrap_or(0).max(bytes));
        drop(desk);
        self.wake_keeper();
        None
    }

    pub(crate) fn wake_keeper(&self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.unpark();
        }
    }

    pub(crate) fn wake_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    /// Wakes the writer if it sleeps without a time limit; otherwise it looks round by itself.
    pub(crate) fn wake_sleeping_writer(&self) {
        if self.writer_asleep.load(Ordering::SeqCst) {
            self.wake_writer();
        }
    }

    /// Returns when everything before `lsn`, which may have been reached already, has reached the grade.
    pub(crate) fn commit(&self, lsn: Lsn, grade: Grade) -> Result<()> {
        if self.reached(grade) >= lsn {
            return Ok(());
        }
        self.at_home()?;
        let core = lock(&self.core);
        let end = core.watermarks().appended;
        if lsn > end {
            return Err(Error::BeyondEnd { lsn, end });
        }
        self.settle(core, lsn, grade)
    }

    /// Returns when everything before `lsn` has reached the grade, leading the write if nobody else does.
    pub(crate) fn settle<'a>(&'a self, mut core: MutexGuard<'a, Core>, lsn: Lsn, grade: Grade) -> Result<()> {
        core.want(grade, lsn);
        loop {
            if core.reached(grade) >= lsn {
                return Ok(());
            }
            if let Some(ended) = self.ended() {
                return Err(ended);
            }
            let (ready, gathered) = self.gather(core);
            core = gathered;
            // Gathering lets go of the lock: a failure may have opened the gates meanwhile, and will not do so again.
            if let Some(ended) = self.ended() {
                return Err(ended);
            }
            if let Some(issue) = ready.then(|| self.issue(&mut core)).flatten() {
                self.drive(core, issue);
                if self.reached(grade) >= lsn {
                    return Ok(());
                }
                core = lock(&self.core);
                continue;
            }
            if core.reached(grade) >= lsn {
                return Ok(());
            }
            let gate = self.gate(core.batch_of(lsn));
            let ticket = gate.ticket();
            drop(core);
            self.crowd.blocks(monotonic_ns);
            gate.wait(ticket);
            if self.reached(grade) >= lsn {
                return Ok(());
            }
            core = lock(&self.core);
        }
    }

    /// Decides whether the next batch should go now, and lets a crowd gather that is about to come.
    ///
    /// A batch goes at once when it would be alone, or when it is at least as large as what is on its way. When several
    /// committers come round together (as those do whom the last batch woke), the first one of them gives the others
    /// the processor for a moment, so that one write carries them all, as far as [`Crowd`] finds that worth it; a lone
    /// committer never does, and no timer runs.
    pub(crate) fn gather<'a>(&'a self, core: MutexGuard<'a, Core>) -> (bool, MutexGuard<'a, Core>) {
        if core.in_flight() > 0 {
            return (core.is_due(), core);
        }
        let gathered = core.gathered_records();
        if self.crowd.is_here(gathered) {
            return (true, core);
        }
        let Some(mut patience) = self.crowd.wait(gathered, monotonic_ns()) else { return (false, core) };
        drop(core);
        let core = loop {
            yield_now();
            let now = monotonic_ns();
            if !patience.looks(now) {
                continue;
            }
            // Who appends right now must not have to wait for somebody who only looks.
            let Some(core) = try_lock(&self.core) else { continue };
            let gathered = core.gathered_records();
            let here = self.crowd.is_here(gathered) || core.in_flight() > 0;
            if here || !patience.lasts(gathered, now) {
                self.crowd.go(gathered);
                break core;
            }
        };
        (true, core)
    }

    /// Has the writer thread write the next batch, if it is time and somebody who does not block wants it; returns
    /// whether it did. A committer who is about to block leads instead: see [`Crowd::is_prompt`].
    pub(crate) fn lead_for_others<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
    ) -> std::result::Result<(), MutexGuard<'a, Core>> {
        let (ready, mut core) = self.gather(core);
        if ready && self.crowd.is_prompt() && core.in_flight() == 0 && core.full() == 0 {
            let began = monotonic_ns();
            drop(core);
            while !self.flying.load(Ordering::SeqCst) {
                if monotonic_ns() - began > PROMPT_NS {
                    self.crowd.nobody_came();
                    break;
                }
                yield_now();
            }
            core = lock(&self.core);
        }
        let lead = ready && core.is_due() && self.is_wanted(&core);
        let Some(issue) = lead.then(|| self.issue(&mut core)).flatten() else { return Err(core) };
        self.crowd.writer_begins(monotonic_ns());
        self.drive(core, issue);
        self.crowd.writer_ends();
        Ok(())
    }

    /// Writes one batch and tells everyone who waited for it.
    pub(crate) fn drive<'a>(&'a self, core: MutexGuard<'a, Core>, issue: Issue) {
        self.flying.store(true, Ordering::SeqCst);
        self.driving.fetch_add(1, Ordering::AcqRel);
        let mut driving = Driving { group: self, ended: false, _writing: Writing::begin() };
        self.carry_out(core, issue);
        driving.ended = true;
    }

    fn carry_out<'a>(&'a self, core: MutexGuard<'a, Core>, issue: Issue) {
        // Taken before the core is let go, so that batches are sealed in the order in which they were issued.
        let mut chain = lock(&self.chain);
        drop(core);
        let job = chain.seal(&self.shape, issue);
        drop(chain);
        let span = tracing::trace_span!(
            "batch",
            id = job.id,
            segment = job.segment,
            records = job.records,
            bytes = job.disk_bytes(),
            grade = ?job.grade
        );
        let _entered = span.entered();
        let began = monotonic_ns();
        let carried = match &job.starts {
            None => self.lanes.carry(&job),
            Some(header) => {
                let span =
                    tracing::debug_span!("rotate", segment = header.number, previous = header.previous);
                span.in_scope(|| self.lanes.carry(&job))
            }
        };
        let took = monotonic_ns() - began;
        if let Err(error) = carried {
            self.fail(error);
            return;
        }
        let starts = job.starts;
        self.meters.batch(took, &job);
        if let Some(header) = starts {
            lock(&self.shelf).started(header);
        }
        let (job_records, job_bytes) = (job.records, job.disk_bytes());
        let mut core = lock(&self.core);
        let (durable_before, done_before) = (core.durable_batch(), core.done_batch());
        let trim = core.durable_trim();
        core.done(job.id, job.into_buffer());
        let durable = core.acknowledged();
        // Who waits for a debt to be settled sleeps at the gate of a batch that has long been written.
        let first = if core.durable_batch() > durable_before { durable_before } else { done_before } + 1;
        let last = core.done_batch();
        self.durable.store(durable.get(), Ordering::Release);
        let owed = self.publish_weaker(&core);
        let weak = core.asked().is_used();
        let waiting = core.waiting();
        self.crowd.wrote(took, job_bytes, job_records, core.gathered_records() + core.flying_records());
        // Before `wanted` is looked at: see `want`.
        self.flying.store(core.in_flight() > 0, Ordering::SeqCst);
        // Waking a thread takes half as long as a short write: it is not done in vain.
        let news = starts.is_some() || core.durable_trim() > trim;
        let task = news && lock(&self.shelf).has_task(core.spares(), core.durable_trim());
        drop(core);
        self.tell(first, last, waiting, durable);
        if weak {
            self.wake_weaker_futures();
        }
        if owed {
            self.wake_writer();
        }
        if task {
            self.wake_keeper();
        }
    }

    /// Wakes those whose batches are durable, and one of those who wait for the next to be issued.
    fn tell(&self, first: u64, last: u64, waiting: Option<(u64, u64)>, durable: Lsn) {
        self.activity.fetch_add(1, Ordering::SeqCst);
        // There are only so many gates, however long the debt was.
        for batch in first.max((last + 1).saturating_sub(GATES as u64))..=last {
            self.gate(batch).open();
        }
        self.room.open();
        self.news.open();
        self.wake_futures(durable);
        let led = self.hand_over(waiting);
        if let Some((next, newest)) = waiting
            && !led
            && (self.wanted.load(Ordering::SeqCst) > durable.get() || newest > next)
        {
            self.wake_writer();
        }
        self.wake_sleeping_writer();
    }

    /// Wakes one of those who wait for the batches `waiting` to be issued, so that it leads; returns whether there was
    /// anyone. Whoever has gathered, or finished a batch, and does not lead the next one must do this.
    pub(crate) fn hand_over(&self, waiting: Option<(u64, u64)>) -> bool {
        waiting.is_some_and(|(next, newest)| {
            (next..=newest.min(next + GATES as u64)).any(|batch| self.gate(batch).open_for_one())
        })
    }

    fn wake_futures(&self, durable: Lsn) {
        let mut wakers = lock(&self.wakers);
        if wakers.is_empty() {
            return;
        }
        let failed = self.failure.get().is_some();
        let ready: Vec<Waker> =
            wakers.extract_if(.., |(lsn, _)| failed || *lsn <= durable).map(|(_, waker)| waker).collect();
        drop(wakers);
        wake_each(ready);
    }

    /// The log is finished: everyone is told, nothing is acknowledged any more.
    pub(crate) fn fail(&self, error: Error) {
        tracing::error!(%error, "the log failed");
        // Only the first failure is the cause; later ones are its consequences.
        if self.failure.set(Arc::new(error)).is_ok() {
            self.meters.metered.count(Metric::Failures, 1);
        }
        lock(&self.core).fail();
        self.gates.iter().for_each(Gate::open);
        self.room.open();
        self.news.open();
        self.wake_futures(Lsn::MAX);
        self.wake_weaker_futures();
        self.wake_writer();
        self.wake_keeper();
    }

    /// Wants everything before `lsn` committed without waiting for it.
    ///
    /// If a batch is on its way, whoever finishes it looks at `wanted` afterwards: it lowers `flying` first and looks
    /// then, this raises `wanted` first and looks at `flying` then, so one of the two sees the other.
    pub(crate) fn want(&self, lsn: Lsn) {
        self.wanted.fetch_max(lsn.get(), Ordering::SeqCst);
        if self.writer_asleep.load(Ordering::SeqCst) || !self.flying.load(Ordering::SeqCst) {
            self.wake_writer();
        }
    }

    /// Whether somebody wants more committed than has been issued.
    pub(crate) fn is_wanted(&self, core: &Core) -> bool {
        core.full() > 0 || self.is_short(core)
    }

    /// Wakes `waker` when everything before `lsn` is durable, or at once if it is.
    pub(crate) fn wake_at(&self, lsn: Lsn, waker: &Waker) {
        let mut wakers = lock(&self.wakers);
        match wakers.iter_mut().find(|(at, known)| *at == lsn && known.will_wake(waker)) {
            Some(_) => {}
            None => wakers.push((lsn, waker.clone())),
        }
    }

    /// Commits everything and then writes the close mark, behind whatever is still under way.
    pub(crate) fn seal_log(&self) -> Result<()> {
        loop {
            let mut core = lock(&self.core);
            if let Some((grade, end)) = core.owed_to_close() {
                self.settle(core, end, grade)?;
                core = lock(&self.core);
            }
            if let Some(ended) = self.ended() {
                return Err(ended);
            }
            match core.close() {
                Closing::Wait(batch) => {
                    let gate = self.gate(batch);
                    let ticket = gate.ticket();
                    drop(core);
                    gate.wait(ticket);
                }
                Closing::Before(issue) => self.drive(core, issue),
                Closing::Mark(issue) => {
                    self.drive(core, issue);
                    return self.failed().map_or(Ok(()), Err);
                }
                Closing::Refused => return Err(self.refusal()),
            }
        }
    }
}

/// A batch is being written. If whoever writes it panics, which only code of others that it calls can make it do, the log
/// fails, otherwise everyone would wait for that batch for ever.
struct Driving<'a> {
    group: &'a Group,
    ended: bool,
    _writing: Writing,
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let panicked = std::io::Error::other("the thread that wrote a batch panicked");
            self.group.fail(Error::io("write", self.group.lanes.dir(), panicked));
        }
        self.group.driving.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Wakes each of them. One that panics is heard of and harms neither the others nor this thread.
pub(crate) fn wake_each(wakers: Vec<Waker>) {
    for waker in wakers {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake())).is_err() {
            tracing::error!("a waker of a commit panicked");
        }
    }
}
