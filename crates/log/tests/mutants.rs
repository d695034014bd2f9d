//! Does the campaign find every deliberate mistake within 100,000 states?
//!
//! Four mistakes cannot be seen alone, because another rule of the format covers each of them: a batch that passes the
//! link check follows its predecessor, so its LSN, its epoch and its offset are right too, and one that passes all of
//! these is linked. `IgnoreChainAndPlace` makes the four together and is found.
#![cfg(feature = "mutants")]

use seawall::mutant::{Mutant, set};
use seawall::sim::campaign::{Campaign, run, sweep};

/// Mistakes without an effect of their own.
const EQUIVALENT: [Mutant; 4] =
    [Mutant::AcceptOtherOffset, Mutant::IgnoreEpoch, Mutant::IgnoreLsn, Mutant::IgnoreLink];

const STATES: u64 = 100_000;

fn killed(mutant: Mutant) -> bool {
    set(Some(mutant));
    let found = run(&Campaign { seed: 1, states: STATES, ..Campaign::default() }).is_err() || sweep(3).is_err();
    set(None);
    found
}

#[test]
fn every_mistake_is_found() {
    let visible: Vec<Mutant> = Mutant::ALL.into_iter().filter(|mutant| !EQUIVALENT.contains(mutant)).collect();
    assert!(visible.len() >= 40, "{}", visible.len());
    let survivors: Vec<Mutant> = visible.into_iter().filter(|mutant| !killed(*mutant)).collect();
    assert!(survivors.is_empty(), "{survivors:?}");
}

#[test]
fn without_a_mistake_nothing_is_found() {
    set(None);
    assert!(run(&Campaign { seed: 1, states: STATES, ..Campaign::default() }).is_ok());
}
