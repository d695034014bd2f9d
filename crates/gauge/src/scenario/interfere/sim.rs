//! Computes a block of the `interfere` scenario.
//!
//! ```text
//!   a load: buffered adds 1 ms to every flush, random 200 µs, reads 20 µs
//! ```

use super::{BlockRequest, Load};
use crate::block::Sample;
use crate::testbed::sim::{COPY_NS, FLUSH_NS, SimTestbed, TRANSFER_NS, attribute, times};
use crate::testbed::{Block, BlockError, Until};
use seawall_sys::counters::Counts;

pub(super) fn run(
    sim: &mut SimTestbed,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Block, BlockError> {
    let mut state = sim.state();
    let (load_ns, load_bytes_per_s) = match request.load {
        Load::None => (0, 0),
        Load::Buffered => (1_000_000, 400 << 20),
        Load::RandomDirect => (200_000, 40 << 20),
        Load::Reads => (20_000, 80 << 20),
    };
    let (start_ns, before) = (state.now_ns, state.counts);
    let mut sample = Sample::default();
    let mut wait_ns = 0;
    while state.now_ns < start_ns + until.block_ns {
        let extra = state.extra(request.id)?;
        let began_ns = state.now_ns;
        state.now_ns +=
            COPY_NS + TRANSFER_NS + FLUSH_NS + load_ns + state.jitter() + extra.device_ns + extra.wait_ns;
        state.counts = state.counts.plus(&Counts { writes: 1, sectors: 32, flushes: 1 });
        sample.commits += 1;
        sample.latency.record(state.now_ns - began_ns);
        attribute(&mut sample.tail, state.now_ns - began_ns, extra.wait_ns);
        wait_ns += extra.wait_ns;
    }
    let elapsed_ns = state.now_ns - start_ns;
    sample.elapsed_ns = elapsed_ns;
    sample.times = times(wait_ns, sample.commits * COPY_NS);
    Ok(Block {
        samples: vec![sample],
        elapsed_ns,
        counts: Some(state.counts.since(&before)),
        load_bytes: elapsed_ns / 1_000 * load_bytes_per_s / 1_000_000,
    })
}
