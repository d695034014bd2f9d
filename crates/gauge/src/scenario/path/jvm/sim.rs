//! Computes a block of the `path` scenario as a JVM would run it.

use super::super::sim::writes;
use super::super::{PACES, Pace, Trace};
use super::BlockRequest;
use crate::latency::Latency;
use crate::testbed::sim::{COPY_NS, FLUSH_NS, SimTestbed, TRANSFER_NS};
use crate::testbed::{BlockError, Until};
use seawall_sys::counters::Counts;
use seawall_sys::write_call::WriteCall;

pub(super) fn run(
    sim: &mut SimTestbed,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Trace, BlockError> {
    let mut state = sim.state();
    let memory = WriteCall::ALL.iter().any(|call| call.id() == request.row.like);
    let base_ns = if memory { 1_300 } else { COPY_NS + TRANSFER_NS + FLUSH_NS + 400 };
    let pace = request.pace.and_then(|pace| PACES.iter().find(|(one, ..)| *one == pace));
    let id = format!("{}/{}", request.row.id, pace.map_or("", |(_, name, _)| *name));
    let before = state.counts;
    let mut trace = writes(&mut state, &id, base_ns, request.interval_ns, request.pace, until)?;
    if !memory {
        let writes = trace.service.count();
        state.counts =
            state.counts.plus(&Counts { writes: 2 * writes, sectors: 9 * writes, flushes: writes });
    }
    trace.counts = Some(state.counts.since(&before));
    trace.allocated_bytes = Some(if request.row.allocates_nothing { 0 } else { 40 * trace.service.count() });
    if request.pace == Some(Pace::Closed) {
        let mut roll = Latency::new();
        (0..trace.service.count() / 256).for_each(|_| roll.record(30_000));
        trace.roll = Some(roll);
    }
    Ok(trace)
}
