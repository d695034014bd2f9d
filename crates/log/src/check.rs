//! What is intact, what is damaged, and what can be saved?
//!
//! [`verify`] reads every batch of a log past the page cache and reports every damaged place; [`salvage`] copies what
//! is intact into a new log. Neither writes to the log it looks at, and neither needs the writer's lock, so a log that
//! is being written may show a torn tail that is none.
//!
//! Invariant: behind a damaged batch the walk goes on at the next batch that is valid by itself and lies further on in
//! the log, so that one bad block costs one batch.

use std::path::Path;

use crate::core::Spare;
use crate::disk::{Disk, FileId};
use crate::error::{Damage, Error, Result};
use crate::format::{
    BATCH_HEADER_BYTES, BatchHeader, Fault, Kind, LogId, Records, SegmentHeader, segment_name,
};
use crate::log::Log;
use crate::lsn::Lsn;
use crate::options::Options;
use crate::os_disk::OsDisk;
use crate::recovery::Tail;
use crate::survey::{Survey, chain, open_cold, survey};
use crate::tail::{Window, find_witness};
use crate::view::undisturbed;
use crate::walk::Cursor;

/// One read, in bytes.
const READ_BYTES: usize = 1 << 20;

/// What `verify` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which log.
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
    /// How the log ends.
    pub tail: Tail,
    /// Everything before this is known to have been durable; what lies behind is the last batch before a cut.
    pub witnessed: Lsn,
    /// Every damaged place.
    pub damage: Vec<Damage>,
    /// Files in the directory that are none of the log's.
    pub strangers: Vec<String>,
}

/// What `salvage` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// What was found.
    pub report: Report,
    /// Records copied.
    pub records: u64,
    /// The end of the new log. LSNs are given anew: behind a gap they differ from those of the old log.
    pub end: Lsn,
}

/// Reads all of the log in `dir` and reports every damaged place.
///
/// # Errors
/// [`Error::NotALog`], [`Error::NewerFormat`], [`Error::ForeignSegment`], [`Error::Io`]. Damage is no error here.
pub fn verify(dir: impl AsRef<Path>) -> Result<Report> {
    let dir = dir.as_ref();
    // What a writer trims or starts meanwhile looks like damage.
    let walked = undisturbed(dir, |disk| walk(disk, |_, _| Ok(())), |report| report.damage.is_empty());
    walked.map_err(|error| error.in_dir(dir)).map(|mut report| {
        for damage in &mut report.damage {
            damage.path = dir.join(&damage.path);
        }
        report
    })
}

/// Copies every intact record of the log in `from` into a new log in `to`, in order; a transaction is copied whole.
///
/// # Errors
/// As [`verify`], and whatever writing the new log meets.
pub fn salvage(from: impl AsRef<Path>, to: impl AsRef<Path>, options: Options) -> Result<Salvaged> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let log = Log::open(to, options)?;
    if log.opened().tail != Tail::New {
        let reason = format!("{} holds a log already: name a new directory", to.display());
        return Err(Error::InvalidOption { option: "to", reason });
    }
    let mut records = 0;
    let report = walk(&mut OsDisk::read_only(from), |header, body| {
        if header.end() <= header.trim_lsn {
            return Ok(());
        }
        let mut walk = Records::new(body).peekable();
        while walk.peek().is_some() {
            log.transaction::<Error>(|transaction| {
                for record in walk.by_ref() {
                    transaction.append(record.payload)?;
                    records += 1;
                    if !record.more {
                        break;
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    });
    let report = report.map_err(|error| error.in_dir(from))?;
    let end = log.appended_lsn();
    log.close()?;
    Ok(Salvaged { report, records, end })
}

/// The walk through all segments.
struct Walk<'a, D: Disk, V> {
    disk: &'a mut D,
    window: Window,
    visit: V,
    report: Report,
}

fn walk<D: Disk>(disk: &mut D, visit: impl FnMut(&BatchHeader, &[u8]) -> Result<()>) -> Result<Report> {
    let found = survey(disk)?;
    let Some(last) = found.started.last().copied() else { return Err(Error::NotALog { path: ".".into() }) };
    let mut damage = Vec::new();
    let members = match chain(&found.started) {
        Ok((members, _)) => members,
        Err(Error::Corrupt(place)) => {
            damage.push(place);
            found.started.clone()
        }
        Err(other) => return Err(other),
    };
    let Survey { unstarted, strangers, .. } = found;
    for spare in unstarted.iter().filter(|spare| spare.number < last.number) {
        damage.push(lost_header(*spare));
    }
    let report = Report {
        log_id: last.log_id,
        epoch: last.epoch,
        block_bytes: last.block_bytes,
        segments: members.len() as u64,
        spares: unstarted.iter().filter(|spare| spare.number > last.number).count() as u64,
        first: Lsn::ZERO,
        end: members.first().map_or(Lsn::ZERO, |header| header.first_lsn),
        records: 0,
        bytes: 0,
        batches: 0,
        tail: Tail::Torn,
        witnessed: Lsn::ZERO,
        damage,
        strangers,
    };
    let mut walk = Walk { disk, window: Window::new(READ_BYTES), visit, report };
    for (i, header) in members.iter().enumerate() {
        walk.segment(*header, members.get(i + 1))?;
    }
    if let Some(first) = members.first().filter(|first| first.first_lsn > walk.report.first) {
        let what = format!("segment {} before this one is missing", first.previous);
        let path = segment_name(first.number).into();
        walk.report.damage.push(Damage { path, offset: 0, lsn: walk.report.first, what });
    }
    let next = unstarted.iter().find(|spare| spare.number > last.number);
    if let Some(spare) = next {
        walk.unstarted(*spare, &last)?;
    }
    Ok(walk.report)
}

fn lost_header(spare: Spare) -> Damage {
    let what = "both copies of the segment header are damaged".to_owned();
    Damage { path: segment_name(spare.number).into(), offset: 0, lsn: Lsn::ZERO, what }
}

impl<D: Disk, V: FnMut(&BatchHeader, &[u8]) -> Result<()>> Walk<'_, D, V> {
    fn segment(&mut self, header: SegmentHeader, next: Option<&SegmentHeader>) -> Result<()> {
        let name = segment_name(header.number);
        let file = open_cold(self.disk, &name)?;
        self.window = Window::new(READ_BYTES);
        let walked = self.batches((&name, file), Cursor::start(header), next);
        self.disk.close(file);
        let cursor = walked?;
        self.report.first = self.report.first.max(cursor.trim);
        self.report.epoch = self.report.epoch.max(cursor.epoch);
        self.report.witnessed = self.report.witnessed.max(cursor.witnessed);
        self.report.end = cursor.lsn;
        if next.is_none() && cursor.last == Some(Kind::Close) {
            self.report.tail = Tail::Clean;
        }
        Ok(())
    }

    fn batches(
        &mut self,
        place: (&str, FileId),
        mut cursor: Cursor,
        next: Option<&SegmentHeader>,
    ) -> Result<Cursor> {
        loop {
            if next.is_some_and(|next| cursor.lsn >= next.first_lsn && cursor.link == next.link) {
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
        let length = usize::try_from(header.disk_bytes(cursor.segment.block_bytes)).unwrap_or(usize::MAX);
        let batch = self.window.get(self.disk, place, cursor.offset, length)?;
        if let Err(fault) = Cursor::check_batch(&header, batch) {
            return Ok(Err(fault));
        }
        let body = &batch[BATCH_HEADER_BYTES..BATCH_HEADER_BYTES + header.body_bytes as usize];
        (self.visit)(&header, body)?;
        self.report.batches += 1;
        self.report.records += u64::from(header.records);
        self.report.bytes += Records::new(body).map(|record| record.payload.len() as u64).sum::<u64>();
        cursor.advance(&header, checksum);
        Ok(Ok(()))
    }

    /// Judges the batch at the cursor, which is not valid; returns where the walk goes on, if anywhere.
    fn resume(
        &mut self,
        place: (&str, FileId),
        cursor: &Cursor,
        fault: Fault,
        next: Option<&SegmentHeader>,
    ) -> Result<Option<Cursor>> {
        let segment = &cursor.segment;
        let missing = if let Some(next) = next {
            next.first_lsn > cursor.lsn
        } else {
            let says = |batch: &BatchHeader| cursor.is_contradicted_by(batch);
            let from = (segment, cursor.offset);
            find_witness(self.disk, &mut self.window, place.1, from, says)?.is_some()
        };
        if !missing {
            if let Some(next) = next {
                let what = format!("the chain to segment {} is broken: {fault}", next.number);
                let path = segment_name(segment.number).into();
                self.report.damage.push(Damage { path, offset: cursor.offset, lsn: cursor.lsn, what });
            }
            return Ok(None);
        }
        let path = segment_name(segment.number).into();
        self.report.damage.push(Damage {
            path,
            offset: cursor.offset,
            lsn: cursor.lsn,
            what: fault.to_string(),
        });
        let limit = next.map_or(Lsn::MAX, |next| next.first_lsn);
        let mut offset = cursor.offset.saturating_add(u64::from(segment.block_bytes));
        while offset < segment.data_end() {
            let bytes = self.window.get(self.disk, place, offset, BATCH_HEADER_BYTES)?;
            if let Ok((header, _)) = Cursor::self_valid(segment, offset, bytes) {
                let length = usize::try_from(header.disk_bytes(segment.block_bytes)).unwrap_or(usize::MAX);
                let batch = self.window.get(self.disk, place, offset, length)?;
                let further =
                    header.lsn >= cursor.lsn && header.end() <= limit && header.epoch >= cursor.epoch;
                if further && Cursor::check_batch(&header, batch).is_ok() {
                    let opens = header.kind == Kind::Open;
                    return Ok(Some(Cursor {
                        offset,
                        lsn: header.lsn,
                        link: header.link,
                        epoch: if opens { header.epoch.saturating_sub(1) } else { header.epoch },
                        last: opens.then_some(Kind::Close),
                        ..cursor.clone()
                    }));
                }
            }
            offset += u64::from(segment.block_bytes);
        }
        Ok(None)
    }

    /// Reports a segment whose header was lost after it had been started.
    fn unstarted(&mut self, spare: Spare, like: &SegmentHeader) -> Result<()> {
        let name = segment_name(spare.number);
        let file = open_cold(self.disk, &name)?;
        let header = SegmentHeader { number: spare.number, segment_bytes: spare.bytes, ..*like };
        self.window = Window::new(READ_BYTES);
        let from = (&header, header.data_start());
        let witness = find_witness(self.disk, &mut self.window, file, from, |_| true);
        self.disk.close(file);
        if witness?.is_some() {
            self.report.damage.push(lost_header(spare));
        }
        Ok(())
    }
}
