//! Finds or creates the topic, and refuses one that may lose or expire messages.
//!
//! Invariant: what the broker does not describe is not assumed.

use super::{ENVELOPE, KafkaSettings, REQUEST, STARTING, no_client};
use crate::error::{Cause, Error, Result};
use crate::remote::kafka::{self as client, Context, Described};
use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::{Producer as _, ThreadedProducer};
use seawall_sys::clock::monotonic_ns;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

type Admin = AdminClient<DefaultClientContext>;
/// Unlike an [`Admin`] it says why there is no connection.
type Probe = ThreadedProducer<Context<()>>;

/// How long it waits for an answer before it looks whether a broker refused the connection.
const LOOK: Duration = Duration::from_secs(2);
/// How long to wait for the first answer of a broker: a refusal in the middle of a connection looks like one that is away.
const CONNECTING: Duration = Duration::from_secs(20);

/// The least that a message must be allowed to have, in bytes: a batch of 2 GiB has no more than 65,535 parts then.
const MESSAGE_BYTES_MIN: usize = 64 << 10;
/// The most that librdkafka sends in one message, in bytes.
const MESSAGE_BYTES_MAX: usize = 1_000_000_000;

/// A topic, as the brokers describe it.
pub(super) struct Topic {
    pub(super) copies: usize,
    pub(super) acknowledged_by: usize,
    pub(super) laggard_may_lead: bool,
    pub(super) message_bytes_max: usize,
    pub(super) on_this_machine: bool,
    /// The cluster's own name for itself, which no other has.
    pub(super) cluster: Option<String>,
    pub(super) settings: Vec<(String, String)>,
}

/// The topic, once there is a leader.
pub(super) fn find(config: &ClientConfig, settings: &KafkaSettings, create: bool) -> Result<Topic> {
    let admin: Admin = config.create().map_err(no_client)?;
    let probe: Probe = config.create_with_context(Context::new(|_, _, ()| ())).map_err(no_client)?;
    let (begun, mut limit) = (monotonic_ns(), CONNECTING);
    loop {
        let found = copies(&probe, &settings.topic)?;
        if !matches!(found, Found::NoAnswer(_)) {
            limit = STARTING;
        }
        let failed: Cause = match found {
            Found::Topic { copies, on_this_machine } => {
                // Sent with what was just asked for.
                let cluster = probe.client().fetch_cluster_id(REQUEST);
                return Ok(Topic {
                    copies,
                    on_this_machine,
                    ..described(&admin, settings, copies, cluster)?
                });
            }
            Found::Nothing if !create => {
                return Err(Error::unfit(format!("there is no topic {}", settings.topic)));
            }
            Found::Nothing => match make(&admin, settings) {
                // It takes a moment until every broker knows of it.
                Ok(()) => {
                    Cause::from(Box::<dyn std::error::Error + Send + Sync>::from("it was created just now"))
                }
                Err(cause) => cause,
            },
            Found::NotNow(cause) | Found::NoAnswer(cause) => cause,
        };
        if Duration::from_nanos(monotonic_ns() - begun) > limit {
            let what = format!(
                "the topic {} cannot be had: is this a client port of Kafka, and does --kafka-config say what it wants (security.protocol, \
                 ssl.certificate.location)?",
                settings.topic
            );
            return Err(Error::Unavailable { what, source: failed });
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// What the brokers say of a topic.
enum Found {
    Topic { copies: usize, on_this_machine: bool },
    Nothing,
    NotNow(Cause),
    NoAnswer(Cause),
}

fn copies(probe: &Probe, topic: &str) -> Result<Found> {
    let (client, context) = (probe.client(), probe.context());
    let cluster = match client.fetch_metadata(Some(topic), LOOK) {
        Ok(cluster) => cluster,
        Err(error) => {
            if let Some(why) = context.connection.take_refusal() {
                let what = format!(
                    "no connection to Kafka ({why}): TLS, certificates and the login come from --kafka-config, by librdkafka's names \
                     (security.protocol, ssl.ca.location, sasl.mechanism, sasl.username, sasl.password)"
                );
                return Err(Error::unfit(what));
            }
            let said = context.connection.last_error();
            let said = said.unwrap_or_else(|| "no reason was given".to_owned());
            let cause: Box<dyn std::error::Error + Send + Sync> = format!("{error}: {said}").into();
            return Ok(Found::NoAnswer(cause.into()));
        }
    };
    let not_now = |code: RDKafkaErrorCode| Ok(Found::NotNow(std::sync::Arc::new(code)));
    let Some(found) = cluster.topics().iter().find(|found| found.name() == topic) else {
        return Ok(Found::Nothing);
    };
    match found.error().map(RDKafkaErrorCode::from) {
        None => {}
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            return Ok(Found::Nothing);
        }
        Some(code) => return not_now(code),
    }
    match found.partitions() {
        [] => not_now(RDKafkaErrorCode::LeaderNotAvailable),
        [one] if one.leader() < 0 => not_now(RDKafkaErrorCode::LeaderNotAvailable),
        [one] => Ok(Found::Topic {
            copies: one.replicas().len(),
            on_this_machine: client::on_this_machine(&cluster),
        }),
        more => {
            let what = format!("the topic {topic} has {} partitions: name one that has 1", more.len());
            Err(Error::unfit(what))
        }
    }
}

/// Makes the topic, with more than half of the copies needed for an acknowledgement.
fn make(admin: &Admin, settings: &KafkaSettings) -> Result<(), Cause> {
    let copies = i32::try_from(settings.replicas).unwrap_or(i32::MAX);
    let needed = (settings.replicas / 2 + 1).to_string();
    let own = [
        ("min.insync.replicas", needed.as_str()),
        ("unclean.leader.election.enable", "false"),
        ("cleanup.policy", "delete"),
        ("retention.ms", "-1"),
        ("retention.bytes", "-1"),
    ];
    match client::create_topic(admin, &settings.topic, copies, &own) {
        Ok(Err(RDKafkaErrorCode::TopicAlreadyExists) | Ok(())) => Ok(()),
        Ok(Err(code)) => Err(std::sync::Arc::new(code)),
        Err(error) => Err(std::sync::Arc::new(error)),
    }
}

fn described(
    admin: &Admin,
    settings: &KafkaSettings,
    copies: usize,
    cluster: Option<String>,
) -> Result<Topic> {
    let name = &settings.topic;
    let values = client::settings(admin, name, &AtomicBool::new(false));
    let values = values.map_err(|source| Error::unavailable("the topic's settings were not read", source))?;
    let read = read(&values).map_err(|what| Error::unfit(format!("the topic {name} {what}")))?;
    Ok(Topic {
        acknowledged_by: read.acknowledged_by.min(copies),
        // It becomes a word of a line.
        cluster: cluster.filter(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic())),
        settings: values,
        ..read
    })
}

/// What the settings say.
///
/// # Errors
/// What is wrong with them, and the remedy.
fn read(values: &[(String, String)]) -> Result<Topic, String> {
    let of = |name: &str| values.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let number = |name: &str| of(name)?.parse::<usize>().ok();
    let message_bytes_max = number("max.message.bytes").unwrap_or_default().min(MESSAGE_BYTES_MAX);
    let least = format!(
        "accepts messages of at most {message_bytes_max} bytes: set max.message.bytes to {MESSAGE_BYTES_MIN} or more"
    );
    let rules = [
        (
            !values.is_empty(),
            "cannot be described by this client, so its retention is unknown: allow DescribeConfigs",
        ),
        (of("cleanup.policy") == Some("delete"), "is compacted: set cleanup.policy to delete"),
        (of("retention.ms") == Some("-1"), "expires messages by age: set retention.ms to -1"),
        (of("retention.bytes") == Some("-1"), "expires messages by size: set retention.bytes to -1"),
        (message_bytes_max >= MESSAGE_BYTES_MIN.max(ENVELOPE), &least),
    ];
    if let Some((_, what)) = rules.into_iter().find(|(holds, _)| !holds) {
        return Err(what.to_owned());
    }
    let described = Described::of(values);
    Ok(Topic {
        copies: 0,
        acknowledged_by: described.min_insync_replicas.unwrap_or(1).max(1),
        laggard_may_lead: described.laggard_may_lead,
        message_bytes_max,
        on_this_machine: false,
        cluster: None,
        settings: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::read;

    const SOUND: [(&str, &str); 6] = [
        ("cleanup.policy", "delete"),
        ("retention.ms", "-1"),
        ("retention.bytes", "-1"),
        ("max.message.bytes", "1048588"),
        ("min.insync.replicas", "2"),
        ("unclean.leader.election.enable", "false"),
    ];

    fn with(changed: &str, value: Option<&str>) -> Vec<(String, String)> {
        let values = SOUND.into_iter().filter_map(|(name, sound)| {
            let value = if name == changed { value? } else { sound };
            Some((name.to_owned(), value.to_owned()))
        });
        values.collect()
    }

    #[test]
    fn a_topic_that_may_forget_messages_is_refused() {
        let cases = [
            ("cleanup.policy", Some("compact"), "compacted"),
            ("cleanup.policy", Some("compact,delete"), "compacted"),
            ("retention.ms", Some("604800000"), "by age"),
            ("retention.ms", None, "by age"),
            ("retention.bytes", Some("1000"), "by size"),
            ("max.message.bytes", Some("65535"), "max.message.bytes"),
            ("max.message.bytes", None, "max.message.bytes"),
        ];
        for (name, value, word) in cases {
            let refused = read(&with(name, value)).map(drop).expect_err(name);
            assert!(refused.contains(word), "{name}: {refused}");
        }
        let forbidden = read(&[]).map(drop).expect_err("nothing was described");
        assert!(forbidden.contains("DescribeConfigs"), "{forbidden}");
    }

    #[test]
    fn what_is_not_described_is_not_assumed() {
        let promise = |name, value| {
            let topic = read(&with(name, value)).expect("sound");
            (topic.acknowledged_by, topic.laggard_may_lead)
        };
        assert_eq!(promise("", None), (2, false));
        assert_eq!(promise("min.insync.replicas", None), (1, false));
        assert_eq!(promise("unclean.leader.election.enable", None), (2, true));
        assert_eq!(promise("unclean.leader.election.enable", Some("true")), (2, true));
    }
}
