//! Decides whether a run was disturbed so much that nothing can be advised from it.
//!
//! Findings say what disturbed a run; here they decide, because a disturbed run's figures are those of other work.
//!
//! Invariants: pure; the first reason is given, as the end of "No advice from this run: …"; a run of which nothing is
//! found is not disturbed.

use crate::figures::percent;
use crate::findings::{self, CPU_WAIT_SHARE_MAX, Severity};
use crate::rank::{EffectiveClass, Ranked, Ranking};

pub(crate) fn disturbance(ranking: &Ranking<'_>) -> Option<String> {
    interrupted(ranking).or_else(|| cpu_wait(ranking)).or_else(|| found(ranking))
}

fn interrupted(ranking: &Ranking<'_>) -> Option<String> {
    let result = ranking.result;
    (!result.complete)
        .then(|| format!("it was interrupted after {} of {} rounds", result.order.len(), result.plan.rounds))
}

/// How much of the time of `row` was waiting for a CPU, if that is more than it may be.
pub(crate) fn wait(row: &Ranked<'_>) -> Option<f64> {
    row.measured.wait_share().filter(|share| *share > CPU_WAIT_SHARE_MAX)
}

/// The best method waited for a CPU, or half of those that can be advised did.
fn cpu_wait(ranking: &Ranking<'_>) -> Option<String> {
    let rows: Vec<&Ranked<'_>> = ranking.of(EffectiveClass::PowerLoss).collect();
    let waiting: Vec<(&Ranked<'_>, f64)> = rows.iter().filter_map(|row| Some((*row, wait(row)?))).collect();
    let (worst, share) = waiting.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let best_waited = rows.first().is_some_and(|best| wait(best).is_some());
    (best_waited || waiting.len() * 2 >= rows.len()).then(|| {
        format!(
            "commits waited for a CPU, not for the disk: {} of the time of {}",
            percent(share.min(1.0)),
            worst.id()
        )
    })
}

/// What the findings say: a busy machine, or ratios that noise has swallowed.
fn found(ranking: &Ranking<'_>) -> Option<String> {
    let found = findings::find(ranking);
    let says = |rule: &str| found.iter().any(|one| one.rule == rule && one.severity == Severity::Caution);
    let is_counted = ranking.rows.iter().any(|row| row.measured.wait_share().is_some());
    if says("busy") && !is_counted {
        Some("other work was on the CPUs when it began, and how long commits waited is not known".to_owned())
    } else if says("same-within-noise") {
        Some("it was too noisy to rank the methods".to_owned())
    } else {
        None
    }
}
