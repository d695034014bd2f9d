//! Chooses a cluster's ports: consecutive from a given one, or currently free ones.

use crate::{Error, Result};
use std::net::{Ipv4Addr, TcpListener};

/// Ports of one node: for clients, for the other nodes, for monitoring.
pub(super) const PER_NODE: usize = 3;

/// So many free ports on 127.0.0.1.
pub(super) fn choose(first: Option<u16>, count: usize) -> Result<Vec<u16>> {
    let wanted = |index: usize| match first {
        None => Some(0),
        Some(first) => u16::try_from(index).ok().and_then(|index| first.checked_add(index)),
    };
    // All are held until the last is found, so that none is found twice.
    let mut held = Vec::new();
    for index in 0..count {
        let port = wanted(index).ok_or_else(|| Error::Option {
            option: "--port",
            reason: "must leave room for nine ports below 65536".to_owned(),
        })?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
            let remedy = "choose others with --port, or leave it away";
            Error::caused(format!("port {port} cannot be used"), error, remedy)
        })?;
        held.push(listener);
    }
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    held.iter().map(port).collect::<Result<_, _>>().map_err(|error| Error::caused("no port", error, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_one_in_use_is_refused_by_its_number() {
        let mut ports = choose(None, 9).expect("nine ports");
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 9);
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = taken.local_addr().expect("its address").port();
        let refusal = choose(Some(port), 1).expect_err("in use").to_string();
        assert!(refusal.contains(&port.to_string()) && refusal.contains("--port"), "{refusal}");
        assert!(choose(Some(u16::MAX), 2).is_err());
    }
}
