//! Runs the `path` scenario's rows on JVMs and natively, in memory, past the cache and durably.
//!
//! ```text
//!   settings.jvms ── one description a JVM: its rows, and why one cannot run
//!   rows          ── pace × (into memory | past the cache | durable) × (native, then each JVM)
//!   a block       ── native: this process; else the JVM that was started, through a Machine
//! ```
//!
//! Rows of JVMs and native ones take turns in the same rounds, on files made the same way. A JVM's row names the
//! native one that makes the same calls: it has the class of the native row and is compared with it.
//!
//! Invariants: warm-up rounds write without pauses, so that the JVM has compiled the timed code; after each block
//! everything is at rest; a row that cannot run states the reason, and a durable row is not run where no row is
//! durable.

mod analysis;
mod real;
mod sim;

pub use analysis::judge;

use super::super::rounds::{self, Course, RunBlock};
use super::super::settings::Settings;
use super::super::{Observer, RunError};
use super::{FILE_BYTES, NAME, NativeWrite, PACES, Pace, Trace};
use crate::figures::{bytes, duration_ns, significant};
use crate::result::RunResult;
use crate::row::{Outcome, Row};
use crate::study::{Fact, Study};
use crate::testbed::{self, Testbed, Until};
use seawall_sys::durability::{Durability, FileState, Medium, classify};
use seawall_sys::write_call::WriteCall;
use seawall_sys::{OpenError, methods};
use std::path::PathBuf;

/// Time of a run with JVMs by default, nanoseconds: it has some 150 rows.
pub const TIME_NS: u64 = 150_000_000_000;

/// Counted iterations by default.
pub const ROUNDS: u32 = 30;

/// Iterations before those.
pub const WARM_UP: u32 = 5;

/// On a schedule, durable writes are this many times as far apart: at the interval of writes into memory they would only
/// queue.
pub const DURABLE_INTERVALS: u64 = 10;

/// A JVM that writes too.
#[derive(Debug, Clone, PartialEq)]
pub struct Jvm {
    /// Short, unique, in front of its rows' names, such as `17`.
    pub label: String,
    /// What it is, for people, such as `17.0.15, Eclipse Adoptium, OpenJDK 64-Bit Server VM, G1`.
    pub words: String,
    /// What a reading of its clock costs, nanoseconds, if it runs.
    pub clock_ns: Option<f64>,
    /// Its rows, in the order of the table.
    pub rows: Vec<JvmRow>,
}

/// A way in which a JVM writes.
#[derive(Debug, Clone, PartialEq)]
pub struct JvmRow {
    /// Stable name.
    pub id: String,
    /// The native row that makes the same calls.
    pub like: String,
    /// How its file is made.
    pub shape: Shape,
    /// Whether it promises to allocate nothing once it is compiled.
    pub allocates_nothing: bool,
    /// What it does, for people.
    pub what: String,
    /// Why it cannot run, with the remedy.
    pub not_available: Option<String>,
}

/// How the file of a row is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Filled, and overwritten in place.
    Fixed,
    /// Empty, and growing.
    Growing,
    /// Filled, and overwritten past the cache.
    Aligned,
}

/// What a JVM's block is to do.
#[derive(Debug, Clone, Copy)]
pub struct BlockRequest<'a> {
    /// Index into [`Settings::jvms`].
    pub machine: usize,
    /// The way of writing.
    pub row: &'a JvmRow,
    /// When the next write begins; `None`: at once, to warm up.
    pub pace: Option<Pace>,
    /// From write to write, nanoseconds.
    pub interval_ns: u64,
    /// Size of a write.
    pub bytes: usize,
    /// Size of the writes that fill the file.
    pub fill_bytes: u64,
}

/// A JVM that was started.
pub trait Machine {
    /// Runs a block on `files`, which exist, are `file_bytes` long unless they grow, and are taken in turn.
    ///
    /// # Errors
    /// Unavailable, with the reason, or the failed call.
    fn write(
        &mut self,
        request: &BlockRequest<'_>,
        file_bytes: u64,
        files: &[PathBuf],
        until: Until<'_>,
    ) -> Result<Trace, OpenError>;
}

/// The JVMs of a run, attached to its testbed, in the order of [`Settings::jvms`]; none where one could not be started.
pub struct StartedJvms(pub Vec<Option<Box<dyn Machine>>>);

/// One row of the table.
#[derive(Clone, Copy)]
enum Case<'a> {
    Native(Pace, NativeWrite),
    Jvm(Pace, usize, &'a JvmRow),
}

/// How far a row's writes go; rows are grouped by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Memory,
    PastTheCache,
    Durable,
}

const DEPTHS: [(Depth, &str); 3] = [
    (Depth::Memory, "into memory"),
    (Depth::PastTheCache, "past the cache, nothing flushed"),
    (Depth::Durable, "durable"),
];

/// The native way of that name on this system.
fn native(id: &str) -> Option<NativeWrite> {
    let call = WriteCall::ALL.into_iter().find(|call| call.id() == id).map(NativeWrite::Call);
    call.or_else(|| methods::find(id).map(NativeWrite::Commit))
}

/// How far the native way of that name reaches; what this system does not have is taken by its name.
fn depth(like: &str) -> Depth {
    match native(like) {
        Some(NativeWrite::Commit(method)) if method.reach().letter() == 'D' => Depth::Durable,
        Some(NativeWrite::Commit(method)) if method.needs_alignment() => Depth::PastTheCache,
        Some(_) => Depth::Memory,
        None => Depth::Durable,
    }
}

/// The native rows to compare with: every way into memory, then those that a JVM's row is like, in its order.
fn floors(jvms: &[Jvm]) -> Vec<NativeWrite> {
    let mut found: Vec<NativeWrite> = WriteCall::ALL.map(NativeWrite::Call).to_vec();
    for row in jvms.iter().flat_map(|jvm| &jvm.rows) {
        if let Some(way @ NativeWrite::Commit(_)) = native(&row.like)
            && found.iter().all(|known| known.id() != way.id())
        {
            found.push(way);
        }
    }
    found
}

/// Pace by pace, depth by depth: natives, then the ways in the order of the table, JVMs side by side.
fn cases(jvms: &[Jvm]) -> Vec<(Depth, Case<'_>)> {
    let floors = floors(jvms);
    let rows_max = jvms.iter().map(|jvm| jvm.rows.len()).max().unwrap_or(0);
    let mut cases = Vec::new();
    for (pace, ..) in PACES {
        for (depth_of_group, _) in DEPTHS {
            let here = |id: &str| depth(id) == depth_of_group;
            let natives = floors.iter().filter(|way| here(way.id())).map(|way| Case::Native(pace, *way));
            let by_row = (0..rows_max).flat_map(|at| {
                let machines = jvms.iter().enumerate();
                machines.filter_map(move |(machine, jvm)| Some(Case::Jvm(pace, machine, jvm.rows.get(at)?)))
            });
            let own = by_row.filter(|case| matches!(case, Case::Jvm(.., row) if here(&row.like)));
            cases.extend(natives.chain(own).map(|case| (depth_of_group, case)));
        }
    }
    cases
}

/// Runs the scenario with `jvms`.
pub(super) fn run(
    settings: &Settings,
    jvms: &[Jvm],
    testbed: &mut dyn Testbed,
    observer: &mut dyn Observer,
) -> Result<RunResult, RunError> {
    let cases = cases(jvms);
    let study = study(settings, jvms, &cases, testbed);
    let classes: Vec<Option<Durability>> = cases.iter().map(|(_, case)| class(case, testbed)).collect();
    let mut warmed = vec![0; cases.len()];
    let native_of = native_of(&cases, &study);
    let course = Course::new(NAME, settings, FILE_BYTES, study);
    let finish = move |study: &mut Study| analysis::finish(study, &native_of);
    let block: RunBlock<'_> = &mut |testbed, turn| {
        let (index, until) = (turn.index, turn.until);
        let (depth, case) = cases[index];
        let warming = warmed[index] < settings.warm_up;
        warmed[index] += 1;
        let trace = match case {
            Case::Native(pace, way) => {
                let request = super::BlockRequest {
                    way,
                    pace,
                    interval_ns: interval_ns(settings, pace, depth),
                    bytes: settings.bytes,
                    fill_bytes: settings.journal.fill_bytes,
                    quiesce: true,
                    cpu: None,
                };
                super::block(testbed, &request, until)?
            }
            Case::Jvm(pace, machine, row) => {
                let request = BlockRequest {
                    machine,
                    row,
                    pace: (!warming).then_some(pace),
                    interval_ns: interval_ns(settings, pace, depth),
                    bytes: settings.bytes,
                    fill_bytes: settings.journal.fill_bytes,
                };
                match testbed.machine() {
                    testbed::Machine::Real(real) => real.block(|real| real::run(real, &request, until))?,
                    testbed::Machine::Sim(sim) => sim::run(sim, &request, until)?,
                }
            }
        };
        let mut measured = analysis::tally(trace);
        measured.durability.clone_from(&classes[index]);
        if measured.durability.is_some() {
            measured.commits = measured.main().count();
            measured.bytes = measured.commits * settings.bytes as u64;
        }
        Ok(measured)
    };
    rounds::run(course, testbed, observer, &finish, block)
}

/// For each row the index of the native row that it is set against: the same calls, pace and kind of file.
fn native_of(cases: &[(Depth, Case<'_>)], study: &Study) -> Vec<Option<usize>> {
    let against = |(_, case): &(Depth, Case<'_>)| {
        let Case::Jvm(pace, _, row) = case else { return None };
        let append = row.like == WriteCall::Append.id();
        if (row.shape == Shape::Growing) != append {
            return None;
        }
        let (_, pace, _) = PACES.into_iter().find(|(one, ..)| one == pace)?;
        let id = format!("{}/{pace}", row.like);
        study.rows.iter().position(|row| row.id == id)
    };
    cases.iter().map(against).collect()
}

fn interval_ns(settings: &Settings, pace: Pace, depth: Depth) -> u64 {
    let times = if pace == Pace::Scheduled && depth != Depth::Memory { DURABLE_INTERVALS } else { 1 };
    settings.write_sleep_ns * times
}

/// What an acknowledged write outlives; `None` for what is no commit.
fn class(case: &Case<'_>, testbed: &dyn Testbed) -> Option<Durability> {
    let (way, file) = match case {
        Case::Native(_, way) => (Some(*way), FileState::Recycled),
        Case::Jvm(.., row) if row.shape == Shape::Growing => (native(&row.like), FileState::Appending),
        Case::Jvm(.., row) => (native(&row.like), FileState::Recycled),
    };
    let Some(NativeWrite::Commit(method)) = way else { return None };
    Some(classify(method, &testbed.environment(0).surroundings(file)))
}

fn study(settings: &Settings, jvms: &[Jvm], cases: &[(Depth, Case<'_>)], testbed: &dyn Testbed) -> Study {
    let environment = testbed.environment(0);
    let memory = environment.file_system.medium == Medium::Memory;
    let rows = cases.iter().map(|(depth, case)| {
        let mut row = row(*depth, case, jvms);
        if memory && *depth != Depth::Memory {
            row.outcome = Outcome::NotAvailable {
                reason: format!(
                    "{} keeps its files in memory, where nothing is durable: name a folder on a disk",
                    environment.file_system.kind
                ),
            };
        }
        row
    });
    let versions = jvms.iter().map(|jvm| Fact::new(&format!("jdk_{}", jvm.label), "JDK", jvm.words.as_str()));
    let clocks = jvms.iter().filter_map(|jvm| {
        let title = format!("a reading of JDK {}'s clock", jvm.label);
        Some(Fact::new(
            &format!("clock_read_{}", jvm.label),
            &title,
            format!("{} ns", significant(jvm.clock_ns?)),
        ))
    });
    let native_clock = Fact::new(
        "clock_read",
        "a reading of the clock",
        format!("{} ns, in every figure", significant(environment.clock.read_ns)),
    );
    Study {
        title: format!(
            "{} writes into files of {} of {}, by JVMs and natively",
            bytes(settings.bytes as u64),
            bytes(FILE_BYTES),
            environment.file_system.kind
        ),
        reproduces: super::super::find(NAME).map_or(String::new(), |scenario| scenario.reproduces.to_owned()),
        row_title: "calls".to_owned(),
        settings: vec![
            Fact::new("size_bytes", "size", bytes(settings.bytes as u64)),
            Fact::new("fill_bytes", "filled by writes of", bytes(settings.journal.fill_bytes)),
            Fact::new("interval", "from write to write", duration_ns(settings.write_sleep_ns)),
            Fact::new("iterations", "iterations", settings.rounds.to_string()),
            Fact::new("warm_up", "warm-up iterations", settings.warm_up.to_string()),
        ],
        facts: versions
            .chain([
                native_clock,
                Fact::new("fill", "files filled by writes of", bytes(settings.journal.fill_bytes)),
            ])
            .chain(clocks)
            .collect(),
        columns: analysis::columns(),
        rows: rows.collect(),
        notes: analysis::notes(settings),
        ..Study::default()
    }
}

fn row(depth: Depth, case: &Case<'_>, jvms: &[Jvm]) -> Row {
    let (pace, id, label, what, outcome) = match case {
        Case::Native(pace, way) => (*pace, way.id().to_owned(), way.id().to_owned(), "native", None),
        Case::Jvm(pace, machine, row) => {
            let jvm = &jvms[*machine];
            let reason = row.not_available.clone();
            let outcome = reason.map(|reason| Outcome::NotAvailable { reason });
            let id = format!("jdk{}/{}", jvm.label, row.id);
            (*pace, id, format!("{} {}", jvm.label, row.id), row.what.as_str(), outcome)
        }
    };
    let (_, pace_id, pace_words) = PACES.into_iter().find(|(one, ..)| *one == pace).unwrap_or(PACES[0]);
    let group = DEPTHS.into_iter().find(|(one, _)| *one == depth).map_or("", |(_, words)| words);
    let like = match case {
        Case::Native(_, way) => Some(*way),
        Case::Jvm(.., row) => native(&row.like),
    };
    let method = match like {
        Some(NativeWrite::Commit(method)) => Some(method.into()),
        Some(NativeWrite::Call(_)) | None => None,
    };
    let row = Row {
        what: what.to_owned(),
        method,
        group: format!("{group}: {pace_words}"),
        ..Row::waiting(format!("{id}/{pace_id}"), label)
    };
    match outcome {
        Some(outcome) => Row { outcome, ..row },
        None => row,
    }
}

/// A row's id taken apart: the JVM's label, if it is one's, the way and the pace.
pub(super) fn parts(id: &str) -> Option<(Option<&str>, &str, &str)> {
    let (way, pace) = id.rsplit_once('/')?;
    match way.split_once('/') {
        Some((jvm, way)) => Some((Some(jvm.strip_prefix("jdk")?), way, pace)),
        None => Some((None, way, pace)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_apart_as_they_were_put_together() {
        assert_eq!(parts("pwrite/closed"), Some((None, "pwrite", "closed")));
        assert_eq!(parts("jdk17/raf-rwd/scheduled"), Some((Some("17"), "raf-rwd", "scheduled")));
        assert_eq!(parts("nothing"), None);
    }

    #[test]
    fn depth_is_that_of_the_native_row() {
        if cfg!(target_os = "linux") {
            let cases = [
                ("pwrite", Depth::Memory),
                ("direct", Depth::PastTheCache),
                ("direct+dsync", Depth::Durable),
                ("mmap+msync", Depth::Durable),
            ];
            for (like, expected) in cases {
                assert_eq!(depth(like), expected, "{like}");
            }
        }
    }
}
