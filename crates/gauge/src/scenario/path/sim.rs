//! Computes a block of the `path` scenario: writes of a fixed cost, one after the other or on a schedule.

use super::{BlockRequest, NativeWrite, PACES, Pace, Trace};
use crate::latency::Latency;
use crate::testbed::sim::{COPY_NS, FLUSH_NS, SimTestbed, State, TRANSFER_NS, attribute, times};
use crate::testbed::{BlockError, Until};
use seawall_sys::write_call::WriteCall;

pub(super) fn run(
    sim: &mut SimTestbed,
    request: &BlockRequest,
    until: Until<'_>,
) -> Result<Trace, BlockError> {
    let base_ns = match request.way {
        NativeWrite::Call(WriteCall::SeekWrite) => 1_400,
        NativeWrite::Call(WriteCall::Pwrite | WriteCall::Pwritev2) => 900,
        NativeWrite::Call(WriteCall::Append) => 1_000,
        NativeWrite::Call(WriteCall::Mapped) => 300,
        NativeWrite::Commit(_) => COPY_NS + TRANSFER_NS + FLUSH_NS,
    };
    let id = PACES.iter().find(|(pace, ..)| *pace == request.pace).map_or("", |(_, name, _)| *name);
    let id = format!("{}/{id}", request.way.id());
    writes(&mut sim.state(), &id, base_ns, request.interval_ns, Some(request.pace), until)
}

/// Writes that take `base_ns` each; `pace`: `None`, one after the other.
pub(super) fn writes(
    state: &mut State,
    id: &str,
    base_ns: u64,
    interval_ns: u64,
    pace: Option<Pace>,
    until: Until<'_>,
) -> Result<Trace, BlockError> {
    let scheduled = pace == Some(Pace::Scheduled);
    let interval_ns = if pace.is_some() { interval_ns } else { 0 };
    let start_ns = state.now_ns;
    let mut trace = Trace { response: scheduled.then(Latency::new), ..Trace::default() };
    let mut due_ns = start_ns;
    let mut wait_ns = 0;
    while due_ns < start_ns + until.block_ns {
        let extra = state.extra(id)?;
        let began_ns = due_ns.max(state.now_ns);
        state.now_ns = began_ns + base_ns + state.random.u64(0..=100) + extra.device_ns + extra.wait_ns;
        trace.service.record(state.now_ns - began_ns);
        if let Some(response) = &mut trace.response {
            response.record(state.now_ns - due_ns);
        }
        attribute(&mut trace.tail, state.now_ns - began_ns, extra.wait_ns);
        wait_ns += extra.wait_ns;
        due_ns = if scheduled { due_ns } else { state.now_ns } + interval_ns;
    }
    trace.elapsed_ns = state.now_ns - start_ns;
    trace.times = times(wait_ns, trace.service.count() * base_ns);
    Ok(trace)
}
