//! Damages logs at rest and checks that recovery finds every damage to acknowledged records.
//!
//! A simulated run ends in one of three ways; then the disk damages its contents in one of five ways. The real
//! recovery and a full read must have one of three outcomes:
//!
//! | outcome | what it means |
//! | --- | --- |
//! | whole | every acknowledged record is handed out, byte for byte: the damage hit nothing that counts, or one of two copies |
//! | refused | an error that names the segment and the place |
//! | shortened | the log ends earlier without a word: allowed only where nothing on the disk says that there was more |
//!
//! That evidence is a *witness*, a batch header or segment header that states what was durable when it was written.
//! An injection is *in the tail window* if it hits a batch that starts where the last witness left ends, or later: no
//! log in one copy can distinguish that from a write that never arrived. Every other injection is mid-log, and there
//! shortening is a broken promise. The window is counted, so that its size can be stated.
//!
//! Half of the logs have streams and cuts. What is refused is salvaged, and the copy is judged as well: no record of a stream
//! that was cut off stands after one that took its place, no record is shown that an intact segment says is cut, and a
//! record that is missing in the middle of a stream is a gap there.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use super::campaign::Failure;
use super::crew::{BySeed, Sum};
use super::disk::Event;
use super::disk::SimDisk;
use super::draw::Draw;
use super::file::{SECTOR, Sector};
use super::judge::{Terms, expected_tagged, judge};
use super::life::{BLOCK_BYTES, Ending, Habits, Step, live};
use super::media::Media;
use super::rng::{Rng, mix};
use crate::format::{BatchHeader, FileRole, Records, TAG_BYTES, Tag, TagKind, file_role};
use crate::lsn::Lsn;
use crate::repair::salvage::{Places, is_copied, note_cuts};
use crate::repair::verify::walk;
use crate::stream::StreamId;
use crate::stream::cuts::CutList;
use crate::stream::state::TaggedState;
use crate::testing::oracle::{Ledger, Violation};
use seawall_sys::durability::Durability;

/// How the log was left before the damage.
pub const ENDINGS: [&str; 3] = ["cut under load", "idle mark written", "clean close"];
const ENDING_KINDS: [Ending; 3] = [Ending::Cut, Ending::Idle, Ending::Close];

/// What the disk does.
pub const ROTS: [&str; 5] =
    ["bit flip", "zeroed sector", "garbage sector", "misdirected write", "stale sector"];

/// What came of the injections of one kind into logs left in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Injections that changed something.
    pub injections: u64,
    /// Of these, how many were refused with the place named.
    pub refused: u64,
    /// Of these, how many lost nothing.
    pub whole: u64,
    /// Of these, how many shortened the log without a word: all of them in the tail window.
    pub shortened: u64,
    /// How many were in the tail window, whatever came of them.
    pub window: u64,
}

impl Cell {
    /// The names of its numbers, in the order of the fields.
    const NAMES: [&str; 5] = ["injections", "refused", "whole", "shortened", "window"];

    fn numbers(&mut self) -> [&mut u64; 5] {
        let Self { injections, refused, whole, shortened, window } = self;
        [injections, refused, whole, shortened, window]
    }

    /// All of them together.
    #[must_use]
    pub fn sum<'a>(cells: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for mut cell in cells.into_iter().copied() {
            sum.numbers().into_iter().zip(cell.numbers()).for_each(|(sum, more)| *sum += *more);
        }
        sum
    }
}

/// The outcomes, by ending and by what the disk did.
pub type Table = [[Cell; ROTS.len()]; ENDINGS.len()];

impl Sum for Table {
    fn numbers(&mut self) -> Vec<(String, &mut u64)> {
        let mut all = Vec::new();
        for (ending, cells) in self.iter_mut().enumerate() {
            for (kind, cell) in cells.iter_mut().enumerate() {
                let named = Cell::NAMES.into_iter().zip(cell.numbers());
                all.extend(named.map(|(name, number)| (format!("cell{ending}{kind}-{name}"), number)));
            }
        }
        all
    }
}

/// This many injections into each of the logs of this many seeds.
#[derive(Clone, Copy, Debug)]
pub struct Injections {
    /// Injections that are tried into each log.
    pub per_log: u64,
    /// Logs, one for each seed.
    pub logs: u64,
}

impl BySeed for Injections {
    type Sum = Table;
    const TITLE: &'static str = "seawall logs at rest 1";

    fn shape(&self) -> String {
        format!("per_log {}", self.per_log)
    }

    fn end(&self, first_seed: u64) -> u64 {
        first_seed.saturating_add(self.logs)
    }

    fn is_enough(&self, _: &Table) -> bool {
        false
    }

    fn run(&self, seeds: Range<u64>) -> Result<Table, Failure> {
        rot(seeds, self.per_log)
    }
}

/// One sector that does not hold what it should.
struct Hit {
    inode: usize,
    segment: u64,
    index: usize,
    sector: Rc<Sector>,
}

struct AtRest {
    image: Media,
    ledger: Ledger,
    /// What each sector held before what it holds now.
    before: HashMap<(usize, usize), Rc<Sector>>,
    /// Its batches: segment, first byte, end, and the LSN where each one starts.
    batches: Vec<(u64, u64, u64, Lsn)>,
    ending: usize,
    dsync: bool,
}

/// Lives without failures and stops in one of the three ways.
fn at_rest(seed: u64, rng: &mut Rng) -> Option<AtRest> {
    let dsync = rng.coin();
    let ending = ENDING_KINDS[rng.index(ENDING_KINDS.len())];
    let (depth, actions) = (1 + rng.index(3), 60 + u32::try_from(rng.below(200)).unwrap_or(0));
    let habits = Habits { actions, ending, tagged: rng.coin(), ..Habits::plain(seed, dsync, depth) };
    let end = live(Media::default(), seed, habits, None);
    // A log that was to come to rest and could not counts as cut.
    let ending = ENDING_KINDS.iter().position(|kind| *kind == end.ending)?;
    let mut ledger = Ledger::default();
    let (mut now, mut before) = (HashMap::new(), HashMap::new());
    for step in &end.trace {
        step.enter(&mut ledger);
        if let Step::Disk(Event::WriteBegan { inode, first, sectors, .. }) = step {
            for (index, sector) in (*first..).zip(sectors.iter()) {
                if let Some(old) = now.insert((*inode, index), Rc::clone(sector)) {
                    before.insert((*inode, index), old);
                }
            }
        }
    }
    let image = end.media.image(Draw::None, Draw::None, rng);
    let batches = batches(&image);
    Some(AtRest { image, ledger, before, batches, ending, dsync })
}

/// Every batch that lies where it says it was written to.
fn batches(image: &Media) -> Vec<(u64, u64, u64, Lsn)> {
    let mut found = Vec::new();
    for (name, inode) in image.names.as_slice() {
        let Some(FileRole::Segment(segment)) = file_role(&name.text) else { continue };
        for (index, sector) in image.inodes[*inode].sectors.iter().enumerate() {
            let offset = (index * SECTOR) as u64;
            let Ok((header, _)) = BatchHeader::decode(&sector.bytes) else { continue };
            if (header.segment, header.offset) == (segment, offset) {
                found.push((segment, offset, offset + header.disk_bytes(BLOCK_BYTES), header.lsn));
            }
        }
    }
    found
}

impl AtRest {
    /// A sector of a segment, mostly one that holds something.
    fn place(&self, rng: &mut Rng) -> Option<(usize, u64, usize)> {
        let names = self.image.names.as_slice();
        let (name, inode) = names.get(rng.index(names.len()))?;
        let FileRole::Segment(segment) = file_role(&name.text)? else { return None };
        let sectors = &self.image.inodes[*inode].sectors;
        let anything = rng.one_in(8);
        let wanted = sectors.iter().enumerate().filter(|(_, sector)| anything || !sector.zero);
        let chosen = rng.index(wanted.clone().count());
        wanted.map(|(index, _)| (*inode, segment, index)).nth(chosen)
    }

    fn hit(&self, (inode, segment, index): (usize, u64, usize), sector: Rc<Sector>) -> Hit {
        debug_assert!(index < self.image.inodes[inode].sectors.len(), "inside the file");
        Hit { inode, segment, index, sector }
    }

    fn stale(&self, place: (usize, u64, usize)) -> Hit {
        let old = self.before.get(&(place.0, place.2)).cloned();
        self.hit(place, old.unwrap_or_else(Sector::zero))
    }

    /// What the disk does to this log, `None` if there is nothing that it could be done to.
    fn injection(&self, rot: usize, rng: &mut Rng) -> Option<Vec<Hit>> {
        let place = self.place(rng)?;
        let old = Rc::clone(&self.image.inodes[place.0].sectors[place.2]);
        Some(match rot {
            0 => {
                let mut bytes = old.bytes;
                bytes[rng.index(SECTOR)] ^= 1 << rng.below(8);
                vec![self.hit(place, Sector::new(&bytes))]
            }
            1 => vec![self.hit(place, Sector::zero())],
            2 => {
                let mut bytes = [0; SECTOR];
                bytes.chunks_mut(8).for_each(|word| word.copy_from_slice(&rng.next_u64().to_le_bytes()));
                vec![self.hit(place, Sector::new(&bytes))]
            }
            3 => {
                // It went to another place, and its own one holds what was there before.
                let other = self.place(rng).filter(|other| (other.0, other.2) != (place.0, place.2))?;
                vec![self.hit(other, old), self.stale(place)]
            }
            _ => vec![self.stale(place)],
        })
    }

    /// Whether every hit leaves one of two sound copies of a header: then nothing may be refused either.
    fn copies_left(&self, hits: &[Hit]) -> bool {
        hits.iter().all(|hit| {
            let last = self.image.inodes[hit.inode].sectors.len() - 1;
            let of_header = hit.index == 0 || hit.index == last;
            let alone = hits.iter().filter(|other| other.inode == hit.inode).count() == 1;
            of_header && alone && self.image.sound_headers(hit.segment, hit.inode) == [true; 2]
        })
    }

    /// Injects and judges; counts what came of it.
    fn inject(&self, hits: &[Hit], cell: &mut Cell) -> Result<(), Violation> {
        let mut image = self.image.clone();
        let before = image.hash();
        for hit in hits {
            image.damage(hit.inode, hit.index, &hit.sector);
        }
        if image.hash() == before {
            return Ok(());
        }
        let span = |hit: &Hit| (hit.segment, (hit.index * SECTOR) as u64, ((hit.index + 1) * SECTOR) as u64);
        let places: Vec<(u64, u64, u64)> = hits.iter().map(span).collect();
        let acknowledged = self.ledger.acknowledged;
        let spared = self.copies_left(hits);
        let must_have = if spared { acknowledged } else { self.ledger.without_witnesses(&places) };
        let (damaged, dsync) = (!spared, self.dsync);
        let terms = Terms { must_have, damaged, twice: false, dsync, class: Durability::PowerLoss };
        let in_window = self.batches.iter().any(|(segment, offset, end, lsn)| {
            let hit = |&(of, from, to): &(u64, u64, u64)| of == *segment && from < *end && to > *offset;
            *lsn >= must_have && must_have < acknowledged && places.iter().any(hit)
        });
        cell.injections += 1;
        cell.window += u64::from(in_window);
        let shown = image.clone();
        let end = judge(image, &self.ledger, terms).inspect_err(|_| {
            // A repeated injection is printed.
            eprintln!("{terms:?}, hits {places:?}, {}; before and after:", ENDINGS[self.ending]);
            self.image.describe();
            shown.describe();
        })?;
        match end {
            None => {
                cell.refused += 1;
                self.judge_salvaged(shown)?;
            }
            Some(end) if end < acknowledged && !in_window => {
                eprintln!("{terms:?}, hits {places:?} of {:?}, {}", self.batches, ENDINGS[self.ending]);
                self.image.describe();
                return Err(Violation::Lost { acknowledged, end });
            }
            Some(end) if end < acknowledged => cell.shortened += 1,
            Some(_) => cell.whole += 1,
        }
        Ok(())
    }
}

/// What salvage copies of a damaged log: streams and plain records by the LSNs that they had.
#[derive(Default)]
struct SalvagedLog {
    tagged: TaggedState,
    plain: Vec<Lsn>,
    /// The number of the first record of each stream that is left, with which the stream becomes known.
    known_from: HashMap<u32, u64>,
    /// Where the records of streams begin that are left.
    tags_at: HashSet<Lsn>,
    /// What intact segments state of the cuts.
    stated: Vec<CutList>,
    /// Where the last batch ends that is left.
    end: Lsn,
}

fn salvage(image: Media) -> crate::Result<SalvagedLog> {
    let mut disk = SimDisk::idle(image, 0, None);
    let (mut cuts, mut copy) = (CutList::default(), SalvagedLog::default());
    copy.tagged.streams.segment_started(Lsn::ZERO);
    let first = walk(&mut disk, |header, body| {
        note_cuts(&mut cuts, header, body);
        Ok(())
    })?
    .first;
    walk(&mut disk, |header, body| {
        if header.records > 0 {
            copy.end = header.end();
        }
        for (start, record) in (Places { lsn: header.lsn, records: Records::new(body) }) {
            if let Some(Tag { kind: TagKind::LogCuts, .. }) = record.tag {
                copy.stated.extend(CutList::decode(record.payload));
            }
            if !is_copied((start, first), record.tag.as_ref(), &cuts) {
                continue;
            }
            match &record.tag {
                None => copy.plain.push(start),
                Some(tag) => {
                    copy.tags_at.insert(start);
                    copy.known_from.entry(tag.stream).or_insert(tag.number);
                    copy.tagged.apply(tag, record.payload, (start, record.bytes()), header.segment);
                }
            }
        }
        Ok(())
    })?;
    Ok(copy)
}

impl AtRest {
    /// The tag of the record that was issued as number `at`, if it has one.
    fn tag_of(&self, at: usize) -> Option<Tag> {
        let issued = self.ledger.issued.get(at).filter(|issued| issued.tagged)?;
        Tag::decode(*issued.payload.first_chunk::<TAG_BYTES>()?)
    }

    /// Where records of a stream begin that `meant` fits.
    fn tags(&self, stream: StreamId, meant: fn(&Tag) -> bool) -> impl Iterator<Item = Lsn> {
        let of_it = move |tag: Tag| tag.stream == stream.get() && meant(&tag);
        let issued = self.ledger.issued.iter().enumerate();
        issued.filter(move |(at, _)| self.tag_of(*at).is_some_and(of_it)).map(|(_, issued)| issued.start)
    }

    /// Where the record was appended of which the one at `lsn` is a copy, if it is one.
    fn origin(&self, lsn: Lsn) -> Lsn {
        let at = self.ledger.issued.partition_point(|record| record.start < lsn);
        let Some(copy) = self.tag_of(at) else { return lsn };
        let origin = Tag { kind: TagKind::Data, ..copy };
        let same = |before: &usize| self.tag_of(*before) == Some(origin);
        (0..=at).rev().find(same).map_or(lsn, |at| self.ledger.issued[at].start)
    }

    /// Holds what salvage copies against what was issued.
    fn judge_salvaged(&self, image: Media) -> Result<(), Violation> {
        // Nothing is left that says what log it is.
        let Ok(copy) = salvage(image) else { return Ok(()) };
        // That more had been there is what `Salvaged::left_out` says, and no stream can.
        let end = copy.end;
        let wrong = |what: String| Err(Violation::WrongStreams { end, what });
        if let Some(lsn) = copy.plain.iter().find(|lsn| copy.stated.iter().any(|cuts| cuts.hides(**lsn))) {
            return wrong(format!(
                "the record at LSN {lsn} is salvaged though an intact segment says it is cut"
            ));
        }
        let expected = expected_tagged(&self.ledger, end);
        for stream in copy.tagged.streams.ids() {
            let Some(found) = copy.tagged.streams.get(stream) else { continue };
            let origins: Vec<_> = found.places.iter().map(|(_, place)| self.origin(place.lsn)).collect();
            // Where the removal or cut is lost, and of what came then a copy only is left, nothing proves that the records
            // from before had gone.
            let unproven = |before, then| {
                let mut gone = self.tags(stream, |tag| tag.kind == TagKind::StreamCut || tag.removes());
                !copy.tags_at.contains(&then)
                    && gone.any(|at| (before..then).contains(&at) && !copy.tags_at.contains(&at))
            };
            if !origins.is_sorted_by(|a, b| a < b || unproven(*b, *a)) {
                return wrong(format!("stream {stream} is salvaged in the order {origins:?}"));
            }
            // Where the removal is lost, numbers that went with it may seem to be those that were trimmed before.
            let never_removed = self.tags(stream, Tag::removes).next().is_none();
            let Some(state) = expected.streams.get(stream).filter(|_| never_removed) else {
                continue;
            };
            let known_from = copy.known_from.get(&stream.get()).copied().unwrap_or(0);
            let trimmed = |number: &u64| (known_from..found.first).contains(number);
            if let Some(number) = state.places.iter().map(|(number, _)| number).find(trimmed) {
                return wrong(format!("record {number} of stream {stream} is lost and seems to be trimmed"));
            }
        }
        Ok(())
    }
}

/// Damages the logs of these seeds, each this many times, and holds every outcome against the rule above.
pub(super) fn rot(seeds: Range<u64>, injections_per_log: u64) -> Result<Table, Failure> {
    let mut table = Table::default();
    let mut judged = 0;
    for seed in seeds {
        let mut rng = Rng::new(mix(seed ^ 0x0907));
        let Some(log) = at_rest(seed, &mut rng) else { continue };
        for state in 0..injections_per_log {
            let rot = rng.index(ROTS.len());
            let Some(hits) = log.injection(rot, &mut rng) else { continue };
            let done = log.inject(&hits, &mut table[log.ending][rot]);
            judged += 1;
            done.map_err(|violation| Failure { seed, state, judged, violation })?;
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::{Cell, ROTS, rot};

    #[test]
    fn nothing_in_the_middle_is_lost_in_silence() {
        let table = rot(1..101, 100).unwrap_or_else(|failure| panic!("{failure}"));
        for (ending, row) in table.iter().enumerate() {
            let sum = Cell::sum(row);
            assert_eq!(sum.injections, sum.refused + sum.whole + sum.shortened);
            assert!(sum.injections > 1000 && sum.refused > 500 && sum.whole > 300, "{ending}: {sum:?}");
            // A log that came to rest has a witness for everything: no single sector can shorten it in silence. A
            // misdirected write hits two, and they may be the last batch and the mark after it.
            let by_one_sector: u64 = row
                .iter()
                .zip(ROTS)
                .filter(|(_, rot)| *rot != "misdirected write")
                .map(|(cell, _)| cell.shortened)
                .sum();
            assert_eq!(by_one_sector > 0, ending == 0, "{ending}: {row:?}");
        }
    }
}
