//! Computes a block of the `stall` scenario: appends on a schedule, and the syncs that hold them up.
//!
//! ```text
//!   a sync of a file that is appended to takes 2 ms, and holds up the appends that come meanwhile
//! ```

use super::{Append, Appends, BlockRequest, Span, Syncs, Trace};
use crate::testbed::sim::{COPY_NS, FLUSH_NS, SimTestbed, TRANSFER_NS, attribute, times};
use crate::testbed::{BlockError, Until};
use seawall_sys::counters::Counts;
use seawall_sys::flush::Flush;

/// A sync of a file with dirty pages: they are written first.
const FILE_SYNC_NS: u64 = 2_000_000;

pub(super) fn run(
    sim: &mut SimTestbed,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Trace, BlockError> {
    let mut state = sim.state();
    let (design, interval_ns) = (request.design, request.settings.write_sleep_ns);
    let pause_ns = request.settings.sync_sleep_ns;
    let start_ns = state.now_ns;
    let end_ns = start_ns + until.block_ns;
    let sync_ns = match design.syncs {
        Syncs::Never => None,
        Syncs::SameFile(Flush::Range) => Some(FILE_SYNC_NS / 4),
        Syncs::SameFile(_) | Syncs::OtherSegment => Some(FILE_SYNC_NS),
        Syncs::Log => Some(TRANSFER_NS + FLUSH_NS),
    };
    let blocks = matches!(design.syncs, Syncs::SameFile(_));
    let base_ns = match design.appends {
        Appends::Buffered | Appends::TwoSegments => COPY_NS,
        Appends::WriteThrough => COPY_NS + TRANSFER_NS + FLUSH_NS,
        Appends::Log => COPY_NS / 10,
    };
    let before = state.counts;
    let mut trace = Trace { start_ns, ..Trace::default() };
    let (mut free_ns, mut wait_ns) = (start_ns, 0);
    let mut next_sync_ns = start_ns + pause_ns;
    for nth in 0.. {
        let due_ns = start_ns + nth * interval_ns;
        if due_ns >= end_ns {
            break;
        }
        if free_ns >= end_ns {
            trace.missed += 1;
            continue;
        }
        let began_ns = due_ns.max(free_ns);
        while let Some(sync_ns) = sync_ns.filter(|_| next_sync_ns <= began_ns) {
            trace.syncs.push(Span { start_ns: next_sync_ns, end_ns: next_sync_ns + sync_ns });
            state.counts = state.counts.plus(&Counts { writes: 2, sectors: 32, flushes: 1 });
            next_sync_ns += sync_ns + pause_ns;
        }
        let held_ns = trace.syncs.last().filter(|sync| blocks && sync.end_ns > began_ns);
        let extra = state.extra(design.id)?;
        let done_ns = held_ns.map_or(began_ns, |sync| sync.end_ns)
            + base_ns
            + state.jitter()
            + extra.device_ns
            + extra.wait_ns;
        if design.appends == Appends::WriteThrough {
            state.counts = state.counts.plus(&Counts { writes: 1, sectors: 8, flushes: 1 });
        }
        attribute(&mut trace.tail, done_ns - began_ns, extra.wait_ns);
        wait_ns += extra.wait_ns;
        trace.appends.push(Append { due_ns, start_ns: began_ns, end_ns: done_ns });
        free_ns = done_ns;
    }
    state.now_ns = end_ns.max(free_ns);
    trace.elapsed_ns = state.now_ns - start_ns;
    trace.times = times(wait_ns, trace.appends.len() as u64 * COPY_NS);
    trace.counts = Some(state.counts.since(&before));
    Ok(trace)
}
