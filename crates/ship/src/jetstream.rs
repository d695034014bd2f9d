//! Ships to a stream of NATS `JetStream`: one message a batch, stored at a sequence only if the one before it is the stream's last.
//!
//! ```text
//!   append ─► publish, Nats-Expected-Last-Sequence: position - 1 ─► leader ─► Raft log of a majority ─► acknowledgement
//! ```
//!
//! Positions are the sequence numbers of a stream that holds nothing else and forgets nothing. Several appends are in flight at
//! once; they leave in order on one connection.
//!
//! Invariants: every request has a time limit, because one that is sent before there is a leader is never answered; an
//! acknowledgement counts only if it names the position; the sync policy comes from the servers' monitoring ports and from nowhere
//! else.

use crate::destination::{Answer, Destination, Identity};
use crate::error::{Error, Result};
use crate::failure::Facts;
use crate::remote::nats;
use crate::writer::Outcome;
use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DirectGetErrorKind, DiscardPolicy, PersistenceMode, RawMessageErrorKind, RetentionPolicy,
    StorageType, Stream,
};
use async_nats::jetstream::{Context, ContextBuilder, ErrorCode};
use seawall_sys::clock::monotonic_ns;
use std::collections::VecDeque;
use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::runtime::Runtime;

/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(5);
/// How long a change of the leader may take.
const SETTLING: Duration = Duration::from_secs(20);
/// How long to wait for a leader at the start.
const STARTING: Duration = Duration::from_secs(30);
/// Room for the headers of a message, in bytes.
const HEADERS: usize = 1 << 10;
/// The shortest bound of a message that a stream is used with, in bytes: a batch has no more than 65,535 parts.
const MESSAGE_BYTES_MIN: usize = 4 << 10;
/// Messages in flight at once, of appends and of reads.
const IN_FLIGHT: usize = 64;

/// The address of the stream, and its properties if it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JetStreamSettings {
    /// `nats://HOST:PORT[,HOST:PORT…]`.
    pub url: String,
    /// The stream; it is created if there is none.
    pub stream: String,
    /// Copies of each message in a stream that is created.
    pub replicas: usize,
    /// Monitoring ports of the servers, `HOST:PORT` each, from which the sync policy is read.
    pub monitors: Vec<String>,
    /// The user declares the servers off-site.
    pub elsewhere: bool,
    /// Whether a password may go unencrypted to another host.
    pub plain_password: bool,
}

/// A stream that a log is shipped to.
pub struct JetStream {
    runtime: Runtime,
    context: Context,
    stream: Stream,
    name: String,
    subject: String,
    /// When the stream was created, which the servers store as long as it exists.
    created: SystemTime,
    facts: Facts,
}

impl std::fmt::Debug for JetStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JetStream").field("stream", &self.name).finish_non_exhaustive()
    }
}

impl JetStream {
    /// Connects, and finds or creates the stream.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is no connection or no leader, [`Error::Unfit`] if the stream could lose or expire messages.
    pub fn open(settings: &JetStreamSettings, create: bool) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime =
            runtime.map_err(|source| Error::unavailable("no runtime for the client of NATS", source))?;
        let client = runtime.block_on(nats::client(&settings.url, settings.plain_password));
        let client = client.map_err(|source| Error::unavailable("no connection to NATS", source))?;
        let version = client.server_info().version.clone();
        let payload_max = client.server_info().max_payload;
        let on_this_machine = nats::on_this_machine(&settings.url, &client);
        let context = {
            // It starts a task of its own.
            let _inside = runtime.enter();
            ContextBuilder::new().timeout(REQUEST).build(client)
        };
        let stream = runtime.block_on(find(&context, settings, create))?;
        let info = stream.cached_info().clone();
        check(&info.config, settings)?;
        // A batch that is longer is cut into parts.
        let bound = usize::try_from(info.config.max_message_size).ok().filter(|bound| *bound > 0);
        let message_bytes_max =
            bound.map_or(payload_max, |bound| bound.min(payload_max)).saturating_sub(HEADERS);
        if message_bytes_max < MESSAGE_BYTES_MIN {
            let what = format!(
                "the stream {} takes no messages of {} bytes: raise its max_msg_size, or the servers' max_payload",
                settings.stream,
                MESSAGE_BYTES_MIN + HEADERS
            );
            return Err(Error::unfit(what));
        }
        let policy = nats::policy(&info, &settings.monitors)
            .map_err(|source| Error::unavailable("the sync policy cannot be read", source))?;
        let replicas = info.config.num_replicas;
        let facts = Facts {
            name: format!("NATS JetStream, {replicas} replicas"),
            acknowledged_by: replicas / 2 + 1,
            laggard_may_lead: false,
            synced: policy.synced,
            setting: policy.stated() + &bounds(&info.config),
            on_this_machine,
            elsewhere: settings.elsewhere,
            keeps_copies: false,
            message_bytes_max,
            in_flight_max: IN_FLIGHT,
            gather_bytes: 0,
            reports: reports(&version),
        };
        let subject = subject(&settings.stream);
        let (name, created) = (settings.stream.clone(), info.created.into());
        Ok(Self { runtime, context, stream, name, subject, created, facts })
    }
}

/// Open reports of acknowledged messages that were lost although every replica syncs, by the number of the issue of nats-server.
const REPORTS: [(u32, &str); 4] = [
    (
        6888,
        "2.10.20: the whole stream gone after processes were killed and restarted; fixed in 2.10.23 according to its makers",
    ),
    (7545, "2.12.1: messages lost when members changed while processes were killed and the network was cut"),
    (7549, "2.12.1: messages lost after bits had flipped in the files of a minority of the nodes"),
    (
        7567,
        "2.12.1: nodes that disagree after one lost its power; prevented by sync_interval: always according to its makers",
    ),
];

/// The version of nats-server that shipping was tried against, by `cargo xtask shipped`.
const TESTED: &str = "2.15.2";

/// What stands beside the promise of servers of this version.
fn reports(version: &str) -> Vec<String> {
    let open = REPORTS.iter().map(|(number, what)| format!("nats-server#{number}, open, of {what}"));
    let tried = format!(
        "the servers are {version}; {TESTED} was tried here, with killed, cut off and lost nodes, not with the faults of these reports: \
         drill, and ship to an archive beside it"
    );
    open.chain([tried]).collect()
}

/// An error with its cause: the server's own words.
fn with_cause(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}"));
    let text = error.to_string();
    cause
        .filter(|cause| !text.contains(&cause[2..]))
        .map_or_else(|| text.clone(), |cause| text.clone() + &cause)
}

fn subject(stream: &str) -> String {
    format!("{stream}.batches")
}

/// The stream, once there is a leader.
async fn find(context: &Context, settings: &JetStreamSettings, create: bool) -> Result<Stream> {
    let config = Config {
        name: settings.stream.clone(),
        subjects: vec![subject(&settings.stream)],
        num_replicas: settings.replicas,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        deny_delete: true,
        deny_purge: true,
        allow_direct: true,
        description: Some("a Seawall log, batch by batch".to_owned()),
        ..Config::default()
    };
    let begun = monotonic_ns();
    loop {
        let found = match context.get_stream(&settings.stream).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        let missing = matches!(
            found.kind(),
            async_nats::jetstream::context::GetStreamErrorKind::JetStream(ref error)
                if error.error_code() == ErrorCode::STREAM_NOT_FOUND
        );
        if missing && !create {
            return Err(Error::unfit(format!("there is no stream {}", settings.stream)));
        }
        let failed = if missing {
            match context.create_stream(config.clone()).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error.to_string(),
            }
        } else {
            found.to_string()
        };
        if Duration::from_nanos(monotonic_ns() - begun) > STARTING {
            let what = format!("the stream {} is not available", settings.stream);
            return Err(Error::unavailable(what, std::io::Error::other(failed)));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// What the stream refuses once it is full, in words.
fn bounds(config: &Config) -> String {
    let bounds = [("max_bytes", config.max_bytes), ("max_msgs", config.max_messages)];
    let bounds = bounds.iter().filter(|(_, bound)| *bound > 0);
    let words =
        bounds.map(|(name, bound)| format!("; it is full at {name} {bound}, and then refuses messages"));
    words.collect::<Vec<_>>().concat()
}

/// Refuses a stream that may lose or expire messages, or that accepts others.
fn check(config: &Config, settings: &JetStreamSettings) -> Result<()> {
    let rules = [
        (config.storage == StorageType::File, "keeps its messages in memory"),
        (config.discard == DiscardPolicy::New, "discards old messages: set discard to new"),
        (config.retention == RetentionPolicy::Limits, "removes consumed messages: set retention to limits"),
        (config.max_age.is_zero(), "expires messages by age: set max_age to 0"),
        (
            config.max_messages_per_subject <= 0,
            "limits the messages per subject: set max_msgs_per_subject to -1",
        ),
        (
            config.deny_delete && config.deny_purge,
            "allows messages to be removed: set deny_delete and deny_purge",
        ),
        (!config.no_ack, "does not acknowledge messages: set no_ack to false"),
        (
            config.persist_mode != Some(PersistenceMode::Async),
            "acknowledges messages before it writes them: set persist_mode to default",
        ),
        (config.subjects == [subject(&settings.stream)], "accepts messages of other subjects"),
    ];
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, what)) => Err(Error::unfit(format!("the stream {} {what}", settings.stream))),
        None => Ok(()),
    }
}

impl Destination for JetStream {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn address(&self) -> String {
        // Of the stream alone: servers may be named in any order, and change.
        format!("jetstream:{}", self.name)
    }

    fn identity(&mut self) -> Result<Identity> {
        Ok(Identity::Is(format!("created {}", humantime::format_rfc3339_nanos(self.created))))
    }

    fn settles_within(&self) -> Duration {
        SETTLING
    }

    fn append(&mut self, position: u64, bytes: Arc<[u8]>, answer: Answer) {
        let message = PublishMessage::build()
            .headers(HeaderMap::new())
            .expected_last_sequence(position - 1)
            .expected_stream(&self.name)
            .payload(bytes.to_vec().into());
        let sent = self.runtime.block_on(async {
            tokio::time::timeout(REQUEST, self.context.send_publish(self.subject.clone(), message)).await
        });
        let acknowledgement = match sent {
            Ok(Ok(acknowledgement)) => acknowledgement,
            Ok(Err(error)) => return answer(Outcome::unknown(format!("a message was not sent ({error})"))),
            Err(_) => return answer(Outcome::unknown("a message was not sent in time")),
        };
        self.runtime.spawn(async move {
            answer(match acknowledgement.into_future().await {
                Ok(stored) if stored.sequence == position && !stored.duplicate => Outcome::Stored,
                Ok(stored) => {
                    Outcome::unknown(format!("a message for {position} was stored at {}", stored.sequence))
                }
                Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {
                    Outcome::refused(format!("a message for {position} was refused ({error})"))
                }
                Err(error) => {
                    Outcome::unknown(format!("a message was not acknowledged ({})", with_cause(&error)))
                }
            });
        });
    }

    fn read(&mut self, position: u64) -> Result<Option<Vec<u8>>> {
        // From the leader: a copy may not have it yet.
        match self.runtime.block_on(self.stream.get_raw_message(position)) {
            Ok(message) => Ok(Some(message.payload.to_vec())),
            Err(error) => match error.kind() {
                RawMessageErrorKind::NoMessageFound => Ok(None),
                RawMessageErrorKind::JetStream(refusal)
                    if refusal.error_code() == ErrorCode::NO_MESSAGE_FOUND =>
                {
                    Ok(None)
                }
                _ => Err(Error::unavailable(format!("message {position} was not read"), error)),
            },
        }
    }

    fn last(&mut self) -> Result<u64> {
        let info = self.runtime.block_on(self.stream.get_info());
        let info = info.map_err(|source| Error::unavailable("the stream's state was not read", source))?;
        Ok(info.state.last_sequence)
    }

    fn read_on(&mut self, position: u64, visit: &mut dyn FnMut(u64, &[u8]) -> Result<bool>) -> Result<u64> {
        let last = self.last()?;
        let (mut asked, mut position) = (position, position);
        let mut flying = VecDeque::new();
        loop {
            while asked <= last && flying.len() < IN_FLIGHT {
                let (stream, wanted) = (self.stream.clone(), asked);
                flying.push_back(self.runtime.spawn(async move { stream.direct_get(wanted).await }));
                asked += 1;
            }
            let Some(next) = flying.pop_front() else { return Ok(position) };
            let found = self.runtime.block_on(next);
            let found = found.map_err(|source| Error::unavailable("a read was ended", source))?;
            let bytes = match found {
                Ok(message) => message.payload.to_vec(),
                // From a copy that lags, or one that is away: the leader knows.
                Err(error) => match self.read(position)? {
                    Some(bytes) => bytes,
                    None if error.kind() == DirectGetErrorKind::NotFound => return Ok(position),
                    None => {
                        return Err(Error::unavailable(format!("message {position} was not read"), error));
                    }
                },
            };
            position += 1;
            if !visit(position - 1, &bytes)? {
                return Ok(position);
            }
        }
    }
}
