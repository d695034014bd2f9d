//! Tests every scenario on ext4, xfs and btrfs loop devices, in memory and on the build disk, also in parallel.
//!
//! Invariant: the tests assert counts, calls and messages, never latencies; each run is as short as it can be.

use crate::ground::{Ground, folder};
use crate::program::{Bench, SEAWALL, names, ran};
use crate::scenarios::SMALL;
use seawall_gauge::result::RunResult;
use seawall_gauge::row::Outcome;
use seawall_gauge::scenario::{SCENARIOS, Scenario};
use std::path::Path;
use std::process::Command;

/// File systems with a disk below, and their size: `log` takes 576 MiB, and xfs and btrfs give back what the scenario before
/// used only some time after its files are gone.
const SYSTEMS: [(&str, u64); 3] = [("ext4", 768), ("xfs", 2048), ("btrfs", 2048)];

/// `commit` in as little time as the others: the published methods, a few commits each.
const COMMIT: [&str; 8] =
    ["--methods", "published", "--transactions", "20", "--rounds", "1", "--journal", "4MiB"];

fn run(scenario: &str, options: &[&str], place: &Path) -> RunResult {
    let result = Bench::scenario(scenario, place, options).run().result();
    assert_eq!(names(place).iter().filter(|name| name.starts_with("seawall")).count(), 0, "{scenario}");
    assert!(result.complete && result.scenario == scenario);
    result
}

/// Nothing failed, and what did run counted something; gives the rows that are not available.
fn sound(result: &RunResult, on: &str) -> Vec<String> {
    let scenario = &result.scenario;
    let mut missing = Vec::new();
    for row in &result.study.rows {
        match &row.outcome {
            Outcome::Measured(measured) => {
                let counted = measured.main().count() > 0;
                assert!(counted && !measured.rounds.is_empty(), "{on}: {scenario} {}", row.id);
            }
            Outcome::NotAvailable { .. } => missing.push(row.id.clone()),
            Outcome::Failed { error, .. } => panic!("{on}: {scenario} {}: {error}", row.id),
        }
    }
    missing
}

/// What speaks to clusters is tried by `cargo xtask replicated`, what is another program by `cargo xtask peers`.
fn without_clusters() -> impl Iterator<Item = &'static Scenario> {
    let apart = |scenario: &&Scenario| scenario.clusters || scenario.name == "peers";
    SCENARIOS.iter().filter(move |scenario| !apart(scenario))
}

fn all() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    [("commit", &COMMIT[..])].into_iter().chain(SMALL)
}

#[test]
fn every_scenario_is_tried_everywhere() {
    for scenario in without_clusters() {
        assert!(all().any(|(name, _)| name == scenario.name), "{}", scenario.name);
    }
}

#[test]
#[ignore = "needs root: mounts file systems on loop devices; run by `cargo xtask test`"]
fn every_scenario_runs_on_each_file_system() {
    for (kind, mib) in SYSTEMS {
        let ground = Ground::new(kind, mib, "defaults");
        for (scenario, options) in all() {
            let result = run(scenario, options, ground.path());
            assert_eq!(result.environment.file_system.kind, kind, "{scenario}");
            assert!(
                result.environment.devices.iter().any(|device| device.name == ground.device()),
                "{scenario}"
            );
            assert_eq!(sound(&result, kind), Vec::<String>::new(), "{kind}: {scenario}");
        }
    }
}

#[test]
#[ignore = "needs root: mounts file systems on loop devices; run by `cargo xtask test`"]
fn cached_sets_three_file_systems_side_by_side() {
    let grounds = SYSTEMS.map(|(kind, mib)| Ground::new(kind, mib, "defaults"));
    let work = folder();
    let json = work.path().join("result.json");
    let (_, options) = SMALL.iter().find(|(name, _)| *name == "cached").expect("a small one");
    let mut command = Command::new(SEAWALL);
    command.args(["bench", "cached"]).args(grounds.iter().map(Ground::path)).args(*options);
    command.args(["--no-out", "--no-progress", "--html"]).arg(work.path().join("page.html"));
    let (code, printed) = ran(command.arg("--json").arg(&json));
    assert_eq!(code, Some(0), "{printed}");
    let result = RunResult::read(&json).expect("a result");
    let study = &result.study;
    let labels: Vec<&str> = study.places.iter().map(|place| place.label.as_str()).collect();
    assert_eq!(labels, SYSTEMS.map(|(kind, _)| kind));
    assert_eq!(study.measured().count(), 3 * 6);
    for (row, measured) in study.measured() {
        assert!(
            measured.counts.is_some_and(|counts| counts.flushes > 0),
            "{}: its own device counts",
            row.id
        );
    }
    let html = std::fs::read_to_string(work.path().join("page.html")).expect("a page");
    for (kind, _) in SYSTEMS {
        assert!(printed.contains(kind) && html.contains(&format!("<h4>{kind}</h4>")), "{kind}: {printed}");
    }
    for ground in &grounds {
        assert!(names(ground.path()).iter().all(|name| !name.starts_with("seawall")));
    }
}

#[test]
#[ignore = "needs root: mounts a tmpfs; run by `cargo xtask test`"]
fn memory_is_refused_to_durable_scenarios_and_given_to_the_others() {
    let at = folder();
    let mount = crate::ground::Mount::new("tmpfs", "size=768m", "tmpfs", at.path());
    for (scenario, options) in all() {
        let durable = SCENARIOS.iter().any(|one| one.name == scenario && one.durable);
        let refused = Bench::scenario(scenario, at.path(), options).run();
        assert_eq!(refused.code, Some(i32::from(durable)), "{scenario}: {}", refused.printed());
        assert_eq!(refused.stderr.contains("--allow-memory"), durable, "{scenario}: {}", refused.printed());
        assert!(!durable || refused.stderr.contains("tmpfs"), "{scenario}: {}", refused.printed());
        if scenario == "log" {
            let insisted =
                Bench::scenario(scenario, at.path(), &[options, &["--allow-memory"]].concat()).run();
            assert!(
                insisted.code == Some(1) && insisted.stderr.contains("on a disk"),
                "{}",
                insisted.printed()
            );
            assert_eq!(names(at.path()), Vec::<String>::new());
            continue;
        }
        // What memory cannot do is listed with its reason; it differs from kernel to kernel.
        sound(&run(scenario, &[options, &["--allow-memory"]].concat(), at.path()), "tmpfs");
    }
    drop(mount);
}

#[test]
#[ignore = "takes a minute; run by `cargo xtask test`"]
fn everything_runs_one_after_the_other_on_the_disk_of_the_build_tree() {
    let (place, work) = (folder(), folder());
    let mut command = Command::new(SEAWALL);
    command.args(["bench", "all", "--time", "1s", "--allow-memory", "--no-progress", "--out", "kept"]);
    let (code, printed) = ran(command.arg(place.path()).current_dir(work.path()));
    assert_eq!(code, Some(0), "{printed}");
    assert_eq!(names(place.path()), Vec::<String>::new());
    let kept = work.path().join("kept");
    let folders = names(&kept);
    let in_all = || without_clusters().filter(|scenario| scenario.alone.is_empty());
    assert_eq!(folders.len(), in_all().count() + 1, "{folders:?}");
    let joint = folders.iter().find(|name| name.starts_with("all-")).expect("a joint report");
    let page = std::fs::read_to_string(kept.join(joint).join("report.html")).expect("a page");
    for scenario in in_all() {
        assert!(
            page.contains(&format!("\">{}</a></dt>", scenario.name)),
            "{} is not summed up",
            scenario.name
        );
    }
    assert!(printed.contains("\nsummary\n"), "{printed}");
    for scenario in in_all() {
        let of = |name: &&String| name.starts_with(&format!("{}-", scenario.name));
        let folder = kept.join(folders.iter().find(of).unwrap_or_else(|| panic!("{}", scenario.name)));
        assert_eq!(names(&folder), ["report.html", "report.md", "result.json"], "{}", scenario.name);
        let result = RunResult::read(&folder.join("result.json")).expect("a result");
        assert!(result.complete, "{}", scenario.name);
        sound(&result, "the build tree");
        assert!(printed.contains(&format!("seawall {} {} · ", result.seawall, scenario.name)), "{printed}");
    }
}

#[test]
#[ignore = "takes seconds; run by `cargo xtask test`"]
fn a_log_is_trimmed_within_a_long_block_and_fills_no_segment_anew() {
    let place = folder();
    let options = ["--workloads", "W5,W5g", "--time", "6s", "--rounds", "2", "--allow-memory"];
    let result = run("log", &options, place.path());
    let filled = |id: &str| {
        let measured = result.study.row(id).and_then(|row| row.measured()).expect("it ran");
        // What filled the segments of 32 MiB, and how many of them were not recycled ones.
        let segments = measured.bytes >> 25;
        (segments, measured.figure("segments_filled").expect("counted"))
    };
    let ((_, trimmed), (segments, grown)) = (filled("W5"), filled("W5g"));
    assert!(trimmed <= 1.0, "{trimmed} segments");
    assert!(grown + 4.0 >= segments as f64, "{grown} of {segments} segments: one that grows recycles none");
}
