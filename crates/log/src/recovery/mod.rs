//! Recovery: decides whether the log in a directory is intact, and makes it ready for appends.
//!
//! In the order in which they run:
//!
//! * [`directory`] lists the files and finds the segments of the log;
//! * [`copy_forward`](mod@copy_forward) copies the newest segment where no read bypasses the page cache;
//! * [`tail`] finds the end of the log and decides whether it may end there;
//! * [`replay`](mod@replay) reads the tagged records again: the state of the streams, and what of the log is cut;
//! * [`held_trims`] is the file of what a log at its cap could not state;
//! * [`foreign_file`] refuses files that only have the name of a segment;
//! * this file acts on their findings and makes the log ready;
//! * [`sector_size`] explains a write that the disk refused.
//!
//! Every read of the newest segment bypasses the page cache, because after a failed sync the cache shows what the disk
//! never got.
//!
//! ```text
//! no segment with a header               make a new log
//! closed, and room is left               write an open mark after the close mark, continue there
//! closed and full, or of another class   continue in a new segment
//! torn tail                              end the log before it, continue in a new segment
//! loss that the class allows             the same, and report the lost range
//! any other loss of acknowledged data    refuse, naming the place
//! ```
//!
//! Invariants: nothing on the disk is overwritten; whatever is served was synced first; the decision is made durable
//! (an open mark, or the header of a new segment, both with a new epoch) before it is served; so recovering twice, or
//! again after a crash half-way, leads to the same log. One visit per segment header, one per block of the tail.

pub(crate) mod copy_forward;
pub(crate) mod directory;
pub(crate) mod foreign_file;
pub(crate) mod held_trims;
pub(crate) mod replay;
pub(crate) mod sector_size;
pub(crate) mod tail;

use crate::commit::seal::{Chain, header_block};
use crate::commit::state::{CoreConfig, ResumePoint};
use crate::error::{Error, Result};
use crate::format::buffer::AlignedBuf;
use crate::format::cursor::Cursor;
use crate::format::{
    BATCH_HEADER_BYTES, BatchHeader, BatchKind, LogId, SegmentHeader, preparing_name, segment_name,
};
use crate::lsn::Lsn;
use crate::recovery::copy_forward::copy_forward;
use crate::recovery::directory::{
    DirectoryScan, LOST_HEADER, damage, in_segment, open_cold, scan_directory, split_members,
};
use crate::recovery::foreign_file::refuse_foreign;
use crate::recovery::replay::replay;
use crate::recovery::tail::{Judged, Tail, Window, check_orphans, has_room_to_resume, judge};
use crate::segment::cap::check_opening;
use crate::segment::lifecycle::{SegmentTask, Task};
use crate::segment::{Place, Spare};
use crate::storage::disk::{Disk, FileId, remove, sync, sync_dir, write_all};
use crate::stream::state::TaggedState;
use seawall_sys::durability::Durability;
use seawall_sys::planted;

/// The least size of a segment in bytes.
const SEGMENT_BYTES_LEAST: u64 = 64 << 10;
/// A segment that is started after a torn one is this many times as large as what that held, so that a service which crashes
/// again and again does not take a whole segment each time.
const GROWTH: u64 = crate::segment::inventory::GROWTH;

/// How recovery is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The identity of a log that does not exist yet.
    pub(crate) new_id: LogId,
    /// Block size of a log that does not exist yet, in bytes.
    pub(crate) block_bytes: u16,
    pub(crate) segment_bytes: u64,
    pub(crate) read_bytes: usize,
    /// Whether writes are to be durable on completion rather than by a sync.
    pub(crate) dsync: bool,
    /// What acknowledged records are to outlive.
    pub(crate) class: Durability,
    /// Whether to make a log where there is none.
    pub(crate) create: bool,
    /// The most that the log may take of the disk, in bytes, if it has a cap.
    pub(crate) disk_bytes_max: Option<u64>,
}

/// What recovery found and did.
#[derive(Clone, Debug)]
pub(crate) struct Recovered {
    pub(crate) log_id: LogId,
    pub(crate) epoch: u64,
    pub(crate) block_bytes: u16,
    /// The headers of the segments that make up the log, oldest first, the active one last.
    pub(crate) segments: Vec<SegmentHeader>,
    pub(crate) resume: ResumePoint,
    /// The end of the chain of checksums and times.
    pub(crate) chain: Chain,
    /// The number of the next segment to be prepared.
    pub(crate) next_number: u64,
    pub(crate) tail: Tail,
    pub(crate) class: Durability,
    pub(crate) foreign_files: Vec<String>,
}

/// Finds out what the log holds and makes it ready for writing.
#[cfg(feature = "simulation")]
pub(crate) fn recover<D: Disk>(disk: &mut D, plan: &Plan) -> Result<Recovered> {
    recover_with(disk, plan, |_, _| {})
}

/// The same; `bind` gets the identity of a log that is there, and the epoch of this opening before that is on the disk.
pub(crate) fn recover_with<D: Disk>(
    disk: &mut D,
    plan: &Plan,
    bind: impl FnOnce(LogId, u64),
) -> Result<Recovered> {
    let mut found = scan_directory(disk)?;
    if let Some(newest) = found.started.last()
        && copy_forward(disk, newest, plan.read_bytes)?
    {
        // Recovery judges what the copy holds.
        found = scan_directory(disk)?;
    }
    let mut window = Window::new(plan.read_bytes);
    let Some(last) = found.started.last().copied() else { return create(disk, plan, &mut window, found) };
    if let Some(lost) = found.unstarted.iter().find(|spare| spare.number < last.number) {
        return Err(damage(lost.number, 0, Lsn::ZERO, LOST_HEADER));
    }
    let (members, dead) = split_members(&found.started)?;
    let name = segment_name(last.number);
    let file = open_cold(disk, &name)?;
    let judged = judge(disk, &mut window, file, last, &found.unstarted);
    let judged = judged.inspect_err(|_| disk.close(file))?;
    // After that, because a segment that lost its header and holds batches is not foreign.
    refuse_foreign(disk, &found.unstarted).inspect_err(|_| disk.close(file))?;
    let oldest = members.first().map_or(last, |header| *header);
    let missing = (oldest.first_lsn > judged.cursor.trim).then(|| {
        let what = format!("segment {} before this one is missing", oldest.previous);
        damage(oldest.number, 0, judged.cursor.trim, what)
    });
    let tagged = match missing {
        Some(missing) => Err(missing),
        None => held_trims::read(disk, last.log_id)
            .and_then(|held| replay(disk, &mut window, &members, &judged.cursor, held)),
    };
    let tagged = tagged.inspect_err(|_| disk.close(file))?;
    let top = found.started.iter().map(|header| header.epoch).max().unwrap_or(0).max(judged.cursor.epoch);
    let epoch = planted!(KeepEpoch(top), top.checked_add(1));
    let epoch =
        epoch.ok_or_else(|| damage(last.number, 0, judged.cursor.lsn, "its epoch has no next one"))?;
    bind(last.log_id, epoch);
    planted!(OpenWithoutSync, sync(disk, &name, file).and_then(|()| sync_dir(disk))?);
    remove_staging(disk, &found.staging)?;
    held_trims::tidy(disk, tagged.streams.holds())?;
    let spares = usable_spares(disk, found.unstarted, last.block_bytes)?;
    let mut log = Reopened { plan, epoch, members, spares, judged, tagged };
    let starts = (!log.continues_in_place()).then(|| log.start_bytes());
    let bound = (plan.disk_bytes_max, plan.segment_bytes);
    check_opening(disk, bound, Some(&last), (&log.spares, starts)).inspect_err(|_| disk.close(file))?;
    let abandoned = log.abandoned();
    let recovered = if log.continues_in_place() {
        log.open_mark(disk, file).map(|()| log.in_last_segment(Tail::Clean))
    } else {
        log.continue_in_new_segment(disk, file)
    };
    disk.close(file);
    let mut recovered = recovered?;
    let dead = dead.iter().map(|header| header.number).chain(abandoned);
    planted!(KeepDead, retire(disk, dead)?);
    recovered.foreign_files = found.foreign_files;
    Ok(recovered)
}

/// Removes the staging files that a crash left behind.
pub(crate) fn remove_staging<D: Disk>(disk: &mut D, staging: &[u64]) -> Result<()> {
    staging.iter().try_for_each(|number| remove(disk, &preparing_name(*number)))
}

/// The prepared segments that a log of these blocks can use; the others are removed.
fn usable_spares<D: Disk>(disk: &mut D, spares: Vec<Spare>, block_bytes: u16) -> Result<Vec<Spare>> {
    let block = u64::from(block_bytes);
    let fits = |spare: &Spare| spare.bytes.is_multiple_of(block) && spare.bytes >= 3 * block;
    let (usable, others): (_, Vec<Spare>) = spares.into_iter().partition(fits);
    retire(disk, others.iter().map(|spare| spare.number))?;
    Ok(usable)
}

/// Removes segments that are not needed.
fn retire<D: Disk>(disk: &mut D, numbers: impl IntoIterator<Item = u64>) -> Result<()> {
    for number in numbers {
        SegmentTask::new(Task::Remove(number), 0).finish(disk).map_err(|failed| failed.error)?;
    }
    Ok(())
}

/// Makes a log where there is none.
fn create<D: Disk>(
    disk: &mut D,
    plan: &Plan,
    window: &mut Window,
    found: DirectoryScan,
) -> Result<Recovered> {
    if !plan.create {
        return Err(Error::NotALog { path: ".".into() });
    }
    // A crash at creation leaves segment 1 prepared at most. Any other number shows that there was a log.
    let later = found.unstarted.iter().map(|spare| spare.number).chain(found.staging.iter().copied());
    if let Some(number) = planted!(TakeRestForNew, later.filter(|number| *number > 1).min()) {
        return Err(damage(number, 0, Lsn::ZERO, "no segment with a sound header is left"));
    }
    check_orphans(disk, window, &found.unstarted)?;
    refuse_foreign(disk, &found.unstarted)?;
    remove_staging(disk, &found.staging)?;
    let fits = |spare: &Spare| spare.bytes == plan.segment_bytes;
    let (mut spares, others): (_, Vec<Spare>) = found.unstarted.into_iter().partition(fits);
    retire(disk, others.iter().map(|spare| spare.number))?;
    sync_dir(disk)?;
    let first = take_spare(disk, plan, &mut spares, (0, plan.segment_bytes))?;
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
        class: plan.class,
        streams_from: 0,
        cuts_from: 0,
    };
    write_start(disk, plan, &header)?;
    let tagged = TaggedState::of(&[header]);
    let mut recovered = finish(&[], header, &Cursor::start(header), (spares, tagged), Tail::New);
    recovered.foreign_files = found.foreign_files;
    Ok(recovered)
}

/// The prepared segment after `last`, made if there is none: of the usual size, or as small as a segment may be on a full
/// disk, because nothing could be trimmed if the log did not open.
fn take_spare<D: Disk>(
    disk: &mut D,
    plan: &Plan,
    spares: &mut Vec<Spare>,
    (last, bytes): (u64, u64),
) -> Result<Spare> {
    // Spares of a log that is to grow again are too large for what comes after the small one.
    if bytes < plan.segment_bytes && spares.iter().any(|spare| spare.bytes > bytes) {
        retire(disk, spares.drain(..).map(|spare| spare.number))?;
    }
    if !spares.is_empty() {
        return Ok(spares.remove(0));
    }
    let number = last.saturating_add(1);
    let mut prepare = |bytes| {
        let spare = Spare { number, bytes };
        let prepared = SegmentTask::new(Task::Prepare(spare), plan.read_bytes).finish(disk);
        prepared.map(|_| spare).map_err(|failed| failed.error)
    };
    match prepare(bytes) {
        Err(full @ Error::DiskFull { .. }) if bytes > SEGMENT_BYTES_LEAST => {
            tracing::warn!(%full, "the log continues in a small segment: trim it, or make room");
            prepare(SEGMENT_BYTES_LEAST)
        }
        made => made,
    }
}

/// Writes both copies of a segment header and makes them durable.
fn write_start<D: Disk>(disk: &mut D, plan: &Plan, header: &SegmentHeader) -> Result<()> {
    in_segment(disk, header.number, |disk, (name, file)| {
        for (copy, at) in [(0, 0), (1, header.data_end())] {
            write_all(disk, name, (file, at), header_block(header, copy).bytes(), plan.dsync)?;
        }
        planted!(StartWithoutSync, sync(disk, name, file))
    })
}

fn finish(
    members: &[SegmentHeader],
    active: SegmentHeader,
    cursor: &Cursor,
    (spares, tagged): (Vec<Spare>, TaggedState),
    tail: Tail,
) -> Recovered {
    let next_number = spares.last().map_or(active.number, |spare| spare.number).saturating_add(1);
    let segments = [members, &[active]].concat();
    let place = Place { segment: active.number, offset: cursor.offset, data_end: active.data_end() };
    Recovered {
        log_id: active.log_id,
        epoch: cursor.epoch,
        block_bytes: active.block_bytes,
        segments,
        chain: Chain { link: cursor.link, time_us: cursor.time_us },
        resume: ResumePoint { end: cursor.lsn, trim: cursor.trim, place, spares, tagged },
        next_number,
        tail,
        class: active.class,
        foreign_files: Vec::new(),
    }
}

/// An existing log whose tail has been judged.
pub(crate) struct Reopened<'a> {
    plan: &'a Plan,
    pub(crate) epoch: u64,
    members: Vec<SegmentHeader>,
    spares: Vec<Spare>,
    pub(crate) judged: Judged,
    tagged: TaggedState,
}

impl Reopened<'_> {
    /// The log as it continues in the segment in which it ended.
    pub(crate) fn in_last_segment(&mut self, tail: Tail) -> Recovered {
        let cursor = &self.judged.cursor;
        let before = &self.members[..self.members.len() - 1];
        let rest = (std::mem::take(&mut self.spares), std::mem::take(&mut self.tagged));
        finish(before, cursor.segment, cursor, rest, tail)
    }

    /// Continues in a new segment. Where the last one ends with a close mark and has room, an open mark says that it is not
    /// the last one any more: otherwise a new segment that lost its header would not be missed.
    fn continue_in_new_segment<D: Disk>(&mut self, disk: &mut D, file: FileId) -> Result<Recovered> {
        if self.judged.clean && has_room_to_resume(&self.judged.cursor) {
            self.open_mark(disk, file)?;
        }
        planted!(AppendBehindTornTail(self), self.start_segment(disk))
    }

    /// Writes an open mark after the close mark.
    fn open_mark<D: Disk>(&mut self, disk: &mut D, file: FileId) -> Result<()> {
        let cursor = &mut self.judged.cursor;
        let segment = cursor.segment;
        let block = usize::from(segment.block_bytes);
        let mut buf = AlignedBuf::zeroed(block);
        let header = BatchHeader {
            kind: BatchKind::Open,
            log_id: segment.log_id,
            epoch: self.epoch,
            segment: segment.number,
            offset: cursor.offset,
            lsn: cursor.lsn,
            durable: cursor.lsn,
            acknowledged: cursor.lsn,
            trim_lsn: cursor.trim,
            body_bytes: 0,
            records: 0,
            link: cursor.link,
            body_checksum: crate::format::checksum::crc32c(&buf.bytes()[BATCH_HEADER_BYTES..]),
            tagged: false,
            cuts: false,
            time_us: cursor.time_us,
        };
        let checksum = header.encode(buf.bytes_mut());
        let name = segment_name(segment.number);
        write_all(disk, &name, (file, cursor.offset), buf.bytes(), self.plan.dsync)?;
        planted!(OpenMarkNotSynced, sync(disk, &name, file)?);
        cursor.advance(&header, checksum);
        Ok(())
    }

    /// Whether the last segment turned out to hold no record.
    fn last_is_empty(&self) -> bool {
        self.judged.cursor.lsn == self.judged.cursor.segment.first_lsn
    }

    /// Whether the log continues in the same segment, whose header says what it promises.
    fn continues_in_place(&self) -> bool {
        let cursor = &self.judged.cursor;
        self.judged.clean && has_room_to_resume(cursor) && cursor.segment.class == self.plan.class
    }

    /// The number of the last segment if nothing in it is needed.
    fn abandoned(&self) -> Option<u64> {
        (self.last_is_empty() && !self.continues_in_place()).then_some(self.judged.cursor.segment.number)
    }

    /// The size of the segment that is started: an ordinary one, or a small one after a torn one that held little.
    fn start_bytes(&self) -> u64 {
        let most = self.plan.segment_bytes;
        let cursor = &self.judged.cursor;
        let wanted = cursor.offset.saturating_mul(GROWTH).next_multiple_of(SEGMENT_BYTES_LEAST);
        let torn = !self.judged.clean;
        if planted!(CrashTakesSegment, torn) { wanted.max(SEGMENT_BYTES_LEAST).min(most) } else { most }
    }

    /// Starts a new segment after a tail that is unknown or full.
    fn start_segment<D: Disk>(&mut self, disk: &mut D) -> Result<Recovered> {
        let cursor = &self.judged.cursor;
        let last = cursor.segment;
        let bytes = self.start_bytes();
        let spare = take_spare(disk, self.plan, &mut self.spares, (last.number, bytes))?;
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
            class: self.plan.class,
            streams_from: planted!(StreamsNotStated, self.tagged.streams_from),
            cuts_from: planted!(CutsNotStated, self.tagged.cuts_from),
        };
        planted!(ServeBeforeStart, write_start(disk, self.plan, &header)?);
        let before = if empty { &self.members[..self.members.len() - 1] } else { &self.members[..] };
        let tail = self.judged.tail();
        let start = Cursor { time_us: cursor.time_us, ..Cursor::start(header) };
        let mut tagged = std::mem::take(&mut self.tagged);
        if empty {
            tagged.streams.segment_dropped();
        }
        tagged.streams.segment_started(header.first_lsn);
        Ok(finish(before, header, &start, (std::mem::take(&mut self.spares), tagged), tail))
    }
}

pub(crate) fn config(
    recovered: &Recovered,
    batch_bytes: usize,
    memory_bytes: usize,
    depth: usize,
) -> CoreConfig {
    CoreConfig {
        log_id: recovered.log_id,
        epoch: recovered.epoch,
        block_bytes: recovered.block_bytes,
        batch_bytes,
        depth,
        memory_bytes,
        class: recovered.class,
    }
}
