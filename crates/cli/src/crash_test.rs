//! `seawall crash-test …`: whether any program keeps what it acknowledged when the power fails.
//!
//! Exit code 0: no state broke; 1: one did; 2: the program could not be tested.

use crate::exit::Failure;
use clap::{Args, ValueEnum};
#[cfg(target_os = "linux")]
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The exit code of a program that lost something.
#[cfg(target_os = "linux")]
const LOST: u8 = 1;
/// The exit code of a test that could not be made.
const UNTESTED: u8 = 2;

/// A file system whose rule decides what a power cut may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RuleName {
    /// What the standard allows: less than any real file system keeps
    Posix,
    /// ext4 as it is mounted by default
    Ext4,
    /// xfs
    Xfs,
    /// btrfs
    Btrfs,
}

/// Test whether a program keeps what it acknowledged when the power fails (Linux; no root needed)
///
/// The program runs on DIR, served from memory: DIR itself is never written. A line that it prints to standard output acknowledges
/// something. Directories that a power cut could have left are then made in memory, and the check says whether each holds what
/// had been acknowledged.
#[derive(Debug, Args)]
pub(crate) struct CrashTest {
    /// The directory that the program writes to
    #[arg(value_name = "DIR", required_unless_present = "again")]
    directory: Option<PathBuf>,
    /// The program, for `sh -c`; each line that it prints acknowledges something
    #[arg(long, value_name = "CMD", required_unless_present = "again")]
    run: Option<String>,
    /// The check, for `sh -c`: gets a directory and a file of the lines printed until then; exit code 0 if all of it is there
    #[arg(long, value_name = "CMD", required_unless_present = "again")]
    check: Option<String>,
    /// Time limit for judging states
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = humantime::parse_duration)]
    budget: Duration,
    /// File systems whose rules decide; without it a loss that only posix allows is reported and counts as kept
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',')]
    rules: Vec<RuleName>,
    /// Also leave out the program's own syncs, one role at a time, and say which the check notices
    #[arg(long)]
    mutate: bool,
    /// Also run the program again with writes, syncs and names that fail
    #[arg(long)]
    errors: bool,
    /// End the program, a server, once this command succeeds
    #[arg(long, value_name = "CMD")]
    until: Option<String>,
    /// End the program, a server, after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    for_: Option<Duration>,
    /// Delay some answers to writes and syncs at random, from this seed, so that threads interleave differently
    #[arg(long, value_name = "SEED")]
    hold_back: Option<u64>,
    /// Data that one run may write, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    record_mib: u64,
    /// Checks that run at the same time [default: the number of processors]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: Option<u16>,
    /// Keep each finding in a new folder below this one
    #[arg(long, value_name = "DIR", default_value = "seawall-crash")]
    keep: PathBuf,
    /// Judge a kept finding again, without running the program
    #[arg(long, value_name = "DIR", conflicts_with_all = ["directory", "run", "mutate", "errors", "until", "for_"])]
    again: Option<PathBuf>,
    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
    /// Write the verdict as JUnit XML to this file (- for standard output)
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &CrashTest) -> Result<ExitCode, Failure> {
    Err(Failure::Coded(
        UNTESTED,
        "seawall crash-test needs Linux: it records the program over FUSE".to_owned(),
    ))
}

#[cfg(target_os = "linux")]
pub(crate) fn run(args: &CrashTest) -> Result<ExitCode, Failure> {
    use seawall_crash_test::check::Answer;
    let untested = |error: seawall_crash_test::Error| Failure::Coded(UNTESTED, error.to_string());
    if let Some(folder) = &args.again {
        return match seawall_crash_test::kept::again(folder, args.check.as_deref()).map_err(untested)? {
            Answer::Kept => crate::output::print("kept       the check passes on this state\n")
                .map(|()| ExitCode::SUCCESS),
            Answer::Broken(message) => {
                let line = format!("BROKEN     {}\n", seawall_crash_test::check::one_line(&message));
                crate::output::print(&line).map(|()| ExitCode::from(LOST))
            }
        };
    }
    test(args)
}

#[cfg(target_os = "linux")]
fn test(args: &CrashTest) -> Result<ExitCode, Failure> {
    use crate::output;
    use seawall_crash_test::progress::Progress;
    use seawall_crash_test::recorder::Program;
    use seawall_crash_test::rule::Rule;
    use seawall_crash_test::run::{Options, run};
    use seawall_crash_test::search::Search;
    use seawall_crash_test::{kept, report};
    use std::sync::Arc;

    let untested = |error: seawall_crash_test::Error| Failure::Coded(UNTESTED, error.to_string());
    let required = |value: &Option<String>| value.clone().unwrap_or_default();
    let directory = args.directory.clone().unwrap_or_default();
    let rules: Vec<Rule> = Rule::ALL
        .into_iter()
        .filter(|rule| args.rules.is_empty() || args.rules.iter().any(|name| rule_of(*name) == *rule))
        .collect();
    let posix_counts = args.rules.contains(&RuleName::Posix);
    let workers = args
        .workers
        .map_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get), usize::from);
    let options = Options {
        program: Program {
            until: args.until.clone(),
            for_: args.for_,
            hold_back: args.hold_back,
            bytes_max: args.record_mib << 20,
            ..Program::new(&directory, &required(&args.run))
        },
        check: required(&args.check),
        search: Search { rules, budget: args.budget, workers, seed: 1, first_cut: 0 },
        mutate: args.mutate,
        errors: args.errors,
    };
    // A file that cannot be written is found now, not after the work.
    let unwritten = |failure: Failure| Failure::Coded(UNTESTED, failure.to_string());
    let junit = args.junit.as_deref().map(output::Target::find).transpose().map_err(unwritten)?;
    let junit_printed = junit.as_ref().is_some_and(output::Target::is_printed);
    if args.json && junit_printed {
        return Err(Failure::Usage(
            "--json and --junit - would be mixed on standard output: give --junit a file".to_owned(),
        ));
    }
    let progress = Arc::new(Progress::default());
    let stopped = Arc::clone(&progress);
    crate::signals::listen_and(move || stopped.stop.store(true, std::sync::atomic::Ordering::Relaxed))?;
    let shown = show(&progress)?;
    let verdict = run(&options, &progress);
    shown.finish_and_clear();
    let stopped = crate::signals::STOP.load(std::sync::atomic::Ordering::Relaxed);
    let verdict = match verdict {
        Err(error) if stopped => return Err(Failure::Coded(crate::exit::INTERRUPTED, error.to_string())),
        verdict => verdict.map_err(untested)?,
    };
    let mut folders = Vec::new();
    for finding in &verdict.outcome.findings {
        let folder = kept::keep(&args.keep, &verdict.record, finding, &directory, &options.check);
        folders.push(folder.map_err(untested)?);
    }
    if let Some(target) = &junit {
        let xml = seawall_gauge::report::junit::losses(&report::cases(&verdict, posix_counts));
        target.give(xml.as_bytes()).map_err(unwritten)?;
    }
    let text = if args.json {
        output::json(&report::json(&verdict, &options.search, posix_counts, &folders))
    } else {
        report::text(&verdict, &options.search, posix_counts, &folders)
    };
    if !junit_printed {
        output::print(&text)?;
    }
    if stopped {
        return Ok(ExitCode::from(crate::exit::INTERRUPTED));
    }
    Ok(if verdict.is_broken(posix_counts) { ExitCode::from(LOST) } else { ExitCode::SUCCESS })
}

#[cfg(target_os = "linux")]
fn rule_of(name: RuleName) -> seawall_crash_test::rule::Rule {
    use seawall_crash_test::rule::Rule;
    match name {
        RuleName::Posix => Rule::Posix,
        RuleName::Ext4 => Rule::Ext4,
        RuleName::Xfs => Rule::Xfs,
        RuleName::Btrfs => Rule::Btrfs,
    }
}

/// Shows on a terminal how far the search is.
#[cfg(target_os = "linux")]
fn show(progress: &std::sync::Arc<seawall_crash_test::progress::Progress>) -> Result<ProgressBar, Failure> {
    let progress = std::sync::Arc::clone(progress);
    let shown = move |_: &ProgressState, text: &mut dyn std::fmt::Write| {
        let judged = progress.judged.load(std::sync::atomic::Ordering::Relaxed);
        let different = progress.different.load(std::sync::atomic::Ordering::Relaxed);
        // A line that cannot be drawn is not missed.
        let _ = write!(text, "{judged} states judged, {different} known");
    };
    let style = ProgressStyle::with_template("{states}").map_err(Failure::message)?.with_key("states", shown);
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    Ok(bar)
}
