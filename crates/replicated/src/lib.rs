//! Measures replicated engines ([`ENGINES`]) for the gauge, and logs that are shipped to their clusters.
//!
//! ```text
//!   seawall bench replicated --kafka … --nats …    connect: one EngineClient for each sync policy found
//!                                                 shipped: one for each way in which a shipped commit waits
//! ```
//!
//! Invariants: only clusters that the caller named are contacted; every request to a cluster has a time limit; each
//! engine writes to a stream of its own, named `seawall-PID-…`, which its `close` removes; a password is never
//! printed.

#[cfg(any(feature = "kafka", feature = "nats"))]
mod client;
mod error;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
#[cfg(any(feature = "kafka", feature = "nats"))]
mod shipped;

pub use error::{Error, Result};

use seawall_gauge::scenario::replicated::Engines;
use seawall_ship::remote::address;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// An engine that this crate knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// Apache Kafka.
    Kafka,
    /// NATS `JetStream`.
    Nats,
}

/// What is known of an engine without a connection.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// Which one.
    pub kind: EngineKind,
    /// As on the command line, and the cargo feature with its client.
    pub name: &'static str,
    /// As its makers call it.
    pub title: &'static str,
    /// Whether this build has its client.
    pub built: bool,
}

/// All engines.
pub const ENGINES: [Known; 2] = [
    Known { kind: EngineKind::Kafka, name: "kafka", title: "Apache Kafka", built: cfg!(feature = "kafka") },
    Known { kind: EngineKind::Nats, name: "nats", title: "NATS JetStream", built: cfg!(feature = "nats") },
];

impl EngineKind {
    /// Its row.
    #[must_use]
    pub fn known(self) -> &'static Known {
        match self {
            Self::Kafka => &ENGINES[0],
            Self::Nats => &ENGINES[1],
        }
    }

    /// Refuses in a build without its client.
    ///
    /// # Errors
    /// How to build one with it.
    pub fn needs_client(self) -> Result<()> {
        if self.known().built { Ok(()) } else { Err(Error::NoClient(self)) }
    }
}

/// Clusters that were named, and how to connect to them.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// Bootstrap servers of Kafka clusters, each `HOST:PORT[,HOST:PORT…]`.
    pub kafka: Vec<String>,
    /// A file of properties as librdkafka knows them: TLS and credentials.
    pub kafka_config: Option<PathBuf>,
    /// Addresses of NATS clusters, each `nats://HOST:PORT[,…]`.
    pub nats: Vec<String>,
    /// Monitoring ports of their servers, `HOST:PORT` each.
    pub nats_monitors: Vec<String>,
    /// Passwords and tokens may go to NATS servers on other hosts without encryption.
    pub nats_plain_password: bool,
    /// How long an acknowledgement may take.
    pub ack_timeout: Duration,
}

impl Named {
    /// Whether no cluster was named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kafka.is_empty() && self.nats.is_empty()
    }

    /// Refuses what can be refused without a connection to any cluster.
    ///
    /// # Errors
    /// The option, and the remedy.
    pub fn check(&self) -> Result<()> {
        if !self.kafka.is_empty() {
            EngineKind::Kafka.needs_client()?;
        }
        if !self.nats.is_empty() {
            EngineKind::Nats.needs_client()?;
        }
        let (no_kafka, no_nats) = (self.kafka.is_empty(), self.nats.is_empty());
        let rules = [
            (
                self.kafka_config.is_some() && no_kafka,
                "--kafka-config",
                "is of no use without --kafka BOOTSTRAP",
            ),
            (!self.nats_monitors.is_empty() && no_nats, "--nats-monitor", "is of no use without --nats URL"),
            (self.nats_plain_password && no_nats, "--nats-plain-password", "is of no use without --nats URL"),
            (self.ack_timeout < Duration::from_secs(1), "--ack-timeout", "must be at least 1s"),
        ];
        match rules.into_iter().find(|(broken, ..)| *broken) {
            Some((_, option, reason)) => Err(Error::Option { option, reason: reason.to_owned() }),
            None => Ok(()),
        }
    }

    /// The clusters as they may be printed: without passwords.
    #[must_use]
    pub fn redacted(&self) -> String {
        let kafka = self.kafka.iter().map(|one| format!("Kafka at {}", address::redacted(one)));
        let nats = self.nats.iter().map(|one| format!("NATS at {}", address::redacted(one)));
        kafka.chain(nats).collect::<Vec<_>>().join(", ")
    }
}

/// Connects to the named clusters, creates a stream in each for every sync policy that it offers, and has a record
/// acknowledged by each; creates logs in `folder`, if there is one, that are shipped to them. If one cannot be had, those
/// already created are removed again.
///
/// # Errors
/// The cluster, what is wrong with it, and the remedy.
pub fn connect(named: &Named, folder: Option<&Path>, stop: &'static AtomicBool) -> Result<Engines> {
    named.check()?;
    let mut engines = Engines(Vec::new());
    match connect_each(named, folder, stop, &mut engines) {
        Ok(()) => Ok(engines),
        Err(error) => Err(error.and_left(engines.close())),
    }
}

#[cfg_attr(
    not(any(feature = "kafka", feature = "nats")),
    expect(
        unused_variables,
        clippy::unnecessary_wraps,
        reason = "a build without clients connects to nothing"
    )
)]
fn connect_each(
    named: &Named,
    folder: Option<&Path>,
    stop: &'static AtomicBool,
    engines: &mut Engines,
) -> Result<()> {
    #[cfg(feature = "kafka")]
    for bootstrap in &named.kafka {
        kafka::connect(bootstrap, named, stop, &mut engines.0)
            .map_err(|error| of_cluster(EngineKind::Kafka, bootstrap, error))?;
    }
    #[cfg(feature = "nats")]
    for url in &named.nats {
        nats::connect(url, named, stop, &mut engines.0)
            .map_err(|error| of_cluster(EngineKind::Nats, url, error))?;
    }
    #[cfg(any(feature = "kafka", feature = "nats"))]
    if let Some(folder) = folder {
        shipped::connect(named, folder, &mut engines.0).map_err(Error::Shipped)?;
    }
    Ok(())
}

#[cfg(any(feature = "kafka", feature = "nats"))]
fn of_cluster(kind: EngineKind, address: &str, source: Error) -> Error {
    Error::Cluster { kind, address: address::redacted(address), source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Named {
        Named { ack_timeout: Duration::from_secs(30), ..Named::default() }
    }

    #[test]
    fn engines_are_found_by_their_kind_and_names_are_unique() {
        assert!(ENGINES.iter().all(|known| known.kind.known().name == known.name));
        assert_ne!(ENGINES[0].name, ENGINES[1].name);
    }

    #[test]
    fn without_the_feature_the_refusal_names_it() {
        for known in &ENGINES {
            let refusal = known.kind.needs_client();
            assert_eq!(refusal.is_ok(), known.built);
            let refusal = Error::NoClient(known.kind).to_string();
            assert!(refusal.contains(&format!("--features {}", known.name)), "{refusal}");
        }
    }

    #[test]
    fn options_without_their_cluster_are_refused_by_name() {
        assert!(named().check().is_ok());
        let cases = [
            ("--kafka-config", Named { kafka_config: Some("x".into()), ..named() }),
            ("--nats-monitor", Named { nats_monitors: vec!["x".into()], ..named() }),
            ("--nats-plain-password", Named { nats_plain_password: true, ..named() }),
            ("--ack-timeout", Named { ack_timeout: Duration::from_millis(5), ..named() }),
        ];
        for (option, named) in cases {
            let refusal = named.check().expect_err(option);
            assert!(matches!(refusal, Error::Option { option: named, .. } if named == option), "{refusal}");
        }
    }

    #[test]
    fn a_password_is_never_printed() {
        let named = Named { nats: vec!["nats://me:secret@one:4222,two".into()], ..named() };
        assert_eq!(named.redacted(), "NATS at nats://…@one:4222,two");
    }
}
