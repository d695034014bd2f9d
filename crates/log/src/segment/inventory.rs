//! Segment inventory: lists started and spare segments and decides which one to prepare, recycle or remove.
//!
//! It keeps the list of started segments, decides which trimmed one goes next and when a new one must be prepared. It
//! does no I/O: it hands out one [`Task`] at a time, and its caller reports the outcome of that task.
//!
//! Filling a new segment competes with the commits for the disk; recycling a trimmed one costs a rename. So trimmed
//! segments are kept as spares, as many as one round takes:
//!
//! ```text
//! a round       from one trim that frees segments to the next
//! spares        at least as many as are wanted; trimmed ones beyond that up to the segments that the last round started
//! ```
//!
//! One that is not kept is removed when no spare is wanted: a commit that needs one would wait for the removal of all
//! that a trim freed.
//!
//! Invariants: a segment goes only when a first LSN after it is durable on disk; the oldest goes first; numbers only
//! grow; the active segment never goes.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::format::SegmentHeader;
use crate::lsn::Lsn;
use crate::segment::Spare;
use crate::segment::cap::Cap;
use crate::segment::lifecycle::Task;
use seawall_sys::planted;

/// So many times as large as the newest segment is one that is prepared after it, up to the size that was asked for: see
/// `recovery/mod.rs` for the small ones.
pub(crate) const GROWTH: u64 = 8;

/// How many segments are started between two trims.
#[derive(Debug, Default)]
struct Round {
    /// Segments started since the last round ended.
    started: usize,
    /// How many are expected in this one.
    expected: usize,
    /// The first LSN with which the last one ended.
    trim: Lsn,
}

impl Round {
    /// The trim to `durable_trim` freed a segment: a new round, unless it is the one that freed the last segment too.
    fn ends(&mut self, durable_trim: Lsn) {
        if self.trim != durable_trim {
            // At most halved by each round, so that one early trim does not discard all spares.
            self.expected = std::mem::take(&mut self.started).max(self.expected / 2);
            self.trim = durable_trim;
        }
    }
}

#[derive(Debug)]
pub(crate) struct SegmentInventory {
    pub(crate) segments: VecDeque<SegmentHeader>,
    next_number: u64,
    segment_bytes: u64,
    /// The spares that are wanted, and the most that are kept.
    spares: RangeInclusive<usize>,
    round: Round,
    busy: Option<Task>,
    /// The segment that the running task takes away.
    leaving: Option<(usize, SegmentHeader)>,
    /// Segments that are prepared and not started.
    prepared: Vec<Spare>,
    /// What failed tasks could not remove, in bytes: it goes at the next opening.
    left_behind: u64,
    /// The most that the log takes on the disk, in bytes, if it has a cap.
    bytes_max: Option<u64>,
}

impl SegmentInventory {
    /// The segments that recovery found, oldest first. The least of `spares` are to be prepared at any time, and trimmed
    /// ones may be kept beyond that up to the most.
    pub(crate) fn new(
        segments: impl IntoIterator<Item = SegmentHeader>,
        next_number: u64,
        segment_bytes: u64,
        spares: RangeInclusive<usize>,
    ) -> Self {
        let (segments, round) = (segments.into_iter().collect(), Round::default());
        Self {
            segments,
            next_number,
            segment_bytes,
            spares,
            round,
            busy: None,
            leaving: None,
            prepared: Vec::new(),
            left_behind: 0,
            bytes_max: None,
        }
    }

    /// With the spares that recovery found, and a cap on what the log takes on the disk, if it has one.
    pub(crate) fn capped(mut self, prepared: &[Spare], bytes_max: Option<u64>) -> Self {
        (self.prepared, self.bytes_max) = (prepared.to_vec(), bytes_max);
        self
    }

    /// What the log takes on the disk, in bytes: every file that is or becomes a segment.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let started: u64 = self.segments.iter().map(|header| header.segment_bytes).sum();
        let prepared: u64 = self.prepared.iter().map(|spare| spare.bytes).sum();
        let prepared = planted!(CapIgnoresSpares, prepared);
        let leaving = self.leaving.map_or(0, |(_, header)| header.segment_bytes);
        started + prepared + leaving + self.staging_bytes() + self.left_behind
    }

    /// What is being prepared, in bytes.
    fn staging_bytes(&self) -> u64 {
        match self.busy {
            Some(Task::Prepare(to) | Task::Replace(to)) => to.bytes,
            Some(Task::Recycle { .. } | Task::Remove(_)) | None => 0,
        }
    }

    pub(crate) fn cap(&self) -> Cap {
        let newest_bytes = self.segments.back().map_or(0, |header| header.segment_bytes);
        let spare_bytes = self.prepared.iter().map(|spare| spare.bytes).fold(self.staging_bytes(), u64::max);
        let (bytes_max, segment_bytes) = (self.bytes_max, self.segment_bytes);
        Cap { bytes_max, segment_bytes, disk_bytes: self.disk_bytes(), newest_bytes, spare_bytes }
    }

    /// A segment was started and its header is durable.
    pub(crate) fn started(&mut self, header: SegmentHeader) {
        self.prepared.retain(|spare| spare.number != header.number);
        self.segments.push_back(header);
        self.round.started += 1;
    }

    /// Whether a segment can go once this trim is durable.
    pub(crate) fn frees(&self, trim: Lsn) -> bool {
        self.segments.get(1).is_some_and(|next| next.first_lsn <= trim)
    }

    /// The segment that can go, if any.
    fn trimmed(&self, durable_trim: Lsn) -> Option<SegmentHeader> {
        let next = self.segments.get(1)?;
        let first = self.segments.front()?;
        let gone =
            planted!(RetireLiveSegment(first.first_lsn < durable_trim), next.first_lsn <= durable_trim);
        planted!(RetireNewestFirst(&self.segments, durable_trim), gone.then_some(*first))
    }

    /// The size of the next segment that is prepared.
    fn next_bytes(&self) -> u64 {
        let newest = self.cap().newest_bytes.max(self.cap().spare_bytes);
        if newest == 0 { self.segment_bytes } else { self.segment_bytes.min(newest.saturating_mul(GROWTH)) }
    }

    /// Whether a segment is to be prepared.
    fn wants(&self, spares: usize) -> bool {
        spares < *self.spares.start() && self.cap().has_room(self.next_bytes())
    }

    /// Whether there is a task; none while one runs, because its thread looks again when it has ended.
    pub(crate) fn has_task(&self, spares: usize, durable_trim: Lsn) -> bool {
        self.busy.is_none() && (self.wants(spares) || self.trimmed(durable_trim).is_some())
    }

    /// The next task, if there is any: one runs at a time.
    pub(crate) fn next_task(&mut self, spares: usize, durable_trim: Lsn) -> Option<Task> {
        if self.busy.is_some() {
            return None;
        }
        let to = Spare { number: self.next_number, bytes: self.segment_bytes };
        let wanted = self.wants(spares);
        let trimmed = self.trimmed(durable_trim);
        if trimmed.is_some() {
            self.round.ends(durable_trim);
        }
        let kept = spares < (self.spares.start() + self.round.expected).min(*self.spares.end());
        let task = match trimmed {
            Some(old) if kept && old.segment_bytes == self.segment_bytes => {
                Task::Recycle { from: old.number, to }
            }
            _ if planted!(RemoveBeforeSpare(wanted, trimmed), wanted) => {
                Task::Prepare(Spare { bytes: self.next_bytes(), ..to })
            }
            Some(old) => Task::Remove(old.number),
            None => return None,
        };
        if !matches!(task, Task::Remove(_)) {
            self.next_number += 1;
        }
        if let Task::Recycle { from, .. } | Task::Remove(from) = task {
            let at = self.segments.iter().position(|segment| segment.number == from);
            self.leaving = at.and_then(|at| Some((at, self.segments.remove(at)?)));
        }
        self.busy = Some(task);
        Some(task)
    }

    /// The task that makes room for records which need a segment of `bytes` bytes: the first spare, which is too small,
    /// perhaps because an opening with smaller segments left it, is replaced; without one a large segment is prepared.
    /// `None` if the next ordinary task will do.
    pub(crate) fn task_for(&mut self, bytes: u64, first_spare: Option<Spare>) -> Option<Task> {
        let ordinary = bytes <= self.segment_bytes;
        let enough = first_spare.map_or(ordinary, |spare| spare.bytes >= bytes);
        if planted!(KeepSmallSpare(enough, ordinary), enough) || self.busy.is_some() {
            return None;
        }
        let bytes = bytes.max(self.segment_bytes);
        let cap = self.cap();
        if !cap.has_room(bytes) || cap.never_fits(bytes) {
            return None;
        }
        let task = if let Some(spare) = first_spare {
            Task::Replace(Spare { number: spare.number, bytes })
        } else {
            let number = self.next_number;
            self.next_number += 1;
            Task::Prepare(Spare { number, bytes })
        };
        self.busy = Some(task);
        Some(task)
    }

    /// The task that was handed out has ended.
    pub(crate) fn task_done(&mut self) {
        planted!(CapNeverReleased(&mut self.left_behind, self.leaving));
        self.leaving = None;
        match self.busy.take() {
            Some(Task::Replace(to)) => {
                self.prepared.retain(|spare| spare.number != to.number);
                self.prepared.push(to);
            }
            Some(Task::Prepare(to) | Task::Recycle { to, .. }) => self.prepared.push(to),
            Some(Task::Remove(_)) | None => {}
        }
    }

    /// The task that was handed out failed; its segment is as it was. One that was to be removed is
    /// still the next, otherwise a younger one would be removed first and leave a gap. `removed` if no unfinished file is
    /// left of it.
    pub(crate) fn task_failed(&mut self, removed: bool) {
        if let Some(Task::Prepare(to) | Task::Replace(to)) = self.busy.take().filter(|_| !removed) {
            self.left_behind += to.bytes;
        }
        if let Some((at, header)) = planted!(ForgetAfterTaskError, self.leaving.take()) {
            self.segments.insert(at, header);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::SegmentInventory;
    use crate::format::SegmentHeader;
    use crate::lsn::Lsn;
    use crate::segment::Spare;
    use crate::segment::lifecycle::Task;
    use crate::testing::fixtures;

    const BYTES: u64 = 1 << 20;

    fn header(number: u64) -> SegmentHeader {
        fixtures::segment(number, 4096, BYTES, Lsn::new(number * 100))
    }

    /// The tasks of a log: each is done as soon as it is handed out.
    struct Housekeeping {
        inventory: SegmentInventory,
        spares: Vec<u64>,
        trim: Lsn,
        /// Segments prepared, recycled and retired.
        done: [usize; 3],
    }

    impl Housekeeping {
        fn keep(&mut self) {
            loop {
                let expected = self.inventory.has_task(self.spares.len(), self.trim);
                let task = self.inventory.next_task(self.spares.len(), self.trim);
                assert_eq!(expected, task.is_some());
                let Some(task) = task else { break };
                assert!(!self.inventory.has_task(self.spares.len(), self.trim), "{task:?} is running");
                let (what, spare) = match task {
                    Task::Prepare(to) => (0, Some(to)),
                    Task::Recycle { to, .. } => (1, Some(to)),
                    Task::Remove(_) => (2, None),
                    Task::Replace(_) => unreachable!("no large segment is needed"),
                };
                self.done[what] += 1;
                self.inventory.task_done();
                self.spares.extend(spare.map(|Spare { number, .. }| number));
            }
        }

        /// Starts `segments` segments and trims everything before the last one, by steps of this many segments.
        fn round(&mut self, segments: u64, by: u64) -> [usize; 3] {
            self.done = [0; 3];
            for _ in 0..segments {
                self.inventory.started(header(self.spares.remove(0)));
                self.keep();
            }
            let newest = self.inventory.segments.back().map_or(Lsn::ZERO, |newest| newest.first_lsn);
            while self.trim < newest {
                self.trim = newest.min(self.trim.saturating_add(by * 100));
                self.keep();
            }
            self.done
        }
    }

    fn begin(spares_wanted: usize, kept_max: usize) -> Housekeeping {
        let inventory =
            SegmentInventory::new([header(1)], 2, BYTES, spares_wanted..=spares_wanted + kept_max);
        let mut log = Housekeeping { inventory, spares: Vec::new(), trim: Lsn::new(100), done: [0; 3] };
        log.keep();
        assert_eq!((log.done, log.spares.len()), ([spares_wanted, 0, 0], spares_wanted));
        log
    }

    #[test]
    fn a_round_as_long_as_the_last_one_fills_nothing() {
        for (spares, length) in [(1, 1), (1, 2), (1, 10), (3, 5), (16, 16)] {
            let mut log = begin(spares, 16);
            assert_eq!(
                log.round(length, length)[0],
                usize::try_from(length).expect("small"),
                "the first one fills"
            );
            for _ in 0..10 {
                let all_recycled = [0, usize::try_from(length).expect("small"), 0];
                assert_eq!(log.round(length, length), all_recycled, "{spares} spares, {length} a round");
            }
        }
    }

    /// Trims 40 segments of another size than those that are prepared, and starts one whenever there is a spare; how many were
    /// removed while there was none.
    fn removed_without_a_spare() -> usize {
        let old = |number| fixtures::segment(number, 4096, 2 * BYTES, Lsn::new(number * 100));
        let mut inventory = SegmentInventory::new((1..=41).map(old), 42, BYTES, 1..=17);
        let (trim, mut spares, mut waits) = (Lsn::new(4100), Vec::new(), 0);
        while let Some(task) = inventory.next_task(spares.len(), trim) {
            waits += usize::from(spares.is_empty() && matches!(task, Task::Remove(_)));
            inventory.task_done();
            if let Task::Prepare(to) = task {
                spares.push(to.number);
            } else if let Some(number) = spares.pop() {
                inventory.started(header(number));
            }
        }
        assert!(inventory.segments.iter().all(|segment| segment.number > 40), "all that can go have gone");
        waits
    }

    #[test]
    fn a_spare_is_prepared_before_trimmed_segments_are_removed() {
        assert_eq!(removed_without_a_spare(), 0);
        #[cfg(feature = "mutants")]
        {
            use crate::testing::mutant::{Mutant, set};
            let (mutant, least) = (Mutant::RemoveBeforeSpare, 1);
            set(Some(mutant));
            let waits = removed_without_a_spare();
            set(None);
            assert!(waits >= least);
        }
    }

    #[test]
    fn spares_beyond_the_last_round_are_removed() {
        // A backlog of 40 segments is not kept for rounds of one.
        let mut log = begin(1, 16);
        let [_, recycled, retired] = log.round(40, 40);
        assert_eq!((recycled, retired), (16, 24), "no more than the bound is kept");
        let mut log = begin(1, 0);
        assert_eq!(log.round(5, 5), [5, 0, 5], "nothing is kept where nothing may be");
        let mut log = begin(1, 16);
        log.round(4, 4);
        // Trimmed one by one: each trim is a round of its own, and what it frees is more than the next one needs.
        for _ in 0..8 {
            log.round(4, 1);
        }
        assert!(log.spares.len() <= 1 + 4, "{} spares", log.spares.len());
    }
}
