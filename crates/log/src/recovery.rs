//! What is in the log after whatever happened?
//!
//! Every read goes past the page cache, because after a failed sync the cache shows what the disk never got; where
//! nothing can, the segment in question is copied first ([`carry_forward`]). The segments are put in order by their
//! headers, the last one is walked batch by batch, and the first place where the next batch is not valid is judged:
//!
//! | the last valid batch | a witness behind the tail says it was durable | verdict |
//! | --- | --- | --- |
//! | a close mark | no | clean: go on in the same segment |
//! | any other, or none | no | torn tail: the log ends here, go on in a new segment |
//! | any | yes | corruption of acknowledged data: refuse |
//!
//! A witness is a self-valid batch header whose durable LSN lies past the end that was found, or, behind a close mark,
//! one of a later epoch: the open mark between the two had been durable before it was written. The segment behind the
//! last started one is searched for witnesses too: if it holds a batch of its own number, its header was lost after
//! it had been durable.
//!
//! Invariants: nothing is cut off or overwritten; whatever is exposed was synced first; the decision is made durable
//! (an open mark, or the header of a new segment, both with a new epoch) before it is served; so recovering twice, or
//! again after a crash half-way, leads to the same log. One visit per segment header, one per block of the tail.

use crate::buffer::AlignedBuf;
use crate::carry::carry_forward;
use crate::core::{Beginning, Place, Shape, Spare};
use crate::disk::{Disk, FileId, read_full, sync, sync_dir, write_all};
use crate::error::{Damage, Error, Result};
use crate::format::{
    BATCH_HEADER_BYTES, BLOCK_SIZES, BatchHeader, Fault, FileRole, Kind, LogId, SEGMENT_HEADER_BYTES,
    SegmentHeader, file_role, segment_name,
};
use crate::keeper::{Keeper, Task};
use crate::lsn::Lsn;
use crate::mutant::{self, Mutant};
use crate::seal::header_block;
use crate::walk::Cursor;

/// Files in the directory that are no segments and yet ours: lock, chosen method, scratch file of its probe.
const OURS: [&str; 3] = [crate::log::LOCK_FILE, crate::choose::METHOD_FILE, crate::choose::SCRATCH_FILE];

/// Everything is read in blocks of this many bytes from multiples of it, as a disk with the largest sectors demands.
const READ_BLOCK_BYTES: usize = 4096;

/// Two header copies and a batch between them, of the smallest blocks.
const SEGMENT_BYTES_MIN: u64 = 3 * 512;

/// How recovery is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The identity of a log that does not exist yet.
    pub(crate) new_id: LogId,
    /// Block size of a log that does not exist yet, in bytes.
    pub(crate) block_bytes: u16,
    /// Size of new segments in bytes.
    pub(crate) segment_bytes: u64,
    /// Size of one read in bytes.
    pub(crate) read_bytes: usize,
    /// Whether writes are to be durable on completion rather than by a sync.
    pub(crate) dsync: bool,
}

/// How the log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tail {
    /// There was no log.
    New,
    /// It had been closed.
    Clean,
    /// It had not been closed. Whatever was being written when it ended is gone unless it arrived whole.
    Torn,
}

/// One segment of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentInfo {
    /// Its header.
    pub(crate) header: SegmentHeader,
}

/// What recovery found and did.
#[derive(Clone, Debug)]
pub(crate) struct Recovered {
    /// Which log.
    pub(crate) log_id: LogId,
    /// The epoch of this opening.
    pub(crate) epoch: u64,
    /// Block size in bytes.
    pub(crate) block_bytes: u16,
    /// The segments that make up the log, oldest first, the active one last.
    pub(crate) segments: Vec<SegmentInfo>,
    /// Where writing begins.
    pub(crate) beginning: Beginning,
    /// The end of the chain of checksums.
    pub(crate) link: u32,
    /// The number of the next segment to be prepared.
    pub(crate) next_number: u64,
    /// How the log ended.
    pub(crate) tail: Tail,
    /// Files that are none of ours.
    pub(crate) strangers: Vec<String>,
}

/// What the directory holds.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Segments with a valid header, by number.
    pub(crate) started: Vec<SegmentHeader>,
    /// Segments without one, by number.
    pub(crate) unstarted: Vec<Spare>,
    /// Drafts, by number.
    pub(crate) drafts: Vec<u64>,
    /// Other files.
    pub(crate) strangers: Vec<String>,
}

fn damage(number: u64, offset: u64, lsn: Lsn, what: impl Into<String>) -> Error {
    Error::Corrupt(Damage { path: segment_name(number).into(), offset, lsn, what: what.into() })
}

/// Reads both copies of the header of a segment; `None` if neither was written for it.
fn read_header<D: Disk>(disk: &mut D, file: FileId, spare: Spare) -> Result<Option<SegmentHeader>> {
    let name = segment_name(spare.number);
    // A name that ends in `.seg` stands for a file that was filled and synced: one of any other length was cut, and is
    // not taken for a segment that waits to be started, otherwise what it held would be forgotten.
    if spare.bytes < SEGMENT_BYTES_MIN || !spare.bytes.is_multiple_of(512) {
        let what = format!("the file is {} bytes long, as no segment is", spare.bytes);
        return Err(damage(spare.number, spare.bytes, Lsn::ZERO, what));
    }
    let mut blocks = AlignedBuf::zeroed(2 * READ_BLOCK_BYTES);
    let (mut start, mut filled) =
        (0, read_full(disk, &name, file, 0, &mut blocks.bytes_mut()[..READ_BLOCK_BYTES])?);
    let (mut at_end, mut newer, mut misfit) = (false, None, None);
    let first = (0, 0);
    let second = BLOCK_SIZES.iter().rev().map(|block| (1, spare.bytes.saturating_sub(u64::from(*block))));
    for (copy, offset) in std::iter::once(first).chain(second) {
        if copy == 1 && !at_end {
            at_end = true;
            // The last of these blocks may be cut short by the end of the file.
            start = offset - offset % READ_BLOCK_BYTES as u64;
            filled = read_full(disk, &name, file, start, blocks.bytes_mut())?;
        }
        let from = usize::try_from(offset - start).unwrap_or(usize::MAX).min(filled);
        let bytes = &blocks.bytes()[from..filled.min(from + SEGMENT_HEADER_BYTES)];
        let decoded = if mutant::on(Mutant::HeaderIgnoresName) {
            SegmentHeader::decode_unplaced(bytes, copy)
        } else {
            SegmentHeader::decode(bytes, copy, spare.number, spare.bytes)
        };
        match decoded {
            Ok(mut header) => {
                header.number = spare.number;
                let at_home = copy == 0 || header.data_end() == offset;
                if at_home {
                    return Ok(Some(header));
                }
            }
            Err(Fault::Version(version)) => newer = Some(version),
            Err(Fault::Length) => misfit = Some(offset),
            Err(_) => {}
        }
        if mutant::on(Mutant::OneHeaderCopy) {
            break;
        }
    }
    if let Some(version) = newer {
        return Err(Error::NewerFormat { path: name.into(), version });
    }
    if let Some(offset) = misfit {
        let what = format!("the file is {} bytes long, its header says otherwise", spare.bytes);
        return Err(damage(spare.number, offset, Lsn::ZERO, what));
    }
    Ok(None)
}

fn forget_cached<D: Disk>(disk: &mut D, file: FileId) {
    if !mutant::on(Mutant::KeepCached) {
        disk.forget_cached(file);
    }
}

/// Opens a file to see what the disk has of it, whatever the page cache says.
pub(crate) fn open_cold<D: Disk>(disk: &mut D, name: &str) -> Result<FileId> {
    let file = disk.open(name).map_err(|source| Error::io("open", name, source))?;
    forget_cached(disk, file);
    Ok(file)
}

/// Looks at every file in the directory, newest first: a segment is started only when everything before it is durable,
/// so what the cache holds of those below the newest started one is what the disk has, and may stay there.
pub(crate) fn survey<D: Disk>(disk: &mut D) -> Result<Survey> {
    let mut found = Survey::default();
    let mut entries = disk.list().map_err(|source| Error::io("list", ".", source))?;
    entries.sort_by(|a, b| b.name.cmp(&a.name));
    for entry in entries {
        match file_role(&entry.name) {
            Some(FileRole::Segment(number)) => {
                let spare = Spare { number, bytes: entry.bytes };
                let opened =
                    disk.open(&entry.name).map_err(|source| Error::io("open", &entry.name, source))?;
                if found.started.is_empty() {
                    forget_cached(disk, opened);
                }
                let header = read_header(disk, opened, spare);
                disk.close(opened);
                match header? {
                    Some(header) => found.started.push(header),
                    None => found.unstarted.push(spare),
                }
            }
            Some(FileRole::Preparing(number)) => found.drafts.push(number),
            None if OURS.contains(&entry.name.as_str()) => {}
            None => found.strangers.push(entry.name),
        }
    }
    found.started.reverse();
    found.unstarted.reverse();
    found.drafts.reverse();
    found.strangers.reverse();
    Ok(found)
}

/// Puts the started segments in order: the chain that makes up the log, oldest first, and those left outside, which
/// an earlier recovery had abandoned empty.
pub(crate) fn chain(started: &[SegmentHeader]) -> Result<(Vec<SegmentHeader>, Vec<SegmentHeader>)> {
    let mut members = Vec::new();
    let mut dead = Vec::new();
    let Some(mut newest) = started.last().copied() else { return Ok((members, dead)) };
    members.push(newest);
    for header in started.iter().rev().skip(1) {
        if header.log_id != newest.log_id {
            return Err(Error::ForeignSegment { path: segment_name(header.number).into() });
        }
        if header.number == newest.previous {
            if header.first_lsn > newest.first_lsn || header.block_bytes != newest.block_bytes {
                let what = "its header contradicts the one behind it";
                return Err(damage(header.number, 0, header.first_lsn, what));
            }
            members.push(*header);
            newest = *header;
        } else if header.number > newest.previous && header.first_lsn == newest.first_lsn {
            dead.push(*header);
        } else {
            let what = format!("segment {} is missing behind this one", newest.previous);
            return Err(damage(header.number, 0, header.first_lsn, what));
        }
    }
    members.reverse();
    Ok((members, dead))
}

/// The walk through the last segment.
#[derive(Debug)]
pub(crate) struct TailWalk {
    /// Where it stopped.
    pub(crate) cursor: Cursor,
    /// Why the next batch is not valid, `None` if there was no room for one.
    pub(crate) fault: Option<Fault>,
}

/// Reads a file forward through one buffer.
#[derive(Debug)]
pub(crate) struct Window {
    buf: AlignedBuf,
    start: u64,
    filled: usize,
}

impl Window {
    /// Reads `bytes` at a time.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { buf: AlignedBuf::zeroed(bytes.next_multiple_of(READ_BLOCK_BYTES)), start: 0, filled: 0 }
    }

    /// The bytes from `offset` on, `wanted` of them or as many as the file has.
    pub(crate) fn get<D: Disk>(
        &mut self,
        disk: &mut D,
        (name, file): (&str, FileId),
        offset: u64,
        wanted: usize,
    ) -> Result<&[u8]> {
        let end = offset.saturating_add(wanted as u64);
        if offset < self.start || end > self.start + self.filled as u64 {
            // Also where a batch starts in the middle of a sector.
            self.start = offset - offset % READ_BLOCK_BYTES as u64;
            let needed = usize::try_from(offset - self.start).unwrap_or(0).saturating_add(wanted);
            if needed > self.buf.capacity() {
                self.buf = AlignedBuf::zeroed(needed.next_multiple_of(READ_BLOCK_BYTES));
            }
            self.filled = 0;
            self.filled = read_full(disk, name, file, self.start, self.buf.bytes_mut())?;
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX).min(self.filled);
        let to = from.saturating_add(wanted).min(self.filled);
        Ok(&self.buf.bytes()[from..to])
    }
}

/// Walks the last segment to its end.
pub(crate) fn walk_tail<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    file: FileId,
    header: SegmentHeader,
) -> Result<TailWalk> {
    let name = segment_name(header.number);
    let place = (name.as_str(), file);
    let mut cursor = Cursor::start(header);
    while cursor.has_room() {
        let checked = cursor.check_header(window.get(disk, place, cursor.offset, BATCH_HEADER_BYTES)?);
        let (batch, checksum) = match checked {
            Ok(valid) => valid,
            Err(fault) => return Ok(TailWalk { cursor, fault: Some(fault) }),
        };
        let bytes = usize::try_from(batch.disk_bytes(header.block_bytes)).unwrap_or(usize::MAX);
        if let Err(fault) = Cursor::check_batch(&batch, window.get(disk, place, cursor.offset, bytes)?) {
            return Ok(TailWalk { cursor, fault: Some(fault) });
        }
        cursor.advance(&batch, checksum);
    }
    Ok(TailWalk { cursor, fault: None })
}

/// Searches from `from` to the end of the segment for a self-valid batch header that `says` something; returns it.
pub(crate) fn find_witness<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    file: FileId,
    (segment, from): (&SegmentHeader, u64),
    says: impl Fn(&BatchHeader) -> bool,
) -> Result<Option<BatchHeader>> {
    let name = segment_name(segment.number);
    let mut offset = from;
    while offset < segment.data_end() {
        let bytes = window.get(disk, (&name, file), offset, BATCH_HEADER_BYTES)?;
        match Cursor::self_valid(segment, offset, bytes) {
            Ok((header, _)) if says(&header) => return Ok(Some(header)),
            _ if mutant::on(Mutant::WitnessNextBlockOnly) && offset > from => return Ok(None),
            _ => offset += u64::from(segment.block_bytes),
        }
    }
    Ok(None)
}

/// Refuses if `spare`, which has no valid header, holds a batch that was written for it.
fn check_unstarted<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    spare: Spare,
    like: &SegmentHeader,
) -> Result<()> {
    if mutant::on(Mutant::SkipUnstarted) {
        return Ok(());
    }
    let name = segment_name(spare.number);
    let file = open_cold(disk, &name)?;
    let header = SegmentHeader { number: spare.number, segment_bytes: spare.bytes, ..*like };
    let start = u64::from(header.block_bytes);
    *window = Window::new(window.buf.capacity());
    let witness = find_witness(disk, window, file, (&header, start), |_| true);
    disk.close(file);
    match witness? {
        Some(batch) => {
            Err(damage(spare.number, 0, batch.lsn, "both copies of the segment header are damaged"))
        }
        None => Ok(()),
    }
}

/// Whether an open mark, one batch and a close mark still fit behind `cursor`.
fn room_to_go_on(cursor: &Cursor) -> bool {
    cursor.offset.saturating_add(3 * u64::from(cursor.segment.block_bytes)) <= cursor.segment.data_end()
}

/// What the tail of an existing log means.
#[derive(Debug)]
pub(crate) struct Judged {
    /// Where the log ends.
    pub(crate) cursor: Cursor,
    /// Whether it had been closed.
    pub(crate) clean: bool,
}

/// Walks the last segment and decides by the table at the top of this file.
pub(crate) fn judge<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    file: FileId,
    header: SegmentHeader,
    unstarted: &[Spare],
) -> Result<Judged> {
    let TailWalk { cursor, fault } = walk_tail(disk, window, file, header)?;
    let end = cursor.lsn;
    if !mutant::on(Mutant::TakeDamageForTail) {
        let from = (&cursor.segment, cursor.offset);
        let witness = find_witness(disk, window, file, from, |batch| {
            cursor.is_contradicted_by(batch) || (mutant::on(Mutant::CryWolf) && batch.durable == end)
        })?;
        if let Some(witness) = witness {
            let what = match fault {
                Some(fault) => {
                    format!("{fault}, but a later batch says that LSN {} was durable", witness.durable)
                }
                None => format!("a later batch says that LSN {} was durable", witness.durable),
            };
            return Err(damage(header.number, cursor.offset, end, what));
        }
    }
    let clean = cursor.last == Some(Kind::Close)
        || (mutant::on(Mutant::MarkIsClose) && cursor.last == Some(Kind::Mark));
    // Behind a close mark the log goes on in the same segment as long as there is room.
    let full = !room_to_go_on(&cursor) && !mutant::on(Mutant::TrustCloseWithoutRoom);
    if (!clean || full)
        && let Some(spare) = unstarted.iter().find(|spare| spare.number > header.number)
    {
        check_unstarted(disk, window, *spare, &header)?;
    }
    Ok(Judged { cursor, clean })
}

/// Finds out what the log holds and makes it ready for writing.
pub(crate) fn recover<D: Disk>(disk: &mut D, plan: &Plan) -> Result<Recovered> {
    let mut found = survey(disk)?;
    if let Some(newest) = found.started.last()
        && carry_forward(disk, newest, plan.read_bytes)?
    {
        // What is judged is what the copy holds.
        found = survey(disk)?;
    }
    let mut window = Window::new(plan.read_bytes);
    let Some(last) = found.started.last().copied() else { return create(disk, plan, &mut window, found) };
    if let Some(lost) = found.unstarted.iter().find(|spare| spare.number < last.number) {
        return Err(damage(lost.number, 0, Lsn::ZERO, "both copies of the segment header are damaged"));
    }
    let (members, dead) = chain(&found.started)?;
    let name = segment_name(last.number);
    let file = open_cold(disk, &name)?;
    let judged = judge(disk, &mut window, file, last, &found.unstarted);
    let judged = judged.inspect_err(|_| disk.close(file))?;
    let oldest = members.first().map_or(last, |header| *header);
    if oldest.first_lsn > judged.cursor.trim {
        let what = format!("segment {} before this one is missing", oldest.previous);
        return Err(damage(oldest.number, 0, judged.cursor.trim, what));
    }
    let top = found.started.iter().map(|header| header.epoch).max().unwrap_or(0).max(judged.cursor.epoch);
    let epoch = top.checked_add(u64::from(!mutant::on(Mutant::KeepEpoch)));
    let epoch =
        epoch.ok_or_else(|| damage(last.number, 0, judged.cursor.lsn, "its epoch has no next one"))?;
    if !mutant::on(Mutant::OpenWithoutSync) {
        sync(disk, &name, file)?;
        sync_dir(disk)?;
    }
    remove_drafts(disk, &found.drafts)?;
    let spares = usable_spares(disk, found.unstarted, last.block_bytes)?;
    let mut log = Reopened { plan, epoch, members, spares, judged };
    let recovered = if log.judged.clean && room_to_go_on(&log.judged.cursor) {
        log.go_on(disk, file)
    } else {
        log.start_anew(disk)
    };
    disk.close(file);
    let mut recovered = recovered?;
    if !mutant::on(Mutant::KeepDead) {
        for number in dead.iter().map(|header| header.number).chain(log.abandoned()) {
            Keeper::new(Task::Retire(number), 0).finish(disk)?;
        }
    }
    recovered.strangers = found.strangers;
    Ok(recovered)
}

/// Removes what was being prepared when the power went.
fn remove_drafts<D: Disk>(disk: &mut D, drafts: &[u64]) -> Result<()> {
    for draft in drafts {
        let name = crate::format::preparing_name(*draft);
        disk.remove(&name).map_err(|source| Error::io("remove", &name, source))?;
    }
    Ok(())
}

/// The prepared segments that a log of these blocks can use; the others go.
fn usable_spares<D: Disk>(disk: &mut D, spares: Vec<Spare>, block_bytes: u16) -> Result<Vec<Spare>> {
    let block = u64::from(block_bytes);
    let fits = |spare: &Spare| spare.bytes.is_multiple_of(block) && spare.bytes >= 3 * block;
    let (usable, others): (_, Vec<Spare>) = spares.into_iter().partition(fits);
    for spare in others {
        Keeper::new(Task::Retire(spare.number), 0).finish(disk)?;
    }
    Ok(usable)
}

/// Makes a log where there is none.
fn create<D: Disk>(disk: &mut D, plan: &Plan, window: &mut Window, found: Survey) -> Result<Recovered> {
    // A crash at creation leaves segment 1 prepared at most. Any other number shows that there was a log once.
    let later = found.unstarted.iter().map(|spare| spare.number).chain(found.drafts.iter().copied());
    if let Some(number) =
        later.filter(|number| *number > 1).min().filter(|_| !mutant::on(Mutant::TakeRestForNew))
    {
        return Err(damage(number, 0, Lsn::ZERO, "no segment with a sound header is left"));
    }
    for spare in &found.unstarted {
        for block_bytes in BLOCK_SIZES {
            let like = SegmentHeader {
                block_bytes,
                log_id: plan.new_id,
                epoch: 0,
                number: spare.number,
                segment_bytes: spare.bytes,
                first_lsn: Lsn::ZERO,
                trim_lsn: Lsn::ZERO,
                previous: 0,
                link: 0,
            };
            check_orphan(disk, window, *spare, &like)?;
        }
    }
    remove_drafts(disk, &found.drafts)?;
    for spare in found.unstarted.iter().filter(|spare| spare.bytes != plan.segment_bytes) {
        Keeper::new(Task::Retire(spare.number), 0).finish(disk)?;
    }
    sync_dir(disk)?;
    let mut spares: Vec<Spare> =
        found.unstarted.iter().filter(|spare| spare.bytes == plan.segment_bytes).copied().collect();
    let first = take_spare(disk, plan, &mut spares, 0)?;
    let header = SegmentHeader {
        block_bytes: plan.block_bytes,
        log_id: plan.new_id,
        epoch: 1,
        number: first.number,
        segment_bytes: first.bytes,
        first_lsn: Lsn::ZERO,
        trim_lsn: Lsn::ZERO,
        previous: 0,
        link: 0,
    };
    write_start(disk, plan, &header)?;
    let mut recovered = finish(&[], header, &Cursor::start(header), spares, Tail::New);
    recovered.strangers = found.strangers;
    Ok(recovered)
}

/// As [`check_unstarted`], for a directory without any valid header, whose log identity is therefore unknown.
fn check_orphan<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    spare: Spare,
    like: &SegmentHeader,
) -> Result<()> {
    let name = segment_name(spare.number);
    let file = open_cold(disk, &name)?;
    *window = Window::new(window.buf.capacity());
    let mut offset = u64::from(like.block_bytes);
    let mut orphan = None;
    while offset < like.data_end() && orphan.is_none() {
        let bytes = window.get(disk, (&name, file), offset, BATCH_HEADER_BYTES)?;
        orphan = BatchHeader::decode(bytes)
            .ok()
            .filter(|(header, _)| header.segment == spare.number && header.offset == offset);
        offset += u64::from(like.block_bytes);
    }
    disk.close(file);
    match orphan {
        Some((batch, _)) => {
            Err(damage(spare.number, 0, batch.lsn, "both copies of the segment header are damaged"))
        }
        None => Ok(()),
    }
}

/// The prepared segment behind `last`, made if there is none.
fn take_spare<D: Disk>(disk: &mut D, plan: &Plan, spares: &mut Vec<Spare>, last: u64) -> Result<Spare> {
    if spares.is_empty() {
        let spare = Spare { number: last.saturating_add(1), bytes: plan.segment_bytes };
        Keeper::new(Task::Prepare(spare), plan.read_bytes).finish(disk)?;
        return Ok(spare);
    }
    Ok(spares.remove(0))
}

/// Writes both copies of a segment header and makes them durable.
fn write_start<D: Disk>(disk: &mut D, plan: &Plan, header: &SegmentHeader) -> Result<()> {
    let name = segment_name(header.number);
    let file = open_cold(disk, &name)?;
    let [first, second] = [0, 1].map(|copy| header_block(header, copy));
    let written = write_all(disk, &name, (file, 0), first.bytes(), plan.dsync)
        .and_then(|()| write_all(disk, &name, (file, header.data_end()), second.bytes(), plan.dsync))
        .and_then(|()| if mutant::on(Mutant::StartWithoutSync) { Ok(()) } else { sync(disk, &name, file) });
    disk.close(file);
    written
}

fn finish(
    members: &[SegmentHeader],
    active: SegmentHeader,
    cursor: &Cursor,
    spares: Vec<Spare>,
    tail: Tail,
) -> Recovered {
    let next_number = spares.last().map_or(active.number, |spare| spare.number).saturating_add(1);
    let mut segments: Vec<SegmentInfo> =
        members.iter().map(|header| SegmentInfo { header: *header }).collect();
    segments.push(SegmentInfo { header: active });
    let place = Place { segment: active.number, offset: cursor.offset, data_end: active.data_end() };
    Recovered {
        log_id: active.log_id,
        epoch: cursor.epoch,
        block_bytes: active.block_bytes,
        segments,
        link: cursor.link,
        beginning: Beginning { end: cursor.lsn, trim: cursor.trim, place, spares },
        next_number,
        tail,
        strangers: Vec::new(),
    }
}

/// An existing log whose tail has been judged.
struct Reopened<'a> {
    plan: &'a Plan,
    epoch: u64,
    members: Vec<SegmentHeader>,
    spares: Vec<Spare>,
    judged: Judged,
}

impl Reopened<'_> {
    /// Goes on behind a close mark.
    fn go_on<D: Disk>(&mut self, disk: &mut D, file: FileId) -> Result<Recovered> {
        let mut cursor = self.judged.cursor.clone();
        let segment = cursor.segment;
        let block = usize::from(segment.block_bytes);
        let mut buf = AlignedBuf::zeroed(block);
        let header = BatchHeader {
            kind: Kind::Open,
            log_id: segment.log_id,
            epoch: self.epoch,
            segment: segment.number,
            offset: cursor.offset,
            lsn: cursor.lsn,
            durable: cursor.lsn,
            trim_lsn: cursor.trim,
            body_bytes: 0,
            records: 0,
            link: cursor.link,
            body_checksum: crate::checksum::crc32c(&buf.bytes()[BATCH_HEADER_BYTES..]),
        };
        let checksum = header.encode(buf.bytes_mut());
        let name = segment_name(segment.number);
        write_all(disk, &name, (file, cursor.offset), buf.bytes(), self.plan.dsync)?;
        if !mutant::on(Mutant::OpenMarkNotSynced) {
            sync(disk, &name, file)?;
        }
        cursor.advance(&header, checksum);
        let before = &self.members[..self.members.len() - 1];
        Ok(finish(before, segment, &cursor, std::mem::take(&mut self.spares), Tail::Clean))
    }

    /// Whether the last segment turned out to hold no record.
    fn last_is_empty(&self) -> bool {
        self.judged.cursor.lsn == self.judged.cursor.segment.first_lsn
    }

    /// The number of the last segment if nothing in it is needed.
    fn abandoned(&self) -> Option<u64> {
        let stays = self.judged.clean && room_to_go_on(&self.judged.cursor);
        (self.last_is_empty() && !stays).then_some(self.judged.cursor.segment.number)
    }

    /// Starts a new segment behind a tail that is unknown or full.
    fn start_anew<D: Disk>(&mut self, disk: &mut D) -> Result<Recovered> {
        if mutant::on(Mutant::AppendBehindTornTail) {
            let mut cursor = self.judged.cursor.clone();
            cursor.epoch = self.epoch;
            let before = &self.members[..self.members.len() - 1];
            let segment = cursor.segment;
            return Ok(finish(before, segment, &cursor, std::mem::take(&mut self.spares), Tail::Torn));
        }
        let cursor = &self.judged.cursor;
        let last = cursor.segment;
        let spare = take_spare(disk, self.plan, &mut self.spares, last.number)?;
        let empty = self.last_is_empty();
        let header = SegmentHeader {
            block_bytes: last.block_bytes,
            log_id: last.log_id,
            epoch: self.epoch,
            number: spare.number,
            segment_bytes: spare.bytes,
            first_lsn: cursor.lsn,
            trim_lsn: cursor.trim,
            previous: if empty { last.previous } else { last.number },
            link: if empty { last.link } else { cursor.link },
        };
        if !mutant::on(Mutant::ServeBeforeStart) {
            write_start(disk, self.plan, &header)?;
        }
        let before = if empty { &self.members[..self.members.len() - 1] } else { &self.members[..] };
        let tail = if self.judged.clean { Tail::Clean } else { Tail::Torn };
        let start = Cursor::start(header);
        Ok(finish(before, header, &start, std::mem::take(&mut self.spares), tail))
    }
}

/// The shape of the log for the core.
pub(crate) fn shape(recovered: &Recovered, batch_bytes: usize, memory_bytes: usize, depth: usize) -> Shape {
    Shape {
        log_id: recovered.log_id,
        epoch: recovered.epoch,
        block_bytes: recovered.block_bytes,
        batch_bytes,
        depth,
        memory_bytes,
    }
}
