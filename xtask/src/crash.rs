//! `cargo xtask crash`: runs the crash tests in simulation, on logs at rest and on real file systems.
//!
//! It runs three programs, one after the other, in the build of the tests: the log's core on a simulated disk, simulated logs
//! at rest that a disk damages, and `seawall` and the library on recorded file systems, failing disks and kill -9. `cargo xtask
//! soak` runs them with seeds that are new each time.
//!
//! Invariant: a part that could not run is counted and printed as skipped; the work is the same on a slow machine,
//! and a program that takes far too long has failed.

use crate::error::{Error, Result};
use crate::shell::{command, root, status};
use crate::{files, runner, second_kernel};
use clap::Args;
use std::path::Path;

/// States of the simulated disk.
const STATES: &str = "5000000";
/// Logs at rest, and what is injected into each.
const LOGS: &str = "6000";
const INJECTIONS: &str = "200";
/// Generous: on two idle processors all of it takes about four minutes.
const CAP_SECONDS: &str = "900";
/// What the third program reports.
const REPORT: &str = "target/crash/report";

#[derive(Args)]
pub(crate) struct Options {
    /// Power cuts of Debian's kernel in an emulator
    #[arg(long)]
    second_kernel: bool,
    /// The version of that kernel
    #[arg(long, requires = "second_kernel", default_value = second_kernel::VERSIONS[0], value_parser = second_kernel::VERSIONS)]
    linux: String,
    /// No cuts, but the table of stacks of the tests on that kernel
    #[arg(long, requires = "second_kernel", conflicts_with = "more")]
    stacks: bool,
    /// After these: options of `seawall-crash`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    more: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result {
    let Options { second_kernel: elsewhere, linux, stacks, more } = options;
    if *elsewhere {
        return second_kernel::run(linux, *stacks, more);
    }
    let skipped = bounded(more)?;
    if !skipped.is_empty() {
        println!("SKIPPED: {} parts did not run: {}", skipped.len(), skipped.join("; "));
    }
    Ok(())
}

const PROGRAMS: [&str; 8] =
    ["--bin", "seawall", "--bin", "seawall-crash", "--example", "crash", "--example", "rot"];

/// Runs all three; gives what was skipped.
pub(crate) fn bounded(more: &[String]) -> Result<Vec<String>> {
    let built = runner::programs(&PROGRAMS)?;
    let program = |label: &str| runner::program(&built, label);
    status(command(program("log/crash")?, &["--states", STATES, "--cap-seconds", CAP_SECONDS]))?;
    status(command(program("log/rot")?, &["--logs", LOGS, "--per-log", INJECTIONS]))?;
    let mut arguments = vec!["--cap-seconds", CAP_SECONDS];
    let named = more.iter().position(|argument| argument == "--results");
    let report = named.and_then(|at| more.get(at + 1)).map_or(REPORT, String::as_str);
    if named.is_none() {
        arguments.extend(["--results", REPORT]);
    }
    arguments.extend(more.iter().map(String::as_str));
    status(command(program("crash/bin")?, &arguments))?;
    skipped(&root().join(report).join("crash.json"))
}

fn skipped(report: &Path) -> Result<Vec<String>> {
    let json = files::read_json(report)?;
    let list = json["skipped"].as_array();
    let list =
        list.ok_or_else(|| Error::check(format!("{}: no list of what was skipped", report.display())))?;
    Ok(list.iter().map(|what| what.as_str().unwrap_or_default().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::{Options, skipped};
    use clap::{Args as _, FromArgMatches as _};

    #[test]
    fn what_follows_the_kernel_is_handed_on() {
        let command = Options::augment_args(clap::Command::new("crash"));
        let words = "crash --second-kernel --linux 6.12 --bus nvme --seed 7 --cuts 5 --disk ignores-fua";
        let matches = command.try_get_matches_from(words.split(' ')).expect("is understood");
        let options = Options::from_arg_matches(&matches).expect("is read");
        assert!(options.second_kernel && options.linux == "6.12");
        assert_eq!(options.more.join(" "), "--bus nvme --seed 7 --cuts 5 --disk ignores-fua");
    }

    #[test]
    fn what_was_skipped_is_read_from_the_report() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("crash.json");
        for (text, expected) in [
            (r#"{"skipped": ["files: not root"]}"#, Ok(vec!["files: not root".to_owned()])),
            (r#"{"skipped": []}"#, Ok(Vec::new())),
            ("{}", Err(())),
        ] {
            std::fs::write(&path, text).expect("writes");
            assert_eq!(skipped(&path).map_err(|_| ()), expected);
        }
    }
}
