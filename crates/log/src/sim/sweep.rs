//! What if any one operation of a life fails?
//!
//! Every operation in turn, once and from then on, with an input/output error, a full disk and a short write; then the
//! power goes, in every way of drawing an image.

use super::campaign::{Failure, Tally};
use super::disk::{FaultKind, FaultPlan};
use super::judge::{Terms, Verdict, judge};
use super::life::{Ending, Habits, live};
use super::media::{DRAWS, Media};
use super::rng::{Rng, mix};
use crate::oracle::{Ledger, Violation};

/// Fails every operation of one life in turn, once and for good, in each way, and judges what is left. Returns the
/// number of operations that the sweep covered.
///
/// # Errors
/// The first broken promise.
pub fn sweep(seed: u64) -> std::result::Result<Tally, Failure> {
    let mut tally = Tally::default();
    for (dsync, weak) in [(false, false), (true, false), (false, true), (true, true)] {
        let habits = Habits {
            dsync,
            depth: 2,
            actions: 500,
            number: seed,
            ending: Ending::Close,
            weak,
            through_cache: false,
        };
        let operations = live(Media::default(), seed, habits, None).operations;
        for kind in [FaultKind::Io, FaultKind::Full, FaultKind::Short] {
            for sticky in [false, true] {
                for operation in 0..operations {
                    let fault = FaultPlan { operation, kind, sticky };
                    sweep_one(seed, habits, fault, &mut tally).map_err(|violation| Failure {
                        seed,
                        state: operation,
                        judged: tally.states,
                        violation,
                    })?;
                }
            }
        }
    }
    Ok(tally)
}

fn sweep_one(seed: u64, habits: Habits, fault: FaultPlan, tally: &mut Tally) -> Verdict {
    let end = live(Media::default(), seed, habits, Some(fault));
    tally.lives += 1;
    tally.faults += end.faults;
    if let Some(lsn) = end.acknowledged_after_failure {
        return Err(Violation::AcknowledgedAfterFailure { lsn });
    }
    let mut ledger = Ledger::default();
    end.trace.iter().for_each(|step| step.enter(&mut ledger));
    let mut rng = Rng::new(mix(seed ^ fault.operation));
    for draw in DRAWS {
        let image = end.media.image(draw, draw, &mut rng);
        let terms =
            Terms { must_have: ledger.acknowledged, damaged: false, twice: true, dsync: habits.dsync };
        tally.states += 1;
        judge(image, &ledger, terms)?;
    }
    Ok(())
}
