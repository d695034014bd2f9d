//! Refuses to send a password over a connection that can be read on the way.
//!
//! `nats://` is encrypted only if the server asks for it, and an attacker on the way can remove that request; `tls://` and
//! `wss://`, or certificates named by `NATS_CA` or `NATS_CERT`, insist on it. Loopback traffic does not leave this host.

use super::address::{is_loopback, redacted};
use super::{Error, Result};

/// Refuses if a secret, of the credentials or of an address, would go unencrypted to another host.
///
/// # Errors
/// The address, without the secret, and the remedies.
pub(crate) fn refuse(addresses: &str, has_secret: bool, is_encrypted: bool) -> Result<()> {
    let mut exposed = addresses
        .split(',')
        .map(str::trim)
        .filter(|one| (has_secret || one.contains('@')) && !is_encrypted && !is_safe(one));
    match exposed.next() {
        None => Ok(()),
        Some(address) => Err(Error::failed(
            format!("the password or token would go unencrypted to {}", redacted(address)),
            "write tls://HOST:PORT, name the authority by NATS_CA, or allow it with --nats-plain-password",
        )),
    }
}

/// Whether the address insists on encryption, or stays on this host.
fn is_safe(address: &str) -> bool {
    let scheme = address.split_once("://").map_or("nats", |(scheme, _)| scheme);
    matches!(scheme.to_ascii_lowercase().as_str(), "tls" | "wss") || is_loopback(address)
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
            let refusal = refuse(addresses, has_secret, is_encrypted).err().map(|error| error.to_string());
            assert_eq!(refusal.is_none(), held, "{addresses}: {refusal:?}");
            let refusal = refusal.unwrap_or_default();
            assert!(!refusal.contains("secret@"), "{refusal}");
            assert!(held || refusal.contains("--nats-plain-password"), "{refusal}");
        }
    }
}
