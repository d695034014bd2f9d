//! What the planted bugs do whose wrong value is not the least or the greatest of its type (feature `mutants`).
//!
//! `planted!(Name(some, values), right)` calls the function `Name` here. Many take another value that is at hand, or add
//! a condition to the right one.

#![allow(
    non_snake_case,
    clippy::unnecessary_wraps,
    reason = "each function has the name of its bug and the type of what is right"
)]

use std::collections::{BTreeMap, VecDeque};
use std::io;

use seawall_sys::directory::Directory;

use crate::commit::batch::Batch;
use crate::commit::group::Group;
use crate::commit::state::{Core, Refusal};
use crate::commit::sync_debt::SyncDebt;
use crate::error::{Error, Result};
use crate::format::{BatchKind, Fault, Records, SegmentHeader, TagKind};
use crate::lsn::Lsn;
use crate::method::ack_level::AckLevel;
use crate::recovery::tail::Tail;
use crate::recovery::{Recovered, Reopened};
use crate::repair::unfinished;
use crate::segment::Spare;
use crate::storage::disk::{Access, Disk, sync_dir};
use crate::stream::StreamId;
use crate::stream::state::Numbering;
use crate::stream::table::Moving;

pub(crate) use self::{
    either as CryWolf, either as KeepSmallSpare, either as MarkIsClose, either as OpenFailureIsFatal,
};
pub(crate) use self::{raise as AckOutOfOrder, raise as RelaxedTrim};
pub(crate) use crate::crash_memory::forget as MemoryForgottenEarly;
pub(crate) use std::convert::{
    identity as CopyReadBeforeDurable, identity as CutsPublishedEarly, identity as CutsRestatedPastTrim,
    identity as MarkBehindEverything, identity as PublishBeforeDurable, identity as RelaxedCloseWithoutSync,
    identity as RelaxedStartWithoutSync, identity as RetainPinned, identity as RetireBeforeMark,
    identity as RetireLiveSegment, identity as TrimCountsBacklog, identity as ViewCutsAhead,
};
pub(crate) use std::option::Option::{Some as IndexRunsOver, Some as KeepEpoch};
pub(crate) use std::result::Result::Ok as DeadlineIsSuccess;

pub(crate) fn either(right: bool, other: bool) -> bool {
    right || other
}

pub(crate) fn raise(watermark: &mut Lsn, to: Lsn) {
    *watermark = (*watermark).max(to);
}

pub(crate) fn AckAtIssue(durable: &mut Lsn, _: &mut SyncDebt, (_, end): (AckLevel, Lsn)) {
    *durable = end;
}

pub(crate) fn AppendBehindTornTail(log: &mut Reopened) -> Result<Recovered> {
    log.judged.cursor.epoch = log.epoch;
    Ok(log.in_last_segment(Tail::Torn))
}

pub(crate) fn AppendWaitsUnseen<T>() -> Result<T> {
    Err(Error::WouldBlock)
}

pub(crate) fn CapNeverReleased(left_behind: &mut u64, leaving: Option<(usize, SegmentHeader)>) {
    *left_behind += leaving.map_or(0, |(_, header)| header.segment_bytes);
}

pub(crate) fn CutsFromUnwritten(cuts_from: u64, started: &Spare, restates: bool) -> u64 {
    if restates { started.number } else { cuts_from }
}

pub(crate) fn CutsNotedUnseen(known: &mut u64, published: u64) {
    *known = published;
}

/// As it was before the core was locked.
pub(crate) fn DurableSeenBefore(group: &Group) -> Option<Lsn> {
    Some(group.durable())
}

pub(crate) fn FullWithoutDebtSync(owed: Option<u64>, batch: &Batch, _: AckLevel) -> Option<u64> {
    owed.filter(|_| batch.start.is_some())
}

pub(crate) fn GoOnAfterFailure<T>(flight: &mut VecDeque<T>, durable: &mut Lsn, syncing: Lsn) {
    flight.clear();
    *durable = syncing;
}

/// The header of whatever segment counts as that of segment `number`.
pub(crate) fn HeaderIgnoresName(bytes: &[u8], copy: u32, number: u64) -> Result<SegmentHeader, Fault> {
    SegmentHeader::decode_unplaced(bytes, copy).map(|header| SegmentHeader { number, ..header })
}

pub(crate) fn MovingByNumber(
    moving: &BTreeMap<Lsn, Moving>,
    record: (StreamId, u64),
    durable: Lsn,
) -> Option<&Moving> {
    moving.values().find(|moving| moving.record == record && moving.from.lsn < durable)
}

pub(crate) fn NumberedOnceOnly(_: Numbering, _: TagKind, _: impl FnOnce()) {}

pub(crate) fn PrepareWithoutDirSync<D: Disk>(disk: &mut D, prepares: bool) -> Result<()> {
    if prepares { Ok(()) } else { sync_dir(disk) }
}

pub(crate) fn ReadThroughCache() -> Access {
    Access::Cached
}

pub(crate) fn RecordsJoinLastTrim(open: BatchKind, joins: bool) -> bool {
    joins || open == BatchKind::Records
}

pub(crate) fn RelaxedAckAtIssue(_: &mut Lsn, debt: &mut SyncDebt, (level, end): (AckLevel, Lsn)) {
    if level != AckLevel::Full {
        debt.reach(level, end);
    }
}

pub(crate) fn RelaxedMarkBeforeSync(owed: Option<u64>, batch: &Batch, own: AckLevel) -> Option<u64> {
    owed.filter(|_| batch.kind != BatchKind::Mark || own == AckLevel::Full)
}

pub(crate) fn RemoveBeforeSpare(wanted: bool, trimmed: Option<SegmentHeader>) -> bool {
    wanted && trimmed.is_none()
}

pub(crate) fn RenameReplaces<D: Disk>(disk: &mut D, from: &str, to: &str) -> io::Result<()> {
    disk.replace(from, to)
}

pub(crate) fn ReplayNewestOnly(from: Option<u64>, newest: &SegmentHeader) -> Option<u64> {
    from.map(|_| newest.number)
}

/// Of the segments that can go, the last.
pub(crate) fn RetireNewestFirst(
    segments: &VecDeque<SegmentHeader>,
    durable_trim: Lsn,
) -> Option<SegmentHeader> {
    let pairs = segments.iter().zip(segments.iter().skip(1));
    pairs.rev().find(|(_, next)| next.first_lsn <= durable_trim).map(|(segment, _)| *segment)
}

pub(crate) fn RetireWithoutDirSync<D: Disk>(disk: &mut D, prepares: bool) -> Result<()> {
    if prepares { sync_dir(disk) } else { Ok(()) }
}

pub(crate) fn RotateBeforeDebtSync(owed: Option<u64>, batch: &Batch, _: AckLevel) -> Option<u64> {
    owed.filter(|_| batch.start.is_none())
}

/// The records of a transaction may land in different batches.
pub(crate) fn SplitTransaction(
    core: &mut Core,
    records: &mut [u8],
    (_, numbering): (u32, Numbering),
) -> Result<Lsn, Refusal> {
    let mut from = 0;
    while let Some(record) = Records::new(&records[from..]).next() {
        let to = from + record.bytes();
        core.append_together(&mut records[from..to], 1, numbering)?;
        from = to;
    }
    Ok(core.appended())
}

pub(crate) fn StandbyIsLogEarly(held: &Directory) {
    drop(unfinished::remove(held));
}

pub(crate) fn TransactionTrimsUnseen(numbering: Numbering, kind: TagKind, apply: impl FnOnce()) {
    if numbering == Numbering::Kept || kind == TagKind::Data {
        apply();
    }
}

/// Lets go of the core before the segments are looked at.
pub(crate) fn TrimDuringRead<T>(core: T) -> Option<T> {
    drop(core);
    None
}

pub(crate) fn TrimNotStated(starts: bool, trim: Lsn) -> Lsn {
    if starts { Lsn::ZERO } else { trim }
}

pub(crate) fn TrimUnlooked(core: &mut Core) {
    core.set_trim(Lsn::ZERO, Lsn::MAX);
}

pub(crate) fn WitnessClaimsRelaxed(_: &Batch, reached: Lsn) -> Lsn {
    reached
}

pub(crate) fn WitnessNextBlockOnly(from: u64, segment: &SegmentHeader) -> u64 {
    segment.data_end().min(from + 2 * u64::from(segment.block_bytes))
}

pub(crate) fn WitnessTooMuch(batch: &Batch, _: Lsn) -> Lsn {
    batch.lsn
}

/// What a short write leaves behind when its count is ignored.
pub(crate) fn WriteWithoutTail(batch: &mut [u8]) {
    if let Some(last) = batch.last_mut() {
        *last = 1;
    }
}
