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
use crate::format::{BATCH_HEADER_BYTES, BatchHeader, Records, SegmentHeader, Tag};
use crate::lsn::Lsn;
use crate::recovery::directory::{damage, in_segment};
use crate::recovery::tail::Window;
use crate::storage::disk::{Disk, FileId};
use crate::stream::cuts::CutList;
use crate::stream::state::{HeldTrims, TaggedState};
use seawall_sys::planted;

/// Bytes of one read when the state of a stream is continued.
const STREAM_READ_BYTES: usize = 256 << 10;

/// The state after all tagged records up to `end`, which lies in the last of `segments`, and after the `held` trims that belong
/// among them.
pub(crate) fn replay<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    segments: &[SegmentHeader],
    end: &Cursor,
    held: Option<HeldTrims>,
) -> Result<TaggedState> {
    let mut state = TaggedState::of(segments);
    let oldest = segments.first().map_or(end.lsn, |oldest| oldest.first_lsn);
    state.held = held.filter(|held| held.at >= oldest && held.at <= end.lsn);
    let newest = &end.segment;
    state.plain_end = oldest;
    let cuts_from = cuts_from(disk, window, end)?;
    let stated =
        [Some(newest.streams_from).filter(|number| *number != 0), cuts_from].into_iter().flatten().min();
    let from = stated.or(end.tagged.then_some(newest.number));
    let from = planted!(ReplayNewestOnly(from, newest), from);
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
        replay_segment(disk, window, Cursor::start(*segment), until, (|_| true, |_, _| true), &mut state)?;
    }
    state.take_in_held(end.lsn);
    state.streams.acknowledged(Lsn::MAX);
    Ok(state)
}

/// Continues the state of one stream up to `until`, which lies in the last of `segments`: from `at`, where an earlier call ended, or
/// again if that segment is gone or there was no call. `tags` selects the stream's records, by tag and LSN. Returns where it ended.
pub(crate) fn replay_stream<D: Disk>(
    disk: &mut D,
    segments: &[SegmentHeader],
    at: Option<Cursor>,
    until: Lsn,
    mut tags: impl FnMut(&Tag, Lsn) -> bool,
    state: &mut TaggedState,
) -> Result<Option<Cursor>> {
    let at = at.filter(|at| segments.iter().any(|segment| segment.number == at.segment.number));
    let Some(newest) = segments.last() else { return Ok(None) };
    let from = match &at {
        Some(at) => at.segment.number,
        None if newest.streams_from != 0 => newest.streams_from,
        None => newest.number,
    };
    if at.is_none() {
        *state = TaggedState::default();
    }
    let mut cursor = at;
    let window = &mut Window::new(STREAM_READ_BYTES);
    for (index, segment) in segments.iter().enumerate().filter(|(_, segment)| segment.number >= from) {
        let end = segments.get(index + 1).map_or(until, |next| next.first_lsn.min(until));
        let start = cursor.take().filter(|cursor| cursor.segment.number == segment.number);
        let start = start.unwrap_or_else(|| Cursor::start(*segment));
        cursor = Some(replay_segment(disk, window, start, end, (|_| true, &mut tags), state)?);
    }
    state.streams.acknowledged(Lsn::MAX);
    Ok(cursor)
}

/// The cuts of a log that was walked to `end`, as of `until`, which lies in the last of `segments`.
pub(crate) fn replay_cuts<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    segments: &[SegmentHeader],
    (end, until): (&Cursor, Lsn),
) -> Result<CutList> {
    let mut state = TaggedState::default();
    let begun = if until > end.segment.first_lsn { end.clone() } else { Cursor::start(end.segment) };
    let Some(from) = cuts_from(disk, window, &begun)? else { return Ok(state.cuts) };
    for (at, segment) in segments.iter().enumerate().filter(|(_, segment)| segment.number >= from) {
        let until = segments.get(at + 1).map_or(until, |next| next.first_lsn);
        replay_segment(
            disk,
            window,
            Cursor::start(*segment),
            until,
            (|batch| batch.cuts, |_, _| true),
            &mut state,
        )?;
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
    *window = Window::new(window.read_bytes);
    in_segment(disk, newest.number, |disk, place| {
        let wanted = &mut (|batch: &BatchHeader| batch.cuts, |_: &Tag, _: Lsn| true);
        apply_batch(disk, window, place, &mut Cursor::start(newest), wanted, &mut first)
    })?;
    // A cut without a statement before it leaves this as it was.
    let restated = first.restates;
    Ok(if restated { Some(newest.number) } else { stated.or(Some(newest.number)) })
}

/// Applies the tagged records that are wanted, of the batches that are wanted, from `cursor` as far as `until`; returns where it ended.
fn replay_segment<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    mut cursor: Cursor,
    until: Lsn,
    mut wanted: (impl Fn(&BatchHeader) -> bool, impl FnMut(&Tag, Lsn) -> bool),
    state: &mut TaggedState,
) -> Result<Cursor> {
    *window = Window::new(window.read_bytes);
    in_segment(disk, cursor.segment.number, |disk, (name, file)| {
        while cursor.lsn < until {
            apply_batch(disk, window, (name, file), &mut cursor, &mut wanted, state)?;
        }
        Ok(cursor)
    })
}

fn apply_batch<D: Disk>(
    disk: &mut D,
    window: &mut Window,
    place: (&str, FileId),
    cursor: &mut Cursor,
    (wanted, tags): &mut (impl Fn(&BatchHeader) -> bool, impl FnMut(&Tag, Lsn) -> bool),
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
                Some(tag) if tags(tag, lsn) => {
                    state.apply(tag, record.payload, (lsn, record.bytes()), segment.number);
                }
                Some(_) => {}
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
