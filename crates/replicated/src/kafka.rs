//! Measures Apache Kafka: a topic of its own with one partition and three copies, through librdkafka.
//!
//! ```text
//!   produce, acks=all ─▶ leader ─▶ every copy in sync (at least min.insync.replicas=2) ─▶ acknowledgement
//!                        └ synced there before, if the topic has flush.messages=1
//! ```
//!
//! Each cluster gives two engines: a topic as the cluster sets it up, and one with `flush.messages=1`; only one if
//! the cluster's own setting is that. `linger.ms=0`, because a lone record must not wait for others; records that
//! arrive while a request is in flight go together in the next ([`config`]).
//!
//! Invariants: every request to a cluster has a time limit; the sync policy comes from the topic's described
//! configuration (`policy`) and from nowhere else; the settings that decide the promise and the lone record's
//! figure (`acks`, `linger.ms`) are set here, after the user's file; a topic is never created by a query for it.

use crate::client::{enter, facts, unique_name};
use crate::{Error, Named, Result};
use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, Producer as _, PurgeConfig, ThreadedProducer};
use seawall_gauge::block::Sample;
use seawall_gauge::scenario::replicated::promise::EngineFacts;
use seawall_gauge::scenario::replicated::{BlockRequest, EngineClient};
use seawall_gauge::testbed::Until;
use seawall_host::thread::Accounts;
use seawall_ship::remote::Cause;
use seawall_ship::remote::kafka::{
    Context, Described, FLUSH_EACH, config, create_topic, delete_topic, no_client, on_this_machine, policy,
    settings,
};
use seawall_sys::buffer::Aligned;
use seawall_sys::clock;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Copies of each record.
const COPIES: i32 = 3;
/// How long the cluster may take to answer at all.
const ANSWER: Duration = Duration::from_secs(10);
/// How often a wait checks whether the run was stopped.
const LOOK: Duration = Duration::from_millis(200);

/// A topic's configuration apart from its copies: what bounds the space it takes, and the requested sync policy.
type TopicSetting = &'static [(&'static str, &'static str)];

/// As the cluster sets it up, and synced before each acknowledgement.
const POLICIES: [TopicSetting; 2] = [&[], &[("flush.messages", "1")]];
const BOUNDS: TopicSetting =
    &[("min.insync.replicas", "2"), ("retention.bytes", "268435456"), ("segment.bytes", "67108864")];

/// A record's end: its slot, when its acknowledgement came, and what is wrong if it did not.
type Ended = (usize, u64, Result<(), KafkaError>);

/// A topic that this process created in a cluster.
struct Kafka {
    bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
    producer: ThreadedProducer<Context<usize>>,
    ended: Receiver<Ended>,
    topic: String,
    facts: EngineFacts,
    ack_timeout: Duration,
    /// Not yet removed.
    open: bool,
}

/// Connects to the cluster at `bootstrap`, and adds its engines.
///
/// # Errors
/// What is wrong, and the remedy.
pub(crate) fn connect(
    bootstrap: &str,
    named: &Named,
    stop: &'static AtomicBool,
    engines: &mut Vec<Box<dyn EngineClient>>,
) -> Result<()> {
    let config = config(bootstrap, named.kafka_config.as_deref())?;
    for (number, requested) in POLICIES.into_iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let mut kafka = Kafka::create(bootstrap, &config, requested, named.ack_timeout)?;
        // In this order: by then every broker with a copy knows the topic.
        kafka.ready(stop).map_err(|error| kafka.given_up(error))?;
        let settings =
            settings(&kafka.admin, &kafka.topic, stop).map_err(|error| kafka.given_up(error.into()))?;
        let (described, policy) = (Described::of(&settings), policy(&settings));
        let own_syncs_first = policy.id == FLUSH_EACH;
        kafka.facts.acknowledged_by = described.min_insync_replicas.unwrap_or(1);
        kafka.facts.laggard_may_lead = described.laggard_may_lead;
        kafka.facts.name = format!(
            "Kafka, acks=all, {} of {COPIES} copies",
            described.min_insync_replicas.map_or_else(|| "an unknown number".to_owned(), |n| n.to_string())
        );
        enter(policy, &mut kafka.facts, "kafka", engines);
        engines.push(Box::new(kafka));
        if number == 0 && own_syncs_first {
            break;
        }
    }
    Ok(())
}

impl Kafka {
    /// A topic in the cluster, which must have enough brokers for its copies.
    fn create(
        bootstrap: &str,
        config: &ClientConfig,
        policy: TopicSetting,
        ack_timeout: Duration,
    ) -> Result<Self> {
        let (sender, ended) = channel();
        let mut own = config.clone();
        own.set("acks", "all").set("linger.ms", "0").set("socket.nagle.disable", "true");
        own.set("message.timeout.ms", ack_timeout.as_millis().to_string());
        // Otherwise this client, asking after its topic, would create it again after its removal.
        own.set("allow.auto.create.topics", "false");
        let producer: ThreadedProducer<Context<usize>> = own
            .create_with_context(Context::new(move |_, outcome, slot| {
                let outcome = outcome.as_ref().map(|_| ()).map_err(|(error, _)| error.clone());
                // The receiver is gone only when the run has failed already.
                let _ = sender.send((slot, clock::monotonic_ns(), outcome));
            }))
            .map_err(no_client)?;
        let admin: AdminClient<DefaultClientContext> = config.create().map_err(no_client)?;
        let metadata = producer.client().fetch_metadata(None, ANSWER).map_err(|error| {
            let cause = producer.context().connection.last_error().map_or_else(|| error.into(), Cause::from);
            let what = format!("no answer in {}", humantime::format_duration(ANSWER));
            Error::caused(
                what,
                cause,
                "is it running, and is this its client port? TLS and credentials come from --kafka-config; docs/replicated.md has a cluster to try",
            )
        })?;
        let brokers = metadata.brokers();
        let needed = usize::try_from(COPIES).unwrap_or(usize::MAX);
        if brokers.len() < needed {
            let remedy = format!("three copies need three brokers, and it has {}", brokers.len());
            return Err(Error::failed("it is too small", remedy));
        }
        let on_this_machine = on_this_machine(&metadata);
        let topic = unique_name("kafka");
        let own: Vec<_> = BOUNDS.iter().chain(policy).copied().collect();
        let made = create_topic(&admin, &topic, COPIES, &own).map_err(|error| {
            Error::caused("no answer to the creation of a topic", error, "look at the controller's log")
        })?;
        let kafka = Self {
            bootstrap: bootstrap.to_owned(),
            admin,
            producer,
            ended,
            topic,
            facts: facts(String::new(), None, needed, 1, on_this_machine),
            ack_timeout,
            open: true,
        };
        made.map_err(kafka_refused)?;
        Ok(kafka)
    }

    /// Returns when a record was acknowledged.
    fn ready(&self, stop: &AtomicBool) -> Result<()> {
        self.send(b"ready?", 0)?;
        self.next(stop)?.map_or(Err(Error::Interrupted), |_| Ok(()))
    }

    fn send(&self, payload: &[u8], slot: usize) -> Result<()> {
        let record: BaseRecord<'_, (), [u8], usize> =
            BaseRecord::with_opaque_to(&self.topic, slot).partition(0).payload(payload);
        let sent = self.producer.send(record);
        sent.map_err(|(error, _)| Error::caused("a record was not sent", error, ""))
    }

    /// The next acknowledgement: its slot and time; `None` if the run was stopped before it came.
    fn next(&self, stop: &AtomicBool) -> Result<Option<(usize, u64)>> {
        loop {
            match self.ended.recv_timeout(LOOK) {
                Ok((slot, at_ns, Ok(()))) => return Ok(Some((slot, at_ns))),
                Ok((_, _, Err(error))) => {
                    let waited = humantime::format_duration(self.ack_timeout);
                    return Err(Error::caused(
                        format!("a record was not acknowledged within {waited}"),
                        error,
                        "are at least two copies in sync, and may this client write?",
                    ));
                }
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::failed("its client has ended", ""));
                }
            }
        }
    }

    /// Forgets what is still in flight, so that no acknowledgement of one block is counted in the next.
    fn purge(&self) {
        self.producer.purge(PurgeConfig::default().queue().inflight());
        while self.producer.in_flight_count() > 0 {
            // The producer's thread reports each purged record as an error, at once.
            let _ = self.ended.recv_timeout(LOOK);
        }
        while self.ended.try_recv().is_ok() {}
    }

    /// Removes the topic after `error`.
    fn given_up(&mut self, error: Error) -> Error {
        error.and_left(self.close().err().into_iter().collect())
    }
}

impl EngineClient for Kafka {
    fn facts(&self) -> &EngineFacts {
        &self.facts
    }

    fn run(&mut self, request: &BlockRequest<'_>, until: Until<'_>) -> Result<Sample, Cause> {
        let settings = request.settings;
        let payload = Aligned::incompressible(settings.bytes, settings.seed);
        let accounts = Accounts::open();
        let mut sample = Sample::default();
        let mut sent_ns = vec![0; request.in_flight];
        let mut free: Vec<usize> = (0..request.in_flight).collect();
        let times = accounts.times();
        let start_ns = clock::monotonic_ns();
        let end_ns = start_ns.saturating_add(until.block_ns);
        let mut done_ns = start_ns;
        let outcome = loop {
            let sending = done_ns < end_ns && !until.stop.load(Ordering::Relaxed);
            let mut refused = None;
            while sending && refused.is_none() {
                let Some(slot) = free.pop() else { break };
                sent_ns[slot] = clock::monotonic_ns();
                refused = self.send(payload.as_slice(), slot).err();
            }
            if let Some(error) = refused {
                break Err(error);
            }
            if free.len() == request.in_flight {
                break Ok(());
            }
            match self.next(until.stop) {
                Ok(Some((slot, at_ns))) => {
                    done_ns = at_ns;
                    sample.commits += 1;
                    sample.latency.record(at_ns.saturating_sub(sent_ns[slot]));
                    free.push(slot);
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if free.len() < request.in_flight {
            self.purge();
        }
        outcome?;
        sample.elapsed_ns = done_ns.saturating_sub(start_ns);
        sample.times = accounts.times().since(&times);
        Ok(sample)
    }

    fn close(&mut self) -> Result<(), Cause> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        Ok(delete(&self.admin, &self.bootstrap, &self.topic)?)
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // A caller that reports what was left behind has called it before.
        let _ = self.close();
    }
}

/// Removes the topic of that name from the cluster at `bootstrap`, if it is there.
///
/// # Errors
/// It may be left behind, and how to remove it; a file of properties that is not understood.
pub(crate) fn remove_topic(bootstrap: &str, file: Option<&Path>, topic: &str) -> Result<()> {
    delete(&config(bootstrap, file)?.create().map_err(no_client)?, bootstrap, topic)
}

fn delete(admin: &AdminClient<DefaultClientContext>, bootstrap: &str, topic: &str) -> Result<()> {
    let Err(cause) = delete_topic(admin, topic) else { return Ok(()) };
    let remedy =
        format!("remove it with `kafka-topics --bootstrap-server {bootstrap} --delete --topic {topic}`");
    Err(Error::caused(format!("the topic {topic} may be left behind"), cause, remedy))
}

/// A refusal to create a topic, with what to do about it.
fn kafka_refused(code: RDKafkaErrorCode) -> Error {
    let advice = match code {
        RDKafkaErrorCode::InvalidReplicationFactor => {
            "it is too small: three copies need three brokers that are up"
        }
        RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed => {
            "the user must be allowed to create, write to, describe and delete topics named seawall-*"
        }
        RDKafkaErrorCode::PolicyViolation => "its policy for topics forbids one of three copies for a trial",
        _ => "look at the controller's log",
    };
    Error::caused("it refused to create a topic", code, advice)
}
