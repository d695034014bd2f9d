//! Runs a block of a replicated engine: its client sends, and the device's counters are read here.
//!
//! Invariant: the device's counters are reported only for clusters reached by this machine's own addresses, because
//! they say nothing of any other cluster.

use super::super::{Block, Until};
use super::RealStage;
use crate::scenario::replicated::Order;
use seawall_sys::{Error, OpenError, clock};
use std::path::Path;

pub(super) fn run(stage: &mut RealStage, order: &Order<'_>, until: Until<'_>) -> Result<Block, OpenError> {
    let on_this_machine = stage.engines[order.engine].facts().on_this_machine;
    let counts = |stage: &RealStage| stage.counts_of(0).filter(|_| on_this_machine);
    let (before, start_ns) = (counts(stage), clock::monotonic_ns());
    let sample = stage.engines[order.engine].run(order, until).map_err(|error| {
        let name = stage.engines[order.engine].facts().id.clone();
        OpenError::Failed(Error::new("publish", Path::new(&name), std::io::Error::other(error)))
    })?;
    let counts = before.zip(counts(stage)).map(|(before, after)| after.since(&before));
    let elapsed_ns = sample.elapsed_ns;
    Ok(Block { samples: vec![sample], start_ns, elapsed_ns, counts, load_bytes: 0 })
}
