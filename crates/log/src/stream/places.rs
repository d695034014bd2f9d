//! The positions of one stream's records: LSN and length of each, compressed to a few bytes.
//!
//! ```text
//!   chunk   first number, LSN of the first record, how many | length, distance to the next LSN, length, …
//! ```
//!
//! Within a chunk the numbers are consecutive and the LSNs ascend; a chunk holds [`CHUNK_RECORDS`] records at most, so
//! that finding one decodes no more than that. A record that is rewritten later gets a chunk of its own, or joins the one
//! of those that were rewritten with it.
//!
//! Invariant: the chunks are in order of their numbers and do not overlap.

use std::collections::VecDeque;

use crate::lsn::Lsn;
use seawall_sys::planted;

/// Records of one chunk at most.
const CHUNK_RECORDS: u32 = 64;

/// Where one record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub(crate) lsn: Lsn,
    /// All bytes that it takes in the log.
    pub(crate) bytes: u32,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    first: u64,
    count: u32,
    first_lsn: u64,
    last_lsn: u64,
    packed: Vec<u8>,
}

fn pack(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7F).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

fn unpack(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

impl Chunk {
    fn new(number: u64, place: RecordPlace) -> Self {
        let lsn = place.lsn.get();
        let mut chunk = Self { first: number, count: 0, first_lsn: lsn, last_lsn: lsn, packed: Vec::new() };
        chunk.push(place);
        chunk
    }

    fn end(&self) -> u64 {
        self.first.saturating_add(self.count.into())
    }

    fn takes(&self, number: u64, place: RecordPlace) -> bool {
        number == self.end() && self.count < CHUNK_RECORDS && place.lsn.get() > self.last_lsn
    }

    fn push(&mut self, place: RecordPlace) {
        pack(&mut self.packed, place.lsn.get() - self.last_lsn);
        pack(&mut self.packed, place.bytes.into());
        self.last_lsn = place.lsn.get();
        self.count += 1;
        if self.count == CHUNK_RECORDS {
            self.packed.shrink_to_fit();
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u64, RecordPlace)> + '_ {
        let (mut rest, mut lsn) = (self.packed.as_slice(), self.first_lsn);
        (self.first..self.end()).map_while(move |number| {
            lsn += unpack(&mut rest)?;
            let bytes = u32::try_from(unpack(&mut rest)?).ok()?;
            Some((number, RecordPlace { lsn: Lsn::new(lsn), bytes }))
        })
    }

    /// The records of these numbers, in a chunk of their own.
    fn part(&self, numbers: std::ops::Range<u64>) -> Option<Self> {
        let mut part: Option<Self> = None;
        for (number, place) in self.iter().filter(|(number, _)| numbers.contains(number)) {
            match &mut part {
                Some(part) => part.push(place),
                None => part = Some(Self::new(number, place)),
            }
        }
        part
    }
}

/// The places of the records of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    chunks: VecDeque<Chunk>,
    /// What the chunks have allocated, bytes; counted along, because `stats` asks for it under the lock of all appends.
    packed_bytes: usize,
}

impl Places {
    /// What it takes in memory beyond itself, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>() + self.packed_bytes
    }

    fn packed_bytes_of<'a>(chunks: impl IntoIterator<Item = &'a Chunk>) -> usize {
        let bytes = chunks.into_iter().map(|chunk| {
            #[cfg(test)]
            tests::COUNTED.set(tests::COUNTED.get() + 1);
            chunk.packed.capacity()
        });
        bytes.sum()
    }

    fn push(&mut self, at: usize, place: RecordPlace) {
        let chunk = &mut self.chunks[at];
        let before = chunk.packed.capacity();
        chunk.push(place);
        self.packed_bytes = self.packed_bytes + chunk.packed.capacity() - before;
    }

    /// The chunk that holds `number`, or where it would stand.
    fn find(&self, number: u64) -> Result<usize, usize> {
        let behind = self.chunks.partition_point(|chunk| chunk.first <= number);
        match behind.checked_sub(1) {
            Some(at) if self.chunks[at].end() > number => Ok(at),
            _ => Err(behind),
        }
    }

    /// Where record `number` is.
    pub(crate) fn get(&self, number: u64) -> Option<RecordPlace> {
        let chunk = &self.chunks[self.find(number).ok()?];
        let skipped = usize::try_from(number - chunk.first).ok()?;
        chunk.iter().nth(skipped).map(|(_, place)| place)
    }

    /// The places of up to `count` records from `number` on.
    pub(crate) fn range(&self, number: u64, count: usize) -> Vec<(u64, RecordPlace)> {
        let from = self.find(number).unwrap_or_else(|at| at);
        let places = self.chunks.range(from.min(self.chunks.len())..).flat_map(Chunk::iter);
        places.skip_while(|(at, _)| *at < number).take(count).collect()
    }

    /// All places, in order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, RecordPlace)> + '_ {
        self.chunks.iter().flat_map(Chunk::iter)
    }

    /// The records that start before `end`, in order of their numbers.
    pub(crate) fn before(&self, end: Lsn) -> impl Iterator<Item = (u64, RecordPlace)> + '_ {
        let chunks = self.chunks.iter().filter(move |chunk| chunk.first_lsn < end.get());
        chunks.flat_map(move |chunk| chunk.iter().take_while(move |(_, place)| place.lsn < end))
    }

    /// Record `number` is at `place` from now on; returns where it was.
    pub(crate) fn set(&mut self, number: u64, place: RecordPlace) -> Option<RecordPlace> {
        let takes = |at: Option<usize>| at.filter(|at| self.chunks[*at].takes(number, place));
        if let Some(last) = takes(self.chunks.len().checked_sub(1)) {
            self.push(last, place);
            return None;
        }
        let was = self.get(number);
        if was.is_some() {
            self.take_out(number);
        }
        let at = self.chunks.partition_point(|chunk| chunk.first <= number);
        if let Some(before) = at.checked_sub(1).filter(|before| self.chunks[*before].takes(number, place)) {
            self.push(before, place);
        } else {
            self.insert(at, Chunk::new(number, place));
        }
        was
    }

    fn insert(&mut self, at: usize, chunk: Chunk) {
        self.packed_bytes += chunk.packed.capacity();
        self.chunks.insert(at, chunk);
    }

    fn take_out(&mut self, number: u64) {
        let Ok(at) = self.find(number) else { return };
        // A stream is rewritten in order of its numbers, and all chunks after this one would have to move.
        if self.chunks[at].first == number && self.leave(at, number.saturating_add(1)..u64::MAX) {
            return;
        }
        let Some(chunk) = self.chunks.remove(at) else { return };
        self.packed_bytes -= chunk.packed.capacity();
        for part in [number.saturating_add(1)..u64::MAX, 0..number] {
            if let Some(part) = chunk.part(part) {
                self.insert(at, part);
            }
        }
    }

    /// Counts what is left when `gone` is, and gives back the memory of a stream that had many records and has few now. A
    /// stream may be trimmed record by record: what is left is not looked at.
    fn shrink(&mut self, gone: &[Chunk]) {
        self.packed_bytes = planted!(
            TrimCountsBacklog(Self::packed_bytes_of(&self.chunks)),
            self.packed_bytes - Self::packed_bytes_of(gone)
        );
        if self.chunks.capacity() > 4 * self.chunks.len() {
            self.chunks.shrink_to_fit();
        }
    }

    /// Leaves `left` of a chunk whose other records went; returns whether there is any.
    fn leave(&mut self, at: usize, left: std::ops::Range<u64>) -> bool {
        let Some(rest) = self.chunks[at].part(left) else { return false };
        self.packed_bytes += rest.packed.capacity();
        self.packed_bytes -= std::mem::replace(&mut self.chunks[at], rest).packed.capacity();
        true
    }

    /// Forgets the records before `number`; returns where they were.
    pub(crate) fn trim(&mut self, number: u64) -> Vec<RecordPlace> {
        let whole = self.chunks.partition_point(|chunk| chunk.end() <= number);
        let gone: Vec<Chunk> = self.chunks.drain(..whole).collect();
        let mut places: Vec<_> = gone.iter().flat_map(Chunk::iter).map(|(_, place)| place).collect();
        if let Some(first) = self.chunks.front().filter(|first| first.first < number) {
            places.extend(first.iter().take_while(|(at, _)| *at < number).map(|(_, place)| place));
            self.leave(0, number..u64::MAX);
        }
        self.shrink(&gone);
        places
    }

    /// Forgets the records from `number` on; returns where they were.
    pub(crate) fn cut(&mut self, number: u64) -> Vec<RecordPlace> {
        let whole = self.chunks.partition_point(|chunk| chunk.first < number);
        let gone: Vec<Chunk> = self.chunks.drain(whole..).collect();
        let mut places = Vec::new();
        if let Some(last) = self.chunks.back().filter(|last| last.end() > number) {
            places.extend(last.iter().skip_while(|(at, _)| *at < number).map(|(_, place)| place));
            self.leave(whole - 1, 0..number);
        }
        places.extend(gone.iter().flat_map(Chunk::iter).map(|(_, place)| place));
        self.shrink(&gone);
        places
    }
}

#[cfg(test)]
mod tests {
    use super::{Places, RecordPlace};
    use crate::lsn::Lsn;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    thread_local! {
        /// Chunks whose bytes were counted.
        pub(super) static COUNTED: Cell<usize> = const { Cell::new(0) };
    }

    fn place(lsn: u64) -> RecordPlace {
        RecordPlace { lsn: Lsn::new(lsn), bytes: u32::try_from(lsn % 7000 + 16).expect("small") }
    }

    /// Random appends, rewrites, trims and cuts, held against a map.
    #[test]
    fn places_are_those_of_a_map() {
        for seed in 0..200_u64 {
            let mut rng = fastrand(seed);
            let (mut places, mut model) = (Places::default(), BTreeMap::new());
            let (mut first, mut next, mut lsn) = (0, 0, 5);
            for _ in 0..300 {
                lsn += 1 + rng(90_000);
                match rng(10) {
                    0 => {
                        first += rng(next - first + 1);
                        let gone: Vec<_> = model.range(..first).map(|(_, place)| *place).collect();
                        model = model.split_off(&first);
                        assert_eq!(places.trim(first), gone);
                    }
                    1 => {
                        next -= rng(next - first + 1).min(5);
                        let gone: Vec<_> = model.split_off(&next).into_values().collect();
                        assert_eq!(places.cut(next), gone);
                    }
                    2 if next > first => {
                        let from = first + rng(next - first);
                        for number in from..next.min(from + rng(70)) {
                            lsn += 30;
                            assert_eq!(places.set(number, place(lsn)), model.insert(number, place(lsn)));
                        }
                    }
                    _ => {
                        assert_eq!(places.set(next, place(lsn)), model.insert(next, place(lsn)));
                        next += 1;
                    }
                }
                assert_eq!(places.packed_bytes, Places::packed_bytes_of(&places.chunks));
                let all: Vec<_> = places.iter().collect();
                assert_eq!(all, model.iter().map(|(number, place)| (*number, *place)).collect::<Vec<_>>());
                let some = first + rng(next - first + 2);
                assert_eq!(places.get(some), model.get(&some).copied());
                let range: Vec<_> = model.range(some..).take(5).map(|(at, place)| (*at, *place)).collect();
                assert_eq!(places.range(some, 5), range);
            }
        }
    }

    /// A generator of numbers below a bound.
    fn fastrand(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        move |bound| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound.max(1)
        }
    }

    /// Chunks that a stream of this many records counts while 640 of them are trimmed and 640 cut, one by one.
    #[cfg(feature = "mutants")]
    fn counted(backlog: u64) -> usize {
        COUNTED.set(0);
        let mut places = Places::default();
        for number in 0..backlog {
            places.set(number, place(number * 100));
        }
        for step in 1..=640 {
            places.trim(step);
            places.cut(backlog - step);
        }
        COUNTED.take()
    }

    #[test]
    #[cfg(feature = "mutants")]
    fn trimming_one_by_one_costs_the_same_whatever_the_backlog() {
        use crate::testing::mutant::{Mutant, set};
        for (mutant, same) in [(Mutant::TrimCountsBacklog, false), (Mutant::AcceptOtherOffset, true)] {
            set(Some(mutant));
            let [short, long] = [2_000, 200_000].map(counted);
            set(None);
            assert_eq!(short == long, same, "{short} and {long}");
        }
    }

    #[test]
    fn a_record_takes_a_few_bytes() {
        let mut places = Places::default();
        for number in 0..10_000 {
            places.set(number, RecordPlace { lsn: Lsn::new(number * 1_000_000), bytes: 1040 });
        }
        assert!(places.bytes() < 10_000 * 10, "{} bytes", places.bytes());
    }

    #[test]
    fn a_stream_without_records_takes_no_memory_however_many_it_had() {
        let mut places = Places::default();
        for number in 0..10_000 {
            places.set(number, place(number * 100));
        }
        assert!(places.bytes() < 10_000 * 8, "{} bytes", places.bytes());
        places.trim(9_999);
        assert!(places.bytes() < 512, "{} bytes", places.bytes());
        places.trim(10_000);
        assert_eq!(places.bytes(), 0);
        places.set(10_000, place(2_000_000));
        places.cut(10_000);
        assert_eq!(places.bytes(), 0);
    }
}
