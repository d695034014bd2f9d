//! Computes a block of the `group` scenario.
//!
//! ```text
//!   writers that share a flush (log): one flush for all that wait; each its own: one after the other
//! ```

use super::{BlockRequest, Sharing};
use crate::block::Sample;
use crate::testbed::sim::{COPY_NS, FLUSH_NS, SimTestbed, State, TRANSFER_NS, attribute, times};
use crate::testbed::{Block, BlockError, Until};
use seawall_sys::counters::Counts;

pub(super) fn run(
    sim: &mut SimTestbed,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Block, BlockError> {
    let id = match request.sharing {
        Sharing::File => format!("shared-{}", request.writers),
        Sharing::Nothing => format!("own-{}", request.writers),
        Sharing::Log => format!("log-{}", request.writers),
    };
    commits(&mut sim.state(), &id, (request.writers, request.sharing == Sharing::Log), (8, 0), until)
}

/// Commits of `sectors` each by so many writers, which share a flush if they wait `together`; each takes `load_ns` longer
/// because of what else the disk does.
pub(in crate::scenario) fn commits(
    state: &mut State,
    id: &str,
    (writers, together): (usize, bool),
    (sectors, load_ns): (u64, u64),
    until: Until<'_>,
) -> Result<Block, BlockError> {
    let (start_ns, before) = (state.now_ns, state.counts);
    let mut samples: Vec<Sample> = (0..writers).map(|_| Sample::default()).collect();
    let mut waits = vec![0; writers];
    // When each writer began its present commit.
    let mut began_ns = vec![start_ns; writers];
    while state.now_ns < start_ns + until.block_ns {
        // The log serves all that wait, the others one at a time, longest waiting first.
        let served: Vec<usize> = if together {
            (0..writers).collect()
        } else {
            (0..writers).min_by_key(|writer| began_ns[*writer]).into_iter().collect()
        };
        let extra = state.extra(id)?;
        let copied_ns = COPY_NS * served.len() as u64;
        let disk_ns = TRANSFER_NS + FLUSH_NS + load_ns + state.jitter() + extra.device_ns;
        state.now_ns += copied_ns + disk_ns + extra.wait_ns;
        let sectors = sectors * served.len() as u64;
        state.counts = state.counts.plus(&Counts { writes: 1, sectors, flushes: 1 });
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
