//! Parses the command line, checks the requirements and runs the parts of the crash harness.
//!
//! | command | what it does |
//! | --- | --- |
//! | (none) | the run for every change: fixed work, a hard time limit |
//! | `long` | the campaign: seed after seed until interrupted; resumes the last one |
//! | `rules` | random programs on real file systems: each cut is a state of the rule that crash-test has |
//! | `replay FILE --state N` | one state of a kept recording, alone |
//! | `soak` | writers, trims, followers and views on one log, killed again and again, memory and disk bounded; no root |
//! | `second-kernel` | real cuts of Debian's kernel in an emulator, judged by `seawall powercut`; resumable |
//!
//! Without root, `/dev/fuse` or a file system the remaining parts still run and the others are printed as SKIPPED;
//! with `CI` set in the environment a skip is a failure.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use seawall_sys::clock::{monotonic_ns, unix_seconds};

use crate::blocks::volume::{FILE_SYSTEMS, FileSystem};
use crate::campaign_file::{Progress, save};
use crate::error::{Error, Result};
use crate::report::Report;
use crate::run::{Run, replay};
use crate::victim::{self, VictimOptions};

/// Crash tests of the real programs
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Debug, Args)]
struct Common {
    /// Where chance begins
    #[arg(long, default_value_t = 1, global = true)]
    seed: u64,
    /// The `seawall` to test; next to this program if not given
    #[arg(long, value_name = "FILE", global = true)]
    binary: Option<PathBuf>,
    /// Writes the report there as crash.md and crash.json
    #[arg(long, value_name = "DIR", global = true)]
    results: Option<PathBuf>,
    /// Where recordings of findings are kept
    #[arg(long, value_name = "DIR", default_value = "target/crash", global = true)]
    keep: PathBuf,
    /// States of the block recorder that are judged at the same time; each waits for its disk about half of the time
    #[arg(long, default_value_t = 4, global = true)]
    jobs: usize,
    /// Judges every state of the block recorder; the campaign always does
    #[arg(long, global = true)]
    every_state: bool,
    /// Only these parts: files, blocks, faults, kills, controls
    #[arg(long, value_delimiter = ',', global = true)]
    only: Vec<String>,
    /// Fails the run when it takes longer, in seconds
    #[arg(long, default_value_t = 360, global = true)]
    cap_seconds: u64,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The campaign, seed after seed
    Long {
        /// Where the campaign stands; made if there is none
        #[arg(long, value_name = "FILE")]
        progress: PathBuf,
        /// Ends after this many minutes
        #[arg(long, default_value_t = 30)]
        minutes: u64,
    },
    /// Judges one state of a kept recording
    Replay {
        /// The recording
        file: PathBuf,
        /// The number of the state
        #[arg(long)]
        state: u64,
    },
    /// Cuts the power under Debian's kernel in an emulator
    SecondKernel(crate::second::campaign::CutOptions),
    /// Checks the rules of crash-test against cuts of real file systems
    Rules {
        /// Random programs on each file system
        #[arg(long, default_value_t = 200)]
        programs: u64,
        /// Only this file system
        #[arg(long)]
        on: Option<String>,
    },
    /// Soaks one log: writers, trims, followers, views and kills, with memory, descriptors and disk bounded
    Soak(crate::soak::SoakOptions),
    /// Runs as one life of the soak
    #[command(hide = true)]
    SoakLife(crate::soak::Life),
    /// Writes the records of a victim to standard output, for the release binary
    #[command(hide = true)]
    Feed(VictimOptions),
    /// Runs as the child that is recorded, cut off or killed
    #[command(hide = true)]
    Victim(VictimOptions),
}

/// Runs the command that this process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Neither these nor the soak mount anything.
    let apart = !matches!(
        arguments.command,
        Some(Command::Victim(_) | Command::Feed(_) | Command::Soak(_) | Command::SoakLife(_))
    );
    if apart && let Err(error) = prepare() {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    let ended = match &arguments.command {
        Some(Command::Victim(options)) => crate::apart::end_with_parent()
            .map_err(Into::into)
            .and_then(|()| victim::run(options).map(|()| true)),
        Some(Command::Feed(options)) => options.feed(io::stdout().lock()).map(|()| true).map_err(Into::into),
        Some(Command::Soak(options)) => crate::soak::run(options, arguments.common.seed),
        Some(Command::SoakLife(life)) => crate::soak::live(life).map(|()| true),
        Some(Command::Replay { file, state }) => repeat(file, *state),
        Some(Command::SecondKernel(options)) => {
            let Common { seed, keep, results, .. } = &arguments.common;
            crate::second::campaign::run(options, *seed, keep, results.as_deref())
        }
        Some(Command::Rules { programs, on }) => rules(&arguments.common, *programs, on.as_deref()),
        Some(Command::Long { progress, minutes }) => long(&arguments.common, progress, *minutes),
        None => once(&arguments.common),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Isolates this run, and removes what an earlier one left behind.
fn prepare() -> io::Result<()> {
    crate::apart::enter()?;
    for swept in crate::apart::sweep()? {
        eprintln!("left behind by a killed run and cleared away: {swept}");
    }
    Ok(())
}

fn repeat(file: &Path, state: u64) -> Result<bool> {
    let broken = replay(file, state)?;
    if broken.is_empty() {
        println!("state {state}: every promise was kept");
    }
    for broken in &broken {
        println!("state {state}: {broken}");
    }
    Ok(broken.is_empty())
}

/// What is missing for the recorders, if anything.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    device.err().map(|error| format!("/dev/fuse: {error}"))
}

/// The file systems that can be made and mounted here, and why the others cannot.
fn grounds(report: &mut Report) -> Vec<&'static FileSystem> {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let mut grounds = Vec::new();
    for file_system in &FILE_SYSTEMS {
        let kernel = known.lines().any(|line| line.split_whitespace().last() == Some(file_system.name));
        let maker = format!("mkfs.{}", file_system.name);
        let made = std::process::Command::new(&maker).arg("-V").output().is_ok();
        match (kernel, made) {
            (true, true) => grounds.push(file_system),
            (false, _) => skip(report, format!("{0}: the kernel does not know {0}", file_system.name)),
            (_, false) => skip(report, format!("{}: no {maker}", file_system.name)),
        }
    }
    grounds
}

fn skip(report: &mut Report, what: String) {
    eprintln!("SKIPPED {what}");
    report.skipped.push(what);
}

fn begin(common: &Common, cap_seconds: u64) -> Result<Run> {
    let next_to_this = std::env::current_exe()?.with_file_name("seawall");
    let binary = common.binary.clone().unwrap_or(next_to_this);
    if !binary.is_file() {
        return Err(Error::NoBinary(binary));
    }
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let report = Report {
        kernel: format!("Linux {}", kernel.trim()),
        command: format!("seawall-crash {}", words.join(" ")).trim().to_owned(),
        ..Report::default()
    };
    let deadline_ns = monotonic_ns() + cap_seconds * 1_000_000_000;
    let (keep, jobs) = (common.keep.clone(), common.jobs.max(1));
    Ok(Run { binary, keep, jobs, every_state: common.every_state, deadline_ns, report })
}

/// A part of a run that can be done by itself.
#[derive(Clone, Copy, Debug)]
enum Part {
    FileControls,
    BlockControls(&'static FileSystem),
    Files,
    Faults(&'static FileSystem),
    Blocks(&'static FileSystem),
    Kills(u64),
}

impl Part {
    /// What `--only` calls it.
    fn kind(self) -> &'static str {
        match self {
            Self::FileControls | Self::BlockControls(_) => "controls",
            Self::Files => "files",
            Self::Faults(_) => "faults",
            Self::Blocks(_) => "blocks",
            Self::Kills(_) => "kills",
        }
    }

    /// The file system under the block recorder that it needs, if it needs one.
    fn ground(self) -> Option<&'static FileSystem> {
        match self {
            Self::BlockControls(ground) | Self::Faults(ground) | Self::Blocks(ground) => Some(ground),
            Self::FileControls | Self::Files | Self::Kills(_) => None,
        }
    }

    /// Its name, unlike every other part's.
    fn name(self) -> String {
        self.ground()
            .map_or_else(|| self.kind().to_owned(), |ground| format!("{} on {}", self.kind(), ground.name))
    }

    fn run(self, run: &mut Run, seed: u64) -> io::Result<()> {
        match self {
            Self::FileControls => run.file_controls(seed),
            Self::BlockControls(ground) => run.block_controls(ground, seed),
            Self::Files => run.files(seed),
            Self::Faults(ground) => run.faults(ground, seed),
            Self::Blocks(ground) => run.blocks(ground, seed),
            Self::Kills(cycles) => run.kills(seed, cycles),
        }
    }
}

/// The requested parts that can run here; the others are printed as skipped.
fn parts(report: &mut Report, common: &Common, kill_cycles: u64) -> Vec<Part> {
    let wanted = |part: &str| common.only.is_empty() || common.only.iter().any(|only| only == part);
    let mut parts = Vec::new();
    if let Some(missing) = missing() {
        for part in ["files", "blocks", "faults", "controls"].into_iter().filter(|part| wanted(part)) {
            skip(report, format!("{part}: {missing}"));
        }
    } else {
        let grounds = grounds(report);
        let on_each = |part: fn(&'static FileSystem) -> Part| grounds.iter().map(move |ground| part(ground));
        parts.push(Part::FileControls);
        parts.extend(on_each(Part::BlockControls));
        parts.push(Part::Files);
        parts.extend(on_each(Part::Faults));
        parts.extend(on_each(Part::Blocks));
    }
    parts.push(Part::Kills(kill_cycles));
    parts.retain(|part| wanted(part.kind()));
    parts
}

fn once(common: &Common) -> Result<bool> {
    crate::interrupt::listen()?;
    let mut run = begin(common, common.cap_seconds)?;
    let parts = parts(&mut run.report, common, 60);
    let ended = side_by_side(&mut run, &parts, common.seed);
    finish(&mut run.report, common, ended.err())
}

/// Runs the parts of each file system at the same time: each waits most of the time, for disks of its own. The parts of one
/// file system run one after the other. Those that need none come first: their victims have copies of this process's
/// mounts, and a disk that is still mounted in one of them would be written to after the next state. The kills run by
/// themselves after all of them, because a busy machine leaves a victim too little time before it is killed.
///
/// # Errors
/// The first of what ended a part; the other file systems' parts still run.
fn side_by_side(run: &mut Run, parts: &[Part], seed: u64) -> io::Result<()> {
    let (kills, parts): (Vec<Part>, Vec<Part>) =
        parts.iter().copied().partition(|part| matches!(part, Part::Kills(_)));
    let (parts, alone): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| part.ground().is_some());
    alone.into_iter().try_for_each(|part| part.run(run, seed))?;
    let mut lanes: Vec<(Option<&str>, Vec<Part>)> = Vec::new();
    for part in &parts {
        let ground = part.ground().map(|ground| ground.name);
        match lanes.iter_mut().find(|(lane, _)| *lane == ground) {
            Some((_, lane)) => lane.push(*part),
            None => lanes.push((ground, vec![*part])),
        }
    }
    let ended: Vec<_> = std::thread::scope(|scope| {
        let start = |(_, parts): (_, Vec<Part>)| {
            let mut lane = Run { report: Report::default(), ..run.clone() };
            scope.spawn(move || {
                let ended = parts.into_iter().try_for_each(|part| part.run(&mut lane, seed));
                (lane.report, ended)
            })
        };
        let started: Vec<_> = lanes.into_iter().map(start).collect();
        started.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut first = Ok(());
    for lane in ended {
        // What the others found is kept when one panicked.
        match lane {
            Ok((report, ended)) => {
                run.report.add(report);
                first = first.and(ended);
            }
            Err(_) => first = first.and(Err(io::Error::other("a part panicked"))),
        }
    }
    first.and_then(|()| kills.into_iter().try_for_each(|part| part.run(run, seed)))
}

fn finish(report: &mut Report, common: &Common, ended: Option<io::Error>) -> Result<bool> {
    report.unix_seconds = unix_seconds();
    report.findings.extend(ended.map(|error| format!("the run did not end: {error}")));
    if crate::interrupt::requested() {
        report.findings.push("the run was interrupted".to_owned());
    }
    print!("{}", report.markdown());
    if let Some(results) = &common.results {
        std::fs::create_dir_all(results)?;
        std::fs::write(results.join("crash.md"), report.markdown())?;
        std::fs::write(results.join("crash.json"), serde_json::to_string_pretty(report)?)?;
    }
    let skipped = report.skipped.len();
    if skipped > 0 {
        eprintln!("SKIPPED: {skipped} parts did not run");
    }
    Ok(report.failures().is_empty() && (skipped == 0 || !seawall_sys::skip::in_ci()))
}

/// Every cut of random programs is a state that the rule of its file system allows.
fn rules(common: &Common, programs: u64, only: Option<&str>) -> Result<bool> {
    crate::interrupt::listen()?;
    let mut report = Report::default();
    let mut all_explained = true;
    for file_system in
        grounds(&mut report).into_iter().filter(|ground| only.is_none_or(|only| only == ground.name))
    {
        let checked = crate::rules::check(file_system, common.seed, programs)?;
        println!(
            "{}: {} programs, {} cuts, {} not explained by the rule",
            file_system.name,
            checked.programs,
            checked.cuts,
            checked.unexplained.len()
        );
        checked.unexplained.iter().for_each(|what| println!("{what}"));
        all_explained &= checked.unexplained.is_empty();
    }
    Ok(all_explained && report.skipped.is_empty())
}

/// Part after part of seed after seed; the standing is written down after each.
fn long(common: &Common, path: &Path, minutes: u64) -> Result<bool> {
    crate::interrupt::listen()?;
    let mut progress = Progress::load(path, common.seed)?;
    let until_ns = monotonic_ns() + minutes * 60_000_000_000;
    let mut report = Report::default();
    let parts = parts(&mut report, common, 30);
    // What cannot run is no part of the campaign, and is said once.
    let (mut goes_on, mut all_kept) = (!parts.is_empty(), true);
    while goes_on {
        for part in &parts {
            if !progress.is_due(&part.name()) {
                continue;
            }
            // A campaign has no cap but the one of a whole day.
            let mut one = Run { every_state: true, ..begin(common, 24 * 3600)? };
            let ended = part.run(&mut one, progress.next_seed);
            if crate::interrupt::requested() {
                goes_on = false;
                break;
            }
            one.report.findings.extend(ended.err().map(|error| format!("the run did not end: {error}")));
            all_kept = one.report.failures().is_empty();
            progress.add(&part.name(), &one.report);
            save(path, &progress)?;
            println!("{}", progress.line());
            goes_on = monotonic_ns() < until_ns && all_kept;
            if !goes_on {
                break;
            }
        }
        if parts.iter().all(|part| !progress.is_due(&part.name())) {
            progress.seed_done();
            save(path, &progress)?;
        }
    }
    println!("{} on {}", progress.line(), progress.kernel);
    Ok(all_kept && progress.failures.is_empty())
}
