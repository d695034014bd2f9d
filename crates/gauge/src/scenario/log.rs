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

mod reading;
mod real;
mod streams;
pub(crate) mod workloads;

use super::rounds::{self, Course};
use super::settings::Settings;
use super::{Observer, RunError};
use crate::findings::{Finding, Severity};
use crate::latency::Latency;
use crate::report::columns::shown;
use crate::result::RunResult;
use crate::row::{Measured, Row};
use crate::stats::paired_ratio;
use crate::study::{Better, Column, Fact, Point, Study, Unit};
use crate::testbed::Testbed;
use contest::Contestant;
use seawall_sys::durability::{FileState, Medium, classify};
use seawall_sys::methods;
use workloads::{Base, READ_RECORD_BYTES, WORKLOADS, Work};

/// The scenario's name.
pub const NAME: &str = "log";

/// The name of the sum of commits that begin blocks untimed: the CPU's time is that of all.
const UNTIMED_COMMITS: &str = "untimed_commits";

/// Sums over the blocks of a row, so that their means are figures: what opening took of memory, threads and descriptors,
/// and the memory of an idle stream.
const MEANS: [(&str, &str); 4] = [
    ("resident_bytes_sum", "resident_bytes"),
    ("threads_sum", "threads"),
    ("descriptors_sum", "descriptors"),
    ("memory_per_stream_sum", "memory_per_stream_bytes"),
];
/// The first three of them in a row by those of its base.
const OF_BASE: [(&str, &str); 3] = [
    ("resident_bytes", "memory_vs_base"),
    ("threads", "threads_vs_base"),
    ("descriptors", "descriptors_vs_base"),
];
/// What a thread measured whose commits run beside something else, and without it.
const MEANWHILE: (&str, &str) = ("meanwhile", "commits while a follower catches up");
const ALONE: (&str, &str) = ("alone", "the same commits without it");

pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) what: String,
    pub(crate) group: String,
    pub(crate) work: Work,
    pub(crate) by: &'static Contestant,
    pub(crate) bytes: usize,
    /// Whether it is compared with its floor by bytes, not by operations.
    pub(crate) by_bytes: bool,
    pub(crate) is_floor: bool,
    pub(crate) is_bare: bool,
    pub(crate) base: Base,
}

impl Case {
    fn threads(&self) -> usize {
        self.work.waiting().filter(|_| self.by.shares).map_or(1, |(threads, _)| threads)
    }

    fn streams(&self) -> u32 {
        self.work.waiting().filter(|_| self.by.has_streams).map_or(0, |(_, streams)| streams)
    }

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

    fn is_compared(&self) -> bool {
        matches!(self.base, Base::Row(_))
    }

    fn is_other_log(&self) -> bool {
        !self.by.version.is_empty() && ![contest::SEAWALL.name, contest::APART.name].contains(&self.by.name)
    }

    fn commits(&self) -> bool {
        self.work.waiting().is_some() || matches!(self.work, Work::Outstanding { .. } | Work::Transactions(_))
    }
}

/// Space that the files take at most, bytes.
pub fn needs_bytes(settings: &Settings, _: Option<u64>, _: u64) -> u64 {
    const LOG_BYTES: u64 = 4 * contest::SEGMENT_BYTES as u64;
    let chosen = workloads::chosen(&settings.workloads);
    let of = |one: &&workloads::Workload| match one.work {
        Work::ReadBack { .. } | Work::Points { .. } | Work::CatchUp { .. } | Work::Open { .. } => 0,
        Work::Append { .. } | Work::Paced => 2 * contest::IN_MEMORY_BYTES,
        Work::Outlive(_) => 3 * contest::IN_MEMORY_BYTES,
        _ if one.is_floor() => 64 << 20,
        _ if one.by.grows => real::GROWN_BYTES_MAX + LOG_BYTES,
        _ if one.by.name == contest::APART.name => 4 * LOG_BYTES,
        _ => LOG_BYTES,
    };
    // Those that read share two logs: one that is closed between the blocks, and one with streams.
    let read = [
        |work| matches!(work, Work::ReadBack { .. }),
        |work| matches!(work, Work::Points { .. } | Work::CatchUp { .. } | Work::Open { .. }),
    ];
    let kept = read.into_iter().filter(|of: &fn(Work) -> bool| chosen.iter().any(|one| of(one.work))).count();
    // With headers, and what is committed beside a follower.
    let read_bytes = settings.log_bytes + settings.log_bytes / 8 + reading::GROWN_BYTES_MAX + LOG_BYTES;
    chosen.iter().map(of).sum::<u64>() + kept as u64 * read_bytes
}

fn case(one: &'static workloads::Workload, settings: &Settings) -> Case {
    // Of whole records.
    let read =
        usize::try_from(settings.log_bytes).unwrap_or(usize::MAX) / READ_RECORD_BYTES * READ_RECORD_BYTES;
    Case {
        id: one.id.to_owned(),
        label: one.label.to_owned(),
        what: one.what.to_owned(),
        group: one.group.to_owned(),
        work: one.work,
        by: one.by,
        bytes: if one.work.reads_all() { read } else { one.bytes },
        by_bytes: one.by_bytes,
        is_floor: one.is_floor() && !one.is_bare(),
        is_bare: one.is_bare(),
        base: one.base,
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
    let cases: Vec<Case> =
        workloads::chosen(&settings.workloads).into_iter().map(|one| case(one, settings)).collect();
    let study = Study {
        title: "the log beside plain loops of durable writes".to_owned(),
        row_title: "workload".to_owned(),
        notes: [
            Some("floor: a plain loop of durable writes, each of new bytes, by the log's method; bare: the same with a buffer that never changes.".to_owned()),
            bases(&cases).map(|bases| format!("vs base: {bases}.")),
            Some(format!("Goals of this project for its log, which do not judge the disk: {}.", goals(&settings.workloads))),
        ]
        .into_iter()
        .flatten()
        .collect(),
        ..Study::default()
    };
    compete(NAME, settings, (testbed, observer), study, &cases)
}

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
    let (method, refused) = testbed.real()?.block(|real| real::chosen(real, settings))?;
    let around = testbed.environment(0).surroundings(FileState::ZeroFilled);
    let calls = |case: &Case| case.by.calls.and_then(methods::find).unwrap_or(method);
    let row = |case: &Case| Row {
        what: case.what.clone(),
        group: case.group.clone(),
        method: case.commits().then(|| calls(case).into()),
        writers: u32::try_from(case.in_flight()).ok(),
        ..Row::waiting(case.id.clone(), case.label.clone())
    };
    let mut notes = study.notes;
    notes.push("vs floor: rate by rate of the floor, paired by round, with its 95 % interval; CPU: of the whole process.".to_owned());
    notes.extend(
        refused.map(|reason| format!("The portable engine took over, io_uring is refused: {reason}.")),
    );
    let study = Study {
        settings: vec![Fact::new("method", "method", method.id)],
        columns: columns().into_iter().filter(|column| is_shown(column, cases)).collect(),
        rows: cases.iter().map(row).collect(),
        notes,
        ..study
    };
    let course = Course::new(name, settings, 0, study);
    let mut kept = real::Kept::new(settings, method);
    rounds::run(course, testbed, observer, &|study| finish(study, cases), &mut |testbed, turn| {
        let (case, until) = (&cases[turn.index], turn.until);
        let measured = testbed.real()?.block(|real| kept.block(real, (&case.id, case), until))?;
        let durability = case.commits().then(|| classify(calls(case), &around));
        Ok(Measured { durability, ..measured })
    })
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
        ratio("vs_base", Better::Larger, "vs base", "ratio", false),
        ratio("p99_vs_alone", Better::Smaller, "vs alone", "p99", false),
        ratio("flushes_per_commit", Better::Neither, "flushes", "a commit", false),
        figure("device_bytes_per_commit", Unit::Bytes, Better::Smaller, "to device", "a commit", false),
        ratio("vs_bare", Better::Larger, "vs bare", "ratio", false),
        ratio("p999_vs_floor", Better::Smaller, "vs floor", "p99.9", false),
        ratio("records_per_batch", Better::Larger, "records", "a batch", false),
        figure("segments_filled", Unit::Count, Better::Smaller, "segments", "filled", false),
        figure("bytes_per_s", Unit::Bytes, Better::Larger, "bytes", "per s", false),
        figure("cpu_wait", Unit::Share, Better::Smaller, "CPU wait", "of all", false),
        figure("resident_bytes", Unit::Bytes, Better::Smaller, "open", "memory", false),
        figure("threads", Unit::Count, Better::Smaller, "open", "threads", false),
        figure("descriptors", Unit::Count, Better::Smaller, "open", "files", false),
        ratio("memory_vs_base", Better::Smaller, "vs base", "memory", false),
        ratio("threads_vs_base", Better::Smaller, "vs base", "threads", false),
        ratio("descriptors_vs_base", Better::Smaller, "vs base", "files", false),
        figure("memory_per_stream_bytes", Unit::Bytes, Better::Smaller, "idle stream", "memory", false),
    ]);
    columns
}

/// Whether a column is shown: whether one of the rows can have a value in it.
fn is_shown(column: &Column, cases: &[Case]) -> bool {
    let any = |is: fn(&Case) -> bool| cases.iter().any(is);
    match column.key.as_str() {
        "vs_bare" => any(|case| case.is_bare),
        "vs_base" => any(Case::is_compared) || any(Case::is_other_log),
        "p99_vs_alone" => any(|case| matches!(case.work, Work::CatchUp { .. })),
        "memory_per_stream_bytes" => any(|case| case.streams() > 0),
        key if OF_BASE.iter().any(|(figure, _)| *figure == key) => any(Case::commits),
        // A row that commits is compared with one that does.
        key if OF_BASE.iter().any(|(_, ratio)| *ratio == key) => {
            any(|case| case.is_compared() && case.commits()) || any(Case::is_other_log)
        }
        _ => true,
    }
}

/// What a row did in each round, by its number: operations a second, or bytes.
fn rates(row: &Row, case: &Case) -> Vec<(u32, f64)> {
    let each = if case.by_bytes { case.bytes as f64 } else { 1.0 };
    let rounds = row.measured().map_or(&[][..], |measured| &measured.rounds);
    let rate = |round: &crate::row::Round| round.commits as f64 * each * 1e9 / round.elapsed_ns.max(1) as f64;
    rounds.iter().map(|round| (round.round, rate(round))).collect()
}

/// The rate of a row by that of another, paired by round: estimate and 95 % interval; of one round there is no interval.
fn ratio(own: &[(u32, f64)], base: &[(u32, f64)]) -> Option<[Option<f64>; 3]> {
    let pair = |(round, rate): &(u32, f64)| {
        let base = base.iter().find(|(other, _)| other == round)?;
        Some((*rate, base.1))
    };
    let (own, base): (Vec<f64>, Vec<f64>) = own.iter().filter_map(pair).unzip();
    let single = || own.first().zip(base.first()).map(|(own, base)| [Some(own / base), None, None]);
    let several = paired_ratio(&own, &base);
    several.map_or_else(single, |ratio| Some([Some(ratio.estimate), Some(ratio.low), Some(ratio.high)]))
}

/// The row that `case` is compared with besides its floor.
fn base_of(study: &Study, cases: &[Case], case: &Case) -> Option<usize> {
    let per_s = |at: &usize| study.rows[*at].measured().and_then(|measured| measured.figure("per_s"));
    match case.base {
        Base::None => None,
        Base::Row(id) => cases.iter().position(|one| one.id == id),
        Base::OtherLog => {
            let is_other = |one: &Case| one.group == case.group && one.id != case.id && !one.is_floor;
            let others = (0..cases.len()).filter(|at| is_other(&cases[*at]));
            others.max_by(|one, other| per_s(one).unwrap_or(0.0).total_cmp(&per_s(other).unwrap_or(0.0)))
        }
    }
}

fn finish(study: &mut Study, cases: &[Case]) {
    let rates: Vec<Vec<(u32, f64)>> =
        study.rows.iter().zip(cases).map(|(row, case)| rates(row, case)).collect();
    let p999 = |latency: &Latency| latency.percentile(99.9).ns().map(|ns| ns as f64);
    let tails: Vec<Option<f64>> =
        study.rows.iter().map(|row| row.measured().and_then(|measured| p999(measured.main()))).collect();
    for (row, case) in study.rows.iter_mut().zip(cases) {
        if let Some(measured) = row.measured_mut() {
            derive(measured, case);
        }
    }
    for (index, case) in cases.iter().enumerate() {
        let base = base_of(study, cases, case);
        let base_figures = base.and_then(|base| Some(study.rows[base].measured()?.figures.clone()));
        let Some(measured) = study.rows[index].measured_mut() else { continue };
        let other = |is: fn(&Case) -> bool| {
            cases.iter().position(|one| one.group == case.group && is(one)).filter(|other| *other != index)
        };
        let to = |other: usize| ratio(&rates[index], &rates[other]);
        let of_floor = other(|one| one.is_floor).filter(|_| !case.is_bare);
        for (key, value) in ["vs_floor", "vs_floor_low", "vs_floor_high"]
            .into_iter()
            .zip(of_floor.and_then(to).into_iter().flatten())
        {
            if let Some(value) = value {
                measured.set(key, value);
            }
        }
        let to_bare = other(|one| one.is_bare).filter(|_| !case.is_floor).and_then(to);
        for (key, ratio) in [("vs_bare", to_bare), ("vs_base", base.and_then(to))] {
            if let Some([Some(ratio), ..]) = ratio {
                measured.set(key, ratio);
            }
        }
        if let Some((own, floor)) = tails[index].zip(of_floor.and_then(|floor| tails[floor])) {
            measured.set("p999_vs_floor", own / floor);
        }
        for (figure, key) in OF_BASE {
            let of_base = base_figures.iter().flatten().find(|one| one.name == figure).map(|one| one.value);
            if let Some((own, base)) = measured.figure(figure).zip(of_base).filter(|(_, base)| *base > 0.0) {
                measured.set(key, own / base);
            }
        }
    }
}

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
    for (sum, mean) in MEANS {
        if let Some(sum) = measured.figure(sum) {
            measured.set(mean, sum / measured.rounds.len() as f64);
        }
    }
    let p99 = |(name, _): (&str, &str)| measured.latency(name)?.percentile(99.0).ns();
    if let Some((meanwhile, alone)) = p99(MEANWHILE).zip(p99(ALONE)) {
        measured.set("p99_vs_alone", meanwhile as f64 / alone.max(1) as f64);
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

/// What rows are compared with besides their floors, in words.
fn bases(cases: &[Case]) -> Option<String> {
    let words = cases.iter().filter_map(|case| match case.base {
        Base::Row(base) => Some(format!("{} by {base}", case.id)),
        Base::None | Base::OtherLog => None,
    });
    let words = words.collect::<Vec<_>>().join(", ");
    (!words.is_empty()).then_some(words)
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
    let goals = Finding { rule: "log-goals", severity: Severity::Note, sentence, remedy: remedy.to_owned() };
    [goals].into_iter().chain(of_streams(study)).collect()
}

/// What streams take, in words: columns that a terminal has no room for.
fn of_streams(study: &Study) -> Option<Finding> {
    let figure = |id: &str, key: &str| study.row(id)?.measured()?.figure(key);
    let of_16 = |key: &str| figure("W11", key).map(|share| format!("{share:.2}"));
    let idle = figure("W9", "memory_per_stream_bytes");
    let idle = idle.map(|bytes| format!("an idle stream takes {bytes:.0} B of memory (W9)"));
    let parts = OF_BASE.map(|(_, key)| of_16(key));
    let shared = match parts {
        [Some(memory), Some(threads), Some(files)] => Some(format!(
            "one log of 16 streams takes {memory} of the memory, {threads} of the threads and {files} of the descriptors of 16 logs (W11)"
        )),
        _ => None,
    };
    let said: Vec<String> = idle.into_iter().chain(shared).collect();
    (!said.is_empty()).then(|| Finding {
        rule: "log-streams",
        severity: Severity::Note,
        sentence: format!("Streams: {}.", said.join("; ")),
        remedy: "Read them beside the goals: at most 512 B, and a tenth of each.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Round;

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
        assert_eq!(judged("W9", &[("vs_base", 0.96)]), [met(1)]);
        assert_eq!(
            judged("W9", &[("vs_base", 0.9), ("memory_per_stream_bytes", 600.0)]),
            [
                missed(
                    2,
                    "W9 0.90 (vs base ratio at least 0.95); W9 600 B (idle stream memory at most 512 B)"
                ),
                "Streams: an idle stream takes 600 B of memory (W9).".to_owned()
            ]
        );
        let shares = [("memory_vs_base", 0.07), ("threads_vs_base", 0.09), ("descriptors_vs_base", 0.11)];
        assert_eq!(
            judged("W11", &shares),
            [
                missed(3, "W11 0.11 (vs base files at most 0.10)"),
                "Streams: one log of 16 streams takes 0.07 of the memory, 0.09 of the threads and 0.11 of the descriptors of 16 logs (W11).".to_owned()
            ]
        );
        assert_eq!(judged("W1", &[]), Vec::<String>::new(), "what was not measured is not judged");
        assert_eq!(judged("W2", &[("vs_floor", 1.2)]), [met(1)]);
        assert_eq!(judged("W1g", &[("vs_floor", 0.2)]), Vec::<String>::new(), "it has no goal");
    }

    #[test]
    fn a_row_is_compared_with_its_base_round_by_round_and_in_peers_with_the_fastest_other_log() {
        let row = |id: &str, per_round: [u64; 2], resident: f64| {
            let round =
                |round: u32, commits| Round { round, elapsed_ns: 1_000_000_000, commits, ..Round::default() };
            let mut row = Row::waiting(id, id);
            if let Some(measured) = row.measured_mut() {
                measured.set(MEANS[0].0, 2.0 * resident);
                measured.rounds = vec![round(0, per_round[0]), round(1, per_round[1])];
            }
            row
        };
        let find = |id: &str| WORKLOADS.iter().find(|one| one.id == id).expect("a row");
        let mut cases = ["W4", "W9", "W3"].map(|id| case(find(id), &Settings::default()));
        let rows = vec![row("W4", [100, 400], 50.0), row("W9", [50, 800], 5.0), row("W3", [1, 1], 1.0)];
        let mut study = Study { columns: columns(), rows, ..Study::default() };
        let figure = |study: &Study, id, key| study.row(id).and_then(|row| row.measured()?.figure(key));
        finish(&mut study, &cases);
        // Half in one round and twice as much in the other.
        assert!(figure(&study, "W9", "vs_base").is_some_and(|ratio| (ratio - 1.0).abs() < 1e-9));
        assert!(figure(&study, "W9", "memory_vs_base").is_some_and(|share| (share - 0.1).abs() < 1e-9));
        assert_eq!(figure(&study, "W4", "vs_base"), None);
        cases[2].base = Base::OtherLog;
        finish(&mut study, &cases);
        assert!(
            figure(&study, "W3", "memory_vs_base").is_some_and(|share| (share - 0.2).abs() < 1e-9),
            "by W9's"
        );
    }

    #[test]
    fn commits_beside_a_follower_are_compared_with_those_without_it() {
        let one = WORKLOADS.iter().find(|one| one.id == "W12").expect("a row");
        let latency = |ns| {
            let mut latency = Latency::new();
            (0..5000).for_each(|_| latency.record(ns));
            latency
        };
        let named = |(name, title), ns| crate::row::NamedLatency::new(name, title, latency(ns));
        let mut measured = Measured {
            latencies: vec![named(("commit", ""), 1_000_000), named(MEANWHILE, 90_000), named(ALONE, 60_000)],
            ..Measured::default()
        };
        let case = case(one, &Settings::default());
        measured.rounds.push(Round { elapsed_ns: 1_000_000, commits: 1, ..Round::default() });
        derive(&mut measured, &case);
        assert!(measured.figure("p99_vs_alone").is_some_and(|ratio| (ratio - 1.5).abs() < 0.01));
        assert!(
            measured
                .figure("bytes_per_s")
                .is_some_and(|rate| (rate - 1000.0 * f64::from(1 << 30)).abs() < 1.0)
        );
    }

    #[test]
    fn no_slice_writes_more_than_its_share_of_a_segment() {
        let commits = |work: Work| work.waiting().is_some() || matches!(work, Work::Transactions(_));
        for one in WORKLOADS.iter().filter(|one| commits(one.work)) {
            let case = case(one, &Settings::default());
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
