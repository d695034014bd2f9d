//! Says which planted bugs nothing can find and which only orders of threads show, and holds what is longer than its site.
//!
//! The table of the bugs is `planted.rs` of `seawall-sys`; each stands in the code that ships as `planted!(Name, wrong,
//! right)`. The crash campaign must find every one that is not listed here.

use std::collections::VecDeque;

use crate::commit::state::{Core, Refusal};
use crate::format::{Fault, Records, SegmentHeader};
use crate::lsn::Lsn;
use crate::stream::state::Numbering;

pub use seawall_sys::planted::{Mutant, set, set_everywhere, without};

/// Mistakes that no test can see, each with the reason: the format says the same thing twice there, on purpose.
pub const EQUIVALENT: [(Mutant, &str); 4] = [
    (
        Mutant::AcceptOtherOffset,
        "a batch that was written elsewhere is not linked to the one before this place, or has another LSN",
    ),
    (Mutant::IgnoreEpoch, "a batch of an earlier epoch is linked to another batch than the last one here"),
    (Mutant::IgnoreLsn, "a batch that is linked to the one before it starts where that one ended"),
    (
        Mutant::IgnoreLink,
        "a batch of the right segment, offset, epoch and LSN can only be the one that follows; \
         IgnoreChainAndPlace makes this mistake and the three above together, and is found",
    ),
];

/// Mistakes that only a certain order of threads shows: the scenes of `loom_scenes.rs` find them, with the feature
/// `mutants`, where the campaign, which has no threads, cannot.
pub const FOUND_BY_ORDERS: [(Mutant, &str); 4] = [
    (Mutant::TrimDuringRead, "a_reader_during_a_trim_starts_at_its_lsn_or_fails"),
    (Mutant::AppendWaitsUnseen, "an_append_future_sees_room_that_came_before_it_waited"),
    (Mutant::SleepAfterOneLook, "a_follower_of_another_process_misses_nothing"),
    (Mutant::SleepersShareTag, "two_followers_of_other_processes_miss_nothing"),
];

/// Mistakes in what the campaign does not use, futures, deadlines, readers of an open log and followers in other processes: the
/// test of this name finds each.
pub const FOUND_BY_TESTS: [(Mutant, &str); 10] = [
    (Mutant::AppendTurnLost, "a_future_that_was_woken_and_is_dropped_passes_its_turn_on"),
    (Mutant::DeadlineIsSuccess, "a_commit_whose_time_is_over_says_so"),
    (Mutant::CloseBeforeMark, "a_close_is_awaited_until_the_disk_has_the_mark"),
    (Mutant::StallOfFinishedBatch, "a_stall_is_that_of_a_batch_in_flight"),
    (Mutant::PublishBeforeDurable, "what_is_not_durable_is_not_shown"),
    (Mutant::FollowerMissesCuts, "what_was_cut_before_a_follower_came_there_is_not_shown"),
    (Mutant::CutsPublishedEarly, "a_cut_that_comes_while_a_batch_is_in_flight_is_seen_with_its_own_batch"),
    (
        Mutant::CutsNotedUnseen,
        "cuts_that_are_counted_before_the_durable_lsn_moves_are_looked_at_when_it_does",
    ),
    (Mutant::BelieveStaleChannel, "a_page_that_speaks_for_another_writer_is_not_believed"),
    (Mutant::MemoryCutsUnseen, "cuts_that_only_memory_held_are_seen_by_the_opening_that_takes_them"),
];

/// Mistakes in the protocol by which a log is shipped, in `seawall-ship`: the walks of its model find each.
pub const FOUND_BY_MODEL: [Mutant; 18] = [
    Mutant::ShipAckAtSend,
    Mutant::ShipAckOutOfOrder,
    Mutant::ShipRefusedIsStored,
    Mutant::ShipUnknownIsStored,
    Mutant::ShipChainIgnored,
    Mutant::ShipNoTerm,
    Mutant::ShipTermUnread,
    Mutant::ShipAnyOwner,
    Mutant::ShipLoserGoesOn,
    Mutant::ShipGoOnReplaced,
    Mutant::ShipResendSecond,
    Mutant::ShipStoredByPosition,
    Mutant::ShipStoredKept,
    Mutant::ShipPartIsWhole,
    Mutant::ShipLinkIgnored,
    Mutant::ShipNoteAhead,
    Mutant::ShipGuessTrusted,
    Mutant::ShipStatesUnstored,
];

/// Mistakes in what `seawall-ship` does on a log's folders and archives: its test of this name finds each.
pub const FOUND_BY_SHIP: [(Mutant, &str); 11] = [
    (Mutant::StandbyTakesFromAnyone, "of_two_standbys_that_take_over_at_once_one_wins"),
    (Mutant::StandbySavesUnwritten, "a_standby_goes_on_where_it_was_saved"),
    (Mutant::StandbyForgetsEarly, "a_standby_keeps_what_its_last_save_needs"),
    (Mutant::StandbyIsLogEarly, "a_take_over_that_fails_leaves_a_standby"),
    (Mutant::SourcesNotCompared, "sources_that_hold_different_batches_are_refused"),
    (Mutant::SourcesTakenLate, "the_right_is_taken_at_every_source_before_the_reading"),
    (Mutant::SourcesTakeFromAnyone, "of_two_rebuilds_at_once_one_has_the_right_everywhere"),
    (Mutant::ManifestTrusted, "a_manifest_that_states_what_is_not_there_is_found_and_not_believed"),
    (Mutant::RetainBeforeStart, "a_retention_that_is_interrupted_anywhere_is_finished_by_the_next"),
    (Mutant::RetainUntrimmed, "retention_never_breaks_the_chain"),
    (Mutant::RetainFenceIgnored, "a_writer_that_slept_through_a_retention_is_refused"),
];

/// Whether `test`, which passes without the mistake, fails with it.
///
/// # Panics
/// If the test fails without the mistake.
pub fn finds(mutant: Mutant, test: impl Fn()) -> bool {
    test();
    set(Some(mutant));
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test)).is_err();
    set(None);
    failed
}

/// `HeaderIgnoresName`: the header of whatever segment counts as that of segment `number`.
pub(crate) fn decode_any(bytes: &[u8], copy: u32, number: u64) -> Result<SegmentHeader, Fault> {
    SegmentHeader::decode_unplaced(bytes, copy).map(|header| SegmentHeader { number, ..header })
}

/// `RetireNewestFirst`: of the segments that can go, the last.
pub(crate) fn newest_trimmed(segments: &VecDeque<SegmentHeader>, durable_trim: Lsn) -> Option<SegmentHeader> {
    let pairs = segments.iter().zip(segments.iter().skip(1));
    pairs.rev().find(|(_, next)| next.first_lsn <= durable_trim).map(|(segment, _)| *segment)
}

/// `SplitTransaction`: the records of a transaction may land in different batches.
pub(crate) fn split(core: &mut Core, records: &mut [u8], numbering: Numbering) -> Result<Lsn, Refusal> {
    let mut from = 0;
    while let Some(record) = Records::new(&records[from..]).next() {
        let to = from + record.bytes();
        core.append_encoded(&mut records[from..to], 1, numbering)?;
        from = to;
    }
    Ok(core.appended())
}
