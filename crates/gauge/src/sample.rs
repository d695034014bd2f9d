//! Test fixture: results of the simulated testbed, from which tests of judging start.
//!
//! Invariant: they are exact, so that a finding is caused only by what the test changed.

use crate::latency::Latency;
use crate::method_names::choose_methods;
use crate::result::RunResult;
use crate::row::{Measured, Row};
use crate::scenario::settings::{Amount, Settings};
use crate::scenario::{Unwatched, commit};
use crate::testbed::sim::{Plant, SimTestbed};
use seawall_sys::durability::{Claim, DeviceCache};
use seawall_sys::inspect::Environment;

/// A run of `methods` on the simulated machine.
pub(crate) fn run(methods: &str, plants: Vec<Plant>, environment: fn(&mut Environment)) -> RunResult {
    let settings = Settings {
        methods: choose_methods(methods).expect("methods"),
        others: Vec::new(),
        amount: Amount::Transactions(12_000),
        rounds: 4,
        ..commit::settings()
    };
    let mut testbed = SimTestbed::new(settings.seed, plants);
    environment(&mut testbed.environments_mut()[0]);
    commit::run(&settings, &mut testbed, &mut Unwatched::default()).expect("a result")
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

/// The row `id`, to be spoilt.
pub(crate) fn row<'a>(result: &'a mut RunResult, id: &str) -> &'a mut Row {
    result.study.rows.iter_mut().find(|row| row.id == id).expect("listed")
}

pub(crate) fn measured<'a>(result: &'a mut RunResult, id: &str) -> &'a mut Measured {
    row(result, id).measured_mut().expect("measured")
}

pub(crate) fn durability<'a>(result: &'a mut RunResult, id: &str) -> &'a mut Claim {
    measured(result, id).durability.as_mut().expect("a class")
}

/// So many samples of one length.
pub(crate) fn samples(count: u64, ns: u64) -> Latency {
    let mut latency = Latency::new();
    (0..count).for_each(|_| latency.record(ns));
    latency
}

pub(crate) fn latency(measured: &mut Measured) -> &mut Latency {
    &mut measured.latencies[0].latency
}
