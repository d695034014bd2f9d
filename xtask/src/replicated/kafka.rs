//! Starts Kafka nodes with TLS and a login, and lists the topics that a node holds.
//!
//! Invariant: nodes end, and their data is removed, when their [`Nodes`] is dropped.

use super::cluster::{java, kafka_archives};
use super::secured::Certificates;
use super::{free_ports, listens};
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{Running, output};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Ports of a node: for clients with a login, for the other nodes, for the controllers, for clients with a certificate.
const PER_NODE: usize = 4;

pub(super) struct Nodes {
    children: Vec<Running>,
    ports: [u16; 3 * PER_NODE],
    home: PathBuf,
}

impl Nodes {
    /// Starts one or three nodes, which listen when this returns.
    pub(super) fn start(
        folder: &Path,
        nodes: usize,
        certificates: &Certificates,
        user: &str,
        password: &str,
    ) -> Result<Self> {
        let failed = |cause| Error::Start { program: "a node of Kafka".to_owned(), cause };
        let archives = kafka_archives()?;
        let home = folder.join("kafka-secured");
        files::empty_folder(&home)?;
        let store = home.join("store.pem");
        files::write(&store, files::read(&certificates.key)? + &files::read(&certificates.certificate)?)?;
        let mut started = Self { children: Vec::new(), ports: free_ports()?, home };
        for node in 0..nodes {
            let name = format!("node-{}.properties", node + 1);
            let text = started.config(node, nodes, [&store, &certificates.authority], user, password);
            files::write(&started.home.join(&name), text)?;
            let java = |arguments: &[&str]| {
                let mut java = java(&archives, arguments);
                java.current_dir(&started.home).stdin(Stdio::null());
                java
            };
            let scram = format!("SCRAM-SHA-256=[name={user},password={password}]");
            let format = ["kafka.tools.StorageTool", "format", "-t", "c2Vhd2FsbC1jbHVzdGVyMg"];
            output(java(&[&format[..], &["-c", &name, "--add-scram", &scram]].concat()))?;
            let log = File::create(started.home.join(format!("node-{}.log", node + 1))).map_err(failed)?;
            let mut java = java(&["kafka.Kafka", &name]);
            java.stdout(log.try_clone().map_err(failed)?).stderr(log);
            started.children.push(Running::start(&mut java)?);
        }
        for node in 0..nodes {
            listens(started.ports[node * PER_NODE])?;
        }
        Ok(started)
    }

    /// What `--kafka` takes: the ports for clients with a login.
    pub(super) fn bootstrap(&self) -> String {
        self.servers(0)
    }

    /// The ports for clients with a certificate.
    pub(super) fn mutual(&self) -> String {
        self.servers(3)
    }

    fn servers(&self, offset: usize) -> String {
        let servers = (0..self.children.len())
            .map(|node| format!("127.0.0.1:{}", self.ports[node * PER_NODE + offset]));
        servers.collect::<Vec<_>>().join(",")
    }

    fn config(&self, node: usize, nodes: usize, files: [&Path; 2], user: &str, password: &str) -> String {
        let [store, authority] = files.map(Path::display);
        let at = |node: usize, offset: usize| self.ports[node * PER_NODE + offset];
        let voters = (0..nodes).map(|node| format!("{}@127.0.0.1:{}", node + 1, at(node, 2)));
        let voters = voters.collect::<Vec<_>>().join(",");
        let (id, client, inner) = (node + 1, at(node, 0), at(node, 1));
        let (controller, mutual) = (at(node, 2), at(node, 3));
        format!(
            "process.roles=broker,controller
node.id={id}
controller.quorum.voters={voters}
listeners=CLIENT://127.0.0.1:{client},INNER://127.0.0.1:{inner},CONTROLLER://127.0.0.1:{controller},MUTUAL://127.0.0.1:{mutual}
advertised.listeners=CLIENT://127.0.0.1:{client},INNER://127.0.0.1:{inner},MUTUAL://127.0.0.1:{mutual}
initial.broker.registration.timeout.ms=600000
listener.security.protocol.map=CLIENT:SASL_SSL,MUTUAL:SSL,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=INNER
log.dirs=store-{id}
ssl.keystore.type=PEM
ssl.keystore.location={store}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.mutual.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.client.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.client.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}=\"{password}\";
"
        )
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        let nodes = self.children.len();
        self.children.clear();
        for node in 1..=nodes {
            let _ = std::fs::remove_dir_all(self.home.join(format!("store-{node}")));
        }
    }
}

/// How many topics of ours a node holds: a topic that was removed keeps its folder for a minute, under another name.
pub(super) fn topics(store: &Path) -> Result<u64> {
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("seawall-") && !name.ends_with("-delete")
    };
    Ok(files::list(store)?.iter().filter(|path| named(path)).count() as u64)
}
