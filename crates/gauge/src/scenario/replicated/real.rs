//! Runs a block of a replicated engine: its client sends, and the device's counters are read here.
//!
//! Invariant: the device's counters are reported only for clusters reached by this machine's own addresses, because
//! they say nothing of any other cluster.

use super::{BlockRequest, EngineClient, EngineError, Engines};
use crate::testbed::real::RealTestbed;
use crate::testbed::{Block, BlockError, Until};
use seawall_sys::Error;
use std::path::Path;

pub(super) fn run(
    testbed: &mut RealTestbed,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Block, BlockError> {
    let on_this_machine = engine(testbed, request)?.facts().on_this_machine;
    let counts = |testbed: &RealTestbed| testbed.counts_of(0).filter(|_| on_this_machine);
    let before = counts(testbed);
    let engine = engine(testbed, request)?;
    let sample = engine.run(request, until).map_err(|error| failed(&engine.facts().id, error))?;
    let counts = before.zip(counts(testbed)).map(|(before, after)| after.since(&before));
    let elapsed_ns = sample.elapsed_ns;
    Ok(Block { samples: vec![sample], elapsed_ns, counts, load_bytes: 0 })
}

fn engine<'a>(
    testbed: &'a mut RealTestbed,
    request: &BlockRequest<'_>,
) -> Result<&'a mut Box<dyn EngineClient>, Error> {
    let engines = testbed.attached::<Engines>();
    let engine = engines.and_then(|engines| engines.0.get_mut(request.engine));
    engine.ok_or_else(|| failed(request.id, "no such cluster was named".into()))
}

fn failed(name: &str, error: EngineError) -> Error {
    Error::new("publish", Path::new(name), std::io::Error::other(error))
}
