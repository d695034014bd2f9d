//! Starts three nodes of an engine, kills them, stops them for a while, takes their disks.
//!
//! Invariant: every node that is started is ended when its [`Cluster`] is dropped.

use super::super::{Bench, EngineTest, KAFKA, NATS, engines, free_ports, get};
use super::network::Network;
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{command, output};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Ports of a node.
const PER_NODE: usize = 3;
/// The store of a node, below its folder.
const STORE: &str = "store";

/// An engine whose nodes meet faults.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    test: &'static EngineTest,
    /// How its program is called where `cluster up` keeps it.
    program: &'static str,
    file: &'static str,
    /// A node's settings: its number from 0, and the addresses of all, [`PER_NODE`] each.
    config: fn(usize, &[String]) -> String,
    /// What makes a new store, if that needs a program, and what starts a node.
    format: Option<fn(&Path) -> Command>,
    start: fn(&Path) -> Command,
    /// Whether a node has what the others have.
    whole: fn(&Cluster, usize) -> bool,
}

pub(super) const KINDS: [Kind; 2] = [
    Kind {
        name: "nats",
        test: &NATS,
        program: "nats-server-",
        file: "nats.conf",
        config: nats,
        format: None,
        start: |program| {
            let mut command = Command::new(program);
            command.args(["-c", "nats.conf"]);
            command
        },
        whole: |cluster, node| {
            let monitor = at(&cluster.addresses, node, 2);
            get(monitor, "/healthz").is_ok_and(|answer| answer.contains("\"ok\""))
        },
    },
    Kind {
        name: "kafka",
        test: &KAFKA,
        program: "kafka-",
        file: "node.properties",
        config: kafka,
        format: Some(|program| {
            java(
                program,
                &[
                    "kafka.tools.StorageTool",
                    "format",
                    "-t",
                    "c2Vhd2FsbC1jbHVzdGVyMw",
                    "-c",
                    "node.properties",
                ],
            )
        }),
        start: |program| java(program, &["kafka.Kafka", "node.properties"]),
        whole: |cluster, node| {
            let held = |node: usize| topic_bytes(&cluster.nodes[node].home.join(STORE).join("faults-0"));
            (0..3).all(|other| held(other) == held(node) && held(node) > 0)
        },
    },
];

/// How much of the topic a node of Kafka holds.
fn topic_bytes(folder: &Path) -> u64 {
    let files = files::list(folder).unwrap_or_default().into_iter();
    let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.filter_map(|path| Some(path.metadata().ok()?.len())).sum()
}

fn java(archives: &Path, arguments: &[&str]) -> Command {
    let mut java = Command::new("java");
    java.args(["-Xmx256m", "-XX:+UseSerialGC", "-cp"]).arg(archives.join("*")).args(arguments);
    java
}

fn at(addresses: &[String], node: usize, offset: usize) -> &str {
    &addresses[node * PER_NODE + offset]
}

/// The addresses of all nodes, as `name` says.
fn all(name: impl Fn(usize) -> String) -> String {
    (0..3).map(name).collect::<Vec<_>>().join(",")
}

fn nats(node: usize, addresses: &[String]) -> String {
    let at = |node, offset| at(addresses, node, offset);
    let routes = all(|node| format!("nats://{}", at(node, 1)));
    format!(
        "server_name: n{node}\nlisten: {}\nhttp: {}\njetstream {{ store_dir: {STORE}, sync_interval: always }}\n\
         cluster {{ name: shipped, listen: {}, routes: [{routes}] }}\n",
        at(node, 0),
        at(node, 2),
        at(node, 1),
    )
}

fn kafka(node: usize, addresses: &[String]) -> String {
    let at = |node, offset| at(addresses, node, offset);
    let voters = all(|node| format!("{}@{}", node + 1, at(node, 1)));
    let (id, client, controller) = (node + 1, at(node, 0), at(node, 1));
    format!(
        "process.roles=broker,controller
node.id={id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{client},CONTROLLER://{controller}
advertised.listeners=PLAINTEXT://{client}
initial.broker.registration.timeout.ms=600000
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={STORE}
unclean.leader.election.enable=false
offsets.topic.replication.factor=3
log.flush.interval.messages=1
"
    )
}

/// One server.
struct Node {
    home: PathBuf,
    process: Option<Child>,
}

/// Three nodes.
pub(super) struct Cluster {
    kind: Kind,
    program: PathBuf,
    nodes: Vec<Node>,
    /// Where each has an address of its own; without one all listen on 127.0.0.1.
    pub(super) network: Option<Network>,
    addresses: Vec<String>,
    /// The destination that a log is shipped to.
    pub(super) address: String,
}

impl Cluster {
    /// Three nodes below `folder`, none of which runs yet; without `program`, the one that `cluster up` fetched is taken.
    pub(super) fn new(kind: Kind, folder: &Path, program: Option<PathBuf>, clusters: &Path) -> Result<Self> {
        let program =
            program.or_else(|| fetched(kind, clusters)).map_or_else(|| fetch(kind, clusters), Ok)?;
        let network = if Network::lacking().is_none() { Some(Network::new()?) } else { None };
        let host = |node| network.as_ref().map_or("127.0.0.1".to_owned(), |network| network.host(node));
        let ports = free_ports::<{ 3 * PER_NODE }>()?.into_iter().enumerate();
        let addresses: Vec<String> =
            ports.map(|(n, port)| format!("{}:{port}", host(n / PER_NODE))).collect();
        let mut nodes = Vec::new();
        for node in 0..3 {
            let home = folder.join(format!("node-{node}"));
            files::make_folder(&home)?;
            files::write(&home.join(kind.file), (kind.config)(node, &addresses))?;
            nodes.push(Node { home, process: None });
        }
        let address = format!("{}://{}/faults", kind.name, all(|node| at(&addresses, node, 0).to_owned()));
        Ok(Self { kind, program, nodes, network, addresses, address })
    }

    /// Starts a node, with a new store if it has none.
    pub(super) fn start(&mut self, node: usize) -> Result {
        let home = self.nodes[node].home.clone();
        if let Some(format) = self.kind.format.filter(|_| !home.join(STORE).exists()) {
            let mut format = format(&self.program);
            format.current_dir(&home);
            output(format)?;
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(home.join("log"));
        let log = log.map_err(Error::at(home.display()))?;
        let command = (self.kind.start)(&self.program);
        let inside = |network: &Network| network.inside(node, &command);
        let mut command = self.network.as_ref().map(inside).unwrap_or(command);
        let copy = log.try_clone().map_err(Error::at(home.display()))?;
        command.current_dir(&home).stdin(Stdio::null()).stdout(copy).stderr(log);
        self.nodes[node].process = Some(command.spawn().map_err(Error::at(self.kind.name))?);
        Ok(())
    }

    /// Ends a node at once.
    pub(super) fn kill(&mut self, node: usize) {
        super::end(&mut self.nodes[node].process);
    }

    /// Stops a node, or has it go on: `signal` is `-STOP` or `-CONT`.
    pub(super) fn signal(&self, node: usize, signal: &str) -> Result {
        let pid = self.nodes[node].process.as_ref().map_or(0, Child::id).to_string();
        output(command("kill", &[signal, &pid])).map(drop)
    }

    /// Returns when a node that lost its disk has what the others have.
    pub(super) fn is_whole_again(&self, node: usize) -> Result {
        for _ in 0..240 {
            if (self.kind.whole)(self, node) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Err(Error::check(format!("node {node} of {} does not get back what it lost", self.kind.name)))
    }

    /// Removes what a node that does not run has stored.
    pub(super) fn lose_disk(&self, node: usize) -> Result {
        let store = self.nodes[node].home.join(STORE);
        std::fs::remove_dir_all(&store).map_err(Error::at(store.display()))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.kill(node));
    }
}

/// Has `cluster up` fetch the program.
fn fetch(kind: Kind, clusters: &Path) -> Result<PathBuf> {
    let bench = Bench { engine: kind.test, folder: clusters.to_owned() };
    bench.up(kind.test.clusters[0].0)?;
    bench.down()?;
    let missing = || Error::check(format!("the program of {} is not where it was put", kind.name));
    fetched(kind, clusters).ok_or_else(missing)
}

/// The server, or the folder with its archives.
fn fetched(kind: Kind, clusters: &Path) -> Option<PathBuf> {
    let programs = files::list(&engines(clusters)).ok()?;
    programs.into_iter().find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let version = name.strip_prefix(kind.program).unwrap_or_default();
        version.starts_with(|first: char| first.is_ascii_digit()) && !name.ends_with(".sha256")
    })
}

#[cfg(test)]
mod tests {
    use super::{KINDS, kafka, nats};

    #[test]
    fn every_node_knows_the_others_by_their_addresses() {
        let addresses: Vec<String> = (1..=9).map(|port| format!("127.0.0.1:{port}")).collect();
        assert!(nats(1, &addresses).contains("listen: 127.0.0.1:4\nhttp: 127.0.0.1:6\n"));
        assert!(
            nats(0, &addresses)
                .contains("routes: [nats://127.0.0.1:2,nats://127.0.0.1:5,nats://127.0.0.1:8]")
        );
        let text = kafka(2, &addresses);
        assert!(text.contains("voters=1@127.0.0.1:2,2@127.0.0.1:5,3@127.0.0.1:8\n"), "{text}");
        assert!(text.contains("node.id=3\n") && text.contains("PLAINTEXT://127.0.0.1:7"), "{text}");
        assert_ne!(KINDS[0].name, KINDS[1].name);
    }
}
