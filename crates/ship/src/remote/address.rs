//! Reads addresses of servers: their hosts, and how they print without passwords.

#[cfg(any(test, feature = "nats"))]
use std::net::IpAddr;

/// Addresses separated by commas, without users, passwords and tokens.
#[must_use]
pub fn redacted(addresses: &str) -> String {
    addresses.split(',').map(redacted_one).collect::<Vec<_>>().join(",")
}

fn redacted_one(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let shown = rest.rsplit_once('@').map_or_else(|| rest.to_owned(), |(_, host)| format!("…@{host}"));
    if scheme.is_empty() { shown } else { format!("{scheme}://{shown}") }
}

/// Whether `[SCHEME://][USER:PASSWORD@]HOST[:PORT][/…]` is on this machine's loopback.
#[cfg(any(test, feature = "nats"))]
pub(crate) fn is_loopback(address: &str) -> bool {
    let name = seawall_host::machine::host(address);
    let ip = name.parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_passwords_are_left_out_and_nothing_else() {
        assert_eq!(redacted("nats://a:p@ss@host:1,host2:2"), "nats://…@host:1,host2:2");
        assert_eq!(redacted("token@host"), "…@host");
        assert_eq!(redacted("host:9092"), "host:9092");
    }

    #[test]
    fn only_loopback_is_this_machine() {
        for here in [
            "nats://127.0.0.1:4222",
            "localhost:4222",
            "[::1]:4222",
            "nats://me:pw@127.0.0.1:1",
            "127.1.2.3",
            "::1",
        ] {
            assert!(is_loopback(here), "{here}");
        }
        for there in [
            "nats://10.0.0.1:4222",
            "example:4222",
            "[2001:db8::1]:4222",
            "127.0.0.1.example:1",
            "",
            "kafka-1",
        ] {
            assert!(!is_loopback(there), "{there}");
        }
    }
}
