//! Fails each disk operation of simulated runs in turn and checks that no acknowledged record is lost.
//!
//! ```text
//! sweep [--seed N] [--seeds N]
//! ```
//!
//! Fails every operation of the lives of consecutive seeds, once and from then on, with each error, and prints how often
//! each operation was made to fail, as Markdown.

use std::collections::BTreeMap;

use seawall::sim::{FAULTS, OPENING_FAULTS, sweep};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut seed, mut seeds) = (1, 8);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a number"))?.parse::<u64>()?;
        match name.as_str() {
            "--seed" => seed = value,
            "--seeds" => seeds = value,
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let (mut operations, mut openings, mut lives, mut states, mut missed) = (0, 0, 0, 0, 0);
    let mut failed: BTreeMap<&str, [u64; FAULTS.len()]> = BTreeMap::new();
    for seed in seed..seed + seeds {
        let swept = sweep(seed)?;
        operations += swept.operations;
        openings += swept.openings;
        lives += swept.tally.lives;
        states += swept.tally.states;
        missed += swept.missed;
        for (name, times) in swept.failed {
            failed.entry(name).or_default().iter_mut().zip(times).for_each(|(sum, more)| *sum += more);
        }
    }
    let cells = |cells: [String; FAULTS.len()]| cells.join(" | ");
    println!("| operation | {} |", cells(FAULTS.map(|(name, _, _)| name.to_owned())));
    println!("| --- | {} |", cells(FAULTS.map(|_| "---:".to_owned())));
    for (name, times) in &failed {
        println!("| {name} | {} |", cells(times.map(|times| times.to_string())));
    }
    println!(
        "\n{operations} operations in {} lives, each failed in {} ways, and {openings} openings in {}: {lives} lives with a \
              failure, {missed} in which it did not come,\n{states} states judged, 0 promises broken",
        seeds * 4,
        FAULTS.len(),
        OPENING_FAULTS.len()
    );
    println!("\nseeds {seed} to {}", seed + seeds - 1);
    Ok(())
}
