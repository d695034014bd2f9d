//! How long can one look for a lost record without finding one?
//!
//! Runs the simulated crash campaign: `crash [--seed N] [--states N] [--state N]`; `--state` repeats one state alone.

use seawall::sim::campaign::{Campaign, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut campaign = Campaign { states: 1_000_000, ..Campaign::default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a number"))?.parse::<u64>()?;
        match name.as_str() {
            "--seed" => campaign.seed = value,
            "--states" => campaign.states = value,
            "--state" => campaign.only = Some(value),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let tally = run(&campaign)?;
    println!("{tally:#?}");
    Ok(())
}
