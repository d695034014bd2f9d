//! Marks: batches without records, which state what is durable, or that the log was closed.

use seawall_sys::planted;

use super::{Closing, Core, MARKS};
use crate::commit::batch::Batch;
use crate::format::{BATCH_HEADER_BYTES, BatchKind};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::segment::Place;

impl Core {
    /// Gathers a batch without records: a durable mark or the close mark. A durable mark states what is acknowledged now.
    /// If records wait that no commit has requested, the mark goes before them; where it has no place there, their
    /// batch is issued and states it. Where the segment is full the next one starts with the mark. Returns whether
    /// there is something to issue.
    pub(crate) fn mark(&mut self, kind: BatchKind) -> bool {
        let owed = kind == BatchKind::Close && self.owed_to_close().is_some();
        if self.has_ended() || owed || self.acknowledged() != self.syncing || !self.ready.is_empty() {
            return false;
        }
        if self.open.is_some() {
            self.mark_in_front();
            return kind != BatchKind::Close;
        }
        let close = kind == BatchKind::Close;
        let room = self.place.offset + u64::from(self.config.block_bytes) <= self.place.data_end;
        (room || !close) && self.open_batch(kind, BATCH_HEADER_BYTES, &mut None).is_ok()
    }

    /// Puts a durable mark before the batch under assembly, which moves one block back, unless its segment starts
    /// with it or there is no room or memory for both.
    pub(super) fn mark_in_front(&mut self) {
        let block = u64::from(self.config.block_bytes);
        let padded = self.open.as_ref().map_or(0, |open| self.padded(open.used));
        let is_last = self.segments_left() == 0;
        let Some(open) =
            self.open.as_mut().filter(|open| open.kind == BatchKind::Records && open.start.is_none())
        else {
            return;
        };
        // After both there must still be room for the close mark, and in the last segment for one that states a trim.
        let behind = if is_last { MARKS } else { 1 };
        if open.offset + block + padded + behind * block > self.place.data_end {
            return;
        }
        let Some(buf) = self.free.pop() else { return };
        let place = Place { segment: open.segment, offset: open.offset, ..self.place };
        let mark = Batch::empty(open.id, BatchKind::Mark, buf, open.lsn, place);
        open.id = self.next_id;
        self.next_id += 1;
        open.offset += block;
        self.place.offset = open.offset;
        let left = self.place.data_end.saturating_sub(behind * block).saturating_sub(open.offset);
        open.room = usize::try_from(left.max(padded)).unwrap_or(usize::MAX).min(open.buf.capacity());
        self.ready.push_back(mark);
    }

    /// Whether something acknowledged has no witness yet, so that a mark would state something new. What was appended
    /// and not issued does not count, because it may never be committed.
    pub(crate) fn needs_mark(&self) -> bool {
        let acknowledged = self.acknowledged();
        let news = self.witnessed < acknowledged || self.durable_trim < self.trim;
        let end = planted!(MarkBehindEverything(self.appended), self.syncing);
        news && acknowledged == end
    }

    /// The level that everything appended must still reach before the close mark is written, and the end of what was
    /// appended: in full, in a log of any class, because the mark says that nothing is left which a power cut could take.
    pub(crate) fn owed_to_close(&self) -> Option<(AckLevel, Lsn)> {
        let level = planted!(RelaxedCloseWithoutSync(self.config.own()), AckLevel::Full);
        (self.reached(level) < self.appended).then_some((level, self.appended))
    }

    /// Takes the next step towards a closed log, when everything is durable. The close mark is written alone: a mark that
    /// is still in flight would be missing before it after a power cut, and the log would not count as closed.
    pub(crate) fn close(&mut self) -> Closing {
        if let Some(last) = planted!(CloseDuringMark, self.flight.back()) {
            return Closing::Wait(last.id);
        }
        if self.open.is_some() || !self.ready.is_empty() {
            return self.issue().map_or(Closing::Refused, Closing::Before);
        }
        let mark = self.mark(BatchKind::Close).then(|| self.issue()).flatten();
        self.closed |= mark.is_some();
        mark.map_or(Closing::Refused, Closing::Mark)
    }

    /// The level of a batch. The start of a segment, the close mark, a mark that makes a trim durable, and every mark of a
    /// log of class power loss are issued in full.
    pub(super) fn level_of(&self, kind: BatchKind, starts: bool) -> AckLevel {
        let relaxed = self.config.own() != AckLevel::Full;
        let full = match kind {
            _ if starts => planted!(RelaxedStartWithoutSync(!relaxed), true),
            BatchKind::Records => false,
            BatchKind::Mark => !relaxed || self.durable_trim < self.trim,
            BatchKind::Close | BatchKind::Open => planted!(RelaxedCloseWithoutSync(!relaxed), true),
        };
        if full { AckLevel::Full } else { self.debt.next_level(self.durable_id) }
    }
}
