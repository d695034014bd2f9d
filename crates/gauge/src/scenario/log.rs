//! Scenario `log`: the log's own workloads, each with a plain loop that does the least that any log must do.
//!
//! ```text
//!   group   floor · bare · W1 · W1g       the same bytes by the same method: turns in random order within a round
//!   ratio   rate of the row / rate of the floor, paired by round, with its 95 % interval
//! ```
//!
//! The rows are those of [`workloads`]; [`super::peers`] runs other logs by the same code.
//!
//! Invariants: a row and its floor run in every round; goals are shown and never change the exit code.

pub mod contest;
mod real;
pub(crate) mod workloads;

use super::group::{self, Sharing};
use super::rounds::{self, Course};
use super::settings::Settings;
use super::{Observer, RunError};
use crate::findings::{Finding, Severity};
use crate::latency::Latency;
use crate::report::columns::shown;
use crate::result::RunResult;
use crate::row::{Measured, Row};
use crate::scenario::commit::tally;
use crate::stats::paired_ratio;
use crate::study::{Better, Column, Fact, Point, Study, Unit};
use crate::testbed::{BlockError, Machine, Testbed};
use contest::Contestant;
use seawall_sys::durability::{FileState, Medium, classify};
use seawall_sys::method::Method;
use seawall_sys::{OpenError, Unavailable, methods};
use workloads::{WORKLOADS, Work};

/// The scenario's name.
pub const NAME: &str = "log";

/// The name of the sum of commits that begin blocks untimed: the CPU's time is that of all.
const UNTIMED_COMMITS: &str = "untimed_commits";

/// A row, and what its block does.
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) what: String,
    pub(crate) group: String,
    pub(crate) work: Work,
    pub(crate) by: &'static Contestant,
    /// Bytes of a commit, an append or all that is read.
    pub(crate) bytes: usize,
    /// Whether it is compared with its floor by bytes, not by operations.
    pub(crate) by_bytes: bool,
    pub(crate) is_floor: bool,
    pub(crate) is_bare: bool,
}

impl Case {
    /// Threads that commit.
    fn threads(&self) -> usize {
        match self.work {
            Work::Waiting(threads) if self.by.shares => threads,
            _ => 1,
        }
    }

    /// Commits that may be served by one flush.
    fn in_flight(&self) -> usize {
        match self.work {
            Work::Outstanding { commits, .. } => commits,
            _ => self.threads(),
        }
    }

    /// Commits of one thread in a slice: as many as write [`real::SLICE_BYTES`] together, in blocks of 4 KiB where a thread
    /// is alone. A log that is never trimmed has no pause.
    fn commits_of_a_slice(&self) -> u64 {
        let threads = self.threads() as u64;
        let each = (self.bytes as u64).max(4096 / threads);
        let bytes = if self.by.grows { real::GROWN_BYTES_MAX } else { real::SLICE_BYTES };
        (bytes / each / threads).max(1)
    }

    fn commits(&self) -> bool {
        matches!(self.work, Work::Waiting(_) | Work::Outstanding { .. } | Work::Transactions(_))
    }
}

/// Space that the files take at most, bytes.
#[must_use]
pub fn needs_bytes(settings: &Settings, _: Option<u64>, _: u64) -> u64 {
    const LOG_BYTES: u64 = 4 * contest::SEGMENT_BYTES as u64;
    let of = |one: &workloads::Workload| match one.work {
        Work::ReadBack { log, .. } => u64::from(log && one.id == "W7") * (one.bytes as u64 + (128 << 20)),
        Work::Append { .. } | Work::Paced => 2 * contest::IN_MEMORY_BYTES,
        Work::Outlive { .. } => 3 * contest::IN_MEMORY_BYTES,
        _ if one.is_floor() => 64 << 20,
        _ if one.by.grows => real::GROWN_BYTES_MAX + LOG_BYTES,
        _ => LOG_BYTES,
    };
    workloads::chosen(&settings.workloads).into_iter().map(of).sum()
}

/// The row of a workload.
fn case(one: &'static workloads::Workload) -> Case {
    Case {
        id: one.id.to_owned(),
        label: one.label.to_owned(),
        what: one.what.to_owned(),
        group: one.group.to_owned(),
        work: one.work,
        by: one.by,
        bytes: one.bytes,
        by_bytes: one.by_bytes,
        is_floor: one.is_floor() && !one.is_bare(),
        is_bare: one.is_bare(),
    }
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
    let cases: Vec<Case> = workloads::chosen(&settings.workloads).into_iter().map(case).collect();
    let study = Study {
        title: "the log beside plain loops of durable writes".to_owned(),
        row_title: "workload".to_owned(),
        notes: vec![
            "floor: a plain loop of durable writes, each of new bytes, by the log's method; bare: the same with a buffer that never changes.".to_owned(),
            format!("Goals of this project for its log, which do not judge the disk: {}.", goals(&settings.workloads)),
        ],
        ..Study::default()
    };
    compete(NAME, settings, (testbed, observer), study, &cases)
}

/// Runs `cases` as the rows of `study`.
pub(crate) fn compete(
    name: &'static str,
    settings: &Settings,
    (testbed, observer): (&mut dyn Testbed, &mut dyn Observer),
    study: Study,
    cases: &[Case],
) -> Result<RunResult, RunError> {
    if testbed.environment(0).file_system.medium == Medium::Memory {
        let reason = "a log that outlives a power cut has no place in memory, --allow-memory or not: name a folder on a disk";
        return Err(RunError::Unavailable(reason.to_owned()));
    }
    let (method, refused) = match testbed.machine() {
        Machine::Real(real) => real.block(|real| real::chosen(real, settings))?,
        Machine::Sim(_) => {
            let none = || RunError::Unavailable("this system has no durable method".to_owned());
            (settings.methods.last().copied().ok_or_else(none)?, None)
        }
    };
    let around = testbed.environment(0).surroundings(FileState::ZeroFilled);
    let calls = |case: &Case| case.by.calls.and_then(methods::find).unwrap_or(method);
    let row = |case: &Case| Row {
        what: case.what.clone(),
        group: case.group.clone(),
        method: case.commits().then(|| calls(case).into()),
        writers: u32::try_from(case.in_flight()).ok(),
        ..Row::waiting(case.id.clone(), case.label.clone())
    };
    let has_bare = cases.iter().any(|case| case.is_bare);
    let mut notes = study.notes;
    notes.push("vs floor: rate by rate of the floor, paired by round, with its 95 % interval; CPU: of the whole process.".to_owned());
    notes.extend(
        refused.map(|reason| format!("The portable engine took over, io_uring is refused: {reason}.")),
    );
    let study = Study {
        settings: vec![Fact::new("method", "method", method.id)],
        columns: columns().into_iter().filter(|column| has_bare || column.key != "vs_bare").collect(),
        rows: cases.iter().map(row).collect(),
        notes,
        ..study
    };
    let course = Course::new(name, settings, 0, study);
    let mut kept = real::Kept::new(settings, method);
    rounds::run(course, testbed, observer, &|study| finish(study, cases), &mut |testbed, turn| {
        let (case, until) = (&cases[turn.index], turn.until);
        let measured = match testbed.machine() {
            Machine::Real(real) => real.block(|real| kept.block(real, (&case.id, case), until))?,
            Machine::Sim(_) => simulated(testbed, case, method, settings, until)?,
        };
        let durability = case.commits().then(|| classify(calls(case), &around));
        Ok(Measured { durability, ..measured })
    })
}

/// A block on a simulated disk, which has commits and neither memory nor files to read.
fn simulated(
    testbed: &mut dyn Testbed,
    case: &Case,
    method: &'static Method,
    settings: &Settings,
    until: crate::testbed::Until<'_>,
) -> Result<Measured, BlockError> {
    if !case.commits() || !(case.by.version.is_empty() || case.by.name == contest::SEAWALL.name) {
        let reason = "a simulated disk runs neither another's log nor what stays in memory: measure a folder";
        return Err(OpenError::Unavailable(Unavailable(reason.to_owned())).into());
    }
    let sharing = if case.by.shares { Sharing::Log } else { Sharing::File };
    let request = group::BlockRequest { sharing, writers: case.in_flight(), method, settings };
    // Its commits are of one block.
    let mut measured = tally(&group::block(testbed, &request, until)?, case.bytes.min(4096) as u64);
    measured.set("cpu_ns", (measured.cpu.user_ns + measured.cpu.system_ns) as f64);
    if let Some(counts) = measured.counts.filter(|_| case.by.shares) {
        measured.set("records", measured.commits as f64);
        measured.set("batches", counts.flushes as f64);
        measured.set("segments_filled", 0.0);
    }
    Ok(measured)
}

fn columns() -> Vec<Column> {
    let figure = |key: &str, unit, better, group: &str, title: &str, essential| {
        Column::figure(key, unit, better, group, title, essential)
    };
    let ratio = |key: &str, better, group: &str, title: &str, essential| {
        figure(key, Unit::Ratio, better, group, title, essential)
    };
    let mut columns = vec![
        figure("per_s", Unit::PerSecond, Better::Larger, "", "per s", true),
        ratio("vs_floor", Better::Larger, "vs floor", "ratio", true),
        ratio("vs_floor_low", Better::Neither, "vs floor", "from", true),
        ratio("vs_floor_high", Better::Neither, "vs floor", "to", true),
    ];
    for (at, title) in [(Point::P50, "p50"), (Point::P99, "p99"), (Point::P999, "p99.9")] {
        columns.push(Column::latency("commit", at, "latency", title, true));
    }
    columns.extend([
        figure("cpu_per_operation_ns", Unit::Nanoseconds, Better::Smaller, "CPU", "of one", true),
        ratio("flushes_per_commit", Better::Neither, "flushes", "a commit", false),
        figure("device_bytes_per_commit", Unit::Bytes, Better::Smaller, "to device", "a commit", false),
        ratio("vs_bare", Better::Larger, "vs bare", "ratio", false),
        ratio("p999_vs_floor", Better::Smaller, "vs floor", "p99.9", false),
        ratio("records_per_batch", Better::Larger, "records", "a batch", false),
        figure("segments_filled", Unit::Count, Better::Smaller, "segments", "filled", false),
        figure("bytes_per_s", Unit::Bytes, Better::Larger, "bytes", "per s", false),
        figure("cpu_wait", Unit::Share, Better::Smaller, "CPU wait", "of all", false),
    ]);
    columns
}

/// What a row did in each round, by its number: operations a second, or bytes.
fn rates(row: &Row, case: &Case) -> Vec<(u32, f64)> {
    let each = if case.by_bytes { case.bytes as f64 } else { 1.0 };
    let rounds = row.measured().map_or(&[][..], |measured| &measured.rounds);
    let rate = |round: &crate::row::Round| round.commits as f64 * each * 1e9 / round.elapsed_ns.max(1) as f64;
    rounds.iter().map(|round| (round.round, rate(round))).collect()
}

fn finish(study: &mut Study, cases: &[Case]) {
    let rates: Vec<Vec<(u32, f64)>> =
        study.rows.iter().zip(cases).map(|(row, case)| rates(row, case)).collect();
    let p999 = |latency: &Latency| latency.percentile(99.9).ns().map(|ns| ns as f64);
    let tails: Vec<Option<f64>> =
        study.rows.iter().map(|row| row.measured().and_then(|measured| p999(measured.main()))).collect();
    for (index, case) in cases.iter().enumerate() {
        let Some(measured) = study.rows[index].measured_mut() else { continue };
        derive(measured, case);
        let other = |is: fn(&Case) -> bool| {
            cases.iter().position(|one| one.group == case.group && is(one)).filter(|other| *other != index)
        };
        let ratio = |other: usize| {
            let pair = |(round, rate): &(u32, f64)| {
                let base = rates[other].iter().find(|(other, _)| other == round)?;
                Some((*rate, base.1))
            };
            let (own, base): (Vec<f64>, Vec<f64>) = rates[index].iter().filter_map(pair).unzip();
            let single = || own.first().zip(base.first()).map(|(own, base)| [own / base; 3]);
            let several = paired_ratio(&own, &base);
            several.map_or_else(
                || single().map(|[ratio, ..]| [Some(ratio), None, None]),
                |ratio| Some([Some(ratio.estimate), Some(ratio.low), Some(ratio.high)]),
            )
        };
        let of_floor = other(|one| one.is_floor).filter(|_| !case.is_bare);
        for (key, value) in ["vs_floor", "vs_floor_low", "vs_floor_high"]
            .into_iter()
            .zip(of_floor.and_then(ratio).into_iter().flatten())
        {
            if let Some(value) = value {
                measured.set(key, value);
            }
        }
        if let Some([Some(to_bare), ..]) = other(|one| one.is_bare).filter(|_| !case.is_floor).and_then(ratio)
        {
            measured.set("vs_bare", to_bare);
        }
        if let Some((own, floor)) = tails[index].zip(of_floor.and_then(|floor| tails[floor])) {
            measured.set("p999_vs_floor", own / floor);
        }
    }
}

/// The figures that follow from a row's sums.
fn derive(measured: &mut Measured, case: &Case) {
    let operations: u64 = measured.rounds.iter().map(|round| round.commits).sum();
    let elapsed_ns: u64 = measured.rounds.iter().map(|round| round.elapsed_ns).sum();
    if operations == 0 || elapsed_ns == 0 {
        return;
    }
    let per_s = operations as f64 * 1e9 / elapsed_ns as f64;
    measured.set("per_s", per_s);
    measured.set("bytes_per_s", per_s * case.bytes as f64);
    if let Some(cpu_ns) = measured.figure("cpu_ns") {
        let all = operations as f64 + measured.figure(UNTIMED_COMMITS).unwrap_or(0.0);
        measured.set("cpu_per_operation_ns", cpu_ns / all);
    }
    if let Some((records, batches)) = measured.figure("records").zip(measured.figure("batches")) {
        measured.set("records_per_batch", records / batches.max(1.0));
    }
    if let Some(counts) = measured.counts.filter(|_| case.commits()) {
        measured.set("flushes_per_commit", counts.flushes as f64 / operations as f64);
        measured.set("device_bytes_per_commit", counts.sectors as f64 * 512.0 / operations as f64);
    }
    if let Some(wait_ns) = measured.cpu.wait_ns {
        measured.set("cpu_wait", wait_ns as f64 / (elapsed_ns as f64 * case.threads() as f64));
    }
}

/// A goal in words: the column, and what is to be reached in it.
fn goal(column: &Column, bound: f64) -> String {
    let side = if column.better == Better::Larger { "at least" } else { "at most" };
    format!(
        "{} {side} {}",
        named(column),
        shown(crate::study::Value { value: bound, uncertain: false }, column.unit)
    )
}

fn named(column: &Column) -> String {
    format!("{} {}", column.group, column.title).trim().to_owned()
}

/// The goals of the workloads that run, in words.
fn goals(workloads: &[String]) -> String {
    let columns = columns();
    let words = |one: &&workloads::Workload| {
        let goals = one.goals.iter().filter_map(|(key, bound)| {
            let column = columns.iter().find(|column| column.key == *key)?;
            Some(goal(column, *bound))
        });
        (!one.goals.is_empty()).then(|| format!("{} {}", one.id, goals.collect::<Vec<_>>().join(" and ")))
    };
    workloads::chosen(workloads).iter().filter_map(words).collect::<Vec<_>>().join("; ")
}

/// What the table says: which goals of this project are missed.
#[must_use]
pub fn judge(study: &Study) -> Vec<Finding> {
    let (mut missed, mut judged) = (Vec::new(), 0_u32);
    for (one, row) in WORKLOADS.iter().filter_map(|one| Some((one, study.row(one.id)?))) {
        for (key, bound) in one.goals {
            let Some(column) = study.columns.iter().find(|column| column.key == *key) else { continue };
            let Some(value) = Study::value(row, column) else { continue };
            judged += 1;
            let larger = column.better == Better::Larger;
            if if larger { value.value < *bound } else { value.value > *bound } {
                missed.push(format!("{} {} ({})", one.id, shown(value, column.unit), goal(column, *bound)));
            }
        }
    }
    let sentence = match (missed.len(), judged) {
        (_, 0) => return Vec::new(),
        (0, judged) => format!("The log meets all {judged} goals of this project that were measured."),
        (count, judged) => {
            format!(
                "The log misses {count} of the {judged} goals of this project that were measured: {}.",
                missed.join("; ")
            )
        }
    };
    let remedy = "Goals are this project's for its log, on a quiet machine: they do not judge the disk.";
    vec![Finding { rule: "log-goals", severity: Severity::Note, sentence, remedy: remedy.to_owned() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A study of one row with these figures.
    fn judged(id: &str, figures: &[(&str, f64)]) -> Vec<String> {
        let mut row = Row::waiting(id, id);
        if let Some(measured) = row.measured_mut() {
            for (key, value) in figures {
                measured.set(key, *value);
            }
        }
        let study = Study { columns: columns(), rows: vec![row], ..Study::default() };
        judge(&study).into_iter().map(|finding| finding.sentence).collect()
    }

    #[test]
    fn every_goal_that_is_missed_is_named_and_no_other() {
        let met = |goals| format!("The log meets all {goals} goals of this project that were measured.");
        assert_eq!(judged("W1", &[("vs_floor", 0.95), ("p999_vs_floor", 1.0)]), [met(2)]);
        let missed = |of: u32, what: &str| {
            let count = what.split("; ").count();
            format!("The log misses {count} of the {of} goals of this project that were measured: {what}.")
        };
        assert_eq!(
            judged("W1", &[("vs_floor", 0.94), ("p999_vs_floor", 1.1)]),
            [missed(2, "W1 0.94 (vs floor ratio at least 0.95); W1 1.10 (vs floor p99.9 at most 1.00)")]
        );
        assert_eq!(
            judged("W4", &[("vs_floor", 20.0), ("cpu_per_operation_ns", 9500.0)]),
            [missed(2, "W4 9.50µs (CPU of one at most 9.00µs)")]
        );
        assert_eq!(judged("W1", &[]), Vec::<String>::new(), "what was not measured is not judged");
        assert_eq!(judged("W2", &[("vs_floor", 1.2)]), [met(1)]);
        assert_eq!(judged("W1g", &[("vs_floor", 0.2)]), Vec::<String>::new(), "it has no goal");
    }

    #[test]
    fn no_slice_writes_more_than_its_share_of_a_segment() {
        for one in WORKLOADS.iter().filter(|one| matches!(one.work, Work::Waiting(_) | Work::Transactions(_)))
        {
            let case = case(one);
            let bytes = case.commits_of_a_slice() * case.bytes as u64 * case.threads() as u64;
            let most = if case.by.grows { real::GROWN_BYTES_MAX } else { real::SLICE_BYTES };
            assert!(bytes <= most, "{}", one.id);
        }
        assert!(real::SLICE_BYTES * 4 <= contest::SEGMENT_BYTES.into());
    }

    #[test]
    fn every_goal_is_of_a_column() {
        let columns = columns();
        let known =
            |key: &str| columns.iter().any(|column| column.key == key && column.better != Better::Neither);
        assert!(WORKLOADS.iter().flat_map(|one| one.goals).all(|(key, _)| known(key)));
    }
}
