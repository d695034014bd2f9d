//! Connects to NATS servers with the credentials of the environment, and reads when they sync.
//!
//! Invariant: the sync policy comes from the servers' monitoring ports ([`monitor`]) and from nowhere else.

mod credentials;
mod monitor;

use super::{Error, Policy, Result, plain};
use async_nats::jetstream::stream::Info;
use async_nats::rustls::{self, AlertDescription};
use async_nats::{Client, ConnectOptions, ServerAddr};
use seawall_host::machine::is_here;
use std::io;
use std::time::Duration;

/// How long to wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
const CERTIFICATES: &str = "name the certificates by NATS_CA, NATS_CERT and NATS_KEY";

/// A connection to the cluster at `url`, with the credentials of the environment.
///
/// # Errors
/// What is wrong, and the remedy.
pub async fn client(url: &str, plain_password: bool) -> Result<Client> {
    let parsed = url.split(',').map(|one| one.trim().parse::<ServerAddr>()).collect::<Result<Vec<_>, _>>();
    let servers = parsed.map_err(|error| {
        Error::caused("not an address", error, "write nats://HOST:PORT, several with commas")
    })?;
    let found = credentials::find_in_environment()?;
    if !plain_password {
        plain::refuse(url, found.has_secret(), found.is_encrypted())?;
    }
    let options = found.apply(ConnectOptions::new()).await?;
    let connected = options.name("seawall").connection_timeout(CONNECT).connect(servers).await;
    connected.map_err(|error| {
        let advice = match error.kind() {
            async_nats::ConnectErrorKind::Authentication
            | async_nats::ConnectErrorKind::AuthorizationViolation => {
                "name the credentials by NATS_CREDS, NATS_USER and NATS_PASSWORD, NATS_TOKEN or NATS_CONTEXT"
            }
            async_nats::ConnectErrorKind::Tls => CERTIFICATES,
            async_nats::ConnectErrorKind::Io if is_about_certificates(&error) => CERTIFICATES,
            _ => "is it running, and is this its client port? docs/replicated.md has a cluster to try",
        };
        Error::caused("no connection", error, advice)
    })
}

/// Whether a TLS handshake failed because of a certificate, of either side: what it met lies in an input/output error.
fn is_about_certificates(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut met = std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>());
    met.any(|met| match met {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => true,
        rustls::Error::AlertReceived(alert) => matches!(
            alert,
            AlertDescription::NoCertificate
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateRequired
                | AlertDescription::UnknownCA
        ),
        _ => false,
    })
}

/// When the servers of the stream that `info` describes sync, by what their monitoring ports report.
///
/// # Errors
/// The port that cannot be read, and the remedy.
pub fn policy(info: &Info, monitors: &[String]) -> Result<Policy> {
    let cluster = info.cluster.iter();
    let names = cluster
        .flat_map(|cluster| cluster.leader.iter().chain(cluster.replicas.iter().map(|peer| &peer.name)));
    let names: Vec<String> = names.cloned().collect();
    Ok(monitor::policy(&names, &monitor::read_all(monitors)?))
}

/// Whether every server is reached by an address of this machine: those named and those that the cluster reports.
#[must_use]
pub fn on_this_machine(url: &str, client: &Client) -> bool {
    let reported = client.server_info().connect_urls.clone();
    url.split(',').chain(reported.iter().map(String::as_str)).all(is_here)
}

#[cfg(test)]
mod tests {
    use super::is_about_certificates;
    use async_nats::rustls::{AlertDescription, CertificateError, Error};
    use async_nats::{ConnectError, ConnectErrorKind};
    use std::io::{self, ErrorKind};

    #[test]
    fn certificates_are_advised_where_one_was_missing_or_refused_and_nowhere_else() {
        let met =
            |error: io::Error| is_about_certificates(&ConnectError::with_source(ConnectErrorKind::Io, error));
        let in_handshake = |error: Error| met(io::Error::new(ErrorKind::InvalidData, error));
        assert!(in_handshake(CertificateError::UnknownIssuer.into()), "the server's is unknown here");
        assert!(
            in_handshake(Error::AlertReceived(AlertDescription::CertificateRequired)),
            "the server wants one"
        );
        assert!(in_handshake(Error::AlertReceived(AlertDescription::UnknownCA)), "ours is unknown there");
        assert!(!in_handshake(Error::AlertReceived(AlertDescription::ProtocolVersion)));
        assert!(!met(io::Error::new(ErrorKind::InvalidData, "a port that speaks another protocol")));
        assert!(!met(ErrorKind::ConnectionRefused.into()));
    }
}
