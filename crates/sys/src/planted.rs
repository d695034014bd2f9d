//! Lists the bugs that can be planted in this crate and in the log, and plants them (feature `mutants`).
//!
//! Each row is one mistake that some log has made. The crash campaign of the log runs with one of them at a time and must
//! find it; one that survives shows a hole in the campaign. [`planted!`](crate::planted!) stands where a bug is planted.
//! Without the feature it is the right code alone: no name of this table is left in the build.

/// Plants the bug of this name: `wrong` in place of `right` while that bug is switched on. Without `right` the bug does
/// something where sound code does nothing.
///
/// ```text
/// let full = planted!(Name, false, !room_to_go_on(&cursor));
/// planted!(OtherName, break);
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! planted {
    ($name:ident, $wrong:expr $(,)?) => {
        $crate::planted!($name, $wrong, ())
    };
    ($name:ident, $wrong:expr, $right:expr $(,)?) => {{
        #[cfg(feature = "mutants")]
        {
            if $crate::planted::is_on($crate::planted::Mutant::$name) { $wrong } else { $right }
        }
        #[cfg(not(feature = "mutants"))]
        {
            $right
        }
    }};
}

#[cfg(feature = "mutants")]
mod switch {
    use std::cell::Cell;
    use std::sync::OnceLock;

    macro_rules! table {
        ($($name:ident)* ; $($of_machine:ident)*) => {
            /// One deliberate mistake.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[allow(missing_docs, reason = "what each one does stands where it is planted")]
            pub enum Mutant {
                $($name,)*
                $($of_machine,)*
            }

            impl Mutant {
                /// Every mistake there is.
                pub const ALL: &[Self] = &[$(Self::$name,)* $(Self::$of_machine,)*];
                /// Those in what is known of a machine and what its devices count: this crate's own tests find each.
                pub const OF_MACHINES: &[Self] = &[$(Self::$of_machine,)*];
            }
        };
    }

    table! {
        AcceptOtherSegment
        AcceptOtherOffset
        IgnoreEpoch
        IgnoreLsn
        IgnoreLink
        IgnoreChainAndPlace
        SkipBodyChecksum
        IssueDuringStart
        RotateBeforeDurable
        WitnessTooMuch
        AckAtIssue
        AckAfterFailure
        AckOutOfOrder
        GoOnAfterFailure
        WriteWithoutTail
        PrepareWithoutSync
        PrepareWithoutDirSync
        RetireWithoutDirSync
        HeaderIgnoresName
        OneHeaderCopy
        SkipUnstarted
        TakeDamageForTail
        OpenWithoutSync
        KeepEpoch
        KeepDead
        StartWithoutSync
        AppendBehindTornTail
        SkipSync
        SyncDuringWrites
        ShortWriteIgnored
        WriteErrorIgnored
        SyncErrorIgnored
        SyncRetried
        ReadThroughCache
        KeepCached
        RetireBeforeMark
        RetireNewestFirst
        RetireLiveSegment
        StartWithTheBatch
        TrimNotStated
        LinkNotAdvanced
        RecordsInMark
        SplitTransaction
        PlaceReused
        WitnessNextBlockOnly
        CryWolf
        MarkIsClose
        OpenMarkNotSynced
        ServeBeforeStart
        ForgetAfterTaskError
        TakeRestForNew
        TrustCloseWithoutRoom
        FullWithoutDebtSync
        RotateBeforeDebtSync
        WitnessClaimsRelaxed
        RelaxedIsDurable
        RelaxedAckAtIssue
        RelaxedTrim
        DebtSyncDuringRelaxed
        DebtSyncErrorIgnored
        TrustCache
        CopyWithoutSync
        MarkBehindEverything
        KeepSmallSpare
        TrimDuringRead
        CloseDuringMark
        AppendBehindClose
        RelaxedMarkBeforeSync
        RelaxedStartWithoutSync
        RelaxedCloseWithoutSync
        LossInSilence
        RenameReplaces
        OpenFailureIsFatal
        TrustFlushOfFua
        ReleaseBeforeDurable
        StreamTrimForgotten
        StreamCutForgotten
        LostCutNotSeen
        CrashTakesSegment
        VerifySeesNoFolder
        VerifySeesNoForeign
        TrimsTakeLastSegment
        HeldTrimsForgotten
        StreamsKeepRoom
        DamageEndsIndex
        TrimCountsBacklog
        RemoveBeforeSpare
        SalvageForgetsRestatement
        EmptyStreamForgotten
        TrimPastStreams
        TrimUnlooked
        CutsNotRestated
        CutsNotStated
        CutsRestatedPastTrim
        CutsNotRead
        CopyReadBeforeDurable
        CutsPrunedUnseen
        MovingByNumber
        DurableSeenBefore
        RewriteStale
        LagUnbounded
        RoomWaitsForMemory
        TransactionTrimsUnseen
        StreamGoesOnBehindCut
        StreamReadEndsEarly
        LookerIsWriter
        CutsFromUnwritten
        StreamsNotStated
        ReplayNewestOnly
        NumberedOnceOnly
        AppendWaitsUnseen
        RequestBehindOffer
        AppendTurnLost
        DeadlineIsSuccess
        CloseBeforeMark
        StallOfFinishedBatch
        CapIgnoresSpares
        CapForgetsLargeSpare
        CapNeverReleased
        RecordsTakeLastSpare
        CutsTakeNoLastSegment
        RecordsJoinLastTrim
        RewriterSleepsAtCap
        RetainPinned
        RetainByJump
        PublishBeforeDurable
        FollowerMissesCuts
        ViewIgnoresPage
        ViewMissesEnd
        ViewCutsAhead
        ViewStreamGoesOnBehindCut
        ViewStreamKeepsCut
        ViewStreamSkipsTrimmed
        CutsPublishedEarly
        CutsNotedUnseen
        BelieveStaleChannel
        SleepAfterOneLook
        SleepersShareTag
        MemoryWithGap
        MemoryFullIgnored
        MemoryNeverWritten
        MemoryReusedEarly
        MemorySumIgnored
        MemoryOfOtherBoot
        MemoryOfOtherLog
        MemoryOfOtherEpoch
        MemoryNotRebound
        MemoryForgottenEarly
        MemoryServedEarly
        MemoryHalfTransaction
        MemoryMoved
        HeldStatedInDrain
        MemoryCutsUnseen
        ShipAckAtSend
        ShipAckOutOfOrder
        ShipRefusedIsStored
        ShipUnknownIsStored
        ShipChainIgnored
        ShipNoTerm
        ShipTermUnread
        ShipAnyOwner
        ShipLoserGoesOn
        ShipGoOnReplaced
        ShipResendSecond
        ShipStoredByPosition
        ShipStoredKept
        ShipPartIsWhole
        ShipLinkIgnored
        ShipNoteAhead
        ShipGuessTrusted
        ShipStatesUnstored
        LowDescriptors
        HolesBelieved
        ShipLastUnread
        ShipTermBeforeJoin
        ShipOwnTermIsAnothers
        ShipNoMessageIsDamage
        StandbyTakesFromAnyone
        StandbyFollowsWinner
        StandbySavesUnwritten
        StandbySavesFailed
        StandbyForgetsEarly
        StandbyIsLogEarly
        SourcesNotCompared
        SourcesTakenUnproven
        SourcesTakeFromAnyone
        RebuildTakesUnproven
        DrillForkUnseen
        ManifestTrusted
        RetainBeforeStart
        RetainUntrimmed
        RetainFenceIgnored
        PackUnchecked
        PackLeavesGap
        RaftTermGoesOn
        RetainByClockAlone
        ;
        SuperblockUnread
        JournalMissingUnseen
        CacheReportUnread
        FuaTellsNoCache
        LoopHasNoCache
        QueueAboveBelieved
        SyncMountUnseen
        SyncMountNotForced
        SyncfsBelieved
        MemoryDiskBelieved
        UnseenBelieved
        MemoryByCountAlone
        MemoryByTimeAlone
        ThinVolumeBelieved
        ChecksumsUnseen
        FlushesTakenForCounted
        WatchesLowestAlone
        WatchesNoWrites
        HalfTheFlushesDo
        UnseenBelowConfirmed
        UncountedConfirmed
        NeighbourConfirms
    }

    thread_local! {
        static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    static EVERYWHERE: OnceLock<Mutant> = OnceLock::new();

    /// Switches one mistake on for every thread of this process, for good: for programs that run with one.
    ///
    /// # Panics
    /// If one is on already.
    pub fn set_everywhere(mutant: Mutant) {
        EVERYWHERE.set(mutant).expect("a process makes one mistake");
    }

    /// Switches one mistake on for this thread, or all of them off.
    pub fn set(mutant: Option<Mutant>) {
        ACTIVE.with(|active| active.set(mutant));
    }

    /// Does `work` without the mistake that this thread makes.
    pub fn without<T>(work: impl FnOnce() -> T) -> T {
        let active = ACTIVE.with(|active| active.replace(None));
        let done = work();
        set(active);
        done
    }

    /// Whether this thread makes the mistake.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn is_on(mutant: Mutant) -> bool {
        ACTIVE.with(Cell::get).as_ref().or(EVERYWHERE.get()) == Some(&mutant)
    }
}

#[cfg(feature = "mutants")]
pub use switch::{Mutant, is_on, set, set_everywhere, without};
