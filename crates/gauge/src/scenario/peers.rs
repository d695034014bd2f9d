//! Scenario `peers`: other write-ahead logs against the log and a plain loop, by the workloads of `log`.
//!
//! The others are no dependencies of the gauge: a program that links them names them in [`Settings::peers`]. Each is
//! configured for speed with full durability: preallocated and reused space, every commit durable before it returns.
//!
//! Invariants: all rows of a workload write as many bytes to the same file system; one whose bytes do not reach the
//! device loses its class, as every row does.

use super::log::contest::{Contestant, FLOOR, SEAWALL};
use super::log::workloads::{Base, WORKLOADS, Workload};
use super::log::{Case, compete};
use super::settings::Settings;
use super::{Observer, RunError};
use crate::findings::{Finding, Severity};
use crate::result::RunResult;
use crate::study::Study;
use crate::testbed::Testbed;
use seawall_sys::durability::Durability;

/// The scenario's name.
pub const NAME: &str = "peers";

/// Space that the files take at most, bytes: for each contestant of a workload some segments and its floor.
pub fn needs_bytes(settings: &Settings, _: Option<u64>, _: u64) -> u64 {
    let contestants = settings.peers.len() as u64 + 2;
    contestants * chosen(settings).count() as u64 * (256 << 20)
}

/// The workloads of which every thread waits for its commits: those that every log can run.
fn chosen(settings: &Settings) -> impl Iterator<Item = &'static Workload> {
    let named = |one: &Workload| {
        settings.workloads.is_empty() || settings.workloads.iter().any(|name| name == one.id)
    };
    let waits =
        |one: &Workload| one.work.waiting().is_some() && !one.is_floor() && one.by.name == SEAWALL.name;
    WORKLOADS.iter().filter(move |one| waits(one) && !one.by.grows && named(one))
}

/// Runs the scenario.
///
/// # Errors
/// Nothing was measured.
pub fn run(
    settings: &Settings,
    testbed: &mut dyn Testbed,
    observer: &mut dyn Observer,
) -> Result<RunResult, RunError> {
    let contestants: Vec<&'static Contestant> =
        [&FLOOR, &SEAWALL].into_iter().chain(settings.peers).collect();
    let takes_part = |one: &Workload, by: &Contestant| {
        let (threads, streams) = one.work.waiting().unwrap_or((1, 0));
        by.name == FLOOR.name || ((by.shares || threads == 1) && (by.has_streams || streams == 0))
    };
    let case = |one: &'static Workload, by: &'static Contestant| Case {
        id: format!("{}/{}", one.id, by.name),
        label: by.name.to_owned(),
        what: format!("{}: {}", one.what, by.set_up),
        group: format!("{}: {}", one.id, one.what),
        work: one.work,
        by,
        bytes: one.bytes,
        by_bytes: false,
        is_floor: by.name == FLOOR.name,
        is_bare: false,
        base: if by.name == SEAWALL.name { Base::OtherLog } else { Base::None },
    };
    let mut cases = Vec::new();
    for one in chosen(settings) {
        cases.extend(contestants.iter().filter(|by| takes_part(one, by)).map(|by| case(one, by)));
    }
    if cases.is_empty() {
        return Err(RunError::Unavailable(
            "other logs run W1, W2, W3, W4, W4c, W9 and W11: name one of those".to_owned(),
        ));
    }
    let title = "write-ahead logs beside a plain loop of durable writes".to_owned();
    let mut notes: Vec<String> = contestants
        .iter()
        .map(|by| {
            let alone = if by.shares || by.name == FLOOR.name {
                ""
            } else {
                "; one writer at a time, so that it is in no row of several"
            };
            let no_streams = if by.has_streams || by.name == FLOOR.name { "" } else { "; without streams" };
            format!("{}: {}{alone}{no_streams}.", format!("{} {}", by.name, by.version).trim(), by.set_up)
        })
        .collect();
    if settings.peers.is_empty() {
        notes.push(
            "No other log is part of this program: `cargo xtask peers` builds the one that has them."
                .to_owned(),
        );
    }
    let study = Study { title, row_title: "log".to_owned(), notes, ..Study::default() };
    compete(NAME, settings, (testbed, observer), study, &cases)
}

/// Goals of this project in rates of the fastest other log.
const GOALS: [(&str, f64); 2] = [("W4c", 2.0), ("W9", 1.5)];

/// How the log stands to the fastest other one where this project has a goal.
fn standing(study: &Study) -> Option<Finding> {
    let words = |(id, goal): (&str, f64)| {
        let measured = study.row(&format!("{id}/{}", SEAWALL.name))?.measured()?;
        Some(format!("{:.2} in {id} (goal {goal:.2})", measured.figure("vs_base")?))
    };
    let said: Vec<String> = GOALS.into_iter().filter_map(words).collect();
    (!said.is_empty()).then(|| Finding {
        rule: "peers-goals",
        severity: Severity::Note,
        sentence: format!("The rate of the log by that of the fastest other one: {}.", said.join(", ")),
        remedy: "Goals are this project's for its log, on a quiet machine: they do not judge the disk."
            .to_owned(),
    })
}

/// What the table says: which of them do not make durable what they acknowledge, and which goals there are.
pub fn judge(study: &Study) -> Vec<Finding> {
    let lost =
        |(_, measured): &(_, &crate::row::Measured)| measured.class() == Some(Durability::ProcessCrash);
    let finding = |(row, _): (&crate::row::Row, _)| Finding {
        rule: "peers-unsynced",
        severity: Severity::Caution,
        sentence: format!("{} acknowledges commits whose bytes have not reached the device.", row.id),
        remedy: "Do not compare it with logs that are durable.".to_owned(),
    };
    study.measured().filter(lost).map(finding).chain(standing(study)).collect()
}

#[cfg(test)]
mod tests {
    use super::judge;
    use crate::row::Row;
    use crate::study::Study;

    #[test]
    fn the_log_is_held_against_the_fastest_other_one_where_there_is_a_goal() {
        let row = |id: &str| {
            let mut row = Row::waiting(id, id);
            if let Some(measured) = row.measured_mut() {
                measured.set("vs_base", 1.25);
            }
            row
        };
        let said = |ids: &[&str]| -> Vec<String> {
            let study = Study { rows: ids.iter().map(|id| row(id)).collect(), ..Study::default() };
            judge(&study).into_iter().map(|finding| finding.sentence).collect()
        };
        let sentence = "The rate of the log by that of the fastest other one: 1.25 in W9 (goal 1.50).";
        assert_eq!(said(&["W9/seawall", "W1/seawall", "W4c/okaywal"]), [sentence]);
        assert_eq!(said(&["W1/seawall"]), Vec::<String>::new());
    }
}
