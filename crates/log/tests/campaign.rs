//! Does the log keep its word on the simulated disk, and does the campaign find every deliberate mistake?
#![cfg(feature = "simulation")]

use seawall::sim::campaign::{Campaign, run, sweep};

/// Distinct crash states judged by the ordinary test run; long campaigns are run by the example `crash`.
const STATES: u64 = 200_000;

#[test]
fn nothing_acknowledged_is_lost() {
    let campaign = Campaign { seed: 1, states: STATES, ..Campaign::default() };
    match run(&campaign) {
        Ok(tally) => {
            assert!(tally.states >= STATES);
            assert!(tally.faults > 0 && tally.damaged > 0 && tally.refused > 0, "{tally:?}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn every_operation_may_fail() {
    match sweep(3) {
        Ok(tally) => assert!(tally.faults > 1000, "{tally:?}"),
        Err(failure) => panic!("{failure}"),
    }
}
