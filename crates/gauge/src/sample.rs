//! Test fixture: results of the simulated rig, from which tests of judging start.
//!
//! Invariant: they are exact, so that a finding is caused only by what the test changed.

use crate::plan::{Amount, Plan, choose_methods};
use crate::result::{Measured, Outcome, RunResult};
use crate::rig::sim::{Plant, SimRig};
use crate::scenario::{Unwatched, commit};
use seawall_sys::durability::DeviceCache;
use seawall_sys::inspect::Environment;

/// A run of `methods` on the simulated machine.
pub(crate) fn run(methods: &str, plants: Vec<Plant>, environment: fn(&mut Environment)) -> RunResult {
    let plan = Plan {
        methods: choose_methods(methods).expect("methods"),
        amount: Amount::Transactions(12_000),
        rounds: 4,
        ..Plan::default()
    };
    let mut rig = SimRig::new(plan.journal, plan.seed, plants);
    environment(rig.environment_mut());
    commit::run(&plan, &mut rig, &mut Unwatched::default()).expect("a result")
}

/// A protected disk: direct I/O alone is durable there, and twice as fast as a flush.
pub(crate) fn healthy() -> RunResult {
    run("buffered,direct,buffered+fdatasync", Vec::new(), |environment| {
        environment.devices[0].write_cache = DeviceCache::WriteThrough;
    })
}

/// A consumer's disk with a volatile cache.
pub(crate) fn volatile(plants: Vec<Plant>) -> RunResult {
    run("buffered,direct,buffered+fdatasync,buffered+fsync,dsync", plants, |_| {})
}

/// The figures of `id`, to be spoilt.
pub(crate) fn measured<'a>(result: &'a mut RunResult, id: &str) -> &'a mut Measured {
    let row = result.methods.iter_mut().find(|row| row.id == id).expect("listed");
    match &mut row.outcome {
        Outcome::Measured(measured) => measured,
        other => panic!("{id}: {other:?}"),
    }
}
