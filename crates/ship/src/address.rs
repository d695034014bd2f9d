//! Opens destinations by their addresses.
//!
//! ```text
//! nats://HOST:PORT[,HOST:PORT…]/STREAM    feature `nats`
//! kafka://HOST:PORT[,HOST:PORT…]/TOPIC    feature `kafka`
//! s3://BUCKET[/PREFIX]                    feature `s3`
//! folder:PATH, or a path with a slash     a folder
//! ```

use crate::archive::{Archive, ArchiveSettings};
use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::folder::Folder;
use std::path::PathBuf;
use std::time::Duration;

/// How a destination is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Whether it is made if there is none, and an object store probed.
    pub create: bool,
    /// Of streams and topics that are created.
    pub replicas: usize,
    /// Monitoring ports of NATS servers.
    pub monitors: Vec<String>,
    /// A file of librdkafka's properties: TLS and credentials of Kafka.
    pub kafka_config: Option<PathBuf>,
    /// Its owner says that it lies at another site.
    pub elsewhere: bool,
    /// Whether a password may go unencrypted to another host.
    pub plain_password: bool,
    /// The size of objects.
    pub object_bytes: usize,
    /// How long batches are gathered for an object.
    pub gather_time: Duration,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            create: false,
            replicas: 3,
            monitors: Vec::new(),
            kafka_config: None,
            elsewhere: false,
            plain_password: false,
            object_bytes: ArchiveSettings::default().object_bytes,
            gather_time: Duration::from_secs(10),
        }
    }
}

/// A destination that was opened, and what it costs if that is known.
pub struct Opened {
    /// The destination.
    pub destination: Box<dyn Destination>,
    /// Requests a day at most that create objects, without those that only a full object causes.
    pub requests_per_day: Option<u64>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("address", &self.destination.address()).finish_non_exhaustive()
    }
}

/// Opens the destination at `address`.
///
/// # Errors
/// [`Error::Option`] for an address that is not understood or needs another build, [`Error::Unavailable`], [`Error::Unfit`].
pub fn open(address: &str, opening: &Opening) -> Result<Opened> {
    let wrong =
        |reason: &str| Error::Option { option: "address", reason: format!("{}: {reason}", shown(address)) };
    if let Some(rest) = address.strip_prefix("nats://").or_else(|| address.strip_prefix("tls://")) {
        let (_, stream) = rest.rsplit_once('/').unwrap_or((rest, ""));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if stream.is_empty() || !stream.bytes().all(plain) {
            return Err(wrong("name the stream, nats://HOST:PORT/STREAM, with letters, digits, - and _"));
        }
        return nats(address, stream, opening);
    }
    if let Some(rest) = address.strip_prefix("kafka://") {
        let (brokers, topic) = rest.rsplit_once('/').unwrap_or((rest, ""));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if brokers.is_empty() || topic.is_empty() || !topic.bytes().all(plain) {
            return Err(wrong("name the topic, kafka://HOST:PORT/TOPIC, with letters, digits, -, _ and ."));
        }
        return kafka(brokers, topic, opening);
    }
    if let Some(rest) = address.strip_prefix("s3://") {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(wrong("name the bucket, s3://BUCKET/PREFIX"));
        }
        return s3(bucket, prefix, opening);
    }
    let path = address.strip_prefix("folder:").or_else(|| address.contains(['/', '\\']).then_some(address));
    match path.filter(|path| !path.contains("://") && !path.is_empty()) {
        Some(path) if opening.create => archived(Folder::open(path)?, opening),
        Some(path) => archived(Folder::existing(path)?, opening),
        None => Err(wrong(
            "write nats://HOST:PORT/STREAM, kafka://HOST:PORT/TOPIC, s3://BUCKET/PREFIX, or folder:PATH",
        )),
    }
}

/// The address without users and passwords.
fn shown(address: &str) -> String {
    let hidden = address.split_once("://").and_then(|(scheme, rest)| {
        let (_, rest) = rest.rsplit_once('@')?;
        Some(format!("{scheme}://…@{rest}"))
    });
    hidden.unwrap_or_else(|| address.to_owned())
}

fn archived<S: crate::archive::Store + 'static>(store: S, opening: &Opening) -> Result<Opened> {
    let settings = ArchiveSettings { object_bytes: opening.object_bytes, elsewhere: opening.elsewhere };
    let mut archive = Archive::new(store, settings);
    if opening.create {
        archive.probe()?;
    }
    let requests_per_day = Some(archive.requests_per_day(opening.gather_time, 0));
    Ok(Opened { destination: Box::new(archive), requests_per_day })
}

#[cfg(feature = "nats")]
fn nats(address: &str, stream: &str, opening: &Opening) -> Result<Opened> {
    let url = address.strip_suffix(stream).unwrap_or(address).trim_end_matches('/');
    let settings = crate::jetstream::JetStreamSettings {
        url: url.to_owned(),
        stream: stream.to_owned(),
        replicas: opening.replicas,
        monitors: opening.monitors.clone(),
        elsewhere: opening.elsewhere,
        plain_password: opening.plain_password,
    };
    let opened = crate::jetstream::JetStream::open(&settings, opening.create)?;
    Ok(Opened { destination: Box::new(opened), requests_per_day: None })
}

#[cfg(not(feature = "nats"))]
fn nats(_: &str, _: &str, _: &Opening) -> Result<Opened> {
    Err(Error::unfit("this build has no client for NATS JetStream: build it with the feature `nats`"))
}

#[cfg(feature = "kafka")]
fn kafka(brokers: &str, topic: &str, opening: &Opening) -> Result<Opened> {
    let settings = crate::kafka::KafkaSettings {
        bootstrap: brokers.to_owned(),
        topic: topic.to_owned(),
        config: opening.kafka_config.clone(),
        replicas: opening.replicas,
        elsewhere: opening.elsewhere,
    };
    let opened = crate::kafka::Kafka::open(&settings, opening.create)?;
    Ok(Opened { destination: Box::new(opened), requests_per_day: None })
}

#[cfg(not(feature = "kafka"))]
fn kafka(_: &str, _: &str, _: &Opening) -> Result<Opened> {
    Err(Error::unfit("this build has no client for Apache Kafka: build it with the feature `kafka`"))
}

#[cfg(feature = "s3")]
fn s3(bucket: &str, prefix: &str, opening: &Opening) -> Result<Opened> {
    archived(crate::object::Bucket::open(bucket, prefix)?, opening)
}

#[cfg(not(feature = "s3"))]
fn s3(_: &str, _: &str, _: &Opening) -> Result<Opened> {
    Err(Error::unfit("this build has no client for S3: build it with the feature `s3`"))
}

#[cfg(test)]
mod tests {
    use super::{Opening, open};
    use crate::Error;

    #[test]
    fn a_password_in_an_address_is_not_told() {
        for address in ["nats://me:secret@a:1,me:secret@b:2", "kafka://me:s@cret@a:1", "tls://secret@a:1"] {
            let refused = open(address, &Opening::default()).expect_err("names no stream").to_string();
            assert!(refused.contains("…@") && !refused.contains("cret"), "{refused}");
        }
    }

    #[test]
    fn addresses_that_are_not_understood_are_refused_by_name() {
        for address in [
            "",
            "x",
            "nats://a:1",
            "nats://a:1/",
            "nats://a:1/b.c",
            "kafka://a:1",
            "kafka:///b",
            "kafka://a:1/b c",
            "s3://",
            "http://a/b",
            "folder:",
        ] {
            let refused = open(address, &Opening::default()).map(drop);
            assert!(matches!(refused, Err(Error::Option { .. })), "{address}: {refused:?}");
        }
        let missing = open("/nowhere/at/all", &Opening::default()).map(drop);
        assert!(matches!(missing, Err(Error::Unfit { .. })), "{missing:?}");
    }
}
