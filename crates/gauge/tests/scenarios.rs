//! Snapshot tests: the scenarios' tables and findings on the simulated testbed are compared to the byte.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p seawall-gauge --test scenarios` rewrites the files; only on purpose.
//!
//! Invariants: each case is measured with a fixed seed, so its figures are exact; every terminal line fits its width;
//! a result read back from its file gives the same report; every planted fault is found.

#[cfg(target_os = "linux")]
mod snapshot;
mod watcher;

use seawall_gauge::findings::{self, Finding};
use seawall_gauge::rank::Ranking;
use seawall_gauge::report::{self, Style, csv, markdown};
use seawall_gauge::result::RunResult;
use seawall_gauge::row::Outcome;
use seawall_gauge::scenario::path::jvm::{Jvm, JvmRow, Shape};
use seawall_gauge::scenario::settings::{Amount, Settings};
use seawall_gauge::scenario::{self, RunError, SCENARIOS};
use seawall_gauge::study::Study;
use seawall_gauge::testbed::sim::{Plant, SimTestbed};
use seawall_sys::durability::Medium;
#[cfg(target_os = "linux")]
use snapshot::compare;
use std::sync::atomic::AtomicBool;
use watcher::Watcher;

fn settings(name: &str) -> Settings {
    let all = (scenario::find(name).expect(name).settings)();
    let (rounds, warm_up) = (all.rounds.min(5), all.warm_up.min(2));
    // Enough for the percentiles that the tables show.
    let time_ns = if name == "path" { 10_000_000_000 } else { 4_000_000_000 };
    let amount = all.time_ns().map_or(all.amount, |_| Amount::TimeNs(time_ns));
    Settings { amount, rounds, warm_up, file_bytes: Some(64 << 20), ..all }
}

fn run_on(
    testbed: &mut SimTestbed,
    name: &str,
    settings: &Settings,
    watcher: &mut Watcher,
) -> Result<RunResult, RunError> {
    (scenario::find(name).expect(name).run)(settings, testbed, watcher)
}

fn run(name: &str, plants: Vec<Plant>) -> RunResult {
    let mut testbed = SimTestbed::new(42, plants);
    run_on(&mut testbed, name, &settings(name), &mut Watcher::default()).expect("a result")
}

fn names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().filter(|scenario| !scenario.ranked).map(|scenario| scenario.name)
}

fn table(result: &RunResult) -> &Study {
    &result.study
}

fn found(result: &RunResult, rule: &str) -> Option<Finding> {
    findings::find(&Ranking::new(result)).into_iter().find(|finding| finding.rule == rule)
}

/// Several file systems side by side, of which one searches the cache.
fn two_places() -> RunResult {
    let mut testbed = SimTestbed::new(42, vec![Plant::CacheSearch { ns_per_kib: 10 }]);
    let mut other = testbed.environments_mut()[0].clone();
    "otherfs".clone_into(&mut other.file_system.kind);
    testbed.environments_mut().push(other);
    run_on(&mut testbed, "cached", &settings("cached"), &mut Watcher::default()).expect("a result")
}

/// Ways of two JVMs, of which the older lacks some.
fn jvms() -> Vec<Jvm> {
    let ways = [
        ("raf-seek+write", "seek+write", Shape::Fixed, true, 17),
        ("channel-direct-at", "pwrite", Shape::Fixed, true, 17),
        ("channel-append", "append", Shape::Growing, true, 17),
        ("ffm-pwrite", "pwrite", Shape::Fixed, true, 22),
        ("channel-odirect", "direct", Shape::Aligned, true, 17),
        ("raf-rwd", "dsync", Shape::Fixed, true, 17),
        ("channel-dsync", "dsync", Shape::Fixed, true, 17),
        ("channel-append-dsync", "dsync", Shape::Growing, true, 17),
        ("mapped-segment-force", "mmap+msync", Shape::Fixed, false, 22),
    ];
    let jvm = |major: u32| Jvm {
        label: major.to_string(),
        words: format!("{major}.0.1, Simulated"),
        clock_ns: Some(25.0),
        rows: ways
            .iter()
            .map(|(id, like, shape, allocates_nothing, jdk)| JvmRow {
                id: (*id).to_owned(),
                like: (*like).to_owned(),
                shape: *shape,
                allocates_nothing: *allocates_nothing,
                what: format!("what {id} does"),
                not_available: (*jdk > major)
                    .then(|| format!("needs JDK {jdk}, this is {major}: name a newer one")),
            })
            .collect(),
    };
    vec![jvm(17), jvm(25)]
}

#[cfg(target_os = "linux")]
fn on_jvms() -> RunResult {
    let settings = Settings { jvms: Some(jvms()), ..settings("path") };
    run_on(&mut SimTestbed::new(42, Vec::new()), "path", &settings, &mut Watcher::default())
        .expect("a result")
}

/// Everything that can happen to a row.
fn spoiled() -> RunResult {
    run(
        "stall",
        vec![
            Plant::Stall { method: "seawall-log", every: 5_000, ns: 30_000_000 },
            Plant::Missing { method: "sync-file-range", reason: "this system has no sync_file_range" },
            Plant::Fails { method: "other-segment", after: 100 },
        ],
    )
}

#[cfg(target_os = "linux")]
#[test]
fn every_report_is_as_it_was() {
    let plain = names().map(|name| (name.to_owned(), run(name, Vec::new())));
    let more = [
        ("cached-two-places".to_owned(), two_places()),
        ("path-jvm".to_owned(), on_jvms()),
        ("stall-spoiled".to_owned(), spoiled()),
    ];
    for (name, result) in plain.chain(more) {
        for width in [80, 120] {
            compare(&format!("scenario-{name}.{width}.txt"), &report::terminal(&result, width, Style::PLAIN));
        }
        compare(&format!("scenario-{name}.md.txt"), &markdown::markdown(&result));
        compare(&format!("scenario-{name}.csv.txt"), &csv::csv(&result));
    }
}

#[test]
fn no_line_is_wider_than_the_terminal_and_no_column_is_lost() {
    for result in names().map(|name| run(name, Vec::new())).chain([two_places(), spoiled()]) {
        for width in [40, 60, 80, 100, 160] {
            let text = report::terminal(&result, width, Style::PLAIN);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{} at {width}: {line}", result.scenario);
            }
            // A narrow terminal may cut a title.
            for column in table(&result).columns.iter().filter(|column| column.essential && width >= 60) {
                assert!(text.contains(&column.title), "{} at {width}: {}", result.scenario, column.key);
            }
        }
    }
}

#[test]
fn a_result_read_back_from_its_file_prints_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in names() {
        let path = folder.path().join(name);
        let result = run(name, Vec::new());
        result.write(&path).expect("written");
        let read = RunResult::read(&path).expect("read");
        let all = |result: &RunResult| {
            [report::terminal(result, 80, Style::PLAIN), markdown::markdown(result), csv::csv(result)]
        };
        assert_eq!(all(&result), all(&read), "{name}");
    }
}

#[test]
fn ids_and_keys_are_unique_and_every_column_has_a_source() {
    for result in names().map(|name| run(name, Vec::new())).chain([two_places()]) {
        let study = table(&result);
        let unique = |mut names: Vec<&str>| {
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            names.len() == all
        };
        assert!(unique(study.rows.iter().map(|row| row.id.as_str()).collect()), "{}", result.scenario);
        assert!(
            unique(study.columns.iter().map(|column| column.key.as_str()).collect()),
            "{}",
            result.scenario
        );
        for column in &study.columns {
            let somewhere = study.rows.iter().any(|row| Study::value(row, column).is_some());
            assert!(somewhere, "{}: nothing is ever in column {}", result.scenario, column.key);
        }
        assert!(study.rows.iter().all(|row| row.label.chars().count() <= 24));
    }
}

#[test]
fn every_row_runs_once_a_round_in_a_new_order_and_is_kept_after_each() {
    for name in names() {
        let settings = settings(name);
        let mut watcher = Watcher::default();
        let mut testbed = SimTestbed::new(1, Vec::new());
        let result = run_on(&mut testbed, name, &settings, &mut watcher).expect("a result");
        let rounds = settings.rounds as usize;
        assert_eq!(watcher.kept.len(), rounds + settings.warm_up as usize, "{name}");
        assert_eq!(watcher.kept.iter().filter(|complete| **complete).count(), 1, "{name}");
        assert!(result.complete && result.order.len() == rounds);
        assert!(table(&result).measured().all(|(_, measured)| measured.rounds.len() == rounds), "{name}");
        let mut orders = result.order.clone();
        orders.dedup();
        assert_eq!(orders.len(), rounds, "{name}: each round draws an order of its own");
    }
}

#[test]
fn a_time_budget_is_kept() {
    for name in names().filter(|name| settings(name).time_ns().is_some()) {
        let mut testbed = SimTestbed::new(1, Vec::new());
        let settings = Settings { amount: Amount::TimeNs(20_000_000_000), ..settings(name) };
        run_on(&mut testbed, name, &settings, &mut Watcher::default()).expect("a result");
        let spent_s = seawall_gauge::testbed::Testbed::now_ns(&testbed) as f64 / 1e9;
        assert!((19.0..22.0).contains(&spent_s), "{name}: {spent_s}");
    }
}

#[test]
fn the_stall_of_the_original_is_found_and_the_designs_that_avoid_it_are_named() {
    let result = run("stall", Vec::new());
    let finding = found(&result, "sync-blocks-appends").expect("found");
    let remedy = finding.remedy;
    assert!(remedy.contains("other segment") && remedy.contains("Seawall log"), "{remedy}");
    assert!(!remedy.contains("writeback only"), "that one is not durable: {remedy}");
    assert_eq!(found(&result, "stalls"), None, "nothing else stalls");
}

#[test]
fn a_planted_stall_is_found_where_it_was_planted_and_charged_to_what_it_delayed() {
    let plant = Plant::Stall { method: "writeback-only", every: 2_000, ns: 30_000_000 };
    let result = run("stall", vec![plant]);
    let finding = found(&result, "stalls").expect("found");
    assert!(finding.sentence.contains("writeback only"), "{}", finding.sentence);
    let measured = table(&result).row("writeback-only").and_then(|row| row.measured()).expect("measured");
    let slow = |name: &str| {
        let latency = measured.latency(name).expect("kept");
        latency.histogram().count_between(1_000_000, u64::MAX)
    };
    assert!(slow("append") > 100 * slow("service"), "{} against {}", slow("append"), slow("service"));
    assert_eq!(found(&result, "cpu-wait"), None, "a stall of the device is no wait for a CPU");
}

#[test]
fn a_planted_wait_for_a_cpu_is_distinguished_from_a_stall_in_every_scenario_that_accounts_for_it() {
    for (name, row) in [
        ("stall", "seawall-log"),
        ("group", "shared-1"),
        ("interfere", "PLACEHOLDER"),
        ("path", "pwrite/closed"),
    ] {
        let healthy = run(name, Vec::new());
        assert_eq!(found(&healthy, "cpu-wait"), None, "{name}: nothing waits on a healthy machine");
        let row = if row == "PLACEHOLDER" { table(&healthy).rows[0].id.clone() } else { row.to_owned() };
        let row: &'static str = Box::leak(row.into_boxed_str());
        let label = table(&healthy).row(row).expect("is a row").label.clone();
        let result = run(name, vec![Plant::CpuWait { method: row, every: 50, ns: 3_000_000 }]);
        let finding = found(&result, "cpu-wait").unwrap_or_else(|| panic!("{name}: not found"));
        assert!(finding.sentence.contains(&label), "{name}: {}", finding.sentence);
    }
}

#[test]
fn a_log_that_gains_nothing_by_sharing_misses_the_goals_that_say_so_and_a_healthy_one_meets_them() {
    let said = |plants| {
        let names = ["W9", "W11"].map(str::to_owned).to_vec();
        let settings = Settings { workloads: names, ..settings("log") };
        let mut testbed = SimTestbed::new(42, plants);
        let result = run_on(&mut testbed, "log", &settings, &mut Watcher::default()).expect("a result");
        let ids: Vec<&str> = table(&result).rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, ["floor-4k", "bare-4k", "W4", "W9", "W11s", "W11"]);
        found(&result, "log-goals").expect("said").sentence
    };
    assert!(said(Vec::new()).contains("meets all 4 goals"), "{}", said(Vec::new()));
    let slow = said(vec![Plant::Stall { method: "log-16", every: 1, ns: 1_000_000 }]);
    assert!(slow.contains("misses 1 of the 4") && slow.contains("W11 0.7"), "{slow}");
    let lost = said(vec![Plant::Fails { method: "own-16", after: 10 }]);
    assert!(lost.contains("meets all 3 goals"), "without 16 logs there is nothing to compare with: {lost}");
}

#[test]
fn a_sync_that_searches_the_cache_is_found_and_one_that_does_not_is_not() {
    let healthy = run("cached", Vec::new());
    let finding = found(&healthy, "cached-write").expect("said");
    assert!(finding.sentence.contains("does not make a write much dearer"), "{}", finding.sentence);
    let mut testbed = SimTestbed::new(42, vec![Plant::FolioWalk { ns_per_kib: 1 }]);
    let walking =
        run_on(&mut testbed, "cached", &settings("cached"), &mut Watcher::default()).expect("a result");
    let finding = found(&walking, "cached-write").expect("said");
    assert!(finding.sentence.contains("A write costs") && finding.remedy.contains("O_DIRECT"), "{finding:?}");
    let figures =
        table(&walking).row("through-100").and_then(|row| row.measured()?.figure("cpu_per_write_ns"));
    assert!(figures.is_some_and(|ns| ns > 65_536.0), "{figures:?}");
    assert!(
        found(&walking, "cached-sync").is_some_and(|sync| sync.sentence.contains("does not make an fsync"))
    );
    let finding = found(&healthy, "cached-sync").expect("said");
    assert!(finding.sentence.contains("does not make an fsync much dearer"), "{}", finding.sentence);
    let searching = findings::find(&Ranking::new(&two_places()));
    let costly: Vec<&Finding> = searching.iter().filter(|finding| finding.rule == "cached-sync").collect();
    assert_eq!(costly.len(), 2, "one a file system");
    assert!(costly.iter().all(|finding| finding.sentence.contains("times the CPU")), "{costly:?}");
}

#[test]
fn what_is_cached_is_measured_and_the_calls_are_counted() {
    let result = run("cached", Vec::new());
    let full = table(&result).row("through-100").and_then(|row| row.measured()).expect("measured");
    assert!(full.figure("cached_share").is_some_and(|share| (0.99..=1.0).contains(&share)));
    let calls: Vec<(&str, u64)> = full.calls.iter().map(|call| (call.call.as_str(), call.calls)).collect();
    assert_eq!(calls, [("lseek", 300), ("read", 300), ("write", 300), ("fsync", 300)]);
}

/// Linux' rows are named.
#[cfg(target_os = "linux")]
#[test]
fn a_jvm_s_row_is_set_against_the_native_one_of_the_same_calls_pace_and_file() {
    let result = on_jvms();
    let figure = |id: &str, name: &str| {
        let row = table(&result).row(id).unwrap_or_else(|| panic!("{id}"));
        row.measured().unwrap_or_else(|| panic!("{id}: {:?}", row.outcome)).figure(name)
    };
    let against = |id: &str| figure(id, "against_native");
    // 1,300 against 1,400 and 900 ns, and a jitter.
    assert!(against("jdk17/raf-seek+write/closed").is_some_and(|ratio| (0.85..1.0).contains(&ratio)));
    assert!(against("jdk25/ffm-pwrite/closed").is_some_and(|ratio| (1.3..1.55).contains(&ratio)));
    assert!(against("jdk25/raf-rwd/scheduled").is_some_and(|ratio| (1.0..1.02).contains(&ratio)));
    assert_eq!(against("dsync/closed"), None, "a native row stands for itself");
    assert_eq!(against("jdk17/channel-append-dsync/closed"), None, "no native row grows and syncs");
    assert_eq!(figure("jdk25/raf-rwd/closed", "flushes_per_write"), Some(1.0));
    assert_eq!(figure("jdk25/raf-rwd/closed", "allocated_per_write"), Some(0.0));
    assert_eq!(figure("jdk25/mapped-segment-force/closed", "allocated_per_write"), Some(40.0));
    let roll =
        |id: &str| table(&result).row(id).and_then(|row| row.measured()).and_then(|row| row.latency("roll"));
    assert!(roll("jdk25/raf-seek+write/closed").is_some());
    assert!(roll("jdk25/raf-seek+write/scheduled").is_none() && roll("pwrite/closed").is_none());
    let lacks = &table(&result).row("jdk17/ffm-pwrite/closed").expect("listed").outcome;
    assert!(matches!(lacks, Outcome::NotAvailable { reason } if reason.contains("needs JDK 22")));
    let printed: Vec<String> =
        findings::find(&Ranking::new(&result)).into_iter().map(|finding| finding.sentence).collect();
    for label in ["JDK 17", "JDK 25"] {
        assert!(
            printed.iter().any(|one| one.starts_with(label) && one.contains("durable (rwd, DSYNC)")),
            "{printed:?}"
        );
    }
}

#[test]
fn in_memory_only_the_ways_into_memory_are_run() {
    let mut testbed = SimTestbed::new(1, Vec::new());
    testbed.environments_mut()[0].file_system.medium = Medium::Memory;
    let settings = Settings { jvms: Some(jvms()), ..settings("path") };
    let result = run_on(&mut testbed, "path", &settings, &mut Watcher::default()).expect("a result");
    for row in &table(&result).rows {
        let durable = ["raf-rwd", "dsync", "odirect", "direct/", "msync", "-force"]
            .iter()
            .any(|part| row.id.contains(part));
        let lacking = row.id.starts_with("jdk17/ffm");
        assert_eq!(row.measured().is_none(), durable || lacking, "{}", row.id);
    }
    let printed = findings::find(&Ranking::new(&result));
    assert!(
        printed.iter().any(|finding| finding.sentence.contains("nothing durable was measured")),
        "{printed:?}"
    );
}

#[test]
fn writers_that_share_a_write_share_its_flush() {
    let result = run("group", Vec::new());
    let per_flush = |id: &str| {
        let row = table(&result).row(id).expect(id);
        row.measured().and_then(|measured| measured.figure("commits_per_flush")).expect("counted")
    };
    assert!((per_flush("log-64") - 64.0).abs() < 1e-9, "{}", per_flush("log-64"));
    assert!((per_flush("shared-64") - 1.0).abs() < 1e-9);
}

#[test]
fn a_load_is_judged_against_none_of_the_same_method() {
    let result = run("interfere", Vec::new());
    let rows = &table(&result).rows;
    let method = rows[0].group.clone();
    let ratio = |load: &str| {
        let row = table(&result).row(&format!("{method}/{load}")).expect("a row");
        row.measured().and_then(|measured| measured.figure("p99_ratio"))
    };
    assert_eq!(ratio("none"), None);
    assert!(ratio("buffered").is_some_and(|ratio| ratio > 15.0), "{:?}", ratio("buffered"));
    let findings = findings::find(&Ranking::new(&result));
    let felt =
        |load: &str| findings.iter().any(|finding| finding.sentence.contains(&format!("`{load}` is felt")));
    assert!(felt("buffered") && felt("random") && !felt("reads"), "{findings:?}");
}

#[test]
fn a_row_that_fails_or_is_lacking_is_named_and_the_others_go_on() {
    let result = spoiled();
    let outcome = |id: &str| &table(&result).row(id).expect("listed").outcome;
    assert!(
        matches!(outcome("sync-file-range"), Outcome::NotAvailable { reason } if reason.contains("no sync"))
    );
    assert!(matches!(outcome("other-segment"), Outcome::Failed { error, .. } if error.contains("planted")));
    assert!(matches!(outcome("seawall-log"), Outcome::Measured(measured) if measured.rounds.len() == 5));
    assert!(found(&result, "failed").is_some());
}

#[test]
fn stopping_keeps_what_was_measured_and_says_that_it_is_not_whole() {
    for name in names() {
        // In the second counted round, whatever the number of warm-ups.
        let rows = table(&run(name, Vec::new())).rows.len() as u64;
        let rounds = u64::from(settings(name).warm_up) + 1;
        let mut watcher = Watcher { stop_after: Some(rows * rounds + 2), ..Watcher::default() };
        let mut testbed = SimTestbed::new(1, Vec::new());
        let result = run_on(&mut testbed, name, &settings(name), &mut watcher).expect("a part");
        assert!(!result.complete && found(&result, "interrupted").is_some(), "{name}");
        let mut watcher = Watcher { stop: AtomicBool::new(true), ..Watcher::default() };
        let nothing = run_on(&mut SimTestbed::new(1, Vec::new()), name, &settings(name), &mut watcher);
        assert!(matches!(nothing, Err(RunError::Stopped)), "{name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_result_to_the_byte() {
    for name in names() {
        let text = |seed| {
            let settings = Settings { seed, ..settings(name) };
            let mut testbed = SimTestbed::new(seed, Vec::new());
            let result = run_on(&mut testbed, name, &settings, &mut Watcher::default()).expect("a result");
            result.to_json().expect("JSON")
        };
        assert_eq!(text(7), text(7), "{name}");
        assert_ne!(text(7), text(8), "{name}");
    }
}
