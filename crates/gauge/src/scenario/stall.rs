//! Scenario `stall`: the delay that a sync in one thread causes to the appends of another.
//!
//! The original, a published test: one thread appends 1,024 bytes and sleeps 100 µs, again and again; another opens
//! the same file, calls fsync, closes it and sleeps 500 µs. Against it the same appends with almost no fsync, so that
//! only the kernel's writeback works. It printed each duration as it came, measured with a wall clock that can jump,
//! and each append started only when the one before was done: a stall of 20 ms counted as one slow append, not as the
//! 200 that it kept waiting.
//!
//! ```text
//!   arrivals   |    |    |    |    |    |    |    |       every WRITE_SLEEP, whatever happens
//!   append     ■    ■    ■■■■■■■■■■■■■■■■ ■ ■ ■   ■       service: start to end
//!   sync                ├──────────────┤                  response: arrival to end
//! ```
//!
//! Corrected: appends arrive on schedule and are charged from there; appends are separated by whether a sync was in
//! flight between arrival and end; designs that avoid the stall are measured together with the one that has it.
//!
//! Invariants: [`analyse`] is pure; an append that was never made because
//! the run ended is counted as missed, not forgotten.

mod real;

use super::rounds::{self, Course};
use super::settings::Settings;
use super::{Observer, RunError};
use crate::figures::{duration, duration_ns, listing, percent};
use crate::findings::{Finding, Severity};
use crate::latency::Latency;
use crate::result::RunResult;
use crate::row::{Measured, NamedLatency, Row, Series, SeriesPoint, Tail};
use crate::study::{Better, Column, Fact, Point, Study, Unit};
use crate::testbed::Testbed;
use seawall_host::thread::Times;
use seawall_sys::counters::Counts;
use seawall_sys::flush::Flush;

/// The scenario's name.
pub const NAME: &str = "stall";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Appends {
    /// Buffered, into a file that grows.
    Buffered,
    /// Buffered, into one of two files that grow; the syncing thread says into which.
    TwoSegments,
    /// Around the cache and through the device's, block by block into a file that is there already.
    WriteThrough,
    /// Into the Seawall log's memory.
    Log,
}

/// What the other thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syncs {
    /// Nothing: the kernel writes back as it likes.
    Never,
    SameFile(Flush),
    /// Turns the appends to the other file and syncs the one they leave.
    OtherSegment,
    /// Commits the log up to its end.
    Log,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Design {
    id: &'static str,
    label: &'static str,
    what: &'static str,
    appends: Appends,
    /// What the other thread does.
    syncs: Syncs,
    /// Whether an append is, sooner or later, safe from a power cut.
    durable: bool,
}

const fn design(
    id: &'static str,
    label: &'static str,
    what: &'static str,
    appends: Appends,
    syncs: Syncs,
    durable: bool,
) -> Design {
    Design { id, label, what, appends, syncs, durable }
}

#[rustfmt::skip]
const DESIGNS: [Design; 6] = [
    design("same-file-fsync",  "same-file fsync",  "another thread calls fsync on the file that is appended to, as in the original",
           Appends::Buffered,     Syncs::SameFile(Flush::Fsync), true),
    design("writeback-only", "writeback only",   "nobody syncs, the kernel writes back when it likes, as in the original's comparison",
           Appends::Buffered,     Syncs::Never,                  false),
    design("sync-file-range",  "sync_file_range",  "another thread calls sync_file_range on the file: no metadata, no flush of the device",
           Appends::Buffered,     Syncs::SameFile(Flush::Range), false),
    design("other-segment",    "other segment",    "before each fsync the appends turn to another file, and the one they left is synced",
           Appends::TwoSegments,  Syncs::OtherSegment,           true),
    design("write-through",    "direct+dsync",     "every append is a durable write of whole blocks by the appending thread; nobody else syncs",
           Appends::WriteThrough, Syncs::Never,                  true),
    design("seawall-log",      "Seawall log",      "appends go into the log's memory, another thread commits",
           Appends::Log,          Syncs::Log,                    true),
];

#[derive(Debug, Clone, Copy)]
struct BlockRequest<'a> {
    design: &'static Design,
    settings: &'a Settings,
}

/// One append, nanoseconds on the testbed's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "they are named by their unit")]
struct Append {
    due_ns: u64,
    start_ns: u64,
    end_ns: u64,
}

/// One sync, nanoseconds on the testbed's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start_ns: u64,
    end_ns: u64,
}

/// What happened in a block.
#[derive(Debug, Default)]
struct Trace {
    start_ns: u64,
    elapsed_ns: u64,
    appends: Vec<Append>,
    /// Arrivals that were still waiting when the block's time was over.
    missed: u64,
    /// The syncs, in order and without overlap.
    syncs: Vec<Span>,
    times: Times,
    tail: Tail,
    counts: Option<Counts>,
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
    let course = Course::new(NAME, settings, 0, study(settings, testbed));
    rounds::run(course, testbed, observer, &finish, &mut |testbed, turn| {
        let (request, until) = (BlockRequest { design: &DESIGNS[turn.index], settings }, turn.until);
        let trace = testbed.real()?.block(|real| real::run(real, &request, until))?;
        Ok(analyse(&trace, request.design))
    })
}

fn study(settings: &Settings, testbed: &dyn Testbed) -> Study {
    let rows = DESIGNS
        .iter()
        .map(|design| Row { what: design.what.to_owned(), ..Row::waiting(design.id, design.label) });
    let micros = |ns: u64| format!("{} µs", ns / 1000);
    let writeback = &testbed.environment(0).writeback;
    Study {
        title: format!(
            "appends of {} B every {} while another thread syncs every {}",
            settings.bytes,
            micros(settings.write_sleep_ns),
            micros(settings.sync_sleep_ns)
        ),
        reproduces: super::find(NAME).map_or(String::new(), |scenario| scenario.reproduces.to_owned()),
        row_title: "design".to_owned(),
        settings: vec![
            Fact::new("size_bytes", "size", format!("{} B", settings.bytes)),
            Fact::new("write_sleep", "from append to append", micros(settings.write_sleep_ns)),
            Fact::new("sync_sleep", "pause between syncs", micros(settings.sync_sleep_ns)),
        ],
        facts: writeback.iter().map(|(name, value)| Fact::new(&format!("vm.{name}"), name, value.clone())).collect(),
        columns: columns(),
        rows: rows.collect(),
        notes: vec![
            "Appends are charged from their arrival, so a stall counts for every append that it kept waiting; the worst stall is one append's own time.".to_owned(),
            "`writeback only` and `sync_file_range` keep nothing safe from a power cut; `other segment` and `Seawall log` keep it safe once the next sync is done.".to_owned(),
        ],
        ..Study::default()
    }
}

fn columns() -> Vec<Column> {
    let mut columns = Vec::new();
    columns.extend(Column::tail("in_flight", "a sync in flight"));
    columns.extend(Column::tail("clear", "no sync in flight"));
    columns.push(Column::latency("service", Point::Max, "worst", "stall", true));
    for (at, title) in [(Point::P50, "p50"), (Point::P99, "p99"), (Point::P999, "p99.9")] {
        columns.push(Column::latency("service", at, "service time", title, false));
    }
    columns.push(Column::latency("sync", Point::P50, "sync itself", "p50", false));
    columns.push(Column::latency("sync", Point::Max, "sync itself", "max", false));
    columns.push(Column::latency("sync", Point::Count, "sync itself", "number", false));
    columns.push(Column::figure("kept_up", Unit::Share, Better::Larger, "", "kept up", false));
    columns
}

fn finish(study: &mut Study) {
    for row in &mut study.rows {
        if let Some(measured) = row.measured_mut() {
            let appends = measured.figure("appends").unwrap_or(0.0);
            let missed = measured.figure("missed").unwrap_or(0.0);
            if appends > 0.0 {
                measured.set("kept_up", appends / (appends + missed));
            }
        }
    }
}

/// How many points a block's series has.
const SERIES_POINTS: u64 = 40;

fn analyse(trace: &Trace, design: &Design) -> Measured {
    let [mut all, mut in_flight, mut clear, mut service, mut sync] = [(); 5].map(|()| Latency::new());
    let span_ns = (trace.elapsed_ns / SERIES_POINTS).max(1);
    let mut points: Vec<SeriesPoint> = Vec::new();
    let mut next_sync = 0;
    for append in &trace.appends {
        let response_ns = append.end_ns - append.due_ns;
        // Arrivals and ends only grow, so a sync that ended before this arrival concerns no later one.
        while trace.syncs.get(next_sync).is_some_and(|sync| sync.end_ns <= append.due_ns) {
            next_sync += 1;
        }
        let overlaps = trace.syncs.get(next_sync).is_some_and(|sync| sync.start_ns < append.end_ns);
        // A durable append is its own sync.
        let syncing = overlaps || design.appends == Appends::WriteThrough;
        all.record(response_ns);
        service.record(append.end_ns - append.start_ns);
        if syncing {
            in_flight.record(response_ns);
        } else {
            clear.record(response_ns);
        }
        let at_ns = (append.due_ns - trace.start_ns) / span_ns * span_ns;
        match points.last_mut() {
            Some(point) if point.at_ns == at_ns => point.max_ns = point.max_ns.max(response_ns),
            _ => points.push(SeriesPoint { at_ns, max_ns: response_ns, commits: 0 }),
        }
    }
    trace.syncs.iter().for_each(|one| sync.record(one.end_ns - one.start_ns));
    let mut measured = Measured {
        elapsed_ns: trace.elapsed_ns,
        latencies: vec![
            NamedLatency::new("append", "append, from arrival to end", all),
            NamedLatency::new("in_flight", "append while a sync was in flight", in_flight),
            NamedLatency::new("clear", "append while no sync was in flight", clear),
            NamedLatency::new("service", "append, from start to end", service),
            NamedLatency::new("sync", "the sync itself", sync),
        ],
        series: vec![Series {
            name: "append".to_owned(),
            title: "longest append, from arrival to end".to_owned(),
            points,
        }],
        counts: trace.counts,
        cpu: trace.times,
        tail: trace.tail,
        ..Measured::default()
    };
    measured.set("appends", trace.appends.len() as f64);
    measured.set("missed", trace.missed as f64);
    measured
}

/// A stall shorter than this is not worth a word, nanoseconds: a tenth of what etcd allows for a commit at p99.
const STALL_NS: u64 = 1_000_000;
/// A row that kept up with less than this share of the arrivals is overloaded: its waiting only grows.
const KEPT_UP: f64 = 0.99;

/// What the table says.
pub fn judge(study: &Study) -> Vec<Finding> {
    [blocked(study), longest(study), overloaded(study)].into_iter().flatten().collect()
}

fn ns(measured: &Measured, name: &str, percent: f64) -> Option<u64> {
    measured.latency(name).filter(|latency| latency.count() > 0)?.percentile(percent).ns()
}

/// Whether a sync of the same file holds up appends, and who avoids it.
fn blocked(study: &Study) -> Option<Finding> {
    let same = study.row("same-file-fsync")?.measured()?;
    let during_ns = ns(same, "in_flight", 99.0)?;
    // With few samples the largest stands for the percentile: it can only weaken what is said.
    let clear = same.latency("clear").filter(|latency| latency.count() > 0)?;
    let without_ns = clear.percentile(99.0).ns().unwrap_or_else(|| clear.max_ns());
    let found = |severity, sentence, remedy: String| {
        Some(Finding { rule: "sync-blocks-appends", severity, sentence, remedy })
    };
    if during_ns < STALL_NS || during_ns < 4 * without_ns {
        let sentence = format!(
            "An fsync in another thread holds appends up little here: one in a hundred took {} or more while one was in flight, {} while none was.",
            duration_ns(during_ns),
            duration_ns(without_ns)
        );
        return found(
            Severity::Note,
            sentence,
            "Nothing to do here; another file system may behave otherwise.".to_owned(),
        );
    }
    let better: Vec<&str> = DESIGNS
        .iter()
        .filter(|design| design.durable && design.id != "same-file-fsync")
        .filter(|design| {
            let p99_ns = study.row(design.id).and_then(Row::measured).and_then(|row| ns(row, "append", 99.0));
            p99_ns.is_some_and(|p99_ns| p99_ns * 4 <= during_ns)
        })
        .map(|design| design.label)
        .collect();
    let sentence = format!(
        "An fsync in another thread holds up the appends to that file: one in a hundred took {} or more while one was in flight, {} while none was.",
        duration_ns(during_ns),
        duration_ns(without_ns)
    );
    let remedy = if better.is_empty() {
        "No durable design of this table is four times better here: look for the cause in the device."
            .to_owned()
    } else {
        format!("Durable designs that avoid it here, by a factor of four or more: {}.", listing(&better, 4))
    };
    found(Severity::Caution, sentence, remedy)
}

/// The worst single append of each design that is not expected to stall.
fn longest(study: &Study) -> Option<Finding> {
    let mut stalled: Vec<(&str, u64)> = study
        .measured()
        .filter(|(row, _)| row.id != "same-file-fsync")
        .filter_map(|(row, measured)| Some((row.label.as_str(), measured.latency("service")?.max_ns())))
        .filter(|(_, max_ns)| *max_ns >= 10 * STALL_NS)
        .collect();
    stalled.sort_by_key(|(_, max_ns)| std::cmp::Reverse(*max_ns));
    let (worst, max_ns) = *stalled.first()?;
    let names: Vec<&str> = stalled.iter().map(|(name, _)| *name).collect();
    Some(Finding {
        rule: "stalls",
        severity: Severity::Caution,
        sentence: format!(
            "Single appends took {} or more in {}; the longest, {}, in {worst}.",
            duration_ns(10 * STALL_NS),
            listing(&names, 6),
            duration_ns(max_ns)
        ),
        remedy: "See the longest append over time in the report; if it recurs, lower vm.dirty_background_bytes, or commit from the appending thread.".to_owned(),
    })
}

fn overloaded(study: &Study) -> Option<Finding> {
    let behind = study.measured().filter_map(|(row, measured)| {
        let kept_up = measured.figure("kept_up").filter(|share| *share < KEPT_UP)?;
        Some((row.label.as_str(), kept_up, measured.latency("service")?.mean_ns()))
    });
    let (label, kept_up, mean_ns) = behind.min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Finding {
        rule: "overloaded",
        severity: Severity::Caution,
        sentence: format!(
            "{label} kept up with {} of the arrivals only: an append takes {} on average, so its waiting grows with the length of the run.",
            percent(kept_up),
            duration(mean_ns)
        ),
        remedy: "Compare it at a rate that it can sustain: a larger --write-sleep.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(due_ns: u64, start_ns: u64, end_ns: u64) -> Append {
        Append { due_ns, start_ns, end_ns }
    }

    #[test]
    fn a_stall_is_charged_to_every_append_that_it_delayed() {
        // Arrivals every 100; a sync from 150 to 1000 blocks the append that arrives at 200 until its end.
        let mut appends = vec![append(0, 0, 10), append(100, 100, 110), append(200, 200, 1000)];
        appends.extend((3..10).map(|n| append(n * 100, 1000 + n, 1001 + n)));
        appends.push(append(1100, 1100, 1110));
        let trace = Trace {
            elapsed_ns: 1200,
            appends,
            syncs: vec![Span { start_ns: 150, end_ns: 1000 }],
            ..Trace::default()
        };
        let measured = analyse(&trace, &DESIGNS[0]);
        let count = |name: &str| measured.latency(name).map(Latency::count);
        assert_eq!((count("append"), count("in_flight"), count("clear")), (Some(11), Some(8), Some(3)));
        let slow = measured.latency("service").expect("service").histogram().count_between(500, 10_000);
        assert_eq!(slow, 1, "one append was slow itself");
        let waited = measured.latency("append").expect("append").histogram().count_between(500, 10_000);
        assert!(waited > 3, "but it kept others waiting");
        assert_eq!(measured.latency("clear").map(Latency::max_ns), Some(10));
    }

    #[test]
    fn an_append_that_only_touches_a_sync_is_not_in_flight() {
        let trace = Trace {
            elapsed_ns: 100,
            appends: vec![append(10, 10, 20), append(30, 30, 40)],
            syncs: vec![Span { start_ns: 20, end_ns: 30 }],
            ..Trace::default()
        };
        let measured = analyse(&trace, &DESIGNS[0]);
        assert_eq!(measured.latency("in_flight").map(Latency::count), Some(0));
    }

    #[test]
    fn a_durable_append_is_its_own_sync() {
        let trace = Trace { elapsed_ns: 100, appends: vec![append(0, 0, 50)], ..Trace::default() };
        let measured = analyse(&trace, &DESIGNS[4]);
        assert_eq!(measured.latency("in_flight").map(Latency::count), Some(1));
    }

    /// What the table says where this many appends of each latency wait for a sync, and one of a design takes `longest_ns` itself.
    #[cfg(target_os = "linux")]
    fn said(waiting_ns: u64, longest: &str, longest_ns: u64) -> Vec<(&'static str, String)> {
        use crate::sample::samples;
        let mut study = study(&Settings::default(), &crate::testbed::sim::SimTestbed::new(1, Vec::new()));
        for row in &mut study.rows {
            let waits = row.id == "same-file-fsync";
            let named = |name: &str, ns| NamedLatency::new(name, name, samples(1000, ns));
            let mut service = samples(999, 2_000);
            service.record(if row.id == longest { longest_ns } else { 2_000 });
            let Some(measured) = row.measured_mut() else { continue };
            measured.latencies = vec![
                named("append", if waits { waiting_ns } else { 2_000 }),
                named("in_flight", if waits { waiting_ns } else { 2_000 }),
                named("clear", 2_000),
                NamedLatency::new("service", "service", service),
            ];
            measured.set("appends", 1000.0);
        }
        finish(&mut study);
        judge(&study).into_iter().map(|one| (one.rule, one.sentence + " " + &one.remedy)).collect()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_stall_of_the_original_is_found_with_the_designs_that_avoid_it_and_a_stall_of_another_design() {
        let all = said(2_000_000, "writeback-only", 30_000_000);
        let [(first, blocked), (second, longest)] = &all[..] else { panic!("{all:?}") };
        assert_eq!([*first, *second], ["sync-blocks-appends", "stalls"]);
        assert!(blocked.contains("other segment") && blocked.contains("Seawall log"), "{blocked}");
        assert!(!blocked.contains("writeback only"), "that one is not durable: {blocked}");
        assert!(longest.contains("writeback only") && !longest.contains("other segment"), "{longest}");
        let none = said(3_000, "", 0);
        assert!(none.len() == 1 && none[0].1.contains("holds appends up little"), "{none:?}");
    }

    #[test]
    fn designs_are_distinguished_and_fit_the_table() {
        let mut ids: Vec<&str> = DESIGNS.iter().map(|design| design.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), DESIGNS.len());
        assert!(DESIGNS.iter().all(|design| design.label.len() <= 15));
    }
}
