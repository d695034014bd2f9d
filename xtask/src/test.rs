//! What does CI run? These steps, in this order; the same on a developer's machine.
//!
//! Invariants: every step runs whatever became of those before it, so that one run tells everything; a step
//! that could not run is printed as skipped with its reason and counted; in CI (`CI=true`) what was skipped for
//! want of root, a loop device or a tool is a failure; the closing line counts what was really run.

use crate::shell::{cargo, command, has, is_root, status, tests};
use crate::tally::Counts;
use crate::{crash, deny, explore, jvm, peers, replicated, tools, wine};
use std::process::Command;

struct Step {
    name: &'static str,
    run: fn() -> Outcome,
}

/// What became of a step.
enum Outcome {
    /// One check that held.
    Held,
    /// One check that did not, and why.
    Broken(String),
    /// Tests were run; the error says why the runner was not content.
    Tests(Counts, Result<(), String>),
    /// The same, of tests that an earlier step had counted as ignored.
    Owed(Counts, Result<(), String>),
    /// Could not be run here, and why.
    Skipped(String),
}

const STEPS: [Step; 27] = [
    Step { name: "set-up", run: set_up },
    Step { name: "format", run: || check(cargo(&["fmt", "--all", "--check"])) },
    Step { name: "lints", run: lints },
    Step { name: "tests", run: || run_tests(cargo(&["test", "--workspace", "--quiet", "--no-fail-fast"])) },
    Step { name: "tests of peers", run: || run_tests(peers::tests()) },
    Step { name: "promises of the log", run: || run_tests(cargo(&PROMISES)) },
    Step { name: "orders of threads", run: || explored(explore::loom()) },
    Step { name: "Miri", run: || explored(explore::miri()) },
    Step { name: "fuzzing", run: fuzzing },
    Step { name: "documentation", run: documentation },
    Step { name: "builds for macOS", run: || builds_for("aarch64-apple-darwin") },
    Step { name: "builds for illumos", run: || builds_for("x86_64-unknown-illumos") },
    Step { name: "builds for Windows", run: || builds_for("x86_64-pc-windows-gnu") },
    Step { name: "Windows tests", run: windows },
    Step { name: "call sequences", run: || on_real_systems("calls::") },
    Step { name: "calls of scenarios", run: || on_real_systems("scenarios::") },
    Step { name: "scenarios everywhere", run: || on_real_systems("everywhere::") },
    Step { name: "JVM", run: on_jvms },
    Step { name: "calls of JVMs", run: || on_real_systems("jvm::") },
    Step { name: "device evidence", run: || on_real_systems("evidence::") },
    Step { name: "lies are caught", run: || on_real_systems("lies::") },
    Step { name: "bad input", run: || on_real_systems("refusals::") },
    Step { name: "failing calls of the log", run: || on_real_systems("log_faults::") },
    Step { name: "crashes", run: crashes },
    Step { name: "replicated", run: replicated_commit },
    Step { name: "report in a browser", run: report_in_a_browser },
    Step { name: "dependencies", run: dependencies },
];

/// With the features that tests and harnesses turn on, whose code would otherwise be seen by nobody.
const LINTS: [&str; 7] = [
    "clippy",
    "--workspace",
    "--all-targets",
    "--features=seawall/mutants,seawall/bench,seawall/metrics",
    "--quiet",
    "--",
    "-Dwarnings",
];

/// The simulated crash campaign, the sweep of failing operations, and every mutant: in release, because they count
/// states by the million.
const PROMISES: [&str; 7] = [
    "test",
    "--release",
    "--package=seawall",
    "--features=mutants,metrics",
    "--tests",
    "--quiet",
    "--no-fail-fast",
];

const BROWSER: [&str; 7] = [
    "test",
    "--package=seawall-gauge",
    "--test=browser",
    "--quiet",
    "--",
    "--ignored",
    // Each starts a browser of several processes.
    "--test-threads=2",
];

/// Runs the named steps, or every step, then the summary.
pub(crate) fn run(only: &[String]) -> Result<(), String> {
    if let Some(unknown) = only.iter().find(|name| STEPS.iter().all(|step| step.name != name.as_str())) {
        let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!("there is no step `{unknown}`; there are: {}", known.join(", ")));
    }
    let mut tally = Tally::default();
    for step in STEPS.iter().filter(|step| only.is_empty() || only.iter().any(|name| name == step.name)) {
        println!("\n== {} ==", step.name);
        let started_ns = seawall_sys::clock::monotonic_ns();
        let outcome = (step.run)();
        let seconds = (seawall_sys::clock::monotonic_ns() - started_ns) as f64 / 1e9;
        tally.add(step.name, seconds, outcome, in_ci());
    }
    tally.close()
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

#[derive(Default)]
struct Tally {
    lines: Vec<String>,
    counts: Counts,
    skipped: u64,
    /// Tests that were ignored by their own word and not run by a later step so far.
    owed: u64,
}

impl Tally {
    fn add(&mut self, name: &str, seconds: f64, outcome: Outcome, in_ci: bool) {
        let told = match outcome {
            Outcome::Held => {
                self.counts.passed += 1;
                "held".to_owned()
            }
            Outcome::Broken(reason) => {
                self.counts.failed += 1;
                format!("FAILED: {reason}")
            }
            Outcome::Tests(counts, result) => {
                self.owed += counts.ignored;
                self.add_tests(counts, result)
            }
            Outcome::Owed(counts, result) => {
                self.owed = self.owed.saturating_sub(counts.passed + counts.failed);
                self.add_tests(counts, result)
            }
            Outcome::Skipped(reason) if in_ci => {
                self.counts.failed += 1;
                format!("FAILED: skipped, which CI does not allow: {reason}")
            }
            Outcome::Skipped(reason) => {
                self.skipped += 1;
                format!("SKIPPED: {reason}")
            }
        };
        println!("{told}");
        self.lines.push(format!("  {name:<20} {seconds:>7.1} s  {told}"));
    }

    fn add_tests(&mut self, counts: Counts, result: Result<(), String>) -> String {
        self.counts = self.counts.plus(counts);
        match result {
            Err(reason) => {
                // A runner that failed without a failed test did not build or did not end well.
                self.counts.failed += u64::from(counts.failed == 0);
                format!("FAILED: {reason}")
            }
            Ok(()) if counts.passed == 0 => {
                self.counts.failed += 1;
                "FAILED: no test was run".to_owned()
            }
            Ok(()) if counts.ignored > 0 => {
                format!("{} tests passed, {} left to the steps below", counts.passed, counts.ignored)
            }
            Ok(()) => format!("{} tests passed", counts.passed),
        }
    }

    fn close(self) -> Result<(), String> {
        println!("\n== summary ==");
        for line in &self.lines {
            println!("{line}");
        }
        if self.owed > 0 {
            println!("  SKIPPED: {} tests are ignored by their own word, and no step ran them", self.owed);
        }
        let skipped = self.skipped + self.owed;
        println!("{} passed, {} failed, {skipped} skipped", self.counts.passed, self.counts.failed);
        if self.counts.failed == 0 { Ok(()) } else { Err("not everything held".to_owned()) }
    }
}

fn check(command: Command) -> Outcome {
    status(command).map_or_else(Outcome::Broken, |()| Outcome::Held)
}

/// Of the workspace, and of the package beside it that a stable compiler builds.
fn lints() -> Outcome {
    status(cargo(&LINTS)).and_then(|()| peers::lint()).map_or_else(Outcome::Broken, |()| Outcome::Held)
}

fn run_tests(command: Command) -> Outcome {
    let (counts, result) = tests(command);
    Outcome::Tests(counts, result)
}

fn explored((counts, result): (Counts, Result<(), String>)) -> Outcome {
    Outcome::Tests(counts, result)
}

/// The same inputs for every change: what `cargo xtask fuzz` finds with other seeds goes into the corpus.
const FUZZING: [&str; 2] = ["--seed", "1"];

fn fuzzing() -> Outcome {
    explore::fuzz(&FUZZING.map(str::to_owned)).map_or_else(Outcome::Broken, |()| Outcome::Held)
}

fn set_up() -> Outcome {
    // The steps that need those count as skipped, or in CI as failed.
    tools::lacking();
    match tools::provide(&tools::TESTS) {
        Ok(told) => {
            println!("{told}");
            Outcome::Held
        }
        Err(reason) => Outcome::Broken(reason),
    }
}

fn documentation() -> Outcome {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]);
    // Private items are documented too: who reads this documentation works on this code.
    doc.env("RUSTDOCFLAGS", "-Dwarnings -Arustdoc::private-intra-doc-links");
    check(doc)
}

fn builds_for(target: &str) -> Outcome {
    if let Err(reason) = tools::provide_target(target) {
        return Outcome::Skipped(format!("no standard library for {target}: {reason}"));
    }
    check(cargo(&["check", "--workspace", "--all-targets", "--quiet", "--target", target]))
}

/// The tests on file systems of their own, in a mount namespace that takes every mount with it when the tests
/// end, even if they are killed.
fn on_real_systems(module: &str) -> Outcome {
    if !is_root() {
        return Outcome::Skipped("mounting file systems needs root on Linux".to_owned());
    }
    let test = cargo(&["test", "--package", "seawall-cli", "--test", "real_systems", "--quiet"]);
    let mut apart = vec!["--mount".to_owned(), "--propagation".to_owned(), "private".to_owned()];
    apart.push(test.get_program().to_string_lossy().into_owned());
    apart.extend(test.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    apart.extend(["--", "--ignored", "--test-threads=2", module].map(str::to_owned));
    let (counts, result) = tests(command("unshare", &apart));
    Outcome::Owed(counts, result)
}

/// The HTML report in headless Chromium: its tests are ignored where there may be none.
fn report_in_a_browser() -> Outcome {
    if !has("chromium") {
        return Outcome::Skipped(
            "Chromium is missing: nobody looked at the HTML report; `cargo xtask setup` installs it"
                .to_owned(),
        );
    }
    let (counts, result) = tests(cargo(&BROWSER));
    Outcome::Owed(counts, result)
}

/// The Maven module's own tests, and its jar on each JDK.
fn on_jvms() -> Outcome {
    match jvm::test(in_ci()) {
        Ok((counts, result)) => Outcome::Tests(counts, result),
        Err(reason) => Outcome::Skipped(reason),
    }
}

fn windows() -> Outcome {
    let (counts, result) = wine::test();
    Outcome::Tests(counts, result)
}

/// Power cuts, failing disks and kill -9, simulated and real.
fn crashes() -> Outcome {
    match crash::bounded(&[]) {
        Ok(skipped) if skipped.is_empty() => Outcome::Held,
        Ok(skipped) => Outcome::Skipped(format!("{} parts: {}", skipped.len(), skipped.join("; "))),
        Err(reason) => Outcome::Broken(reason),
    }
}

/// A real `JetStream` of three nodes under the gauge.
fn replicated_commit() -> Outcome {
    match replicated::lacking() {
        Some(reason) => Outcome::Skipped(reason),
        None => replicated::nats().map_or_else(Outcome::Broken, |()| Outcome::Held),
    }
}

fn dependencies() -> Outcome {
    if in_ci() {
        // Installs it first if need be, which takes minutes: CI has them.
        deny::run(&[]).map_or_else(Outcome::Broken, |()| Outcome::Held)
    } else if deny::present() {
        deny::check().map_or_else(Outcome::Broken, |()| Outcome::Held)
    } else {
        Outcome::Skipped("cargo-deny is not installed; `cargo xtask deny` installs it, in minutes".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Outcome, STEPS, Tally};

    fn after(outcome: Outcome, in_ci: bool) -> (u64, u64, u64, bool) {
        let mut tally = Tally::default();
        tally.add("a step", 0.1, outcome, in_ci);
        (tally.counts.passed, tally.counts.failed, tally.skipped, tally.close().is_ok())
    }

    #[test]
    fn steps_are_unique() {
        for (index, step) in STEPS.iter().enumerate() {
            assert!(STEPS[..index].iter().all(|other| other.name != step.name), "{}", step.name);
        }
    }

    #[test]
    fn every_outcome_is_counted_for_what_it_is() {
        let counts = |passed, failed| Counts { passed, failed, ignored: 0 };
        let ended = || Err("ended".to_owned());
        assert_eq!(after(Outcome::Held, true), (1, 0, 0, true));
        assert_eq!(after(Outcome::Broken("why".into()), false), (0, 1, 0, false));
        assert_eq!(after(Outcome::Tests(counts(7, 0), Ok(())), true), (7, 0, 0, true));
        assert_eq!(after(Outcome::Tests(counts(6, 1), ended()), true), (6, 1, 0, false));
        assert_eq!(after(Outcome::Tests(counts(0, 0), ended()), true), (0, 1, 0, false));
        assert_eq!(after(Outcome::Tests(counts(0, 0), Ok(())), true), (0, 1, 0, false));
        assert_eq!(after(Outcome::Skipped("no root".into()), false), (0, 0, 1, true));
        assert_eq!(after(Outcome::Skipped("no root".into()), true), (0, 1, 0, false));
    }

    #[test]
    fn an_ignored_test_is_owed_until_a_step_runs_it() {
        let mut tally = Tally::default();
        let first = Counts { passed: 5, failed: 0, ignored: 3 };
        tally.add("tests", 0.1, Outcome::Tests(first, Ok(())), true);
        assert_eq!(tally.owed, 3);
        let second = Counts { passed: 2, failed: 0, ignored: 0 };
        tally.add("evidence", 0.1, Outcome::Owed(second, Ok(())), true);
        assert_eq!((tally.owed, tally.counts.passed), (1, 7));
    }
}
