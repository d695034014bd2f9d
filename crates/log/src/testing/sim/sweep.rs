//! Fails every operation of a simulated run in turn, then cuts the power and judges recovery.
//!
//! Every operation fails once, and in another run from then on, with an input/output error, a full disk and a short
//! write; then the power goes, with every way of drawing an image.

use std::collections::BTreeMap;

use super::campaign::{Failure, Tally};
use super::disk::{FaultKind, FaultPlan};
use super::draw::DRAWS;
use super::judge::{Terms, judge};
use super::life::{End, Habits, live};
use super::media::Media;
use super::rng::{Rng, mix};
use crate::testing::oracle::{Ledger, Violation};
use seawall_sys::durability::Durability;

/// Every fault of an operation: what it returns, and whether all later ones do as well.
pub const FAULTS: [(&str, FaultKind, bool); 6] = [
    ("EIO once", FaultKind::Io, false),
    ("EIO from then on", FaultKind::Io, true),
    ("ENOSPC once", FaultKind::Full, false),
    ("ENOSPC from then on", FaultKind::Full, true),
    ("short once", FaultKind::Short, false),
    ("short from then on", FaultKind::Short, true),
];

/// Every fault of an opening, which fails because too many files are open: whether all later ones do as well.
pub const OPENING_FAULTS: [(&str, bool); 2] = [("EMFILE once", false), ("EMFILE from then on", true)];

/// What a sweep has done.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// What was judged.
    pub tally: Tally,
    /// Operations of the lives without a failure, which were made to fail one after the other.
    pub operations: u64,
    /// Openings of these lives that took another descriptor, which were made to fail by each of [`OPENING_FAULTS`] too.
    pub openings: u64,
    /// Lives in which the operation that was to fail did not come: none, if the lives repeat themselves.
    pub missed: u64,
    /// By the name of the operation, how often it was made to fail by each of [`FAULTS`].
    pub failed: BTreeMap<&'static str, [u64; FAULTS.len()]>,
}

/// Fails every operation of one life in turn, once and from then on, by each fault, and judges what is left.
///
/// # Errors
/// The first broken promise.
pub fn sweep(seed: u64) -> Result<Swept, Failure> {
    let mut swept = Swept::default();
    let mixed = [(false, false), (true, false), (false, true), (true, true)];
    let lower = [(false, Durability::ProcessCrash), (true, Durability::SystemCrash)];
    let strict = mixed.map(|(dsync, relaxed)| (dsync, relaxed, Durability::PowerLoss)).into_iter();
    for (dsync, relaxed, class) in strict.chain(lower.map(|(dsync, class)| (dsync, false, class))) {
        let habits = Habits { relaxed, class, ..Habits::plain(seed, dsync, 2) };
        let whole = live(Media::default(), seed, habits, None);
        swept.operations += whole.operations;
        swept.openings += whole.openings;
        let failure = |state, swept: &Swept, violation| {
            let judged = swept.tally.states;
            Failure { seed, state, judged, violation }
        };
        for fault in 0..FAULTS.len() {
            for operation in 0..whole.operations {
                let done = sweep_one(seed, habits, (operation, fault), &mut swept);
                done.map_err(|violation| failure(operation, &swept, violation))?;
            }
        }
        for (_, sticky) in OPENING_FAULTS {
            for operation in 0..whole.openings {
                let plan = FaultPlan { operation, kind: FaultKind::Descriptors, sticky };
                let done = fail_opening(seed, habits, plan, &mut swept);
                done.map_err(|violation| failure(operation, &swept, violation))?;
            }
        }
    }
    Ok(swept)
}

/// A log that cannot open another file is not a log that failed: nothing was written that could be lost.
fn fail_opening(seed: u64, habits: Habits, plan: FaultPlan, swept: &mut Swept) -> Result<(), Violation> {
    let end = live(Media::default(), seed, habits, Some(plan));
    if end.log_failed {
        let error = "the log failed for good, because too many files were open".to_owned();
        return Err(Violation::Refused { error });
    }
    judge_end(&end, seed, (habits, plan.operation), swept)
}

fn sweep_one(
    seed: u64,
    habits: Habits,
    (operation, fault): (u64, usize),
    swept: &mut Swept,
) -> Result<(), Violation> {
    let (_, kind, sticky) = FAULTS[fault];
    let end = live(Media::default(), seed, habits, Some(FaultPlan { operation, kind, sticky }));
    for (name, times) in &end.failed {
        swept.failed.entry(name).or_default()[fault] += times;
    }
    judge_end(&end, seed, (habits, operation), swept)
}

/// Cuts the power at the end of a life in which something failed, and judges what is left.
fn judge_end(
    end: &End,
    seed: u64,
    (habits, operation): (Habits, u64),
    swept: &mut Swept,
) -> Result<(), Violation> {
    swept.missed += u64::from(end.faults == 0);
    let tally = &mut swept.tally;
    tally.lives += 1;
    tally.faults += end.faults;
    if let Some(lsn) = end.acknowledged_after_failure {
        return Err(Violation::AcknowledgedAfterFailure { lsn });
    }
    if let Some(bytes) = end.stuck {
        return Err(Violation::Stuck { bytes });
    }
    let mut ledger = Ledger::default();
    end.trace.iter().for_each(|step| step.enter(&mut ledger));
    let mut rng = Rng::new(mix(seed ^ operation));
    for draw in DRAWS {
        let image = end.media.image(draw, draw, &mut rng);
        let Habits { dsync, class, .. } = habits;
        let terms = Terms { must_have: ledger.acknowledged, damaged: false, twice: true, dsync, class };
        tally.states += 1;
        judge(image, &ledger, terms)?;
    }
    Ok(())
}
