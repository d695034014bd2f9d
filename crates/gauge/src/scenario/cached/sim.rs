//! Computes a block of the `cached` scenario, in which calls cost what is planted for each cached KiB.

use super::{BlockRequest, ReadIn, SYNC, Trace, WRITE};
use crate::row::CallTally;
use crate::testbed::Until;
use crate::testbed::sim::{COPY_NS, FLUSH_NS, SimTestbed, TRANSFER_NS, times};
use seawall_sys::counters::Counts;

pub(super) fn run(sim: &mut SimTestbed, request: &BlockRequest, until: Until<'_>) -> Trace {
    let mut state = sim.state();
    let [search_ns_per_kib, folio_ns_per_kib] = state.cache_walks();
    let cached_bytes = match request.read_in {
        ReadIn::Nothing | ReadIn::Around => 0,
        ReadIn::Through(percent) => request.file_bytes / 100 * percent,
    };
    state.now_ns += request.file_bytes / 4;
    let (start_ns, before) = (state.now_ns, state.counts);
    let mut trace = Trace { cached_bytes: Some(cached_bytes), ..Trace::default() };
    let search_ns = cached_bytes / 1024 * search_ns_per_kib;
    let write_ns = COPY_NS + cached_bytes / 1024 * folio_ns_per_kib;
    let costs = [("lseek", 300, 300), ("read", 60_000, 4_000), (WRITE, write_ns, write_ns)];
    let mut calls: Vec<CallTally> = costs
        .iter()
        .map(|(call, ..)| CallTally { call: (*call).to_owned(), cpu_ns: Some(0), ..CallTally::default() })
        .collect();
    calls.push(CallTally { call: SYNC.to_owned(), cpu_ns: Some(0), ..CallTally::default() });
    for _ in 0..request.rewrites {
        if until.stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
        let sync_ns = TRANSFER_NS + FLUSH_NS + state.jitter() + search_ns;
        let all = costs.map(|(_, wall_ns, cpu_ns)| (wall_ns, cpu_ns));
        for (tally, (wall_ns, cpu_ns)) in
            calls.iter_mut().zip(all.into_iter().chain([(sync_ns, 5_000 + search_ns)]))
        {
            tally.calls += 1;
            tally.wall_ns += wall_ns;
            tally.cpu_ns = tally.cpu_ns.map(|sum| sum + cpu_ns);
            state.now_ns += wall_ns;
        }
        trace.sync.record(sync_ns);
        state.counts = state.counts.plus(&Counts { writes: 2, sectors: 16, flushes: 1 });
    }
    trace.elapsed_ns = state.now_ns - start_ns;
    trace.times = times(0, calls.iter().filter_map(|call| call.cpu_ns).sum());
    trace.calls = calls;
    trace.counts = Some(state.counts.since(&before));
    trace
}
