//! Tests `seawall watch` as a user runs it: what it exports, how it ends, and that nothing stays behind.
//!
//! Invariant: counts and words are asserted, never a latency.

use crate::{SEAWALL, folder, names, printed, seawall};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

/// A watch that serves its metrics, its address, and what else it says.
fn start(folder: &Path, more: &[&str]) -> (Child, String, BufReader<ChildStderr>) {
    let mut child = Command::new(SEAWALL)
        .args([
            "watch",
            "disk",
            "--every",
            "1s",
            "--busy",
            "100",
            "--allow-memory",
            "--listen",
            "127.0.0.1:0",
        ])
        .args(more)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut said = BufReader::new(child.stderr.take().expect("is piped"));
    let mut lines = Vec::new();
    let address = loop {
        let mut line = String::new();
        assert!(said.read_line(&mut line).expect("reads") > 0, "it ended: {lines:?}");
        if let Some(address) = line.trim().strip_prefix("metrics at http://") {
            break address.strip_suffix("/metrics").expect("a path").to_owned();
        }
        lines.push(line);
    };
    assert!(lines.concat().contains("commits and"), "its cost is said: {lines:?}");
    (child, address, said)
}

fn ask(address: &str, request: &str) -> String {
    let mut server = TcpStream::connect(address).expect("connects");
    server.write_all(request.as_bytes()).expect("asks");
    let mut answer = String::new();
    server.read_to_string(&mut answer).expect("answers");
    answer
}

/// The values of a name, whatever its labels.
fn sum(text: &str, name: &str) -> u64 {
    let of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let values = text.lines().filter(of).map(|line| line.rsplit(' ').next().expect("a value"));
    values.map(|value| value.parse::<u64>().expect("a whole number")).sum()
}

#[test]
fn a_watch_counts_its_commits_in_both_forms_and_leaves_only_its_file() {
    let work = folder();
    let disk = work.path().join("disk");
    std::fs::create_dir(&disk).expect("made");
    let more = ["--time", "3s", "--commits", "4", "--openmetrics", "watch.prom"];
    let (mut child, address, _said) = start(work.path(), &more);
    let first = std::fs::read_to_string(work.path().join("watch.prom")).expect("there from the start");
    assert_eq!(sum(&first, "seawall_watch_bursts_total"), 0);
    for (accept, kind, is_open) in [
        ("application/openmetrics-text;version=1.0.0", "application/openmetrics-text; version=1.0.0", true),
        ("text/plain", "text/plain; version=0.0.4", false),
    ] {
        let answer = ask(&address, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(kind), "{answer}");
        assert_eq!(answer.ends_with("# EOF\n"), is_open, "{answer}");
    }
    assert!(ask(&address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask(&address, "DELETE /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    let large = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(8 << 10));
    assert!(ask(&address, &large).starts_with("HTTP/1.1 400"), "a request without an end");
    assert!(child.wait().expect("ends").success());
    let text = std::fs::read_to_string(work.path().join("watch.prom")).expect("written");
    let (bursts, commits) =
        (sum(&text, "seawall_watch_bursts_total"), sum(&text, "seawall_watch_commits_total"));
    assert!((1..=3).contains(&bursts) && (bursts..=bursts * 4).contains(&commits), "{text}");
    assert_eq!(sum(&text, "seawall_watch_commit_seconds_count"), commits);
    assert_eq!(sum(&text, "seawall_watch_written_bytes_total"), commits * 4096);
    assert_eq!(sum(&text, "seawall_watch_failed_bursts_total"), 0);
    assert_eq!(sum(&text, "seawall_watch_outlives"), 1, "one class holds");
    assert!(
        text.contains("\n# TYPE seawall_watch_commits_total counter\n") && !text.contains("# EOF"),
        "{text}"
    );
    assert_eq!(names(&disk), [""; 0]);
    assert_eq!(names(work.path()).len(), 2, "{:?}", names(work.path()));
}

#[test]
fn silent_and_slow_connections_hold_up_no_scrape() {
    let work = folder();
    std::fs::create_dir(work.path().join("disk")).expect("made");
    let (mut child, address, _said) = start(work.path(), &["--method", "buffered"]);
    let mut others: Vec<TcpStream> =
        (0..60).map(|_| TcpStream::connect(&address).expect("connects")).collect();
    for slow in &mut others[30..] {
        slow.write_all(b"GET /metrics HTTP/1.1\r\n").expect("asks half");
    }
    let answer = ask(&address, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    // A server that went from one to the next would have dropped all of those before.
    let stands = |other: &mut TcpStream| {
        other.set_nonblocking(true).expect("set");
        other.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!(others.iter_mut().any(stands));
    child.kill().expect("killed");
    child.wait().expect("ends");
}

#[test]
fn a_signal_ends_a_watch_well_and_leaves_no_file() {
    for signal in ["TERM", "INT"] {
        let work = folder();
        std::fs::create_dir(work.path().join("disk")).expect("made");
        let more = ["--method", "buffered", "--openmetrics", "metrics.txt"];
        let (mut child, address, mut said) = start(work.path(), &more);
        assert_eq!(names(&work.path().join("disk")).len(), 1, "its journal");
        let text = std::fs::read_to_string(work.path().join("metrics.txt")).expect("there from the start");
        assert!(
            text.ends_with("# EOF\n") && text.contains("\n# TYPE seawall_watch_commits counter\n"),
            "{text}"
        );
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(kill.expect("kill starts").success());
        let ended = child.wait().expect("ends");
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("reads");
        assert!(ended.success() && rest.is_empty(), "{signal}: {ended:?} {rest}");
        assert_eq!(names(work.path()), ["disk"], "{signal}");
        assert_eq!(names(&work.path().join("disk")), [""; 0], "{signal}");
        assert!(TcpStream::connect(&address).is_err(), "{signal}");
    }
}

#[test]
fn what_takes_the_place_of_the_file_is_spared() {
    let work = folder();
    std::fs::create_dir(work.path().join("disk")).expect("made");
    let path = work.path().join("watch.prom");
    let (mut child, _, mut said) =
        start(work.path(), &["--method", "buffered", "--openmetrics", "watch.prom", "--time", "2s"]);
    std::fs::remove_file(&path).expect("removed");
    std::fs::create_dir(&path).expect("made");
    assert!(child.wait().expect("ends").success(), "it goes on");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("reads");
    assert!(rest.contains("watch.prom") && rest.contains("no regular file"), "{rest}");
    assert_eq!(rest.lines().count(), 1, "said once: {rest}");
    assert!(path.is_dir());
}

#[test]
fn a_probe_writes_its_metrics_whole_and_prints_them_without_a_file() {
    let work = folder();
    let text = printed(&seawall(work.path(), &["probe", ".", "--openmetrics"]));
    assert!(text.ends_with("# EOF\n") && text.contains("\nseawall_probe_device_info{"), "{text}");
    assert_eq!(printed(&seawall(work.path(), &["probe", ".", "--openmetrics", "probe.prom"])), "");
    let text = std::fs::read_to_string(work.path().join("probe.prom")).expect("written");
    assert!(!text.contains("# EOF") && text.contains("# TYPE seawall_probe_device_info gauge"), "{text}");
    assert_eq!(names(work.path()), ["probe.prom"]);
}
