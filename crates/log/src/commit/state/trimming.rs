//! Tracks how far the log is trimmed, and what prevents further trims.

use seawall_sys::planted;

use super::Core;
use crate::lsn::Lsn;

impl Core {
    /// The first LSN as the disk knows it: what lies before it may be removed.
    pub(crate) fn durable_trim(&self) -> Lsn {
        planted!(RetireBeforeMark(self.trim), self.durable_trim)
    }

    /// How far streams let the first LSN move by now. Asked before the holds are looked at: what is let go afterwards waits for
    /// the next look.
    pub(crate) fn let_go(&self) -> Lsn {
        let needed = if self.tagged.streams_from == 0 { None } else { self.tagged.streams.needed_from() };
        planted!(TrimPastStreams, needed).unwrap_or(Lsn::MAX).min(self.acknowledged())
    }

    /// Moves the first LSN that must be present: to `lsn` for records of no stream, and as streams had `let_go`. Takes effect on
    /// disk with the next batch, so not where there is none. Never moves back, never past what is acknowledged or pinned. Returns
    /// what it is now.
    pub(crate) fn set_trim(&mut self, lsn: Lsn, let_go: Lsn) -> Lsn {
        if self.is_closed() {
            return self.trim;
        }
        self.plain_trim = self.plain_trim.max(lsn.min(self.acknowledged()));
        let bound = self.free_to();
        // In a log without streams the caller has looked at the pins.
        let bound = if self.tagged.streams_from == 0 { bound } else { self.pins.bound(bound.min(let_go)) };
        let oldest_end = self.oldest_end();
        if let_go >= oldest_end {
            self.looked_at = oldest_end;
        }
        self.trim = self.trim.max(bound);
        self.tagged.streams.trimmed(self.trim);
        self.trim
    }

    /// How far neither untagged records nor streams need what is acknowledged.
    pub(super) fn trim_bound(&self) -> Lsn {
        self.tagged.trim_bound(self.plain_trim).min(self.acknowledged())
    }

    pub(super) fn free_to(&self) -> Lsn {
        self.free_to.max(self.trim_bound())
    }

    pub(super) fn oldest_end(&self) -> Lsn {
        self.tagged.streams.oldest().map_or(Lsn::MAX, |(_, end)| end)
    }

    /// Whether streams have let the oldest segment go, which pins and holds may keep.
    pub(crate) fn is_let_go(&self) -> bool {
        self.tagged.streams_from != 0 && self.oldest_end() <= self.free_to()
    }

    /// Whether they have since the holds were looked at.
    pub(crate) fn awaits_look(&self) -> bool {
        self.looked_at != self.oldest_end() && self.is_let_go()
    }

    /// How far the log could be trimmed if no stream needed anything.
    pub(crate) fn trim_without_streams(&self) -> Lsn {
        if self.tagged.plain_end <= self.plain_trim { Lsn::MAX } else { self.plain_trim }
    }
}
