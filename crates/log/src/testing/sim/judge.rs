//! Recovers one crash image with the real recovery and checks the records against the ledger.
//!
//! The image is opened by the real recovery, read back record by record, and judged by the oracle.

use super::disk::SimDisk;
use super::file::SECTOR;
use super::life::plan;
use super::media::Media;
use super::read_back::read_all;
use crate::format::{BatchHeader, FileRole, RawRecord, TAG_BYTES, Tag, TagKind, file_role, segment_name};
use crate::lsn::Lsn;
use crate::read::reader::{Payload, ReadRecord};
use crate::recovery::tail::Tail;
use crate::recovery::{Recovered, recover};
use crate::stream::state::{HeldTrims, TaggedState};
use crate::testing::oracle::{Judge, Ledger, Violation, judge_refusal};
use seawall_sys::durability::Durability;

/// Size of one read in bytes: small, so that batches often go past the end of what was read.
pub(super) const READ_BYTES: usize = 4096;

/// Judges a log that came to rest or was closed, was trimmed to start there, and whose disk kept nothing but what is
/// durable.
pub(super) fn judge_rest(
    image: Media,
    ledger: &Ledger,
    (dsync, class): (bool, Durability),
    (closed, requested): (bool, Lsn),
) -> Result<(), Violation> {
    let witnessed = ledger.without_witnesses(&[]);
    // The mark of an idle log of a lower class is not synced, and claims no more than to be that.
    if !closed && class == Durability::PowerLoss && witnessed < ledger.acknowledged {
        return Err(Violation::Unmarked { acknowledged: ledger.acknowledged, witnessed });
    }
    let mut disk = SimDisk::idle(image, 0, None);
    let recovered = recover(&mut disk, &plan(dsync, class));
    let recovered = recovered.map_err(|error| Violation::refused(&error))?;
    let found = recovered.resume.trim;
    if found < requested {
        return Err(Violation::TrimForgotten { requested, found });
    }
    if closed && recovered.tail != Tail::Clean { Err(Violation::NotClosed) } else { Ok(()) }
}

/// How one state is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Everything before this must be there.
    pub(super) must_have: Lsn,
    /// Whether something durable was damaged, so that refusing it with the place named is right.
    pub(super) damaged: bool,
    /// Whether to recover a second time.
    pub(super) twice: bool,
    pub(super) dsync: bool,
    /// What the opened log is to promise.
    pub(super) class: Durability,
}

/// What the batches after `end` in segment `number` say of what had been acknowledged: a second reading of the disk.
fn said_behind(image: &Media, number: u64, end: Lsn) -> Option<Lsn> {
    let inode = image.names.get(&segment_name(number))?;
    let sectors = image.inodes[inode].sectors.iter().enumerate();
    let headers = sectors.filter_map(|(at, sector)| {
        let (header, _) = BatchHeader::decode(&sector.bytes).ok()?;
        (header.segment == number && header.offset == (at * SECTOR) as u64).then_some(header.acknowledged)
    });
    headers.max().filter(|said| *said > end)
}

/// The newest segment with a header.
fn newest(image: &Media) -> Option<u64> {
    let segments = image.names.as_slice().iter().filter_map(|(name, inode)| {
        let Some(FileRole::Segment(number)) = file_role(&name.text) else { return None };
        image.sound_headers(number, *inode).contains(&true).then_some(number)
    });
    segments.max()
}

/// Whether the opening reports what is lost.
fn check_tail(image: &Media, recovered: &Recovered) -> Result<(), Violation> {
    let end = recovered.resume.end;
    let said = newest(image).and_then(|number| said_behind(image, number, end));
    let reported = match recovered.tail {
        Tail::Lost { from, to } if from == end => Some(to),
        Tail::Lost { to, .. } => return Err(Violation::Concealed { end, acknowledged: to }),
        _ => None,
    };
    if reported == said {
        return Ok(());
    }
    Err(Violation::Concealed { end, acknowledged: said.or(reported).unwrap_or(end) })
}

/// What the tagged records before `end` make of the streams and the cuts, from the first one ever. What is stated again is left
/// out: it says no more than was said before.
pub(super) fn expected_tagged(ledger: &Ledger, end: Lsn) -> TaggedState {
    let mut state = TaggedState::default();
    let held = ledger.held.clone().filter(|(at, _)| *at <= end);
    state.held = held.map(|(at, tags)| HeldTrims { at, tags });
    for record in ledger.issued.iter().filter(|record| record.tagged && record.end <= end) {
        let tag = record.payload.first_chunk::<TAG_BYTES>().and_then(|bytes| Tag::decode(*bytes));
        if let Some(tag) = tag.filter(|tag| tag.kind != TagKind::LogCuts) {
            let bytes = usize::try_from(record.end.since(record.start)).unwrap_or(0);
            state.apply(&tag, &record.payload[TAG_BYTES..], (record.start, bytes), 1);
        }
    }
    state.take_in_held(end);
    state
}

#[cfg(feature = "mutants")]
use crate::testing::mutant::without as without_mistake;

#[cfg(not(feature = "mutants"))]
fn without_mistake<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Holds the streams and the cuts that recovery found against what all records made of them.
fn judge_tagged(ledger: &Ledger, recovered: &Recovered) -> Result<(), Violation> {
    let end = recovered.resume.end;
    let found = &recovered.resume.tagged;
    // What is expected is computed without the mistake that may be planted.
    let mut expected = without_mistake(|| expected_tagged(ledger, end));
    let wrong = |what: String| Err(Violation::WrongStreams { end, what });
    for stream in expected.streams.ids().chain(found.streams.ids()) {
        let [expected, found] = [&expected.streams, &found.streams].map(|table| {
            let state = table.get(stream)?;
            Some((state.first, state.next, state.places.iter().collect::<Vec<_>>()))
        });
        if expected != found {
            return wrong(format!("stream {stream} is {found:?} instead of {expected:?}"));
        }
    }
    let first = recovered.resume.trim;
    let cuts = found.cuts.clone().seen_from(first);
    expected.cuts = std::mem::take(&mut expected.cuts).seen_from(first);
    let plain =
        ledger.issued.iter().filter(|record| !record.tagged && record.start >= first && record.end <= end);
    for record in plain {
        let raw = RawRecord { payload: &record.payload, more: false, tag: None };
        let read = ReadRecord::of(record.start, &raw, Payload::own(&[]));
        if read.is_shown(Some(&found.cuts)) == expected.cuts.hides(record.start) {
            return wrong(format!(
                "the record at LSN {} is shown though it is cut off, or the reverse",
                record.start
            ));
        }
    }
    if cuts != expected.cuts {
        return wrong(format!("{cuts:?} is cut off instead of {:?}", expected.cuts));
    }
    Ok(())
}

/// Where the judged log ended, `None` if it was refused with good reason.
pub(super) fn judge(image: Media, ledger: &Ledger, terms: Terms) -> Result<Option<Lsn>, Violation> {
    let before = image.clone();
    let mut disk = SimDisk::idle(image, 0, None);
    let recovered = match recover(&mut disk, &plan(terms.dsync, terms.class)) {
        Ok(recovered) => recovered,
        Err(error) => return judge_refusal(&error, terms.damaged).map(|()| None),
    };
    let mut judge = Judge::lenient(ledger, terms.must_have);
    match read_all(&mut disk, &recovered, READ_BYTES, |lsn, payload| judge.record(lsn, payload)) {
        Ok(judged) => judged?,
        Err(error) => return judge_refusal(&error, terms.damaged).map(|()| None),
    }
    let end = recovered.resume.end;
    judge.finish(end)?;
    judge_tagged(ledger, &recovered).or_else(|wrong| {
        // What was about to be noted may be there, and what was stated since may be lost to damage with the end of the log.
        let about = ledger.holding.iter().cloned().map(Some);
        let lost = terms.damaged.then_some(None);
        let with = |held| Ledger { held, ..ledger.clone() };
        let is_there = |held| judge_tagged(&with(held), &recovered).is_ok();
        if about.chain(lost).any(is_there) { Ok(()) } else { Err(wrong) }
    })?;
    if !terms.damaged {
        check_tail(&before, &recovered)?;
    }
    if terms.twice {
        let again = recover(&mut disk, &plan(terms.dsync, terms.class));
        if again.is_err() || again.is_ok_and(|again| again.resume.end != end) {
            return Err(Violation::NotIdempotent);
        }
    }
    Ok(Some(end))
}
