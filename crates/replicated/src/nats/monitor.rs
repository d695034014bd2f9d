//! Reads the sync policy of a stream's NATS servers from their monitoring ports.
//!
//! It requests `/varz` of each given port; `jetstream.config` holds `sync_always` or `sync_interval` in nanoseconds.
//! A client's connection shows neither.
//!
//! Invariants: an engine syncs first only if every server that holds the stream reports so; a port that does not
//! answer, or is no NATS server's, is an error.

use seawall_gauge::scenario::replicated::promise::SyncPolicy;
use serde::Deserialize;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// How long a port may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest answer that is read, bytes: they are some kilobytes.
const ANSWER_MAX: u64 = 4 << 20;

/// What a server tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    server: String,
    /// Between syncs; `None`: always, before each acknowledgement.
    interval: Option<Duration>,
}

/// A policy, and how it is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) sync: SyncPolicy,
    pub(super) setting: String,
    pub(super) read_from: String,
    /// The end of the engine's id.
    pub(super) id: String,
}

#[derive(Deserialize)]
struct Varz {
    server_name: String,
    #[serde(default)]
    jetstream: JetStream,
}

#[derive(Default, Deserialize)]
struct JetStream {
    config: Option<Config>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    sync_always: bool,
    sync_interval: Option<u64>,
}

/// Asks every port.
pub(super) fn read_all(ports: &[String]) -> Result<Vec<Told>, String> {
    ports.iter().flat_map(|ports| ports.split(',')).map(|port| read(port.trim())).collect()
}

fn read(port: &str) -> Result<Told, String> {
    if port.starts_with("https://") {
        return Err(format!(
            "the monitoring port {port} speaks TLS, which is not understood here: name its http_port"
        ));
    }
    let address = port.strip_prefix("http://").unwrap_or(port).trim_end_matches('/');
    let told = |error: &dyn std::fmt::Display| {
        format!(
            "the monitoring port {address} does not tell ({error}): name what `http` or `-m` of its servers says, or leave --nats-monitor away, and the sync policy is called unknown"
        )
    };
    let body = get(address, "/varz").map_err(|error| told(&error))?;
    parse(&body).map_err(|error| told(&error))
}

/// A plain HTTP request; the answer's body.
fn get(address: &str, path: &str) -> std::io::Result<String> {
    let missing = || std::io::Error::new(std::io::ErrorKind::NotFound, "no such address");
    let socket = address.to_socket_addrs()?.next().ok_or_else(missing)?;
    let mut stream = TcpStream::connect_timeout(&socket, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Of 1.0, so that the answer comes in one piece and the connection is closed behind it.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(std::io::Error::other(format!("it answered `{status}`")));
    }
    Ok(body.to_owned())
}

fn parse(body: &str) -> Result<Told, String> {
    let varz: Varz =
        serde_json::from_str(body).map_err(|error| format!("not a NATS server's answer: {error}"))?;
    let config = varz.jetstream.config.ok_or_else(|| "that server has no JetStream".to_owned())?;
    let interval = match (config.sync_always, config.sync_interval) {
        (true, _) => None,
        (false, Some(ns)) => Some(Duration::from_nanos(ns)),
        (false, None) => return Err("it tells no sync_interval".to_owned()),
    };
    Ok(Told { server: varz.server_name, interval })
}

/// What the servers that hold a stream have told together.
pub(super) fn policy(servers: &[String], told: &[Told]) -> Policy {
    // Servers of several clusters may share a name: then all of that name must agree.
    let asked: Vec<&Told> = told.iter().filter(|told| servers.contains(&told.server)).collect();
    let all = servers.len();
    let known = servers.iter().filter(|server| asked.iter().any(|told| told.server == **server)).count();
    let read_from = match known {
        0 => "nowhere: no monitoring port of its servers was named".to_owned(),
        n => format!("the monitoring ports of {n} of its {all} servers"),
    };
    let name = |told: &Told| {
        told.interval
            .map_or_else(|| "always".to_owned(), |every| humantime::format_duration(every).to_string())
    };
    let Some(first) = asked.first() else {
        return Policy {
            sync: SyncPolicy::Untold,
            setting: "sync_interval not told".to_owned(),
            read_from,
            id: "untold".to_owned(),
        };
    };
    let mut names: Vec<String> = asked.iter().map(|told| name(told)).collect();
    names.sort();
    names.dedup();
    let untold = all - known;
    let rest = if untold == 0 { String::new() } else { format!(" and not told by {untold}") };
    let setting = format!("sync_interval: {}{rest}", names.join(" and "));
    let policy = if asked.iter().any(|told| told.interval.is_some()) {
        SyncPolicy::After
    } else if untold > 0 {
        SyncPolicy::Untold
    } else {
        SyncPolicy::Before
    };
    let id = match policy {
        SyncPolicy::Untold => "untold".to_owned(),
        _ if names.len() == 1 => name(first).replace(' ', ""),
        _ => "mixed".to_owned(),
    };
    Policy { sync: policy, setting, read_from, id }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(server: &str, seconds: Option<u64>) -> Told {
        Told { server: server.to_owned(), interval: seconds.map(Duration::from_secs) }
    }

    fn of(told: &[Told]) -> (SyncPolicy, String) {
        let servers = ["a", "b", "c"].map(str::to_owned);
        let policy = policy(&servers, told);
        (policy.sync, policy.id)
    }

    #[test]
    fn it_syncs_first_only_if_every_server_of_the_stream_says_so() {
        use SyncPolicy::{After, Before, Untold};
        let always = ["a", "b", "c"].map(|server| told(server, None));
        assert_eq!(of(&always), (Before, "always".to_owned()));
        assert_eq!(of(&always[..2]), (Untold, "untold".to_owned()));
        assert_eq!(of(&[]), (Untold, "untold".to_owned()));
        assert_eq!(of(&["a", "b", "c"].map(|server| told(server, Some(120)))), (After, "2m".to_owned()));
        let mixed = [told("a", None), told("b", Some(120)), told("c", None)];
        assert_eq!(of(&mixed), (After, "mixed".to_owned()));
        let shared =
            ["a", "b", "c", "a", "b", "c"].into_iter().zip([None, None, None, Some(120), None, None]);
        let shared: Vec<Told> = shared.map(|(server, every)| told(server, every)).collect();
        assert_eq!(of(&shared), (After, "mixed".to_owned()), "two clusters with servers of the same names");
        let strangers = ["x", "y", "z"].map(|server| told(server, None));
        assert_eq!(of(&strangers), (Untold, "untold".to_owned()), "servers that do not hold the stream");
    }

    #[test]
    fn a_server_s_answer_is_understood_and_anything_else_is_refused() {
        let varz = |config: &str| format!(r#"{{"server_name":"a","version":"2.15.2","jetstream":{config}}}"#);
        assert_eq!(parse(&varz(r#"{"config":{"sync_interval":120000000000}}"#)), Ok(told("a", Some(120))));
        let always = varz(r#"{"config":{"sync_interval":120000000000,"sync_always":true}}"#);
        assert_eq!(parse(&always), Ok(told("a", None)));
        assert!(parse(&varz("{}")).is_err_and(|error| error.contains("no JetStream")));
        assert!(parse(&varz(r#"{"config":{}}"#)).is_err_and(|error| error.contains("sync_interval")));
        assert!(parse("<html>").is_err());
    }

    #[test]
    fn a_port_that_does_not_answer_is_an_error_with_a_remedy() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        drop(listener);
        let refusal = read_all(std::slice::from_ref(&address)).expect_err("nobody listens");
        assert!(refusal.contains(&address) && refusal.contains("--nats-monitor"), "{refusal}");
        assert!(read_all(&["https://x:1".to_owned()]).is_err_and(|error| error.contains("http_port")));
    }
}
