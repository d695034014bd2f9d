//! Compares the gauge's predicted commit rates with those of real PostgreSQL and SQLite.
//!
//! ```text
//!   predicted = the product asleep where it would sync, without the time asleep
//!             + its file operations with syncs, replayed by the gauge's own methods
//!             - the same file operations asleep, without the time asleep
//! ```
//!
//! The first line is the product's own work: parsing, locks, its writes into the cache, the client's round trip. It
//! is measured, not guessed, in every round beside the rate that it is compared with. The product sleeps instead of
//! syncing, because a product that waits for a disk works more slowly than one that never waits: its CPUs go idle and
//! its caches cool down. With syncs merely left out, its own work comes out too small, and every prediction too fast.
//!
//! Invariants: everything lives in one new folder, which is removed at the end; nothing of an existing database is
//! touched; a case outside the tolerance or the order is printed and fails the command.

mod postgres;
mod prediction;
mod replay;
mod sleeper;
mod sqlite;

use crate::error::{Error, Result};
use crate::files;
use crate::shell::target;
use crate::studies::rest_and_print_load;
use crate::studies::rounds::{Options, median};
use crate::tools;
use postgres::Cluster;
use prediction::{Case, TOLERANCE, misranked};
use replay::{Journal, Segment, Synchronous, Syncs};
use sleeper::Sleeper;
use sqlite::Database;
use std::path::{Path, PathBuf};

const POSTGRES: &str = "PostgreSQL";
const SQLITE: &str = "SQLite";

/// Values of `wal_sync_method` and the row that makes the same calls (with `wal_level` above minimal).
const METHODS: [(&str, &str); 4] = [
    ("fdatasync", "buffered+fdatasync"),
    ("open_datasync", "dsync"),
    ("fsync", "buffered+fsync"),
    ("open_sync", "sync"),
];

const LEVELS: [(&str, Journal, Synchronous); 4] = [
    ("WAL, synchronous = NORMAL", Journal::Wal, Synchronous::Normal),
    ("WAL, synchronous = FULL", Journal::Wal, Synchronous::Full),
    ("DELETE, synchronous = NORMAL", Journal::Delete, Synchronous::Normal),
    ("DELETE, synchronous = FULL", Journal::Delete, Synchronous::Full),
];

/// Transactions of a first try.
const TRIAL: u64 = 500;

/// A folder of our own, removed with all that is in it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// Runs both products and prints the table.
pub(crate) fn run(arguments: &[String]) -> Result {
    let options = Options { folder: target(), rounds: 12, seconds: 0.4 }.changed_by(arguments, 0.1)?;
    tools::provide(&tools::OBSERVE)?;
    let scratch = options.folder.join(format!("seawall-observe-{}", std::process::id()));
    std::fs::create_dir(&scratch).map_err(Error::at(scratch.display()))?;
    let scratch = Scratch(scratch);
    rest_and_print_load();
    let mut cases = postgres_cases(&scratch.0, &options)?;
    cases.extend(sqlite_cases(&scratch.0, &options)?);
    drop(scratch);
    print(&cases);
    judge(&cases)
}

fn postgres_cases(folder: &Path, options: &Options) -> Result<Vec<Case>> {
    let own = folder.join("pg");
    files::make_folder(&own)?;
    let segment = Segment::make(folder)?;
    let sleeper = Sleeper::make(&own)?;
    let cluster = Cluster::start(&own, &sleeper)?;
    println!("{POSTGRES} {}, one client, pgbench, one INSERT a transaction, prepared", cluster.version()?);
    let mut cases: Vec<Case> = METHODS
        .into_iter()
        .map(|(setting, method)| Case { product: POSTGRES, setting, method, syncs: 1.0, ..Case::default() })
        .collect();
    let budget_ns = options.seconds * 1e9;
    let own_part = transactions(budget_ns, cluster.commit(TRIAL)?);
    let mut parts = vec![TRIAL; cases.len()];
    for round in 0..=options.rounds {
        let mut found = vec![[0.0; 3]; cases.len()];
        let sleep_ns = segment.replay("buffered+fdatasync", Syncs::Made, whole(budget_ns / 4.0))?.sync_ns();
        let own_ns = cluster.commit_asleep(&sleeper, sleep_ns, own_part)?;
        let written = segment.replay("buffered", Syncs::Slept(sleep_ns), whole(budget_ns / 2.0))?;
        let written_ns = written.awake_ns();
        for turn in 0..cases.len() {
            let at = (round + turn) % cases.len();
            cluster.sync_by(cases[at].setting)?;
            let before = segment.replay(cases[at].method, Syncs::Made, whole(budget_ns / 2.0))?.mean_ns();
            let observed_ns = cluster.commit(parts[at])?;
            parts[at] = transactions(budget_ns, observed_ns);
            let after = segment.replay(cases[at].method, Syncs::Made, whole(budget_ns / 2.0))?.mean_ns();
            found[at] = [own_ns, f64::midpoint(before, after) - written_ns, observed_ns];
        }
        end_round(&mut cases, &found, round, options.rounds);
    }
    Ok(cases)
}

/// Adds what each case took, in nanoseconds a commit: its own work, its syncs, and observed. Round 0 is to warm up.
fn end_round(cases: &mut [Case], found: &[[f64; 3]], round: usize, rounds: usize) {
    let warming = if round == 0 { " (to warm up, not counted)" } else { "" };
    let product = cases.first().map_or("", |case| case.product);
    eprintln!("{product}: round {round} of {rounds} done{warming}");
    for (case, [own_ns, sync_ns, observed_ns]) in cases.iter_mut().zip(found).filter(|_| round > 0) {
        case.own_ns.push(*own_ns);
        case.sync_ns.push(*sync_ns);
        case.observed_ns.push(*observed_ns);
    }
}

fn sqlite_cases(folder: &Path, options: &Options) -> Result<Vec<Case>> {
    let database = Database::make(folder)?;
    let sleeper = Sleeper::make(folder)?;
    println!("{SQLITE} {}, one UPDATE of one row a transaction", Database::version()?);
    let mut cases: Vec<Case> = LEVELS
        .into_iter()
        .map(|(setting, ..)| Case {
            product: SQLITE,
            setting,
            method: "buffered+fdatasync",
            ..Case::default()
        })
        .collect();
    let budget_ns = options.seconds * 1e9;
    for round in 0..=options.rounds {
        let mut found = vec![[0.0; 3]; cases.len()];
        for turn in 0..cases.len() {
            let at = (round + turn) % cases.len();
            let (_, journal, synchronous) = LEVELS[at];
            let trial = replay::sqlite(folder, journal, synchronous, Syncs::Made, 1000)?;
            let sleep_ns = trial.sync_ns();
            let commits = transactions(budget_ns, trial.mean_ns());
            let own_ns = database.commit(journal, synchronous, commits, Some((&sleeper, sleep_ns)))?;
            // As many commits as the product makes: each begins with a new log, whose first thousand frames make
            // the file longer, and that costs more than the rest.
            let replayed = || replay::sqlite(folder, journal, synchronous, Syncs::Made, commits);
            let before = if round % 2 == 0 { Some(replayed()?) } else { None };
            let observed_ns = database.commit(journal, synchronous, commits, None)?;
            let synced = before.map_or_else(replayed, Ok)?;
            let written = replay::sqlite(folder, journal, synchronous, Syncs::Slept(sleep_ns), commits)?;
            found[at] = [own_ns, synced.mean_ns() - written.awake_ns(), observed_ns];
            cases[at].syncs = synced.syncs as f64 / synced.commits as f64;
        }
        end_round(&mut cases, &found, round, options.rounds);
    }
    Ok(cases)
}

/// As many as take about the time that was asked for; bounded, because one may be wrong about the disk.
fn transactions(budget_ns: f64, each_ns: f64) -> u64 {
    whole((budget_ns / each_ns).clamp(500.0, 20_000.0))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded times and counts")]
fn whole(value: f64) -> u64 {
    value as u64
}

fn print(cases: &[Case]) {
    println!(
        "\n{:10} {:29} {:19} {:>6} {:>8} {:>8} {:>9} {:>9} {:>6}  {:13}",
        "", "", "", "syncs/", "own µs", "syncs µs", "predicted", "observed", "", "ratio by"
    );
    println!(
        "{:10} {:29} {:19} {:>6} {:>8} {:>8} {:>9} {:>9} {:>6}  {:13}",
        "product",
        "setting",
        "method",
        "commit",
        "a commit",
        "a commit",
        "commits/s",
        "commits/s",
        "ratio",
        "round"
    );
    for case in cases {
        let micros = |values: &[f64]| {
            median(values.iter().copied()).map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns / 1e3))
        };
        let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
        let [least, middle, largest] = case.ratio().unwrap_or([f64::NAN; 3]);
        println!(
            "{:10} {:29} {:19} {:>6.2} {:>8} {:>8} {:>9} {:>9} {middle:>6.3}  {least:.2} to {largest:.2}  {}",
            case.product,
            case.setting,
            case.method,
            case.syncs,
            micros(&case.own_ns),
            micros(&case.sync_ns),
            rate(case.predicted()),
            rate(case.observed()),
            if case.holds() { "within 15 %" } else { "NOT within 15 %" }
        );
    }
    println!(
        "\nown: the product asleep where it would sync, less the time asleep. syncs: its file operations replayed with syncs,\nless the same asleep. predicted: both together. ratio: observed over predicted rate within a round, the median of rounds."
    );
}

fn judge(cases: &[Case]) -> Result {
    let missed = cases.iter().filter(|case| !case.holds()).count();
    let pairs = misranked(cases);
    for (faster, slower) in &pairs {
        println!("order: {faster} was observed to be faster than {slower}, and predicted to be slower");
    }
    if pairs.is_empty() {
        println!("order: as predicted, except where the rounds do not show it");
    }
    let percent = TOLERANCE * 100.0;
    match (missed, pairs.len()) {
        (0, 0) => Ok(()),
        (missed, wrong) => Err(Error::check(format!(
            "{missed} of {} cases are not within {percent:.0} %, {wrong} pair(s) in the other order",
            cases.len()
        ))),
    }
}
