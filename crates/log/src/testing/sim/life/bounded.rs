//! Bounds a simulated life: rules of retention beside readers that pin the log, and a cap on the disk.
//!
//! A life with a cap is filled until no record finds room. Then records must get on from segment to segment, whatever came
//! before: in half of the lives as everything is trimmed again and again, in the others as one segment at a time is, in front
//! of cuts that must be stated again; and in those with streams while trims of them use up what is left.

use super::Life;
use crate::format::SegmentHeader;
use crate::segment::cap::is_counted;
use crate::segment::retention::{self, Aged};
use crate::testing::oracle::Violation;
use crate::testing::sim::life::Step;
use crate::testing::sim::rng::Rng;

impl Life {
    /// A reader pins the log somewhere, or releases it.
    pub(super) fn pin(&mut self) {
        let from = self.core.trim();
        let at = self.ends[self.rng.index(self.ends.len())].max(from);
        self.pin = if self.rng.coin() { Some(at) } else { None };
        self.core.pins().set(self.pin);
    }

    /// The log trims itself by its rules.
    pub(super) fn retain(&mut self) {
        let aged = |header: &SegmentHeader| Aged {
            first_lsn: header.first_lsn,
            bytes: header.segment_bytes,
            newest_us: None,
        };
        let segments: Vec<Aged> = self.inventory.segments().iter().map(aged).collect();
        let before = self.core.trim();
        let Some(lsn) = retention::judge(&segments, &self.habits.retention, 0, self.pin).trim else { return };
        let first = self.core.set_trim(lsn);
        if first > before {
            self.trace.push(Step::Trimmed(first));
        }
        if let Some(pin) = self.pin.filter(|pin| *pin < first) {
            self.broken = self.broken.take().or(Some(Violation::PinPassed { pin, first }));
        }
    }

    pub(super) fn look_at_the_cap(&mut self) {
        let Some(cap) = self.habits.cap else { return };
        let bytes = self.disk.bytes_of(is_counted);
        if bytes > cap {
            self.broken = self.broken.take().or(Some(Violation::OverCap { bytes, cap }));
        }
    }

    /// Does all that is due, and commits what was appended.
    fn catch_up(&mut self) {
        let steps: [fn(&mut Self); 5] =
            [Self::issue, |life| life.complete(true), Self::mark, Self::issue, Self::keep];
        for step in steps {
            step(self);
            self.drain();
        }
    }

    fn append_some(&mut self, bytes: usize) {
        let payload = Rng::new(self.core.appended().get()).bytes(bytes);
        let accepted = self.core.append(&payload);
        self.accepted(accepted, vec![payload]);
    }

    /// Appends until there is no room for more.
    pub(super) fn fill_up(&mut self) {
        for _ in 0..60 {
            let full = self.needed.is_some() && self.task.is_none() && self.running.is_empty();
            if self.failed || full {
                return;
            }
            self.append_some(1200);
            self.catch_up();
        }
    }

    /// The segments that can still be started.
    fn ahead(&self) -> usize {
        self.core.spares().saturating_add(self.inventory.cap().rooms())
    }

    /// Trims streams until the last segment is started, with records beside each trim that are not to use up what is left
    /// there; returns whether it came to that, which a life that had used up the segments for trims before does not.
    fn trim_into_the_last_segment(&mut self) -> bool {
        for _ in 0..40 {
            if self.failed || self.ahead() == 0 {
                return false;
            }
            self.trim_a_stream();
            let last = self.ahead() == 0;
            self.append_some(1800);
            self.catch_up();
            if last {
                return true;
            }
        }
        false
    }

    /// Trims everything that is acknowledged, again and again: records must then get from segment to segment.
    pub(super) fn make_room(&mut self) {
        const ROUNDS: usize = 2000;
        self.pin = None;
        self.core.pins().set(None);
        // Each trim of a stream takes a block, of which the smallest segments have six: what the life did before may have used
        // up all of them.
        let streams = self.core.tagged().streams_from != 0;
        let judged = !streams || self.trim_into_the_last_segment();
        let newest = |life: &Self| life.inventory.segments().back().map_or(0, |header| header.number);
        let goal = newest(self) + 5;
        for _ in 0..ROUNDS {
            if self.failed || self.disk.faults() > 0 || newest(self) >= goal {
                return;
            }
            self.append_some(1200);
            self.remove_streams();
            let at = self.core.acknowledged();
            if self.core.trim() < at {
                self.core.set_trim(at);
                self.trace.push(Step::Trimmed(at));
            }
            self.catch_up();
        }
        if judged {
            self.stuck = Some(self.needed.unwrap_or(self.habits.segment_bytes));
        }
    }

    /// Trims one segment at a time, as records find no room, and cuts off the newest record each time: there is always a cut
    /// to state again.
    pub(super) fn make_room_behind_cuts(&mut self) {
        const ROUNDS: usize = 2000;
        self.pin = None;
        self.core.pins().set(None);
        if self.core.tagged().streams_from != 0 {
            return;
        }
        let newest = |life: &Self| life.inventory.segments().back().map_or(0, |header| header.number);
        let goal = newest(self) + 5;
        for _ in 0..ROUNDS {
            if self.failed || self.disk.faults() > 0 || newest(self) >= goal {
                return;
            }
            let before = self.core.appended();
            self.append_some(1200);
            if self.core.appended() > before {
                self.cut_off(before);
            }
            let second = self.inventory.segments().get(1).map(|header| header.first_lsn);
            if let Some(at) = second.filter(|at| self.needed.is_some() && self.core.trim() < *at) {
                self.core.set_trim(at);
                self.trace.push(Step::Trimmed(self.core.trim()));
            }
            self.catch_up();
        }
        self.stuck = Some(self.needed.unwrap_or(self.habits.segment_bytes));
    }
}
