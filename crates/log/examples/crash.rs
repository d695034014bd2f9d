//! Runs the simulated crash campaign on every processor and reports the first record lost.
//!
//! ```text
//! crash [--seed N] [--states N] [--workers N] [--progress FILE] [--minutes N] [--cap-seconds N] [--state N]
//! ```
//!
//! `--state` repeats one state of the life of `--seed` alone; `resumable/mod.rs` describes the other options.

mod resumable;

use resumable::{Anything, CampaignOptions};
use seawall::sim::campaign::{Campaign, DIMENSIONS, Tally, run};
use seawall::sim::crew::CampaignProgress;

fn show(standing: &CampaignProgress<Tally>, workers: usize, wanted: u64) {
    let CampaignProgress { first_seed, next_seed, milliseconds, sum: tally } = standing;
    let rate = tally.states as f64 * 1000.0 / (*milliseconds).max(1) as f64;
    println!("seeds {first_seed} to {}, {workers} workers, {milliseconds} ms", next_seed - 1);
    println!("{:>12} states judged, each once in its life: {rate:.0} a second", tally.states);
    println!("{:>12} different contents and dues over all lives (estimate, 0.8 %)", tally.sketch.estimate());
    println!("{:>12} images seen before and skipped", tally.repeated);
    println!("{:>12} lives, nested ones included; {} failed operations", tally.lives, tally.faults);
    for (name, lives) in DIMENSIONS.iter().zip(tally.dimensions) {
        println!("{lives:>12} of them: {name}");
    }
    let intact = tally.damaged - tally.refused - tally.undecidable;
    println!(
        "{:>12} damaged: {} refused with the place named, {} after the last witness, {intact} whole or seen before",
        tally.damaged, tally.refused, tally.undecidable
    );
    println!("{:>12} promises broken", 0);
    let percent = tally.states as f64 * 100.0 / wanted as f64;
    println!("{percent:>10.1} % of the {wanted} states that are wanted");
}

fn main() -> Result<(), Anything> {
    let mut campaign = Campaign { states: 1_000_000, ..Campaign::default() };
    let orders = CampaignOptions::read(|name, number| {
        match name {
            "--states" => campaign.states = number,
            "--state" => campaign.only = Some(number),
            _ => return false,
        }
        true
    })?;
    campaign.seed = orders.seed;
    if campaign.only.is_some() {
        println!("{} state judged, every promise kept", run(&campaign)?.states);
        return Ok(());
    }
    orders.run(&campaign, |standing| show(standing, orders.workers, campaign.states))
}
