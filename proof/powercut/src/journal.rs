//! Judges the slots of a journal after a power cut: intact, lost, torn or phantom.
//!
//! The journal is a ring of slots and exactly one record of it is in flight at a time. `acknowledged` is what the
//! witness holds; records up to a window further may have been issued. For each slot `must` is the latest
//! acknowledged record that lies there, if any, and `may` are those issued after it:
//!
//! ```text
//!   the slot shows                       must be there         nothing must be there
//!   --------------                       -------------         ---------------------
//!   `must`, or a `may`, whole            intact                fine
//!   something older, or zeros            lost                  fine
//!   parts, and a `may` exists            intact (overwritten)  fine
//!   parts otherwise                      torn                  phantom
//!   a record of another place or run,
//!   or one beyond what was issued        phantom, and lost     phantom
//! ```
//!
//! Invariant: the functions are pure; the result depends on their arguments alone.

use crate::record::{Shown, is_exactly, look};
use crate::stream::Stream;
use crate::verdict::Counts;

/// What a slot is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Fine,
    Intact,
    Lost,
    Torn,
    Phantom,
}

/// What the witness knows that the slots are held against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// The short form of the run's id.
    pub(crate) run: u64,
    /// Everything before this was acknowledged.
    pub(crate) acknowledged: u64,
    /// How many records may have been issued beyond that.
    pub(crate) window: u64,
}

/// The latest acknowledged record of a slot.
fn must(slot: u64, slots: u64, acknowledged: u64) -> Option<u64> {
    let last = acknowledged.checked_sub(1)?;
    last.checked_sub((last % slots + slots - slot) % slots)
}

fn judge_slot(stream: &Stream, held: Held, slot: u64, shown: Shown) -> Slot {
    let slots = stream.slots();
    let must = must(slot, slots, held.acknowledged);
    let issued = held.acknowledged + held.window;
    // The first record of the slot after the acknowledged ones.
    let may = must.map_or(slot, |must| must + slots);
    let under_way = may < issued;
    match (shown, must) {
        (Shown::Whole(sequence), _) if sequence % slots != slot || sequence >= issued => Slot::Phantom,
        (Shown::Foreign, _) => Slot::Phantom,
        (Shown::Parts(Some(sequence)), _) if sequence >= issued => Slot::Phantom,
        (Shown::Whole(sequence), Some(must)) if sequence >= must => Slot::Intact,
        (Shown::Parts(_), Some(_)) if under_way => Slot::Intact,
        (Shown::Parts(_), Some(_)) => Slot::Torn,
        (Shown::Parts(_), None) if !under_way => Slot::Phantom,
        (Shown::Whole(_) | Shown::Zeros, Some(_)) => Slot::Lost,
        (Shown::Whole(_) | Shown::Zeros | Shown::Parts(_), None) => Slot::Fine,
    }
}

/// Holds a journal's `bytes` against what the witness knows. Bytes that the file no longer has were never written.
pub(crate) fn judge(stream: &Stream, held: Held, bytes: &[u8]) -> Counts {
    let slots = stream.slots();
    let record_bytes = stream.record_bytes as usize;
    let mut counts = Counts { expected: held.acknowledged.min(slots), ..Counts::default() };
    let mut scratch = Vec::new();
    let mut missing: Vec<u64> = Vec::new();
    let mut newest = None;
    let empty = vec![0; record_bytes];
    for (slot, start) in (0..slots).zip((0_usize..).step_by(record_bytes)) {
        let place = bytes.get(start..start + record_bytes).unwrap_or(&empty);
        let mut shown = look(held.run, stream.number, place);
        if let Shown::Whole(sequence) = shown
            && !is_exactly(stream.name(held.run, sequence), place, &mut scratch)
        {
            shown = Shown::Foreign;
        }
        let judged = judge_slot(stream, held, slot, shown);
        if let (Slot::Fine | Slot::Intact, Shown::Whole(sequence)) = (judged, shown) {
            newest = newest.max(Some(sequence));
        }
        let must = must(slot, slots, held.acknowledged);
        match judged {
            Slot::Fine => {}
            Slot::Intact => counts.intact += 1,
            Slot::Lost => counts.lost += 1,
            Slot::Torn => counts.torn += 1,
            Slot::Phantom => {
                counts.phantom += 1;
                counts.lost += u64::from(must.is_some());
            }
        }
        if !matches!(judged, Slot::Fine | Slot::Intact) {
            missing.extend(must);
            counts.wrong(|| wrong(stream, slot, must, shown));
        }
    }
    counts.reordered = missing.iter().filter(|must| newest > Some(**must)).count() as u64;
    counts
}

fn wrong(stream: &Stream, slot: u64, must: Option<u64>, shown: Shown) -> String {
    let at = format!("byte {}", slot * u64::from(stream.record_bytes));
    let must =
        must.map_or("nothing was acknowledged".to_owned(), |must| format!("record {must} was acknowledged"));
    let shown = match shown {
        Shown::Zeros => "there is nothing".to_owned(),
        Shown::Whole(sequence) => format!("there is record {sequence}"),
        Shown::Parts(Some(sequence)) => format!("there are parts, some of record {sequence}"),
        Shown::Parts(None) => "there are bytes of no record".to_owned(),
        Shown::Foreign => "there is a record of another place".to_owned(),
    };
    format!("at {at} {must}, {shown}")
}

#[cfg(test)]
mod tests {
    use super::{Held, judge, must};
    use crate::record::encode;
    use crate::stream::{Stream, StreamKind};
    use crate::verdict::Counts;

    const SLOTS: u64 = 8;
    const BYTES: usize = 1024;
    const RUN: u64 = 5;

    fn stream() -> Stream {
        let sample = Stream::sample(2, StreamKind::Journal);
        Stream { record_bytes: 1024, journal_bytes: SLOTS * 1024, ..sample }
    }

    fn place(sequence: u64) -> std::ops::Range<usize> {
        let slot = usize::try_from(sequence % SLOTS).expect("is small");
        slot * BYTES..(slot + 1) * BYTES
    }

    fn write(journal: &mut [u8], sequence: u64) {
        encode(stream().name(RUN, sequence), &mut journal[place(sequence)]);
    }

    fn journal(records: u64) -> Vec<u8> {
        let mut journal = vec![0; BYTES * 8];
        (0..records).for_each(|sequence| write(&mut journal, sequence));
        journal
    }

    fn judged(journal: &[u8], acknowledged: u64) -> (u64, u64, u64, u64, u64) {
        let counts = judge(&stream(), Held { run: RUN, acknowledged, window: 2 }, journal);
        let Counts { expected, intact, lost, torn, reordered, phantom, first } = counts;
        assert_eq!(expected, acknowledged.min(SLOTS));
        assert_eq!(intact + lost + torn, expected, "every expected record is counted once");
        assert_eq!(first.is_some(), lost + torn + phantom > 0);
        (intact, lost, torn, reordered, phantom)
    }

    #[test]
    fn the_latest_acknowledged_record_of_a_slot_is_found_by_counting() {
        for acknowledged in 0..40 {
            for slot in 0..SLOTS {
                let counted = (0..acknowledged).rev().find(|sequence| sequence % SLOTS == slot);
                assert_eq!(must(slot, SLOTS, acknowledged), counted, "{acknowledged}, {slot}");
            }
        }
    }

    #[test]
    fn whatever_the_window_allows_is_fine_at_every_length() {
        for written in 0..30_u64 {
            for ahead in 0..=2 {
                let acknowledged = written.saturating_sub(ahead);
                let (_, lost, torn, reordered, phantom) = judged(&journal(written), acknowledged);
                assert_eq!((lost, torn, reordered, phantom), (0, 0, 0, 0), "{written}, {acknowledged}");
                // The next one may be there in part.
                if written < acknowledged + 2 {
                    let mut torn = journal(written);
                    let next = place(written);
                    torn[next.start..next.start + 512].fill(9);
                    let (_, lost, torn, _, phantom) = judged(&torn, acknowledged);
                    assert_eq!((lost, torn, phantom), (0, 0, 0), "{written}, {acknowledged}");
                }
            }
        }
    }

    #[test]
    fn a_journal_rolled_back_has_lost_exactly_what_was_rolled_back() {
        for back in 1..=6_u64 {
            assert_eq!(judged(&journal(20 - back), 20), (8 - back, back, 0, 0, 0), "{back}");
        }
        assert_eq!(judged(&journal(0), 20), (0, 8, 0, 0, 0), "nothing is left");
        assert_eq!(judged(&[], 3), (0, 3, 0, 0, 0), "not even the file");
    }

    #[test]
    fn tears_reorders_and_phantoms_are_counted_apart() {
        let mut torn = journal(20);
        let at = place(15);
        torn[at.start + 512..at.end].fill(0);
        assert_eq!(judged(&torn, 20), (7, 0, 1, 1, 0), "a torn record that a later one outlived");
        let mut last = journal(20);
        let at = place(19);
        last[at.start + 700] ^= 1;
        assert_eq!(judged(&last, 20), (7, 0, 1, 0, 0), "the last record torn");
        let mut hole = journal(20);
        write(&mut hole, 6);
        write(&mut hole, 9);
        assert_eq!(judged(&hole, 20), (6, 2, 0, 2, 0), "two records that went back");
        let mut ahead = journal(20);
        write(&mut ahead, 22);
        assert_eq!(judged(&ahead, 20), (7, 1, 0, 1, 1), "never issued");
        let mut astray = journal(20);
        let (from, to) = (place(18), place(14));
        astray.copy_within(from, to.start);
        assert_eq!(judged(&astray, 20), (7, 1, 0, 1, 1), "a write that went to the wrong place");
        let mut early = journal(3);
        early[place(7)].fill(1);
        assert_eq!(judged(&early, 3), (3, 0, 0, 0, 1), "bytes where nothing was written");
    }
}
