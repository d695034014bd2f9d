//! Measures Apache Kafka: a topic of its own with one partition and three copies, through librdkafka.
//!
//! ```text
//!   produce, acks=all ─▶ leader ─▶ every copy in sync (at least min.insync.replicas=2) ─▶ acknowledgement
//!                        └ synced there before, if the topic has flush.messages=1
//! ```
//!
//! Each cluster gives two engines: a topic as the cluster sets it up, and one with `flush.messages=1`; only one if
//! the cluster's own setting is that. `linger.ms=0`, because a lone record must not wait for others; records that
//! arrive while a request is in flight go together in the next ([`ONE_REQUEST`]).
//!
//! Invariants: every request to a cluster has a time limit; the sync policy comes from the topic's described
//! configuration ([`policy`]) and from nowhere else; the settings that decide the promise and the lone record's
//! figure (`acks`, `linger.ms`) are set here, after the user's file; a topic is never created by a query for it.

mod answers;
mod policy;

use crate::{Named, unique_id, unique_name};
use answers::{Ended, Heard, block_on};
use policy::{Described, Policy};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, Producer as _, PurgeConfig, ThreadedProducer};
use seawall_gauge::measure::Sample;
use seawall_gauge::scenario::replicated::promise::EngineFacts;
use seawall_gauge::scenario::replicated::{Engine, Order};
use seawall_gauge::stage::Until;
use seawall_sys::buffer::Aligned;
use seawall_sys::clock;
use seawall_sys::thread::Accounts;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Copies of each record.
const COPIES: i32 = 3;
/// A broker answers the requests of a connection one after the other, each when its copies have it. Of more than one on
/// the way the others wait there, each with the few records it had when it was sent, instead of here, where they would be
/// joined: 64 in flight were 10 times slower so (`docs/replicated.md`).
const ONE_REQUEST: (&str, &str) = ("max.in.flight.requests.per.connection", "1");
/// How long one administrative request may take.
const REQUEST: Duration = Duration::from_secs(15);
/// How long the cluster may take to answer at all.
const ANSWER: Duration = Duration::from_secs(10);
/// How long an empty description may stay empty, before it is taken for one that this client may not read: `rdkafka` 0.39
/// does not hand on why a broker described nothing, be it that it has not heard of the topic yet or that it must not tell.
const SILENT: Duration = Duration::from_secs(5);
/// How often a wait looks at whether the run was stopped.
const LOOK: Duration = Duration::from_millis(200);

/// A topic's configuration beside its copies: what bounds the space it takes, and the sync policy asked for.
type Asked = &'static [(&'static str, &'static str)];

/// As the cluster sets it up, and synced before each acknowledgement.
const POLICIES: [Asked; 2] = [&[], &[("flush.messages", "1")]];
const BOUNDS: Asked =
    &[("min.insync.replicas", "2"), ("retention.bytes", "268435456"), ("segment.bytes", "67108864")];

/// A topic of our own in a cluster.
struct Kafka {
    bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
    producer: ThreadedProducer<Heard>,
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
    engines: &mut Vec<Box<dyn Engine>>,
) -> Result<(), String> {
    let config = config(bootstrap, named.kafka_config.as_deref())?;
    for (number, asked) in POLICIES.into_iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err("interrupted".to_owned());
        }
        let mut kafka = Kafka::create(bootstrap, &config, asked, named.ack_timeout)?;
        // In this order: by then every broker with a copy knows the topic.
        kafka.ready(stop).map_err(|error| kafka.given_up(error))?;
        let described = kafka.describe(stop).map_err(|error| kafka.given_up(error))?;
        let policy = Policy::of(&described);
        let own_syncs_first = policy.id == policy::FLUSH_EACH;
        kafka.facts.acknowledged_by = described.min_insync_replicas.unwrap_or(1);
        kafka.facts.laggard_may_lead = described.laggard_may_lead;
        kafka.facts.name = format!(
            "Kafka, acks=all, {} of {COPIES} copies",
            described.min_insync_replicas.map_or_else(|| "an untold number".to_owned(), |n| n.to_string())
        );
        kafka.facts.policy = policy.sync;
        kafka.facts.setting = policy.setting;
        kafka.facts.read_from = policy.read_from;
        kafka.facts.id = unique_id(format!("kafka/{}", policy.id), engines);
        engines.push(Box::new(kafka));
        if number == 0 && own_syncs_first {
            break;
        }
    }
    Ok(())
}

/// The client's configuration: what the user's file may change, the file, and what it may not.
fn config(bootstrap: &str, file: Option<&Path>) -> Result<ClientConfig, String> {
    let mut config = ClientConfig::new();
    config.set(ONE_REQUEST.0, ONE_REQUEST.1);
    if let Some(file) = file {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("--kafka-config {} cannot be read: {error}", file.display()))?;
        for (key, value) in
            policy::properties(&text).map_err(|error| format!("{}: {error}", file.display()))?
        {
            config.set(key, value);
        }
    }
    config.set("bootstrap.servers", bootstrap);
    config.set("client.id", "seawall");
    Ok(config)
}

/// What is wrong with a client's configuration or connection, in words.
fn told(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, description, key, _) => format!(
            "the property {key} is not understood ({description}): --kafka-config takes librdkafka's properties, which differ from Java's where files are named (ssl.ca.location, sasl.username)"
        ),
        other => other.to_string(),
    }
}

impl Kafka {
    /// A topic in the cluster, which must have enough brokers for its copies.
    fn create(
        bootstrap: &str,
        config: &ClientConfig,
        asked: Asked,
        ack_timeout: Duration,
    ) -> Result<Self, String> {
        let (sender, ended) = channel();
        let mut own = config.clone();
        own.set("acks", "all").set("linger.ms", "0").set("socket.nagle.disable", "true");
        own.set("message.timeout.ms", ack_timeout.as_millis().to_string());
        // Otherwise this client, asking after its topic, would create it again behind its removal.
        own.set("allow.auto.create.topics", "false");
        let producer: ThreadedProducer<Heard> =
            own.create_with_context(Heard::new(sender)).map_err(|error| told(&error))?;
        let admin: AdminClient<DefaultClientContext> = config.create().map_err(|error| told(&error))?;
        let metadata = producer.client().fetch_metadata(None, ANSWER).map_err(|error| {
            let wrong = producer.client().context().wrong();
            format!(
                "no answer in {} ({}): is it running, and is this its client port? TLS and credentials come from --kafka-config; `seawall cluster up kafka` starts one to try",
                humantime::format_duration(ANSWER),
                wrong.unwrap_or_else(|| error.to_string())
            )
        })?;
        let brokers = metadata.brokers();
        let needed = usize::try_from(COPIES).unwrap_or(usize::MAX);
        if brokers.len() < needed {
            return Err(format!(
                "it is too small: three copies need three brokers, and it has {}",
                brokers.len()
            ));
        }
        let on_this_machine = brokers.iter().all(|broker| policy::is_this_machine(broker.host()));
        let topic = unique_name("kafka");
        let mut order = NewTopic::new(&topic, 1, TopicReplication::Fixed(COPIES));
        for (key, value) in BOUNDS.iter().chain(asked) {
            order = order.set(key, value);
        }
        let made = block_on(admin.create_topics([&order], &options())).map_err(|error| {
            format!("no answer to the creation of a topic ({error}): look at the controller's log")
        })?;
        let kafka = Self {
            bootstrap: bootstrap.to_owned(),
            admin,
            producer,
            ended,
            topic,
            facts: EngineFacts {
                id: String::new(),
                name: String::new(),
                version: None,
                copies: needed,
                acknowledged_by: 1,
                laggard_may_lead: false,
                policy: seawall_gauge::scenario::replicated::promise::SyncPolicy::Untold,
                setting: String::new(),
                read_from: String::new(),
                on_this_machine,
            },
            ack_timeout,
            open: true,
        };
        match made.into_iter().next() {
            Some(Err((_, code))) => Err(kafka_refused(code)),
            _ => Ok(kafka),
        }
    }

    /// The topic's configuration, as the cluster describes it; nothing of it if that is forbidden.
    fn describe(&self, stop: &AtomicBool) -> Result<Described, String> {
        let topic = [ResourceSpecifier::Topic(&self.topic)];
        let start_ns = clock::monotonic_ns();
        loop {
            let answer = block_on(self.admin.describe_configs(&topic, &options()));
            let waited_ns = clock::monotonic_ns() - start_ns;
            let wrong = match answer.map(|mut answers| answers.pop()) {
                Ok(Some(Ok(resource))) => {
                    let values = resource.entries.iter();
                    let values =
                        values.filter_map(|entry| Some((entry.name.as_str(), entry.value.as_deref()?)));
                    match Described::of(values) {
                        Some(described) => return Ok(described),
                        None if waited_ns > ns(SILENT) => return Ok(Described::default()),
                        None => "an empty description".to_owned(),
                    }
                }
                Ok(Some(Err(
                    RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed,
                ))) => return Ok(Described::default()),
                Ok(Some(Err(code))) => code.to_string(),
                Ok(None) => "an empty answer".to_owned(),
                Err(error) => error.to_string(),
            };
            if waited_ns > ns(REQUEST) {
                return Err(format!("the topic's configuration cannot be described: {wrong}"));
            }
            if stop.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns when a record was acknowledged.
    fn ready(&self, stop: &AtomicBool) -> Result<(), String> {
        self.send(b"ready?", 0)?;
        self.next(stop)?.map_or_else(|| Err("interrupted".to_owned()), |_| Ok(()))
    }

    fn send(&self, payload: &[u8], slot: usize) -> Result<(), String> {
        let record: BaseRecord<'_, (), [u8], usize> =
            BaseRecord::with_opaque_to(&self.topic, slot).partition(0).payload(payload);
        self.producer.send(record).map_err(|(error, _)| format!("a record was not sent: {error}"))
    }

    /// The next acknowledgement: its slot and time; `None` if the run was stopped before it came.
    fn next(&self, stop: &AtomicBool) -> Result<Option<(usize, u64)>, String> {
        loop {
            match self.ended.recv_timeout(LOOK) {
                Ok((slot, at_ns, Ok(()))) => return Ok(Some((slot, at_ns))),
                Ok((_, _, Err(error))) => {
                    return Err(format!(
                        "a record was not acknowledged within {} ({error}): are at least two copies in sync, and may this client write?",
                        humantime::format_duration(self.ack_timeout)
                    ));
                }
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("its client has ended".to_owned()),
            }
        }
    }

    /// Forgets what is still in flight, so that nothing of one block is heard in the next.
    fn purge(&self) {
        self.producer.purge(PurgeConfig::default().queue().inflight());
        while self.producer.in_flight_count() > 0 {
            // Each purged record is told as an error by the producer's thread, at once.
            let _ = self.ended.recv_timeout(LOOK);
        }
        while self.ended.try_recv().is_ok() {}
    }

    /// Removes the topic after `error`.
    fn given_up(&mut self, error: String) -> String {
        match self.close() {
            Ok(()) => error,
            Err(left) => format!("{error}; {left}"),
        }
    }
}

impl Engine for Kafka {
    fn facts(&self) -> &EngineFacts {
        &self.facts
    }

    fn run(&mut self, order: &Order<'_>, until: Until<'_>) -> Result<Sample, String> {
        let settings = order.settings;
        let payload = Aligned::incompressible(settings.bytes, settings.seed);
        let accounts = Accounts::open();
        let mut sample = Sample::default();
        let mut sent_ns = vec![0; order.in_flight];
        let mut free: Vec<usize> = (0..order.in_flight).collect();
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
            if free.len() == order.in_flight {
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
        if free.len() < order.in_flight {
            self.purge();
        }
        outcome?;
        sample.elapsed_ns = done_ns.saturating_sub(start_ns);
        sample.times = accounts.times().since(&times);
        Ok(sample)
    }

    fn close(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        let removed = block_on(self.admin.delete_topics(&[&self.topic], &options()));
        let error = match removed.map(|mut topics| topics.pop()) {
            Ok(Some(Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) | Ok(_)) | None) => {
                return Ok(());
            }
            Ok(Some(Err((_, code)))) => code.to_string(),
            Err(error) => error.to_string(),
        };
        Err(format!(
            "the topic {0} may be left behind ({error}): remove it with `kafka-topics --bootstrap-server {1} --delete --topic {0}`",
            self.topic, self.bootstrap
        ))
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // Who wants to be told of what was left behind has called it before.
        let _ = self.close();
    }
}

/// A refusal to create a topic, with what to do about it.
fn kafka_refused(code: RDKafkaErrorCode) -> String {
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
    format!("it refused to create a topic ({code}): {advice}")
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(REQUEST)).operation_timeout(Some(REQUEST))
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
