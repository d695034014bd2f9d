//! Renders any scenario's table as Markdown with every column, and as CSV.
//!
//! Invariants: Markdown shows a figure as the terminal does; CSV holds it raw, and an unknown value is an empty
//! field.

use super::super::csv::line as csv_line;
use super::super::markdown::{add, escaped, row as markdown_row};
use super::{CALL_HEADS, ITERATION_HEAD, Missing, call_rows, cell, columns, groups, header, missing, title};
use crate::findings::study as findings;
use crate::result::RunResult;
use crate::study::{Study, StudyMeasured, StudyOutcome};

/// The report as Markdown, with every column.
#[must_use]
pub fn markdown(result: &RunResult, study: &Study) -> String {
    let mut out = format!("# {}\n\n", title(result, study));
    for (label, text) in header(result, study) {
        add(&mut out, &format!("- {label}: {}\n", escaped(&text)));
    }
    let columns = columns(study, false);
    let heads = columns.iter().map(|column| {
        if column.group.is_empty() {
            column.title.clone()
        } else {
            format!("{}: {}", column.group, column.title)
        }
    });
    for (name, rows) in groups(study) {
        let heading = if name.is_empty() { "\n".to_owned() } else { format!("\n## {}\n\n", escaped(name)) };
        out += &heading;
        out += &markdown_row([study.row_title.clone()].into_iter().chain(heads.clone()));
        out += &markdown_row(["---".to_owned()].into_iter().chain(columns.iter().map(|_| "---:".to_owned())));
        for row in rows {
            let cells = columns.iter().map(|column| cell(row, column));
            out += &markdown_row([escaped(&row.label)].into_iter().chain(cells));
        }
    }
    out += "\n";
    for note in &study.notes {
        add(&mut out, &format!("{}\n", escaped(note)));
    }
    out += &markdown_rest(study);
    let found = findings::find(result);
    out += if found.is_empty() { "\n## Findings\n\nNone.\n" } else { "\n## Findings\n\n" };
    for finding in found {
        let (sentence, remedy) = (escaped(&finding.sentence), escaped(&finding.remedy));
        add(&mut out, &format!("- **{}** {sentence} → {remedy}\n", finding.severity.name()));
    }
    out
}

/// Calls, iterations, and what did not run.
fn markdown_rest(study: &Study) -> String {
    let mut out = String::new();
    let calls = call_rows(study);
    if !calls.is_empty() {
        out += "\n## Calls\n\n";
        out += &markdown_row([study.row_title.as_str()].into_iter().chain(CALL_HEADS).map(str::to_owned));
        out += &markdown_row(["---"; 2].into_iter().chain(["---:"; 4]).map(str::to_owned));
        for (name, cells) in calls {
            out += &markdown_row([escaped(&name)].into_iter().chain(cells));
        }
    }
    for (row, measured) in study.measured().filter(|(_, measured)| !measured.iterations.is_empty()) {
        add(&mut out, &format!("\n## {}: iterations, ns\n\n```\n{ITERATION_HEAD}\n", escaped(&row.id)));
        for iteration in &measured.iterations {
            add(&mut out, &format!("{}\n", iteration.line()));
        }
        out += "```\n";
    }
    let missing = missing(study);
    if !missing.is_empty() {
        out += "\n## Not measured\n\n";
    }
    for Missing { failed, reason, ids } in missing {
        let word = if failed { "failed" } else { "n/a" };
        add(&mut out, &format!("- `{}`: {word}: {}\n", ids.join("`, `"), escaped(reason)));
    }
    out
}

/// The table as CSV: one row a row, every figure raw.
#[must_use]
pub fn csv(study: &Study) -> String {
    let lead = ["row", "group", "label", "outcome", "reason", "x"].map(str::to_owned);
    let tail = [
        "elapsed_ns",
        "device_writes",
        "device_sectors",
        "device_flushes",
        "cpu_user_ns",
        "cpu_system_ns",
        "cpu_wait_ns",
        "rounds",
    ];
    let heads = study.columns.iter().map(|column| column.key.clone());
    let mut out = csv_line(lead.into_iter().chain(heads).chain(tail.map(str::to_owned)));
    for row in &study.rows {
        let (outcome, reason) = match &row.outcome {
            StudyOutcome::Measured(_) => ("measured", ""),
            StudyOutcome::NotAvailable { reason } => ("n/a", reason.as_str()),
            StudyOutcome::Failed { error } => ("failed", error.as_str()),
        };
        let x = row.x.map_or(String::new(), |x| x.to_string());
        let lead =
            [row.id.clone(), row.group.clone(), row.label.clone(), outcome.to_owned(), reason.to_owned(), x];
        let values = study
            .columns
            .iter()
            .map(|column| Study::value(row, column).map_or(String::new(), |value| value.value.to_string()));
        out += &csv_line(lead.into_iter().chain(values).chain(accounts(row.measured())));
    }
    out
}

fn accounts(measured: Option<&StudyMeasured>) -> [String; 8] {
    let Some(measured) = measured else { return Default::default() };
    let counted = |of: fn(&seawall_sys::counters::Counts) -> u64| {
        measured.counts.as_ref().map_or(String::new(), |counts| of(counts).to_string())
    };
    [
        measured.elapsed_ns.to_string(),
        counted(|counts| counts.writes),
        counted(|counts| counts.sectors),
        counted(|counts| counts.flushes),
        measured.cpu.user_ns.to_string(),
        measured.cpu.system_ns.to_string(),
        measured.cpu.wait_ns.map_or(String::new(), |ns| ns.to_string()),
        measured.rounds.len().to_string(),
    ]
}
