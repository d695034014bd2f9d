//! Reads the sync policy of a stream's NATS servers from their monitoring ports.
//!
//! It requests `/varz` of each given port; `jetstream.config` holds `sync_always` or `sync_interval` in nanoseconds.
//! A client's connection shows neither.
//!
//! Invariants: an engine syncs first only if every server that holds the stream reports so; a port that does not
//! answer, or is no NATS server's, is an error.

use crate::failure::Synced;
use crate::remote::{Cause, Error, Policy, Result};
use serde::Deserialize;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// How long a port may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The largest answer that is read, bytes: they are some kilobytes.
const ANSWER_MAX: u64 = 4 << 20;

/// What a server reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    name: String,
    /// Between syncs; `None`: always, before each acknowledgement.
    interval: Option<Duration>,
}

/// Why a port's answer gives no sync policy.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("not a NATS server's answer: {0}")]
    NotVarz(serde_json::Error),
    #[error("that server has no JetStream")]
    NoJetStream,
    #[error("it reports no sync_interval")]
    NoInterval,
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

/// Reads every port.
pub(super) fn read_all(ports: &[String]) -> Result<Vec<Server>> {
    ports.iter().flat_map(|ports| ports.split(',')).map(|port| read(port.trim())).collect()
}

fn read(port: &str) -> Result<Server> {
    if port.starts_with("https://") {
        let what = format!("the monitoring port {port} speaks TLS, which is not understood here");
        return Err(Error::failed(what, "name its http_port"));
    }
    let address = port.strip_prefix("http://").unwrap_or(port).trim_end_matches('/');
    get(address, "/varz").map_err(Cause::from).and_then(|body| Ok(parse(&body)?)).map_err(|error| {
        let remedy = "name what `http` or `-m` of its servers says, or leave --nats-monitor away, and the sync policy is reported as unknown";
        Error::caused(format!("the monitoring port {address} gives no sync policy"), error, remedy)
    })
}

/// A plain HTTP request; the answer's body.
fn get(address: &str, path: &str) -> std::io::Result<String> {
    let missing = || std::io::Error::new(std::io::ErrorKind::NotFound, "no such address");
    let socket = address.to_socket_addrs()?.next().ok_or_else(missing)?;
    let mut stream = TcpStream::connect_timeout(&socket, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    // Of 1.0, so that the answer comes in one piece and the connection is closed after it.
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

fn parse(body: &str) -> Result<Server, Unreadable> {
    let varz: Varz = serde_json::from_str(body).map_err(Unreadable::NotVarz)?;
    let config = varz.jetstream.config.ok_or(Unreadable::NoJetStream)?;
    let interval = match (config.sync_always, config.sync_interval) {
        (true, _) => None,
        (false, Some(ns)) => Some(Duration::from_nanos(ns)),
        (false, None) => return Err(Unreadable::NoInterval),
    };
    Ok(Server { name: varz.server_name, interval })
}

/// The policy of a stream that the servers called `names` hold, of which `servers` could be read.
pub(super) fn policy(names: &[String], servers: &[Server]) -> Policy {
    // Servers of several clusters may share a name: then all of that name must agree.
    let holding: Vec<&Server> = servers.iter().filter(|server| names.contains(&server.name)).collect();
    let all = names.len();
    let known = names.iter().filter(|name| holding.iter().any(|server| server.name == **name)).count();
    let read_from = match known {
        0 => "nowhere: no monitoring port of its servers was named".to_owned(),
        n => format!("the monitoring ports of {n} of its {all} servers"),
    };
    if holding.is_empty() {
        return Policy::unknown("sync_interval", read_from);
    }
    let interval = |server: &&Server| {
        let every = server.interval.map(|every| humantime::format_duration(every).to_string());
        every.unwrap_or_else(|| "always".to_owned())
    };
    let mut intervals: Vec<String> = holding.iter().map(interval).collect();
    intervals.sort();
    intervals.dedup();
    let unknown = all - known;
    let rest = if unknown == 0 { String::new() } else { format!(" and unknown of {unknown}") };
    let setting = format!("sync_interval: {}{rest}", intervals.join(" and "));
    let always = holding.iter().all(|server| server.interval.is_none());
    let synced = match (always, unknown) {
        (false, _) => Synced::After,
        (true, 0) => Synced::Before,
        (true, _) => Synced::Unknown,
    };
    let id = match (synced, intervals.as_slice()) {
        (Synced::Unknown, _) => "unknown".to_owned(),
        (_, [one]) => one.replace(' ', ""),
        _ => "mixed".to_owned(),
    };
    Policy { synced, setting, read_from, id }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, seconds: Option<u64>) -> Server {
        Server { name: name.to_owned(), interval: seconds.map(Duration::from_secs) }
    }

    fn of(servers: &[Server]) -> (Synced, String) {
        let policy = policy(&["a", "b", "c"].map(str::to_owned), servers);
        (policy.synced, policy.id)
    }

    #[test]
    fn it_syncs_first_only_if_every_server_of_the_stream_says_so() {
        use Synced::{After, Before, Unknown};
        let always = ["a", "b", "c"].map(|name| server(name, None));
        assert_eq!(of(&always), (Before, "always".to_owned()));
        assert_eq!(of(&always[..2]), (Unknown, "unknown".to_owned()));
        assert_eq!(of(&[]), (Unknown, "unknown".to_owned()));
        assert_eq!(of(&["a", "b", "c"].map(|name| server(name, Some(120)))), (After, "2m".to_owned()));
        let mixed = [server("a", None), server("b", Some(120)), server("c", None)];
        assert_eq!(of(&mixed), (After, "mixed".to_owned()));
        let shared =
            ["a", "b", "c", "a", "b", "c"].into_iter().zip([None, None, None, Some(120), None, None]);
        let shared: Vec<Server> = shared.map(|(name, every)| server(name, every)).collect();
        assert_eq!(of(&shared), (After, "mixed".to_owned()), "two clusters with servers of the same names");
        let others = ["x", "y", "z"].map(|name| server(name, None));
        assert_eq!(of(&others), (Unknown, "unknown".to_owned()), "servers that do not hold the stream");
    }

    #[test]
    fn a_server_s_answer_is_understood_and_anything_else_is_refused() {
        let varz = |config: &str| format!(r#"{{"server_name":"a","version":"2.15.2","jetstream":{config}}}"#);
        let parsed = parse(&varz(r#"{"config":{"sync_interval":120000000000}}"#));
        assert_eq!(parsed.expect("an interval"), server("a", Some(120)));
        let always = varz(r#"{"config":{"sync_interval":120000000000,"sync_always":true}}"#);
        assert_eq!(parse(&always).expect("always"), server("a", None));
        assert!(matches!(parse(&varz("{}")), Err(Unreadable::NoJetStream)));
        assert!(matches!(parse(&varz(r#"{"config":{}}"#)), Err(Unreadable::NoInterval)));
        assert!(parse("<html>").is_err());
    }

    #[test]
    fn a_port_that_does_not_answer_is_an_error_with_a_remedy() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        drop(listener);
        let refusal =
            read_all(std::slice::from_ref(&address)).expect_err("nothing listens there").to_string();
        assert!(refusal.contains(&address) && refusal.contains("--nats-monitor"), "{refusal}");
        assert!(
            read_all(&["https://x:1".to_owned()]).is_err_and(|error| error.to_string().contains("http_port"))
        );
    }
}
