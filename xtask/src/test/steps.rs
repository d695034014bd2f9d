//! The table of steps: what each runs, in which tier, for which files, and how long it may take.
//!
//! A budget is what a step takes on two quiet processors with warm builds, and a third as much again: the measured times
//! are in `results/tests/README.md`.

use crate::error::Error;
use crate::outcome::StepOutcome;
use crate::runner::{self, Plan, SHARED};
use crate::shell::{cargo, has, is_root, status, target, tests};
use crate::tools::For;
use crate::{
    c_interface, crash, deny, deployment, explore, java, package, peers, python, replicated, second_kernel,
    shipped, tools, wine, workflows,
};
use Tier::{Full, Quick};
use seawall_sys::skip::in_ci;
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tier {
    /// Before every commit: needs no root, and downloads nothing but crates.
    Quick,
    /// Before every landing, and in CI.
    Full,
}

impl Tier {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) tier: Tier,
    /// Files whose change it matters to, by how their names begin; none: every file.
    pub(super) paths: &'static [&'static str],
    pub(super) budget_seconds: u32,
    pub(super) run: fn() -> StepOutcome,
}

const fn step(
    tier: Tier,
    name: &'static str,
    paths: &'static [&'static str],
    budget_seconds: u32,
    run: fn() -> StepOutcome,
) -> Step {
    Step { name, tier, paths, budget_seconds, run }
}

const CODE: &[&str] = &[
    "crates/",
    "bindings/",
    "adapters/",
    "proof/",
    "xtask/",
    "Cargo.",
    "rust-toolchain.toml",
    "clippy.toml",
    "rustfmt.toml",
];
/// The log and what it stands on.
const LOG: &[&str] = &["crates/log/", "crates/sys/", "Cargo.", "rust-toolchain.toml"];
/// The gauge, its program, and what they stand on.
const GAUGE: &[&str] = &["crates/", "bindings/", "proof/", "Cargo.", "rust-toolchain.toml"];

#[rustfmt::skip]
pub(super) const STEPS: [Step; 41] = [
    step(Full,  "set-up",                  &[], 5, set_up),
    step(Quick, "format",                  CODE, 5, || check(cargo(&["fmt", "--all", "--check"]))),
    step(Quick, "lints",                   CODE, 10, lints),
    step(Quick, "tests",                   &[], 155, all_tests),
    step(Quick, "promises of the log",     LOG, 25, promises),
    step(Quick, "examples in the documentation", CODE, 10, documented_examples),
    step(Quick, "documentation",           CODE, 10, documentation),
    step(Full,  "Raft nodes",              &["adapters/openraft/", "adapters/raft-rs/", "crates/log/", "crates/sys/", "Cargo."], 60, raft_nodes),
    step(Full,  "Kafka's clients",         CODE, 20, kafka_client),
    step(Full,  "tests of peers",          LOG, 5, tests_of_peers),
    step(Full,  "C interface",             &["bindings/c/", "crates/log/", "crates/sys/", "tests/", "docs/c.md", "xtask/", "Cargo."], 30, c_interface),
    step(Full,  "nothing planted ships",   LOG, 10, || shipped::check().into()),
    step(Full,  "orders of threads",       LOG, 5, || Ok(explore::loom()).into()),
    step(Full,  "Miri",                    LOG, 65, || explore::miri().into()),
    step(Full,  "fuzzing",                 LOG, 30, fuzzing),
    step(Full,  "builds for macOS",        CODE, 5, || builds_for("aarch64-apple-darwin")),
    step(Full,  "builds for illumos",      CODE, 5, || builds_for("x86_64-unknown-illumos")),
    step(Full,  "builds for Windows",      CODE, 5, || builds_for("x86_64-pc-windows-gnu")),
    step(Full,  "Windows tests",           GAUGE, 40, || wine::test().into()),
    step(Full,  "call sequences",          GAUGE, 5, || on_real_systems("calls::")),
    step(Full,  "calls of scenarios",      GAUGE, 10, || on_real_systems("scenarios::")),
    step(Full,  "scenarios everywhere",    GAUGE, 60, || on_real_systems("everywhere::")),
    step(Full,  "Python",                  GAUGE, 40, || python::test().into()),
    step(Full,  "the log for Java",        &["bindings/java/", "bindings/c/", "crates/log/", "crates/sys/", "docs/java.md", "tests/", "xtask/"], 45, || java::test(in_ci()).into()),
    step(Full,  "calls of JVMs",           &["crates/"], 10, || on_real_systems("jvm::")),
    step(Full,  "device evidence",         GAUGE, 15, || on_real_systems("evidence::")),
    step(Full,  "rows on NVMe",            GAUGE, 90, rows_on_nvme),
    step(Full,  "lies are caught",         GAUGE, 160, lies),
    step(Full,  "programs crash-tested",   GAUGE, 40, || on_real_systems("crash_test::")),
    step(Full,  "gates and limits",        GAUGE, 20, || on_real_systems("gates::")),
    step(Full,  "bad input",               GAUGE, 10, || on_real_systems("refusals::")),
    step(Full,  "files of other users",    GAUGE, 10, || on_real_systems("others::")),
    step(Full,  "failing calls of the log", LOG, 30, || on_real_systems("log_faults::")),
    step(Full,  "crashes",                 LOG, 200, || crash::bounded(&[]).into()),
    step(Full,  "replicated",              GAUGE, 120, || replicated::nats().into()),
    step(Full,  "shipped under faults",    GAUGE, 70, || replicated::shipped::few().into()),
    step(Full,  "report in a browser",     GAUGE, 25, report_in_a_browser),
    step(Full,  "deployment",              &["deploy/", "docs/watch.md", "docs/beyond-one-machine.md", "crates/cli/", "crates/ship/", "xtask/"], 25, || deployment::check().into()),
    step(Full,  "packages",                &["crates/", "bindings/", "packaging/", "proof/", "xtask/", "Cargo.", "README.md", "CHANGELOG.md"], 190, || package::check().into()),
    step(Full,  "workflows",               &[".github/", "action.yml", "crash-test/", "xtask/"], 10, || workflows::check().into()),
    step(Full,  "dependencies",            &["Cargo.", "deny.toml", "crates/", "bindings/", "adapters/", "proof/", "xtask/"], 5, || deny::check().into()),
];

/// Tests of the log that judge simulated disks by the thousand, and the mistakes made on purpose.
const PROMISES: &str = "binary_id(seawall::promises)";
/// Tests of Raft nodes over the log, and the suites of Openraft.
const RAFT: &str = "package(seawall-openraft) + package(seawall-raft-rs)";
const IN_C: &str = "binary_id(seawall-ffi::c)";
const BROWSER: &str = "binary_id(seawall-gauge::browser)";

fn set_up() -> StepOutcome {
    // The steps that need those count as skipped, or in CI as failed.
    tools::lacking();
    match tools::provide(For::Tests) {
        Err(error) => StepOutcome::Broken(error.to_string()),
        provided => provided.into(),
    }
}

fn check(command: Command) -> StepOutcome {
    status(command).into()
}

/// With the features that tests and harnesses turn on, and the log with none, as it is depended on.
fn lints() -> StepOutcome {
    let warnings = ["--quiet", "--", "-Dwarnings"];
    let all = [&["clippy", "--all-targets"], &SHARED[..], &warnings].concat();
    let plain = [&["clippy", "--package=seawall"][..], &warnings].concat();
    status(cargo(&all)).and_then(|()| status(cargo(&plain))).into()
}

/// Every test of the workspace that is not marked `#[ignore]`, but those of [`promises`], [`raft_nodes`] and [`c_interface()`].
fn all_tests() -> StepOutcome {
    tests_of(&format!("not ({PROMISES} + {RAFT} + {IN_C})"))
}

fn tests_of(filter: &str) -> StepOutcome {
    run(&Plan { filter, ignored: false, wrapper: "" })
}

/// Without what runs them tests are not skipped: they fail.
fn run(plan: &Plan<'_>) -> StepOutcome {
    runner::run(plan).map_or_else(|error| StepOutcome::Broken(error.to_string()), StepOutcome::Tests)
}

/// The interface from C: its header and exports, every function under sanitizers, the cases of all languages, the programs that the
/// documentation shows, and what `install-c` installs.
fn c_interface() -> StepOutcome {
    for missing in [tools::provide(For::C), c_interface::provide()] {
        if let Err(error) = missing {
            return StepOutcome::Skipped(format!("the C interface was not tried: {error}"));
        }
    }
    match c_interface::check() {
        Ok(()) => tests_of(IN_C),
        Err(error) => error.into(),
    }
}

/// The simulated crash campaign, the sweep of failing operations, forged logs, and every mistake made on purpose.
fn promises() -> StepOutcome {
    tests_of(PROMISES)
}

fn raft_nodes() -> StepOutcome {
    tests_of(RAFT)
}

fn documented_examples() -> StepOutcome {
    Ok(tests(cargo(&[&["test", "--doc", "--quiet", "--no-fail-fast"], &SHARED[..]].concat()))).into()
}

fn documentation() -> StepOutcome {
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]);
    // Private items are documented too: the readers of this documentation work on this code.
    doc.env("RUSTDOCFLAGS", "-Dwarnings -Arustdoc::private-intra-doc-links");
    check(doc)
}

/// A package beside the workspace, with format and lints of its own.
fn tests_of_peers() -> StepOutcome {
    peers::lint().map(|()| tests(peers::tests())).into()
}

/// The same inputs for every change: what `cargo xtask soak` finds with other seeds goes into the corpus.
const FUZZING: explore::Options = explore::Options { seconds: 20, seed: 1, target: Vec::new() };

fn fuzzing() -> StepOutcome {
    explore::fuzz(&FUZZING).into()
}

fn builds_for(target: &str) -> StepOutcome {
    if let Err(error) = tools::provide_target(target) {
        return StepOutcome::Skipped(format!("no standard library for {target}: {error}"));
    }
    check(cargo(&["check", "--workspace", "--all-targets", "--quiet", "--target", target]))
}

/// The tests on file systems of their own, each in a mount namespace that takes every mount with it when the test
/// ends, even if it is killed.
fn on_real_systems(module: &'static str) -> StepOutcome {
    if !is_root() {
        return StepOutcome::Skipped("mounting file systems needs root on Linux".to_owned());
    }
    real_systems(module, "unshare --mount --propagation private")
}

fn real_systems(module: &'static str, wrapper: &str) -> StepOutcome {
    let filter = format!("binary_id(seawall-cli::real_systems) & test(/^{module}/)");
    run(&Plan { filter: &filter, ignored: true, wrapper })
}

/// Layers that ignore syncs, and the table of stacks once more on another kernel.
fn lies() -> StepOutcome {
    let mut outcome = on_real_systems("lies::");
    if let StepOutcome::Tests(tests) = &mut outcome {
        match second_kernel::stacks() {
            Ok(()) => {}
            Err(Error::Lacking(reason)) => tests.skipped.push(format!("stacks on another kernel: {reason}")),
            Err(error) => tests.failure = tests.failure.take().or(Some(error.to_string())),
        }
    }
    outcome
}

/// The rows that need FUA, poll queues or atomic writes: one boot of an emulated machine, whose drive is our own, and the
/// tests of what it left.
fn rows_on_nvme() -> StepOutcome {
    let folder = target().join("tmp/nvme-rows");
    match second_kernel::rows(&folder) {
        Ok(()) => real_systems("nvme::", &format!("env SEAWALL_NVME_ROWS={}", folder.display())),
        Err(error) => error.into(),
    }
}

/// The lints of Kafka's clients, which no other step compiles: they need a C library. All else is as in [`lints`].
fn kafka_client() -> StepOutcome {
    let kafka = ["--features=seawall-cli/kafka", "--quiet", "--", "-Dwarnings"];
    let lint = || status(cargo(&[&["clippy", "--all-targets"], &SHARED[..], &kafka].concat()));
    tools::provide(For::KafkaClient).and_then(|()| lint()).into()
}

/// The HTML report in headless Chromium: its tests are ignored where there may be none.
fn report_in_a_browser() -> StepOutcome {
    if !has("chromium") {
        return StepOutcome::Skipped(
            "Chromium is missing, so the HTML report was not looked at; `cargo xtask setup` installs it"
                .to_owned(),
        );
    }
    run(&Plan { filter: BROWSER, ignored: true, wrapper: "" })
}

#[cfg(test)]
mod tests {
    use super::{STEPS, Tier};
    use crate::files::sources;
    use crate::shell::root;

    #[test]
    fn steps_are_unique_and_their_paths_exist() {
        for (index, step) in STEPS.iter().enumerate() {
            assert!(STEPS[..index].iter().all(|other| other.name != step.name), "{}", step.name);
            for path in step.paths {
                let there =
                    root().join(path).exists() || (path.ends_with('.') && root().join("Cargo.toml").exists());
                assert!(there, "{}: {path}", step.name);
            }
        }
    }

    #[test]
    fn the_tiers_fit_their_budgets() {
        let budget =
            |tier| STEPS.iter().filter(|step| step.tier == tier).map(|step| step.budget_seconds).sum::<u32>();
        assert!(budget(Tier::Quick) <= 5 * 60, "{}", budget(Tier::Quick));
        let all = budget(Tier::Quick) + budget(Tier::Full);
        assert!(all <= 29 * 60, "{all}");
    }

    #[test]
    fn every_test_that_is_ignored_has_a_step() {
        let steps = include_str!("steps.rs");
        let real_systems = root().join("crates/cli/tests/real_systems");
        for path in ["crates", "bindings", "adapters", "proof", "xtask/src"]
            .iter()
            .flat_map(|folder| sources(&root().join(folder)))
        {
            let text = std::fs::read_to_string(&path).expect("a source");
            // Miri's step counts what is ignored as skipped: what it cannot run is `#[cfg(not(miri))]`.
            let ignores = |line: &str| {
                let line = line.trim_start();
                line.starts_with("#[ignore") || line.starts_with("#[cfg_attr(") && line.contains("ignore")
            };
            if !text.lines().any(ignores) || path.ends_with("crates/gauge/tests/browser.rs") {
                continue;
            }
            let module =
                path.strip_prefix(&real_systems).expect("an ignored test of no step").with_extension("");
            let module = module.iter().next().expect("a name").to_string_lossy();
            assert!(steps.contains(&format!("(\"{module}::\"")), "no step runs {}", path.display());
        }
    }
}
