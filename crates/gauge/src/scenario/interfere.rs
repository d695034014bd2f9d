//! Scenario `interfere`: commit latency with and without another load on the same disk.
//!
//! ```text
//!   none       the commits alone
//!   buffered   one thread writes 1 MiB at a time into the cache, in a file of its own, round and round
//!   random     one thread writes 4 KiB at random places, around the cache
//!   reads      one thread reads 4 KiB at random places, around the cache
//! ```
//!
//! The effect needs both a ratio and an absolute value: tripling 40 µs does no harm, and on a slow disk a few
//! milliseconds more are within what its users already bear. See [`effect`].
//!
//! Invariant: each load is compared with `none` of the same method in the same round, so that drift cancels.

mod real;

use super::commit::tally;
use super::group::{commit_columns, derive};
use super::rounds::{self, Course};
use super::settings::Settings;
use super::{Observer, RunError};
use crate::figures::{bytes, duration, duration_ns, significant};
use crate::findings::{Finding, Severity};
use crate::result::RunResult;
use crate::row::{Measured, Row};
use crate::stats::paired_ratio;
use crate::study::{Better, Column, Fact, Study, Unit};
use crate::testbed::Testbed;
use seawall_sys::durability::{FileState, classify};
use seawall_sys::method::Method;

/// The scenario's name.
pub const NAME: &str = "interfere";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    None,
    /// Writes into the cache, in order.
    Buffered,
    /// Writes around the cache, at random places.
    RandomDirect,
    /// Reads around the cache, at random places.
    Reads,
}

/// The loads: their names in ids and tables, and in a sentence.
const LOADS: [(Load, &str, &str); 4] = [
    (Load::None, "none", "nothing beside the commits"),
    (Load::Buffered, "buffered", "1 MiB writes into the cache, in order"),
    (Load::RandomDirect, "random", "4 KiB writes around the cache, at random places"),
    (Load::Reads, "reads", "4 KiB reads around the cache, at random places"),
];

/// Size of the file that the load works on, bytes: larger than what a device's cache would swallow in a block, small
/// enough to be written back between blocks.
pub(crate) const LOAD_BYTES: u64 = 256 << 20;
/// Size of the journal, bytes.
pub const JOURNAL_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone, Copy)]
struct BlockRequest<'a> {
    load: Load,
    method: &'static Method,
    settings: &'a Settings,
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
    let cases: Vec<(&'static Method, Load)> =
        settings.methods.iter().flat_map(|method| LOADS.iter().map(|(load, ..)| (*method, *load))).collect();
    let around = testbed.environment(0).surroundings(FileState::ZeroFilled);
    let course = Course::new(NAME, settings, JOURNAL_BYTES, study(settings));
    rounds::run(course, testbed, observer, &finish, &mut |testbed, turn| {
        let ((method, load), until) = (cases[turn.index], turn.until);
        let request = BlockRequest { load, method, settings };
        let block = testbed.real()?.block(|real| real::run(real, &request, until))?;
        let mut measured = tally(&block, settings.bytes as u64);
        measured.durability = Some(classify(method, &around));
        measured.set("load_bytes", block.load_bytes as f64);
        Ok(measured)
    })
}

fn study(settings: &Settings) -> Study {
    let row = |method: &'static Method, name: &str, what: &str| Row {
        what: what.to_owned(),
        group: method.id.to_owned(),
        method: Some(method.into()),
        ..Row::waiting(format!("{}/{name}", method.id), name)
    };
    Study {
        title: format!("commits of {} with other work on the same disk", bytes(settings.bytes as u64)),
        row_title: "load".to_owned(),
        settings: vec![Fact::new("size_bytes", "size", bytes(settings.bytes as u64))],
        columns: columns(),
        rows: settings
            .methods
            .iter()
            .flat_map(|method| LOADS.iter().map(move |(_, name, what)| row(method, name, what)))
            .collect(),
        notes: vec![
            format!(
                "A load is felt if p99 grows to {FELT_RATIO} times and by {}, and harmful if it grows to {HARMFUL_RATIO} times and beyond {}, what etcd and CockroachDB allow.",
                duration(FELT_NS),
                duration(HARMFUL_NS)
            ),
            super::group::CPU_WAIT_NOTE.to_owned(),
        ],
        ..Study::default()
    }
}

#[rustfmt::skip]
fn columns() -> Vec<Column> {
    let mut columns = commit_columns();
    columns.extend([
        Column::figure("p50_ratio", Unit::Ratio, Better::Smaller, "vs none", "p50", true),
        Column::figure("p99_ratio", Unit::Ratio, Better::Smaller, "vs none", "p99", true),
        Column::figure("p99_added_ns", Unit::Nanoseconds, Better::Smaller, "vs none", "p99 added", false),
        Column::figure("load_bytes_per_s", Unit::Bytes, Better::Neither, "the load", "per second", true),
        Column::figure("cpu_wait", Unit::Share, Better::Smaller, "CPU wait", "of all", false),
    ]);
    columns
}

fn finish(study: &mut Study) {
    for row in &mut study.rows {
        if let Some(measured) = row.measured_mut() {
            derive(measured);
            let moved = measured.figure("load_bytes").unwrap_or(0.0);
            if moved > 0.0 && measured.elapsed_ns > 0 {
                measured.set("load_bytes_per_s", moved * 1e9 / measured.elapsed_ns as f64);
            }
        }
    }
    let against: Vec<Option<(f64, f64, f64)>> =
        study.rows.iter().map(|row| against_none(study, row)).collect();
    for (row, against) in study.rows.iter_mut().zip(against) {
        if let (Some(measured), Some((p50, p99, added_ns))) = (row.measured_mut(), against) {
            measured.set("p50_ratio", p50);
            measured.set("p99_ratio", p99);
            measured.set("p99_added_ns", added_ns);
        }
    }
}

/// The ratios of the medians and 99th percentiles, round by round, and how much was added to p99 in all.
fn against_none(study: &Study, row: &Row) -> Option<(f64, f64, f64)> {
    let none = study.row(&format!("{}/none", row.group))?;
    if none.id == row.id {
        return None;
    }
    let (none, loaded) = (none.measured()?, row.measured()?);
    let paired = |of: fn(&crate::row::Round) -> u64| {
        let values = |one: &Measured| one.rounds.iter().map(|round| of(round) as f64).collect::<Vec<_>>();
        let (values, base) = (values(loaded), values(none));
        match paired_ratio(&values, &base) {
            Some(ratio) => Some(ratio.estimate),
            None => values.first().zip(base.first()).filter(|(_, base)| **base > 0.0).map(|(a, b)| a / b),
        }
    };
    let at = |one: &Measured| one.latency("commit")?.percentile(99.0).ns().map(|ns| ns as f64);
    Some((paired(|round| round.p50_ns)?, paired(|round| round.p99_ns)?, at(loaded)? - at(none)?))
}

/// What a load does to commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    Harmless,
    /// Measurable by the users of the log, and within what databases ask of a disk.
    Felt,
    /// Beyond what databases ask of a disk, because of the load.
    Harmful,
}

/// From here on p99 has grown by more than a change of hardware or a busy hour would explain.
const FELT_RATIO: f64 = 1.5;
/// Less than this added to p99 disappears in a network round trip, nanoseconds.
const FELT_NS: f64 = 100_000.0;
/// From here on the load, not the disk, decides.
const HARMFUL_RATIO: f64 = 2.0;
/// What etcd asks of p99, and CockroachDB calls good, nanoseconds.
const HARMFUL_NS: f64 = 10_000_000.0;

/// Judges a load: `ratio` is its p99 against `none`'s, `p99_ns` its p99, `added_ns` what it added.
fn effect(ratio: f64, p99_ns: f64, added_ns: f64) -> Effect {
    if ratio >= HARMFUL_RATIO && p99_ns >= HARMFUL_NS {
        Effect::Harmful
    } else if ratio >= FELT_RATIO && added_ns >= FELT_NS {
        Effect::Felt
    } else {
        Effect::Harmless
    }
}

/// What the table says: one finding a method, of its worst load, and one if nothing was felt.
pub fn judge(study: &Study) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut judged = 0;
    for (row, measured) in study.measured() {
        let (Some(ratio), Some(added_ns)) = (measured.figure("p99_ratio"), measured.figure("p99_added_ns"))
        else {
            continue;
        };
        // What the table refuses to show is not judged by either.
        let Some(p99_ns) = measured.latency("commit").and_then(|latency| latency.percentile(99.0).ns())
        else {
            continue;
        };
        judged += 1;
        let (severity, word) = match effect(ratio, p99_ns as f64, added_ns) {
            Effect::Harmless => continue,
            Effect::Felt => (Severity::Note, "is felt"),
            Effect::Harmful => (Severity::Caution, "HARMS commits"),
        };
        findings.push(Finding {
            rule: "interference",
            severity,
            sentence: format!(
                "The load `{}` {word} by {}: p99 is {}, {} times that without it ({} more).",
                row.label,
                row.group,
                duration_ns(p99_ns),
                significant(ratio),
                duration(added_ns)
            ),
            remedy: "Give the journal a device of its own, or bound the other work (io.max of its cgroup, vm.dirty_bytes); `cpu wait` shows whether the CPU was short instead.".to_owned(),
        });
    }
    if findings.is_empty() && judged > 0 {
        findings.push(Finding {
            rule: "interference",
            severity: Severity::Note,
            sentence: "No load was felt by the commits, by ratio and absolute value.".to_owned(),
            remedy: "One thread of load only: a longer or heavier one may still be felt.".to_owned(),
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_needs_both_a_ratio_and_an_absolute_value() {
        let cases = [
            (3.0, 120_000.0, 80_000.0, Effect::Harmless),
            (1.2, 12_000_000.0, 2_000_000.0, Effect::Harmless),
            (3.0, 3_000_000.0, 2_000_000.0, Effect::Felt),
            (1.6, 30_000_000.0, 11_000_000.0, Effect::Felt),
            (2.0, 10_000_000.0, 5_000_000.0, Effect::Harmful),
            (50.0, 50_000_000.0, 49_000_000.0, Effect::Harmful),
        ];
        for (ratio, p99_ns, added_ns, expected) in cases {
            assert_eq!(effect(ratio, p99_ns, added_ns), expected, "{ratio} {p99_ns} {added_ns}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_load_is_judged_against_none_of_the_same_method_round_by_round() {
        use crate::row::{NamedLatency, Round};
        let settings = Settings { methods: vec![Settings::default().methods[0]], ..Settings::default() };
        let mut study = study(&settings);
        for (row, ns) in study.rows.iter_mut().zip([50_000, 1_000_000, 250_000, 70_000]) {
            let Some(measured) = row.measured_mut() else { continue };
            measured.latencies =
                vec![NamedLatency::new("commit", "commit", crate::sample::samples(2_000, ns))];
            // The second round is half as fast, whatever the load.
            measured.rounds = [1, 2]
                .map(|times| Round { p50_ns: ns * times, p99_ns: ns * times, ..Round::default() })
                .to_vec();
            (measured.commits, measured.elapsed_ns) = (2_000, 2_000_000_000);
            measured.set("load_bytes", 1e6);
        }
        finish(&mut study);
        let method = settings.methods[0].id;
        let figure =
            |load: &str, name: &str| study.row(&format!("{method}/{load}"))?.measured()?.figure(name);
        assert_eq!(figure("none", "p99_ratio"), None);
        assert!(figure("buffered", "p99_ratio").is_some_and(|ratio| (ratio - 20.0).abs() < 0.01));
        assert_eq!(figure("reads", "load_bytes_per_s"), Some(5e5));
        let said = judge(&study);
        let felt = |load: &str| said.iter().any(|one| one.sentence.contains(&format!("`{load}` is felt")));
        assert!(felt("buffered") && felt("random") && !felt("reads"), "{said:?}");
    }
}
