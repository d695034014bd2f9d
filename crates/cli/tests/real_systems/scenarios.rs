//! Tests that each scenario runs on a real file system, counts correctly and leaves nothing behind.
//!
//! Invariant: the tests assert counts, calls and messages, never latencies; every run is small.

use crate::ground::{Ground, folder};
use crate::program::{Bench, SEAWALL, names, ran};
use seawall_gauge::result::RunResult;
use seawall_gauge::row::{Measured, Outcome};
use seawall_gauge::scenario::SCENARIOS;
use std::path::Path;
use std::process::Command;

/// A run of about a second: the scenario, and the options that make it small.
pub(crate) const SMALL: [(&str, &[&str]); 6] = [
    ("stall", &["--time", "1s", "--rounds", "1"]),
    ("cached", &["--rounds", "1", "--file", "4MiB", "--rewrites", "5"]),
    ("path", &["--time", "1s", "--rounds", "2", "--warm-up", "1"]),
    ("group", &["--time", "1s", "--rounds", "1", "--writers", "1,3"]),
    ("interfere", &["--time", "1s", "--rounds", "1"]),
    ("log", &["--time", "1s", "--rounds", "2", "--workloads", "W1,W3"]),
];

fn run(scenario: &str, options: &[&str], folder: &Path) -> RunResult {
    let result = bench(scenario, options, folder).run().result();
    assert_eq!(names(folder), Vec::<String>::new(), "{scenario}");
    assert_eq!(result.scenario, scenario);
    result
}

fn bench(scenario: &str, options: &[&str], folder: &Path) -> Bench {
    let options = [options, &["--allow-memory"]].concat();
    Bench::scenario(scenario, folder, &options)
}

fn small(scenario: &str) -> RunResult {
    let folder = folder();
    let (_, options) = SMALL.iter().find(|(name, _)| *name == scenario).expect("a small one");
    run(scenario, options, folder.path())
}

fn measured<'a>(result: &'a RunResult, id: &str) -> &'a Measured {
    let row = result.study.row(id).unwrap_or_else(|| panic!("{id} is not in the result"));
    row.measured().unwrap_or_else(|| panic!("{id}: {:?}", row.outcome))
}

fn none_failed(result: &RunResult) {
    for row in &result.study.rows {
        assert!(!matches!(row.outcome, Outcome::Failed { .. }), "{}: {:?}", row.id, row.outcome);
    }
}

#[test]
fn stall_appends_on_schedule_while_the_other_thread_syncs_or_does_not() {
    let result = small("stall");
    none_failed(&result);
    let count = |id: &str, name: &str| measured(&result, id).latency(name).expect("kept").count();
    for id in ["same-file-fsync", "other-segment", "seawall-log"] {
        assert!(count(id, "append") > 0 && count(id, "sync") > 0, "{id}");
        assert_eq!(count(id, "in_flight") + count(id, "clear"), count(id, "append"), "{id}");
    }
    assert!(count("writeback-only", "append") > 0);
    assert_eq!(count("writeback-only", "sync"), 0);
    assert_eq!(count("writeback-only", "in_flight"), 0);
    assert!(!result.study.facts.is_empty(), "the writeback settings are printed");
}

#[test]
fn cached_makes_the_original_s_calls_and_measures_what_is_cached() {
    let result = small("cached");
    for row in &result.study.rows {
        let calls: Vec<(&str, u64, u64)> = measured(&result, &row.id)
            .calls
            .iter()
            .map(|call| (call.call.as_str(), call.calls, call.errors))
            .collect();
        assert_eq!(calls, [("lseek", 10, 0), ("read", 5, 0), ("write", 5, 0), ("fsync", 5, 0)], "{}", row.id);
    }
    let share = |id: &str| measured(&result, id).figure("cached_share");
    if let (Some(cold), Some(full)) = (share("cold"), share("through-100")) {
        assert!(full > 0.99, "{full}");
        assert!(cold < full, "a dropped cache holds less: {cold}");
    }
}

#[test]
fn path_lists_every_iteration_and_counts_every_write() {
    let result = small("path");
    for (row, measured) in result.study.measured() {
        assert_eq!(measured.iterations.len(), 2, "{}: warm-up is not listed", row.id);
        let listed: u64 = measured.iterations.iter().map(|iteration| iteration.count).sum();
        assert_eq!(measured.latency("write").expect("kept").count(), listed, "{}", row.id);
        assert!(listed > 0, "{}", row.id);
    }
    assert_eq!(result.study.measured().count(), 10);
}

#[test]
fn group_lets_each_number_of_writers_commit_in_each_way() {
    let result = small("group");
    for id in ["shared-1", "shared-3", "own-1", "own-3", "log-1", "log-3"] {
        let measured = measured(&result, id);
        assert!(measured.commits >= 1, "{id}");
        assert!(measured.figure("commits_per_s").is_some(), "{id}");
    }
}

#[test]
fn interfere_has_a_load_that_really_moves_bytes() {
    let result = small("interfere");
    for row in &result.study.rows {
        let Some(measured) = row.measured() else { continue };
        let moved = measured.figure("load_bytes").expect("counted");
        assert_eq!(moved > 0.0, row.label != "none", "{}: {moved}", row.id);
    }
    assert!(result.study.measured().count() >= 4);
}

#[test]
fn the_log_commits_beside_its_floor_and_every_row_says_how() {
    let (folder, options) = (folder(), ["--time", "1s", "--rounds", "2", "--workloads", "W1,W3,W4p,W5g"]);
    let result = run("log", &options, folder.path());
    let ids: Vec<&str> = result.study.rows.iter().map(|row| row.id.as_str()).collect();
    let expected =
        ["floor-16k", "bare-16k", "W1", "floor-4k", "bare-4k", "W3", "W4p", "floor-100k", "bare-100k", "W5g"];
    assert_eq!(ids, expected);
    for id in ids {
        let row = measured(&result, id);
        assert!(row.commits > 0 && row.rounds.len() == 2 && row.durability.is_some(), "{id}");
        let is_loop = id.starts_with("floor");
        assert_eq!(row.figure("vs_floor").is_some(), !is_loop && !id.starts_with("bare"), "{id}");
        assert_eq!(row.figure("records_per_batch").is_some(), id.starts_with('W'), "{id}");
    }
    let per_batch = |id| measured(&result, id).figure("records_per_batch").expect("a log");
    assert!(per_batch("W4p") > per_batch("W1"), "many commits share a batch");
    assert!(per_batch("W5g") > 50.0, "a transaction is one batch");
    let method = |id: &str| result.study.row(id).and_then(|row| row.method.clone()).expect("a method").id;
    assert_eq!(method("floor-16k"), method("W1"), "the floor commits as the log does");
}

#[test]
fn streams_commit_and_are_read_in_place_and_the_rows_that_they_are_compared_with_run_too() {
    let names = "W9,W11,W10,W10s,W10c,W12,open";
    let options = ["--time", "2s", "--rounds", "1", "--workloads", names, "--log-size", "32MiB"];
    let folder = folder();
    let result = run("log", &options, folder.path());
    none_failed(&result);
    let figure = |id: &str, key: &str| measured(&result, id).figure(key);
    for (id, base) in [("W9", "W4"), ("W11", "W11s"), ("W12", "W7")] {
        assert!(figure(id, "vs_base").is_some(), "{id} by {base}");
        assert!(measured(&result, base).main().count() > 0, "{base}");
    }
    for id in ["W10", "W10s", "W12"] {
        assert!(measured(&result, id).main().count() > 0, "{id}");
    }
    for name in ["meanwhile", "alone"] {
        assert!(measured(&result, "W12").latency(name).is_some_and(|latency| latency.count() > 0), "{name}");
    }
    assert!(figure("W9", "memory_per_stream_bytes").is_some_and(|bytes| bytes > 0.0));
    assert_eq!(figure("W11s", "threads").map(|threads| threads >= 32.0), Some(true), "two threads a log");
    assert_eq!(figure("W11", "descriptors_vs_base").map(|share| share < 1.0), Some(true));
}

fn seawall(work: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    ran(Command::new(SEAWALL).args(arguments).current_dir(work))
}

#[test]
fn several_folders_are_compared_by_the_scenario_that_does_so() {
    let (one, other, work) = (folder(), folder(), folder());
    let (_, options) = SMALL[1];
    let json = work.path().join("result.json");
    let mut command = Command::new(SEAWALL);
    command.args(["bench", "cached"]).args([one.path(), other.path()]).args(options);
    let (code, printed) =
        ran(command.args(["--allow-memory", "--no-out", "--no-progress", "--json"]).arg(&json));
    assert_eq!(code, Some(0), "{printed}");
    let result = RunResult::read(&json).expect("a result");
    assert_eq!(result.study.places.len(), 2);
    assert_eq!(result.study.measured().count(), 12);
    assert!(names(one.path()).is_empty() && names(other.path()).is_empty());
}

#[test]
fn the_list_names_every_scenario_and_measures_nothing() {
    let work = folder();
    let (code, printed) = seawall(work.path(), &["bench", "--list"]);
    assert_eq!(code, Some(0), "{printed}");
    for scenario in &SCENARIOS {
        assert!(printed.contains(scenario.name), "{printed}");
    }
    for word in ["defaults:", "--rounds"] {
        assert_eq!(printed.matches(word).count(), SCENARIOS.len(), "{printed}");
    }
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    assert_eq!(names(work.path()), Vec::<String>::new());
}

#[test]
fn a_folder_that_is_called_like_a_scenario_is_written_with_its_place() {
    let work = folder();
    std::fs::create_dir(work.path().join("stall")).expect("a folder");
    for (word, announced) in [("./stall", "commit transactions"), ("stall", "Will run `stall`")] {
        let (code, printed) = seawall(work.path(), &["bench", word, "--dry-run", "--allow-memory"]);
        assert!(code == Some(0) && printed.contains(announced), "{word}: {printed}");
    }
}

#[test]
fn a_preview_of_everything_measures_nothing() {
    let work = folder();
    let (code, printed) = seawall(work.path(), &["bench", "all", "--dry-run", "--allow-memory"]);
    assert_eq!(code, Some(0), "{printed}");
    assert_eq!(printed.matches("Will ").count(), 1, "one announcement: {printed}");
    assert!(printed.contains("one after the other, about "), "{printed}");
    for scenario in &SCENARIOS {
        let alone = !scenario.alone.is_empty();
        let what = if alone { "Leaves out " } else { "" };
        assert!(printed.contains(&format!("{what}`{}`", scenario.name)), "{printed}");
    }
    assert_eq!(names(work.path()), Vec::<String>::new());
}

/// strace's lines of one call on the file whose name begins with `file`.
fn traced(trace: &str, call: &str, file: &str) -> usize {
    trace.lines().filter(|line| line.contains(&format!(" {call}(")) && line.contains(file)).count()
}

#[test]
#[ignore = "needs strace; run by `cargo xtask test`"]
fn each_way_of_writing_makes_its_own_calls_and_syncs_come_from_the_other_thread() {
    let (folder, aside) = (folder(), folder());
    let path = aside.path().join("trace");
    let wrapper = ["strace", "-f", "-y", "-s", "0", "-o", path.to_str().expect("UTF-8")];
    let only = ["-e", "trace=lseek,write,pwrite64,pwritev2,fsync,fdatasync,sync_file_range"];
    let wrapper = [&wrapper[..], &only].concat();
    let options = ["--time", "1s", "--rounds", "1", "--warm-up", "0"];
    let result = bench("path", &options, folder.path()).under(&wrapper).run().result();
    let trace = std::fs::read_to_string(&path).expect("a trace");
    let writes = |id: &str| {
        let both = ["closed", "scheduled"].map(|pace| {
            let count = measured(&result, &format!("{id}/{pace}")).latency("write").expect("kept").count();
            usize::try_from(count).expect("few")
        });
        both[0] + both[1]
    };
    assert_eq!(traced(&trace, "pwrite64", "seawall-path"), writes("pwrite"));
    assert_eq!(traced(&trace, "pwritev2", "seawall-path"), writes("pwritev2"));
    assert_eq!(traced(&trace, "lseek", "seawall-path"), writes("seek+write"));
    assert_eq!(traced(&trace, "write", "seawall-append"), writes("append"));
    let result =
        bench("stall", &["--time", "1s", "--rounds", "1"], folder.path()).under(&wrapper).run().result();
    let trace = std::fs::read_to_string(&path).expect("a trace");
    let ranges = measured(&result, "sync-file-range").latency("sync").expect("kept").count();
    assert_eq!(traced(&trace, "sync_file_range", "seawall-stall"), usize::try_from(ranges).expect("few"));
    // One thread writes what another syncs, through a descriptor that is open for nothing else.
    let thread = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let of = |call: &str| {
        let line =
            trace.lines().find(|line| line.contains(&format!(" {call}(")) && line.contains("seawall-stall"));
        thread(line.unwrap_or_else(|| panic!("no {call}")))
    };
    assert_ne!(of("sync_file_range"), of("pwrite64"));
}

/// Less than a page by `direct+dsync`, in all scenarios that commit: the outcome of each row. Something else is
/// measured beside it: a run that measured nothing ends with an error.
fn small_writes_around_the_cache(folder: &Path) -> Vec<(String, Outcome)> {
    let options = ["--size", "1KiB", "--time", "1s", "--rounds", "1"];
    let group = ["--methods", "direct+dsync", "--writers", "1,2"];
    let interfere = ["--methods", "direct+dsync,buffered+fdatasync"];
    let mut rows = Vec::new();
    for (scenario, more, others) in
        [("group", &group[..], "log-"), ("interfere", &interfere[..], "buffered+fdatasync/")]
    {
        let result = run(scenario, &[&options[..], more].concat(), folder);
        let named = result.study.rows.iter().filter(|row| !row.id.starts_with(others));
        rows.extend(named.map(|row| (format!("{scenario} {}", row.id), row.outcome.clone())));
    }
    assert_eq!(rows.len(), 8, "2 ways of 2 writers each, 4 loads");
    rows
}

#[test]
fn writes_of_less_than_a_page_around_the_cache_never_fail() {
    for (row, outcome) in small_writes_around_the_cache(folder().path()) {
        assert!(!matches!(outcome, Outcome::Failed { .. }), "{row}: {outcome:?}");
    }
}

#[test]
#[ignore = "needs root and a loop device; run by `cargo xtask test`"]
fn a_size_that_the_disk_has_no_sectors_for_is_not_available() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let ground = Ground::with_sectors(place, "xfs", 1024, "defaults", 4096);
    for (row, outcome) in small_writes_around_the_cache(ground.path()) {
        let Outcome::NotAvailable { reason } = &outcome else { panic!("{row}: {outcome:?}") };
        assert!(reason.contains("was refused here"), "{row}: {reason}");
    }
}
