//! Opens destinations by their addresses.
//!
//! ```text
//! nats://HOST:PORT[,HOST:PORT…]/STREAM    feature `nats`
//! kafka://HOST:PORT[,HOST:PORT…]/TOPIC    feature `kafka`
//! s3://BUCKET[/PREFIX]                    feature `s3`: S3-compatible stores
//! az://CONTAINER[/PREFIX]                 feature `azure`: Azure Blob Storage
//! gs://BUCKET[/PREFIX]                    feature `gcs`: Google Cloud Storage
//! folder:PATH, or a path with a slash     a folder
//! ```

use crate::archive::{Archive, ArchiveSettings};
use crate::destination::Destination;
use crate::error::{Error, Result};
use crate::folder::{Folder, lies_apart, normal};
use crate::note::hold_name;
use crate::upload::Upload;
use seawall::Hold;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A kind of object store: a row of [`STORE_KINDS`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoreKind {
    /// The scheme of its addresses.
    pub(crate) scheme: &'static str,
    /// What an address looks like.
    form: &'static str,
    /// Its name.
    pub(crate) name: &'static str,
    /// The feature that contains its client.
    pub(crate) feature: &'static str,
}

/// All of them.
static STORE_KINDS: [StoreKind; 3] = [
    StoreKind { scheme: "s3://", form: "s3://BUCKET/PREFIX", name: "an S3-compatible store", feature: "s3" },
    StoreKind {
        scheme: "az://",
        form: "az://CONTAINER/PREFIX",
        name: "Azure Blob Storage",
        feature: "azure",
    },
    StoreKind { scheme: "gs://", form: "gs://BUCKET/PREFIX", name: "Google Cloud Storage", feature: "gcs" },
];

impl StoreKind {
    /// The one that an address names, its bucket and the prefix.
    pub(crate) fn of(address: &str) -> Option<(&'static Self, &str, &str)> {
        STORE_KINDS.iter().find_map(|kind| {
            let rest = address.strip_prefix(kind.scheme)?;
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            Some((kind, bucket, prefix))
        })
    }

    /// This build has no client for it.
    pub(crate) fn missing(&self) -> Error {
        let Self { name, feature, .. } = self;
        Error::unfit(format!("this build has no client for {name}: build it with the feature `{feature}`"))
    }
}

/// How a destination is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Whether to create the destination if it does not exist, and to probe an object store.
    pub create: bool,
    /// Of streams and topics that are created.
    pub replicas: usize,
    /// Monitoring ports of NATS servers.
    pub monitors: Vec<String>,
    /// A file of librdkafka's properties: TLS and credentials of Kafka.
    pub kafka_config: Option<PathBuf>,
    /// The user declares it off-site.
    pub elsewhere: bool,
    /// Whether a password may go unencrypted to another host.
    pub plain_password: bool,
    /// The size of objects.
    pub object_bytes: usize,
    /// How long batches are gathered for an object.
    pub gather_time: Duration,
    /// Memory for objects that are read ahead.
    pub memory_bytes: usize,
    /// The folder of the log that is shipped there, if any: a destination that its hold knows must exist and is never created.
    pub log: Option<PathBuf>,
    /// How long a request of an object store is retried before it counts as failed.
    pub tried_for: Duration,
    /// The most bytes of an archive that are read a second.
    pub bytes_per_second: Option<NonZeroU64>,
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
            memory_bytes: ArchiveSettings::default().memory_bytes,
            bytes_per_second: None,
            log: None,
            tried_for: Duration::from_mins(2),
        }
    }
}

/// An open destination, and its cost if known.
pub struct Opened {
    /// The destination.
    pub destination: Box<dyn Destination>,
    /// The most requests a day, without those that only a full object or a new segment causes.
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
    if address.contains(char::is_control) {
        let reason = format!("{address:?}: it contains control characters");
        return Err(Error::Option { option: "address", reason });
    }
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
    if let Some((kind, bucket, _)) = StoreKind::of(address) {
        if bucket.is_empty() {
            return Err(wrong(&format!("name the bucket or container, {}", kind.form)));
        }
        return object(address, kind, opening);
    }
    let path = address.strip_prefix("folder:").or_else(|| address.contains(['/', '\\']).then_some(address));
    if let Some(path) = path.filter(|path| !path.contains("://") && !path.is_empty()) {
        return Ok(archived(folder(Path::new(path), opening)?, opening));
    }
    let stores = STORE_KINDS.iter().map(|kind| kind.form).collect::<Vec<_>>().join(", ");
    Err(wrong(&format!("write nats://HOST:PORT/STREAM, kafka://HOST:PORT/TOPIC, {stores}, or folder:PATH")))
}

/// The address without users and passwords.
#[must_use]
pub fn shown(address: &str) -> String {
    let hidden = address.split_once("://").and_then(|(scheme, rest)| {
        let (_, rest) = rest.rsplit_once('@')?;
        Some(format!("{scheme}://…@{rest}"))
    });
    hidden.unwrap_or_else(|| address.to_owned())
}

/// The folder at `path`: made only if no log was shipped there before, so that one whose disk is not mounted is not taken for a new one.
fn folder(path: &Path, opening: &Opening) -> Result<Folder> {
    let path = normal(path)?;
    let mut is_known = false;
    if let Some(log) = &opening.log {
        lies_apart(log, &path)?;
        is_known = Hold::read(log, &hold_name(&format!("folder:{}", path.display())))?.is_some();
    }
    if opening.create && !is_known { Folder::open(path) } else { Folder::existing(path) }
}

fn archived<S: crate::archive::Store + 'static>(store: S, opening: &Opening) -> Opened {
    let Opening { object_bytes, elsewhere, memory_bytes, bytes_per_second, .. } = *opening;
    let settings = ArchiveSettings { object_bytes, elsewhere, memory_bytes, bytes_per_second };
    let archive = Archive::new(store, settings);
    let requests_per_day = Some(archive.requests_per_day(opening.gather_time, 0));
    Opened { destination: Box::new(Upload::new(archive)), requests_per_day }
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

#[cfg(feature = "objects")]
fn object(address: &str, _: &StoreKind, opening: &Opening) -> Result<Opened> {
    Ok(archived(crate::object::Bucket::open_for(address, opening.tried_for)?, opening))
}

#[cfg(not(feature = "objects"))]
fn object(_: &str, kind: &StoreKind, _: &Opening) -> Result<Opened> {
    Err(kind.missing())
}

#[cfg(test)]
mod tests {
    use super::{Opening, STORE_KINDS, StoreKind, open};
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
            "az:///prefix",
            "gs://",
            "http://a/b",
            "folder:",
            "folder:a\nb",
            "s3://a/b\nc",
        ] {
            let refused = open(address, &Opening::default()).map(drop);
            assert!(matches!(refused, Err(Error::Option { .. })), "{address}: {refused:?}");
        }
        let missing = open("/nowhere/at/all", &Opening::default()).map(drop);
        assert!(matches!(missing, Err(Error::Unfit { .. })), "{missing:?}");
    }
    #[test]
    fn each_store_has_a_scheme_and_a_feature_of_its_own_and_is_found_by_its_form() {
        for (at, kind) in STORE_KINDS.iter().enumerate() {
            let (found, place, prefix) = StoreKind::of(kind.form).expect("its own form");
            assert!(std::ptr::eq(found, kind) && !place.is_empty() && prefix == "PREFIX");
            assert!(kind.missing().to_string().contains(&format!("`{}`", kind.feature)));
            let others = STORE_KINDS.iter().skip(at + 1);
            for other in others {
                assert!(other.scheme != kind.scheme && other.feature != kind.feature);
            }
        }
        assert_eq!(StoreKind::of("folder:s3://a/b"), None);
    }
}
