//! Verifies a log: reads every batch from the disk and reports each damaged place.
//!
//! [`verify`] reads past the page cache; `salvage.rs` walks the log by the same code. Nothing is written to the log,
//! and the writer's lock is not needed, so a log that is being written may be reported with a torn tail although it
//! has none.
//!
//! Invariant: after a damaged batch the walk continues at the next batch that is valid by itself and lies further on
//! in the log, so that one bad block costs one batch. A segment without a header is walked from its first intact
//! batch, and one that was cut short as far as it goes, so that damage to one segment never costs data of another
//! one.

use std::collections::HashSet;
use std::path::Path;

use crate::error::{Damage, Error, Result};
use crate::format::cursor::{BATCH_BYTES_MAX, Cursor};
use crate::format::{
    BATCH_HEADER_BYTES, BLOCK_SIZES, BatchHeader, BatchKind, Fault, LogId, RECORD_HEADER_BYTES,
    SegmentHeader, file_role, segment_name,
};
use crate::lock::open_dir;
use crate::lsn::Lsn;
use crate::method::select::{METHOD_FILE, read_text};
use crate::read::view::undisturbed;
use crate::recovery::directory::{
    DirectoryScan, LOST_HEADER, Misfit, damage, in_segment, is_ours, open_cold, scan_with_misfits,
};
use crate::recovery::foreign_file::refuse_foreign;
use crate::recovery::held_trims;
use crate::recovery::tail::{Tail, Window, find_witness};
use crate::segment::Spare;
use crate::storage::disk::{Disk, FileId};
use seawall_sys::durability::Durability;
use seawall_sys::planted;

/// One read, in bytes.
const READ_BYTES: usize = 1 << 20;
/// The damage reported for a segment whose batch headers claim more than [`Trust`] allows.
const OVERDRAWN: &str = "its batch headers claim more bytes than it has: not all of them were followed";
/// The most that is searched of a segment for headers which say what was durable, in lengths of the segment.
const SEARCHES_MAX: u64 = 4;

/// How far the headers of one segment are believed before the records after them are read. Batches of a log
/// do not overlap, so all damaged ones together are shorter than the segment. Forged ones may overlap, and the same bytes
/// would be read again and again.
struct Trust {
    left: u64,
    overdrawn: bool,
}

impl Trust {
    fn new(segment_bytes: u64) -> Self {
        Self { left: segment_bytes, overdrawn: false }
    }

    /// Whether a batch of `bytes` is to be read.
    fn allows(&mut self, bytes: u64) -> bool {
        self.overdrawn |= bytes > self.left;
        bytes <= self.left
    }

    /// A batch of `bytes` was not valid.
    fn abused(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Whether the batch at `offset`, of blocks of `block_bytes`, is read and valid.
    fn reads<D: Disk>(
        &mut self,
        (disk, window): (&mut D, &mut Window),
        place: (&str, FileId),
        (offset, block_bytes): (u64, u16),
        header: &BatchHeader,
    ) -> Result<bool> {
        let bytes = header.disk_bytes(block_bytes);
        if header.check_claims().is_err() || !self.allows(bytes) {
            return Ok(false);
        }
        let valid = window.check(disk, place, (offset, block_bytes), header)?.is_ok();
        if !valid {
            self.abused(bytes);
        }
        Ok(valid)
    }
}

/// What `verify` found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The identity of the log.
    pub log_id: LogId,
    /// The epoch of its last opening.
    pub epoch: u64,
    /// Block size in bytes.
    pub block_bytes: u16,
    /// Segments that belong to the log.
    pub segments: u64,
    /// Segments that are prepared and not started.
    pub spares: u64,
    /// The first LSN that must be present.
    pub first: Lsn,
    /// The end of what is intact.
    pub end: Lsn,
    /// Intact records, those before the first LSN included.
    pub records: u64,
    /// Their bytes, without headers.
    pub bytes: u64,
    /// Intact batches.
    pub batches: u64,
    /// What acknowledged records of the log outlive, as its last opening requested; `None` if no header says so.
    pub class: Option<Durability>,
    /// How the log ends, and which acknowledged records its class allowed to be lost.
    pub tail: Tail,
    /// Everything before this is known to have been durable; after it is the last batch before a cut.
    pub witnessed: Lsn,
    /// Every damaged place.
    pub damage: Vec<Damage>,
    /// Foreign files in the directory.
    pub foreign_files: Vec<String>,
}

/// Reads the whole log in `dir` and reports every damaged place.
///
/// # Errors
/// [`Error::NotALog`], [`Error::NewerFormat`], [`Error::ForeignSegment`], [`Error::Io`]. Damage is not an error here.
pub fn verify(dir: impl AsRef<Path>) -> Result<Report> {
    let dir = dir.as_ref();
    // Segments that a writer trims or starts meanwhile look like damage.
    let held = open_dir(dir)?;
    let walked = undisturbed(&held, look, |report| report.damage.is_empty());
    let mut report = walked.map_err(|error| error.in_dir(dir))?;
    report.damage.extend(no_files(dir)?);
    let unread = read_text(&held).err().filter(|error| error.kind() == std::io::ErrorKind::InvalidData);
    report.damage.extend(unread.map(|error| of_file(METHOD_FILE, error.to_string())));
    Ok(in_dir(report, dir))
}

/// The same, with the directory before the names of damaged files.
pub(crate) fn in_dir(mut report: Report, dir: &Path) -> Report {
    for damage in &mut report.damage {
        damage.path = dir.join(&damage.path);
    }
    report
}

/// One segment as it was found.
struct Part {
    number: u64,
    /// Where its batches begin, if there are any to walk.
    start: Option<Cursor>,
    /// Whether its header was lost, and reconstructed from its first intact batch.
    reconstructed: bool,
    /// What is wrong with it as a whole.
    damage: Option<Damage>,
}

impl Part {
    fn sound(header: SegmentHeader) -> Self {
        Self { number: header.number, start: Some(Cursor::start(header)), reconstructed: false, damage: None }
    }

    fn header(&self) -> Option<&SegmentHeader> {
        self.start.as_ref().map(|cursor| &cursor.segment)
    }

    /// Whether its first LSN is that of the segment, and not only of the first batch that is left of it.
    fn is_whole(&self) -> bool {
        self.start.as_ref().is_some_and(|cursor| cursor.offset == cursor.segment.data_start())
    }
}

struct Walk<'a, D: Disk, V> {
    disk: &'a mut D,
    window: Window,
    visit: V,
    /// Whether `visit` wants the records.
    bodies: bool,
    report: Report,
    /// Of the segment that is walked: how far its headers are believed, the last header after a damaged place that said
    /// something was missing there, and the bytes that were searched for such.
    trust: Trust,
    witness: Option<BatchHeader>,
    searched: u64,
}

/// Every segment that holds, or held, a part of the log, by number; those without a header only below the newest one that
/// has one, `last`, because after it lie those that wait to be started.
fn parts<D: Disk>(
    disk: &mut D,
    found: &DirectoryScan,
    misfits: Vec<Misfit>,
    last: &SegmentHeader,
) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = found.started.iter().copied().map(Part::sound).collect();
    for misfit in misfits {
        let (spare, block) = (misfit.spare, u64::from(last.block_bytes));
        let start = if let Some(mut header) = misfit.header {
            // A part that was cut off cannot be searched, and after the cut there is no second copy of the header.
            let block = u64::from(header.block_bytes);
            let left = spare.bytes.next_multiple_of(block).saturating_add(block);
            header.segment_bytes = header.segment_bytes.min(left);
            Some(Cursor::start(header))
        } else {
            let bytes = spare.bytes.next_multiple_of(block).saturating_add(block);
            first_batch(disk, Spare { bytes, ..spare }, last)?.1
        };
        let reconstructed = misfit.header.is_none();
        parts.push(Part { number: spare.number, start, reconstructed, damage: Some(misfit.damage) });
    }
    for spare in found.unstarted.iter().filter(|spare| spare.number <= last.number) {
        let start = first_batch(disk, *spare, last)?.1;
        parts.push(Part {
            number: spare.number,
            start,
            reconstructed: true,
            damage: Some(lost_header(*spare)),
        });
    }
    parts.sort_by_key(|part| part.number);
    Ok(parts)
}

/// Whether a segment whose header is lost holds a batch of the log that `like` belongs to, and the cursor at the first
/// one that is intact.
fn first_batch<D: Disk>(disk: &mut D, spare: Spare, like: &SegmentHeader) -> Result<(bool, Option<Cursor>)> {
    let segment = SegmentHeader { number: spare.number, segment_bytes: spare.bytes, previous: 0, ..*like };
    in_segment(disk, spare.number, |disk, place| first_batch_in(disk, place, &segment))
}

fn first_batch_in<D: Disk>(
    disk: &mut D,
    place: (&str, FileId),
    segment: &SegmentHeader,
) -> Result<(bool, Option<Cursor>)> {
    let mut window = Window::new(READ_BYTES);
    let mut trust = Trust::new(segment.segment_bytes);
    let mut written = false;
    let mut offset = segment.data_start();
    while offset < segment.data_end() {
        let bytes = window.get(disk, place, offset, BATCH_HEADER_BYTES)?;
        if let Ok((header, _)) = Cursor::self_valid(segment, offset, bytes) {
            written = true;
            let at = (offset, segment.block_bytes);
            if trust.reads((disk, &mut window), place, at, &header)? {
                let segment = SegmentHeader {
                    epoch: header.epoch,
                    first_lsn: header.lsn,
                    trim_lsn: header.trim_lsn,
                    link: header.link,
                    ..*segment
                };
                return Ok((true, Some(at_batch(&Cursor::start(segment), offset, &header))));
            }
        }
        offset += u64::from(segment.block_bytes);
    }
    Ok((written, None))
}

/// `cursor`, but at the batch with `header`, whatever was before it.
fn at_batch(cursor: &Cursor, offset: u64, header: &BatchHeader) -> Cursor {
    let opens = header.kind == BatchKind::Open;
    Cursor {
        offset,
        lsn: header.lsn,
        link: header.link,
        epoch: if opens { header.epoch.saturating_sub(1) } else { header.epoch },
        last: opens.then_some(BatchKind::Close),
        ..cursor.clone()
    }
}

/// Walks from the newest segment to the oldest: reports missing ones, and leaves out those that an earlier recovery had
/// abandoned. As `chain` of `recovery/directory.rs`, but it continues after what is lost.
fn link_up(parts: &mut [Part]) -> Result<Vec<Damage>> {
    let mut missing = Vec::new();
    let numbers: HashSet<u64> = parts.iter().map(|part| part.number).collect();
    let mut newer: Option<(SegmentHeader, bool)> = None;
    for part in parts.iter_mut().rev() {
        let Some(header) = part.header().copied() else { continue };
        if let Some((next, reconstructed)) = newer {
            if header.log_id != next.log_id {
                return Err(Error::ForeignSegment { path: segment_name(header.number).into() });
            }
            // A segment that lost its header does not name the one before it.
            let skipped = !reconstructed && header.number > next.previous;
            if header.first_lsn == next.first_lsn && (reconstructed || skipped)
                || skipped && part.reconstructed
            {
                part.start = None;
                continue;
            }
            let contradicts = header.first_lsn > next.first_lsn || header.block_bytes != next.block_bytes;
            let what = if !reconstructed && header.number != next.previous {
                // A segment that exists and is damaged is reported at its own place.
                (!numbers.contains(&next.previous))
                    .then(|| format!("segment {} is missing after this one", next.previous))
            } else {
                contradicts.then(|| "its header contradicts the one after it".to_owned())
            };
            if let Some(what) = what {
                missing.push(Damage::in_segment(header.number, 0, header.first_lsn, what));
            }
        }
        newer = Some((header, part.reconstructed));
    }
    missing.reverse();
    Ok(missing)
}

/// Reconstructed from the newest segment with an intact batch, for a log none of whose segments has a sound header.
fn reconstruct<D: Disk>(
    disk: &mut D,
    found: &DirectoryScan,
    misfits: &[Misfit],
) -> Result<Option<SegmentHeader>> {
    let mut spares: Vec<Spare> = misfits.iter().map(|misfit| misfit.spare).collect();
    spares.extend(&found.unstarted);
    spares.sort_by_key(|spare| std::cmp::Reverse(spare.number));
    let mut written = None;
    for spare in spares {
        let number = spare.number;
        let (batch, header) = in_segment(disk, number, |disk, place| reconstruct_from(disk, place, spare))?;
        if header.is_some() {
            return Ok(header);
        }
        written = written.or(batch.map(|batch| damage(spare.number, 0, batch.lsn, LOST_HEADER)));
    }
    written.map_or(Ok(None), Err)
}

/// The first batch header of a segment whose header is lost, and what the first intact batch says about it.
fn reconstruct_from<D: Disk>(
    disk: &mut D,
    place: (&str, FileId),
    spare: Spare,
) -> Result<(Option<BatchHeader>, Option<SegmentHeader>)> {
    let mut window = Window::new(READ_BYTES);
    let mut trust = Trust::new(spare.bytes);
    let (mut first, mut offset) = (None, u64::from(BLOCK_SIZES[0]));
    while offset < spare.bytes {
        let decoded = BatchHeader::decode(window.get(disk, place, offset, BATCH_HEADER_BYTES)?);
        let of_here = decoded.ok().map(|(header, _)| header).filter(|header| {
            header.segment == spare.number && header.offset == offset && header.check_claims().is_ok()
        });
        first = first.or(of_here);
        let Some(header) = of_here else {
            offset += u64::from(BLOCK_SIZES[0]);
            continue;
        };
        for block_bytes in blocks_at(offset) {
            let bytes = header.disk_bytes(block_bytes);
            let end = offset.saturating_add(bytes);
            let fits = bytes <= BATCH_BYTES_MAX && end <= spare.bytes;
            if fits && trust.reads((disk, &mut window), place, (offset, block_bytes), &header)? {
                let reconstructed = SegmentHeader {
                    block_bytes,
                    log_id: header.log_id,
                    epoch: header.epoch,
                    number: spare.number,
                    segment_bytes: spare.bytes,
                    first_lsn: header.lsn,
                    trim_lsn: header.trim_lsn,
                    previous: 0,
                    link: header.link,
                    // The strictest class: every missing record is damage.
                    class: Durability::PowerLoss,
                    streams_from: 0,
                    cuts_from: 0,
                };
                return Ok((first, Some(reconstructed)));
            }
        }
        offset += u64::from(BLOCK_SIZES[0]);
    }
    Ok((first, None))
}

/// The sizes that blocks may have if a batch starts at `offset`, the likeliest first: the first batch of a segment lies
/// right after one block.
fn blocks_at(offset: u64) -> impl Iterator<Item = u16> {
    BLOCK_SIZES.into_iter().rev().filter(move |block| offset.is_multiple_of(u64::from(*block)))
}

/// Walks the whole log and reports its damage.
pub(crate) fn look<D: Disk>(disk: &mut D) -> Result<Report> {
    walk_all(disk, false, |_, _| Ok(()))
}

/// Walks the whole log, passes each intact batch to `visit` in order, and reports the damage.
pub(crate) fn walk<D: Disk>(
    disk: &mut D,
    visit: impl FnMut(&BatchHeader, &[u8]) -> Result<()>,
) -> Result<Report> {
    walk_all(disk, true, visit)
}

fn walk_all<D: Disk>(
    disk: &mut D,
    bodies: bool,
    visit: impl FnMut(&BatchHeader, &[u8]) -> Result<()>,
) -> Result<Report> {
    let (found, misfits) = scan_with_misfits(disk)?;
    let headers = found.started.iter().chain(misfits.iter().filter_map(|misfit| misfit.header.as_ref()));
    let sound = headers.max_by_key(|header| header.number).copied();
    let last = if sound.is_some() { sound } else { reconstruct(disk, &found, &misfits)? };
    let Some(last) = last else {
        // Without any header or batch neither the log nor the size of its blocks is known.
        let misfit = misfits.into_iter().next().map(|misfit| Error::Corrupt(misfit.damage));
        return Err(misfit.unwrap_or(Error::NotALog { path: ".".into() }));
    };
    let mut parts = parts(disk, &found, misfits, &last)?;
    let damage = link_up(&mut parts)?;
    let unstarted = found.unstarted.iter().copied().filter(|spare| spare.number > last.number);
    let oldest = parts.iter().find_map(Part::header).copied();
    let report = Report {
        log_id: last.log_id,
        epoch: last.epoch,
        block_bytes: last.block_bytes,
        segments: parts.iter().filter(|part| part.start.is_some()).count() as u64,
        spares: unstarted.clone().count() as u64,
        first: Lsn::ZERO,
        end: oldest.map_or(Lsn::ZERO, |header| header.first_lsn),
        records: 0,
        bytes: 0,
        batches: 0,
        class: sound.map(|header| header.class),
        tail: Tail::Torn,
        witnessed: Lsn::ZERO,
        damage,
        foreign_files: found.foreign_files,
    };
    let (window, trust) = (Window::new(READ_BYTES), Trust::new(0));
    let mut walk = Walk { disk, window, visit, bodies, report, trust, witness: None, searched: 0 };
    for (i, part) in parts.iter().enumerate() {
        if let Some(damage) = &part.damage {
            let lsn = part.header().map_or(walk.report.end, |header| header.first_lsn);
            walk.report.damage.push(Damage { lsn, ..damage.clone() });
        }
        let Some(start) = &part.start else { continue };
        let next = parts[i + 1..].iter().find(|next| next.start.is_some());
        walk.segment(start, Next::new(part, parts.get(i + 1), next))?;
    }
    // Read last, because a concurrent writer changes them soonest. Segments are started in order: the first that was not
    // started ends the search.
    for spare in unstarted.clone() {
        if !walk.unstarted(spare, &last)? {
            break;
        }
    }
    walk.refused(unstarted, last.log_id)?;
    if let Some(first) = oldest.filter(|first| first.first_lsn > walk.report.first) {
        let before = segment_name(first.previous);
        let known = walk.report.damage.iter().any(|damage| damage.path.as_os_str() == before.as_str());
        if !known {
            let what = match first.previous {
                0 => "what lies before this segment is missing".to_owned(),
                previous => format!("segment {previous} before this one is missing"),
            };
            walk.report.damage.push(Damage::in_segment(first.number, 0, walk.report.first, what));
        }
    }
    Ok(walk.report)
}

/// The segment after the one that is walked.
#[derive(Clone, Copy)]
struct Next {
    /// Its header; `None` if there is no segment to walk.
    header: Option<SegmentHeader>,
    /// Whether it starts where the walked one ends, with nothing lost between the two.
    adjoins: bool,
    /// Whether there is no segment at all, not even a lost one.
    none: bool,
}

impl Next {
    /// `following` is the file after `part`, `next` the next one that can be walked.
    fn new(part: &Part, following: Option<&Part>, next: Option<&Part>) -> Self {
        let header = next.and_then(Part::header).copied();
        let adjoins = next.zip(header).is_some_and(|(next, header)| {
            if next.reconstructed {
                next.is_whole() && following.is_some_and(|following| following.number == next.number)
            } else {
                header.previous == part.number
            }
        });
        Self { header, adjoins, none: following.is_none() }
    }

    /// The segment that starts where the walked one ends.
    fn adjoining(&self) -> Option<&SegmentHeader> {
        self.header.as_ref().filter(|_| self.adjoins)
    }
}

fn lost_header(spare: Spare) -> Damage {
    Damage::in_segment(spare.number, 0, Lsn::ZERO, LOST_HEADER)
}

/// What is wrong with a file that is no segment.
fn of_file(name: impl Into<std::path::PathBuf>, what: impl Into<String>) -> Damage {
    Damage { path: name.into(), offset: 0, lsn: Lsn::ZERO, what: what.into() }
}

/// Files that have the name of one of the log's own and are none, as a folder: what opening would do with them fails.
fn no_files(dir: &Path) -> Result<Vec<Damage>> {
    let entries = std::fs::read_dir(dir).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(|source| Error::io("list", dir, source))?;
    let is_own = |name: &str| file_role(name).is_some() || is_ours(name);
    let own = entries.into_iter().filter(|entry| entry.file_name().to_str().is_some_and(is_own));
    let none = own.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_file()));
    let what =
        "it is no regular file, and has the name of one of the log's own: move it out of the directory";
    Ok(planted!(VerifySeesNoFolder, none.map(|entry| of_file(entry.file_name(), what)).collect()))
}

impl<D: Disk, V: FnMut(&BatchHeader, &[u8]) -> Result<()>> Walk<'_, D, V> {
    /// Reports what else an opening refuses: foreign files that have the name of a segment that waits to be started, and trims
    /// that were held back and cannot be read.
    fn refused(&mut self, unstarted: impl Iterator<Item = Spare>, log_id: LogId) -> Result<()> {
        for spare in unstarted {
            match refuse_foreign(self.disk, &[spare]) {
                Err(foreign @ Error::ForeignFile { .. }) => {
                    self.report.spares = self.report.spares.saturating_sub(1);
                    let damage = Damage::in_segment(spare.number, 0, Lsn::ZERO, foreign.to_string());
                    planted!(VerifySeesNoForeign, self.report.damage.push(damage));
                }
                looked => looked?,
            }
        }
        match held_trims::read(self.disk, log_id) {
            Err(Error::Corrupt(damage)) => self.report.damage.push(damage),
            read => drop(read?),
        }
        Ok(())
    }

    fn segment(&mut self, start: &Cursor, next: Next) -> Result<()> {
        let name = segment_name(start.segment.number);
        let file = open_cold(self.disk, &name)?;
        self.window = Window::new(READ_BYTES);
        (self.trust, self.witness, self.searched) = (Trust::new(start.segment.segment_bytes), None, 0);
        let walked = self.batches((&name, file), start.clone(), next);
        self.disk.close(file);
        let cursor = walked?;
        if self.trust.overdrawn {
            self.damage(start, OVERDRAWN);
        }
        self.report.first = self.report.first.max(cursor.trim);
        self.report.epoch = self.report.epoch.max(cursor.epoch);
        self.report.witnessed = self.report.witnessed.max(cursor.witnessed);
        self.report.end = cursor.lsn;
        if next.none && cursor.last == Some(BatchKind::Close) {
            self.report.tail = Tail::Clean;
        }
        Ok(())
    }

    /// Reports what is wrong at the cursor.
    fn damage(&mut self, at: &Cursor, what: impl Into<String>) {
        self.report.damage.push(Damage::in_segment(at.segment.number, at.offset, at.lsn, what));
    }

    fn batches(&mut self, place: (&str, FileId), mut cursor: Cursor, next: Next) -> Result<Cursor> {
        loop {
            if next.header.is_some_and(|next| cursor.lsn >= next.first_lsn && cursor.link == next.link) {
                return Ok(cursor);
            }
            let Err(fault) = self.batch(place, &mut cursor)? else { continue };
            let Some(resumed) = self.resume(place, &cursor, fault, next)? else { return Ok(cursor) };
            cursor = resumed;
        }
    }

    /// Checks and visits the batch at the cursor.
    fn batch(
        &mut self,
        place: (&str, FileId),
        cursor: &mut Cursor,
    ) -> Result<std::result::Result<(), Fault>> {
        if !cursor.has_room() {
            return Ok(Err(Fault::Short));
        }
        let bytes = self.window.get(self.disk, place, cursor.offset, BATCH_HEADER_BYTES)?;
        let (header, checksum) = match cursor.check_header(bytes) {
            Ok(valid) => valid,
            Err(fault) => return Ok(Err(fault)),
        };
        let length = header.disk_bytes(cursor.segment.block_bytes);
        if !self.trust.allows(length) {
            return Ok(Err(Fault::Claims));
        }
        let at = (cursor.offset, cursor.segment.block_bytes);
        let mut checked = self.window.check_next(self.disk, place, at, &header)?;
        if checked.is_ok() {
            checked = self.show(place, at, &header)?;
        }
        if let Err(fault) = checked {
            self.trust.abused(length);
            return Ok(Err(fault));
        }
        self.report.batches += 1;
        self.report.records += u64::from(header.records);
        let heads = u64::from(header.records) * RECORD_HEADER_BYTES as u64;
        self.report.bytes += u64::from(header.body_bytes).saturating_sub(heads);
        cursor.advance(&header, checksum);
        Ok(Ok(()))
    }

    /// Shows the batch at `offset`, which was found valid.
    fn show(
        &mut self,
        place: (&str, FileId),
        (offset, block_bytes): (u64, u16),
        header: &BatchHeader,
    ) -> Result<std::result::Result<(), Fault>> {
        if !self.bodies {
            return (self.visit)(header, &[]).map(Ok);
        }
        let length = usize::try_from(header.disk_bytes(block_bytes)).unwrap_or(usize::MAX);
        let batch = self.window.get(self.disk, place, offset, length)?;
        // A long one was checked piece by piece, and is read here for a second time.
        let long = length > READ_BYTES;
        if let Err(fault) = if long { Cursor::check_batch(header, batch) } else { Ok(()) } {
            return Ok(Err(fault));
        }
        (self.visit)(header, &batch[BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + header.body_bytes as usize])?;
        if long {
            // The memory of one piece is freed before that of the next is taken.
            self.window = Window::new(READ_BYTES);
        }
        Ok(Ok(()))
    }

    /// Whether a batch after `cursor` says that something there is missing.
    fn witnessed(&mut self, place: (&str, FileId), cursor: &Cursor, next: Next) -> Result<bool> {
        // All segments before the last one were synced, in a log of any class.
        let contradicts = |batch: &BatchHeader| {
            cursor.is_contradicted_by(batch) || (!next.none && batch.acknowledged > cursor.lsn)
        };
        let known = self.witness.filter(|batch| batch.offset >= cursor.offset && contradicts(batch));
        let segment = &cursor.segment;
        if known.is_some() || self.searched > segment.segment_bytes.saturating_mul(SEARCHES_MAX) {
            return Ok(true);
        }
        let mut acknowledged = cursor.lsn;
        let says = |batch: &BatchHeader| {
            acknowledged = acknowledged.max(batch.acknowledged);
            contradicts(batch)
        };
        let from = (segment, cursor.offset);
        self.witness = find_witness(self.disk, &mut self.window, place.1, from, says)?;
        let to = self.witness.map_or(segment.data_end(), |batch| batch.offset);
        self.searched = self.searched.saturating_add(to.saturating_sub(cursor.offset));
        if self.witness.is_none() && acknowledged > cursor.lsn {
            self.report.tail = Tail::Lost { from: cursor.lsn, to: acknowledged };
        }
        Ok(self.witness.is_some())
    }

    /// Judges the batch at the cursor, which is not valid; returns where the walk continues, if anywhere.
    fn resume(
        &mut self,
        place: (&str, FileId),
        cursor: &Cursor,
        fault: Fault,
        next: Next,
    ) -> Result<Option<Cursor>> {
        let segment = &cursor.segment;
        let missing = if let Some(next) = next.adjoining() {
            next.first_lsn > cursor.lsn
        } else {
            self.witnessed(place, cursor, next)?
        };
        if !missing {
            if let Some(next) = next.adjoining() {
                self.damage(cursor, format!("the chain to segment {} is broken: {fault}", next.number));
            }
            return Ok(None);
        }
        self.damage(cursor, fault.to_string());
        let limit = next.header.map_or(Lsn::MAX, |next| next.first_lsn);
        let mut offset = cursor.offset.saturating_add(u64::from(segment.block_bytes));
        while offset < segment.data_end() {
            let bytes = self.window.get(self.disk, place, offset, BATCH_HEADER_BYTES)?;
            if let Ok((header, _)) = Cursor::self_valid(segment, offset, bytes) {
                let further =
                    header.lsn >= cursor.lsn && header.end() <= limit && header.epoch >= cursor.epoch;
                let (read, at) = ((&mut *self.disk, &mut self.window), (offset, segment.block_bytes));
                if further && self.trust.reads(read, place, at, &header)? {
                    return Ok(Some(at_batch(cursor, offset, &header)));
                }
            }
            offset += u64::from(segment.block_bytes);
        }
        Ok(None)
    }

    /// Reports a segment after the last one with a header if it had been started and its header was lost, and walks it;
    /// whether that was so.
    fn unstarted(&mut self, spare: Spare, like: &SegmentHeader) -> Result<bool> {
        let (written, start) = first_batch(self.disk, spare, like)?;
        if written {
            let lsn = self.report.end;
            self.report.damage.push(Damage { lsn, ..lost_header(spare) });
            self.report.spares -= 1;
            self.report.tail = Tail::Torn;
        }
        if let Some(start) = start {
            self.report.segments += 1;
            self.segment(&start, Next { header: None, adjoins: false, none: true })?;
        }
        Ok(written)
    }
}
