//! Accepts records and changes of streams into the open batch, or a batch of their own, if memory, a segment and the cap have room.
//!
//! Invariant: what is refused changed nothing.

use std::collections::HashMap;

use seawall_sys::planted;

use super::{Core, CoreConfig, HEAD_BYTES, MARKS, Refusal};
use crate::commit::batch::{Batch, Start};
use crate::format::buffer::AlignedBuf;
use crate::format::{
    BATCH_HEADER_BYTES, BatchKind, RECORD_HEADER_BYTES, RecordHead, Records, Tag, TagKind, record_header,
    tagged_header,
};
use crate::lsn::Lsn;
use crate::segment::Place;
use crate::segment::cap::RECORDS_LEAVE;
use crate::stream::StreamId;
use crate::stream::state::Numbering;

impl Core {
    /// Bytes on the disk of all records but rewritten ones, issued or not: what [`Core::pace`] bounds.
    pub(super) fn paced_bytes(&self) -> u64 {
        let waiting = self.ready.iter().chain(&self.open);
        self.paced_issued + waiting.map(|batch| self.paced_bytes_of(batch)).sum::<u64>()
    }

    pub(super) fn paced_bytes_of(&self, batch: &Batch) -> u64 {
        self.padded(batch.used).saturating_sub(batch.rewritten)
    }

    /// Whether records wait for lagging streams.
    pub(crate) fn lags(&self) -> bool {
        self.keep_pace().is_err()
    }

    /// Refuses a record until lagging streams have caught up enough.
    #[inline]
    pub(super) fn keep_pace(&self) -> Result<(), Refusal> {
        let Some(most) = self.paced_max else { return Ok(()) };
        if planted!(LagUnbounded, self.paced_bytes() >= most) { Err(Refusal::Lag) } else { Ok(()) }
    }

    pub(crate) fn append(&mut self, payload: &[u8]) -> Result<Lsn, Refusal> {
        self.keep_pace()?;
        let head = record_header(payload.len(), false).ok_or(Refusal::TooLong)?;
        let bytes = RECORD_HEADER_BYTES + payload.len();
        self.reserve(bytes)?.put([&head, payload], 1);
        self.accepted_records += 1;
        let end = self.accepted(bytes);
        self.tagged.plain_end = end;
        Ok(end)
    }

    /// Accepts the next record of a stream; returns the end of it and its number in the stream.
    pub(crate) fn append_to(&mut self, stream: StreamId, payload: &[u8]) -> Result<(Lsn, u64), Refusal> {
        self.keep_pace()?;
        let number = self.tagged.streams.next_number(stream);
        let tag = Tag { kind: TagKind::Data, stream: stream.get(), number };
        self.append_tagged(&tag, payload).map(|end| (end, number))
    }

    /// Trims, cuts or removes a stream, if it has that number; what changes nothing is not appended. Returns the end.
    pub(crate) fn change_stream(&mut self, tag: &Tag) -> Result<Lsn, Refusal> {
        let Some(stream) = StreamId::new(tag.stream) else { return Ok(self.appended) };
        let bounds = self.tagged.streams.bounds(stream);
        let changed = changed(stream, tag, bounds)?;
        if bounds.is_none() || bounds == changed { Ok(self.appended) } else { self.append_tagged(tag, &[]) }
    }

    /// Refuses a transaction that trims or cuts a stream at a number that it would not have there.
    pub(super) fn check_numbers(&self, records: &[u8]) -> Result<(), Refusal> {
        let mut streams = HashMap::new();
        for tag in Records::new(records).filter_map(|record| record.tag) {
            let Some(stream) = StreamId::new(tag.stream) else { continue };
            let bounds = streams.entry(stream).or_insert_with(|| self.tagged.streams.bounds(stream));
            *bounds = changed(stream, &tag, *bounds)?;
        }
        Ok(())
    }

    /// Accepts one tagged record, which takes effect now.
    pub(crate) fn append_tagged(&mut self, tag: &Tag, payload: &[u8]) -> Result<Lsn, Refusal> {
        let head = tagged_header(payload.len(), false, tag).ok_or(Refusal::TooLong)?;
        let bytes = head.len() + payload.len();
        // What lets segments go may use those that records must leave.
        let frees = matches!(tag.kind, TagKind::StreamTrim | TagKind::StreamCut);
        let holds = self.tagged.streams.holds() && self.is_full();
        if planted!(TrimsTakeLastSegment, frees && (holds || self.is_short(bytes))) {
            return self.hold_back(tag);
        }
        if !matches!(tag.kind, TagKind::LogCut | TagKind::LogCuts) {
            self.append_held_trims(bytes)?;
        }
        // A copy may take one, so that a log at its cap can be trimmed whatever streams hold; the other one is for a trim.
        let rewrites = matches!(tag.kind, TagKind::Copy | TagKind::StreamState);
        self.now.takes = if frees { RECORDS_LEAVE } else { usize::from(rewrites) };
        let reserved = self.reserve(bytes).map(drop);
        self.now.takes = 0;
        reserved?;
        self.put_tagged(tag, [&head, payload])
    }

    /// Whether a trim would use the last segment, which is reserved for trims that free a segment.
    pub(super) fn is_short(&self, bytes: usize) -> bool {
        let open = self.open.as_ref();
        let joins =
            open.is_some_and(|open| open.kind == BatchKind::Records && open.used + bytes <= open.room);
        let at = self.place.offset + open.map_or(0, |open| self.padded(open.used));
        let block = u64::from(self.config.block_bytes);
        let fits = joins || at + self.padded(BATCH_HEADER_BYTES + bytes) + block <= self.place.data_end;
        self.segments_left() == 0 || (self.segments_left() == 1 && !fits)
    }

    /// Applies a trim, cut or removal now, and holds its record back until one frees a segment.
    pub(super) fn hold_back(&mut self, tag: &Tag) -> Result<Lsn, Refusal> {
        if self.has_ended() {
            return Err(Refusal::Failed);
        }
        self.tagged.streams.hold_back(tag);
        self.let_held_go();
        Ok(self.appended)
    }

    /// Appends the held trims if that frees the oldest segment; returns whether it did. Never among drained records, which
    /// keep their LSNs.
    pub(crate) fn let_held_go(&mut self) -> bool {
        if planted!(HeldStatedInDrain, self.now.draining) {
            return false;
        }
        let Some(end) = self.tagged.streams.held_lets_go() else { return false };
        if self.trim_without_streams() < end || self.pins.bound(end) < end {
            return false;
        }
        [None, Some(end)]
            .into_iter()
            .any(|before| self.append_trims(&self.tagged.streams.held(before)).is_ok())
    }

    /// Appends all held trims before a record of `bytes` bytes, if there is room for records.
    pub(super) fn append_held_trims(&mut self, bytes: usize) -> Result<(), Refusal> {
        if !self.tagged.streams.holds() || self.now.draining {
            return Ok(());
        }
        if self.is_full() {
            let block = u64::from(self.config.block_bytes);
            return Err(Refusal::Segment { bytes: self.padded(BATCH_HEADER_BYTES + bytes) + 3 * block });
        }
        self.append_trims(&self.tagged.streams.held(None))
    }

    /// Appends trims as one transaction.
    pub(super) fn append_trims(&mut self, tags: &[Tag]) -> Result<(), Refusal> {
        let last = tags.len().saturating_sub(1);
        let heads = tags.iter().enumerate().filter_map(|(at, tag)| tagged_header(0, at < last, tag));
        let mut records: Vec<u8> = heads.flatten().collect();
        self.now.takes = RECORDS_LEAVE;
        let reserved = self.reserve(records.len()).map(drop);
        self.now.takes = 0;
        reserved?;
        self.number(&mut records, Numbering::Kept);
        let Some(batch) = &mut self.open else { return Err(Refusal::Failed) };
        batch.put([&records, &[]], u32::try_from(tags.len()).unwrap_or(u32::MAX));
        self.accepted(records.len());
        Ok(())
    }

    /// Puts a tagged record with its header into the open batch, which has room for it.
    pub(super) fn put_tagged(&mut self, tag: &Tag, [head, payload]: [&[u8]; 2]) -> Result<Lsn, Refusal> {
        let Some(batch) = &mut self.open else { return Err(Refusal::Failed) };
        let (place, segment) = ((self.appended, head.len() + payload.len()), batch.segment);
        batch.note(tag, place.1);
        batch.put([head, payload], 1);
        self.accepted_records += u64::from(tag.kind == TagKind::Data);
        self.tagged.apply(tag, payload, place, segment);
        Ok(self.accepted(place.1))
    }

    /// Accepts the records of one transaction, encoded already; those of streams get their numbers.
    pub(crate) fn append_encoded(
        &mut self,
        records: &mut [u8],
        count: u32,
        numbering: Numbering,
    ) -> Result<Lsn, Refusal> {
        planted!(
            SplitTransaction(self, records, (count, numbering)),
            self.append_together(records, count, numbering)
        )
    }

    /// Accepts them all into one batch.
    pub(crate) fn append_together(
        &mut self,
        records: &mut [u8],
        count: u32,
        numbering: Numbering,
    ) -> Result<Lsn, Refusal> {
        self.admit(records, numbering)?;
        self.reserve(records.len())?;
        self.number(records, numbering);
        let Some(batch) = &mut self.open else { return Err(Refusal::Failed) };
        batch.put([records, &[]], count);
        self.accepted_records += u64::from(count);
        Ok(self.accepted(records.len()))
    }

    /// Refuses a transaction that may not be appended now; appends the held trims before it.
    pub(super) fn admit(&mut self, records: &[u8], numbering: Numbering) -> Result<(), Refusal> {
        if numbering != Numbering::Kept {
            self.keep_pace()?;
        }
        if numbering == Numbering::Checked {
            self.check_numbers(records)?;
        }
        if numbering == Numbering::Untagged {
            return Ok(());
        }
        self.append_held_trims(records.len())
    }

    /// Applies the tags of a transaction's records, as part of the open batch, and numbers those of streams.
    pub(super) fn number(&mut self, records: &mut [u8], numbering: Numbering) {
        if numbering == Numbering::Untagged {
            self.tagged.plain_end = self.appended.saturating_add(records.len() as u64);
            return;
        }
        let Some(batch) = &mut self.open else { return };
        let (mut at, mut lsn) = (0, self.appended);
        while let Some(head) = records[at..].first_chunk::<RECORD_HEADER_BYTES>() {
            let head = RecordHead::read(*head);
            let end = lsn.saturating_add(head.record_bytes() as u64);
            let room = at + RECORD_HEADER_BYTES..at + head.front_bytes();
            if let Some(mut tag) = records[room.clone()].try_into().ok().and_then(Tag::decode) {
                if numbering != Numbering::Kept {
                    self.tagged.streams.number(&mut tag);
                    records[room].copy_from_slice(&tag.encode());
                }
                let payload = at + head.front_bytes()..at + head.record_bytes();
                batch.note(&tag, head.record_bytes());
                let place = (lsn, head.record_bytes());
                let apply = || self.tagged.apply(&tag, &records[payload], place, batch.segment);
                planted!(NumberedOnceOnly | TransactionTrimsUnseen(numbering, tag.kind, apply), apply());
            } else {
                self.tagged.plain_end = end;
            }
            at += head.record_bytes();
            lsn = end;
        }
    }

    /// Lends a buffer to assemble records in, [`BATCH_HEADER_BYTES`] from its start, if enough are left.
    pub(crate) fn lend(&mut self) -> Option<AlignedBuf> {
        if self.free.len() > 2 && !self.has_ended() { self.free.pop() } else { None }
    }

    /// Accepts a transaction that was assembled in a lent buffer, as a batch of its own, without copying it; `sum` is
    /// the checksum of its records. Either way the caller gives back what is left in `buf`.
    pub(crate) fn adopt(
        &mut self,
        buf: &mut Option<AlignedBuf>,
        used: usize,
        (count, numbering): (u32, Numbering),
        sum: u32,
    ) -> Result<Lsn, Refusal> {
        if self.has_ended() || self.open.as_ref().is_some_and(|open| open.kind == BatchKind::Close) {
            return Err(Refusal::Failed);
        }
        if self.appended.checked_add(used as u64).is_none() {
            return Err(Refusal::TooLong);
        }
        let records = buf.as_ref().map_or(&[][..], |buf| &buf.bytes()[BATCH_HEADER_BYTES..used]);
        self.admit(records, numbering)?;
        self.open_batch(BatchKind::Records, used, buf)?;
        let Some(batch) = &mut self.open else { return Err(Refusal::Failed) };
        (batch.used, batch.sum, batch.summed, batch.records) = (used, sum, used, count);
        self.number_adopted(used, numbering);
        self.accepted_records += u64::from(count);
        Ok(self.accepted(used - BATCH_HEADER_BYTES))
    }

    /// Numbers the records of the open batch, which were encoded elsewhere. The checksum that came with them does not hold
    /// any more: it is computed when the batch is sealed.
    pub(super) fn number_adopted(&mut self, used: usize, numbering: Numbering) {
        let Some(batch) = &mut self.open else { return };
        if numbering == Numbering::Untagged {
            self.tagged.plain_end = batch.end();
            return;
        }
        (batch.sum, batch.summed) = (0, BATCH_HEADER_BYTES);
        let mut buf = std::mem::replace(&mut batch.buf, AlignedBuf::zeroed(0));
        self.number(&mut buf.bytes_mut()[BATCH_HEADER_BYTES..used], numbering);
        if let Some(batch) = &mut self.open {
            batch.buf = buf;
        }
    }

    pub(super) fn accepted(&mut self, bytes: usize) -> Lsn {
        self.appended = self.appended.saturating_add(bytes as u64);
        self.appended
    }

    /// The batch that has room for `bytes` more.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<&mut Batch, Refusal> {
        if self.has_ended() {
            return Err(Refusal::Failed);
        }
        if u32::try_from(bytes).is_err() || self.appended.checked_add(bytes as u64).is_none() {
            return Err(Refusal::TooLong);
        }
        // Without a segment ahead what is left of this one is for marks.
        let joins = self.now.takes_what_records_leave() || self.segments_left() > 0;
        let fits = self.open.as_ref().is_some_and(|open| {
            open.used + bytes <= open.room && planted!(RecordsJoinLastTrim(open.kind, joins), joins)
        });
        if !fits {
            self.open_batch(BatchKind::Records, BATCH_HEADER_BYTES + bytes, &mut None)?;
        }
        let batch = self.open.as_mut().filter(|open| open.kind != BatchKind::Close).ok_or(Refusal::Failed)?;
        // A record that joins a waiting mark turns it into a batch of records.
        planted!(RecordsInMark, batch.kind = BatchKind::Records);
        Ok(batch)
    }

    pub(super) fn padded(&self, used: usize) -> u64 {
        (used as u64).next_multiple_of(self.config.block_bytes.into())
    }

    /// Begins a new batch that can hold `used` bytes, header included; the one before it is ready to be issued.
    /// Takes the buffer in `own` if there is one.
    pub(super) fn open_batch(
        &mut self,
        kind: BatchKind,
        used: usize,
        own: &mut Option<AlignedBuf>,
    ) -> Result<(), Refusal> {
        let block = u64::from(self.config.block_bytes);
        let padded = self.padded(used);
        let mut place = self.place;
        if let Some(open) = planted!(PlaceReused, self.open.as_ref()) {
            place.offset += self.padded(open.used);
        }
        // One block stays free for the close mark.
        let reserve = if kind == BatchKind::Close { 0 } else { block };
        let is_records = kind == BatchKind::Records;
        // In the last segment, records that free others leave room for the marks that make them durable.
        let marks = if self.now.takes_what_records_leave() { MARKS * block } else { u64::MAX };
        if is_records
            && self.segments_left() == 0
            && place.offset.saturating_add(padded).saturating_add(marks) > place.data_end
        {
            return Err(Refusal::Segment { bytes: padded + 3 * block });
        }
        let mut start = None;
        if place.offset + padded + reserve > place.data_end || self.now.restates {
            // Header, batch, close mark, second copy of the header; in the last segment a mark as well.
            // Drained records state their cuts themselves, and another record in between would move them.
            let silent = self.now.restates || planted!(MemoryMoved, self.now.draining);
            let restated = if silent { None } else { self.tagged.restatement(self.cuts_from_here()) };
            let first =
                restated.as_ref().map_or(0, |cuts| self.padded(BATCH_HEADER_BYTES + HEAD_BYTES + cuts.len()));
            let behind = if is_records && self.segments_left() <= 1 { MARKS } else { 1 };
            let needed = first + padded + (2 + behind) * block;
            // The batch that restates the cuts does not check `may_start`: the records after it did.
            let asks = is_records && planted!(CutsTakeNoLastSegment, !self.now.restates);
            // A mark that states no trim leaves the last one to those that do.
            let idle = kind == BatchKind::Mark && self.durable_trim == self.trim && self.segments_left() <= 1;
            let refused = self.outgrown.is_some() || idle || (asks && !self.may_start());
            let spare = self.spares.front().filter(|spare| spare.bytes >= needed && !refused);
            let spare = *spare.ok_or(Refusal::Segment { bytes: needed })?;
            if let Some(cuts) = restated {
                self.restate(&cuts)?;
                return self.open_batch(kind, used, own);
            }
            // A crash may leave the header without the batch after it: so it names an earlier statement than its own.
            let streams_from = self.tagged.streams_from;
            let cuts_from = self.tagged.cuts_from;
            let cuts_from = planted!(CutsFromUnwritten(cuts_from, &spare, self.now.restates), cuts_from);
            start = Some(Start { bytes: spare.bytes, previous: place.segment, streams_from, cuts_from });
            place = Place { segment: spare.number, offset: block, data_end: spare.bytes - block };
        }
        let capacity = usize::try_from(padded).map_err(|_| Refusal::TooLong)?;
        let buf = match own.take() {
            Some(own) => own,
            None => self.buffer(capacity)?,
        };
        if start.is_some() {
            self.spares.pop_front();
            self.tagged.streams.segment_started(self.appended);
        }
        let room = self.room(&place, (kind, padded)).min(buf.capacity());
        let batch = Batch { room, start, ..Batch::empty(self.next_id, kind, buf, self.appended, place) };
        self.next_id += 1;
        self.place = place;
        if let Some(full) = self.open.replace(batch) {
            self.ready.push_back(full);
        }
        Ok(())
    }

    /// How long a batch of this kind at `place`, which fills `padded` bytes already, may grow: the close mark needs a block
    /// after it, in the last segment other marks too.
    pub(super) fn room(&self, place: &Place, (kind, padded): (BatchKind, u64)) -> usize {
        let blocks = match kind {
            BatchKind::Close => 0,
            _ if planted!(RecordsJoinLastTrim, self.segments_left() == 0) => MARKS,
            _ => 1,
        };
        let end = place.data_end.saturating_sub(blocks * u64::from(self.config.block_bytes));
        usize::try_from(end.saturating_sub(place.offset).max(padded)).unwrap_or(usize::MAX)
    }

    /// Where the cuts begin that a new segment states again: the first LSN as the disk knows it. Memory that outlives the process
    /// keeps the statement, and not the later trim of the batch that it was written in.
    pub(crate) fn cuts_from_here(&self) -> Lsn {
        planted!(CutsRestatedPastTrim(self.trim), self.durable_trim)
    }

    /// Starts the next segment with all cuts that are still needed.
    pub(super) fn restate(&mut self, cuts: &[u8]) -> Result<(), Refusal> {
        let tag = Tag { kind: TagKind::LogCuts, stream: 0, number: 0 };
        let head = tagged_header(cuts.len(), false, &tag).ok_or(Refusal::TooLong)?;
        let bytes = head.len() + cuts.len();
        self.now.restates = true;
        let opened = self.open_batch(BatchKind::Records, BATCH_HEADER_BYTES + bytes, &mut None);
        self.now.restates = false;
        opened?;
        self.put_tagged(&tag, [&head, cuts]).map(drop)
    }

    pub(super) fn buffer(&mut self, capacity: usize) -> Result<AlignedBuf, Refusal> {
        if capacity <= self.config.batch_bytes {
            return self.free.pop().ok_or(Refusal::Memory);
        }
        self.admit_large(capacity, self.now.restates)?;
        Ok(AlignedBuf::zeroed(capacity))
    }

    /// Whether records that fill `used` bytes, header room included, need a buffer of their own size.
    #[inline]
    pub(crate) fn is_large(config: &CoreConfig, used: usize) -> bool {
        used.next_multiple_of(config.block_bytes.into()) > config.batch_bytes
    }

    /// Sets memory aside for a buffer of `capacity` bytes, more than an ordinary one, that the caller makes; it comes back
    /// with the buffer. Returns the end of what was appended. What `makes_room` is never refused: copies, trims, and what a
    /// segment restates would wait for the memory of records that wait for them.
    pub(crate) fn admit_large(&mut self, capacity: usize, makes_room: bool) -> Result<Lsn, Refusal> {
        if self.has_ended() {
            return Err(Refusal::Failed);
        }
        let is_full = self.large_bytes > 0 && self.large_bytes + capacity > self.config.memory_bytes;
        if is_full && planted!(RoomWaitsForMemory, !makes_room) {
            return Err(Refusal::Memory);
        }
        self.large_bytes += capacity;
        Ok(self.appended)
    }
}

/// The first and the next number of a stream after a record of this tag, `bounds` before it; `None` for no stream.
fn changed(stream: StreamId, tag: &Tag, bounds: Option<(u64, u64)>) -> Result<Option<(u64, u64)>, Refusal> {
    let (first, next) = bounds.unwrap_or_default();
    let number = tag.number;
    let refused = Err(Refusal::Number { stream, number, first, next });
    match tag.kind {
        _ if tag.removes() => Ok(None),
        TagKind::StreamTrim if number > next => refused,
        TagKind::StreamTrim => Ok(bounds.map(|_| (first.max(number), next))),
        TagKind::StreamCut if number < first || number > next => refused,
        TagKind::StreamCut => Ok(bounds.map(|_| (first, number))),
        _ => Ok(Some((first, next.saturating_add(1)))),
    }
}

/// What is special about the record that is appended now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Appending {
    /// Its batch is opened to state all cuts.
    pub(super) restates: bool,
    /// It may start this many of the segments that other records leave: all if it lets segments go.
    pub(super) takes: usize,
    /// It is drained from the crash memory of an earlier opening, and must keep its LSN.
    pub(super) draining: bool,
}

impl Appending {
    /// Whether it may use all segments that other records leave: what was accepted under the cap once fits under it, and
    /// nothing can be trimmed before it is there.
    fn takes_what_records_leave(self) -> bool {
        self.takes == RECORDS_LEAVE || self.draining
    }

    /// The segments that it leaves.
    pub(super) fn leaves(self) -> usize {
        if self.draining { 0 } else { RECORDS_LEAVE - self.takes }
    }
}
