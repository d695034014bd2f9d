//! Writes a batch as its leader, publishes the watermarks and wakes what waited for it.

use seawall_sys::planted;

use super::Group;
use crate::commit::seal::Job;
use crate::commit::state::{Core, Issue};
use crate::commit::sync::{MutexGuard, Ordering, lock, monotonic_ns, time_us};
use crate::error::Error;
use crate::lock::Writing;
use crate::method::ack_level::AckLevel;

impl Group {
    /// Writes one batch and wakes everything that waited for it.
    pub(super) fn lead<'a>(&'a self, core: MutexGuard<'a, Core>, issue: Issue) {
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
        let (durable_before, done_before) = (core.durable_id, core.done_id);
        let trim = core.durable_trim();
        core.done(job.id, job.into_buffer());
        let durable = core.acknowledged();
        // A commit that waits for a debt to be synced sleeps at the gate of a batch that was written long ago.
        let first = if core.durable_id > durable_before { durable_before } else { done_before } + 1;
        let last = core.done_id;
        // Before any committer here returns: a view that is opened then must show the record.
        if let Some(publisher) = self.publisher.get() {
            let durable = planted!(PublishBeforeDurable(core.appended()), durable);
            // A follower looks for a cut once: when it learns of it the disk must have it.
            let cuts = planted!(CutsPublishedEarly(core.tagged.cut), core.acknowledged_cuts);
            publisher.publish(durable, cuts);
        }
        self.waiters.publish_durable(durable);
        let behind = self.publish_relaxed(&core);
        let waiting = core.waiting();
        self.wait.batch_written(took_ns, bytes, records, core.gathered_records() + core.records_in_flight());
        // Before the requests are looked at: see `request`.
        self.in_flight.store(core.in_flight() > 0, Ordering::SeqCst);
        // Waking a thread takes half as long as a short write: it is done only where it helps.
        let news = starts.is_some() || core.durable_trim() > trim;
        // Streams may have let a segment go, which the holds on the log may keep, or what is held back.
        let looks =
            core.awaits_look() || (self.is_bounded && (starts.is_some() || core.tagged.streams.holds()));
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
        if !core.debt.is_used() {
            return false;
        }
        for level in AckLevel::RELAXED {
            self.waiters.publish_relaxed(level, core.reached(level));
        }
        self.is_behind(core)
    }
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
