//! Connects to Kafka by librdkafka, creates topics, and reads their settings.
//!
//! Invariants: every administrative request has a time limit; a topic's promise comes from its described configuration ([`Described`])
//! and from nowhere else; a topic is never created by a query for it.

mod answers;
mod policy;

pub(crate) use answers::kept;
pub use answers::{Connection, Context};
pub use policy::{Described, FLUSH_EACH};

use super::{Cause, Error, Policy, Result};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use seawall_sys::clock;
use seawall_sys::wait::block_on;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A broker answers the requests of a connection one after the other, each when its copies have it. With more than one
/// in flight the others wait at the broker, each with the few records it was sent with, instead of here, where they would
/// be joined: that made 64 in flight 10 times slower (`docs/replicated.md`).
const ONE_REQUEST: (&str, &str) = ("max.in.flight.requests.per.connection", "1");
/// How long one administrative request may take.
const REQUEST: Duration = Duration::from_secs(15);
/// How long an empty description may stay empty, before it is taken for one that this client may not read: `rdkafka` 0.39
/// does not say whether a broker does not know the topic yet or forbids its description.
const SILENT: Duration = Duration::from_secs(5);
/// How often a wait checks whether the run was stopped.
const LOOK: Duration = Duration::from_millis(200);

/// The client's configuration: what the user's file may change, the file, and what it may not.
///
/// # Errors
/// The file cannot be read, or a line of it is no property.
pub fn config(bootstrap: &str, file: Option<&Path>) -> Result<ClientConfig> {
    let mut config = ClientConfig::new();
    config.set(ONE_REQUEST.0, ONE_REQUEST.1);
    if let Some(file) = file {
        let text = std::fs::read_to_string(file).map_err(Error::io("read --kafka-config", file))?;
        let properties = policy::properties(&text).map_err(|line| {
            let what = format!("--kafka-config {} is not understood", file.display());
            Error::failed(what, format!("line {line} is not `key=value`"))
        })?;
        for (key, value) in properties {
            config.set(key, value);
        }
    }
    config.set("bootstrap.servers", bootstrap);
    config.set("client.id", "seawall");
    Ok(config)
}

/// What is wrong with a client's configuration or connection.
#[must_use]
pub fn no_client(error: KafkaError) -> Error {
    match error {
        KafkaError::ClientConfig(_, description, key, _) => Error::caused(
            format!("the property {key} is not understood"),
            description,
            "--kafka-config takes librdkafka's properties, which differ from Java's where files are named (ssl.ca.location, sasl.username)",
        ),
        other => Error::caused("no client", other, ""),
    }
}

/// The settings of `topic` and their values, as the cluster describes them; none if this client may not read them.
///
/// # Errors
/// No answer in time; [`Error::Interrupted`] once `stop` is set.
pub fn settings(
    admin: &AdminClient<DefaultClientContext>,
    topic: &str,
    stop: &AtomicBool,
) -> Result<Vec<(String, String)>> {
    let named = [ResourceSpecifier::Topic(topic)];
    let start_ns = clock::monotonic_ns();
    loop {
        let answer = block_on(admin.describe_configs(&named, &options()));
        let waited = Duration::from_nanos(clock::monotonic_ns() - start_ns);
        let cause: Cause = match answer.map(|mut answers| answers.pop()) {
            Ok(Some(Ok(resource))) => {
                let entries = resource.entries.into_iter();
                let values: Vec<_> = entries.filter_map(|entry| Some((entry.name, entry.value?))).collect();
                if !values.is_empty() || waited > SILENT {
                    return Ok(values);
                }
                "an empty description".into()
            }
            Ok(Some(Err(
                RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed,
            ))) => return Ok(Vec::new()),
            Ok(Some(Err(code))) => code.into(),
            Ok(None) => "an empty answer".into(),
            Err(error) => error.into(),
        };
        if waited > REQUEST {
            return Err(Error::caused("the topic's configuration cannot be described", cause, ""));
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(LOOK);
    }
}

/// The sync policy of a topic with these [`settings`].
#[must_use]
pub fn policy(settings: &[(String, String)]) -> Policy {
    policy::of(&Described::of(settings))
}

/// Whether every broker is reached by an address of this machine.
#[must_use]
pub fn on_this_machine(cluster: &Metadata) -> bool {
    cluster.brokers().iter().all(|broker| seawall_host::machine::is_here(broker.host()))
}

/// Creates a topic of one partition; the inner error is the cluster's refusal.
///
/// # Errors
/// There was no answer.
pub fn create_topic(
    admin: &AdminClient<DefaultClientContext>,
    topic: &str,
    copies: i32,
    settings: &[(&str, &str)],
) -> Result<Result<(), RDKafkaErrorCode>, KafkaError> {
    let request = NewTopic::new(topic, 1, TopicReplication::Fixed(copies));
    let request = settings.iter().fold(request, |request, (key, value)| request.set(key, value));
    let answers = block_on(admin.create_topics([&request], &options()))?;
    Ok(answers.into_iter().next().map_or(Ok(()), |answer| answer.map(drop).map_err(|(_, code)| code)))
}

/// Removes a topic, if it is there.
///
/// # Errors
/// The cluster's refusal, or that there was no answer.
pub fn delete_topic(admin: &AdminClient<DefaultClientContext>, topic: &str) -> Result<(), Cause> {
    match block_on(admin.delete_topics(&[topic], &options()))?.pop() {
        Some(Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) | Ok(_)) | None => Ok(()),
        Some(Err((_, code))) => Err(code.into()),
    }
}

/// Every administrative request ends in time.
fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(REQUEST)).operation_timeout(Some(REQUEST))
}
