//! Simulates scenario blocks event by event on a virtual clock, with exact costs.
//!
//! ```text
//!   copy 2 µs · transfer 20 µs · flush 25 µs, as on the simulated rig; a jitter of 0 to 1 µs from the seed
//!   a sync of a file that is appended to takes 2 ms, and holds up the appends that come meanwhile
//!   writers that share a flush (log): one flush for all that wait; each its own: one after the other
//!   a load: buffered adds 1 ms to every flush, random 200 µs, reads 20 µs
//!   a sync of a cached file: 1 ns of CPU for each cached KiB, if so planted
//!   an engine on three nodes of this machine: 300 µs to send and hear back, 40 µs more for each record behind it; one
//!   that syncs first, a transfer and a flush of each node for all records in flight
//! ```
//!
//! Invariant: the same seed and the same plants give the same nanoseconds.

use super::{Block, Stage, Until};
use crate::latency::Latency;
use crate::measure::Sample;
use crate::result::Tail;
use crate::rig::sim::{Plant, environment};
use crate::scenario::cached::{self, ReadIn, SYNC, WRITE};
use crate::scenario::group::{self, Sharing};
use crate::scenario::interfere::{self, Load};
use crate::scenario::path::{self, Pace, Way};
use crate::scenario::replicated;
use crate::scenario::replicated::promise::{EngineFacts, SyncPolicy};
use crate::scenario::stall::{self, Append, Appends, Span, Syncs};
use crate::study::CallTally;
use seawall_sys::counters::Counts;
use seawall_sys::flush::Flush;
use seawall_sys::inspect::Environment;
use seawall_sys::thread::Times;
use seawall_sys::write_call::WriteCall;
use seawall_sys::{Error, OpenError, Unavailable};
use std::io;

const COPY_NS: u64 = 2_000;
const TRANSFER_NS: u64 = 20_000;
const FLUSH_NS: u64 = 25_000;
const JITTER_NS: u64 = 1_000;
/// From a client to an engine's nodes and back.
const EXCHANGE_NS: u64 = 300_000;
/// What each further record in flight takes.
const NEXT_RECORD_NS: u64 = 40_000;
/// A sync of a file with dirty pages: they are written first.
const FILE_SYNC_NS: u64 = 2_000_000;
/// An operation slower than this is attributed.
const SLOW_NS: u64 = 500_000;

/// A simulated machine for scenarios. Plants name a row by its id.
pub struct SimStage {
    environments: Vec<Environment>,
    now_ns: u64,
    random: fastrand::Rng,
    counts: Counts,
    plants: Vec<Plant>,
    /// Operations so far, row by row.
    done: Vec<(String, u64)>,
    /// CPU time of a sync for each KiB of the file in the cache, nanoseconds.
    cached_ns_per_kib: u64,
    /// The same of a write.
    folio_ns_per_kib: u64,
    /// The replicated engines that can be reached.
    engines: Vec<EngineFacts>,
}

/// What the plants add to an operation.
struct Extra {
    device_ns: u64,
    wait_ns: u64,
}

impl SimStage {
    /// A machine with an honest disk, plus `plants`.
    #[must_use]
    pub fn new(seed: u64, plants: Vec<Plant>) -> Self {
        let mut environment = environment();
        environment.writeback = vec![
            ("dirty_expire_centisecs".to_owned(), "3000".to_owned()),
            ("dirty_writeback_centisecs".to_owned(), "500".to_owned()),
        ];
        Self {
            environments: vec![environment],
            now_ns: 0,
            random: fastrand::Rng::with_seed(seed),
            counts: Counts::default(),
            plants,
            done: Vec::new(),
            cached_ns_per_kib: 0,
            folio_ns_per_kib: 0,
            engines: engines(),
        }
    }

    /// The folders' descriptions, to be changed or added to before a run.
    pub fn environments_mut(&mut self) -> &mut Vec<Environment> {
        &mut self.environments
    }

    /// The engines, to be changed before a run.
    pub fn engines_mut(&mut self) -> &mut Vec<EngineFacts> {
        &mut self.engines
    }

    /// Makes a sync look through the cached pages of its file, as the published system did.
    pub fn search_the_cache(&mut self, ns_per_kib: u64) {
        self.cached_ns_per_kib = ns_per_kib;
    }

    /// Makes a write walk all of the large piece of the cache that it falls into.
    pub fn walk_the_folios(&mut self, ns_per_kib: u64) {
        self.folio_ns_per_kib = ns_per_kib;
    }

    /// Writes that take `base_ns` each; `pace`: `None`, one after the other.
    fn writes(
        &mut self,
        id: &str,
        base_ns: u64,
        interval_ns: u64,
        pace: Option<Pace>,
        until: Until<'_>,
    ) -> Result<path::Trace, OpenError> {
        let scheduled = pace == Some(Pace::Scheduled);
        let interval_ns = if pace.is_some() { interval_ns } else { 0 };
        let start_ns = self.now_ns;
        let mut trace = path::Trace { response: scheduled.then(Latency::new), ..path::Trace::default() };
        let mut due_ns = start_ns;
        let mut wait_ns = 0;
        while due_ns < start_ns + until.block_ns {
            let extra = self.extra(id)?;
            let began_ns = due_ns.max(self.now_ns);
            self.now_ns = began_ns + base_ns + self.random.u64(0..=100) + extra.device_ns + extra.wait_ns;
            trace.service.record(self.now_ns - began_ns);
            if let Some(response) = &mut trace.response {
                response.record(self.now_ns - due_ns);
            }
            attribute(&mut trace.tail, self.now_ns - began_ns, extra.wait_ns);
            wait_ns += extra.wait_ns;
            due_ns = if scheduled { due_ns } else { self.now_ns } + interval_ns;
        }
        trace.elapsed_ns = self.now_ns - start_ns;
        trace.times = times(wait_ns, trace.service.count() * base_ns);
        Ok(trace)
    }

    fn jitter(&mut self) -> u64 {
        self.random.u64(0..=JITTER_NS)
    }

    /// What the plants do to the next operation of row `id`.
    fn extra(&mut self, id: &str) -> Result<Extra, OpenError> {
        let at = self.done.iter().position(|(known, _)| known == id).unwrap_or_else(|| {
            self.done.push((id.to_owned(), 0));
            self.done.len() - 1
        });
        self.done[at].1 += 1;
        let nth = self.done[at].1;
        let mut extra = Extra { device_ns: 0, wait_ns: 0 };
        for plant in &self.plants {
            match *plant {
                Plant::Stall { method, every, ns } if method == id && nth.is_multiple_of(every) => {
                    extra.device_ns += ns;
                }
                Plant::CpuWait { method, every, ns } if method == id && nth.is_multiple_of(every) => {
                    extra.wait_ns += ns;
                }
                Plant::Fails { method, after } if method == id && nth > after => {
                    return Err(Error::new("fsync", "journal", io::Error::other("planted failure")).into());
                }
                Plant::Missing { method, reason } if method == id => {
                    return Err(OpenError::Unavailable(Unavailable(reason.to_owned())));
                }
                _ => {}
            }
        }
        Ok(extra)
    }
}

/// Two engines, each as it comes and told to sync first.
fn engines() -> Vec<EngineFacts> {
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

/// Notes a slow operation down.
fn attribute(tail: &mut Tail, latency_ns: u64, wait_ns: u64) {
    if latency_ns > SLOW_NS {
        *tail = tail.plus(&Tail { commits: 1, latency_ns, wait_ns });
    }
}

fn times(wait_ns: u64, cpu_ns: u64) -> Times {
    Times { system_ns: cpu_ns, wait_ns: Some(wait_ns), ..Times::default() }
}

impl Stage for SimStage {
    fn places(&self) -> usize {
        self.environments.len()
    }

    fn environment(&self, place: usize) -> &Environment {
        &self.environments[place]
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn unix_seconds(&self) -> u64 {
        1_700_000_000
    }

    fn idle(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.counts)
    }

    fn available_memory_bytes(&self) -> Option<u64> {
        Some(4 << 30)
    }

    fn stall(&mut self, order: &stall::Order<'_>, until: Until<'_>) -> Result<stall::Trace, OpenError> {
        let (design, interval_ns) = (order.design, order.settings.write_sleep_ns);
        let pause_ns = order.settings.sync_sleep_ns;
        let start_ns = self.now_ns;
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
        let before = self.counts;
        let mut trace = stall::Trace { start_ns, ..stall::Trace::default() };
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
                self.counts = self.counts.plus(&Counts { writes: 2, sectors: 32, flushes: 1 });
                next_sync_ns += sync_ns + pause_ns;
            }
            let held_ns = trace.syncs.last().filter(|sync| blocks && sync.end_ns > began_ns);
            let extra = self.extra(design.id)?;
            let done_ns = held_ns.map_or(began_ns, |sync| sync.end_ns)
                + base_ns
                + self.jitter()
                + extra.device_ns
                + extra.wait_ns;
            if design.appends == Appends::WriteThrough {
                self.counts = self.counts.plus(&Counts { writes: 1, sectors: 8, flushes: 1 });
            }
            attribute(&mut trace.tail, done_ns - began_ns, extra.wait_ns);
            wait_ns += extra.wait_ns;
            trace.appends.push(Append { due_ns, start_ns: began_ns, end_ns: done_ns });
            free_ns = done_ns;
        }
        self.now_ns = end_ns.max(free_ns);
        trace.elapsed_ns = self.now_ns - start_ns;
        trace.times = times(wait_ns, trace.appends.len() as u64 * COPY_NS);
        trace.counts = Some(self.counts.since(&before));
        Ok(trace)
    }

    fn group(&mut self, order: &group::Order<'_>, until: Until<'_>) -> Result<Block, OpenError> {
        let id = match order.sharing {
            Sharing::File => format!("shared-{}", order.writers),
            Sharing::Nothing => format!("own-{}", order.writers),
            Sharing::Log => format!("log-{}", order.writers),
        };
        let (start_ns, before) = (self.now_ns, self.counts);
        let mut samples: Vec<Sample> = (0..order.writers).map(|_| Sample::default()).collect();
        let mut waits = vec![0; order.writers];
        // When each writer asked for its present commit.
        let mut asked = vec![start_ns; order.writers];
        while self.now_ns < start_ns + until.block_ns {
            // The log serves all that wait, the others one at a time, longest waiting first.
            let served: Vec<usize> = match order.sharing {
                Sharing::Log => (0..order.writers).collect(),
                Sharing::File | Sharing::Nothing => {
                    (0..order.writers).min_by_key(|writer| asked[*writer]).into_iter().collect()
                }
            };
            let extra = self.extra(&id)?;
            let copied_ns = COPY_NS * served.len() as u64;
            self.now_ns +=
                copied_ns + TRANSFER_NS + FLUSH_NS + self.jitter() + extra.device_ns + extra.wait_ns;
            self.counts =
                self.counts.plus(&Counts { writes: 1, sectors: 8 * served.len() as u64, flushes: 1 });
            for writer in served {
                let latency_ns = self.now_ns - asked[writer];
                samples[writer].commits += 1;
                samples[writer].latency.record(latency_ns);
                attribute(&mut samples[writer].tail, latency_ns, extra.wait_ns);
                waits[writer] += extra.wait_ns;
                asked[writer] = self.now_ns;
            }
        }
        for (sample, wait_ns) in samples.iter_mut().zip(waits) {
            sample.times = times(wait_ns, sample.commits * COPY_NS);
            sample.elapsed_ns = self.now_ns - start_ns;
        }
        Ok(Block {
            samples,
            start_ns,
            elapsed_ns: self.now_ns - start_ns,
            counts: Some(self.counts.since(&before)),
            load_bytes: 0,
        })
    }

    fn interfere(&mut self, order: &interfere::Order<'_>, until: Until<'_>) -> Result<Block, OpenError> {
        let (load_ns, load_bytes_per_s) = match order.load {
            Load::None => (0, 0),
            Load::Buffered => (1_000_000, 400 << 20),
            Load::RandomDirect => (200_000, 40 << 20),
            Load::Reads => (20_000, 80 << 20),
        };
        let (start_ns, before) = (self.now_ns, self.counts);
        let mut sample = Sample::default();
        let mut wait_ns = 0;
        while self.now_ns < start_ns + until.block_ns {
            let extra = self.extra(order.id)?;
            let began_ns = self.now_ns;
            self.now_ns +=
                COPY_NS + TRANSFER_NS + FLUSH_NS + load_ns + self.jitter() + extra.device_ns + extra.wait_ns;
            self.counts = self.counts.plus(&Counts { writes: 1, sectors: 32, flushes: 1 });
            sample.commits += 1;
            sample.latency.record(self.now_ns - began_ns);
            attribute(&mut sample.tail, self.now_ns - began_ns, extra.wait_ns);
            wait_ns += extra.wait_ns;
        }
        let elapsed_ns = self.now_ns - start_ns;
        sample.elapsed_ns = elapsed_ns;
        sample.times = times(wait_ns, sample.commits * COPY_NS);
        Ok(Block {
            samples: vec![sample],
            start_ns,
            elapsed_ns,
            counts: Some(self.counts.since(&before)),
            load_bytes: elapsed_ns / 1_000 * load_bytes_per_s / 1_000_000,
        })
    }

    fn path(&mut self, order: &path::Order, until: Until<'_>) -> Result<path::Trace, OpenError> {
        let base_ns = match order.way {
            Way::Call(WriteCall::SeekWrite) => 1_400,
            Way::Call(WriteCall::Pwrite | WriteCall::Pwritev2) => 900,
            Way::Call(WriteCall::Append) => 1_000,
            Way::Call(WriteCall::Mapped) => 300,
            Way::Commit(_) => COPY_NS + TRANSFER_NS + FLUSH_NS,
        };
        let id = path::PACES.iter().find(|(pace, ..)| *pace == order.pace).map_or("", |(_, name, _)| *name);
        let id = format!("{}/{id}", order.way.id());
        self.writes(&id, base_ns, order.interval_ns, Some(order.pace), until)
    }

    fn path_on_jvm(
        &mut self,
        order: &path::jvm::Order<'_>,
        until: Until<'_>,
    ) -> Result<path::Trace, OpenError> {
        let memory = WriteCall::ALL.iter().any(|call| call.id() == order.row.like);
        let base_ns = if memory { 1_300 } else { COPY_NS + TRANSFER_NS + FLUSH_NS + 400 };
        let pace = order.pace.and_then(|pace| path::PACES.iter().find(|(one, ..)| *one == pace));
        let id = format!("{}/{}", order.row.id, pace.map_or("", |(_, name, _)| *name));
        let before = self.counts;
        let mut trace = self.writes(&id, base_ns, order.interval_ns, order.pace, until)?;
        if !memory {
            let writes = trace.service.count();
            self.counts =
                self.counts.plus(&Counts { writes: 2 * writes, sectors: 9 * writes, flushes: writes });
        }
        trace.counts = Some(self.counts.since(&before));
        trace.allocated_bytes =
            Some(if order.row.allocates_nothing { 0 } else { 40 * trace.service.count() });
        if order.pace == Some(Pace::Closed) {
            let mut roll = Latency::new();
            (0..trace.service.count() / 256).for_each(|_| roll.record(30_000));
            trace.roll = Some(roll);
        }
        Ok(trace)
    }

    fn cached(&mut self, order: &cached::Order, until: Until<'_>) -> Result<cached::Trace, OpenError> {
        let cached_bytes = match order.read_in {
            ReadIn::Nothing | ReadIn::Around => 0,
            ReadIn::Through(percent) => order.file_bytes / 100 * percent,
        };
        self.now_ns += order.file_bytes / 4;
        let (start_ns, before) = (self.now_ns, self.counts);
        let mut trace = cached::Trace { cached_bytes: Some(cached_bytes), ..cached::Trace::default() };
        let search_ns = cached_bytes / 1024 * self.cached_ns_per_kib;
        let write_ns = COPY_NS + cached_bytes / 1024 * self.folio_ns_per_kib;
        let costs = [("lseek", 300, 300), ("read", 60_000, 4_000), (WRITE, write_ns, write_ns)];
        let mut calls: Vec<CallTally> = costs
            .iter()
            .map(|(call, ..)| CallTally { call: (*call).to_owned(), cpu_ns: Some(0), ..CallTally::default() })
            .collect();
        calls.push(CallTally { call: SYNC.to_owned(), cpu_ns: Some(0), ..CallTally::default() });
        for _ in 0..order.rewrites {
            if until.stop.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
            let sync_ns = TRANSFER_NS + FLUSH_NS + self.jitter() + search_ns;
            let all = costs.map(|(_, wall_ns, cpu_ns)| (wall_ns, cpu_ns));
            for (tally, (wall_ns, cpu_ns)) in
                calls.iter_mut().zip(all.into_iter().chain([(sync_ns, 5_000 + search_ns)]))
            {
                tally.calls += 1;
                tally.wall_ns += wall_ns;
                tally.cpu_ns = tally.cpu_ns.map(|sum| sum + cpu_ns);
                self.now_ns += wall_ns;
            }
            trace.sync.record(sync_ns);
            self.counts = self.counts.plus(&Counts { writes: 2, sectors: 16, flushes: 1 });
        }
        trace.elapsed_ns = self.now_ns - start_ns;
        trace.times = times(0, calls.iter().filter_map(|call| call.cpu_ns).sum());
        trace.calls = calls;
        trace.counts = Some(self.counts.since(&before));
        Ok(trace)
    }

    fn engines(&self) -> Vec<EngineFacts> {
        self.engines.clone()
    }

    fn replicated(&mut self, order: &replicated::Order<'_>, until: Until<'_>) -> Result<Block, OpenError> {
        let facts = self.engines[order.engine].clone();
        let synced = facts.policy == SyncPolicy::Before;
        let nodes = facts.copies as u64;
        let (start_ns, before) = (self.now_ns, self.counts);
        let mut sample = Sample::default();
        while self.now_ns < start_ns + until.block_ns {
            let extra = self.extra(order.id)?;
            let sync_ns = if synced { TRANSFER_NS + FLUSH_NS } else { 0 };
            let sent_ns = self.now_ns;
            self.now_ns += EXCHANGE_NS + sync_ns + self.jitter() + extra.device_ns + extra.wait_ns;
            for _ in 0..order.in_flight {
                sample.commits += 1;
                sample.latency.record(self.now_ns - sent_ns);
                self.now_ns += NEXT_RECORD_NS;
            }
            let flushes = if synced { nodes } else { 0 };
            self.counts = self.counts.plus(&Counts { writes: nodes, sectors: 8 * nodes, flushes });
        }
        sample.elapsed_ns = self.now_ns - start_ns;
        Ok(Block {
            samples: vec![sample],
            start_ns,
            elapsed_ns: self.now_ns - start_ns,
            counts: facts.on_this_machine.then(|| self.counts.since(&before)),
            load_bytes: 0,
        })
    }
}
