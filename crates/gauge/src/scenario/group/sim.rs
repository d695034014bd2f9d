//! Computes a block of the `group` scenario.
//!
//! ```text
//!   writers that share a flush (log): one flush for all that wait; each its own: one after the other
//! ```

use super::{BlockRequest, Sharing};
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
    let id = match request.sharing {
        Sharing::File => format!("shared-{}", request.writers),
        Sharing::Nothing => format!("own-{}", request.writers),
        Sharing::Log => format!("log-{}", request.writers),
    };
    let (start_ns, before) = (state.now_ns, state.counts);
    let mut samples: Vec<Sample> = (0..request.writers).map(|_| Sample::default()).collect();
    let mut waits = vec![0; request.writers];
    // When each writer began its present commit.
    let mut began_ns = vec![start_ns; request.writers];
    while state.now_ns < start_ns + until.block_ns {
        // The log serves all that wait, the others one at a time, longest waiting first.
        let served: Vec<usize> = match request.sharing {
            Sharing::Log => (0..request.writers).collect(),
            Sharing::File | Sharing::Nothing => {
                (0..request.writers).min_by_key(|writer| began_ns[*writer]).into_iter().collect()
            }
        };
        let extra = state.extra(&id)?;
        let copied_ns = COPY_NS * served.len() as u64;
        state.now_ns += copied_ns + TRANSFER_NS + FLUSH_NS + state.jitter() + extra.device_ns + extra.wait_ns;
        state.counts = state.counts.plus(&Counts { writes: 1, sectors: 8 * served.len() as u64, flushes: 1 });
        for writer in served {
            let latency_ns = state.now_ns - began_ns[writer];
            samples[writer].commits += 1;
            samples[writer].latency.record(latency_ns);
            attribute(&mut samples[writer].tail, latency_ns, extra.wait_ns);
            waits[writer] += extra.wait_ns;
            began_ns[writer] = state.now_ns;
        }
    }
    for (sample, wait_ns) in samples.iter_mut().zip(waits) {
        sample.times = times(wait_ns, sample.commits * COPY_NS);
        sample.elapsed_ns = state.now_ns - start_ns;
    }
    Ok(Block {
        samples,
        elapsed_ns: state.now_ns - start_ns,
        counts: Some(state.counts.since(&before)),
        load_bytes: 0,
    })
}
