//! Scenario `path`: the cost of the write call itself, without a disk: seek and write, pwrite and others.
//!
//! The original: a Java program that writes blocks of 4,096 bytes into a preallocated file of 1 MiB on a memory file
//! system, waits 50 µs by spinning between two, and prints for each of 50 iterations, after 20 of warming up,
//! `mean,min,50,90,99,99.9,99.99,max,count` in nanoseconds. Its histogram ended at 1 s. It was a closed loop, in
//! which a delay is charged to one write only. And its seek run closed and opened a file inside the timed call 50
//! times an iteration of 255,000 writes, which is what its 99.99 % showed; its pwrite run did not do that.
//!
//! Corrected: nothing is clipped; files are opened before, never inside, the timed call; all ways take turns, iteration by
//! iteration; each runs in the original's closed loop and on a schedule too; a percentile that an iteration's writes
//! cannot carry is left out of its line rather than replaced by the maximum.
//!
//! Invariant: nothing is synced: this measures the path into the kernel, never durability.

pub mod jvm;
mod real;

use super::rounds::{self, Course};
use super::settings::Settings;
use super::{Observer, RunError};
use crate::figures::{bytes, duration_ns, significant};
use crate::findings::{Finding, Severity};
use crate::latency::Latency;
use crate::result::RunResult;
use crate::row::{Iteration, Measured, NamedLatency, Row, Tail};
use crate::study::{Column, Fact, Point, Study};
use crate::testbed::{BlockError, Testbed, Until};
use seawall_host::thread::Times;
use seawall_sys::Method;
use seawall_sys::counters::Counts;
use seawall_sys::write_call::WriteCall;

/// The scenario's name.
pub const NAME: &str = "path";

/// Size of the file, bytes, as in the original.
const FILE_BYTES: u64 = 1 << 20;

/// When the next write begins.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// In ids of rows and in orders to JVMs.
    id: &'static str,
    words: &'static str,
    /// So long after the last one was due, whatever happened; else so long after the last one ended, waiting by spinning, as in
    /// the original.
    scheduled: bool,
}

const PACES: [Pace; 2] = [
    Pace { id: "closed", words: "closed loop", scheduled: false },
    Pace { id: "scheduled", words: "scheduled arrivals, from arrival to end", scheduled: true },
];

/// A native way of writing.
#[derive(Debug, Clone, Copy)]
enum NativeWrite {
    /// Into the kernel's memory, and nothing more.
    Call(WriteCall),
    /// A commit: write and sync together are timed.
    Commit(&'static Method),
}

impl NativeWrite {
    fn id(self) -> &'static str {
        match self {
            Self::Call(call) => call.id(),
            Self::Commit(method) => method.id,
        }
    }
}

struct BlockRequest<'a, W> {
    settings: &'a Settings,
    way: W,
    pace: Pace,
    /// From write to write, nanoseconds.
    interval_ns: u64,
}

#[derive(Default)]
struct Trace {
    elapsed_ns: u64,
    /// From the call to its return.
    service: Latency,
    /// From arrival to return; only on a schedule.
    response: Option<Latency>,
    times: Times,
    tail: Tail,
    /// What the devices counted, where the block asks for it.
    counts: Option<Counts>,
    /// Leaving one file for the next, where that is a question.
    roll: Option<Latency>,
    /// Bytes that the writes allocated on a heap, where there is one that counts.
    allocated_bytes: Option<u64>,
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
    if let Some(jdks) = &settings.jvms {
        return jvm::run(settings, jdks, testbed, observer);
    }
    let cases: Vec<(Pace, WriteCall)> =
        PACES.iter().flat_map(|pace| WriteCall::ALL.map(|call| (*pace, call))).collect();
    let study = study(settings, testbed);
    let course = Course::new(NAME, settings, FILE_BYTES, study);
    rounds::run(course, testbed, observer, &|_| {}, &mut |testbed, turn| {
        let (pace, call) = cases[turn.index];
        let (way, interval_ns) = (NativeWrite::Call(call), settings.write_sleep_ns);
        let request = BlockRequest { settings, way, pace, interval_ns };
        block(testbed, &request, turn.until).map(tally)
    })
}

fn block(
    testbed: &mut dyn Testbed,
    request: &BlockRequest<'_, NativeWrite>,
    until: Until<'_>,
) -> Result<Trace, BlockError> {
    testbed.real()?.block(|real| real::run(real, request, until))
}

fn tally(trace: Trace) -> Measured {
    let Trace { elapsed_ns, service, response, times, tail, .. } = trace;
    let main = response.clone().unwrap_or_else(|| service.clone());
    Measured {
        elapsed_ns,
        iterations: vec![Iteration::of(&main)],
        latencies: vec![
            NamedLatency::new(
                "write",
                if response.is_some() { "write, from arrival to end" } else { "write" },
                main,
            ),
            NamedLatency::new("service", "write, from call to return", service),
        ],
        cpu: times,
        tail,
        ..Measured::default()
    }
}

fn study(settings: &Settings, testbed: &dyn Testbed) -> Study {
    let row = |pace: &Pace, call: WriteCall| Row {
        group: pace.words.to_owned(),
        ..Row::waiting(format!("{}/{}", call.id(), pace.id), call.id())
    };
    let environment = testbed.environment(0);
    Study {
        title: format!(
            "{} writes into a file of {} of {}, {} apart, nothing synced",
            bytes(settings.bytes as u64),
            bytes(FILE_BYTES),
            environment.file_system.kind,
            duration_ns(settings.write_sleep_ns)
        ),
        reproduces: super::find(NAME).map_or(String::new(), |scenario| scenario.reproduces.to_owned()),
        row_title: "calls".to_owned(),
        settings: vec![
            Fact::new("size_bytes", "size", bytes(settings.bytes as u64)),
            Fact::new("interval", "from write to write", duration_ns(settings.write_sleep_ns)),
            Fact::new("iterations", "iterations", settings.rounds.to_string()),
            Fact::new("warm_up", "warm-up iterations", settings.warm_up.to_string()),
        ],
        facts: vec![Fact::new(
            "clock_read",
            "a reading of the clock",
            format!("{} ns, in every figure", significant(environment.clock.read_ns)),
        )],
        columns: columns(),
        rows: PACES.iter().flat_map(|pace| WriteCall::ALL.map(|call| row(pace, call))).collect(),
        notes: vec!["Nothing here is durable: it is the way into the kernel's memory only.".to_owned()],
        ..Study::default()
    }
}

fn columns() -> Vec<Column> {
    let points = [
        (Point::Min, "min"),
        (Point::P50, "p50"),
        (Point::P99, "p99"),
        (Point::P999, "p99.9"),
        (Point::P9999, "p99.99"),
        (Point::Max, "max"),
        (Point::Count, "writes"),
    ];
    let mut columns: Vec<Column> =
        points.iter().map(|(at, title)| Column::latency("write", *at, "", title, true)).collect();
    columns.push(Column::latency("write", Point::Mean, "", "mean", false));
    columns.push(Column::latency("service", Point::P9999, "service", "p99.99", false));
    columns.push(Column::latency("service", Point::Max, "service", "max", false));
    columns
}

/// What the table says: the published comparison, by the figure that is about the calls.
pub fn judge(study: &Study) -> Vec<Finding> {
    let mut found = jvm::judge(study);
    found.extend(natively(study));
    found
}

fn natively(study: &Study) -> Option<Finding> {
    let closed = |call: WriteCall| study.row(&format!("{}/closed", call.id()))?.measured()?.latency("write");
    let (Some(seek), Some(pwrite)) = (closed(WriteCall::SeekWrite), closed(WriteCall::Pwrite)) else {
        return None;
    };
    if seek.count() == 0 || pwrite.count() == 0 {
        return None;
    }
    let ratio = seek.p50_ns() as f64 / pwrite.p50_ns().max(1) as f64;
    let far = match (seek.percentile(99.99).ns(), pwrite.percentile(99.99).ns()) {
        (Some(seek), Some(pwrite)) => {
            format!(" At 99.99 %: {} and {}.", duration_ns(seek), duration_ns(pwrite))
        }
        _ => String::new(),
    };
    let sentence = format!(
        "seek+write takes {} times as long as pwrite at the median ({} and {}); at least {} and {}.{far}",
        significant(ratio),
        duration_ns(seek.p50_ns()),
        duration_ns(pwrite.p50_ns()),
        duration_ns(seek.min_ns()),
        duration_ns(pwrite.min_ns())
    );
    let remedy = "Minimum and median are about the calls; the far tail is about the machine: compare it between runs before believing it.";
    Some(Finding { rule: "seek-and-write", severity: Severity::Note, sentence, remedy: remedy.to_owned() })
}
