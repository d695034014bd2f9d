//! What a simulated life does with streams and cuts: appends, transactions across streams, trims, cuts, and rewriting.
//!
//! Invariant: every record that gets a place in the log is traced with its tag, also those that the core adds by itself, so
//! that the oracle can apply all of them again.

use super::{Issued, Life, Step};
use crate::commit::state::{Core, Refusal};
use crate::format::buffer::AlignedBuf;
use crate::format::{
    BATCH_HEADER_BYTES, RECORD_HEADER_BYTES, TAG_BYTES, Tag, TagKind, record_header, tagged_header,
};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::stream::StreamId;
use crate::stream::state::Numbering;
use crate::stream::table::StreamState;

/// Streams of a life.
const STREAMS: u64 = 3;
/// Records that are rewritten at once, at most.
const REWRITTEN: usize = 5;

impl Life {
    /// Does one thing with streams or cuts.
    pub(super) fn act_tagged(&mut self) {
        match self.rng.below(12) {
            0..=3 => self.append_to_stream(),
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

    /// Traces a record that got its place up to `end`, and what the core put in front of it.
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
        self.trace.push(Step::Issued(Issued {
            start,
            end,
            ends_transaction: true,
            tagged: true,
            payload: content,
        }));
        if tag.kind == TagKind::LogCut {
            self.cuts.cut(Lsn::new(tag.number), start);
        }
        self.traced_to = end;
        self.ends.push(end);
    }

    /// Traces the record with which the core began a segment, if it did so in front of `start`: all cuts that are needed.
    pub(super) fn note_restatement(&mut self, start: Lsn) {
        if start <= self.traced_to {
            return;
        }
        self.cuts.trim(self.core.trim());
        let tag = Tag { kind: TagKind::LogCuts, stream: 0, number: 0 };
        let content = [&tag.encode(), &self.cuts.encode()[..]].concat();
        let from = self.traced_to;
        self.trace.push(Step::Issued(Issued {
            start: from,
            end: start,
            ends_transaction: true,
            tagged: true,
            payload: content,
        }));
        self.traced_to = start;
    }

    /// A record was refused: appends may wait for a segment.
    fn refused(&mut self, refusal: Refusal) {
        if let Refusal::Segment { bytes } = refusal {
            self.needed = Some(bytes.max(self.needed.unwrap_or(0)));
            if self.rng.coin() {
                self.wait_for_segment();
            }
        }
        // The core may have begun a segment all the same.
        self.note_restatement(self.core.appended());
    }

    fn append_to_stream(&mut self) {
        let (stream, payload) = (self.stream(), self.payload());
        let used = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + TAG_BYTES + payload.len();
        let number = self.core.tagged().streams.next_number(stream);
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
        let used = BATCH_HEADER_BYTES + head.len() + payload.len();
        let capacity = used.next_multiple_of(self.config.block_bytes.into());
        self.core.admit_large(capacity)?;
        let mut buf = AlignedBuf::zeroed(capacity);
        let (front, body) = buf.bytes_mut()[BATCH_HEADER_BYTES..used].split_at_mut(head.len());
        front.copy_from_slice(&head);
        body.copy_from_slice(payload);
        let mut buf = Some(buf);
        let accepted = self.core.adopt(&mut buf, used, (1, numbering), 0);
        if let Some(unused) = buf {
            self.core.give_back(unused);
        }
        accepted
    }

    /// A transaction of records of streams and of the log itself.
    fn mixed_transaction(&mut self) {
        let count = 2 + self.rng.index(5);
        let records: Vec<(Option<StreamId>, Vec<u8>)> = (0..count)
            .map(|_| {
                let stream = if self.rng.one_in(4) { None } else { Some(self.stream()) };
                (stream, self.payload())
            })
            .collect();
        let mut encoded = Vec::new();
        for (i, (stream, payload)) in records.iter().enumerate() {
            let more = i + 1 < records.len();
            match stream {
                None => encoded.extend(record_header(payload.len(), more).unwrap_or_default()),
                Some(stream) => {
                    let tag = Tag { kind: TagKind::Data, stream: stream.get(), number: 0 };
                    encoded.extend(tagged_header(payload.len(), more, &tag).into_iter().flatten());
                }
            }
            encoded.extend_from_slice(payload);
        }
        let lent = if self.rng.coin() { self.core.lend() } else { None };
        let mut numbers: Vec<u64> = (0..u32::try_from(STREAMS).unwrap_or(0))
            .filter_map(StreamId::new)
            .map(|stream| self.core.tagged().streams.next_number(stream))
            .collect();
        let count = u32::try_from(count).unwrap_or(0);
        let end = match self.take_in(lent, &mut encoded, (count, Numbering::Next)) {
            Ok(end) => end,
            Err(refusal) => return self.refused(refusal),
        };
        let mut start = Lsn::new(end.get() - encoded.len() as u64);
        self.note_restatement(start);
        for (i, (stream, payload)) in records.iter().enumerate() {
            let mut content = Vec::new();
            if let Some(stream) = stream {
                let number = &mut numbers[stream.get() as usize];
                content.extend(Tag { kind: TagKind::Data, stream: stream.get(), number: *number }.encode());
                self.appended_at.insert((stream.get(), *number), start);
                *number += 1;
                self.payloads.insert(start, payload.clone());
            }
            content.extend_from_slice(payload);
            let to = start.saturating_add((RECORD_HEADER_BYTES + content.len()) as u64);
            let (tagged, ends_transaction) = (stream.is_some(), i + 1 == records.len());
            self.trace.push(Step::Issued(Issued {
                start,
                end: to,
                ends_transaction,
                tagged,
                payload: content,
            }));
            start = to;
        }
        self.traced_to = end;
        self.ends.push(end);
    }

    /// Looks up the first record of each stream: once it is durable it can be read, also while a copy of it is not.
    pub(super) fn read_streams(&mut self) {
        let (streams, durable) = (&self.core.tagged().streams, self.core.acknowledged());
        for stream in streams.ids() {
            let first = streams.get(stream).map_or(0, StreamState::first);
            let appended = self.appended_at.get(&(stream.get(), first));
            let is_due = appended.is_some_and(|lsn| *lsn < durable) && first < streams.next_number(stream);
            if is_due && streams.readable(stream, first, 1, durable).is_empty() {
                self.unreadable = Some(stream);
            }
        }
    }

    /// Trims, cuts or removes a stream.
    fn change_stream(&mut self) {
        let stream = self.stream();
        let Some(state) = self.core.tagged().streams.get(stream) else { return };
        let (first, next) = (state.first(), state.next());
        let within = first + self.rng.below(next - first + 1);
        let (kind, number) = match self.rng.below(8) {
            0 => (TagKind::StreamTrim, u64::MAX),
            1 | 2 => (TagKind::StreamCut, within),
            3 => (TagKind::StreamTrim, next),
            _ => (TagKind::StreamTrim, within),
        };
        self.append_tag(Tag { kind, stream: stream.get(), number }, &[]);
    }

    /// Removes all streams, so that nothing is held for them.
    pub(super) fn remove_streams(&mut self) {
        let streams: Vec<_> = self.core.tagged().streams.ids().collect();
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
        let streams = &self.core.tagged().streams;
        let stream = streams.ids().min().map(|id| (id, streams.get(id).map_or(0, StreamState::first)));
        let Some((stream, first)) = stream else { return };
        self.append_tag(Tag { kind: TagKind::StreamTrim, stream: stream.get(), number: first }, &[]);
    }

    fn append_tag(&mut self, tag: Tag, payload: &[u8]) {
        let used = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + TAG_BYTES + payload.len();
        let accepted = if Core::is_large(&self.config, used) {
            self.adopt_tagged(&tag, payload, Numbering::Kept)
        } else {
            self.core.append_tagged(&tag, payload)
        };
        match accepted {
            Ok(end) => self.traced(tag, payload, end),
            Err(refusal) => self.refused(refusal),
        }
    }

    /// Lists what is needed of the oldest segment, or rewrites what an earlier call listed.
    fn rewrite(&mut self) {
        if self.to_rewrite.is_empty() {
            let streams = &self.core.tagged().streams;
            let oldest = streams.oldest().filter(|(needed, _)| *needed > 0);
            self.to_rewrite = oldest.map_or_else(Vec::new, |(_, end)| streams.needed_before(end, REWRITTEN));
            return;
        }
        for needed in std::mem::take(&mut self.to_rewrite) {
            let payload = match needed.place {
                None => Some(Vec::new()),
                // What an earlier life appended is left where it is.
                Some(place) => self.payloads.get(&place.lsn).cloned(),
            };
            if let Some(payload) = payload
                && self.core.tagged().streams.still_needs(&needed)
            {
                self.append_tag(needed.tag, &payload);
            }
        }
        let end = self.core.appended();
        self.core.request(AckLevel::Full, end);
    }
}
