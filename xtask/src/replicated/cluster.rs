//! Starts three nodes of an engine on this machine: to try by hand, to count their syncs, to kill them.
//!
//! ```text
//!   cargo xtask cluster nats|kafka    prints how to name it to `seawall`, and ends it on Ctrl-C
//!   target/go, target/kafka           the programs, fetched once from their package registries
//!   FOLDER/node-1/log                 a node's output, beside its settings and its store
//! ```
//!
//! Invariants: every node that is started is ended when its [`Cluster`] is dropped; without a [`Network`] nothing listens on
//! any address but 127.0.0.1.

use super::network::Network;
use super::{free_ports, get, listens};
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{Running, command, output, status, target, within};
use crate::tools;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) const NODES: usize = 3;
/// Ports of a node: for clients, for the other nodes, for monitoring.
const PER_NODE: usize = 3;
pub(super) const STORE: &str = "store";

const NATS_SERVER: (&str, &str) = ("github.com/nats-io/nats-server/v2", "v2.15.2");
const KAFKA_VERSION: &str = "4.3.1";
/// Kafka's server, and something to write its log with, which has to fit the interface that the former brings.
const KAFKA_POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>seawall</groupId><artifactId>kafka-to-try</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.3.1</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"#;

/// An engine whose nodes can be started here.
pub(super) struct Engine {
    pub(super) name: &'static str,
    /// Fetches its program, once: a server, or a folder of archives.
    provide: fn() -> Result<PathBuf>,
    /// A node's settings: their file, and the text of the node with this number from 0.
    file: &'static str,
    config: fn(usize, &[String], &str) -> Result<String>,
    /// Makes a new store, if that needs a program.
    format: Option<fn(&Path) -> Command>,
    start: fn(&Path) -> Command,
}

pub(super) const ENGINES: [Engine; 2] = [
    Engine {
        name: "nats",
        provide: || tools::go_program(NATS_SERVER.0, NATS_SERVER.1),
        file: "nats.conf",
        config: nats,
        format: None,
        start: |program| {
            let mut command = Command::new(program);
            command.args(["-c", "nats.conf"]);
            command
        },
    },
    Engine {
        name: "kafka",
        provide: kafka_archives,
        file: "node.properties",
        config: kafka,
        format: Some(|archives| {
            let tool = ["kafka.tools.StorageTool", "format", "-t", "c2Vhd2FsbC1jbHVzdGVyMw", "-c"];
            java(archives, &[&tool[..], &["node.properties"]].concat())
        }),
        start: |archives| java(archives, &["kafka.Kafka", "node.properties"]),
    },
];

impl Engine {
    /// Its server, or the folder of its archives; fetched the first time.
    pub(super) fn program(&self) -> Result<PathBuf> {
        (self.provide)()
    }
}

pub(super) fn engine(name: &str) -> Result<&'static Engine> {
    const TABLE: &[Engine] = &ENGINES;
    let found = TABLE.iter().find(|engine| engine.name == name);
    found.ok_or_else(|| Error::check(format!("no engine is called {name}")))
}

/// Kafka's archives, fetched by Maven, which refuses one whose checksum is not the registry's.
pub(super) fn kafka_archives() -> Result<PathBuf> {
    let archives = target().join("kafka").join(KAFKA_VERSION);
    if archives.is_dir() {
        return Ok(archives);
    }
    println!("fetching Kafka {KAFKA_VERSION}: about a minute the first time");
    let work = target().join("kafka/build");
    files::make_folder(&work)?;
    files::write(&work.join("pom.xml"), KAFKA_POM)?;
    let goal = ["-B", "-q", "-C", "dependency:copy-dependencies", "-DincludeScope=runtime"];
    let mut maven = command("mvn", &goal);
    maven
        .arg("-DoutputDirectory=jars")
        .arg(format!("-Dmaven.repo.local={}", work.join("repository").display()));
    maven.current_dir(&work);
    status(maven)?;
    std::fs::rename(work.join("jars"), &archives).map_err(Error::at(archives.display()))?;
    files::remove_folder(&work)?;
    Ok(archives)
}

pub(super) fn java(archives: &Path, arguments: &[&str]) -> Command {
    let mut java = Command::new("java");
    java.args(["-Xmx256m", "-XX:+UseSerialGC", "-cp"]).arg(archives.join("*")).args(arguments);
    java
}

fn at(addresses: &[String], node: usize, offset: usize) -> &str {
    &addresses[node * PER_NODE + offset]
}

/// The addresses of all nodes, as `name` says.
fn all(name: impl Fn(usize) -> String) -> String {
    (0..NODES).map(name).collect::<Vec<_>>().join(",")
}

#[expect(clippy::unnecessary_wraps, reason = "the table has one signature")]
fn nats(node: usize, addresses: &[String], sync: &str) -> Result<String> {
    let at = |node, offset| at(addresses, node, offset);
    let routes = all(|node| format!("nats://{}", at(node, 1)));
    let interval = if sync == "default" { String::new() } else { format!(", sync_interval: \"{sync}\"") };
    let (client, inner, monitor) = (at(node, 0), at(node, 1), at(node, 2));
    Ok(format!(
        "server_name: \"{sync}-{node}\"\nlisten: {client}\nhttp: {monitor}\njetstream {{ store_dir: {STORE}{interval} }}\n\
         cluster {{ name: seawall, listen: {inner}, routes: [{routes}] }}\n",
    ))
}

fn kafka(node: usize, addresses: &[String], sync: &str) -> Result<String> {
    let at = |node, offset| at(addresses, node, offset);
    let voters = all(|node| format!("{}@{}", node + 1, at(node, 1)));
    let (id, client, controller) = (node + 1, at(node, 0), at(node, 1));
    let flush = match sync {
        "default" => String::new(),
        "always" => "log.flush.interval.messages=1\n".to_owned(),
        every => {
            let every = humantime::parse_duration(every).map_err(Error::at("--sync"))?;
            format!("log.flush.interval.ms={}\n", every.as_millis())
        }
    };
    // A broker ends itself if it has not found its controllers within a minute; three new JVMs take longer on a busy machine.
    Ok(format!(
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
default.replication.factor=3
min.insync.replicas=2
unclean.leader.election.enable=false
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
{flush}"
    ))
}

struct Node {
    home: PathBuf,
    process: Option<Running>,
}

pub(super) struct Cluster {
    pub(super) engine: &'static Engine,
    program: PathBuf,
    nodes: Vec<Node>,
    /// Where each has an address of its own; without one all listen on 127.0.0.1.
    pub(super) network: Option<Network>,
    addresses: Vec<String>,
}

impl Cluster {
    /// Three nodes below `folder`, none of which runs yet. What an earlier cluster left there is removed.
    pub(super) fn new(
        engine: &'static Engine,
        sync: &str,
        folder: &Path,
        network: Option<Network>,
    ) -> Result<Self> {
        let program = engine.program()?;
        let host = |node| network.as_ref().map_or("127.0.0.1".to_owned(), |network| network.host(node));
        let ports = free_ports::<{ NODES * PER_NODE }>()?.into_iter().enumerate();
        let addresses: Vec<String> =
            ports.map(|(n, port)| format!("{}:{port}", host(n / PER_NODE))).collect();
        let mut nodes = Vec::new();
        for node in 0..NODES {
            let home = folder.join(format!("node-{}", node + 1));
            files::empty_folder(&home)?;
            files::write(&home.join(engine.file), (engine.config)(node, &addresses, sync)?)?;
            nodes.push(Node { home, process: None });
        }
        Ok(Self { engine, program, nodes, network, addresses })
    }

    /// Starts all nodes, and returns when they work together.
    pub(super) fn up(&mut self) -> Result {
        (0..NODES).try_for_each(|node| self.start(node))?;
        for node in 0..NODES {
            if self.engine.name == "nats" {
                self.waits(node, || {
                    get(self.monitor(node), "/healthz").is_ok_and(|(_, text)| text.contains("\"ok\""))
                })?;
            } else {
                let log = self.home(node).join("log");
                self.waits(node, || {
                    files::read(&log).is_ok_and(|text| text.contains("Kafka Server started"))
                })?;
                listens(
                    self.address(node).rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0),
                )?;
            }
        }
        Ok(())
    }

    /// Returns when `ready` says so of this node.
    fn waits(&self, node: usize, ready: impl Fn() -> bool) -> Result {
        let log = self.home(node).join("log");
        ensure!(within(180, ready), "a node of {} does not get ready: {}", self.engine.name, log.display());
        Ok(())
    }

    /// Starts a node, with a new store if it has none.
    pub(super) fn start(&mut self, node: usize) -> Result {
        let home = self.nodes[node].home.clone();
        if let Some(format) = self.engine.format.filter(|_| !home.join(STORE).exists()) {
            let mut format = format(&self.program);
            format.current_dir(&home);
            output(format)?;
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(home.join("log"));
        let log = log.map_err(Error::at(home.display()))?;
        let command = (self.engine.start)(&self.program);
        let inside = |network: &Network| network.inside(node, &command);
        let mut command = self.network.as_ref().map(inside).unwrap_or(command);
        let copy = log.try_clone().map_err(Error::at(home.display()))?;
        command.current_dir(&home).stdin(Stdio::null()).stdout(copy).stderr(log);
        self.nodes[node].process = Some(Running::start(&mut command)?);
        Ok(())
    }

    pub(super) fn kill(&mut self, node: usize) {
        self.nodes[node].process = None;
    }

    /// Stops a node, or has it go on: `signal` is `-STOP` or `-CONT`.
    pub(super) fn signal(&self, node: usize, signal: &str) -> Result {
        output(command("kill", &[signal, &self.pid(node).to_string()])).map(drop)
    }

    pub(super) fn pid(&self, node: usize) -> u32 {
        self.nodes[node].process.as_ref().map_or(0, |process| process.0.id())
    }

    pub(super) fn home(&self, node: usize) -> &Path {
        &self.nodes[node].home
    }

    pub(super) fn address(&self, node: usize) -> &str {
        at(&self.addresses, node, 0)
    }

    /// Where a node of NATS shows what it does.
    pub(super) fn monitor(&self, node: usize) -> &str {
        at(&self.addresses, node, 2)
    }

    pub(super) fn addresses(&self) -> String {
        all(|node| self.address(node).to_owned())
    }

    /// What names it to `seawall bench replicated`.
    pub(super) fn options(&self) -> Vec<String> {
        if self.engine.name == "nats" {
            let urls = all(|node| format!("nats://{}", self.address(node)));
            let monitors = all(|node| self.monitor(node).to_owned());
            vec!["--nats".to_owned(), urls, "--nats-monitor".to_owned(), monitors]
        } else {
            vec!["--kafka".to_owned(), self.addresses()]
        }
    }

    /// Removes what a node that does not run has stored.
    pub(super) fn lose_disk(&self, node: usize) -> Result {
        files::remove_folder(&self.home(node).join(STORE))
    }
}

#[derive(Args)]
pub(crate) struct Options {
    #[arg(value_parser = PossibleValuesParser::new(ENGINES.map(|engine| engine.name)))]
    engine: String,
    /// When its nodes sync: default, always or each time that so much has passed, such as 10s
    #[arg(long, value_name = "WHEN", default_value = "default")]
    sync: String,
}

/// `cargo xtask cluster`: stays until Ctrl-C.
pub(crate) fn run(Options { engine: name, sync }: &Options) -> Result {
    static STOP: AtomicBool = AtomicBool::new(false);
    let engine = engine(name)?;
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed)).map_err(Error::at("interrupts"))?;
    let folder = target().join("clusters").join(format!("{name}-{sync}"));
    let mut cluster = Cluster::new(engine, sync, &folder, None)?;
    cluster.up()?;
    let options = cluster.options();
    println!("seawall bench replicated {}", options.join(" "));
    let monitors = if name == "nats" { format!(" --nats-monitor {}", options[3]) } else { String::new() };
    println!("seawall log ship DIR --to {name}://{}/NAME{monitors}", cluster.addresses());
    println!("Ctrl-C ends it; logs: {}", folder.display());
    while !STOP.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ENGINES, kafka, nats};

    #[test]
    fn every_node_knows_the_others_and_the_sync_setting_is_written_only_if_it_is_one() {
        let addresses: Vec<String> = (1..=9).map(|port| format!("127.0.0.1:{port}")).collect();
        let text = nats(1, &addresses, "always").expect("settings");
        assert!(text.contains("listen: 127.0.0.1:4\nhttp: 127.0.0.1:6\n"), "{text}");
        assert!(text.contains("sync_interval: \"always\""), "{text}");
        assert!(
            text.contains("routes: [nats://127.0.0.1:2,nats://127.0.0.1:5,nats://127.0.0.1:8]"),
            "{text}"
        );
        assert!(!nats(0, &addresses, "default").expect("settings").contains("sync_interval"));
        let text = kafka(2, &addresses, "10s").expect("settings");
        for line in [
            "node.id=3",
            "controller.quorum.voters=1@127.0.0.1:2,2@127.0.0.1:5,3@127.0.0.1:8",
            "advertised.listeners=PLAINTEXT://127.0.0.1:7",
            "min.insync.replicas=2",
            "log.flush.interval.ms=10000",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is missing in\n{text}");
        }
        assert!(kafka(0, &addresses, "often").is_err());
        assert!(!kafka(0, &addresses, "default").expect("settings").contains("flush"));
        assert_ne!(ENGINES[0].name, ENGINES[1].name);
    }
}
