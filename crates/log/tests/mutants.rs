//! Tests that the crash campaign finds every planted bug within 100,000 states.
//!
//! Mutants that no campaign can see are listed with the reason where they are defined.
#![cfg(feature = "mutants")]

use seawall::mutant::{EQUIVALENT, FOUND_BY_ORDERS, Mutant, set};
use seawall::sim::campaign::{Campaign, run, sweep};

const STATES: u64 = 100_000;
/// Where campaigns begin, as in the example `mutants`.
const SEEDS: [u64; 3] = [1, 1_000_001, 2_000_001];

fn killed(mutant: Mutant) -> bool {
    set(Some(mutant));
    // One that only a failed sync, a kill and a reopening together show is rare: three campaigns look for it.
    let by_campaign = |seed| run(&Campaign { seed, states: STATES, ..Campaign::default() }).is_err();
    let found = SEEDS.into_iter().any(by_campaign) || sweep(3).is_err();
    set(None);
    found
}

#[test]
fn every_mistake_is_found() {
    let apart = EQUIVALENT.iter().chain(&FOUND_BY_ORDERS).map(|(known, _)| *known).collect::<Vec<_>>();
    let equivalent = |mutant: &Mutant| apart.contains(mutant);
    let visible: Vec<Mutant> = Mutant::ALL.into_iter().filter(|mutant| !equivalent(mutant)).collect();
    assert!(visible.len() >= 40, "{}", visible.len());
    let survivors: Vec<Mutant> = visible.into_iter().filter(|mutant| !killed(*mutant)).collect();
    assert!(survivors.is_empty(), "{survivors:?}");
}

#[test]
fn without_a_mistake_nothing_is_found() {
    set(None);
    assert!(run(&Campaign { seed: 1, states: STATES, ..Campaign::default() }).is_ok());
}
