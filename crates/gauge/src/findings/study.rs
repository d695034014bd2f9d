//! Findings that apply to the table of any scenario; a scenario's own come from its row of the table.
//!
//! Invariants: rules read the result alone; a scenario's own findings come from its row of the table of scenarios,
//! found by the name in the result, so that an old result is judged by a newer program.

use super::{Finding, Severity};
use crate::figures::{listing, percent};
use crate::result::RunResult;
use crate::scenario;
use crate::study::{Study, StudyOutcome, StudyRow};
use seawall_sys::durability::Medium;

/// Everything found in `result`, gravest first; nothing if it has no table.
#[must_use]
pub fn find(result: &RunResult) -> Vec<Finding> {
    let Some(study) = &result.study else { return Vec::new() };
    let of = scenario::find(&result.scenario).and_then(|scenario| scenario.study);
    let durable = of.is_some_and(|of| of.durable);
    let rules = [
        cpu_wait(study),
        memory(result).filter(|_| durable),
        lies(result).filter(|_| durable),
        failed(study),
        interrupted(result),
    ];
    let mut found: Vec<Finding> = rules.into_iter().flatten().collect();
    if let Some(of) = of {
        found.extend((of.judge)(study));
    }
    found.sort_by_key(|finding| finding.severity);
    found
}

#[expect(clippy::unnecessary_wraps, reason = "it is what a rule returns")]
fn say(rule: &'static str, severity: Severity, sentence: String, remedy: &str) -> Option<Finding> {
    Some(Finding { rule, severity, sentence, remedy: remedy.to_owned() })
}

/// From this share on slow operations waited for a CPU rather than for what they are blamed on.
const WAIT_SHARE: f64 = 0.2;

/// A row's name as its table shows it; those of a group share their labels with other groups' and are told by id.
fn shown(row: &StudyRow) -> &str {
    if row.group.is_empty() { &row.label } else { &row.id }
}

fn cpu_wait(study: &Study) -> Option<Finding> {
    let waiting: Vec<(&str, f64)> = study
        .measured()
        .filter_map(|(row, measured)| Some((shown(row), measured.tail.wait_share()?)))
        .filter(|(_, share)| *share > WAIT_SHARE)
        .collect();
    let (_, most) = *waiting.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let ids: Vec<&str> = waiting.iter().map(|(id, _)| *id).collect();
    say(
        "cpu-wait",
        Severity::Caution,
        format!(
            "Slow operations (those above p99) waited for a CPU, not for the disk, in {}: up to {} of their time.",
            listing(&ids, 4),
            percent(most)
        ),
        "Stop other work or give the program a CPU of its own (--pin), then measure again.",
    )
}

fn memory(result: &RunResult) -> Option<Finding> {
    let file_system = &result.environment.file_system;
    (file_system.medium == Medium::Memory).then_some(())?;
    say(
        "memory",
        Severity::Wrong,
        format!("{} keeps its files in memory: these figures are not a disk's.", file_system.kind),
        "Name a folder on the disk in question.",
    )
}

fn lies(result: &RunResult) -> Option<Finding> {
    let lie = result.environment.lies.first()?;
    say(
        "lies",
        Severity::Wrong,
        format!("Something here turns syncs into less than they claim: {}.", lie.evidence),
        "`seawall methods DIR` says what is left of each method; remove the cause and measure again.",
    )
}

fn failed(study: &Study) -> Option<Finding> {
    let failed: Vec<&str> = study
        .rows
        .iter()
        .filter(|row| matches!(row.outcome, StudyOutcome::Failed { .. }))
        .map(shown)
        .collect();
    if failed.is_empty() {
        return None;
    }
    say(
        "failed",
        Severity::Wrong,
        format!("A call failed in {}; what was measured before is not told.", listing(&failed, 4)),
        "The error stands below the table; look into the system's log for the device.",
    )
}

fn interrupted(result: &RunResult) -> Option<Finding> {
    (!result.complete).then_some(())?;
    let (run, all) = (result.order.len(), result.plan.rounds);
    say(
        "interrupted",
        Severity::Caution,
        format!("The run ended early, in round {run} of {all}."),
        "Figures of whole rounds are sound, only fewer.",
    )
}
