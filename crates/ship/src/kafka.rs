//! Ships to a topic of Apache Kafka with one partition: one message a batch, its position the offset plus one.
//!
//! ```text
//!   append ─► produce, acks=all, idempotent ─► leader ─► every copy in sync (at least min.insync.replicas) ─► offset
//!             offset + 1 == position: stored        anything else: refused, though it lies there
//! ```
//!
//! Kafka cannot be told to store a message only at the next free offset: a late message of a writer that was replaced lies in the
//! topic too. It states the message before it, which is not the one that lies there, so that every reader ignores it, and its
//! writer, which finds another offset than it named, reads on and finds the new epoch. So the rule of `message.rs` fences.
//!
//! Invariants: every request has a time limit; nothing is said to be missing while a message of this writer is in flight; the
//! sync policy and the copies come from the broker's description of the topic and from nowhere else.

mod reader;
mod topic;

use crate::destination::{Answer, Destination, Identity};
use crate::error::{Error, Result};
use crate::failure::Facts;
use crate::remote::kafka::{self as client, Connection, Context, kept};
use crate::writer::Outcome;
use rdkafka::Message as _;
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};
use reader::Reader;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long one request may take, and a message be in flight.
const REQUEST: Duration = Duration::from_secs(10);
/// How much longer than that a wait for all messages in flight may take.
const GRACE: Duration = Duration::from_secs(5);
/// How long a change of the leader may take.
const SETTLING: Duration = Duration::from_secs(20);
/// How long to wait for a leader at the start.
const STARTING: Duration = Duration::from_mins(1);
/// Room for what Kafka adds to a message, in bytes.
const ENVELOPE: usize = 512;
/// Messages in flight at once.
const IN_FLIGHT: usize = 64;
/// The one partition.
const PARTITION: i32 = 0;

/// The address of the topic, and its properties if it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSettings {
    /// `HOST:PORT[,HOST:PORT…]`.
    pub bootstrap: String,
    /// The topic; it is created if there is none.
    pub topic: String,
    /// A file of librdkafka's properties: TLS and credentials.
    pub config: Option<PathBuf>,
    /// Copies of each message in a topic that is created.
    pub replicas: usize,
    /// The user declares the brokers off-site.
    pub elsewhere: bool,
}

/// The outcome of a message that was sent.
struct Sent {
    position: u64,
    answer: Mutex<Option<Answer>>,
}

/// Answers the append of a message with its outcome.
fn delivered(connection: &Connection, outcome: &DeliveryResult<'_>, sent: &Sent) {
    let outcome = match outcome {
        // A broker that has it already from an earlier try does not say where.
        Ok(message) => match u64::try_from(message.offset()) {
            Ok(offset) if offset + 1 == sent.position => Outcome::Stored,
            Ok(offset) => Outcome::refused(format!("a message for {} lies at {}", sent.position, offset + 1)),
            Err(_) => {
                Outcome::unknown("an earlier try stored the message, and the broker does not say where")
            }
        },
        Err((error, _)) => {
            Outcome::unknown(failed("a message was not acknowledged", error.clone(), connection))
        }
    };
    if let Some(answer) = kept(&sent.answer).take() {
        answer(outcome);
    }
}

/// A topic that a log is shipped to.
pub struct Kafka {
    config: ClientConfig,
    producer: ThreadedProducer<Context<Box<Sent>>>,
    /// Made when something is read, and again after a request without an answer.
    reader: Option<Reader>,
    topic: String,
    cluster: Option<String>,
    facts: Facts,
}

impl std::fmt::Debug for Kafka {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kafka").field("topic", &self.topic).finish_non_exhaustive()
    }
}

/// A client's error, and what its connection said last.
fn failed(what: &str, error: KafkaError, connection: &Connection) -> Error {
    match connection.last_error() {
        Some(why) => Error::unavailable(what, format!("{error}: {why}")),
        None => Error::unavailable(what, error),
    }
}

fn no_client(error: KafkaError) -> Error {
    Error::unavailable("no client for Kafka", client::no_client(error))
}

fn producer(config: &ClientConfig, message_bytes_max: usize) -> Result<ThreadedProducer<Context<Box<Sent>>>> {
    let mut own = config.clone();
    own.set("acks", "all").set("enable.idempotence", "true").set("linger.ms", "0");
    own.set("message.timeout.ms", REQUEST.as_millis().to_string());
    own.set("message.max.bytes", (message_bytes_max + ENVELOPE).to_string());
    own.create_with_context(Context::new(|connection, outcome, sent: Box<Sent>| {
        delivered(connection, outcome, &sent);
    }))
    .map_err(no_client)
}

impl Kafka {
    /// Connects, and finds or creates the topic.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is no connection or no leader, [`Error::Unfit`] if the topic could lose or expire messages, or
    /// has more than one partition.
    pub fn open(settings: &KafkaSettings, create: bool) -> Result<Self> {
        let config = client::config(&settings.bootstrap, settings.config.as_deref());
        let mut config = config.map_err(|source| Error::unavailable("no client for Kafka", source))?;
        // A topic is made on purpose only.
        config.set("allow.auto.create.topics", "false");
        let found = topic::find(&config, settings, create)?;
        let policy = client::policy(&found.settings);
        let message_bytes_max = found.message_bytes_max - ENVELOPE;
        let facts = Facts {
            name: format!("Kafka, acks=all, {} of {} replicas", found.acknowledged_by, found.copies),
            acknowledged_by: found.acknowledged_by,
            laggard_may_lead: found.laggard_may_lead,
            synced: policy.synced,
            setting: policy.stated(),
            on_this_machine: found.on_this_machine,
            elsewhere: settings.elsewhere,
            keeps_copies: false,
            message_bytes_max,
            in_flight_max: IN_FLIGHT,
            gather_bytes: 0,
            reports: Vec::new(),
        };
        let producer = producer(&config, message_bytes_max)?;
        let (topic, cluster) = (settings.topic.clone(), found.cluster);
        Ok(Self { config, producer, reader: None, topic, cluster, facts })
    }

    /// Reads with a reader; one that gives no answer is not used again.
    fn reading<T>(&mut self, read: impl FnOnce(&mut Reader) -> Result<T>) -> Result<T> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::new(&self.config, &self.topic)?,
        };
        let done = read(&mut reader)?;
        self.reader = Some(reader);
        Ok(done)
    }

    /// Waits for what is in flight: what is not there then is not there for good.
    fn settle(&self) -> Result<()> {
        let settled = self.producer.flush(REQUEST + GRACE);
        settled.map_err(|error| {
            failed("messages in flight have no answer", error, &self.producer.context().connection)
        })
    }
}

impl Destination for Kafka {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn address(&self) -> String {
        // Of the topic alone: brokers may be named in any order, and change.
        format!("kafka:{}", self.topic)
    }

    fn identity(&mut self) -> Result<Identity> {
        let cluster = self.cluster.as_ref().map(|cluster| format!("cluster {cluster}"));
        Ok(cluster.map_or(Identity::Unreported, Identity::Is))
    }

    fn settles_within(&self) -> Duration {
        SETTLING
    }

    fn append(&mut self, position: u64, bytes: Arc<[u8]>, answer: Answer) {
        if let Some(reader) = &mut self.reader {
            reader.rest();
        }
        // After an error of that kind it takes no more.
        if let Some((_, error)) = self.producer.client().fatal_error() {
            tracing::warn!(error, "the Kafka client is restarted");
            match producer(&self.config, self.facts.message_bytes_max) {
                Ok(new) => self.producer = new,
                Err(error) => return answer(Outcome::unknown(error)),
            }
        }
        let sent = Box::new(Sent { position, answer: Mutex::new(Some(answer)) });
        let record: BaseRecord<'_, (), [u8], Box<Sent>> =
            BaseRecord::with_opaque_to(&self.topic, sent).partition(PARTITION).payload(&bytes);
        if let Err((error, unsent)) = self.producer.send(record)
            && let Some(answer) = kept(&unsent.delivery_opaque.answer).take()
        {
            answer(Outcome::unknown(format!("a message was not sent ({error})")));
        }
    }

    fn read(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        self.settle()?;
        self.reading(|reader| {
            let (first, last) = reader.bounds()?;
            if (first..=last).contains(&position) { reader.fetch(position) } else { Ok(None) }
        })
    }

    fn last(&mut self) -> Result<u64> {
        self.settle()?;
        self.reading(|reader| Ok(reader.bounds()?.1))
    }

    fn read_on(&mut self, position: u64, visit: &mut dyn FnMut(u64, &[u8]) -> Result<bool>) -> Result<u64> {
        let last = self.last()?;
        let mut position = position;
        while position <= last {
            let Some(bytes) = self.reading(|reader| reader.fetch(position))? else { break };
            position += 1;
            if !visit(position - 1, &bytes)? {
                break;
            }
        }
        Ok(position)
    }
}
