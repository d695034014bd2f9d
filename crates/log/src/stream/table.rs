//! The state of all streams of a log: what each still has, where that lies, and which segments are needed for it.
//!
//! Every change is the effect of one tagged record, applied when it is appended and again when a log is opened, in order of
//! LSN. So the state after any prefix of the log is the same, whether it was lived through or recovered.
//!
//! ```text
//!   segment   bytes of stream records that are needed in it; a stream without records counts one byte
//!             where that was said last, so that its next number is not forgotten
//! ```
//!
//! Invariants: `first <= next` for every stream; every number between them has a place, unless the log that was opened lost
//! the segment; space that a record makes superfluous is released when that record is acknowledged, never before: otherwise a
//! crash could take the record and find the segment gone.

use std::collections::{HashMap, VecDeque};

use crate::format::{Tag, TagKind};
use crate::lsn::Lsn;
use crate::stream::StreamId;
use crate::stream::hash::StreamHash;
use crate::stream::places::{Places, RecordPlace};
use seawall_sys::planted;

/// One stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamState {
    first: u64,
    next: u64,
    /// Where it was said last that the stream has no records; `None` as long as it has some.
    mention: Option<Lsn>,
    places: Places,
}

impl StreamState {
    /// The number of the first record that is left.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Where its records are.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Record `number` is at `place` from now on; returns where it was.
    fn put(&mut self, number: u64, place: RecordPlace) -> Option<RecordPlace> {
        // What lay before it has gone with its segment, if anything did; one that was rewritten may be older than all that are
        // left in the segments behind.
        self.first = if self.first == self.next { number } else { self.first.min(number) };
        self.next = self.next.max(number.saturating_add(1));
        self.places.set(number, place)
    }

    /// Moves the first or the next number as a record says; returns where records were that are gone.
    fn end_at(&mut self, tag: &Tag) -> Vec<RecordPlace> {
        let number = tag.number;
        match tag.kind {
            TagKind::StreamTrim => {
                (self.first, self.next) = (number, self.next.max(number));
                planted!(StreamTrimForgotten, Vec::new(), self.places.trim(number))
            }
            TagKind::StreamCut => {
                (self.first, self.next) = (self.first.min(number), number);
                planted!(StreamCutForgotten, Vec::new(), self.places.cut(number))
            }
            _ => {
                (self.first, self.next) = (number, number);
                self.places.trim(number)
            }
        }
    }

    /// The stream has records again, or is mentioned elsewhere; returns what was held for it.
    fn forget_mention(&mut self) -> Option<RecordPlace> {
        self.mention.take().map(|lsn| RecordPlace { lsn, bytes: 1 })
    }
}

/// Space that is released when the log is acknowledged up to an LSN.
#[derive(Clone, Debug)]
struct Release {
    when: Lsn,
    places: Vec<RecordPlace>,
}

/// A record whose copy is not acknowledged before `when`.
#[derive(Clone, Copy, Debug)]
struct Moving {
    from: RecordPlace,
    when: Lsn,
}

/// What a segment holds for the streams.
#[derive(Clone, Copy, Debug)]
struct SegmentUse {
    first_lsn: Lsn,
    bytes: u64,
}

/// A record that is needed although its segment should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    /// The tag of the record that takes its place.
    pub(crate) tag: Tag,
    /// Where it is; `None` for the statement of a stream without records.
    pub(crate) place: Option<RecordPlace>,
}

/// The streams of one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamTable {
    streams: HashMap<StreamId, StreamState, StreamHash>,
    /// Where records were whose copies are not durable yet.
    moving: HashMap<(StreamId, u64), Moving, StreamHash>,
    segments: VecDeque<SegmentUse>,
    releases: VecDeque<Release>,
    /// What the places of all streams take in memory, bytes.
    places_bytes: usize,
}

impl StreamTable {
    /// One stream, if it was ever written to.
    pub(crate) fn get(&self, stream: StreamId) -> Option<&StreamState> {
        self.streams.get(&stream)
    }

    /// How many streams there are.
    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    /// All streams.
    pub(crate) fn ids(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.streams.keys().copied()
    }

    /// The number of the next record of a stream.
    #[inline]
    pub(crate) fn next_number(&self, stream: StreamId) -> u64 {
        self.streams.get(&stream).map_or(0, |state| state.next)
    }

    /// Bytes that the records of all streams take in the log.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// What the table takes in memory, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let entry = size_of::<(StreamId, StreamState)>() + 1;
        self.streams.capacity() * entry + self.places_bytes
    }

    /// A segment whose first record has this LSN is started.
    pub(crate) fn segment_started(&mut self, first_lsn: Lsn) {
        self.segments.push_back(SegmentUse { first_lsn, bytes: 0 });
    }

    /// The last segment holds nothing and is replaced.
    pub(crate) fn segment_dropped(&mut self) {
        self.segments.pop_back();
    }

    /// The segments before `first` are not part of the log any more.
    pub(crate) fn trimmed(&mut self, first: Lsn) {
        while self.segments.get(1).is_some_and(|next| next.first_lsn <= first) {
            self.segments.pop_front();
        }
    }

    /// The start of the first segment that holds something needed, `None` if none does.
    pub(crate) fn needed_from(&self) -> Option<Lsn> {
        self.segments.iter().find(|segment| segment.bytes > 0).map(|segment| segment.first_lsn)
    }

    /// What is needed of the oldest segment in bytes, and where the next one starts; `None` if there is no next one.
    pub(crate) fn oldest(&self) -> Option<(u64, Lsn)> {
        self.segments.front().zip(self.segments.get(1)).map(|(oldest, next)| (oldest.bytes, next.first_lsn))
    }

    fn segment_of(&mut self, lsn: Lsn) -> Option<&mut SegmentUse> {
        // Nearly always the last one.
        let at = match self.segments.back() {
            Some(last) if last.first_lsn <= lsn => self.segments.len(),
            _ => self.segments.partition_point(|segment| segment.first_lsn <= lsn),
        };
        self.segments.get_mut(at.checked_sub(1)?)
    }

    fn hold(&mut self, place: RecordPlace) {
        if let Some(segment) = self.segment_of(place.lsn) {
            segment.bytes += u64::from(place.bytes);
        }
    }

    fn release(&mut self, place: RecordPlace) {
        if let Some(segment) = self.segment_of(place.lsn) {
            segment.bytes = segment.bytes.saturating_sub(place.bytes.into());
        }
    }

    /// Everything before `end` is acknowledged: what records before it released is not held any more. A trim that lets it go is
    /// stated behind them, and takes effect when all before it is durable.
    pub(crate) fn acknowledged(&mut self, end: Lsn) {
        if !self.moving.is_empty() {
            self.moving.retain(|_, moving| moving.when > end);
        }
        while let Some(release) = self.releases.pop_front_if(|release| release.when <= end) {
            release.places.into_iter().for_each(|place| self.release(place));
        }
    }

    fn release_when_durable(&mut self, when: Lsn, places: Vec<RecordPlace>) {
        let when = planted!(ReleaseBeforeDurable, Lsn::ZERO, when);
        if !places.is_empty() {
            self.releases.push_back(Release { when, places });
        }
    }

    /// Takes in a tagged record that starts at `lsn` and takes `bytes` bytes in the log.
    pub(crate) fn apply(&mut self, tag: &Tag, lsn: Lsn, bytes: u32) {
        let Some(stream) = StreamId::new(tag.stream) else { return };
        let when = lsn.saturating_add(bytes.into());
        match tag.kind {
            TagKind::Data | TagKind::Copy => {
                let place = RecordPlace { lsn, bytes };
                self.hold(place);
                let state = self.streams.entry(stream).or_default();
                let before = state.places.bytes();
                let released = [state.put(tag.number, place), state.forget_mention()];
                self.places_bytes = self.places_bytes - before + state.places.bytes();
                if let Some(from) = released[0].filter(|_| tag.kind == TagKind::Copy) {
                    self.moving.insert((stream, tag.number), Moving { from, when });
                }
                if released != [None; 2] {
                    self.release_when_durable(when, released.into_iter().flatten().collect());
                }
            }
            TagKind::StreamTrim if tag.number == u64::MAX => {
                let Some(mut gone) = self.streams.remove(&stream) else { return };
                self.places_bytes -= gone.places.bytes();
                let mention = gone.forget_mention();
                let places = gone.places.iter().map(|(_, place)| place).chain(mention).collect();
                self.release_when_durable(when, places);
            }
            TagKind::StreamTrim | TagKind::StreamCut | TagKind::StreamState => {
                // One that is not known yet had records in segments that are gone; those that are needed follow as copies.
                let (first, next) = (tag.number, tag.number);
                let unknown = || StreamState { first, next, ..StreamState::default() };
                let state = self.streams.entry(stream).or_insert_with(unknown);
                let before = state.places.bytes();
                let mut released = state.end_at(tag);
                self.places_bytes = self.places_bytes - before + state.places.bytes();
                released.extend(state.forget_mention());
                if state.first == state.next {
                    state.mention = Some(lsn);
                    planted!(EmptyStreamForgotten, (), self.hold(RecordPlace { lsn, bytes: 1 }));
                }
                self.release_when_durable(when, released);
            }
            TagKind::LogCut | TagKind::LogCuts => {}
        }
    }

    /// What lies before `end`, the end of the oldest segment, and is still needed, about `most` of it.
    pub(crate) fn needed_before(&self, end: Lsn, most: usize) -> Vec<Needed> {
        let mut needed = Vec::new();
        for (stream, state) in &self.streams {
            let tag = |kind, number| Tag { kind, stream: stream.get(), number };
            let copy = |(number, place)| Needed { tag: tag(TagKind::Copy, number), place: Some(place) };
            needed.extend(state.places.before(end).map(copy));
            let empty = state.mention.is_some_and(|lsn| lsn < end);
            needed.extend(empty.then(|| Needed { tag: tag(TagKind::StreamState, state.next), place: None }));
            if needed.len() >= most {
                break;
            }
        }
        needed
    }

    /// Where up to `count` records of a stream are, from `number` on, that can be read when everything before `durable` is
    /// durable.
    pub(crate) fn readable(
        &self,
        stream: StreamId,
        number: u64,
        count: usize,
        durable: Lsn,
    ) -> Vec<RecordPlace> {
        let Some(state) = self.get(stream) else { return Vec::new() };
        let places = state.places.range(number, count).into_iter().zip(number..);
        let readable = places.map_while(|((at, place), expected)| {
            let moving = self.moving.get(&(stream, at)).filter(|_| place.lsn >= durable);
            let place = planted!(CopyReadBeforeDurable, place, moving.map_or(place, |moving| moving.from));
            (at == expected && place.lsn < durable).then_some(place)
        });
        readable.collect()
    }

    /// Whether `needed` is still as it was when it was listed, so that it may be rewritten.
    pub(crate) fn still_needs(&self, needed: &Needed) -> bool {
        planted!(RewriteStale, return true);
        let Some(state) = StreamId::new(needed.tag.stream).and_then(|stream| self.get(stream)) else {
            return false;
        };
        match needed.place {
            Some(place) => state.places.get(needed.tag.number) == Some(place),
            None => state.mention.is_some() && state.next == needed.tag.number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StreamTable;
    use crate::format::{Tag, TagKind};
    use crate::lsn::Lsn;
    use crate::stream::StreamId;
    use crate::stream::places::RecordPlace;

    /// A forged log may say so; no log of ours gets there.
    #[test]
    fn a_record_of_the_last_number_there_is_neither_ends_the_program_nor_begins_a_stream_anew() {
        let stream = StreamId::new(1).expect("not 0");
        let mut table = StreamTable::default();
        table.segment_started(Lsn::ZERO);
        let mut lsn = 0;
        let mut apply = |table: &mut StreamTable, kind, number| {
            table.apply(&Tag { kind, stream: 1, number }, Lsn::new(lsn), 100);
            lsn += 100;
        };
        for number in [u64::MAX - 1, u64::MAX, u64::MAX] {
            apply(&mut table, TagKind::Data, number);
            apply(&mut table, TagKind::Copy, number);
            assert_eq!(table.next_number(stream), number.saturating_add(1));
        }
        let found = table.readable(stream, u64::MAX - 1, 3, Lsn::MAX);
        assert!(matches!(found[..], [RecordPlace { bytes: 100, .. }]), "{found:?}");
        for kind in [TagKind::StreamCut, TagKind::StreamTrim] {
            apply(&mut table, kind, u64::MAX - 1);
            apply(&mut table, TagKind::Data, u64::MAX);
        }
        apply(&mut table, TagKind::StreamTrim, u64::MAX);
        assert_eq!((table.len(), table.next_number(stream)), (0, 0));
    }

    #[test]
    fn the_memory_that_is_counted_along_is_what_the_streams_take() {
        let kinds = [
            TagKind::Data,
            TagKind::Data,
            TagKind::Data,
            TagKind::Copy,
            TagKind::StreamTrim,
            TagKind::StreamCut,
            TagKind::StreamState,
        ];
        let mut chance = seawall_sys::chance::SplitMix64::new(7);
        let mut table = StreamTable::default();
        table.segment_started(Lsn::ZERO);
        let mut lsn = 0;
        for _ in 0..20_000 {
            let mut below = |bound: u64| chance.next_u64() % bound;
            let stream = u32::try_from(1 + below(20)).expect("small");
            let state = table.get(StreamId::new(stream).expect("not 0"));
            let (first, next) = state.map_or((0, 0), |state| (state.first(), state.next()));
            let kind = kinds[usize::try_from(below(7)).expect("small")];
            let number = match kind {
                TagKind::Data | TagKind::StreamState => next,
                TagKind::StreamTrim if below(20) == 0 => u64::MAX,
                TagKind::Copy if first == next => continue,
                TagKind::Copy => first + below(next - first),
                _ => first + below(next - first + 1),
            };
            table.apply(&Tag { kind, stream, number }, Lsn::new(lsn), 100);
            lsn += 100 + below(5000);
            let taken: usize = table.streams.values().map(|state| state.places().bytes()).sum();
            assert_eq!(table.places_bytes, taken);
        }
        assert!(table.len() > 10 && table.places_bytes > 1000, "{}", table.places_bytes);
    }
}
