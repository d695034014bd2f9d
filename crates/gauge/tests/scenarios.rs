//! Snapshot tests: the reports of the scenarios' committed results are compared to the byte.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p seawall-gauge --test scenarios` rewrites the files; only on purpose.
//!
//! Invariants: every terminal line fits its width; a result that is written again is the same; what was planted into a result
//! is found. Runs are tested by `cli/tests/real_systems/scenarios.rs`, what tables say in each scenario's file.
#![cfg(target_os = "linux")]

mod snapshot;

use seawall_gauge::findings::{self, Finding};
use seawall_gauge::rank::Ranking;
use seawall_gauge::report::{self, Style, csv, markdown};
use seawall_gauge::result::RunResult;
use seawall_gauge::row::{Outcome, Tail};
use seawall_gauge::study::{MeasuredFolder, Study};
use snapshot::compare;
use std::path::Path;

/// Scenarios, and where a result of each lies below `results`.
const RESULTS: [(&str, &str); 8] = [
    ("stall", "2026-11-22-firecracker-ext4/stall.json"),
    ("cached", "2026-11-22-firecracker-ext4/cached.json"),
    ("path", "2026-11-22-firecracker-ext4/path.json"),
    ("group", "2026-11-22-firecracker-ext4/group.json"),
    ("interfere", "2026-11-22-firecracker-ext4/interfere.json"),
    ("replicated", "2026-11-25-firecracker-ext4/replicated.json"),
    ("log", "2026-11-25-firecracker-ext4/log-bench.json"),
    ("log-streams", "2026-11-25-firecracker-ext4/log-streams.json"),
];

fn committed(name: &str) -> RunResult {
    let (_, file) = RESULTS.iter().find(|(known, _)| *known == name).expect("a result");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results").join(file);
    RunResult::read(&path).expect("reads")
}

fn found(result: &RunResult, rule: &str) -> Option<Finding> {
    findings::find(&Ranking::new(result)).into_iter().find(|finding| finding.rule == rule)
}

/// Several file systems side by side.
fn two_places() -> RunResult {
    let mut result = committed("cached");
    let places = [result.environment.file_system.kind.clone(), "otherfs".to_owned()];
    let environment = result.environment.clone();
    let rows = std::mem::take(&mut result.study.rows);
    for (place, label) in places.into_iter().enumerate() {
        for row in &rows {
            let mut row = row.clone();
            (row.id, row.group, row.place) =
                (format!("{}/{}", place + 1, row.id), label.clone(), Some(place));
            result.study.rows.push(row);
        }
        result.study.places.push(MeasuredFolder { label, environment: environment.clone() });
    }
    result
}

/// Everything that can happen to a row.
fn spoiled() -> RunResult {
    let mut result = committed("stall");
    for (id, now) in [
        (
            "sync-file-range",
            Outcome::NotAvailable { reason: "this system has no sync_file_range".to_owned() },
        ),
        (
            "other-segment",
            Outcome::Failed { error: "fsync journal: planted failure".to_owned(), of_device: true },
        ),
    ] {
        result.study.rows.iter_mut().find(|row| row.id == id).expect("a row").outcome = now;
    }
    result
}

fn all() -> impl Iterator<Item = (String, RunResult)> {
    let plain = RESULTS.iter().map(|(name, _)| ((*name).to_owned(), committed(name)));
    plain.chain([("cached-two-places".to_owned(), two_places()), ("stall-spoiled".to_owned(), spoiled())])
}

#[test]
fn every_report_is_as_it_was() {
    for (name, result) in all() {
        for width in [80, 120] {
            compare(&format!("scenario-{name}.{width}.txt"), &report::terminal(&result, width, Style::PLAIN));
        }
        compare(&format!("scenario-{name}.md.txt"), &markdown::markdown(&result));
        compare(&format!("scenario-{name}.csv.txt"), &csv::csv(&result));
    }
}

#[test]
fn no_line_is_wider_than_the_terminal_and_no_column_is_lost() {
    for (name, result) in all() {
        let valued = |key: &str| {
            let column = result.study.columns.iter().find(|column| column.key == key).expect("its own");
            result.study.rows.iter().any(|row| Study::value(row, column).is_some())
        };
        for width in [40, 60, 80, 100, 160] {
            let text = report::terminal(&result, width, Style::PLAIN);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{name} at {width}: {line}");
            }
            // A narrow terminal may cut a title.
            for column in result.study.columns.iter().filter(|column| column.essential && width >= 60) {
                assert!(
                    !valued(&column.key) || text.contains(&column.title),
                    "{name} at {width}: {}",
                    column.key
                );
            }
        }
    }
}

#[test]
fn a_result_that_is_written_again_is_the_same() {
    for (name, result) in all() {
        let again = RunResult::from_json(&result.to_json().expect("JSON")).expect("reads");
        assert_eq!(again.study, result.study, "{name}");
    }
}

#[test]
fn a_planted_wait_for_a_cpu_is_found_in_every_scenario_that_accounts_for_it() {
    for (name, row) in [
        ("stall", "seawall-log"),
        ("group", "shared-1"),
        ("interfere", "buffered+fdatasync/none"),
        ("path", "pwrite/closed"),
    ] {
        let mut result = committed(name);
        let row = result.study.rows.iter_mut().find(|one| one.id == row).expect("a row");
        let label = row.label.clone();
        let measured = row.measured_mut().expect("it ran");
        measured.tail = Tail { commits: 100, latency_ns: 1_000_000, wait_ns: 840_000 };
        let finding = found(&result, "cpu-wait").unwrap_or_else(|| panic!("{name}: not found"));
        assert!(finding.sentence.contains(&label), "{name}: {}", finding.sentence);
    }
}
