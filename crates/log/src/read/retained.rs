//! Trims an open log by its own rules, on the maintenance thread.
//!
//! The rules are pure, in `segment/retention.rs`; this gives them the segments, their ages, the clock and the pins, and trims
//! as `Log::trim` does.
//!
//! The age of a full segment is that of its file: when it was last changed, which is when its last batch was written, or later
//! where the file was copied. Batches state their times as well, by which `Log::lsn_at` searches; the two are apart because the
//! time of a file costs one call, and that of the last batch a walk through the segment.
//!
//! Invariant: the pins are looked at and the trim takes effect under one lock, as in `Log::trim`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seawall_sys::clock::unix_us;
use seawall_sys::directory::Directory;

use crate::commit::group::Group;
use crate::format::{SegmentHeader, segment_name};
use crate::read::index::RecordIndex;
use crate::read::pin::Pins;
use crate::segment::retention::{Aged, Retention, judge};

/// Clocks may be set; an age is looked at again after this time at the latest.
const AGAIN_MAX: Duration = Duration::from_mins(1);

/// What an open log is trimmed by.
pub(crate) struct Retained {
    pub(crate) rules: Retention,
    pub(crate) group: Arc<Group>,
    pub(crate) dir: Arc<Directory>,
    pub(crate) pins: Pins,
    pub(crate) index: Arc<RecordIndex>,
    /// The oldest segment when that was looked at last.
    pub(crate) oldest: Option<u64>,
    /// When the newest record of full segments was written, in microseconds since 1970.
    pub(crate) newest_us: BTreeMap<u64, u64>,
}

impl Retained {
    /// Trims what the rules let go; returns when to look again, if only time will let more go. Called whenever a segment has
    /// gone, which may be for another reason than these rules: then the index of records gives it up as well.
    pub(crate) fn trim(&mut self) -> Option<Duration> {
        let oldest = self.group.housekeeping().inventory().segments().front().map(|header| header.number);
        if self.oldest != oldest {
            self.oldest = oldest;
            let first = self.group.core().trim();
            self.index.trimmed(&self.group, first);
        }
        if !self.rules.is_set() {
            return None;
        }
        let segments: Vec<SegmentHeader> =
            self.group.housekeeping().inventory().segments().iter().copied().collect();
        let aged: Vec<Aged> = segments.iter().map(|header| self.aged(header)).collect();
        let oldest = segments.first().map_or(0, |header| header.number);
        self.newest_us = self.newest_us.split_off(&oldest);
        if let Err(error) = self.pins.look(&self.dir) {
            tracing::warn!(%error, "nothing is trimmed");
        }
        let mut held = self.pins.held();
        let now_us = unix_us();
        let verdict = judge(&aged, &self.rules, now_us, held.lowest());
        let free = judge(&aged, &self.rules, now_us, None);
        if verdict.trim != free.trim {
            // A pin holds some of it: the next segment goes when the lowest pin is past it.
            let next = aged.iter().map(|segment| segment.first_lsn).find(|first| Some(*first) > verdict.trim);
            held.awaited = next;
        }
        let moved = verdict.trim.and_then(|lsn| {
            let mut core = self.group.core();
            let before = core.trim();
            Some(core.set_trim(lsn)).filter(|first| *first > before)
        });
        drop(held);
        if let Some(first) = moved {
            tracing::debug!(%first, "trimmed by the rules of the log");
            self.index.trimmed(&self.group, first);
            self.group.trimmed();
        }
        verdict.again_us.map(|again| Duration::from_micros(again).min(AGAIN_MAX))
    }

    fn aged(&mut self, header: &SegmentHeader) -> Aged {
        let SegmentHeader { number, first_lsn, segment_bytes: bytes, .. } = *header;
        Aged { first_lsn, bytes, newest_us: self.rules.age.and_then(|_| self.newest_us(number)) }
    }

    /// When the newest record of a segment was written, if it is full.
    fn newest_us(&mut self, number: u64) -> Option<u64> {
        let active = self.group.housekeeping().inventory().segments().back().map(|header| header.number);
        if active == Some(number) {
            return None;
        }
        if let Some(known) = self.newest_us.get(&number) {
            return Some(*known);
        }
        let modified = self.dir.file_modified_us(&segment_name(number)).ok()?;
        self.newest_us.insert(number, modified);
        Some(modified)
    }
}
