//! Builds the workspace's programs and tests with one set of features, and has cargo-nextest run the tests, each in a process of its own.
//!
//! Invariants: every build has the same packages and features, so that the steps share it; a test that hangs is ended and named
//! (`.config/nextest.toml`).

use crate::error::{Error, Result};
use crate::files;
use crate::outcome::Tests;
use crate::shell::{cargo, output, target, tests};
use crate::tools;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What every build of tests, lints and programs has in common. The features are those that tests and harnesses turn on,
/// the second Openraft and the client of NATS: a step with features of its own would build everything again. Kafka's needs
/// headers of C.
pub(crate) const SHARED: [&str; 2] = [
    "--workspace",
    "--features=seawall/mutants,seawall/metrics,seawall/stream,seawall-openraft/openraft-010,seawall-openraft/mutants,seawall-cli/nats,seawall-cli/s3,seawall-cli/azure,seawall-cli/gcs,seawall-cli/zstd,seawall-ship/mutants,seawall-ship/metrics",
];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Built {
    /// The last part of its package's folder, and the target: `cli/bin`, `log/crash`.
    label: String,
    executable: PathBuf,
}

pub(crate) fn build(selection: &[&str]) -> Result<Vec<Built>> {
    built_by(&["test", "--no-run"], selection)
}

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

fn built(message: &Value) -> Option<Built> {
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let name = if kind == "bin" { kind } else { message["target"]["name"].as_str()? };
    Some(Built { label: format!("{}/{name}", folder.file_name()?.to_string_lossy()), executable })
}

pub(crate) struct Plan<'a> {
    /// Nextest's filterset.
    pub(crate) filter: &'a str,
    /// The tests that are marked `#[ignore]`, in place of the others.
    pub(crate) ignored: bool,
    /// What each test is started by.
    pub(crate) wrapper: &'a str,
}

/// The variable by which cargo's configuration names what starts programs of this machine.
const RUNNER: &str = if cfg!(target_arch = "aarch64") {
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER"
} else {
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"
};

/// Builds all tests, and runs those that `plan` names.
pub(crate) fn run(plan: &Plan<'_>) -> Result<Tests> {
    // Nothing is shown of a test that passed: what it could not do goes here.
    let skips = target().join(format!("xtask-skipped-{}", std::process::id()));
    let mut run = tools::of_cargo("nextest")?;
    run.args(["run", "--color=never", "--cargo-quiet", "--show-progress=none"]).args(SHARED);
    run.args(["-E", plan.filter, "--run-ignored", if plan.ignored { "only" } else { "default" }]);
    run.env("SEAWALL_SKIPPED", &skips);
    if !plan.ignored {
        // Half of their time these wait; the others count what the machine does, and take its devices.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        run.arg(format!("--test-threads={}", 2 * processors));
    }
    if !plan.wrapper.is_empty() {
        run.env(RUNNER, plan.wrapper);
    }
    let mut ran = Tests::from(tests(run));
    ran.skipped = files::read(&skips).unwrap_or_default().lines().map(str::to_owned).collect();
    let _ = std::fs::remove_file(&skips);
    Ok(ran)
}

#[cfg(test)]
mod tests {
    use super::built;

    #[test]
    fn a_message_of_cargo_s_names_a_program_and_its_package() {
        let message = |kind: &str, executable: &str| {
            let text = format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/log/Cargo.toml","executable":{executable},
                "target":{{"kind":["{kind}"],"name":"rot"}}}}"#
            );
            built(&serde_json::from_str(&text).expect("JSON"))
        };
        assert_eq!(message("example", "\"/t/rot-1\"").expect("a program").label, "log/rot");
        assert_eq!(message("bin", "\"/t/seawall-1\"").expect("a program").label, "log/bin");
        assert_eq!(message("lib", "null"), None);
    }
}
