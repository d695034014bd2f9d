//! `cargo xtask crash`: runs the crash tests in simulation, on logs at rest and on real file systems.
//!
//! It runs three programs, one after the other: the log's core on a simulated disk, simulated logs at rest that a disk
//! damages, and `seawall` and the library on recorded file systems, failing disks and kill -9. The run for every change
//! uses the build of the tests; the campaign builds for release, as published.
//!
//! Invariant: a part that could not run is counted and printed as skipped; the work is the same on a slow machine,
//! and a program that takes far too long has failed.

use crate::error::{Error, Result};
use crate::shell::{cargo, command, output, root, status};
use crate::{files, runner, second_kernel};
use clap::Args;
use std::path::Path;

/// States of the simulated disk for every change, and of the campaign.
const STATES: [&str; 2] = ["5000000", "1000000000"];
/// Logs at rest for every change, and of the campaign, and what is injected into each.
const LOGS: [&str; 2] = ["6000", "62000"];
const INJECTIONS: &str = "200";
/// Generous: on two idle processors all of it takes about four minutes.
const CAP_SECONDS: &str = "900";
/// What the third program reports.
const REPORT: &str = "target/crash/report";
/// The campaign's figures and its progress: committed together, so that any clone continues from there.
const RESULTS: &str = "results/crash";
const STANDING: [&str; 3] =
    ["results/crash/logs-at-rest.txt", "results/crash/simulated.txt", "results/crash/crash-campaign.json"];
/// From here on a page of results is written by hand.
const BY_HAND: &str = "\n## Besides\n";

/// The words behind the command.
#[derive(Args)]
pub(crate) struct Options {
    /// The campaign, which resumes where it stopped
    #[arg(long, conflicts_with_all = ["second_kernel", "more"])]
    long: bool,
    /// Of the campaign
    #[arg(long, value_name = "N", requires = "long", default_value_t = 180)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// Power cuts of Debian's kernel in an emulator
    #[arg(long)]
    second_kernel: bool,
    /// The version of that kernel
    #[arg(long, requires = "second_kernel", default_value = second_kernel::VERSIONS[0], value_parser = second_kernel::VERSIONS)]
    linux: String,
    /// No cuts, but the table of stacks of the tests on that kernel
    #[arg(long, requires = "second_kernel", conflicts_with = "more")]
    stacks: bool,
    /// Behind these: options of `seawall-crash`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    more: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result {
    let Options { long: campaign, minutes, second_kernel: elsewhere, linux, stacks, more } = options;
    if *elsewhere {
        return second_kernel::run(linux, *stacks, more);
    }
    if *campaign {
        return long(*minutes);
    }
    let skipped = bounded(more)?;
    if !skipped.is_empty() {
        println!("SKIPPED: {} parts did not run: {}", skipped.len(), skipped.join("; "));
    }
    Ok(())
}

fn simulated(example: &str, arguments: &[&str]) -> std::process::Command {
    let mut words = vec!["run", "--release", "--quiet", "--package=seawall", "--features=simulation"];
    words.extend(["--example", example, "--"]);
    words.extend(arguments);
    cargo(&words)
}

/// The third program, which wants the release binary beside it.
fn real(arguments: &[&str]) -> Result<std::process::Command> {
    status(cargo(&["build", "--release", "--quiet", "--package=seawall-cli"]))?;
    let mut words = vec!["run", "--release", "--quiet", "--package", "seawall-crash", "--"];
    words.extend(arguments);
    Ok(cargo(&words))
}

/// What the portion for every change runs, in the build of the tests.
const PORTION: [&str; 8] =
    ["--bin", "seawall", "--bin", "seawall-crash", "--example", "crash", "--example", "rot"];

/// The portion for every change; gives what was skipped.
pub(crate) fn bounded(more: &[String]) -> Result<Vec<String>> {
    let built = runner::programs(&PORTION)?;
    let program = |label: &str| runner::program(&built, label);
    status(command(program("log/crash")?, &["--states", STATES[0], "--cap-seconds", CAP_SECONDS]))?;
    status(command(program("log/rot")?, &["--logs", LOGS[0], "--per-log", INJECTIONS]))?;
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

/// The campaign: a third of the time for each of the three at most, and each goes on where it stopped.
fn long(minutes: u64) -> Result {
    let third = (minutes / 3).max(1).to_string();
    files::make_folder(&root().join(RESULTS))?;
    let timed = |standing| ["--progress", standing, "--minutes", &third];
    let [at_rest, simulated, campaign] = STANDING;
    keep(
        ("logs-at-rest", "Logs at rest"),
        "rot",
        &[&["--logs", LOGS[1], "--per-log", INJECTIONS], &timed(at_rest)[..]].concat(),
    )?;
    status(real(&[&["long", "--results", RESULTS], &timed(campaign)[..]].concat())?)?;
    keep(
        ("simulated", "Simulated disk: how far the campaign came"),
        "crash",
        &[&["--states", STATES[1]], &timed(simulated)[..]].concat(),
    )
}

/// Runs a program on the simulated disk and keeps what it prints among the results.
fn keep((name, title): (&str, &str), example: &str, arguments: &[&str]) -> Result {
    let printed = output(simulated(example, arguments))?;
    println!("{printed}");
    let command = format!(
        "cargo run --release -p seawall --features simulation --example {example} -- {}",
        arguments.join(" ")
    );
    let path = root().join(RESULTS).join(format!("{name}.md"));
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let text = format!(
        "# {title}\n\n`cargo xtask crash --long` goes on from here; it runs `{command}`\n\n{}\n{}",
        if example == "crash" {
            format!("```text\n{}\n```", printed.trim_end())
        } else {
            printed.trim_end().to_owned()
        },
        by_hand(&before)
    );
    files::write(&path, text)
}

/// The part below the figures of a page that is written by hand and that new figures leave there.
fn by_hand(page: &str) -> &str {
    page.find(BY_HAND).map_or("", |at| &page[at..])
}

#[cfg(test)]
mod tests {
    use super::{BY_HAND, Options, by_hand, skipped};
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
    fn what_was_written_by_hand_stays() {
        assert_eq!(by_hand("# Title\n\nfigures\n"), "");
        let page = format!("# Title\n\nfigures\n{BY_HAND}\nOn what machine.\n");
        assert_eq!(by_hand(&page), format!("{BY_HAND}\nOn what machine.\n"));
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
