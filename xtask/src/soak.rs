//! `cargo xtask soak --minutes N`: looks for faults with inputs that no test has, for a given time.
//!
//! ```text
//!   results/soak/standing.json   seconds, turns, build and findings of each part, and the next seed
//!   results/soak/README.md       the same as a table
//!   results/soak/...             the progress of the parts' own programs
//! ```
//!
//! The part that had the least of its share comes next. A turn takes the part's share of the minutes asked for, at most
//! [`TURN_MINUTES`], in a process of its own; what it needs is provided and built before, which is not counted. All of
//! the folder is committed, so that any clone continues from there, and many short runs do the same as a long one.
//!
//! Invariants: no turn uses a seed that an earlier one used, even one that was interrupted; the standing is written
//! before and after every turn; a part that cannot run here is printed as skipped, is not counted, and leaves its
//! minutes to the others; a finding ends the turns of its part, and fails the command at its end.

use crate::apart::{Ran, Starter};
use crate::error::{Error, Result};
use crate::outcome::StepOutcome;
use crate::shell::{built_from, captured, command, is_root, root, status, target};
use crate::{explore, files, peers, replicated, runner, second_kernel};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const FOLDER: &str = "results/soak";
/// In it, the counts of faults while a log is shipped.
const SHIPPED: &str = "shipped.json";
const TURN_MINUTES: u64 = 10;
/// The first seeds: no test and no campaign comes as far.
const FIRST_SEED: u64 = 1_000_000_000;
/// More than any soak does.
const WITHOUT_END: &str = "1000000000000000";
/// A power cut in an emulator takes half a minute and less.
const CUTS_A_MINUTE: u64 = 2;
/// How long providing and building may take, and how much longer than asked a turn, which ends with a whole piece of work.
const LONGER: Duration = Duration::from_hours(1);

struct Part {
    name: &'static str,
    /// Of the minutes, in parts of the sum.
    share: u64,
    /// A turn takes at least this long.
    least_minutes: u64,
    /// Provides and builds what it needs; its error is why the part cannot run here.
    prepare: fn() -> Result,
    /// Looks for faults from a fresh seed; gives a line about what was tried. Its error is a finding.
    run: fn(&Turn) -> Result<String>,
}

struct Turn {
    minutes: u64,
    seed: u64,
    /// Where it keeps its progress.
    folder: PathBuf,
}

#[rustfmt::skip]
const PARTS: [Part; 8] = [
    Part { name: "simulated crashes", share: 4, least_minutes: 1, prepare: simulators, run: |turn| simulate(turn, "crash", "simulated.txt", "--states", "states judged") },
    Part { name: "logs at rest",      share: 2, least_minutes: 1, prepare: simulators, run: |turn| simulate(turn, "rot", "logs-at-rest.txt", "--logs", "mid-log:") },
    Part { name: "writers",           share: 2, least_minutes: 1, prepare: programs, run: writers },
    Part { name: "real programs",     share: 4, least_minutes: 1, prepare: programs_as_root, run: real_programs },
    Part { name: "fuzzing",           share: 4, least_minutes: 1, prepare: || explore::prepare_fuzzing(&explore::FUZZ_TARGETS), run: fuzzing },
    Part { name: "second kernel",     share: 4, least_minutes: 2, prepare: || second_kernel::prepare().map(drop), run: cuts },
    Part { name: "shipped",           share: 2, least_minutes: 2, prepare: || replicated::shipped::prepare(&root().join(FOLDER).join(SHIPPED)), run: shipped },
    Part { name: "peers",             share: 1, least_minutes: 3, prepare: || peers::prepare().map(drop), run: against_peers },
];

/// All turns of a part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Done {
    seconds: u64,
    turns: u64,
    /// The commit that the last turn was built from.
    build: String,
    last: String,
    findings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Progress {
    next_seed: u64,
    parts: BTreeMap<String, Done>,
}

/// The words after the command. With a part, which [`crate::apart`] starts: what it needs, or with a seed its turn.
#[derive(Args)]
pub(crate) struct Options {
    /// How long
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    #[arg(long, hide = true, requires = "outcome")]
    part: Option<String>,
    #[arg(long, hide = true)]
    seed: Option<u64>,
    #[arg(long, hide = true)]
    outcome: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result {
    let (Some(name), Some(outcome)) = (&options.part, &options.outcome) else {
        return soak(options.minutes);
    };
    let part = PARTS.iter().find(|part| part.name == name);
    let part = part.ok_or_else(|| Error::check(format!("the soak has no part `{name}`")))?;
    let ended = match options.seed {
        None => (part.prepare)().into(),
        Some(seed) => {
            let turn = Turn { minutes: options.minutes, seed, folder: root().join(FOLDER) };
            (part.run)(&turn).map_or_else(StepOutcome::from, StepOutcome::HeldWith)
        }
    };
    ended.write(outcome)
}

fn soak(minutes: u64) -> Result {
    let folder = root().join(FOLDER);
    files::make_folder(&folder)?;
    let mut standing = Progress::read(&folder)?;
    let (starter, build) = (Starter::new()?, built_from());
    // Parts that cannot run here, and those that found something, which they would find again.
    let (mut skipped, mut found) = (BTreeMap::new(), BTreeSet::new());
    let mut broken = Vec::new();
    let mut spent = Duration::ZERO;
    loop {
        let left = minutes.saturating_sub(spent.as_secs() / 60);
        let over: BTreeSet<&str> = skipped.keys().chain(&found).copied().collect();
        let Some(part) = standing.next(&over, left) else { break };
        let prepared = starter.run(&["soak", "--minutes", "1", "--part", part.name], LONGER);
        if prepared.outcome != StepOutcome::Held {
            if !matches!(prepared.outcome, StepOutcome::Skipped(_)) {
                broken.push(part.name);
            }
            println!("SKIPPED: {}: {}", part.name, reason(&prepared.outcome));
            skipped.insert(part.name, reason(&prepared.outcome));
            continue;
        }
        let minutes = part.turn_minutes(minutes).min(left);
        let seed = standing.take_seed();
        standing.write(&folder)?;
        println!("\n== {}: {minutes} minutes, seed {seed} ==", part.name);
        let turn = ["--minutes", &minutes.to_string(), "--seed", &seed.to_string()];
        let ran = starter.run(
            &[&["soak", "--part", part.name], &turn[..]].concat(),
            Duration::from_mins(minutes) + LONGER,
        );
        spent += ran.wall;
        let held = matches!(ran.outcome, StepOutcome::HeldWith(_));
        println!("{}{}", if held { "" } else { "FINDING: " }, reason(&ran.outcome));
        if !held {
            found.insert(part.name);
        }
        standing.add(part.name, seed, &build, ran);
        standing.write(&folder)?;
    }
    println!("\n{}", standing.table());
    for (name, reason) in &skipped {
        println!("SKIPPED, not counted as held: {name}: {reason}");
    }
    if !found.is_empty() {
        let found: Vec<&str> = found.into_iter().collect();
        fail!("findings in {}: {FOLDER}/README.md", found.join(", "));
    }
    ensure!(broken.is_empty(), "could not be prepared: {}", broken.join(", "));
    Ok(())
}

fn reason(outcome: &StepOutcome) -> String {
    match outcome {
        StepOutcome::HeldWith(text) | StepOutcome::Broken(text) | StepOutcome::Skipped(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

impl Part {
    fn turn_minutes(&self, requested: u64) -> u64 {
        let shares: u64 = PARTS.iter().map(|part| part.share).sum();
        (requested * self.share / shares).clamp(self.least_minutes, TURN_MINUTES)
    }
}

impl Progress {
    /// What the folder holds, or the start.
    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("standing.json");
        if !path.exists() {
            return Ok(Self { next_seed: FIRST_SEED, parts: BTreeMap::new() });
        }
        serde_json::from_value(files::read_json(&path)?).map_err(|cause| Error::At {
            place: format!("{} is no standing of a soak; remove it to start anew", path.display()),
            cause: cause.into(),
        })
    }

    fn write(&self, folder: &Path) -> Result {
        let (path, new) = (folder.join("standing.json"), folder.join("standing.new"));
        files::write(&new, serde_json::to_vec_pretty(self).map_err(Error::at(new.display()))?)?;
        std::fs::rename(&new, &path).map_err(Error::at(path.display()))?;
        let about =
            "# The standing of the soak\n\n`cargo xtask soak --minutes N` continues from here, in any clone.";
        files::write(&folder.join("README.md"), format!("{about}\n\n{}", self.table()))
    }

    /// The part that had the least of its share and fits in what is left.
    fn next(&self, skipped: &BTreeSet<&str>, left: u64) -> Option<&'static Part> {
        let had = |part: &Part| self.parts.get(part.name).map_or(0, |done| done.seconds) * 1000 / part.share;
        let able = PARTS.iter().filter(|part| !skipped.contains(part.name) && part.least_minutes <= left);
        able.min_by_key(|part| had(part))
    }

    fn take_seed(&mut self) -> u64 {
        self.next_seed += 1;
        self.next_seed - 1
    }

    fn add(&mut self, name: &str, seed: u64, build: &str, ran: Ran) {
        let done = self.parts.entry(name.to_owned()).or_default();
        done.seconds += ran.wall.as_secs();
        done.turns += 1;
        build.clone_into(&mut done.build);
        match ran.outcome {
            StepOutcome::HeldWith(line) => done.last = line,
            other => done.findings.push(format!("seed {seed}: {}", reason(&other))),
        }
    }

    fn table(&self) -> String {
        let mut text = "| part | minutes | turns | findings | last build | last turn |\n| --- | ---: | ---: | ---: | --- | --- |\n".to_owned();
        for (name, Done { seconds, turns, build, last, findings }) in &self.parts {
            let (minutes, found) = (*seconds as f64 / 60.0, findings.len());
            let _ = writeln!(text, "| {name} | {minutes:.1} | {turns} | {found} | {build} | {last} |");
        }
        for (name, done) in &self.parts {
            for finding in &done.findings {
                let _ = writeln!(text, "\n{name}, {finding}");
            }
        }
        text
    }
}

/// The build of the tests, with the two examples that judge simulated disks.
const SIMULATORS: [&str; 4] = ["--example", "crash", "--example", "rot"];
const PROGRAMS: [&str; 4] = ["--bin", "seawall", "--bin", "seawall-crash"];

fn simulators() -> Result {
    runner::programs(&SIMULATORS).map(drop)
}

fn programs() -> Result {
    if !cfg!(target_os = "linux") {
        return Err(Error::lacking("needs Linux"));
    }
    runner::programs(&PROGRAMS).map(drop)
}

fn programs_as_root() -> Result {
    if is_root() { programs() } else { Err(Error::lacking("mounting file systems needs root on Linux")) }
}

/// Runs a program; gives the last line of its output that holds `words`, and what it printed as skipped.
fn line_of(program: Command, words: &str) -> Result<String> {
    let (printed, errors) = captured(program)?;
    println!("{printed}{errors}");
    turn_line(&printed, &errors, words)
}

fn turn_line(printed: &str, errors: &str, words: &str) -> Result<String> {
    let line = printed.lines().rfind(|line| line.contains(words));
    let line = line.ok_or_else(|| Error::check(format!("no line with \"{words}\"")))?.trim();
    let skipped = errors.lines().filter(|line| line.starts_with("SKIPPED"));
    Ok(skipped.fold(line.to_owned(), |text, skipped| text + "; " + skipped))
}

/// Runs a program on the simulated disk that keeps its own progress in `file`, without an end of what `counted` names; gives the
/// line that holds `words`.
fn simulate(turn: &Turn, example: &str, file: &str, counted: &str, words: &str) -> Result<String> {
    let program = runner::program(&runner::programs(&SIMULATORS)?, &format!("log/{example}"))?;
    let progress = turn.folder.join(file).display().to_string();
    let (minutes, seed) = (turn.minutes.to_string(), FIRST_SEED.to_string());
    let options = ["--progress", &progress, "--minutes", &minutes, "--seed", &seed, counted, WITHOUT_END];
    line_of(command(program, &options), words)
}

fn crash_program() -> Result<PathBuf> {
    runner::program(&runner::programs(&PROGRAMS)?, "crash/bin")
}

/// Writers, trims, followers and views on one log, whose process is killed again and again.
fn writers(turn: &Turn) -> Result<String> {
    let (seconds, seed) = ((turn.minutes * 60).to_string(), turn.seed.to_string());
    let folder = target().display().to_string();
    let words = ["soak", "--seconds", &seconds, "--dir", &folder, "--seed", &seed];
    line_of(command(crash_program()?, &words), "lives killed")
}

/// The campaign on recorded file systems and failing disks, which goes on where it stopped.
fn real_programs(turn: &Turn) -> Result<String> {
    let progress = turn.folder.join("real-programs.json").display().to_string();
    let (minutes, seed) = (turn.minutes.to_string(), FIRST_SEED.to_string());
    let words = ["long", "--progress", &progress, "--minutes", &minutes, "--seed", &seed];
    line_of(command(crash_program()?, &words), "states, ")
}

/// With seeds that no turn had; findings and new inputs stay below the build folder.
fn fuzzing(turn: &Turn) -> Result<String> {
    let seed = turn.seed - FIRST_SEED + 2;
    explore::fuzz(&explore::Options { seconds: turn.minutes * 60, seed, target: Vec::new() })?;
    Ok(format!("{} targets, seed {seed}", explore::FUZZ_TARGETS.len()))
}

fn cuts(turn: &Turn) -> Result<String> {
    let path = turn.folder.join("second-kernel.json");
    let before = if path.exists() { files::read_json(&path)?["cuts"].as_u64().unwrap_or(0) } else { 0 };
    let wanted = (before + turn.minutes * CUTS_A_MINUTE).to_string();
    let (folder, progress) = (turn.folder.display().to_string(), path.display().to_string());
    let words = ["--cuts", &wanted, "--progress", &progress, "--results", &folder, "--seed", "1000001"];
    status(second_kernel::prepare()?.cuts(&words))?;
    Ok(format!("{wanted} power cuts judged in all"))
}

fn shipped(turn: &Turn) -> Result<String> {
    replicated::shipped::soak(turn.minutes, turn.seed, &turn.folder.join(SHIPPED))
}

fn against_peers(_: &Turn) -> Result<String> {
    peers::run(&peers::Options::default())?;
    Ok("every row syncs every commit".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, BTreeSet, FIRST_SEED, PARTS, Progress, Ran, StepOutcome, turn_line};

    fn new() -> Progress {
        Progress { next_seed: FIRST_SEED, parts: BTreeMap::new() }
    }

    fn ran(outcome: StepOutcome, seconds: u64) -> Ran {
        Ran { outcome, wall: std::time::Duration::from_secs(seconds), cpu_seconds: None }
    }

    fn held(line: &str) -> StepOutcome {
        StepOutcome::HeldWith(line.to_owned())
    }

    #[test]
    fn a_turn_takes_its_share_of_what_was_asked_for() {
        for part in &PARTS {
            assert_eq!(part.turn_minutes(1), part.least_minutes);
            assert_eq!(part.turn_minutes(100_000), super::TURN_MINUTES);
        }
        let all: u64 = PARTS.iter().map(|part| part.turn_minutes(15)).sum();
        assert!(all <= 15, "{all}: a quarter of an hour reaches every part");
    }

    #[test]
    fn every_part_gets_its_share_in_however_many_runs() {
        let mut standing = new();
        let shares: u64 = PARTS.iter().map(|part| part.share).sum();
        for _ in 0..shares * 10 {
            let part = standing.next(&BTreeSet::new(), 10).expect("fits");
            let seed = standing.take_seed();
            standing.add(part.name, seed, "build", ran(held(""), 600));
        }
        for part in &PARTS {
            let turns = standing.parts[part.name].turns;
            assert!(turns.abs_diff(part.share * 10) <= 1, "{}: {turns}", part.name);
        }
        assert_eq!(standing.next_seed, FIRST_SEED + shares * 10, "no seed is used twice");
    }

    #[test]
    fn what_cannot_run_or_does_not_fit_leaves_its_minutes_to_the_others() {
        let skipped: BTreeSet<&str> = PARTS[1..].iter().map(|part| part.name).collect();
        assert_eq!(new().next(&skipped, 1).map(|part| part.name), Some(PARTS[0].name));
        assert!(new().next(&BTreeSet::new(), 0).is_none());
        let short = new().next(&BTreeSet::new(), 1).expect("one is short");
        assert!(short.least_minutes == 1);
    }

    #[test]
    fn what_a_program_skipped_is_part_of_its_line() {
        let errors = "mounting\nSKIPPED xfs: no mkfs.xfs\n";
        assert_eq!(
            turn_line("1 states, a\n2 states, b \n", errors, "states, ").expect("a line"),
            "2 states, b; SKIPPED xfs: no mkfs.xfs"
        );
        assert!(turn_line("nothing", "", "states, ").is_err());
    }

    #[test]
    fn a_standing_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = || Progress::read(folder.path()).expect("is read");
        assert_eq!(read(), new());
        let mut standing = new();
        standing.add("fuzzing", 1, "abc", ran(held("seed 2"), 180));
        standing.add("fuzzing", 2, "abd", ran(StepOutcome::Broken("findings in batch".to_owned()), 246));
        standing.write(folder.path()).expect("writes");
        assert_eq!(read(), standing);
        assert!(
            standing.table().contains("| fuzzing | 7.1 | 2 | 1 | abd | seed 2 |"),
            "{}",
            standing.table()
        );
        assert!(standing.table().contains("fuzzing, seed 2: findings in batch"));
        std::fs::write(folder.path().join("standing.json"), "{}").expect("writes");
        assert!(Progress::read(folder.path()).is_err_and(|error| error.to_string().contains("remove it")));
    }
}
