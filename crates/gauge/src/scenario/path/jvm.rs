//! Runs the `path` scenario's rows on JVMs and natively, in memory, past the cache and durably.
//!
//! ```text
//!   settings.jvms ── the JDKs: each is started, or is the reason why its rows cannot run
//!   rows          ── pace × (into memory | past the cache | durable) × (native, then each JVM)
//!   a block       ── native: this process; else the JVM that was started
//! ```
//!
//! Rows of JVMs and native ones take turns in the same rounds, on files made the same way. A JVM's row names the
//! native one that makes the same calls: it has the class of the native row and is compared with it.
//!
//! Invariants: warm-up rounds write without pauses, so that the JVM has compiled the timed code; after each block
//! everything is at rest; a row that cannot run states the reason, and a durable row is not run where no row is
//! durable.

mod analysis;
mod java;
mod real;

pub use analysis::judge;

use self::Shape::{Aligned, Fixed, Growing};
use self::java::Jvm;
use super::super::rounds::{self, Course, RunBlock};
use super::super::settings::Settings;
use super::super::{Observer, RunError};
use super::{BlockRequest, FILE_BYTES, NAME, NativeWrite, PACES, Pace};
use crate::figures::{bytes, significant};
use crate::result::RunResult;
use crate::row::{Outcome, Row};
use crate::study::{Fact, Study};
use crate::testbed::Testbed;
use seawall_host::jdk::Jdk;
use seawall_sys::durability::{Claim, FileState, Medium, classify};
use seawall_sys::methods;
use seawall_sys::write_call::WriteCall;

/// Time of a run with JVMs by default, nanoseconds: it has some 150 rows.
pub const TIME_NS: u64 = 150_000_000_000;

/// Counted iterations by default.
pub const ROUNDS: u32 = 30;

/// Iterations before those.
pub const WARM_UP: u32 = 5;

/// On a schedule, durable writes are this many times as far apart: at the interval of writes into memory they would only
/// queue.
pub(crate) const DURABLE_INTERVALS: u64 = 10;

/// A way in which a JVM writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Way {
    /// Stable name, as `Ways.java` knows it.
    pub id: &'static str,
    /// The native row that makes the same calls.
    pub like: &'static str,
    pub(crate) shape: Shape,
    /// What it does, for people.
    pub what: &'static str,
}

const fn way(id: &'static str, like: &'static str, shape: Shape, what: &'static str) -> Way {
    Way { id, like, shape, what }
}

/// All ways, in the order of the table.
#[rustfmt::skip]
pub const WAYS: [Way; 16] = [
    way("raf-seek+write",        "seek+write",         Fixed,   "RandomAccessFile.seek, write(byte[])"),
    way("raf-append",            "append",             Growing, "RandomAccessFile.write(byte[]) at the end of a growing file"),
    way("channel-heap-at",       "pwrite",             Fixed,   "FileChannel.write(heap buffer, position)"),
    way("channel-direct-at",     "pwrite",             Fixed,   "FileChannel.write(direct buffer, position)"),
    way("channel-append",        "append",             Growing, "FileChannel.write(direct buffer) on APPEND"),
    way("mapped-buffer",         "mapped",             Fixed,   "MappedByteBuffer.put(index, byte[])"),
    way("ffm-pwrite",            "pwrite",             Fixed,   "downcall of pwrite from native memory"),
    way("channel-odirect",       "direct",             Aligned, "FileChannel.write(direct buffer, position) on DIRECT"),
    way("raf-rwd",               "dsync",              Fixed,   "RandomAccessFile \"rwd\": seek, write(byte[])"),
    way("channel-dsync",         "dsync",              Fixed,   "FileChannel.write(direct buffer, position) on DSYNC"),
    way("channel-append-dsync",  "dsync",              Growing, "FileChannel.write(direct buffer) on APPEND, DSYNC"),
    way("channel-force-false",   "buffered+fdatasync", Fixed,   "FileChannel.write(direct buffer, position), force(false)"),
    way("channel-force-true",    "buffered+fsync",     Fixed,   "FileChannel.write(direct buffer, position), force(true)"),
    way("channel-odirect-dsync", "direct+dsync",       Aligned, "FileChannel.write(direct buffer, position) on DIRECT, DSYNC"),
    way("mapped-buffer-force",   "mmap+msync",         Fixed,   "MappedByteBuffer.put(index, byte[]), force(index, length)"),
    way("ffm-datasync",          "buffered+fdatasync", Fixed,   "downcalls of pwrite and fdatasync from native memory"),
];

/// How the file of a row is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Filled, and overwritten in place.
    Fixed,
    /// Empty, and growing.
    Growing,
    /// Filled, and overwritten past the cache.
    Aligned,
}

/// One write at once behind the other: a JVM warms up.
const TIGHT: Pace = Pace { id: "tight", words: "", scheduled: false };

struct Case {
    pace: Pace,
    depth: Depth,
    /// The native way, or that of the same calls; none where this system lacks it.
    native: Option<NativeWrite>,
    /// A JVM's index and its way.
    jvm: Option<(usize, &'static Way)>,
}

/// How far a row's writes go; rows are grouped by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Memory,
    PastTheCache,
    Durable,
}

const DEPTHS: [(Depth, &str); 3] = [
    (Depth::Memory, "into memory"),
    (Depth::PastTheCache, "past the cache, nothing flushed"),
    (Depth::Durable, "durable"),
];

fn native(id: &str) -> Option<NativeWrite> {
    let call = WriteCall::ALL.into_iter().find(|call| call.id() == id).map(NativeWrite::Call);
    call.or_else(|| methods::find(id).map(NativeWrite::Commit))
}

/// How far a native way reaches; what this system does not have is durable by its name.
fn depth(way: Option<NativeWrite>) -> Depth {
    match way {
        Some(NativeWrite::Commit(method)) if method.reach().letter() == 'D' => Depth::Durable,
        Some(NativeWrite::Commit(method)) if method.needs_alignment() => Depth::PastTheCache,
        Some(_) => Depth::Memory,
        None => Depth::Durable,
    }
}

/// Pace by pace, depth by depth: natives, which are every way into memory and those that a JVM's row is like, then the ways in
/// the order of the table, JVMs side by side.
fn cases(jvms: usize) -> Vec<Case> {
    let call = |call| (Some(NativeWrite::Call(call)), None::<(usize, &'static Way)>);
    let mut ways = WriteCall::ALL.map(call).to_vec();
    for way in WAYS.iter().filter_map(|way| native(way.like)) {
        if ways.iter().all(|(known, _)| known.is_none_or(|known| known.id() != way.id())) {
            ways.push((Some(way), None));
        }
    }
    for way in &WAYS {
        ways.extend((0..jvms).map(|machine| (native(way.like), Some((machine, way)))));
    }
    let mut cases = Vec::new();
    for pace in PACES {
        for (group, _) in DEPTHS {
            let here = ways.iter().filter(|(way, _)| depth(*way) == group);
            cases.extend(here.map(|&(native, jvm)| Case { pace, depth: group, native, jvm }));
        }
    }
    cases
}

pub(super) fn run(
    settings: &Settings,
    jdks: &[Jdk],
    testbed: &mut dyn Testbed,
    observer: &mut dyn Observer,
) -> Result<RunResult, RunError> {
    let mut jvms = java::start(jdks);
    let cases = cases(jvms.len());
    let study = study(settings, &jvms, &cases, testbed);
    let classes: Vec<Option<Claim>> = cases.iter().map(|case| class(case, testbed)).collect();
    let mut warmed = vec![0; cases.len()];
    let native_of: Vec<Option<usize>> = cases.iter().map(|case| native_of(case, &study)).collect();
    let course = Course::new(NAME, settings, FILE_BYTES, study);
    let finish = move |study: &mut Study| analysis::finish(study, &native_of);
    let block: RunBlock<'_> = &mut |testbed, turn| {
        let (case, until) = (&cases[turn.index], turn.until);
        let warming = warmed[turn.index] < settings.warm_up;
        warmed[turn.index] += 1;
        let rare = case.pace.scheduled && case.depth != Depth::Memory;
        let interval_ns = settings.write_sleep_ns * if rare { DURABLE_INTERVALS } else { 1 };
        let trace = if let Some((machine, way)) = case.jvm {
            let pace = if warming { TIGHT } else { case.pace };
            let request = BlockRequest { settings, way, pace, interval_ns };
            testbed.real()?.block(|real| real::run(real, &mut jvms[machine], &request, until))?
        } else {
            let way = case.native.expect("a native row has its way");
            let request = BlockRequest { settings, way, pace: case.pace, interval_ns };
            super::block(testbed, &request, until)?
        };
        let mut measured = analysis::tally(trace);
        measured.durability.clone_from(&classes[turn.index]);
        if measured.durability.is_some() {
            measured.commits = measured.main().count();
            measured.bytes = measured.commits * settings.bytes as u64;
        }
        Ok(measured)
    };
    rounds::run(course, testbed, observer, &finish, block)
}

/// The index of the native row that a JVM's row is set against: the same calls, pace and kind of file.
fn native_of(case: &Case, study: &Study) -> Option<usize> {
    let (_, way) = case.jvm?;
    let append = way.like == WriteCall::Append.id();
    let id = format!("{}/{}", way.like, case.pace.id);
    let at = study.rows.iter().position(|row| row.id == id)?;
    ((way.shape == Growing) == append).then_some(at)
}

/// What an acknowledged write outlives; `None` for what is no commit.
fn class(case: &Case, testbed: &dyn Testbed) -> Option<Claim> {
    let Some(NativeWrite::Commit(method)) = case.native else { return None };
    let growing = case.jvm.is_some_and(|(_, way)| way.shape == Growing);
    let file = if growing { FileState::Appending } else { FileState::Recycled };
    Some(classify(method, &testbed.environment(0).surroundings(file)))
}

fn study(settings: &Settings, jvms: &[Jvm], cases: &[Case], testbed: &dyn Testbed) -> Study {
    let file_system = &testbed.environment(0).file_system;
    let in_memory = format!(
        "{} keeps its files in memory, where nothing is durable: name a folder on a disk",
        file_system.kind
    );
    let rows = cases.iter().map(|case| {
        let lacking = file_system.medium == Medium::Memory && case.depth != Depth::Memory;
        row(case, jvms, lacking.then(|| in_memory.clone()))
    });
    let versions = jvms.iter().map(|jvm| Fact::new(&format!("jdk_{}", jvm.label), "JDK", jvm.words.as_str()));
    let clocks = jvms.iter().filter_map(|jvm| {
        let title = format!("a reading of JDK {}'s clock", jvm.label);
        let words = format!("{} ns", significant(jvm.java.as_ref().ok()?.clock_ns));
        Some(Fact::new(&format!("clock_read_{}", jvm.label), &title, words))
    });
    let fill = bytes(settings.journal.fill_bytes);
    let mut study = super::study(settings, testbed);
    study.settings.insert(1, Fact::new("fill_bytes", "filled by writes of", fill.clone()));
    study.facts.push(Fact::new("fill", "files filled by writes of", fill));
    Study {
        title: format!(
            "{} writes into files of {} of {}, by JVMs and natively",
            bytes(settings.bytes as u64),
            bytes(FILE_BYTES),
            file_system.kind
        ),
        facts: versions.chain(std::mem::take(&mut study.facts)).chain(clocks).collect(),
        columns: analysis::columns(),
        rows: rows.collect(),
        notes: analysis::notes(settings),
        ..study
    }
}

/// The row of a case, which cannot run for the reason that is given, or for one of its own.
fn row(case: &Case, jvms: &[Jvm], reason: Option<String>) -> Row {
    let (id, label, what, own) = match case.jvm {
        None => {
            let id = case.native.map_or("", NativeWrite::id);
            (id.to_owned(), id.to_owned(), "native", None)
        }
        Some((machine, way)) => {
            let Jvm { label, java, .. } = &jvms[machine];
            let (id, label) = (format!("jdk{label}/{}", way.id), format!("{label} {}", way.id));
            (id, label, way.what, java.as_ref().err().map(ToString::to_string))
        }
    };
    let group = DEPTHS.into_iter().find(|(one, _)| *one == case.depth).map_or("", |(_, words)| words);
    let mut row = Row {
        what: what.to_owned(),
        group: format!("{group}: {}", case.pace.words),
        ..Row::waiting(format!("{id}/{}", case.pace.id), label)
    };
    if let Some(NativeWrite::Commit(method)) = case.native {
        row.method = Some(method.into());
    }
    if let Some(reason) = reason.or(own) {
        row.outcome = Outcome::NotAvailable { reason };
    }
    row
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::scenario::settings::Amount;
    use crate::testbed::real::RealTestbed;
    use crate::testbed::sim::SimTestbed;
    use std::path::Path;

    #[test]
    fn depth_is_that_of_the_native_row() {
        let cases = [
            ("pwrite", Depth::Memory),
            ("direct", Depth::PastTheCache),
            ("direct+dsync", Depth::Durable),
            ("mmap+msync", Depth::Durable),
        ];
        for (like, expected) in cases {
            assert_eq!(depth(native(like)), expected, "{like}");
        }
    }

    /// Two JVMs, played by `tests/jdk`, of which the older lacks a way, run in a folder that is said to be on such a medium.
    fn run_on(medium: Medium) -> RunResult {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jdk");
        let jdk = |major: u32| Jdk { home: home.clone(), version: major.to_string(), major, compiles: true };
        let settings = Settings {
            amount: Amount::TimeNs(1_000_000_000),
            rounds: 1,
            warm_up: 1,
            jvms: Some(vec![jdk(17), jdk(25)]),
            ..Settings::default()
        };
        let folder = tempfile::tempdir().expect("a folder");
        let mut environment = SimTestbed::new(1, Vec::new()).environment(0).clone();
        environment.file_system.medium = medium;
        let mut testbed = RealTestbed::in_folder(folder.path(), environment);
        super::super::run(&settings, &mut testbed, &mut crate::watcher::Watcher::default()).expect("a result")
    }

    #[test]
    fn a_jvm_s_row_is_set_against_the_native_one_of_the_same_calls_pace_and_file() {
        let result = run_on(Medium::Block);
        let row = |id: &str| result.study.row(id).unwrap_or_else(|| panic!("{id}"));
        let measured = |id: &str| row(id).measured().unwrap_or_else(|| panic!("{id}: {:?}", row(id).outcome));
        let against = |id: &str| measured(id).figure("against_native");
        let ratio = |native: &str| Some(1_300.0 / measured(native).main().p50_ns() as f64);
        assert_eq!(against("jdk17/raf-seek+write/closed"), ratio("seek+write/closed"));
        assert_eq!(against("jdk25/ffm-pwrite/closed"), ratio("pwrite/closed"));
        assert_eq!(against("jdk25/raf-rwd/scheduled"), ratio("dsync/scheduled"));
        assert_eq!(against("dsync/closed"), None, "a native row stands for itself");
        assert_eq!(against("jdk17/channel-append-dsync/closed"), None, "no native row grows and syncs");
        let heap = |id: &str| measured(id).figure("allocated_per_write");
        assert_eq!(
            (heap("jdk25/raf-rwd/closed"), heap("jdk25/channel-dsync/closed")),
            (Some(40.0), Some(0.0))
        );
        let roll = |id: &str| measured(id).latency("roll");
        assert!(roll("jdk25/raf-seek+write/closed").is_some());
        assert!(roll("jdk25/raf-seek+write/scheduled").is_none() && roll("pwrite/closed").is_none());
        let lacks = &row("jdk17/ffm-pwrite/closed").outcome;
        assert!(matches!(lacks, Outcome::NotAvailable { reason } if reason.contains("needs JDK 22")));
        for (label, said) in ["JDK 17", "JDK 25"].into_iter().zip(judge(&result.study)) {
            assert!(
                said.sentence.starts_with(label) && said.sentence.contains("durable (rwd, DSYNC)"),
                "{said:?}"
            );
        }
    }

    #[test]
    fn in_memory_only_the_ways_into_memory_are_run() {
        let result = run_on(Medium::Memory);
        for row in &result.study.rows {
            let runs = row.group.starts_with("into memory") && !row.id.starts_with("jdk17/ffm");
            assert_eq!(row.measured().is_some(), runs, "{}", row.id);
        }
        let said = judge(&result.study);
        assert!(said.iter().all(|one| one.sentence.contains("nothing durable was measured")), "{said:?}");
    }
}
