//! Trims an open log as its streams release segments and by its retention rules, on the maintenance thread.
//!
//! The rules are pure, in `segment/retention.rs`; this gives them the segments, their ages, the clock and the pins, and trims
//! as `Log::trim` does. A hold of another process says nothing when it moves on: as long as one is in the way it is looked at
//! again and again.
//!
//! The age of a full segment is that of its file: when it was last changed, which is when its last batch was written, or later
//! where the file was copied. Batches state their times as well, by which `Log::lsn_at` searches; the two are apart because the
//! time of a file costs one call, and that of the last batch a walk through the segment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use seawall_sys::clock::{monotonic_ns, unix_us};
use seawall_sys::directory::Directory;

use crate::commit::group::Group;
use crate::error::Result;
use crate::format::{SegmentHeader, segment_name};
use crate::read::index::RecordIndex;
use crate::read::pin::Pins;
use crate::read::trim::Trim;
use crate::segment::retention::{Aged, Now, Retention, judge};

/// Clocks may be set; an age is looked at again after this time at the latest.
const AGAIN_MAX: Duration = Duration::from_mins(1);
/// How soon a hold that is in the way, or cannot be read, is looked at again.
const HELD_AGAIN: Duration = Duration::from_secs(1);

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
    /// The clock that ages are counted by.
    pub(crate) now: Now,
}

impl Retained {
    /// Trims what streams and the rules let go; returns when to look again, if only time will let more go. Called whenever a segment
    /// has gone, which may be for another reason than these: then the index of records gives it up as well.
    pub(crate) fn trim(&mut self) -> Option<Duration> {
        let oldest = self.group.housekeeping.inventory().segments.front().map(|header| header.number);
        if self.oldest != oldest {
            self.oldest = oldest;
            let first = self.group.core().trim();
            self.index.trimmed(&self.group, first);
        }
        let let_go = self.group.core().is_let_go();
        if !let_go && !self.rules.is_set() {
            return None;
        }
        let (again, held) = self.judge_and_trim().unwrap_or_else(|error| {
            tracing::warn!(%error, "nothing is trimmed");
            (None, true)
        });
        let held = held || (self.group.core().is_let_go() && self.pins.held().outside.is_some());
        again.into_iter().chain(held.then_some(HELD_AGAIN)).min()
    }

    /// Does so once; also returns whether a hold is in the way of the rules.
    fn judge_and_trim(&mut self) -> Result<(Option<Duration>, bool)> {
        let segments: Vec<SegmentHeader> =
            self.group.housekeeping.inventory().segments.iter().copied().collect();
        let aged: Vec<Aged> = segments.iter().map(|header| self.aged(header)).collect();
        let oldest = segments.first().map_or(0, |header| header.number);
        self.newest_us = self.newest_us.split_off(&oldest);
        let age_us = self.rules.age.map_or(0, |age| u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        let newest_us = aged.iter().rev().find_map(|segment| segment.newest_us);
        let expires_us = newest_us.map(|newest| newest.saturating_add(age_us));
        // At the beginning of time nothing is old.
        let now_us = self.now.at(unix_us(), monotonic_ns() / 1000, expires_us).unwrap_or(0);
        let free = judge(&aged, &self.rules, now_us, None);
        let (mut again, mut is_held) = (None, false);
        let trim = Trim { group: &self.group, dir: &self.dir, pins: &self.pins, index: &self.index };
        trim.to(|held, _| {
            let verdict = judge(&aged, &self.rules, now_us, held.lowest());
            again = verdict.again_us.map(|again| Duration::from_micros(again).min(AGAIN_MAX));
            if verdict.trim != free.trim {
                // A pin holds some of it: the next segment goes when the lowest pin is past it.
                let next =
                    aged.iter().map(|segment| segment.first_lsn).find(|first| Some(*first) > verdict.trim);
                held.awaited = next;
                is_held = held.outside.is_some();
            }
            Ok(verdict.trim.unwrap_or_default())
        })?;
        Ok((again, is_held))
    }

    fn aged(&mut self, header: &SegmentHeader) -> Aged {
        let SegmentHeader { number, first_lsn, segment_bytes: bytes, .. } = *header;
        Aged { first_lsn, bytes, newest_us: self.rules.age.and_then(|_| self.newest_us(number)) }
    }

    /// When the newest record of a segment was written, if it is full.
    fn newest_us(&mut self, number: u64) -> Option<u64> {
        let active = self.group.housekeeping.inventory().segments.back().map(|header| header.number);
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
