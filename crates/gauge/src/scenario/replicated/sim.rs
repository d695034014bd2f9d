//! Computes a block of the `replicated` scenario.
//!
//! ```text
//!   an engine on three nodes of this machine: 300 µs to send and hear back, 40 µs more for each record behind it; one
//!   that syncs first, a transfer and a flush of each node for all records in flight
//! ```

use super::BlockRequest;
use super::promise::{EngineFacts, SyncPolicy};
use crate::block::Sample;
use crate::testbed::sim::{FLUSH_NS, SimTestbed, TRANSFER_NS};
use crate::testbed::{Block, BlockError, Until};
use seawall_sys::counters::Counts;

/// From a client to an engine's nodes and back.
const EXCHANGE_NS: u64 = 300_000;
/// What each further record in flight takes.
const NEXT_RECORD_NS: u64 = 40_000;

pub(super) fn run(
    sim: &mut SimTestbed,
    facts: &EngineFacts,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Block, BlockError> {
    let mut state = sim.state();
    let synced = facts.policy == SyncPolicy::Before;
    let nodes = facts.copies as u64;
    let (start_ns, before) = (state.now_ns, state.counts);
    let mut sample = Sample::default();
    while state.now_ns < start_ns + until.block_ns {
        let extra = state.extra(request.id)?;
        let sync_ns = if synced { TRANSFER_NS + FLUSH_NS } else { 0 };
        let sent_ns = state.now_ns;
        state.now_ns += EXCHANGE_NS + sync_ns + state.jitter() + extra.device_ns + extra.wait_ns;
        for _ in 0..request.in_flight {
            sample.commits += 1;
            sample.latency.record(state.now_ns - sent_ns);
            state.now_ns += NEXT_RECORD_NS;
        }
        let flushes = if synced { nodes } else { 0 };
        state.counts = state.counts.plus(&Counts { writes: nodes, sectors: 8 * nodes, flushes });
    }
    sample.elapsed_ns = state.now_ns - start_ns;
    Ok(Block {
        samples: vec![sample],
        elapsed_ns: state.now_ns - start_ns,
        counts: facts.on_this_machine.then(|| state.counts.since(&before)),
        load_bytes: 0,
    })
}

/// Two engines, each with its default and with a sync before each acknowledgement.
pub(super) fn engines() -> Vec<EngineFacts> {
    let rows = [
        ("kafka/default", "Kafka, acks=all, 2 of 3 copies", SyncPolicy::After, "flush.messages never"),
        ("kafka/flush-1", "Kafka, acks=all, 2 of 3 copies", SyncPolicy::Before, "flush.messages=1"),
        ("nats/2m", "NATS JetStream, 3 replicas", SyncPolicy::After, "sync_interval: 2m"),
        ("nats/always", "NATS JetStream, 3 replicas", SyncPolicy::Before, "sync_interval: always"),
    ];
    let facts = |(id, name, policy, setting): (&str, &str, SyncPolicy, &str)| EngineFacts {
        id: id.to_owned(),
        name: name.to_owned(),
        version: Some("9.9.9".to_owned()),
        copies: 3,
        acknowledged_by: 2,
        laggard_may_lead: false,
        policy,
        setting: setting.to_owned(),
        read_from: "the simulation".to_owned(),
        on_this_machine: true,
    };
    rows.map(facts).to_vec()
}
