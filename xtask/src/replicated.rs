//! Checks on real clusters, by counted syncs, the sync policy that `bench replicated` reports.
//!
//! ```text
//!   for each sync setting:  three nodes · strace on every node · bench with one record in flight · counts · end
//!   always / flush-1        at least one fsync for each acknowledged record, on as many nodes as an acknowledgement counts
//!   default                 fewer than one for ten records, on every node
//! ```
//!
//! Also: a cluster that is away or too small is refused; a run that is interrupted removes its stream; TLS and credentials
//! work, and a stream that may not be removed is reported beside the result ([`secured`]).
//!
//! Invariant: every process that is started is ended, whatever fails: nodes with their [`Cluster`], tracers with their nodes.

pub(crate) mod cluster;
mod kafka;
mod network;
mod secured;
pub(crate) mod shipped;
mod syncs;

use crate::error::{Error, Result};
use crate::files;
use crate::runner;
use crate::shell::{Running, cargo, command, output, status, target, within};
use crate::tools::{self, For};
use cluster::{Cluster, NODES, STORE};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use syncs::{Tracer, calls};

/// Nodes that an acknowledgement counts.
const MAJORITY: usize = 2;
/// Generous: the process may be paused for minutes.
const ACK_TIMEOUT: &str = "10m";

struct EngineTest {
    name: &'static str,
    /// The sync settings of the clusters started here, and what each holds.
    clusters: &'static [(&'static str, &'static [Promise])],
}

/// The sync policy that the rows of an engine in a cluster report.
struct Promise {
    /// The engine's id in the result.
    id: &'static str,
    /// Whether it reports to sync before it acknowledges.
    first: bool,
    /// What the names of its files have that others' have not; a server of NATS has one stream, and its own log of Raft.
    files: &'static str,
}

const NATS: EngineTest = EngineTest {
    name: "nats",
    clusters: &[
        ("always", &[Promise { id: "nats/always", first: true, files: "" }]),
        ("default", &[Promise { id: "nats/2m", first: false, files: "" }]),
    ],
};

/// In a cluster that does not sync a topic can ask for it by itself; in one that does there is no other topic.
const KAFKA: EngineTest = EngineTest {
    name: "kafka",
    clusters: &[
        (
            "default",
            &[
                Promise { id: "kafka/default", first: false, files: "-kafka-0-0/" },
                Promise { id: "kafka/flush-1", first: true, files: "-kafka-1-0/" },
            ],
        ),
        ("always", &[Promise { id: "kafka/flush-1", first: true, files: "-kafka-0-0/" }]),
    ],
};

/// Rows of logs that are shipped to the cluster, by what their commits wait for.
const SHIPPED: [&str; 3] = ["block", "within", "behind"];

pub(crate) fn run(kafka: bool) -> Result {
    if kafka { check(&KAFKA) } else { nats() }
}

/// What the step of `cargo xtask test` runs.
pub(crate) fn nats() -> Result {
    possible()?;
    check(&NATS)
}

/// Whether nodes of NATS can be built and watched here.
fn possible() -> Result {
    if !cfg!(target_os = "linux") {
        return Err(Error::lacking("syncs are counted on Linux only"));
    }
    tools::GO.lacking().map_or(Ok(()), |what| Err(Error::Lacking(what)))
}

fn check(engine: &EngineTest) -> Result {
    tools::provide(For::Replicated)?;
    // The tests have NATS' client; Kafka's is only linted there.
    if engine.name == KAFKA.name {
        tools::provide(For::Kafka)?;
        status(cargo(&["test", "--quiet", "--package=seawall-replicated", "--features", engine.name]))?;
        status(cargo(&["build", "--quiet", "--package=seawall-cli", "--features", engine.name]))?;
    } else {
        runner::programs(&["--bin", "seawall"])?;
    }
    Bench { engine, folder: target().join("clusters") }.all()
}

struct Bench<'a> {
    engine: &'a EngineTest,
    folder: PathBuf,
}

impl Bench<'_> {
    fn all(&self) -> Result {
        self.away()?;
        for (number, (sync, promises)) in self.engine.clusters.iter().enumerate() {
            let cluster = self.up(sync)?;
            self.counted(&cluster, promises)?;
            if number == 0 {
                let left = self.left(&cluster)?;
                ensure!(left == 0, "a whole run left {left} streams behind");
                self.interrupted(&cluster)?;
                if self.engine.name == NATS.name {
                    secured::nats(self, &cluster)?;
                }
            }
            let nodes: Vec<u32> = (0..NODES).map(|node| cluster.pid(node)).collect();
            drop(cluster);
            if let Some(pid) = nodes.iter().find(|pid| runs(*pid)) {
                fail!("process {pid} still runs after its cluster");
            }
        }
        if self.engine.name == NATS.name { self.too_small() } else { secured::kafka(self) }
    }

    fn seawall(words: &[&str]) -> Command {
        command(target().join("debug/seawall"), words)
    }

    fn up(&self, sync: &str) -> Result<Cluster> {
        let folder = self.folder.join(format!("{}-{sync}", self.engine.name));
        let mut cluster = Cluster::new(cluster::engine(self.engine.name)?, sync, &folder, None)?;
        cluster.up()?;
        println!("{} {sync}: {}", self.engine.name, cluster.options().join(" "));
        Ok(cluster)
    }

    fn bench(&self, options: &[String], more: &[&str]) -> Command {
        let mut words =
            vec!["bench", "replicated", "--no-out", "--no-progress", "--ack-timeout", ACK_TIMEOUT];
        words.extend(options.iter().map(String::as_str));
        words.extend(more);
        // One durable method is enough for the local rows.
        words.extend(["--methods", "buffered+fdatasync", "--rounds", "1"]);
        let mut command = Self::seawall(&words);
        command.current_dir(&self.folder);
        command
    }

    /// Lets the engines acknowledge records one at a time, and counts what their nodes sync meanwhile.
    fn counted(&self, cluster: &Cluster, promises: &[Promise]) -> Result {
        let result = self.folder.join("result.json");
        let name = result.display().to_string();
        let tracers =
            (0..NODES).map(|node| Tracer::on(cluster.pid(node), &self.folder)).collect::<Result<Vec<_>, _>>();
        let ran =
            output(self.bench(&cluster.options(), &["--writers", "1", "--time", "20s", "--json", &name]));
        let seen = tracers?.into_iter().map(Tracer::end).collect::<Result<Vec<String>, _>>()?;
        ran?;
        let json = files::read_json(&result)?;
        for promise in promises {
            let commits = commits(&json, &format!("{}/1", promise.id))
                .ok_or_else(|| Error::check(format!("no row {}/1 in the result", promise.id)))?;
            let syncs: Vec<u64> = seen.iter().map(|trace| calls(trace, promise.files)).collect();
            println!("{}: {commits} records acknowledged, fsyncs by node {syncs:?}", promise.id);
            kept(promise, commits, &syncs)?;
        }
        for wait in SHIPPED {
            let row = format!("ship-{}/{wait}/1", self.engine.name);
            let commits = commits(&json, &row).unwrap_or_default();
            println!("{row}: {commits} commits");
            ensure!(commits >= 1.0, "no commits in a row {row} of the result");
        }
        Ok(())
    }

    /// A cluster that is away is an error with its address and a remedy.
    fn away(&self) -> Result {
        let option = [format!("--{}", self.engine.name), "127.0.0.1:1".to_owned()];
        files::make_folder(&self.folder)?;
        refused(self.bench(&option, &["--time", "5s"]), &["127.0.0.1:1", "docs/replicated.md"])
    }

    /// A server by itself is too small for three copies.
    fn too_small(&self) -> Result {
        let program = cluster::engine("nats")?.program()?;
        let store = self.folder.join("lone");
        let port = free_ports::<1>()?[0];
        let mut lone = Command::new(program);
        lone.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]).arg(&store);
        lone.stdout(Stdio::null()).stderr(Stdio::null());
        let lone = Running::start(&mut lone)?;
        listens(port)?;
        let option = ["--nats".to_owned(), format!("127.0.0.1:{port}")];
        refused(self.bench(&option, &["--time", "5s"]), &["too small", "three servers"])?;
        drop(lone);
        files::remove_folder(&store)
    }

    fn streams(&self, cluster: &Cluster) -> Result<u64> {
        if self.engine.name == KAFKA.name {
            return kafka::topics(&cluster.home(0).join(STORE));
        }
        let monitor = cluster.monitor(0);
        let (_, answer) = get(monitor, "/jsz?streams=1")?;
        let json: Value = serde_json::from_str(&answer).map_err(Error::at(monitor))?;
        json["streams"].as_u64().ok_or_else(|| Error::check(format!("{monitor} gave no number of streams")))
    }

    /// How many are left a while after a run: brokers of Kafka remove a topic after they answered the client that it is gone.
    fn left(&self, cluster: &Cluster) -> Result<u64> {
        let mut left = Ok(0);
        within(60, || {
            left = self.streams(cluster);
            !matches!(left, Ok(1..))
        });
        left
    }

    /// A run that is interrupted removes its stream.
    fn interrupted(&self, cluster: &Cluster) -> Result {
        let mut run = self.bench(&cluster.options(), &["--time", "10m"]);
        let mut run = Running::start(run.stdout(Stdio::null()).stderr(Stdio::null()))?;
        let seen = within(120, || self.streams(cluster).is_ok_and(|streams| streams >= 1));
        output(command("kill", &["-INT", &run.0.id().to_string()]))?;
        let ended = run.0.wait().map_err(Error::at("the bench"))?;
        ensure!(seen, "no stream of an interrupted run was ever seen");
        let left = self.left(cluster)?;
        println!("interrupted: ended with {ended}, {left} streams left");
        let whole = ended.code() == Some(130) && left == 0;
        ensure!(whole, "an interrupted run ended with {ended} and left {left} streams behind");
        Ok(())
    }
}

/// Checks the nodes' syncs against what the rows report.
fn kept(promise: &Promise, commits: f64, syncs: &[u64]) -> Result {
    let Promise { id, first, .. } = promise;
    ensure!(commits >= 20.0, "{id}: only {commits} records, too few to say anything");
    let synced = syncs.iter().filter(|syncs| **syncs as f64 >= commits).count();
    let enough = !first || synced >= MAJORITY;
    ensure!(enough, "{id} says that it syncs first, and only {synced} nodes did for every record");
    let few = *first || syncs.iter().all(|syncs| *syncs as f64 <= commits / 10.0);
    ensure!(few, "{id} says that it syncs later, and nodes synced {syncs:?} times");
    Ok(())
}

/// `N` ports on which no process listens.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let held: std::io::Result<Vec<_>> = (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let mut ports = [0; N];
    for (port, free) in ports.iter_mut().zip(held.map_err(Error::at("127.0.0.1"))?) {
        *port = free.local_addr().map_err(Error::at("127.0.0.1"))?.port();
    }
    Ok(ports)
}

/// Returns when a process listens on `port`.
fn listens(port: u16) -> Result {
    let found = within(180, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    ensure!(found, "no process listens on port {port}");
    Ok(())
}

/// Whether a process runs; one that has ended and whose parent has not waited for it (a zombie) does not.
fn runs(pid: &impl std::fmt::Display) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

/// Runs what must be refused with exit code 1 and these words.
fn refused(mut command: Command, words: &[&str]) -> Result {
    let output = command.output().map_err(Error::at("the bench"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let refused = output.status.code() == Some(1) && words.iter().all(|word| stderr.contains(word));
    ensure!(refused, "to be refused with {words:?}, but ended with {}: {stderr}", output.status);
    println!("refused: {}", stderr.lines().last().unwrap_or_default());
    Ok(())
}

fn commits(result: &Value, id: &str) -> Option<f64> {
    let rows = result["study"]["rows"].as_array()?;
    let row = rows.iter().find(|row| row["id"] == id)?;
    row["outcome"]["measured"]["commits"].as_f64()
}

/// The first line and the body of what is answered by HTTP.
pub(crate) fn get(address: &str, path: &str) -> Result<(String, String)> {
    let mut answer = String::new();
    let sent = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_mins(5)))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n")?;
        stream.read_to_string(&mut answer)
    });
    sent.map_err(Error::at(address))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    Ok((head.lines().next().unwrap_or_default().to_owned(), body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_s_records_are_found_in_a_result() {
        let text = r#"{"study":{"rows":[{"id":"nats/2m/1","outcome":{"measured":{"commits":7}}}]}}"#;
        let json: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(commits(&json, "nats/2m/1"), Some(7.0));
        assert_eq!(commits(&json, "nats/always/1"), None);
    }

    #[test]
    fn a_promise_is_kept_by_a_majority_and_no_sync_by_all() {
        let promise = |first| Promise { id: "x", first, files: "" };
        let held = |first, syncs: [u64; 3]| kept(&promise(first), 100.0, &syncs).is_ok();
        assert!(held(true, [100, 130, 0]) && !held(true, [99, 100, 99]));
        assert!(held(false, [10, 0, 3]) && !held(false, [0, 0, 11]));
        assert!(kept(&promise(false), 19.0, &[0; 3]).is_err(), "too few to say anything");
    }
}
