//! What a simulated life does with streams and cuts: appends, transactions across streams, trims, cuts, and rewriting.
//!
//! Invariant: every record that gets a place in the log is traced with its tag, also those that the core adds by itself, so
//! that the oracle can apply all of them again.

use super::{Life, Step};
use crate::commit::state::{Core, Refusal};
use crate::format::{
    BATCH_HEADER_BYTES, RECORD_HEADER_BYTES, Records, TAG_BYTES, Tag, TagKind, record_header, tagged_header,
};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::recovery::held_trims;
use crate::stream::StreamId;
use crate::stream::places::RecordPlace;
use crate::stream::state::{HeldTrims, Numbering};
use crate::testing::oracle::Violation;

/// Streams of a life.
const STREAMS: u64 = 3;
/// Records that are rewritten at once, at most.
const REWRITTEN: usize = 5;

impl Life {
    /// Does one thing with streams or cuts.
    pub(super) fn act_tagged(&mut self) {
        match self.rng.below(12) {
            0..=3 => {
                let stream = self.stream();
                self.append_to_stream(stream);
            }
            4 | 5 => self.mixed_transaction(),
            6 | 7 => self.change_stream(),
            8 => self.cut_log(),
            _ => self.rewrite(),
        }
    }

    fn stream(&mut self) -> StreamId {
        let number = u32::try_from(self.rng.below(STREAMS)).unwrap_or(0);
        StreamId::new(number).unwrap_or_else(|| unreachable!("it is small"))
    }

    /// Traces a record that got its place up to `end`, and what the core put before it.
    fn traced(&mut self, tag: Tag, payload: &[u8], end: Lsn) {
        let bytes = (RECORD_HEADER_BYTES + TAG_BYTES + payload.len()) as u64;
        let start = Lsn::new(end.get() - bytes);
        self.note_restatement(start);
        let content = [&tag.encode(), payload].concat();
        if matches!(tag.kind, TagKind::Data | TagKind::Copy) {
            self.payloads.insert(start, payload.to_vec());
        }
        if tag.kind == TagKind::Data {
            self.appended_at.insert((tag.stream, tag.number), start);
        }
        if let Some(original) = self.appended_at.get(&(tag.stream, tag.number))
            && tag.kind == TagKind::Copy
        {
            self.copy_of.insert(start, *original);
        }
        self.trace_issued((start, end), (true, true), content);
        if tag.kind == TagKind::LogCut {
            self.cuts.cut(Lsn::new(tag.number), start);
        }
        self.ends.push(end);
    }

    /// The record at `lsn`, which is not issued yet: its end, its tag, its bytes and whether its transaction ends.
    fn unissued(&self, lsn: Lsn) -> Option<(Lsn, Tag, Vec<u8>, bool)> {
        let mut batches = self.core.unissued();
        let (from, bytes) =
            batches.find(|(from, bytes)| *from <= lsn && lsn.since(*from) < bytes.len() as u64)?;
        let record = Records::new(&bytes[usize::try_from(lsn.since(from)).ok()?..]).next()?;
        let end = lsn.saturating_add(record.bytes() as u64);
        let tag = record.tag?;
        Some((end, tag, [&tag.encode(), record.payload].concat(), !record.more))
    }

    /// Traces what the core put before `start` by itself: trims that it had held back, and all cuts that are needed, with
    /// which it begins a segment.
    pub(super) fn note_restatement(&mut self, start: Lsn) {
        while let Some((end, tag, payload, ends_transaction)) =
            self.unissued(self.traced_to).filter(|(end, ..)| *end <= start)
        {
            if tag.kind == TagKind::LogCuts {
                self.note_cuts(end);
                continue;
            }
            self.trace_issued((self.traced_to, end), (ends_transaction, true), payload);
        }
        self.note_cuts(start);
    }

    fn note_cuts(&mut self, start: Lsn) {
        if start <= self.traced_to {
            return;
        }
        self.cuts.trim(self.core.cuts_from_here());
        let tag = Tag { kind: TagKind::LogCuts, stream: 0, number: 0 };
        let content = [&tag.encode(), &self.cuts.encode()[..]].concat();
        self.trace_issued((self.traced_to, start), (true, true), content);
    }

    /// A record was refused: appends may wait for a segment.
    pub(super) fn refused(&mut self, refusal: Refusal) {
        if let Refusal::Segment { bytes } = refusal {
            self.needed = Some(bytes.max(self.needed.unwrap_or(0)));
            if self.rng.coin() {
                self.wait_for_segment();
            }
        }
        // The core may have begun a segment all the same.
        self.note_restatement(self.core.appended());
    }

    fn append_to_stream(&mut self, stream: StreamId) {
        let payload = self.payload();
        let used = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + TAG_BYTES + payload.len();
        let number = self.core.tagged.streams.next_number(stream);
        let tag = Tag { kind: TagKind::Data, stream: stream.get(), number };
        let accepted = if Core::is_large(&self.config, used) {
            self.adopt_tagged(&Tag { number: 0, ..tag }, &payload, Numbering::Next)
        } else {
            self.core.append_to(stream, &payload).map(|(end, _)| end)
        };
        match accepted {
            Ok(end) => self.traced(tag, &payload, end),
            Err(refusal) => self.refused(refusal),
        }
    }

    /// Appends a tagged record that fills a batch of its own.
    fn adopt_tagged(&mut self, tag: &Tag, payload: &[u8], numbering: Numbering) -> Result<Lsn, Refusal> {
        let head = tagged_header(payload.len(), false, tag).ok_or(Refusal::TooLong)?;
        self.append_large(&head, payload, numbering)
    }

    /// A transaction of records of streams and of the log itself, which trims, cuts and removes streams as well.
    fn mixed_transaction(&mut self) {
        let count = 2 + self.rng.index(5);
        let streams = &self.core.tagged.streams;
        let ids = (0..u32::try_from(STREAMS).unwrap_or(0)).filter_map(StreamId::new);
        let mut bounds: Vec<_> = ids.map(|stream| streams.bounds(stream)).collect();
        let (mut records, mut encoded, mut numbering) = (Vec::new(), Vec::new(), Numbering::Next);
        for i in 0..count {
            let more = i + 1 < count;
            if !self.habits.streams_alone && self.rng.one_in(4) {
                let payload = self.payload();
                encoded.extend(record_header(payload.len(), more).unwrap_or_default());
                encoded.extend_from_slice(&payload);
                records.push((None, payload));
                continue;
            }
            let stream = self.stream();
            let (asked, written) = self.staged(stream, &mut bounds[stream.get() as usize]);
            let is_data = asked.kind == TagKind::Data;
            let payload = if is_data { self.payload() } else { Vec::new() };
            numbering = if is_data { numbering } else { Numbering::Checked };
            encoded.extend(tagged_header(payload.len(), more, &asked).into_iter().flatten());
            encoded.extend_from_slice(&payload);
            records.push((Some(written), payload));
        }
        let lent = if self.rng.coin() { self.core.lend() } else { None };
        let count = u32::try_from(count).unwrap_or(0);
        let end = match self.take_in(lent, &mut encoded, (count, numbering)) {
            Ok(end) => end,
            Err(refusal) => return self.refused(refusal),
        };
        let mut start = Lsn::new(end.get() - encoded.len() as u64);
        self.note_restatement(start);
        for (i, (tag, payload)) in records.iter().enumerate() {
            let mut content = Vec::new();
            if let Some(tag) = tag {
                content.extend(tag.encode());
                if tag.kind == TagKind::Data {
                    self.appended_at.insert((tag.stream, tag.number), start);
                    self.payloads.insert(start, payload.clone());
                }
            }
            content.extend_from_slice(payload);
            let to = start.saturating_add((RECORD_HEADER_BYTES + content.len()) as u64);
            self.trace_issued((start, to), (i + 1 == records.len(), tag.is_some()), content);
            start = to;
        }
        self.ends.push(end);
    }

    /// What a transaction asks of a stream that has these numbers, and what is written for it.
    fn staged(&mut self, stream: StreamId, bounds: &mut Option<(u64, u64)>) -> (Tag, Tag) {
        let (first, next) = bounds.unwrap_or_default();
        let number = first + self.rng.below(next - first + 1);
        let tag = |kind, number| Tag { kind, stream: stream.get(), number };
        let (asked, left) = match self.rng.below(16) {
            0 => (Tag::removal(stream.get()), None),
            1 | 2 => (tag(TagKind::StreamTrim, number), bounds.map(|_| (number, next))),
            3 | 4 => (tag(TagKind::StreamCut, number), bounds.map(|_| (first, number))),
            _ => (tag(TagKind::Data, next), Some((first, next + 1))),
        };
        *bounds = left;
        // Where there is no stream, none is made.
        (asked, if left.is_none() { Tag::removal(stream.get()) } else { asked })
    }

    /// Reads each stream from somewhere on, a record or as many as there are, also while it is cut and rewritten: what is durable is
    /// there, and is the record that was appended under its number last.
    pub(super) fn read_streams(&mut self) {
        let durable = self.core.acknowledged();
        let ids: Vec<_> = self.core.tagged.streams.ids().collect();
        for stream in ids {
            let streams = &self.core.tagged.streams;
            let (first, next) = streams.get(stream).map_or((0, 0), |state| (state.first, state.next));
            let from = first + self.rng.below(next - first + 1);
            let count = if self.rng.coin() { 1 } else { usize::MAX };
            // What an earlier life appended is not known here.
            let appended = (from..next).take(count);
            let appended =
                appended.map_while(|number| self.appended_at.get(&(stream.get(), number)).copied());
            let expected: Vec<Lsn> = appended.collect();
            let due = expected.iter().take_while(|lsn| **lsn < durable).count();
            let read = streams.readable(stream, from, count, durable);
            let original = |place: &RecordPlace| *self.copy_of.get(&place.lsn).unwrap_or(&place.lsn);
            let read: Vec<_> = read.iter().map(original).collect();
            let is_right = read.len() >= due && expected.starts_with(&read);
            if !(expected.is_empty() || is_right) {
                let what = format!(
                    "stream {stream} reads {read:?} from number {from} on, where {expected:?} was appended and {due} are durable"
                );
                self.broken = self.broken.take().or(Some(Violation::WrongStreams { end: durable, what }));
            }
        }
    }

    fn change_stream(&mut self) {
        let stream = self.stream();
        let Some(state) = self.core.tagged.streams.get(stream) else { return };
        let (first, next) = (state.first, state.next);
        let within = first + self.rng.below(next - first + 1);
        let (kind, number) = match self.rng.below(8) {
            0 => (TagKind::StreamTrim, u64::MAX),
            1 | 2 => (TagKind::StreamCut, within),
            3 => (TagKind::StreamTrim, next),
            _ => (TagKind::StreamTrim, within),
        };
        self.append_tag(Tag { kind, stream: stream.get(), number }, &[]);
        // Often another record takes the number at once.
        if kind == TagKind::StreamCut && self.rng.coin() {
            self.append_to_stream(stream);
        }
    }

    /// Removes all streams, so that nothing is held for them.
    pub(super) fn remove_streams(&mut self) {
        let streams: Vec<_> = self.core.tagged.streams.ids().collect();
        for stream in streams {
            let tag = Tag { kind: TagKind::StreamTrim, stream: stream.get(), number: u64::MAX };
            self.append_tag(tag, &[]);
        }
    }

    fn cut_log(&mut self) {
        let from = self.ends[self.rng.index(self.ends.len())];
        if from < self.core.trim() || from == self.core.appended() {
            return;
        }
        self.cut_off(from);
    }

    /// Cuts off what belongs to no stream from there on.
    pub(super) fn cut_off(&mut self, from: Lsn) {
        self.append_tag(Tag { kind: TagKind::LogCut, stream: 0, number: from.get() }, &[]);
    }

    /// Trims a stream to where it begins, which frees nothing.
    pub(super) fn trim_a_stream(&mut self) {
        let streams = &self.core.tagged.streams;
        let stream = streams.ids().min().map(|id| (id, streams.get(id).map_or(0, |state| state.first)));
        let Some((stream, first)) = stream else { return };
        self.append_tag(Tag { kind: TagKind::StreamTrim, stream: stream.get(), number: first }, &[]);
    }

    fn append_tag(&mut self, tag: Tag, payload: &[u8]) {
        let used = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + TAG_BYTES + payload.len();
        let held = self.core.tagged.streams.held_changes;
        let accepted = if Core::is_large(&self.config, used) {
            self.adopt_tagged(&tag, payload, Numbering::Kept)
        } else {
            self.core.append_tagged(&tag, payload)
        };
        match accepted {
            Ok(end) if held != self.core.tagged.streams.held_changes => {
                self.note_restatement(end);
                self.note_held();
            }
            Ok(end) => self.traced(tag, payload, end),
            Err(refusal) => self.refused(refusal),
        }
    }

    /// States what is held back if that lets a segment go.
    pub(super) fn let_go(&mut self) {
        if self.core.let_held_go() {
            let end = self.core.appended();
            self.note_restatement(end);
            self.core.request(self.config.own(), end);
        }
    }

    /// Notes apart what is held back, when everything before it is durable.
    fn note_held(&mut self) {
        let (at, tags) = (self.core.appended(), self.core.tagged.streams.held(None));
        for _ in 0..100 {
            if self.failed || self.core.acknowledged() >= at {
                break;
            }
            self.core.request(self.config.own(), at);
            self.issue();
            self.complete(true);
            self.drain();
        }
        if self.failed || tags.is_empty() || self.core.acknowledged() < at {
            return;
        }
        self.drain();
        self.trace.push(Step::Holds(at, tags.clone(), false));
        let (log_id, held) = (self.config.log_id, HeldTrims { at, tags });
        let written = self.disk.apart(|disk| held_trims::write(disk, log_id, &held));
        self.drain();
        if written.is_ok() {
            self.trace.push(Step::Holds(at, held.tags, true));
        }
    }

    /// Lists what is needed of the oldest segment, or rewrites what an earlier call listed.
    fn rewrite(&mut self) {
        if self.to_rewrite.is_empty() {
            let streams = &self.core.tagged.streams;
            let oldest = streams.oldest().filter(|(needed, _)| *needed > 0);
            self.to_rewrite =
                oldest.map_or_else(Vec::new, |(_, end)| streams.needed_before(end, (REWRITTEN, u64::MAX)));
            return;
        }
        for needed in std::mem::take(&mut self.to_rewrite) {
            let payload = match needed.place {
                None => Some(Vec::new()),
                // What an earlier life appended is left where it is.
                Some(place) => self.payloads.get(&place.lsn).cloned(),
            };
            if let Some(payload) = payload
                && self.core.tagged.streams.still_needs(&needed)
            {
                self.append_tag(needed.tag, &payload);
            }
        }
        let end = self.core.appended();
        self.core.request(AckLevel::Full, end);
    }
}
