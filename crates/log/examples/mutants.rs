//! Runs the crash campaign against every planted bug and counts the states until each is found.
//!
//! `mutants [NAME]` prints a table: for each planted bug, the states that campaigns from four seeds judged until one
//! broke a promise, and what broke first; bugs that only a failing operation shows are found by the sweep, and those
//! that only a foreign file shows by one that appears under a segment's name. The run fails if a bug survives that is
//! not listed as equivalent.
//!
//! `mutants --record` writes `src/testing/sim/planted.txt` again: where each bug shows, so that the tests need not search.

use std::process::ExitCode;

use seawall::mutant::{EQUIVALENT, FOUND_BY_ORDERS, FOUND_BY_TESTS, Mutant};
use seawall::sim::campaign::Failure;
use seawall::sim::planted::{FoundAt, STATES, by_campaigns, elsewhere, find, visible};

const PLANTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/testing/sim/planted.txt");
const HEAD: &str = "# Where the campaign finds each planted bug: NAME SEED STATE, or NAME sweep, taken or rest. Written by the example\n# `mutants --record`; read by sim/planted.rs.\n";

/// What one mistake came to.
struct Row {
    needed: Vec<Option<u64>>,
    first: Option<String>,
    by_sweep: bool,
}

fn try_out(mutant: Mutant) -> Row {
    let mut found: Vec<Option<Failure>> = by_campaigns(mutant).collect();
    let mut by_sweep = false;
    if found.iter().all(Option::is_none) {
        let elsewhere = elsewhere(mutant);
        by_sweep = matches!(elsewhere, Some((FoundAt::Sweep, _)));
        found = vec![elsewhere.map(|(_, failure)| failure)];
    }
    let needed = found.iter().map(|failure| failure.as_ref().map(|failure| failure.judged)).collect();
    Row { needed, first: found.into_iter().flatten().next().map(|failure| failure.to_string()), by_sweep }
}

/// Writes down where each mistake shows; one that stays where it was keeps its place.
fn record() -> ExitCode {
    let mut text = HEAD.to_owned();
    let mut survived = 0;
    for mutant in visible() {
        if let Some((place, _)) = find(mutant) {
            text = text + &format!("{mutant:?} {place}") + "\n";
        } else {
            survived += 1;
            println!("{mutant:?} **survived**");
        }
    }
    if let Err(error) = std::fs::write(PLANTED, text) {
        eprintln!("{PLANTED}: {error}");
        return ExitCode::FAILURE;
    }
    println!("{} recorded, {survived} survived", visible().len() - survived);
    if survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1);
    if wanted.as_deref() == Some("--record") {
        return record();
    }
    println!("| mistake | states needed, four seeds | what broke first |\n| --- | ---: | --- |");
    let (mut killed, mut survived) = (0, 0);
    for mutant in Mutant::ALL.iter().copied() {
        let name = format!("{mutant:?}");
        if wanted.as_ref().is_some_and(|wanted| *wanted != name) {
            continue;
        }
        if let Some((_, scene)) = FOUND_BY_ORDERS.iter().find(|(known, _)| *known == mutant) {
            println!("| {name} | by orders of threads | `{scene}` |");
            continue;
        }
        if Mutant::OF_MACHINES.contains(&mutant) {
            println!("| {name} | by recorded machines | tests of `seawall-sys` |");
            continue;
        }
        if let Some((_, test)) = FOUND_BY_TESTS.iter().find(|(known, _)| *known == mutant) {
            println!("| {name} | by a test | `{test}` |");
            continue;
        }
        let Row { needed, first, by_sweep } = try_out(mutant);
        let reason = EQUIVALENT.iter().find(|(known, _)| *known == mutant).map(|(_, reason)| *reason);
        let numbers = needed.iter().map(|count| count.map_or("–".to_owned(), |count| count.to_string()));
        let numbers = numbers.collect::<Vec<_>>().join(" · ");
        let how = if by_sweep { " (sweep)" } else { "" };
        match (first, reason) {
            (Some(first), None) => {
                killed += 1;
                println!("| {name} | {numbers}{how} | {first} |");
            }
            (None, Some(reason)) => println!("| {name} | equivalent | {reason} |"),
            (Some(first), Some(_)) => {
                survived += 1;
                println!("| {name} | {numbers}{how} | **called equivalent, and is not**: {first} |");
            }
            (None, None) => {
                survived += 1;
                println!("| {name} | **survived** | |");
            }
        }
    }
    println!(
        "\n{killed} found, {} equivalent, {survived} open; at most {STATES} states each",
        EQUIVALENT.len()
    );
    if survived == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
