//! Says whether an address leads to this machine: by its loopback, its interfaces, or a name of either.
//!
//! Invariant: what cannot be found out is not this machine; who asks must not promise anything by that alone.

use std::net::{IpAddr, ToSocketAddrs as _, UdpSocket};

/// The host in `[SCHEME://][USER:PASSWORD@]HOST[:PORT][/…]`, without the brackets of IPv6.
#[must_use]
pub fn host(address: &str) -> &str {
    let address = address.trim();
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    if rest.parse::<IpAddr>().is_ok() {
        return rest;
    }
    match rest.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => rest.split(':').next().unwrap_or_default(),
    }
}

/// Whether the host of `address` is this machine: an address of one of its interfaces, the one that means all of them, or a name that
/// leads to nothing else.
#[must_use]
pub fn is_here(address: &str) -> bool {
    let name = host(address).trim_end_matches('.');
    if name.is_empty() {
        return false;
    }
    if let Ok(ip) = name.parse::<IpAddr>() {
        return is_own(ip);
    }
    let lower = name.to_ascii_lowercase();
    if lower == "localhost" || lower.ends_with(".localhost") {
        return true;
    }
    let Ok(mut found) = (name, 0).to_socket_addrs().map(Iterator::peekable) else { return false };
    found.peek().is_some() && found.all(|found| is_own(found.ip()))
}

/// Only an address of its own can be listened on, and sent from to itself. Wine lets any be listened on.
fn is_own(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let sends_from = |socket: UdpSocket| -> std::io::Result<IpAddr> {
        socket.connect(socket.local_addr()?)?;
        Ok(socket.local_addr()?.ip())
    };
    ip.is_loopback()
        || ip.is_unspecified()
        || UdpSocket::bind((ip, 0)).and_then(sends_from).is_ok_and(|from| from == ip)
}

#[cfg(test)]
mod tests {
    use super::{host, is_here};

    #[test]
    fn hosts_are_read_out_of_addresses() {
        for (address, name) in [
            ("http://a.example:9000/b", "a.example"),
            ("nats://me:p@ss@[::1]:4222", "::1"),
            ("10.0.0.1:9092", "10.0.0.1"),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
            ("https://h?x=@y", "h"),
            ("", ""),
        ] {
            assert_eq!(host(address), name, "{address}");
        }
    }

    #[test]
    fn this_machine_is_known_by_every_name() {
        for here in [
            "127.0.0.1",
            "127.1.2.3:4222",
            "http://0.0.0.0:9000",
            "[::]:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:9000",
            "LOCALHOST:1",
            "s3.localhost",
            "localhost.",
        ] {
            assert!(is_here(here), "{here}");
        }
        for there in ["192.0.2.7", "[2001:db8::1]:4222", "127.0.0.1.example.invalid:1", "", "https://"] {
            assert!(!is_here(there), "{there}");
        }
    }
}
