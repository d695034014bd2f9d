//! Measures NATS `JetStream`: a stream of its own with three replicas in files, through the usual client.
//!
//! ```text
//!   publish ─▶ leader ─▶ Raft log of a majority (2 of 3) ─▶ acknowledgement
//!                        └ synced there before, if the servers have sync_interval: always
//! ```
//!
//! Acknowledgements of one stream come in the order of its records, so the client waits for the oldest record in
//! flight; each record is timed from its sending.
//!
//! Invariants: every request has a time limit, because one that is sent before there is a leader is never answered;
//! the sync policy comes from [`seawall_ship::remote::nats::policy`] and from nowhere else.

use crate::client::{enter, facts, unique_name};
use crate::{Error, Named, Result};
use async_nats::Client;
use async_nats::jetstream::context::{CreateStreamErrorKind, DeleteStreamErrorKind, PublishAckFuture};
use async_nats::jetstream::stream::{Config, DiscardPolicy, Info, StorageType};
use async_nats::jetstream::{Context, ContextBuilder, ErrorCode};
use seawall_gauge::block::Sample;
use seawall_gauge::scenario::replicated::promise::EngineFacts;
use seawall_gauge::scenario::replicated::{BlockRequest, EngineClient};
use seawall_gauge::testbed::Until;
use seawall_host::thread::Accounts;
use seawall_ship::remote::{Cause, Policy, nats as remote};
use seawall_sys::buffer::Aligned;
use seawall_sys::clock;
use std::collections::VecDeque;
use std::future::IntoFuture as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Copies of each record, and how many a majority is.
const REPLICAS: usize = 3;
const MAJORITY: usize = REPLICAS / 2 + 1;
/// What a stream may hold, bytes; older records make way, so that a long run fills no disk.
const STREAM_BYTES: i64 = 256 << 20;
/// How long to wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long one request for readiness may take before it is sent again.
const ATTEMPT: Duration = Duration::from_secs(1);
/// How often a wait checks whether the run was stopped.
const LOOK: Duration = Duration::from_millis(200);
/// How long a refusal that a starting cluster also gives is retried.
const STARTING: Duration = Duration::from_secs(15);

/// A stream that this process created in a cluster.
struct Nats {
    runtime: Runtime,
    context: Context,
    stream: String,
    subject: String,
    facts: EngineFacts,
    ack_timeout: Duration,
    /// Not yet removed.
    open: bool,
}

/// Connects to the cluster at `url`, and adds its engine.
///
/// # Errors
/// What is wrong, and the remedy.
pub(crate) fn connect(
    url: &str,
    named: &Named,
    stop: &'static AtomicBool,
    engines: &mut Vec<Box<dyn EngineClient>>,
) -> Result<()> {
    let runtime = runtime()?;
    let client = runtime.block_on(remote::client(url, named.nats_plain_password))?;
    let version = client.server_info().version.clone();
    let on_this_machine = remote::on_this_machine(url, &client);
    let context = {
        // It starts a task of its own.
        let _inside = runtime.enter();
        ContextBuilder::new().timeout(named.ack_timeout).build(client)
    };
    let stream = unique_name("jetstream");
    let mut engine = Nats {
        runtime,
        context,
        subject: format!("{stream}.records"),
        stream,
        facts: facts(
            format!("NATS JetStream, {REPLICAS} replicas"),
            Some(version),
            REPLICAS,
            MAJORITY,
            on_this_machine,
        ),
        ack_timeout: named.ack_timeout,
        open: true,
    };
    match engine.create(named, stop) {
        Ok(policy) => enter(policy, &mut engine.facts, "nats", engines),
        // The creation may have gone through although its answer did not come.
        Err(error) => return Err(error.and_left(engine.close().err().into_iter().collect())),
    }
    engines.push(Box::new(engine));
    Ok(())
}

impl Nats {
    /// Creates the stream, has a record acknowledged and reads the sync policy.
    fn create(&mut self, named: &Named, stop: &AtomicBool) -> Result<Policy> {
        let info = self.runtime.block_on(self.made(stop))?;
        self.runtime.block_on(self.ready(stop))?;
        Ok(remote::policy(&info, &named.nats_monitors)?)
    }

    /// The stream, once there is a leader to create it.
    async fn made(&self, stop: &AtomicBool) -> Result<Info> {
        let short = ContextBuilder::new().timeout(ATTEMPT).build(self.context.client());
        let config = Config {
            name: self.stream.clone(),
            subjects: vec![self.subject.clone()],
            num_replicas: REPLICAS,
            storage: StorageType::File,
            discard: DiscardPolicy::Old,
            max_bytes: STREAM_BYTES,
            description: Some("of a run of seawall bench; may be removed when it has ended".to_owned()),
            ..Config::default()
        };
        let start_ns = clock::monotonic_ns();
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let waited_ns = clock::monotonic_ns() - start_ns;
            let error = match short.create_stream(config.clone()).await {
                Ok(stream) => return Ok(stream.cached_info().clone()),
                Err(error) => error,
            };
            let starting = waited_ns < clock::nanoseconds(STARTING.min(self.ack_timeout));
            match error.kind() {
                CreateStreamErrorKind::JetStream(refusal) => {
                    let may_be_starting = matches!(
                        refusal.error_code(),
                        ErrorCode::CLUSTER_NO_PEERS
                            | ErrorCode::CLUSTER_NOT_AVAILABLE
                            | ErrorCode::CLUSTER_NOT_LEADER
                            | ErrorCode::INSUFFICIENT_RESOURCES
                    );
                    if !(may_be_starting && starting) {
                        return Err(refused(refusal));
                    }
                }
                CreateStreamErrorKind::TimedOut | CreateStreamErrorKind::JetStreamUnavailable
                    if starting
                        || (waited_ns < clock::nanoseconds(self.ack_timeout)
                            && matches!(error.kind(), CreateStreamErrorKind::TimedOut)) => {}
                CreateStreamErrorKind::JetStreamUnavailable => {
                    return Err(Error::failed(
                        "it has no JetStream, or none for this account",
                        "start its servers with `jetstream { … }`, and enable it for the account",
                    ));
                }
                CreateStreamErrorKind::TimedOut => {
                    let waited = humantime::format_duration(self.ack_timeout);
                    return Err(Error::failed(
                        format!("no answer to the creation of a stream in {waited}"),
                        "JetStream has no leader, most likely because less than half of its servers are up",
                    ));
                }
                _ => return Err(Error::caused("it did not create a stream", error, "")),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns when a record was acknowledged: from then on the stream has a leader.
    async fn ready(&self, stop: &AtomicBool) -> Result<()> {
        let short = ContextBuilder::new().timeout(ATTEMPT).build(self.context.client());
        let start_ns = clock::monotonic_ns();
        loop {
            let sent = short.publish(self.subject.clone(), "ready?".into()).await;
            let outcome = match sent {
                Ok(ack) => ack.await.map(|_| ()),
                Err(error) => Err(error),
            };
            let Err(error) = outcome else { return Ok(()) };
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if clock::monotonic_ns() - start_ns > clock::nanoseconds(self.ack_timeout) {
                let waited = humantime::format_duration(self.ack_timeout);
                let what = format!("a record was not acknowledged in {waited}");
                return Err(Error::caused(what, error, "look at the servers' logs"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn send_all(&self, request: &BlockRequest<'_>, until: Until<'_>) -> Result<Sample> {
        let settings = request.settings;
        let payload = Aligned::incompressible(settings.bytes, settings.seed).as_slice().to_vec();
        let message: async_nats::jetstream::message::PublishMessage =
            async_nats::jetstream::message::PublishMessage::build().payload(payload.into());
        let accounts = Accounts::open();
        let mut sample = Sample::default();
        let mut flying: VecDeque<(u64, PublishAckFuture)> = VecDeque::with_capacity(request.in_flight);
        let times = accounts.times();
        let start_ns = clock::monotonic_ns();
        let end_ns = start_ns.saturating_add(until.block_ns);
        let mut done_ns = start_ns;
        loop {
            let stopped = until.stop.load(Ordering::Relaxed);
            let sending = done_ns < end_ns && !stopped;
            while sending && flying.len() < request.in_flight {
                let sent_ns = clock::monotonic_ns();
                let ack = self.context.send_publish(self.subject.clone(), message.clone()).await;
                let ack = ack.map_err(|error| Error::caused("a record was not sent", error, ""))?;
                flying.push_back((sent_ns, ack));
            }
            let Some((sent_ns, ack)) = flying.pop_front() else { break };
            if !self.acknowledged(ack, until.stop).await? {
                break;
            }
            done_ns = clock::monotonic_ns();
            sample.commits += 1;
            sample.latency.record(done_ns - sent_ns);
        }
        sample.elapsed_ns = done_ns - start_ns;
        sample.times = accounts.times().since(&times);
        Ok(sample)
    }

    /// Waits for one acknowledgement; false if the run was stopped before it came.
    async fn acknowledged(&self, ack: PublishAckFuture, stop: &AtomicBool) -> Result<bool> {
        let mut ack = ack.into_future();
        loop {
            match tokio::time::timeout(LOOK, &mut ack).await {
                Ok(Ok(_)) => return Ok(true),
                Ok(Err(error)) => return Err(Error::caused("a record was not acknowledged", error, "")),
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(false),
                Err(_) => {}
            }
        }
    }
}

/// Removes a stream; it may be gone already.
async fn delete(client: Client, stream: &str) -> Result<()> {
    let short = ContextBuilder::new().timeout(CONNECT).build(client);
    let mut attempts_left = 3;
    loop {
        attempts_left -= 1;
        let Err(error) = short.delete_stream(stream).await else { return Ok(()) };
        match error.kind() {
            DeleteStreamErrorKind::JetStream(refusal)
                if refusal.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                return Ok(());
            }
            _ if attempts_left == 0 => {
                let remedy = format!("remove it with `nats stream rm {stream}`");
                return Err(Error::caused(format!("the stream {stream} may be left behind"), error, remedy));
            }
            _ => {}
        }
    }
}

/// Removes `stream` from the cluster at `url`; it may be gone already.
///
/// # Errors
/// It may be left behind, and how to remove it.
pub(crate) fn remove_stream(url: &str, plain_password: bool, stream: &str) -> Result<()> {
    runtime()?.block_on(async { delete(remote::client(url, plain_password).await?, stream).await })
}

fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::caused("no runtime for its client", error, ""))
}

impl EngineClient for Nats {
    fn facts(&self) -> &EngineFacts {
        &self.facts
    }

    fn run(&mut self, request: &BlockRequest<'_>, until: Until<'_>) -> Result<Sample, Cause> {
        Ok(self.runtime.block_on(self.send_all(request, until))?)
    }

    fn close(&mut self) -> Result<(), Cause> {
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        // It starts a task of its own.
        let _inside = self.runtime.enter();
        Ok(self.runtime.block_on(delete(self.context.client(), &self.stream))?)
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        // A caller that reports what was left behind has called it before.
        let _ = self.close();
    }
}

/// A refusal of `JetStream`, with what to do about it.
fn refused(refusal: async_nats::jetstream::Error) -> Error {
    let advice = match refusal.error_code() {
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED | ErrorCode::CLUSTER_NO_PEERS => {
            "it is too small: three replicas need three servers with JetStream in one cluster"
        }
        ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
            "enable JetStream for its servers and for this account"
        }
        ErrorCode::INSUFFICIENT_RESOURCES | ErrorCode::STORAGE_RESOURCES_EXCEEDED => {
            "it has no room for a stream of 256 MiB in three copies: raise max_file_store or the account's limits"
        }
        _ => "the account must be allowed to create a stream, to publish to it and to delete it",
    };
    Error::caused("it refused to create a stream", refusal, advice)
}
