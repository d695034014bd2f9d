//! Runs the tests of the workspace: one build for all of them, each test in a process of its own, two side by side.
//!
//! ```text
//!   cargo test --no-run ──► test binaries ── --list ──► names ──► workers ── BINARY --exact NAME ──► counts, seconds
//! ```
//!
//! Invariants: every build has the same packages and features, so that the steps share it; a test that was listed is run
//! and counted or has failed; one that hangs is ended and named; the order in which tests start decides nothing.

use crate::apart::wait;
use crate::error::{Error, Result};
use crate::files;
use crate::outcome::Tests;
use crate::shell::{cargo, output, target};
use crate::tally::Counts;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What every build of tests, lints and programs has in common. The features are those that tests and harnesses turn on,
/// the second Openraft and the client of NATS: a step with features of its own would build everything again. Kafka's needs
/// headers of C.
pub(crate) const SHARED: [&str; 2] = [
    "--workspace",
    "--features=seawall/mutants,seawall/metrics,seawall/stream,seawall-openraft/openraft-010,seawall-openraft/mutants,seawall-cli/nats,seawall-cli/s3,seawall-cli/azure,seawall-cli/gcs,seawall-cli/zstd,seawall-ship/mutants,seawall-ship/metrics",
];
/// A test that takes longer hangs. The slowest takes a minute on two quiet processors.
const LIMIT: Duration = Duration::from_mins(10);
pub(crate) const SLOWEST: usize = 10;
/// How long each test took the last time, so that long ones start first.
const DURATIONS: &str = "xtask/durations.json";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Built {
    /// The folder of its package, where its tests run.
    folder: PathBuf,
    /// The last part of the folder, and the target: `log/mutants`, `log/lib`.
    pub(crate) label: String,
    pub(crate) executable: PathBuf,
    /// Whether it is a test binary.
    test: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    /// The tests that are marked `#[ignore]`, in place of the others.
    pub(crate) ignored: bool,
    /// Only those whose name begins so.
    pub(crate) prefix: &'a str,
    /// What each test is started by.
    pub(crate) wrapper: &'a [&'a str],
}

/// Builds the tests that `selection` names, every one if it names none.
pub(crate) fn build(selection: &[&str]) -> Result<Vec<Built>> {
    built_by(&["test", "--no-run"], selection)
}

/// Builds the programs and examples that `selection` names.
pub(crate) fn programs(selection: &[&str]) -> Result<Vec<Built>> {
    built_by(&["build"], selection)
}

pub(crate) fn program(all: &[Built], label: &str) -> Result<PathBuf> {
    let found = all.iter().find(|built| built.label == label);
    let found = found.ok_or_else(|| Error::check(format!("cargo did not report a program {label}")))?;
    Ok(found.executable.clone())
}

fn built_by(command: &[&str], selection: &[&str]) -> Result<Vec<Built>> {
    let messages = messages(&[command, &SHARED, selection].concat())?;
    Ok(messages.iter().filter_map(built).collect())
}

/// Runs a command of cargo's that builds; what it reports of each artifact.
pub(crate) fn messages(words: &[&str]) -> Result<Vec<Value>> {
    let quiet = ["--quiet", "--message-format=json-render-diagnostics"];
    let mut build = cargo(&[words, &quiet].concat());
    build.stderr(Stdio::inherit());
    Ok(output(build)?.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The program that a message of cargo's reports.
fn built(message: &Value) -> Option<Built> {
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let kind = message["target"]["kind"][0].as_str()?;
    let name = message["target"]["name"].as_str()?;
    let name = if matches!(kind, "lib" | "bin") { kind } else { name };
    let package = folder.file_name()?.to_string_lossy();
    let test = message["profile"]["test"].as_bool()?;
    Some(Built { label: format!("{package}/{name}"), folder, executable, test })
}

/// Names of the tests in a binary that `more` selects.
fn names(built: &Built, more: &[&str]) -> Result<Vec<String>> {
    let mut list = Command::new(&built.executable);
    list.args(["--list", "--format", "terse"]).args(more).current_dir(&built.folder);
    Ok(output(list)?.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Every test of these binaries, with its binary and whether it is marked `#[ignore]`.
fn every(all: &[Built]) -> Result<Vec<(&Built, String, bool)>> {
    let mut found = Vec::new();
    for built in all.iter().filter(|built| built.test) {
        // A binary with a `main` of its own lists the same whatever it is asked: none of its tests is ignored.
        let harness = names(built, &["--exact", "no test has this name"])?.is_empty();
        let ignored = if harness { names(built, &["--ignored"])? } else { Vec::new() };
        found.extend(names(built, &[])?.into_iter().map(|name| {
            let left = ignored.contains(&name);
            (built, name, left)
        }));
    }
    Ok(found)
}

/// The names of the tests in these binaries, and whether each is marked `#[ignore]`.
pub(crate) fn list(all: &[Built]) -> Result<Vec<(String, bool)>> {
    let named = |(built, name, ignored): (&Built, String, bool)| (format!("{} {name}", built.label), ignored);
    let mut listed: Vec<_> = every(all)?.into_iter().map(named).collect();
    listed.sort();
    Ok(listed)
}

/// Runs the tests of `all` that `plan` names.
pub(crate) fn run(all: &[Built], plan: &Plan<'_>) -> Tests {
    try_run(all, plan).unwrap_or_else(|error| Tests::from((Counts::default(), Err(error))))
}

fn try_run(all: &[Built], plan: &Plan<'_>) -> Result<Tests> {
    let (mut due, mut counts) = (Vec::new(), Counts::default());
    for (built, name, ignored) in every(all)?.into_iter().filter(|(_, name, _)| name.starts_with(plan.prefix))
    {
        if ignored == plan.ignored {
            due.push((built, name));
        } else {
            counts.ignored += u64::from(!plan.ignored);
        }
    }
    let took = durations();
    let known = |(built, name): &(&Built, String)| took.get(&format!("{} {name}", built.label)).copied();
    // A test that has not been run yet may be long.
    due.sort_by(|one, other| {
        known(other)
            .unwrap_or(f64::MAX)
            .total_cmp(&known(one).unwrap_or(f64::MAX))
            .then_with(|| one.1.cmp(&other.1))
    });
    let ran = run_all(&due, plan)?;
    Ok(sum(counts, ran, took))
}

struct Ran {
    label: String,
    seconds: f64,
    /// The end of what it printed, if it did not hold.
    broken: Option<String>,
    skipped: Vec<String>,
}

/// Of what a failed test printed this many characters, the last ones, are said again at the end of all.
const REPEATED: usize = 2_000;

fn run_all(due: &[(&Built, String)], plan: &Plan<'_>) -> Result<Vec<Ran>> {
    let folder = target().join("xtask").join(format!("output-{}", std::process::id()));
    files::make_folder(&folder)?;
    let (next, ran) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{} tests, {workers} side by side", due.len());
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let printed = folder.join(worker.to_string());
            let (next, ran) = (&next, &ran);
            scope.spawn(move || {
                while let Some((built, name)) = due.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let one = run_one(built, name, plan, &printed);
                    ran.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(one);
                }
            });
        }
    });
    let _ = std::fs::remove_dir_all(&folder);
    Ok(ran.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Runs a test, whose output goes to a file; prints it if the test failed.
fn run_one(built: &Built, name: &str, plan: &Plan<'_>, printed: &Path) -> Ran {
    let label = format!("{} {name}", built.label);
    let started_ns = seawall_sys::clock::monotonic_ns();
    let ended = ended(built, name, plan, printed);
    let seconds = (seawall_sys::clock::monotonic_ns() - started_ns) as f64 / 1e9;
    let text = std::fs::read(printed).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut counts = Counts::default();
    text.lines().for_each(|line| counts.add_line(line));
    // A `main` of a test's own prints no such line.
    let one = counts.passed == 1 || !text.contains("test result: ");
    let ended =
        ended.and_then(|()| if one { Ok(()) } else { Err(Error::check("ended well and ran no test")) });
    if let Err(error) = &ended {
        println!("FAILED: {label}: {error}\n{text}");
    }
    let skipped = text.lines().filter_map(|line| line.strip_prefix("SKIPPED: "));
    let skipped = skipped.map(|what| format!("{label}: {what}")).collect();
    let broken = ended.err().map(|error| {
        let before = text.chars().count().saturating_sub(REPEATED);
        format!("{error}\n{}", text.chars().skip(before).collect::<String>())
    });
    Ran { label, seconds, broken, skipped }
}

fn ended(built: &Built, name: &str, plan: &Plan<'_>, printed: &Path) -> Result {
    let failed = |cause| Error::Start { program: built.label.clone(), cause };
    let log = File::create(printed).map_err(failed)?;
    let program = built.executable.as_os_str();
    let mut words = plan.wrapper.iter().map(OsStr::new).chain([program]);
    let mut test = Command::new(words.next().unwrap_or(program));
    test.args(words).args(["--exact", name]);
    if plan.ignored {
        test.arg("--ignored");
    }
    test.current_dir(&built.folder).env("CARGO_MANIFEST_DIR", &built.folder).stdin(Stdio::null());
    test.stdout(log.try_clone().map_err(failed)?).stderr(log);
    let mut child = test.spawn().map_err(failed)?;
    match wait(&mut child, LIMIT).map_err(failed)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(Error::Ended { program: built.label.clone(), status, stderr: String::new() }),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            fail!("still running after {} s, the limit of a test; it was ended", LIMIT.as_secs())
        }
    }
}

fn sum(mut counts: Counts, ran: Vec<Ran>, mut took: BTreeMap<String, f64>) -> Tests {
    let (mut failed, mut slowest, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    let mut outputs = Vec::new();
    for Ran { label, seconds, broken, skipped: here } in ran {
        counts.passed += u64::from(broken.is_none());
        counts.failed += u64::from(broken.is_some());
        if let Some(output) = broken {
            failed.push(label.clone());
            outputs.push(format!("\n--- {label}: {output}"));
        }
        took.insert(label.clone(), seconds);
        slowest.push((label, seconds));
        skipped.extend(here);
    }
    // Without them the next run is a little slower.
    let _ = files::write(&target().join(DURATIONS), json!(took).to_string());
    let failure = (!failed.is_empty()).then(|| format!("failed: {}{}", failed.join(", "), outputs.concat()));
    slowest.sort_by(|(_, one): &(_, f64), (_, other)| other.total_cmp(one));
    slowest.truncate(SLOWEST);
    Tests { counts, failure, slowest, skipped }
}

/// Seconds by test of earlier runs; they decide the order and nothing else.
fn durations() -> BTreeMap<String, f64> {
    let kept = files::read_json(&target().join(DURATIONS)).ok();
    kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Built, Plan, built, list, run};
    use std::path::PathBuf;

    /// This test's own binary, in a folder that exists.
    fn this() -> Built {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let executable = std::env::current_exe().expect("is running");
        Built { folder, label: "xtask/bin".to_owned(), executable, test: true }
    }

    const FAILS: &str = "SEAWALL_A_TEST_FAILS";

    #[test]
    fn one_that_fails_when_asked() {
        assert!(std::env::var_os(FAILS).is_none(), "as it was asked");
    }

    #[test]
    fn a_message_of_cargo_s_names_a_program_and_its_package() {
        let message = |kind: &str, executable: &str| {
            let text = format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/log/Cargo.toml","executable":{executable},
                "target":{{"kind":["{kind}"],"name":"mutants"}},"profile":{{"test":true}}}}"#
            );
            built(&serde_json::from_str(&text).expect("JSON"))
        };
        let found = message("test", "\"/t/mutants-1\"").expect("a program");
        assert_eq!((found.label.as_str(), found.test), ("log/mutants", true));
        assert_eq!(found.folder, PathBuf::from("/w/crates/log"));
        assert_eq!(message("lib", "\"/t/seawall-1\"").expect("a program").label, "log/lib");
        assert_eq!(message("lib", "null"), None);
    }

    #[test]
    fn a_test_is_run_by_its_name_and_counted() {
        let prefix = "runner::tests::one_that_fails";
        let ran = run(&[this()], &Plan { prefix, ..Plan::default() });
        assert_eq!((ran.counts.passed, ran.counts.failed, ran.failure), (1, 0, None));
        assert_eq!(ran.slowest.len(), 1);
        let variable = format!("{FAILS}=1");
        let ran = run(&[this()], &Plan { prefix, wrapper: &["env", &variable], ..Plan::default() });
        assert_eq!((ran.counts.passed, ran.counts.failed), (0, 1));
        assert!(ran.failure.is_some_and(|reason| reason.contains("xtask/bin runner::tests::one_that_fails")));
        let ran = run(&[this()], &Plan { prefix, ignored: true, ..Plan::default() });
        assert_eq!(ran.counts.passed + ran.counts.failed, 0);
    }

    #[test]
    fn every_test_of_a_binary_is_listed() {
        let listed = list(&[this()]).expect("lists them");
        let name = "xtask/bin runner::tests::every_test_of_a_binary_is_listed";
        assert!(listed.contains(&(name.to_owned(), false)));
    }
}
