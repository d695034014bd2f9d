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
//! Invariants: `first <= next` for every stream; every number between them has a place, unless the log is a salvaged one that
//! lost the record; space that a record makes superfluous is released when that record is acknowledged, never before: otherwise a
//! crash could take the record and find the segment gone.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::format::{RECORD_HEADER_BYTES, TAG_BYTES, Tag, TagKind};
use crate::lsn::Lsn;
use crate::stream::StreamId;
use crate::stream::hash::StreamHash;
use crate::stream::places::{Places, RecordPlace};
use seawall_sys::planted;

#[derive(Clone, Debug, Default)]
pub(crate) struct StreamState {
    pub(crate) first: u64,
    pub(crate) next: u64,
    /// Where it was said last that the stream has no records; `None` as long as it has some.
    mention: Option<Lsn>,
    pub(crate) places: Places,
}

impl StreamState {
    /// One whose next record has this number, as far as that is known.
    fn from(number: u64) -> Self {
        Self { first: number, next: number, ..Self::default() }
    }

    /// Record `number` is at `place` from now on; returns where it was.
    fn put(&mut self, number: u64, place: RecordPlace) -> Option<RecordPlace> {
        // One that was rewritten may be older than all that are left in the segments after.
        self.first = self.first.min(number);
        self.next = self.next.max(number.saturating_add(1));
        self.places.set(number, place)
    }

    /// Moves the first or the next number as a record says; returns where records were that are gone.
    fn end_at(&mut self, tag: &Tag) -> Vec<RecordPlace> {
        let number = tag.number;
        match tag.kind {
            TagKind::StreamTrim => {
                (self.first, self.next) = (number, self.next.max(number));
                planted!(StreamTrimForgotten, self.places.trim(number))
            }
            TagKind::StreamCut => {
                (self.first, self.next) = (self.first.min(number), number);
                planted!(StreamCutForgotten, self.places.cut(number))
            }
            _ => {
                (self.first, self.next) = (number, number);
                // After it there are some only in a salvaged log that lost a cut.
                let cut = planted!(LostCutNotSeen, self.places.cut(number));
                [self.places.trim(number), cut].concat()
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

/// Where a record was whose copy is not acknowledged before `when`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moving {
    pub(crate) record: (StreamId, u64),
    pub(crate) from: RecordPlace,
    when: Lsn,
}

/// What a segment holds for the streams.
#[derive(Clone, Copy, Debug)]
struct SegmentUse {
    first_lsn: Lsn,
    bytes: u64,
    /// What of this is needed until the trims that are held back are stated.
    held: u64,
}

/// What is held back of one stream: its last trim or removal and its last cut, and the places that they release.
#[derive(Clone, Debug, Default)]
struct Held {
    tags: Vec<Tag>,
    places: Vec<RecordPlace>,
}

/// A record that is needed although its segment should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    /// The tag of the record that takes its place.
    pub(crate) tag: Tag,
    /// Where it is; `None` for the statement of a stream without records.
    pub(crate) place: Option<RecordPlace>,
}

impl Needed {
    /// What it takes in the log, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.place.map_or((RECORD_HEADER_BYTES + TAG_BYTES) as u64, |place| place.bytes.into())
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct StreamTable {
    streams: HashMap<StreamId, StreamState, StreamHash>,
    /// By the LSN of a copy that is not durable yet: a number is used again after a cut, an LSN never is.
    moving: BTreeMap<Lsn, Moving>,
    segments: VecDeque<SegmentUse>,
    /// So many of them, the oldest ones, hold nothing that is needed.
    unneeded: usize,
    releases: VecDeque<Release>,
    /// Trims that a log at its cap has no block for.
    held: HashMap<StreamId, Held, StreamHash>,
    /// Counts them.
    pub(crate) held_changes: u64,
    /// What the places of all streams take in memory, bytes.
    places_bytes: usize,
}

impl StreamTable {
    /// One stream, if it was ever written to.
    pub(crate) fn get(&self, stream: StreamId) -> Option<&StreamState> {
        self.streams.get(&stream)
    }

    pub(crate) fn len(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.streams.keys().copied()
    }

    #[inline]
    pub(crate) fn next_number(&self, stream: StreamId) -> u64 {
        self.streams.get(&stream).map_or(0, |state| state.next)
    }

    /// The first and the next number of a stream, if there is such a stream.
    pub(crate) fn bounds(&self, stream: StreamId) -> Option<(u64, u64)> {
        self.get(stream).map(|state| (state.first, state.next))
    }

    /// The number after the last record of a stream that can be read when everything before `durable` is durable.
    pub(crate) fn durable_end(&self, stream: StreamId, durable: Lsn) -> u64 {
        let Some(state) = self.get(stream) else { return 0 };
        // Records become durable in order of their numbers; one that is missing counts as one that is.
        let (mut low, mut high) = (state.first, state.next);
        while low < high {
            let middle = low + (high - low) / 2;
            let place = state.places.get(middle);
            let readable =
                place.is_none_or(|place| self.durable_place((stream, middle), place, durable).lsn < durable);
            (low, high) = if readable { (middle + 1, high) } else { (low, middle) };
        }
        low
    }

    /// Gives a record of a transaction its number: the next one, or, if it trims, none before the first one. What trims or
    /// cuts where there is no stream makes none.
    pub(crate) fn number(&self, tag: &mut Tag) {
        let bounds = StreamId::new(tag.stream).and_then(|stream| self.bounds(stream));
        match (tag.kind, bounds) {
            (TagKind::Data, bounds) => tag.number = bounds.map_or(0, |(_, next)| next),
            (TagKind::StreamTrim, Some((first, _))) => tag.number = tag.number.max(first),
            (TagKind::StreamTrim | TagKind::StreamCut, None) => *tag = Tag::removal(tag.stream),
            _ => {}
        }
    }

    /// Bytes that the records of all streams take in the log.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let entry = size_of::<(StreamId, StreamState)>() + 1;
        self.streams.capacity() * entry + self.places_bytes
    }

    /// A segment whose first record has this LSN is started.
    pub(crate) fn segment_started(&mut self, first_lsn: Lsn) {
        self.segments.push_back(SegmentUse { first_lsn, bytes: 0, held: 0 });
    }

    /// The last segment holds nothing and is replaced.
    pub(crate) fn segment_dropped(&mut self) {
        self.segments.pop_back();
        self.unneeded = self.unneeded.min(self.segments.len());
    }

    /// The segments before `first` are not part of the log any more.
    pub(crate) fn trimmed(&mut self, first: Lsn) {
        while self.segments.get(1).is_some_and(|next| next.first_lsn <= first) {
            self.segments.pop_front();
            self.unneeded = self.unneeded.saturating_sub(1);
        }
    }

    /// The start of the first segment that holds something needed, `None` if none does. Every batch asks for it, in a log
    /// whose plain records may hold thousands of segments.
    pub(crate) fn needed_from(&self) -> Option<Lsn> {
        self.segments.get(self.unneeded).filter(|segment| segment.bytes > 0).map(|segment| segment.first_lsn)
    }

    /// What is needed of the oldest segment in bytes, and where the next one starts; `None` if there is no next one.
    pub(crate) fn oldest(&self) -> Option<(u64, Lsn)> {
        self.segments.front().zip(self.segments.get(1)).map(|(oldest, next)| (oldest.bytes, next.first_lsn))
    }

    fn segment_of(&mut self, lsn: Lsn) -> Option<(usize, &mut SegmentUse)> {
        // Nearly always the last one.
        let behind = match self.segments.back() {
            Some(last) if last.first_lsn <= lsn => self.segments.len(),
            _ => self.segments.partition_point(|segment| segment.first_lsn <= lsn),
        };
        let at = behind.checked_sub(1)?;
        Some((at, self.segments.get_mut(at)?))
    }

    fn hold(&mut self, place: RecordPlace) {
        if let Some((at, segment)) = self.segment_of(place.lsn) {
            segment.bytes += u64::from(place.bytes);
            self.unneeded = self.unneeded.min(at);
        }
        self.step_over_unneeded();
    }

    fn release(&mut self, place: RecordPlace) {
        if let Some((_, segment)) = self.segment_of(place.lsn) {
            segment.bytes = segment.bytes.saturating_sub(place.bytes.into());
        }
        self.step_over_unneeded();
    }

    fn step_over_unneeded(&mut self) {
        while self.segments.get(self.unneeded).is_some_and(|segment| segment.bytes == 0) {
            self.unneeded += 1;
        }
    }

    /// Everything before `end` is acknowledged: what records before it released is not held any more. A trim that lets it go is
    /// stated after them, and takes effect when all before it is durable.
    pub(crate) fn acknowledged(&mut self, end: Lsn) {
        while self.moving.first_entry().is_some_and(|first| first.get().when <= end) {
            self.moving.pop_first();
        }
        while let Some(release) = self.releases.pop_front_if(|release| release.when <= end) {
            release.places.into_iter().for_each(|place| self.release(place));
        }
    }

    fn release_when_durable(&mut self, when: Lsn, places: Vec<RecordPlace>) {
        let when = planted!(ReleaseBeforeDurable, when);
        if !places.is_empty() {
            self.releases.push_back(Release { when, places });
        }
    }

    /// Moves the first or the next number of a stream as a record says, or removes it; returns the places that it needs no more.
    fn end_stream(&mut self, stream: StreamId, tag: &Tag) -> Vec<RecordPlace> {
        if tag.removes() {
            let Some(mut gone) = self.streams.remove(&stream) else { return Vec::new() };
            self.places_bytes -= gone.places.bytes();
            if self.streams.capacity() > planted!(StreamsKeepRoom, 8 * self.streams.len().max(64)) {
                self.streams.shrink_to(2 * self.streams.len());
            }
            let mention = gone.forget_mention();
            return gone.places.iter().map(|(_, place)| place).chain(mention).collect();
        }
        // One that is not known yet had records in segments that are gone; those that are needed follow as copies.
        let state = self.streams.entry(stream).or_insert_with(|| StreamState::from(tag.number));
        let before = state.places.bytes();
        let mut released = state.end_at(tag);
        self.places_bytes = self.places_bytes - before + state.places.bytes();
        released.extend(state.forget_mention());
        released
    }

    /// Takes in a trim, cut or removal that is not stated yet: what it releases is needed until it is.
    pub(crate) fn hold_back(&mut self, tag: &Tag) {
        let Some(stream) = StreamId::new(tag.stream) else { return };
        let released = self.end_stream(stream, tag);
        for place in &released {
            if let Some((_, segment)) = self.segment_of(place.lsn) {
                segment.held += u64::from(place.bytes);
            }
        }
        let held = self.held.entry(stream).or_default();
        // Of several trims the last one counts, of several cuts too, and a removal alone.
        held.tags.retain(|before| !tag.removes() && before.kind != tag.kind);
        held.tags.push(*tag);
        held.places.extend(released);
        self.held_changes += 1;
    }

    /// Whether trims are held back.
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The trims that are held back; only of streams that release something before `end`, if that is given.
    pub(crate) fn held(&self, end: Option<Lsn>) -> Vec<Tag> {
        let counts = |held: &&Held| end.is_none_or(|end| held.places.iter().any(|place| place.lsn < end));
        self.held.values().filter(counts).flat_map(|held| held.tags.iter().copied()).collect()
    }

    /// The end of the oldest segment that is needed, if it is needed for nothing but what trims release that are held back.
    pub(crate) fn held_lets_go(&self) -> Option<Lsn> {
        let oldest = self.segments.get(self.unneeded)?;
        let next = self.segments.get(self.unneeded + 1)?;
        (oldest.bytes > 0 && oldest.bytes == oldest.held).then_some(next.first_lsn)
    }

    /// Takes in a tagged record that starts at `lsn` and takes `bytes` bytes in the log.
    pub(crate) fn apply(&mut self, tag: &Tag, lsn: Lsn, bytes: u32) {
        let Some(stream) = StreamId::new(tag.stream) else { return };
        let when = lsn.saturating_add(bytes.into());
        match tag.kind {
            TagKind::Data | TagKind::Copy => {
                let place = RecordPlace { lsn, bytes };
                self.hold(place);
                let state = self.streams.entry(stream).or_insert_with(|| StreamState::from(tag.number));
                let before = state.places.bytes();
                // Numbers are used again only after a cut, and those before the first one only when the stream was removed:
                // what salvage copied may lack the record that said so.
                let again = tag.kind == TagKind::Data && tag.number < planted!(LostCutNotSeen, state.next);
                let number = if tag.number < state.first { 0 } else { tag.number };
                let cut = Tag { kind: TagKind::StreamCut, number, ..*tag };
                let cut = if again { state.end_at(&cut) } else { Vec::new() };
                let released = [state.put(tag.number, place), state.forget_mention()];
                self.places_bytes = self.places_bytes - before + state.places.bytes();
                if let Some(from) = released[0].filter(|_| tag.kind == TagKind::Copy) {
                    self.moving.insert(lsn, Moving { record: (stream, tag.number), from, when });
                }
                if released != [None; 2] || !cut.is_empty() {
                    self.release_when_durable(when, released.into_iter().flatten().chain(cut).collect());
                }
            }
            TagKind::StreamTrim | TagKind::StreamCut | TagKind::StreamState => {
                let mut released = self.end_stream(stream, tag);
                let state = self.streams.get_mut(&stream).filter(|state| state.first == state.next);
                if let Some(state) = state {
                    state.mention = Some(lsn);
                    planted!(EmptyStreamForgotten, self.hold(RecordPlace { lsn, bytes: 1 }));
                }
                // What was held back is stated by this record, and by those of its transaction.
                for place in self.held.remove(&stream).into_iter().flat_map(|held| held.places) {
                    if let Some((_, segment)) = self.segment_of(place.lsn) {
                        segment.held = segment.held.saturating_sub(place.bytes.into());
                    }
                    released.push(place);
                }
                self.release_when_durable(when, released);
            }
            TagKind::LogCut | TagKind::LogCuts => {}
        }
    }

    /// What lies before `end`, the end of the oldest segment, and is still needed: records of up to `bytes_max` bytes together, at least
    /// one, and no more than `most`.
    pub(crate) fn needed_before(&self, end: Lsn, (most, bytes_max): (usize, u64)) -> Vec<Needed> {
        let needed = self.streams.iter().flat_map(|(stream, state)| {
            let stream = stream.get();
            let tag = move |kind, number| Tag { kind, stream, number };
            let copy = move |(number, place)| Needed { tag: tag(TagKind::Copy, number), place: Some(place) };
            let empty = state.mention.filter(|lsn| *lsn < end);
            let statement = empty.map(|_| Needed { tag: tag(TagKind::StreamState, state.next), place: None });
            state.places.before(end).map(copy).chain(statement)
        });
        let mut bytes = 0;
        let fits = |needed: &Needed| {
            let before = bytes;
            bytes += needed.bytes();
            before == 0 || bytes <= bytes_max
        };
        needed.take(most).take_while(fits).collect()
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
            let now =
                planted!(CopyReadBeforeDurable(place), self.durable_place((stream, at), place, durable));
            (at == expected && now.lsn < durable).then_some(now)
        });
        readable.collect()
    }

    /// Where a record that has its place there can be read: where it was, as long as the copy is not durable.
    fn durable_place(&self, record: (StreamId, u64), place: RecordPlace, durable: Lsn) -> RecordPlace {
        if place.lsn < durable {
            return place;
        }
        let moving = self.moving.get(&place.lsn);
        let moving = planted!(MovingByNumber(&self.moving, record, durable), moving);
        debug_assert!(moving.is_none_or(|moving| moving.record == record), "{moving:?} of {record:?}");
        moving.map_or(place, |moving| self.durable_place(record, moving.from, durable))
    }

    /// Whether `needed` is still as it was when it was listed, so that it may be rewritten.
    pub(crate) fn still_needs(&self, needed: &Needed) -> bool {
        let state = StreamId::new(needed.tag.stream).and_then(|stream| self.get(stream));
        let needs = state.is_some_and(|state| match needed.place {
            Some(place) => state.places.get(needed.tag.number) == Some(place),
            None => state.mention.is_some() && state.next == needed.tag.number,
        });
        planted!(RewriteStale, needs)
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
            let (first, next) = state.map_or((0, 0), |state| (state.first, state.next));
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
            let taken: usize = table.streams.values().map(|state| state.places.bytes()).sum();
            assert_eq!(table.places_bytes, taken);
            let needed = table.segments.iter().find(|segment| segment.bytes > 0);
            assert_eq!(table.needed_from(), needed.map(|segment| segment.first_lsn));
            match below(40) {
                0 => table.segment_started(Lsn::new(lsn)),
                1 => table.acknowledged(Lsn::new(lsn)),
                2 => table.trimmed(table.needed_from().unwrap_or(Lsn::ZERO)),
                _ => {}
            }
        }
        assert!(table.len() > 10 && table.places_bytes > 1000, "{}", table.places_bytes);
    }

    /// What the table takes when a hundred thousand streams were there and are removed, bytes.
    fn left_of_many() -> usize {
        let mut table = StreamTable::default();
        table.segment_started(Lsn::ZERO);
        for (kind, number) in [(TagKind::Data, 0), (TagKind::StreamTrim, u64::MAX)] {
            for stream in 0..100_000 {
                table.apply(&Tag { kind, stream, number }, Lsn::new(u64::from(stream) * 100), 100);
            }
        }
        table.memory_bytes()
    }

    #[test]
    fn streams_that_are_removed_leave_no_memory() {
        assert!(left_of_many() < 200_000, "{}", left_of_many());
        #[cfg(feature = "mutants")]
        {
            use crate::testing::mutant::{Mutant, set};
            let (mutant, least) = (Mutant::StreamsKeepRoom, 200_000);
            set(Some(mutant));
            let left = left_of_many();
            set(None);
            assert!(left > least, "{left}");
        }
    }
}
