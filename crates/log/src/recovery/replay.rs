//! Reads the tagged records of a log again when it is opened: its streams, and what of the log is cut.
//!
//! The header of the newest segment names the segment from which on there are records of streams, and the one from which on
//! cuts are stated; a log without either is not read. Batches without tagged records are stepped over by their headers,
//! the others are checked by the full validity rule.
//!
//! Invariants: the records are applied in order of LSN by the function that applied them when they were appended; damage in
//! front of the end of the log refuses the opening, because a later record of the same stream could be taken for the next
//! one.

use crate::error::Result;
use crate::format::cursor::Cursor;
use crate::format::{BATCH_HEADER_BYTES, BatchHeader, Records, SegmentHeader};
use crate::lsn::Lsn;
use crate::recovery::directory::{damage, in_segment};
use crate::recovery::tail::Window;
use crate::storage::disk::{Disk, FileId};
use crate::stream::cuts::CutList;
use crate::stream::state::TaggedState;
use seawall_sys::planted;

/// What the tagged records of a log say that ends at `end`, a place in the last of `segments`.
pub(crate) fn replay<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    segments: &[SegmentHeader],
    end: &Cursor,
) -> Result<TaggedState> {
    let mut state = TaggedState::of(segments);
    let newest = &end.segment;
    state.plain_end = segments.first().map_or(end.lsn, |oldest| oldest.first_lsn);
    let cuts_from = cuts_from(disk, window, end)?;
    let stated =
        [Some(newest.streams_from).filter(|number| *number != 0), cuts_from].into_iter().flatten().min();
    let from = stated.or(end.tagged.then_some(newest.number));
    let from = planted!(ReplayNewestOnly, from.map(|_| newest.number), from);
    let Some(from) = from else {
        state.plain_end = end.lsn;
        return Ok(state);
    };
    for (at, segment) in segments.iter().enumerate() {
        let until = segments.get(at + 1).map_or(end.lsn, |next| next.first_lsn);
        if segment.number < from {
            state.plain_end = until;
            continue;
        }
        replay_segment(disk, window, segment, until, |_| true, &mut state)?;
    }
    state.streams.durable(Lsn::MAX);
    Ok(state)
}

/// What of a log is cut that ends at `end`.
pub(crate) fn replay_cuts<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    segments: &[SegmentHeader],
    end: &Cursor,
) -> Result<CutList> {
    let mut state = TaggedState::default();
    let Some(from) = cuts_from(disk, window, end)? else { return Ok(state.cuts) };
    for (at, segment) in segments.iter().enumerate().filter(|(_, segment)| segment.number >= from) {
        let until = segments.get(at + 1).map_or(end.lsn, |next| next.first_lsn);
        replay_segment(disk, window, segment, until, |batch| batch.cuts, &mut state)?;
    }
    Ok(state.cuts)
}

/// The segment from which on the cuts of a log are read that ends at `end`: the newest one, if that begins with all of them,
/// otherwise the one that its header names.
fn cuts_from<D: Disk>(disk: &mut D, window: &mut Window, end: &Cursor) -> Result<Option<u64>> {
    let newest = end.segment;
    let stated = Some(newest.cuts_from).filter(|number| *number != 0);
    if end.cuts == 0 {
        return Ok(stated);
    }
    let mut first = TaggedState::default();
    *window = Window::new(window.read_bytes());
    in_segment(disk, newest.number, |disk, place| {
        apply_batch(disk, window, place, &mut Cursor::start(newest), &|batch| batch.cuts, &mut first)
    })?;
    // A cut without a statement in front of it leaves this as it was.
    let restated = first.restates;
    Ok(if restated { Some(newest.number) } else { stated.or(Some(newest.number)) })
}

/// Applies the tagged records of the batches that are `wanted`, as far as `until`.
fn replay_segment<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    segment: &SegmentHeader,
    until: Lsn,
    wanted: impl Fn(&BatchHeader) -> bool,
    state: &mut TaggedState,
) -> Result<()> {
    *window = Window::new(window.read_bytes());
    in_segment(disk, segment.number, |disk, (name, file)| {
        let mut cursor = Cursor::start(*segment);
        while cursor.lsn < until {
            apply_batch(disk, window, (name, file), &mut cursor, &wanted, state)?;
        }
        Ok(())
    })
}

fn apply_batch<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    place: (&str, FileId),
    cursor: &mut Cursor,
    wanted: &impl Fn(&BatchHeader) -> bool,
    state: &mut TaggedState,
) -> Result<()> {
    let segment = cursor.segment;
    let damaged = |cursor: &Cursor, fault: &dyn std::fmt::Display| {
        damage(segment.number, cursor.offset, cursor.lsn, fault.to_string())
    };
    if !cursor.has_room() {
        return Err(damaged(cursor, &"the segment ends before the next one starts"));
    }
    let head = window.get(disk, place, cursor.offset, BATCH_HEADER_BYTES)?;
    let (header, checksum) = cursor.check_header(head).map_err(|fault| damaged(cursor, &fault))?;
    if header.tagged && wanted(&header) {
        let bytes = usize::try_from(header.disk_bytes(segment.block_bytes)).unwrap_or(usize::MAX);
        let batch = window.get(disk, place, cursor.offset, bytes)?;
        Cursor::check_batch(&header, batch).map_err(|fault| damaged(cursor, &fault))?;
        let body = &batch[BATCH_HEADER_BYTES..][..header.body_bytes as usize];
        let mut lsn = header.lsn;
        for record in Records::new(body) {
            let end = lsn.saturating_add(record.bytes() as u64);
            match &record.tag {
                Some(tag) => state.apply(tag, record.payload, (lsn, record.bytes()), segment.number),
                None => state.plain_end = end,
            }
            lsn = end;
        }
    } else if header.records > 0 && !header.tagged {
        state.plain_end = header.end();
    }
    cursor.advance(&header, checksum);
    Ok(())
}
