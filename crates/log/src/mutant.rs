//! Lists the bugs that can be planted in the log to test the crash campaign (feature `mutants`).
//!
//! Each row is one mistake that some log has made. The crash campaign runs with one of them at a time and must find
//! it; a mutant that survives shows a hole in the campaign. Without the feature no mutant is active, which is decided
//! at compile time, and no code of this is left.

/// One deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the table below says what each one does")]
#[cfg_attr(not(feature = "mutants"), allow(dead_code, reason = "only the crash campaign names them all"))]
pub enum Mutant {
    AcceptOtherSegment,
    AcceptOtherOffset,
    IgnoreEpoch,
    IgnoreLsn,
    IgnoreLink,
    IgnoreChainAndPlace,
    SkipBodyChecksum,
    IssueDuringStart,
    RotateBeforeDurable,
    WitnessTooMuch,
    AckAtIssue,
    AckAfterFailure,
    AckOutOfOrder,
    GoOnAfterFailure,
    WriteWithoutTail,
    PrepareWithoutSync,
    PrepareWithoutDirSync,
    RetireWithoutDirSync,
    HeaderIgnoresName,
    OneHeaderCopy,
    SkipUnstarted,
    TakeDamageForTail,
    OpenWithoutSync,
    KeepEpoch,
    KeepDead,
    StartWithoutSync,
    AppendBehindTornTail,
    NoSync,
    SyncBesideWrites,
    ShortWriteIgnored,
    WriteErrorIgnored,
    SyncErrorIgnored,
    SyncRetried,
    ReadThroughCache,
    KeepCached,
    RetireBeforeMark,
    RetireNewestFirst,
    RetireLiveSegment,
    StartWithTheBatch,
    TrimNotCarried,
    LinkNotAdvanced,
    RecordsInMark,
    SplitTransaction,
    PlaceReused,
    WitnessNextBlockOnly,
    CryWolf,
    MarkIsClose,
    OpenMarkNotSynced,
    ServeBeforeStart,
    ForgetAfterSetback,
    TakeRestForNew,
    TrustCloseWithoutRoom,
    StrictWithoutSettling,
    RotateBeforeSettling,
    WitnessClaimsWeak,
    WeakIsDurable,
    WeakAckAtIssue,
    WeakTrim,
    SettleBesideWeak,
    SettleErrorIgnored,
    TrustCache,
    CarryWithoutSync,
    MarkBehindEverything,
    KeepSmallSpare,
    TrimBesideReader,
    CloseBesideMark,
    WeakMarkBeforeSync,
    WeakStartWithoutSync,
    WeakCloseWithoutSync,
    LossInSilence,
    RenameReplaces,
    OpenFailureIsFatal,
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// Every mistake there is.
    pub const ALL: [Self; 72] = [
        Self::AcceptOtherSegment,
        Self::AcceptOtherOffset,
        Self::IgnoreEpoch,
        Self::IgnoreLsn,
        Self::IgnoreLink,
        Self::IgnoreChainAndPlace,
        Self::SkipBodyChecksum,
        Self::IssueDuringStart,
        Self::RotateBeforeDurable,
        Self::WitnessTooMuch,
        Self::AckAtIssue,
        Self::AckAfterFailure,
        Self::AckOutOfOrder,
        Self::GoOnAfterFailure,
        Self::WriteWithoutTail,
        Self::PrepareWithoutSync,
        Self::PrepareWithoutDirSync,
        Self::RetireWithoutDirSync,
        Self::HeaderIgnoresName,
        Self::OneHeaderCopy,
        Self::SkipUnstarted,
        Self::TakeDamageForTail,
        Self::OpenWithoutSync,
        Self::KeepEpoch,
        Self::KeepDead,
        Self::StartWithoutSync,
        Self::AppendBehindTornTail,
        Self::NoSync,
        Self::SyncBesideWrites,
        Self::ShortWriteIgnored,
        Self::WriteErrorIgnored,
        Self::SyncErrorIgnored,
        Self::SyncRetried,
        Self::ReadThroughCache,
        Self::KeepCached,
        Self::RetireBeforeMark,
        Self::RetireNewestFirst,
        Self::RetireLiveSegment,
        Self::StartWithTheBatch,
        Self::TrimNotCarried,
        Self::LinkNotAdvanced,
        Self::RecordsInMark,
        Self::SplitTransaction,
        Self::PlaceReused,
        Self::WitnessNextBlockOnly,
        Self::CryWolf,
        Self::MarkIsClose,
        Self::OpenMarkNotSynced,
        Self::ServeBeforeStart,
        Self::ForgetAfterSetback,
        Self::TakeRestForNew,
        Self::TrustCloseWithoutRoom,
        Self::StrictWithoutSettling,
        Self::RotateBeforeSettling,
        Self::WitnessClaimsWeak,
        Self::WeakIsDurable,
        Self::WeakAckAtIssue,
        Self::WeakTrim,
        Self::SettleBesideWeak,
        Self::SettleErrorIgnored,
        Self::TrustCache,
        Self::CarryWithoutSync,
        Self::MarkBehindEverything,
        Self::KeepSmallSpare,
        Self::TrimBesideReader,
        Self::CloseBesideMark,
        Self::WeakMarkBeforeSync,
        Self::WeakStartWithoutSync,
        Self::WeakCloseWithoutSync,
        Self::LossInSilence,
        Self::RenameReplaces,
        Self::OpenFailureIsFatal,
    ];
}

/// Mistakes that nobody can see, each with the reason: the format says the same thing twice there, on purpose.
#[cfg(feature = "mutants")]
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

/// Mistakes that only a certain order of threads shows: the scenes of `testing/loom_scenes.rs` find them, with the feature
/// `mutants`, where the campaign, which has no threads, cannot.
#[cfg(feature = "mutants")]
pub const FOUND_BY_ORDERS: [(Mutant, &str); 1] =
    [(Mutant::TrimBesideReader, "a_reader_beside_a_trim_starts_where_it_was_asked_to_or_is_told")];

#[cfg(feature = "mutants")]
mod switch {
    use std::cell::Cell;

    use super::Mutant;
    use seawall_sys::planted::Mistake;

    thread_local! {
        static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Switches one mistake on for this thread, or all of them off.
    pub fn set(mutant: Option<Mutant>) {
        ACTIVE.with(|active| active.set(mutant));
        seawall_sys::planted::set(mutant.and_then(below));
    }

    /// The mistake of the crate below that a mutant is, if it is one.
    fn below(mutant: Mutant) -> Option<Mistake> {
        Some(match mutant {
            Mutant::NoSync => Mistake::NoSync,
            Mutant::SyncBesideWrites => Mistake::SyncBesideWrites,
            Mutant::StartWithTheBatch => Mistake::StartWithTheBatch,
            Mutant::ShortWriteIgnored => Mistake::ShortWriteIgnored,
            Mutant::WriteErrorIgnored => Mistake::WriteErrorIgnored,
            Mutant::SyncErrorIgnored => Mistake::SyncErrorIgnored,
            Mutant::SyncRetried => Mistake::SyncRetried,
            _ => return None,
        })
    }

    pub(crate) fn on(mutant: Mutant) -> bool {
        ACTIVE.with(Cell::get) == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use switch::set;

#[cfg(feature = "mutants")]
pub(crate) use switch::on;

/// Whether the core is to make this mistake.
#[cfg(not(feature = "mutants"))]
#[inline]
pub(crate) const fn on(_: Mutant) -> bool {
    false
}
