//! Which segments are there, and what should be done about them next?
//!
//! Keeps the list of started segments, decides which trimmed one goes next and when a new one must be prepared. Pure:
//! it hands out one [`Task`] at a time and is told how that ended.
//!
//! Invariants: a segment goes only when a first LSN behind it is durable on disk; the oldest goes first; numbers only
//! grow; the active segment never goes.

use std::collections::VecDeque;

use crate::core::Spare;
use crate::format::SegmentHeader;
use crate::keeper::{Progress, Task};
use crate::lsn::Lsn;
use crate::mutant::{self, Mutant};

/// The segments of one log.
#[derive(Debug)]
pub(crate) struct Shelf {
    segments: VecDeque<SegmentHeader>,
    next_number: u64,
    segment_bytes: u64,
    spares_wanted: usize,
    busy: Option<Task>,
    /// The segment that the task under way takes away.
    leaving: Option<(usize, SegmentHeader)>,
}

impl Shelf {
    /// The segments that recovery found, oldest first.
    pub(crate) fn new(
        segments: impl IntoIterator<Item = SegmentHeader>,
        next_number: u64,
        segment_bytes: u64,
        spares_wanted: usize,
    ) -> Self {
        let segments = segments.into_iter().collect();
        Self { segments, next_number, segment_bytes, spares_wanted, busy: None, leaving: None }
    }

    /// The started segments, oldest first.
    pub(crate) fn segments(&self) -> &VecDeque<SegmentHeader> {
        &self.segments
    }

    /// The size of an ordinary segment in bytes.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// A segment was started and its header is durable.
    pub(crate) fn started(&mut self, header: SegmentHeader) {
        self.segments.push_back(header);
    }

    /// The segment that can go, if any.
    fn trimmed(&self, durable_trim: Lsn) -> Option<SegmentHeader> {
        let next = self.segments.get(1)?;
        if mutant::on(Mutant::RetireLiveSegment) {
            return self.segments.front().filter(|first| first.first_lsn < durable_trim).copied();
        }
        let gone = next.first_lsn <= durable_trim;
        if mutant::on(Mutant::RetireNewestFirst) && gone {
            let newest = self.segments.iter().zip(self.segments.iter().skip(1)).rev();
            return newest.filter(|(_, next)| next.first_lsn <= durable_trim).map(|(segment, _)| *segment).next();
        }
        gone.then(|| self.segments.front().copied()).flatten()
    }

    /// What to do next, if anything: one task at a time.
    pub(crate) fn next_task(&mut self, spares: usize, durable_trim: Lsn) -> Option<Task> {
        if self.busy.is_some() {
            return None;
        }
        let to = Spare { number: self.next_number, bytes: self.segment_bytes };
        let wanted = spares < self.spares_wanted;
        let task = match self.trimmed(durable_trim) {
            Some(old) if wanted && old.segment_bytes == self.segment_bytes => {
                Task::Recycle { from: old.number, to }
            }
            Some(old) => Task::Retire(old.number),
            None if wanted => Task::Prepare(to),
            None => return None,
        };
        if !matches!(task, Task::Retire(_)) {
            self.next_number += 1;
        }
        if let Task::Recycle { from, .. } | Task::Retire(from) = task {
            let at = self.segments.iter().position(|segment| segment.number == from);
            self.leaving = at.and_then(|at| Some((at, self.segments.remove(at)?)));
        }
        self.busy = Some(task);
        Some(task)
    }

    /// A segment of `bytes` bytes, for a transaction that fits no other, in place of the first spare if there is one.
    pub(crate) fn large_task(&mut self, bytes: u64, first_spare: Option<Spare>) -> Option<Task> {
        if self.busy.is_some() {
            return None;
        }
        let task = if let Some(spare) = first_spare { Task::Replace(Spare { number: spare.number, bytes }) } else {
            let number = self.next_number;
            self.next_number += 1;
            Task::Prepare(Spare { number, bytes })
        };
        self.busy = Some(task);
        Some(task)
    }

    /// The task that was handed out has ended; returns the spare that it made, if it made one.
    pub(crate) fn finished(&mut self, progress: Progress) -> Option<Spare> {
        self.busy = None;
        self.leaving = None;
        match progress {
            Progress::Prepared(spare) => Some(spare),
            Progress::More | Progress::Retired(_) => None,
        }
    }

    /// The task that was handed out failed; what it was about is left as it is. A segment that was to go is still
    /// the next one to go, otherwise a younger one would go first and leave a gap.
    pub(crate) fn set_back(&mut self) {
        self.busy = None;
        if let Some((at, header)) = self.leaving.take().filter(|_| !mutant::on(Mutant::ForgetAfterSetback)) {
            self.segments.insert(at, header);
        }
    }
}
