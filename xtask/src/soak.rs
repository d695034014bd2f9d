//! `cargo xtask soak --minutes N`: looks for faults with inputs that no test has, for as long as asked.
//!
//! ```text
//!   results/soak/standing.json   minutes, turns, the last seed and the findings of each part
//!   results/soak/README.md       the same as a table
//!   results/soak/...             where the parts' own programs stand
//! ```
//!
//! The part that had the least of its share comes next, for [`TURN_MINUTES`] at most, so that many short runs come to the
//! same as a long one. All of it is committed: any clone goes on from there.
//!
//! Invariants: no turn uses a seed that an earlier one used; the standing is written after every turn; a part that cannot
//! run here is told and leaves its minutes to the others; a finding ends nothing but the command's success.

use crate::shell::{command, is_root, output, root, status};
use crate::{explore, peers, runner, second_kernel};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const FOLDER: &str = "results/soak";
const TURN_MINUTES: u64 = 10;
/// The first seeds: none of the tests and campaigns comes as far.
const FIRST_SEED: u64 = 1_000_000_000;
/// More than any soak does.
const WITHOUT_END: &str = "1000000000000000";
/// A power cut in an emulator takes half a minute and less.
const CUTS_A_MINUTE: u64 = 2;

/// A row of the table.
struct Part {
    name: &'static str,
    /// Of the minutes, in parts of the sum.
    share: u64,
    /// A turn takes at least so long.
    least_minutes: u64,
    /// Why it cannot run here, if it cannot.
    lacking: fn() -> Option<String>,
    /// Looks for so long from a fresh seed; tells what it came to.
    run: fn(&Turn) -> Result<String, String>,
}

/// What a part is given.
struct Turn {
    minutes: u64,
    seed: u64,
    /// Where it keeps its standing.
    folder: PathBuf,
}

const PARTS: [Part; 6] = [
    Part { name: "simulated crashes", share: 4, least_minutes: 1, lacking: nothing, run: simulated },
    Part { name: "logs at rest", share: 2, least_minutes: 1, lacking: nothing, run: at_rest },
    Part { name: "real programs", share: 4, least_minutes: 1, lacking: no_root, run: real_programs },
    Part { name: "fuzzing", share: 4, least_minutes: 1, lacking: nothing, run: fuzzing },
    Part { name: "second kernel", share: 4, least_minutes: 3, lacking: no_root, run: cuts },
    Part { name: "peers", share: 1, least_minutes: 4, lacking: nothing, run: beside_peers },
];

fn nothing() -> Option<String> {
    None
}

fn no_root() -> Option<String> {
    (!is_root()).then(|| "needs root on Linux".to_owned())
}

/// What a part came to in all turns.
#[derive(Debug, Clone, Default, PartialEq)]
struct Done {
    minutes: u64,
    turns: u64,
    last: String,
    findings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Standing {
    next_seed: u64,
    parts: BTreeMap<String, Done>,
}

/// Runs the command.
///
/// # Errors
/// A wrong word, what was found, or that the standing cannot be read or written.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let minutes = wish(arguments)?;
    let folder = root().join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{FOLDER}: {error}"))?;
    let mut standing = Standing::read(&folder)?;
    let mut unable: BTreeSet<&str> = BTreeSet::new();
    for part in &PARTS {
        if let Some(reason) = (part.lacking)() {
            println!("SKIPPED: {}: {reason}", part.name);
            unable.insert(part.name);
        }
    }
    let (started_ns, mut found) = (seawall_sys::clock::monotonic_ns(), 0_usize);
    loop {
        let spent = (seawall_sys::clock::monotonic_ns() - started_ns) / 60_000_000_000;
        let left = minutes.saturating_sub(spent);
        let Some(part) = standing.next(&unable, left) else { break };
        let turn = Turn {
            minutes: left.min(TURN_MINUTES.max(part.least_minutes)),
            seed: standing.next_seed,
            folder: folder.clone(),
        };
        println!("\n== {}: {} minutes, seed {} ==", part.name, turn.minutes, turn.seed);
        let outcome = (part.run)(&turn);
        match &outcome {
            Ok(told) => println!("{told}"),
            Err(reason) => println!("FINDING: {reason}"),
        }
        found += usize::from(outcome.is_err());
        standing.add(part.name, &turn, outcome);
        standing.write(&folder)?;
    }
    println!("\n{}", standing.table());
    if found == 0 { Ok(()) } else { Err(format!("{found} turns found something: {FOLDER}/README.md")) }
}

fn wish(arguments: &[String]) -> Result<u64, String> {
    let usage = || "it is `cargo xtask soak --minutes N`, N above 0".to_owned();
    let [flag, value] = arguments else { return Err(usage()) };
    let minutes = value.parse().ok().filter(|minutes| flag == "--minutes" && *minutes > 0);
    minutes.ok_or_else(usage)
}

impl Standing {
    /// What the folder holds, or the start.
    fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join("standing.json");
        let damaged = || format!("{} is no standing of a soak; remove it to start anew", path.display());
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                Self::from_json(&serde_json::from_str(&text).map_err(|_| damaged())?).ok_or_else(damaged)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Self { next_seed: FIRST_SEED, parts: BTreeMap::new() })
            }
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn from_json(json: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let done = |value: &Value| {
            Some(Done {
                minutes: value["minutes"].as_u64()?,
                turns: value["turns"].as_u64()?,
                last: text(&value["last"])?,
                findings: value["findings"].as_array()?.iter().map(text).collect::<Option<_>>()?,
            })
        };
        let parts = json["parts"].as_object()?.iter();
        Some(Self {
            next_seed: json["next_seed"].as_u64()?,
            parts: parts.map(|(name, value)| Some((name.clone(), done(value)?))).collect::<Option<_>>()?,
        })
    }

    fn to_json(&self) -> Value {
        let done = |done: &Done| {
            let Done { minutes, turns, last, findings } = done;
            json!({ "minutes": minutes, "turns": turns, "last": last, "findings": findings })
        };
        let parts: serde_json::Map<String, Value> =
            self.parts.iter().map(|(name, part)| (name.clone(), done(part))).collect();
        json!({ "next_seed": self.next_seed, "parts": parts })
    }

    /// Writes it down, all or nothing, and the table beside it.
    fn write(&self, folder: &Path) -> Result<(), String> {
        let (path, draft) = (folder.join("standing.json"), folder.join("standing.new"));
        let text = format!("{:#}\n", self.to_json());
        let page = format!(
            "# How far the soak came\n\n`cargo xtask soak --minutes N` goes on from here, in any clone.\n\n{}",
            self.table()
        );
        let written = std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &path));
        let written = written.and_then(|()| std::fs::write(folder.join("README.md"), page));
        written.map_err(|error| format!("the standing could not be written to {}: {error}", folder.display()))
    }

    /// The part that had the least of its share and fits in what is left.
    fn next(&self, unable: &BTreeSet<&str>, left: u64) -> Option<&'static Part> {
        let had = |part: &Part| self.parts.get(part.name).map_or(0, |done| done.minutes) * 1000 / part.share;
        let able = PARTS.iter().filter(|part| !unable.contains(part.name) && part.least_minutes <= left);
        able.min_by_key(|part| had(part))
    }

    fn add(&mut self, name: &str, turn: &Turn, outcome: Result<String, String>) {
        let done = self.parts.entry(name.to_owned()).or_default();
        done.minutes += turn.minutes;
        done.turns += 1;
        match outcome {
            Ok(told) => done.last = told,
            Err(reason) => done.findings.push(format!("seed {}: {reason}", turn.seed)),
        }
        self.next_seed += 1;
    }

    fn table(&self) -> String {
        let mut text =
            "| part | minutes | turns | findings | last turn |\n| --- | ---: | ---: | ---: | --- |\n"
                .to_owned();
        for (name, Done { minutes, turns, last, findings }) in &self.parts {
            let _ = writeln!(text, "| {name} | {minutes} | {turns} | {} | {last} |", findings.len());
        }
        for (name, done) in &self.parts {
            for finding in &done.findings {
                let _ = writeln!(text, "\n{name}, {finding}");
            }
        }
        text
    }
}

/// Runs a program on the simulated disk that keeps its own standing in `file`; tells the lines that `told` names.
fn kept(turn: &Turn, example: &str, file: &str, more: &[&str], told: &str) -> Result<String, String> {
    let built = runner::programs(&["--example", example])?;
    let (standing, minutes, seed) =
        (turn.folder.join(file), turn.minutes.to_string(), FIRST_SEED.to_string());
    let standing = standing.display().to_string();
    let words = [&["--progress", &standing, "--minutes", &minutes, "--seed", &seed], more].concat();
    let said = output(command(&runner::program(&built, &format!("log/{example}"))?, &words))?;
    println!("{said}");
    let line = said.lines().find(|line| line.contains(told));
    Ok(line.ok_or_else(|| format!("the example {example} did not say \"{told}\""))?.trim().to_owned())
}

fn simulated(turn: &Turn) -> Result<String, String> {
    kept(turn, "crash", "simulated.txt", &["--states", WITHOUT_END], "states judged")
}

fn at_rest(turn: &Turn) -> Result<String, String> {
    kept(turn, "rot", "logs-at-rest.txt", &["--logs", WITHOUT_END], "mid-log:")
}

fn real_programs(turn: &Turn) -> Result<String, String> {
    let built = runner::programs(&["--bin", "seawall", "--bin", "seawall-crash"])?;
    let (standing, minutes, seed) =
        (turn.folder.join("real-programs.json"), turn.minutes.to_string(), FIRST_SEED.to_string());
    let (standing, folder) = (standing.display().to_string(), turn.folder.display().to_string());
    let words =
        ["long", "--results", &folder, "--progress", &standing, "--minutes", &minutes, "--seed", &seed];
    status(command(&runner::program(&built, "crash/bin")?, &words))?;
    Ok("real-programs.json".to_owned())
}

/// With seeds that no turn had; what is found and what is learned stays below the build folder.
fn fuzzing(turn: &Turn) -> Result<String, String> {
    let seed = (turn.seed - FIRST_SEED + 2).to_string();
    explore::fuzz(&[
        "--seconds".to_owned(),
        (turn.minutes * 60).to_string(),
        "--seed".to_owned(),
        seed.clone(),
    ])?;
    Ok(format!("seed {seed}"))
}

fn cuts(turn: &Turn) -> Result<String, String> {
    let path = turn.folder.join("second-kernel.json");
    let before = std::fs::read_to_string(path).unwrap_or_default();
    let before =
        serde_json::from_str::<Value>(&before).ok().and_then(|json| json["cuts"].as_u64()).unwrap_or(0);
    let wanted = (before + turn.minutes * CUTS_A_MINUTE).to_string();
    let folder = turn.folder.display().to_string();
    let words = ["--cuts", &wanted, "--results", &folder, "--seed", "1000001"];
    second_kernel::run(&words.map(str::to_owned))?;
    Ok(format!("{wanted} cuts"))
}

/// Each of the other logs, and whether it still syncs every commit.
fn beside_peers(_: &Turn) -> Result<String, String> {
    peers::run(&[])?;
    Ok("every row syncs every commit".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, BTreeSet, FIRST_SEED, PARTS, Standing, Turn, wish};

    fn new() -> Standing {
        Standing { next_seed: FIRST_SEED, parts: BTreeMap::new() }
    }

    fn turn(standing: &Standing, minutes: u64) -> Turn {
        Turn { minutes, seed: standing.next_seed, folder: "results".into() }
    }

    #[test]
    fn minutes_are_understood_or_refused() {
        let of = |words: &[&str]| wish(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["--minutes", "7"]), Ok(7));
        for wrong in [&[][..], &["--minutes"], &["--minutes", "0"], &["--hours", "1"], &["--minutes", "x"]] {
            assert!(of(wrong).is_err_and(|told| told.contains("--minutes N")), "{wrong:?}");
        }
    }

    #[test]
    fn every_part_gets_its_share_in_however_many_runs() {
        let mut standing = new();
        let shares: u64 = PARTS.iter().map(|part| part.share).sum();
        for _ in 0..shares * 10 {
            let part = standing.next(&BTreeSet::new(), 10).expect("fits");
            let turn = turn(&standing, 10);
            standing.add(part.name, &turn, Ok(String::new()));
        }
        for part in &PARTS {
            let turns = standing.parts[part.name].turns;
            assert!(turns.abs_diff(part.share * 10) <= 1, "{}: {turns}", part.name);
        }
        assert_eq!(standing.next_seed, FIRST_SEED + shares * 10, "no seed is used twice");
    }

    #[test]
    fn what_cannot_run_or_does_not_fit_leaves_its_minutes_to_the_others() {
        let unable: BTreeSet<&str> = PARTS[1..].iter().map(|part| part.name).collect();
        assert_eq!(new().next(&unable, 1).map(|part| part.name), Some(PARTS[0].name));
        assert!(new().next(&BTreeSet::new(), 0).is_none());
        let short = new().next(&BTreeSet::new(), 1).expect("one is short");
        assert!(short.least_minutes == 1);
    }

    #[test]
    fn a_standing_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(Standing::read(folder.path()), Ok(new()));
        let mut standing = new();
        let first = turn(&standing, 3);
        standing.add("fuzzing", &first, Ok("seed 2".to_owned()));
        let second = turn(&standing, 4);
        standing.add("fuzzing", &second, Err("findings in batch".to_owned()));
        standing.write(folder.path()).expect("writes");
        assert_eq!(Standing::read(folder.path()), Ok(standing.clone()));
        assert!(standing.table().contains("| fuzzing | 7 | 2 | 1 | seed 2 |"), "{}", standing.table());
        std::fs::write(folder.path().join("standing.json"), "{}").expect("writes");
        assert!(Standing::read(folder.path()).is_err_and(|told| told.contains("remove it")));
    }
}
