//! Measures a Seawall log that is shipped to a cluster while it commits: rows of `replicated` beside those of the engine's own client.
//!
//! ```text
//!   block     append ─► synced here ─► shipped ─► acknowledged there: a commit
//!   within    append ─► synced here, and no more is at risk than the bound allows: a commit; shipped meanwhile
//!   behind    append ─► synced here: a commit; shipped and acknowledged meanwhile
//! ```
//!
//! The policy that fails after a time waits as `block` does until then: it has no row.
//!
//! One thread keeps the commits in flight that the row asks for; each is timed from its append. What a block leaves in flight is
//! acknowledged within a second, or goes with its stream, before the next block begins, in nobody's time.
//!
//! Invariants: the log and its stream are of this run alone; [`EngineClient::close`] removes both.

use crate::client::unique_name;
use crate::{Named, Result};
use seawall::{CommitFuture, Durability, Lsn, Options, Retention};
use seawall_gauge::block::Sample;
use seawall_gauge::scenario::replicated::promise::{EngineFacts, SyncPolicy};
use seawall_gauge::scenario::replicated::{BlockRequest, EngineClient, EngineError};
use seawall_gauge::testbed::Until;
use seawall_host::thread::Accounts;
use seawall_ship::address::{self, Opening};
use seawall_ship::shipping::{Settings, Shipping};
use seawall_ship::{Error, Facts, ShippedLog};
use seawall_sys::buffer::Aligned;
use seawall_sys::clock::monotonic_ns;
use seawall_sys::scratch::Scratch;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A stream that holds more is replaced before the next block: it forgets nothing by itself.
const STREAM_BYTES: u64 = 256 << 20;
/// How often a wait looks whether the run was stopped.
const LOOK: Duration = Duration::from_millis(200);
/// How long is waited for what a block left in flight: a cluster that is slower than this disk would take the time of the next blocks.
const LEFT: Duration = Duration::from_secs(1);

struct Engine {
    name: &'static str,
    /// The address of a cluster as it was named.
    address: fn(&str) -> String,
    named: fn(&Named) -> &[String],
    /// Removes a stream of this run from the cluster.
    remove: fn(&str, &Opening, &str) -> Result<()>,
}

const ENGINES: &[Engine] = &[
    #[cfg(feature = "kafka")]
    Engine {
        name: "kafka",
        address: |cluster| format!("kafka://{cluster}"),
        named: |named| &named.kafka,
        remove: |cluster, opening, topic| {
            crate::kafka::remove_topic(cluster, opening.kafka_config.as_deref(), topic)
        },
    },
    #[cfg(feature = "nats")]
    Engine {
        name: "nats",
        address: |cluster| {
            if cluster.contains("://") { cluster.to_owned() } else { format!("nats://{cluster}") }
        },
        named: |named| &named.nats,
        remove: |cluster, opening, stream| {
            crate::nats::remove_stream(cluster, opening.plain_password, stream)
        },
    },
];

/// The bound of the row `within`: records at risk, and how long the oldest of them may be.
const BOUND: (u64, Duration) = (1000, Duration::from_secs(1));

#[derive(Clone, Copy, Debug, PartialEq)]
enum For {
    Acknowledged,
    Bound,
    Nothing,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    name: &'static str,
    waits: For,
    title: &'static str,
}

const WAITS: [Wait; 3] = [
    Wait { name: "block", waits: For::Acknowledged, title: "each commit waits for it" },
    Wait {
        name: "within",
        waits: For::Bound,
        title: "commits go on while at most 1,000 records or 1 s are at risk",
    },
    Wait { name: "behind", waits: For::Nothing, title: "commits do not wait for it" },
];

/// A log, and the stream it is shipped to.
struct Open {
    log: ShippedLog,
    stream: String,
    begin: Lsn,
}

struct ShippedEngine {
    engine: &'static Engine,
    /// As it was named.
    cluster: String,
    opening: Opening,
    ack_timeout: Duration,
    wait: Wait,
    facts: EngineFacts,
    scratch: Scratch,
    open: Option<Open>,
}

/// Adds a log in `folder` for each cluster of `named` and each row of the table.
pub(crate) fn connect(
    named: &Named,
    folder: &Path,
    engines: &mut Vec<Box<dyn EngineClient>>,
) -> Result<(), EngineError> {
    for engine in ENGINES {
        for (number, cluster) in (engine.named)(named).iter().enumerate() {
            for wait in WAITS {
                let opening = Opening {
                    create: true,
                    monitors: named.nats_monitors.clone(),
                    kafka_config: named.kafka_config.clone(),
                    plain_password: named.nats_plain_password,
                    ..Opening::default()
                };
                let mut shipped = ShippedEngine {
                    engine,
                    cluster: cluster.clone(),
                    opening,
                    ack_timeout: named.ack_timeout,
                    wait,
                    facts: unnamed(),
                    scratch: Scratch::new_in(folder)?,
                    open: None,
                };
                let of = shipped.renew()?.log.ships()[0].facts().clone();
                shipped.facts = facts(&of, shipped.opening.replicas, wait);
                let number = if number == 0 { String::new() } else { format!("-{}", number + 1) };
                shipped.facts.id = format!("ship-{}{number}/{}", engine.name, wait.name);
                engines.push(Box::new(shipped));
            }
        }
    }
    Ok(())
}

fn unnamed() -> EngineFacts {
    EngineFacts {
        id: String::new(),
        name: String::new(),
        version: None,
        copies: 1,
        acknowledged_by: 1,
        laggard_may_lead: false,
        policy: SyncPolicy::Before,
        setting: String::new(),
        read_from: "the log's own promise".to_owned(),
        on_this_machine: false,
    }
}

/// What a commit outlives: the log's own sync is before it in any case, the other copies only where it waits for them.
fn facts(of: &Facts, replicas: usize, wait: Wait) -> EngineFacts {
    let copies = if wait.waits == For::Acknowledged { (replicas, of.acknowledged_by) } else { (1, 1) };
    EngineFacts {
        name: format!("Seawall log shipped to {}: {}", of.name, wait.title),
        copies: copies.0,
        acknowledged_by: copies.1,
        laggard_may_lead: of.laggard_may_lead,
        setting: "synced here first".to_owned(),
        on_this_machine: of.on_this_machine,
        ..unnamed()
    }
}

impl ShippedEngine {
    fn log_folder(&self, stream: &str) -> PathBuf {
        self.scratch.path().join(stream)
    }

    /// The log and its stream; new ones if there are none, or if the stream has become too large.
    fn renew(&mut self) -> Result<&Open, EngineError> {
        let full = |open: &Open| open.log.log().appended_lsn().get() - open.begin.get() > STREAM_BYTES;
        if self.open.as_ref().is_none_or(full) {
            self.discard()?;
            let stream = unique_name("shipped");
            let address = format!("{}/{stream}", (self.engine.address)(&self.cluster));
            let destination = address::open(&address, &self.opening)?;
            let folder = self.log_folder(&stream);
            let retention = Retention::default().bytes(STREAM_BYTES);
            let log = ShippedLog::open(
                &folder,
                Options::default().retention(retention),
                Durability::PowerLoss,
                vec![destination.destination],
                Settings::default(),
            );
            let log = match log {
                Ok(log) => log,
                Err(error) => {
                    self.remove(&stream)?;
                    return Err(error.into());
                }
            };
            let begin = log.log().appended_lsn();
            self.open = Some(Open { log, stream, begin });
        }
        self.open.as_ref().ok_or_else(|| "its log is not open".into())
    }

    fn discard(&mut self) -> Result<(), EngineError> {
        let Some(Open { log, stream, .. }) = self.open.take() else { return Ok(()) };
        // What is not shipped yet is not needed: the stream goes.
        let closed = match log.close(Some(Duration::ZERO)) {
            Err(Error::TimedOut { .. }) => Ok(()),
            closed => closed,
        };
        self.remove(&stream)?;
        Ok(closed?)
    }

    fn remove(&self, stream: &str) -> Result<(), EngineError> {
        let folder = self.log_folder(stream);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        Ok((self.engine.remove)(&self.cluster, &self.opening, stream)?)
    }

    /// Waits for what a commit up to `lsn`, which is synced here, waits for; false if the run was stopped before.
    fn wait(&self, ship: &Shipping, lsn: Lsn, waits: For, until: Until<'_>) -> Result<bool, EngineError> {
        let begun_ns = monotonic_ns();
        loop {
            let waited = match waits {
                For::Acknowledged => ship.wait(lsn, Some(LOOK)),
                For::Bound => ship.wait_within(lsn, BOUND.0, BOUND.1, Some(LOOK)),
                For::Nothing => Ok(()),
            };
            match waited {
                Ok(()) => return Ok(true),
                Err(Error::TimedOut { .. }) if until.stop.load(Ordering::Relaxed) => return Ok(false),
                Err(Error::TimedOut { .. }) => {
                    if Duration::from_nanos(monotonic_ns() - begun_ns) > self.ack_timeout {
                        let waited = humantime::format_duration(self.ack_timeout);
                        let why = ship.failing().unwrap_or_else(|| "no reason given".to_owned());
                        return Err(format!("a batch was not acknowledged within {waited}: {why}").into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl EngineClient for ShippedEngine {
    fn facts(&self) -> &EngineFacts {
        &self.facts
    }

    fn run(&mut self, request: &BlockRequest<'_>, until: Until<'_>) -> Result<Sample, EngineError> {
        self.renew()?;
        let open = self.open.as_ref().ok_or("its log is not open")?;
        let (log, ship) = (open.log.log(), &open.log.ships()[0]);
        let payload = Aligned::incompressible(request.settings.bytes, request.settings.seed);
        let accounts = Accounts::open();
        let mut sample = Sample::default();
        let mut flying: VecDeque<(u64, Lsn, CommitFuture)> = VecDeque::with_capacity(request.in_flight);
        let times = accounts.times();
        let start_ns = monotonic_ns();
        let end_ns = start_ns.saturating_add(until.block_ns);
        let mut done_ns = start_ns;
        loop {
            let sending = done_ns < end_ns && !until.stop.load(Ordering::Relaxed);
            while sending && flying.len() < request.in_flight {
                let sent_ns = monotonic_ns();
                let lsn = log.append(payload.as_slice())?.end;
                flying.push_back((sent_ns, lsn, log.commit_async(lsn)));
            }
            let Some((sent_ns, lsn, commit)) = flying.pop_front() else { break };
            // What is acknowledged there was synced here before.
            if self.wait.waits != For::Acknowledged {
                commit.wait()?;
            }
            if !self.wait(ship, lsn, self.wait.waits, until)? {
                break;
            }
            done_ns = monotonic_ns();
            sample.commits += 1;
            sample.latency.record(done_ns - sent_ns);
        }
        sample.elapsed_ns = done_ns - start_ns;
        sample.times = accounts.times().since(&times);
        drop(flying);
        log.commit(log.appended_lsn())?;
        match ship.wait(log.durable_lsn(), Some(LEFT)) {
            Err(Error::TimedOut { .. }) => self.discard()?,
            left => left?,
        }
        Ok(sample)
    }

    fn close(&mut self) -> Result<(), EngineError> {
        self.discard()
    }
}

impl Drop for ShippedEngine {
    fn drop(&mut self) {
        // A caller that reports what was left behind has called it before.
        let _ = self.discard();
    }
}

#[cfg(test)]
mod tests {
    use super::{BOUND, For, WAITS, facts};
    use seawall_gauge::scenario::replicated::promise::{Outlived, outlives};
    use seawall_ship::{Facts, Synced};
    use std::time::Duration;

    #[test]
    fn the_bound_is_the_one_that_is_told() {
        let told = WAITS.into_iter().filter(|wait| wait.waits == For::Bound);
        let told: Vec<&str> = told.map(|wait| wait.title).collect();
        assert_eq!(told, ["commits go on while at most 1,000 records or 1 s are at risk"]);
        assert_eq!(BOUND, (1000, Duration::from_secs(1)));
    }

    #[test]
    fn a_commit_that_waits_outlives_a_machine_and_one_that_does_not_only_power_cuts() {
        let of = Facts {
            name: "NATS JetStream, 3 replicas".to_owned(),
            acknowledged_by: 2,
            laggard_may_lead: false,
            synced: Synced::After,
            setting: String::new(),
            on_this_machine: false,
            elsewhere: false,
            keeps_copies: false,
            message_bytes_max: 1 << 20,
            in_flight_max: 64,
            gather_bytes: 0,
            reports: Vec::new(),
        };
        for wait in WAITS {
            let outlived = outlives(&facts(&of, 3, wait));
            let waits = wait.waits == For::Acknowledged;
            assert_eq!(outlived.machine, if waits { Outlived::Yes } else { Outlived::No }, "{wait:?}");
            assert_eq!(outlived.power_cut, Outlived::Yes, "{wait:?}");
        }
    }
}
