//! Runs short crash campaigns and a failure sweep on the simulated disk.

use seawall::sim::campaign::{Campaign, run};
use seawall::sim::{FAULTS, OPENING_FAULTS, sweep, taken};

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
fn a_foreign_file_is_left_alone() {
    match taken() {
        // Preparing takes seven steps, taking a trimmed segment two; after the rename the name is the log's.
        Ok(scenes) => assert!(scenes >= 7, "{scenes}"),
        Err(violation) => panic!("{violation}"),
    }
}

#[test]
fn every_operation_may_fail() {
    match sweep(3) {
        Ok(swept) => {
            assert!(swept.operations > 400, "{swept:?}");
            assert_eq!(swept.missed, 0, "every life repeats itself up to the failure");
            assert!(swept.openings > 40, "{swept:?}");
            let openings = swept.openings * OPENING_FAULTS.len() as u64;
            assert_eq!(swept.tally.lives, swept.operations * FAULTS.len() as u64 + openings);
            for name in
                ["list", "open", "create", "rename", "write", "sync", "sync the directory", "reserve space"]
            {
                let times = swept.failed.get(name).copied().unwrap_or_default();
                assert!(times.iter().all(|times| *times > 0), "{name}: {times:?}");
            }
            // A new log is not read; reads fail in the campaign, whose lives go on where others ended.
            // A healthy life recycles what it trims; a staging file is left to be removed by one whose preparing failed.
            let removed = swept.failed.get("remove").copied().unwrap_or_default();
            assert!(removed.iter().any(|times| *times > 0), "{removed:?}");
        }
        Err(failure) => panic!("{failure}"),
    }
}
