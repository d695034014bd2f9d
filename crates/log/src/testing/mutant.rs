//! Lists the planted bugs that nothing can find and those that only thread orders or tests show.
//!
//! The table of the bugs is `planted.rs` of `seawall-sys`; each stands in the code that ships as `planted!(Name, right)`.
//! The crash campaign must find every one that is not listed here or among `Mutant::OF_MACHINES`.

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
pub const FOUND_BY_ORDERS: [(Mutant, &str); 7] = [
    (Mutant::TrimDuringRead, "a_reader_during_a_trim_starts_at_its_lsn_or_fails"),
    (Mutant::DurableSeenBefore, "a_durable_record_is_read_while_it_is_copied"),
    (Mutant::IndexRunsOver, "an_index_stays_within_its_segment"),
    (Mutant::AppendWaitsUnseen, "an_append_future_sees_room_that_came_before_it_waited"),
    (Mutant::RequestBehindOffer, "an_offered_segment_is_not_requested_again"),
    (Mutant::SleepAfterOneLook, "a_follower_of_another_process_misses_nothing"),
    (Mutant::SleepersShareTag, "two_followers_of_other_processes_miss_nothing"),
];

/// Mistakes that cost time or memory, and those in what the campaign does not use, futures, deadlines, readers of an open log,
/// followers in other processes and the store of Openraft: the test of this name finds each.
pub const FOUND_BY_TESTS: [(Mutant, &str); 37] = [
    (Mutant::HeldStatedInDrain, "no_held_trim_is_stated_among_drained_records"),
    (Mutant::RewriterSleepsAtCap, "a_full_log_is_trimmed_though_an_idle_stream_is_in_its_first_segment"),
    (Mutant::RoomWaitsForMemory, "copies_and_trims_wait_for_no_memory_of_records_that_wait_for_them"),
    (Mutant::LagUnbounded, "a_stream_that_lags_behind_a_fast_one_keeps_the_log_within_its_bound"),
    (Mutant::StreamGoesOnBehindCut, "a_reader_of_a_stream_names_cuts_and_removals"),
    (Mutant::StreamReadEndsEarly, "a_stream_is_read_to_the_end_that_it_had_or_fails"),
    (Mutant::LookerIsWriter, "one_that_looks_for_long_keeps_no_writer_out"),
    (Mutant::RetainByJump, "a_clock_that_jumps_counts_once_it_has_lasted"),
    (Mutant::AppendTurnLost, "a_future_that_was_woken_and_is_dropped_passes_its_turn_on"),
    (Mutant::DeadlineIsSuccess, "a_commit_whose_time_is_over_says_so"),
    (Mutant::CloseBeforeMark, "a_close_is_awaited_until_the_disk_has_the_mark"),
    (Mutant::StallOfFinishedBatch, "a_stall_is_that_of_a_batch_in_flight"),
    (Mutant::PublishBeforeDurable, "what_is_not_durable_is_not_shown"),
    (Mutant::FollowerMissesCuts, "what_was_cut_before_a_follower_came_there_is_not_shown"),
    (Mutant::ViewIgnoresPage, "a_view_shows_what_was_committed_before_it_was_opened_or_renewed"),
    (Mutant::ViewMissesEnd, "a_view_shows_what_was_committed_before_a_writer_that_ends_during_the_look"),
    (Mutant::ViewCutsAhead, "a_cut_hides_nothing_from_other_processes_before_it_is_durable"),
    (Mutant::ViewStreamGoesOnBehindCut, "a_follower_of_a_stream_names_trims_cuts_and_removals"),
    (Mutant::ViewStreamSkipsTrimmed, "a_follower_past_whose_place_the_log_was_trimmed_says_so"),
    (Mutant::ViewStreamKeepsCut, "a_cut_behind_a_follower_of_a_stream_does_not_end_it"),
    (Mutant::CutsPublishedEarly, "a_cut_that_comes_while_a_batch_is_in_flight_is_seen_with_its_own_batch"),
    (
        Mutant::CutsNotedUnseen,
        "cuts_that_are_counted_before_the_durable_lsn_moves_are_looked_at_when_it_does",
    ),
    (Mutant::BelieveStaleChannel, "a_page_that_speaks_for_another_writer_is_not_believed"),
    (
        Mutant::CrashTakesSegment,
        "a_service_that_crashes_in_a_loop_takes_what_it_writes_and_no_segment_a_life",
    ),
    (Mutant::VerifySeesNoFolder, "whatever_refuses_an_opening_is_found_by_verify"),
    (Mutant::VerifySeesNoForeign, "whatever_refuses_an_opening_is_found_by_verify"),
    (Mutant::TrimCountsBacklog, "trimming_one_by_one_costs_the_same_whatever_the_backlog"),
    (Mutant::RemoveBeforeSpare, "a_spare_is_prepared_before_trimmed_segments_are_removed"),
    (Mutant::CapForgetsLargeSpare, "a_large_segment_takes_what_is_held_back_for_it_as_well"),
    (Mutant::CutsRestatedPastTrim, "a_segment_states_the_cuts_that_only_an_unwritten_trim_has_left_behind"),
    (Mutant::StreamsKeepRoom, "streams_that_are_removed_leave_no_memory"),
    (Mutant::DamageEndsIndex, "a_damaged_batch_costs_no_record_of_a_stream_behind_it"),
    (Mutant::CutsPrunedUnseen, "a_reader_that_a_trim_overtook_shows_nothing_that_was_cut"),
    (Mutant::LowDescriptors, "no_file_of_a_log_takes_the_place_of_standard_output"),
    (Mutant::HolesBelieved, "what_became_a_hole_is_filled_before_it_is_counted_on"),
    (Mutant::MemoryCutsUnseen, "cuts_that_only_memory_held_are_seen_by_the_opening_that_takes_them"),
    (Mutant::RaftTermGoesOn, "a_node_that_starts_has_to_be_elected"),
];

/// Mistakes in the protocol by which a log is shipped, in `seawall-ship`: the walks of its model find each.
pub const FOUND_BY_MODEL: [Mutant; 22] = [
    Mutant::ShipAckAtSend,
    Mutant::ShipAckOutOfOrder,
    Mutant::ShipRefusedIsStored,
    Mutant::ShipUnknownIsStored,
    Mutant::ShipChainIgnored,
    Mutant::ShipNoEpoch,
    Mutant::ShipEpochUnread,
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
    Mutant::ShipLastUnread,
    Mutant::ShipEpochBeforeJoin,
    Mutant::ShipOwnEpochIsAnothers,
    Mutant::ShipNoMessageIsDamage,
];

/// Mistakes in what `seawall-ship` does on a log's folders and archives: its test of this name finds each.
pub const FOUND_BY_SHIP: [(Mutant, &str); 17] = [
    (Mutant::StandbySavesFailed, "a_standby_whose_disk_refused_once_goes_on_and_takes_over"),
    (Mutant::StandbyTakesFromAnyone, "of_two_standbys_that_take_over_at_once_one_wins"),
    (Mutant::StandbyFollowsWinner, "of_two_standbys_that_take_over_at_once_one_wins"),
    (Mutant::StandbySavesUnwritten, "a_standby_goes_on_where_it_was_saved"),
    (Mutant::StandbyForgetsEarly, "a_standby_keeps_what_its_last_save_needs"),
    (Mutant::StandbyIsLogEarly, "a_take_over_that_fails_leaves_a_standby"),
    (Mutant::SourcesNotCompared, "sources_that_hold_different_batches_are_refused"),
    (Mutant::RebuildTakesUnproven, "a_rebuild_takes_the_right_to_write_when_nothing_else_can_fail"),
    (Mutant::DrillForkUnseen, "a_drill_tells_a_fork_and_what_is_only_here"),
    (Mutant::SourcesTakeFromAnyone, "of_two_rebuilds_at_once_one_has_the_right_everywhere"),
    (Mutant::ManifestTrusted, "a_manifest_that_states_what_is_not_there_is_found_and_not_believed"),
    (Mutant::RetainBeforeStart, "a_retention_that_is_interrupted_anywhere_is_finished_by_the_next"),
    (Mutant::RetainUntrimmed, "retention_never_breaks_the_chain"),
    (Mutant::RetainFenceIgnored, "a_writer_that_slept_through_a_retention_is_refused"),
    (Mutant::PackUnchecked, "a_pack_that_is_missing_or_changed_costs_nothing_but_reads"),
    (Mutant::PackLeavesGap, "a_compacted_archive_is_read_in_few_objects_and_holds_the_same"),
    (Mutant::RetainByClockAlone, "a_clock_that_is_ahead_removes_nothing_by_that_alone"),
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
