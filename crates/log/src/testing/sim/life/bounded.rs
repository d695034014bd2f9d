//! Bounds a simulated life: rules of retention and streams that let go, beside readers that pin the log and a process that holds
//! it, and a cap on the disk.
//!
//! A life with a cap is filled until no record finds room. Then records must get on from segment to segment, whatever came
//! before: in half of the lives as everything is trimmed again and again, in the others as one segment at a time is, in front
//! of cuts that must be stated again; and in those with streams while trims of them use up what is left.

use super::Life;
use crate::commit::state::Core;
use crate::format::SegmentHeader;
use crate::lsn::Lsn;
use crate::segment::cap::is_counted;
use crate::segment::retention::{self, Aged};
use crate::testing::oracle::Violation;
use crate::testing::sim::life::Step;
use crate::testing::sim::rng::Rng;

/// What bounds trims from outside.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// Where a reader pins the log.
    pin: Option<Lsn>,
    /// Where another process holds it, and whether every trim that is still to come looks at that.
    hold: Option<Lsn>,
    heeded: bool,
    /// Where it held the log when that was looked at last.
    outside: Option<Lsn>,
    /// A look that a trim has begun with: what streams had let go before it, and the hold that it found.
    look: Option<(Lsn, Option<Lsn>)>,
}

impl Bounds {
    fn lowest(&self) -> Option<Lsn> {
        self.pin.into_iter().chain(self.outside).min()
    }

    fn tell(&self, core: &Core) {
        core.pins.set(self.lowest());
    }

    fn look(&mut self, core: &Core) {
        self.look = Some((core.let_go(), self.hold));
        self.heeded = true;
    }
}

impl Life {
    /// Somewhere that a pin or a hold can be.
    fn somewhere_left(&mut self) -> Lsn {
        self.ends[self.rng.index(self.ends.len())].max(self.core.trim())
    }

    /// A reader pins the log somewhere, or releases it.
    pub(super) fn pin(&mut self) {
        let at = self.somewhere_left();
        self.bounds.pin = self.rng.coin().then_some(at);
        self.bounds.tell(&self.core);
    }

    /// Another process holds the log from somewhere on, moves its hold on or removes it.
    pub(super) fn hold(&mut self) {
        let at = self.somewhere_left();
        self.bounds.hold = (!self.rng.one_in(3)).then_some(at);
        self.bounds.heeded = self.bounds.look.is_none();
    }

    /// Looks at the holds, or trims by its rules and as streams had let go before the last look.
    pub(super) fn retain(&mut self) {
        let Some((let_go, outside)) = self.bounds.look.take() else {
            if self.core.is_let_go() || self.habits.retention.is_set() {
                self.bounds.look(&self.core);
            }
            return;
        };
        self.bounds.outside = outside;
        self.bounds.tell(&self.core);
        let aged = |header: &SegmentHeader| Aged {
            first_lsn: header.first_lsn,
            bytes: header.segment_bytes,
            newest_us: None,
        };
        let segments: Vec<Aged> = self.inventory.segments.iter().map(aged).collect();
        let verdict = retention::judge(&segments, &self.habits.retention, 0, self.bounds.lowest());
        self.core.set_trim(verdict.trim.unwrap_or_default(), let_go);
        self.check_bounds();
    }

    /// The log is trimmed to `at`, or as far as that is not held.
    pub(super) fn trim_to(&mut self, at: Lsn) {
        self.bounds.look(&self.core);
        let (let_go, outside) = self.bounds.look.take().unwrap_or_default();
        self.bounds.outside = outside;
        self.bounds.tell(&self.core);
        let at = self.bounds.lowest().map_or(at, |lowest| at.min(lowest));
        self.core.set_trim(at, let_go);
        self.check_bounds();
        self.trace.push(Step::Trimmed(at.max(self.core.trim())));
    }

    /// No trim passes a pin, nor a hold that was there when the trim looked. The owner of one that came later finds it passed.
    pub(super) fn check_bounds(&mut self) {
        let (first, Bounds { pin, hold, heeded, .. }) = (self.core.trim(), &mut self.bounds);
        let passed = |lsn: &Lsn| *lsn < first;
        if !*heeded && hold.as_ref().is_some_and(passed) {
            *hold = None;
        }
        if let Some(pin) = pin.filter(passed).or(hold.filter(passed)) {
            self.broken = self.broken.take().or(Some(Violation::PinPassed { pin, first }));
        }
    }

    /// Everything is released.
    fn release(&mut self) {
        self.bounds = Bounds::default();
        self.bounds.tell(&self.core);
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

    /// Trims streams until one is held back, because it would use up the last segment, with records beside each trim that are not to do so either.
    fn trim_into_the_last_segment(&mut self) {
        for _ in 0..40 {
            if self.failed || self.core.tagged.streams.holds() {
                return;
            }
            self.trim_a_stream();
            self.append_some(1800);
            self.catch_up();
        }
    }

    /// Trims everything that is acknowledged, again and again: records must then get from segment to segment.
    pub(super) fn make_room(&mut self) {
        self.release();
        // Each trim of a stream takes a block, of which the smallest segments have six, until there is only the last one left.
        if self.core.tagged.streams_from != 0 {
            self.trim_into_the_last_segment();
        }
        self.get_on(|life, _| {
            life.remove_streams();
            let at = life.core.acknowledged();
            if life.core.trim() < at {
                life.trim_to(at);
            }
        });
    }

    /// Appends records until five segments were started, with a trim by `trim` behind each, which gets where it begins.
    fn get_on(&mut self, trim: fn(&mut Self, Lsn)) {
        const ROUNDS: usize = 2000;
        let newest = |life: &Self| life.inventory.segments.back().map_or(0, |header| header.number);
        let goal = newest(self) + 5;
        for _ in 0..ROUNDS {
            if self.failed || self.disk.faults > 0 || newest(self) >= goal {
                return;
            }
            let before = self.core.appended();
            self.append_some(1200);
            trim(self, before);
            self.catch_up();
        }
        self.stuck = Some(self.needed.unwrap_or(self.habits.segment_bytes));
    }

    /// Trims one segment at a time, as records find no room, and cuts off the newest record each time: there is always a cut
    /// to state again.
    pub(super) fn make_room_behind_cuts(&mut self) {
        self.release();
        if self.core.tagged.streams_from != 0 {
            return;
        }
        self.get_on(|life, before| {
            if life.core.appended() > before {
                life.cut_off(before);
            }
            let second = life.inventory.segments.get(1).map(|header| header.first_lsn);
            if let Some(at) = second.filter(|at| life.needed.is_some() && life.core.trim() < *at) {
                life.trim_to(at);
            }
        });
    }
}
