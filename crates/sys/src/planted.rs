//! Lists the bugs that can be planted in this crate and in the log, and plants them (feature `mutants`).
//!
//! Each row is one mistake that some log has made. The crash campaign of the log runs with one of them at a time and must
//! find it; one that survives shows a hole in the campaign. [`planted!`](crate::planted!) stands where a bug is planted.
//! Without the feature it is the right code alone: no name of this table is left in the build.

/// Plants bugs: each puts its wrong value in place of `right` while it is switched on.
///
/// ```text
/// planted!(Name, right)          the least value of the type: `false`, 0, `None`, nothing done; where the row says
///                                `= true` the greatest: see `Extreme`
/// planted!(Name(a, b), right)    what the function `wrong::Name` of this crate makes of `a` and `b`
/// planted!(Name(a, b))           what it does, where sound code does nothing
/// planted!(Name | Other, right)  two bugs, with the same values if there are any
/// ```
#[doc(hidden)]
#[macro_export]
#[allow(clippy::crate_in_macro_def, reason = "each crate has the functions of its own bugs")]
macro_rules! planted {
    ($($name:ident)|+, $right:expr $(,)?) => {{
        #[cfg(feature = "mutants")]
        {
            $(if $crate::planted::is_on($crate::planted::Mutant::$name) {
                $crate::planted::Mutant::$name.extreme()
            } else)+ { $right }
        }
        #[cfg(not(feature = "mutants"))]
        {
            $right
        }
    }};
    ($($name:ident)|+ ($($value:expr),* $(,)?)) => {
        $crate::planted!(@made [$($name)+] ($($value),*) ())
    };
    ($($name:ident)|+ ($($value:expr),* $(,)?), $right:expr $(,)?) => {
        $crate::planted!(@made [$($name)+] ($($value),*) $right)
    };
    (@made [$($name:ident)+] $values:tt $right:expr) => {{
        #[cfg(feature = "mutants")]
        {
            $(if $crate::planted::is_on($crate::planted::Mutant::$name) {
                crate::wrong::$name $values
            } else)+ { $right }
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
        ($($name:ident $(= $greatest:literal)?)* ; $($of_machine:ident $(= $all:literal)?)*) => {
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
                /// The rows that say whether the wrong value is the greatest one.
                const SAID: &[(Self, bool)] =
                    &[$($((Self::$name, $greatest),)?)* $($((Self::$of_machine, $all),)?)*];
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
        RelaxedIsDurable = true
        RelaxedAckAtIssue
        RelaxedTrim
        DebtSyncDuringRelaxed = true
        DebtSyncErrorIgnored
        TrustCache = true
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
        TrustFlushOfFua = true
        ReleaseBeforeDurable
        StreamTrimForgotten
        StreamCutForgotten
        LostCutNotSeen
        CrashTakesSegment
        VerifySeesNoFolder
        VerifySeesNoForeign
        TrimsTakeLastSegment
        HeldTrimsForgotten
        StreamsKeepRoom = true
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
        CutsNotRead = true
        CopyReadBeforeDurable
        CutsPrunedUnseen
        MovingByNumber
        DurableSeenBefore
        IndexRunsOver
        RewriteStale = true
        LagUnbounded
        RoomWaitsForMemory = true
        TransactionTrimsUnseen
        StreamGoesOnBehindCut = true
        StreamReadEndsEarly = true
        LookerIsWriter
        CutsFromUnwritten
        StreamsNotStated
        ReplayNewestOnly
        NumberedOnceOnly
        AppendWaitsUnseen
        RequestBehindOffer = true
        AppendTurnLost
        DeadlineIsSuccess
        CloseBeforeMark = true
        StallOfFinishedBatch
        CapIgnoresSpares
        CapForgetsLargeSpare
        CapNeverReleased
        RecordsTakeLastSpare
        CutsTakeNoLastSegment = true
        RecordsJoinLastTrim
        RewriterSleepsAtCap
        RetainPinned
        RetainByJump = true
        PublishBeforeDurable
        FollowerMissesCuts
        ViewIgnoresPage
        ViewMissesEnd
        ViewCutsAhead
        ViewStreamGoesOnBehindCut
        ViewStreamKeepsCut = true
        ViewStreamSkipsTrimmed
        CutsPublishedEarly
        CutsNotedUnseen
        BelieveStaleChannel
        SleepAfterOneLook = true
        SleepersShareTag
        MemoryWithGap
        MemoryFullIgnored = true
        MemoryNeverWritten
        MemoryReusedEarly = true
        MemorySumIgnored = true
        MemoryOfOtherBoot = true
        MemoryOfOtherLog
        MemoryOfOtherEpoch
        MemoryNotRebound
        MemoryForgottenEarly
        MemoryServedEarly
        MemoryHalfTransaction = true
        MemoryMoved
        HeldStatedInDrain
        MemoryCutsUnseen
        ShipAckAtSend
        ShipAckOutOfOrder
        ShipRefusedIsStored
        ShipUnknownIsStored
        ShipChainIgnored = true
        ShipNoEpoch
        ShipEpochUnread
        ShipAnyOwner
        ShipLoserGoesOn
        ShipGoOnReplaced
        ShipResendSecond
        ShipStoredByPosition = true
        ShipStoredKept
        ShipPartIsWhole
        ShipLinkIgnored
        ShipNoteAhead
        ShipGuessTrusted = true
        ShipStatesUnstored
        LowDescriptors
        HolesBelieved = true
        ShipLastUnread
        ShipEpochBeforeJoin
        ShipOwnEpochIsAnothers
        ShipNoMessageIsDamage = true
        StandbyTakesFromAnyone
        StandbyFollowsWinner = true
        StandbySavesUnwritten
        StandbySavesFailed
        StandbyForgetsEarly = true
        StandbyIsLogEarly
        SourcesNotCompared
        SourcesTakeFromAnyone
        RebuildTakesUnproven
        DrillForkUnseen
        ManifestTrusted = true
        RetainBeforeStart
        RetainUntrimmed
        RetainFenceIgnored = true
        PackUnchecked = true
        PackLeavesGap = true
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
        MemoryByCountAlone = true
        MemoryByTimeAlone = true
        ThinVolumeBelieved
        ChecksumsUnseen
        FlushesTakenForCounted = true
        WatchesLowestAlone
        WatchesNoWrites
        HalfTheFlushesDo
        UnseenBelowConfirmed
        UncountedConfirmed
        NeighbourConfirms
    }

    impl Mutant {
        /// The wrong value of a bug that has no function.
        #[doc(hidden)]
        #[must_use]
        pub fn extreme<T: Extreme>(self) -> T {
            T::extreme(Self::SAID.contains(&(self, true)))
        }
    }

    /// A type with a least and a greatest value. Of those that have no greatest one a bug takes the least.
    #[doc(hidden)]
    pub trait Extreme {
        /// The least value, or the greatest.
        fn extreme(greatest: bool) -> Self;
    }

    impl Extreme for () {
        fn extreme(_: bool) {}
    }

    impl Extreme for bool {
        fn extreme(greatest: bool) -> Self {
            greatest
        }
    }

    impl<T> Extreme for Option<T> {
        fn extreme(_: bool) -> Self {
            None
        }
    }

    impl<T> Extreme for Vec<T> {
        fn extreme(_: bool) -> Self {
            Self::new()
        }
    }

    impl<T> Extreme for &[T] {
        fn extreme(_: bool) -> Self {
            &[]
        }
    }

    impl<T: Extreme, E> Extreme for Result<T, E> {
        fn extreme(greatest: bool) -> Self {
            Ok(T::extreme(greatest))
        }
    }

    macro_rules! numbers {
        ($($number:ty)*) => {
            $(impl Extreme for $number {
                fn extreme(greatest: bool) -> Self {
                    if greatest { Self::MAX } else { 0 }
                }
            })*
        };
    }

    numbers! { u32 u64 usize }

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
pub use switch::{Extreme, Mutant, is_on, set, set_everywhere, without};
