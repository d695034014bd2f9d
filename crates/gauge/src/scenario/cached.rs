//! Scenario `cached`: the cost of fsync against how much of a huge file is in the page cache.
//!
//! The original, a published test: 100 × (seek, read, write, fsync) of 4 KiB at random places of a 16 GiB file on a
//! machine of 16 GiB, cold, then after reading the file in through the cache and around it, on two file systems;
//! reported by `timex` (real, user, sys) and `truss -c` (calls, seconds). On one of them each fsync walked the list
//! of all cached pages: 4 s of CPU each.
//!
//! ```text
//!   drop the cache · read the row's share in · measure what is cached · 100 × (seek, read, write, fsync) · accounts
//! ```
//!
//! Corrected: how much is cached is measured, not assumed, and swept; the CPU time inside each call is accounted, because
//! it, not waiting, is the signal; each row starts from a dropped cache, in an order drawn for each round.
//!
//! Invariant: a row never runs on pages that another row left in the cache.

mod real;

use super::rounds::{self, Course};
use super::settings::Settings;
use super::{Observer, RunError};
use crate::figures::{bytes, capital, duration, significant};
use crate::findings::{Finding, Severity};
use crate::latency::Latency;
use crate::result::RunResult;
use crate::row::{CallTally, Measured, NamedLatency, Row};
use crate::study::{Better, Column, Fact, MeasuredFolder, Point, Study, Unit};
use crate::testbed::Testbed;
use seawall_host::thread::Times;
use seawall_sys::counters::Counts;

/// The scenario's name.
pub const NAME: &str = "cached";

/// How the file is read before a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadIn {
    /// Not at all: cold.
    Nothing,
    /// All of it, around the cache.
    Around,
    /// The first part of it, through the cache, in per cent.
    Through(u64),
}

/// The rows: id, label, in a sentence, how the file is read before.
const VARIANTS: [(&str, &str, &str, ReadIn); 6] = [
    ("cold", "cold", "nothing is cached", ReadIn::Nothing),
    ("around", "read around", "the whole file was read around the cache", ReadIn::Around),
    ("through-25", "read in, 25 %", "a quarter was read in through the cache", ReadIn::Through(25)),
    ("through-50", "read in, 50 %", "half was read in through the cache", ReadIn::Through(50)),
    ("through-75", "read in, 75 %", "three quarters were read in through the cache", ReadIn::Through(75)),
    ("through-100", "read in, 100 %", "the whole file was read in through the cache", ReadIn::Through(100)),
];

struct BlockRequest<'a> {
    settings: &'a Settings,
    place: usize,
    read_in: ReadIn,
    file_bytes: u64,
    /// Of the places and the data.
    seed: u64,
}

/// What a block measured.
#[derive(Default)]
struct Trace {
    elapsed_ns: u64,
    /// The sync alone.
    sync: Latency,
    calls: Vec<CallTally>,
    times: Times,
    /// Bytes of the file in the cache before the first rewrite.
    cached_bytes: Option<u64>,
    counts: Option<Counts>,
}

/// The largest file that is made by default, bytes.
const FILE_BYTES_DEFAULT: u64 = 1 << 30;

/// The size of the file: as given, or what memory and space allow.
pub fn file_bytes(settings: &Settings, available_memory_bytes: Option<u64>, free_bytes: u64) -> u64 {
    let allowed = FILE_BYTES_DEFAULT.min(available_memory_bytes.unwrap_or(u64::MAX) / 2).min(free_bytes / 4);
    let least = (16 << 20).max(settings.bytes as u64 * 4);
    settings.file_bytes.unwrap_or_else(|| (allowed >> 20 << 20).max(least))
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
    let free_bytes =
        (0..testbed.places()).map(|place| testbed.environment(place).file_system.free_bytes).min();
    let file_bytes = file_bytes(settings, testbed.available_memory_bytes(), free_bytes.unwrap_or(0));
    let cases: Vec<(usize, ReadIn)> =
        (0..testbed.places()).flat_map(|place| VARIANTS.map(|(_, _, _, read_in)| (place, read_in))).collect();
    let study = study(settings, testbed, file_bytes);
    let course = Course::new(NAME, settings, file_bytes, study);
    let mut block = 0;
    rounds::run(course, testbed, observer, &finish, &mut |testbed, turn| {
        let ((place, read_in), until) = (cases[turn.index], turn.until);
        block += 1;
        let seed = settings.seed << 32 | block;
        let request = BlockRequest { settings, place, read_in, file_bytes, seed };
        let trace = testbed.real()?.block(|real| real::run(real, &request, until))?;
        Ok(tally(trace, file_bytes))
    })
}

fn tally(trace: Trace, file_bytes: u64) -> Measured {
    let Trace { elapsed_ns, sync, calls, times, cached_bytes, counts } = trace;
    let rewrites = sync.count() as f64;
    let cpu_ns = |name: &str| calls.iter().find(|call| call.call == name).and_then(|call| call.cpu_ns);
    let of_calls = CPU_OF.map(|(call, sum, _)| (sum, cpu_ns(call)));
    let mut measured = Measured {
        elapsed_ns,
        latencies: vec![NamedLatency::new("sync", "the sync alone", sync)],
        calls,
        cpu: times,
        counts,
        ..Measured::default()
    };
    measured.set("rewrites", rewrites);
    for (sum, ns) in of_calls {
        if let Some(ns) = ns {
            measured.set(sum, ns as f64);
        }
    }
    if let Some(cached) = cached_bytes {
        measured.set("cached_share_sum", cached as f64 / file_bytes.max(1) as f64);
    }
    measured
}

/// The sync's name in the table of calls.
const SYNC: &str = "fsync";
const WRITE: &str = "write";

/// Calls whose CPU time has a column of its own: the name of its sum, and of its share of one rewrite.
const CPU_OF: [(&str, &str, &str); 2] =
    [(WRITE, "write_cpu_ns", "cpu_per_write_ns"), (SYNC, "sync_cpu_ns", "cpu_per_sync_ns")];

fn finish(study: &mut Study) {
    for row in &mut study.rows {
        let x = row.x;
        let Some(measured) = row.measured_mut() else { continue };
        if let Some(bytes) = x {
            measured.set("read_in_bytes", bytes);
        }
        let rewrites = measured.figure("rewrites").unwrap_or(0.0);
        if rewrites == 0.0 {
            continue;
        }
        measured.set("wall_per_rewrite_ns", measured.elapsed_ns as f64 / rewrites);
        measured.set("user_per_rewrite_ns", measured.cpu.user_ns as f64 / rewrites);
        measured.set("system_per_rewrite_ns", measured.cpu.system_ns as f64 / rewrites);
        for (_, sum, each) in CPU_OF {
            if let Some(cpu_ns) = measured.figure(sum) {
                measured.set(each, cpu_ns / rewrites);
            }
        }
        if let Some(sum) = measured.figure("cached_share_sum") {
            // The last block is absorbed before its round is noted down.
            measured.set("cached_share", sum / measured.rounds.len().max(1) as f64);
        }
    }
}

fn study(settings: &Settings, testbed: &dyn Testbed, file_bytes: u64) -> Study {
    let places: Vec<MeasuredFolder> = (0..testbed.places())
        .map(|place| {
            let environment = testbed.environment(place).clone();
            let kind = &environment.file_system.kind;
            let alike = (0..testbed.places())
                .filter(|other| testbed.environment(*other).file_system.kind == *kind)
                .count();
            let label = if alike > 1 { format!("{kind} {}", place + 1) } else { kind.clone() };
            MeasuredFolder { label, environment }
        })
        .collect();
    let several = places.len() > 1;
    let row = |place: usize, (id, label, what, read_in): &(&str, &str, &str, ReadIn)| Row {
        what: (*what).to_owned(),
        group: if several { places[place].label.clone() } else { String::new() },
        x: match read_in {
            ReadIn::Through(percent) => Some((file_bytes / 100 * percent) as f64),
            ReadIn::Nothing => Some(0.0),
            // No point of the sweep.
            ReadIn::Around => None,
        },
        place: several.then_some(place),
        ..Row::waiting(if several { format!("{}/{id}", place + 1) } else { (*id).to_owned() }, *label)
    };
    let rows = (0..places.len()).flat_map(|place| VARIANTS.iter().map(move |variant| (place, variant)));
    let rows: Vec<Row> = rows.map(|(place, variant)| row(place, variant)).collect();
    Study {
        title: format!(
            "{} × (seek, read, write, fsync) of {} at random places of a file of {}",
            settings.rewrites,
            bytes(settings.bytes as u64),
            bytes(file_bytes)
        ),
        reproduces: super::find(NAME).map_or(String::new(), |scenario| scenario.reproduces.to_owned()),
        row_title: "read before".to_owned(),
        settings: vec![
            Fact::new("file_bytes", "file", bytes(file_bytes)),
            Fact::new("size_bytes", "size", bytes(settings.bytes as u64)),
            Fact::new("rewrites", "rewrites a round", settings.rewrites.to_string()),
        ],
        places: if several { places } else { Vec::new() },
        columns: columns(),
        rows,
        notes: vec![
            "wall, user and sys are per rewrite (seek, read, write and fsync); `CPU of one` is what one write and one fsync alone used: neither should grow with what is cached.".to_owned(),
        ],
        ..Study::default()
    }
}

fn columns() -> Vec<Column> {
    let per = |name: &str, title: &str| {
        Column::figure(name, Unit::Nanoseconds, Better::Smaller, "per rewrite", title, true)
    };
    let cpu = |name: &str, title: &str| {
        Column::figure(name, Unit::Nanoseconds, Better::Smaller, "CPU of one", title, true)
    };
    vec![
        Column::figure("cached_share", Unit::Share, Better::Neither, "", "cached", true),
        per("wall_per_rewrite_ns", "wall"),
        per("user_per_rewrite_ns", "user"),
        per("system_per_rewrite_ns", "sys"),
        Column::latency("sync", Point::P50, "fsync alone", "p50", true),
        Column::latency("sync", Point::P99, "fsync alone", "p99", true),
        Column::latency("sync", Point::Max, "fsync alone", "max", true),
        cpu("cpu_per_write_ns", WRITE),
        cpu("cpu_per_sync_ns", SYNC),
        Column::figure("read_in_bytes", Unit::Bytes, Better::Neither, "", "read in", false),
    ]
}

/// A call whose CPU time should not grow with what is cached.
struct Suspect {
    rule: &'static str,
    /// As in the table of calls, and with its article.
    call: &'static str,
    words: &'static str,
    figure: &'static str,
    /// Growth below this, nanoseconds a call, is negligible against the rewrite itself.
    growth_ns: f64,
    remedy: &'static str,
}

/// Growth of a call's CPU time, from a cold to a wholly cached file, that is more than noise.
const GROWTH: f64 = 3.0;

const SUSPECTS: [Suspect; 2] = [
    Suspect {
        rule: "cached-sync",
        call: SYNC,
        words: "an fsync",
        figure: "cpu_per_sync_ns",
        growth_ns: 100_000.0,
        remedy: "The system looks through all cached pages of a file to find the dirty ones: keep journals small, or write around the cache.",
    },
    Suspect {
        rule: "cached-write",
        call: WRITE,
        words: "a write",
        figure: "cpu_per_write_ns",
        growth_ns: 20_000.0,
        remedy: "What was read in order may lie in the cache in large pieces (folios), and a write to a part of one pays for the whole: write whole pieces, read at random, or write around the cache (O_DIRECT).",
    },
];

/// What the table says: whether the CPU time of a sync or a write grows with what is cached, by file system.
pub fn judge(study: &Study) -> Vec<Finding> {
    let places = study.places.len().max(1);
    (0..places)
        .flat_map(|place| SUSPECTS.iter().filter_map(move |suspect| growth(study, place, suspect)))
        .collect()
}

/// A sentence's first words: with a capital where nothing leads it.
fn begun(lead: &str, words: &str) -> String {
    if lead.is_empty() { capital(words) } else { format!("{lead}{words}") }
}

fn growth(study: &Study, place: usize, suspect: &Suspect) -> Option<Finding> {
    let several = !study.places.is_empty();
    let of = |id: &str| {
        let id = if several { format!("{}/{id}", place + 1) } else { id.to_owned() };
        let measured = study.row(&id)?.measured()?;
        // A result of an older program has the table of calls alone.
        let tally = || measured.calls.iter().find(|one| one.call == suspect.call);
        let of_calls = || tally().and_then(|one| Some(one.cpu_ns? as f64 / one.calls.max(1) as f64));
        measured.figure(suspect.figure).or_else(of_calls)
    };
    let (cold_ns, full_ns) = (of("cold")?, of("through-100")?);
    let lead = study.places.get(place).map_or(String::new(), |place| format!("{}: ", place.label));
    let figures =
        format!("{} of CPU cold, {} with the whole file cached", duration(cold_ns), duration(full_ns));
    let grows = full_ns >= GROWTH * cold_ns && full_ns - cold_ns >= suspect.growth_ns;
    let words = suspect.words;
    let (severity, sentence, remedy) = if grows {
        (
            Severity::Caution,
            format!(
                "{} costs {} times the CPU when the file is cached: {figures}.",
                begun(&lead, words),
                significant(full_ns / cold_ns)
            ),
            suspect.remedy,
        )
    } else {
        (
            Severity::Note,
            format!("{} does not make {words} much dearer: {figures}.", begun(&lead, "what is cached")),
            "Nothing to do; the published system took seconds for an fsync.",
        )
    };
    Some(Finding { rule: suspect.rule, severity, sentence, remedy: remedy.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_bounded_by_memory_and_space_unless_given() {
        let settings = Settings::default();
        let cases = [
            (Some(100 << 30), 100 << 30, 1 << 30),
            (Some(1 << 30), 100 << 30, 512 << 20),
            (None, 1 << 30, 256 << 20),
            (Some(0), 0, 16 << 20),
        ];
        for (memory, free, expected) in cases {
            assert_eq!(file_bytes(&settings, memory, free), expected);
        }
        let given = Settings { file_bytes: Some(16 << 30), ..settings };
        assert_eq!(file_bytes(&given, Some(0), 0), 16 << 30);
    }

    /// What two file systems say where a write and a sync take so much CPU time with the whole file cached, and 5 µs without.
    fn said(write_ns: f64, sync_ns: f64) -> Vec<(&'static str, String)> {
        let mut testbed = crate::testbed::sim::SimTestbed::new(1, Vec::new());
        let mut other = testbed.environment(0).clone();
        "otherfs".clone_into(&mut other.file_system.kind);
        testbed.environments_mut().push(other);
        let mut study = study(&Settings::default(), &testbed, 64 << 20);
        for row in &mut study.rows {
            let full = row.id.ends_with("through-100");
            let Some(measured) = row.measured_mut() else { continue };
            measured.set("rewrites", 100.0);
            for ((_, sum, _), ns) in CPU_OF.into_iter().zip([write_ns, sync_ns]) {
                measured.set(sum, 100.0 * if full { ns } else { 5_000.0 });
            }
        }
        finish(&mut study);
        judge(&study).into_iter().map(|one| (one.rule, one.sentence + " " + &one.remedy)).collect()
    }

    #[test]
    fn a_sync_or_a_write_that_searches_the_cache_is_found_on_each_file_system_and_no_other_is() {
        let words = |all: &[(&str, String)], rule: &str, words: &str| {
            all.iter().filter(|one| one.0 == rule && one.1.contains(words)).count()
        };
        let healthy = said(5_100.0, 5_200.0);
        assert_eq!(words(&healthy, "cached-write", "does not make a write much dearer"), 2, "{healthy:?}");
        assert_eq!(words(&healthy, "cached-sync", "does not make an fsync much dearer"), 2, "{healthy:?}");
        let searching = said(5_100.0, 655_360.0);
        assert_eq!(words(&searching, "cached-sync", "times the CPU"), 2, "one a file system: {searching:?}");
        let walking = said(65_536.0, 5_200.0);
        assert_eq!(words(&walking, "cached-write", "O_DIRECT"), 2, "{walking:?}");
        assert_eq!(words(&walking, "cached-sync", "does not make an fsync"), 2, "{walking:?}");
    }
}
