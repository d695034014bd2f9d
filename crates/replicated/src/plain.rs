//! Refuses to send a password over a connection that anybody on the way can read.
//!
//! `nats://` is encrypted only if the server asks for it, which somebody on the way can leave out; `tls://` and `wss://`,
//! or certificates named by `NATS_CA` or `NATS_CERT`, insist on it. What goes to this host's own loopback is read by nobody
//! on the way.

use crate::redacted;
use std::net::IpAddr;

/// Refuses if a secret, of the credentials or of an address, would go unencrypted to another host.
///
/// # Errors
/// The address, without the secret, and the remedies.
pub(crate) fn refuse(addresses: &str, has_secret: bool, is_encrypted: bool) -> Result<(), String> {
    let mut exposed = addresses
        .split(',')
        .map(str::trim)
        .filter(|one| (has_secret || one.contains('@')) && !is_encrypted && !is_safe(one));
    match exposed.next() {
        None => Ok(()),
        Some(address) => Err(format!(
            "the password or token would go unencrypted to {}: write tls://HOST:PORT, name the authority by NATS_CA, or \
             allow it with --nats-plain-password",
            redacted::addresses(address)
        )),
    }
}

/// Whether the address insists on encryption, or stays on this host.
fn is_safe(address: &str) -> bool {
    let (scheme, rest) = address.split_once("://").unwrap_or(("nats", address));
    if matches!(scheme.to_ascii_lowercase().as_str(), "tls" | "wss") {
        return true;
    }
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::refuse;

    #[test]
    fn a_secret_goes_unencrypted_to_this_host_only() {
        for (addresses, has_secret, is_encrypted, held) in [
            ("nats://10.0.0.1:4222", false, false, true),
            ("nats://10.0.0.1:4222", true, false, false),
            ("10.0.0.1:4222", true, false, false),
            ("NATS://example.org", true, false, false),
            ("ws://example.org", true, false, false),
            ("nats://10.0.0.1:4222", true, true, true),
            ("tls://10.0.0.1:4222", true, false, true),
            ("wss://example.org/nats", true, false, true),
            ("nats://127.0.0.1:4222,localhost:1,nats://[::1]:4222,nats://127.9.9.9", true, false, true),
            ("nats://127.0.0.1:4222,nats://10.0.0.1", true, false, false),
            ("nats://localhost.example.org", true, false, false),
            ("nats://127.0.0.1@example.org", false, false, false),
            ("nats://me:secret@10.0.0.1:4222", false, false, false),
            ("nats://me:secret@127.0.0.1:4222", false, false, true),
            ("tls://me:secret@10.0.0.1:4222", false, false, true),
        ] {
            let told = refuse(addresses, has_secret, is_encrypted);
            assert_eq!(told.is_ok(), held, "{addresses}: {told:?}");
            let told = told.err().unwrap_or_default();
            assert!(!told.contains("secret@"), "{told}");
            assert!(held || told.contains("--nats-plain-password"), "{told}");
        }
    }
}
