//! Configures three Kafka nodes, each broker and controller in one, with `KRaft` and fixed voters.
//!
//! By default a broker ends itself if it has not found its controllers within a minute. Three new JVMs take longer on
//! a busy or paused machine, so the limit is raised here and `up` decides how long to wait.

use super::nodes::{Plan, name};
use super::ports::PER_NODE;
use super::{NODES, Sync};
use std::path::Path;

const CONFIG: &str = "server.properties";
/// Any sixteen bytes: these clusters never meet.
const CLUSTER_ID: &str = "c2Vhd2FsbC1jbHVzdGVyMQ";

pub(super) fn plan(jars: &Path, _home: &Path, sync: Sync, ports: &[u16]) -> Vec<Plan> {
    let java = |main: &str, arguments: &[&str]| {
        let class_path = jars.join("*").display().to_string();
        let head = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", &class_path, main];
        head.iter().chain(arguments).map(|word| (*word).to_owned()).collect::<Vec<String>>()
    };
    (0..NODES)
        .map(|node| Plan {
            name: name(node + 1),
            port: ports[node * PER_NODE],
            config: (CONFIG, config(node, sync, ports)),
            before: vec![java("kafka.tools.StorageTool", &["format", "-t", CLUSTER_ID, "-c", CONFIG])],
            command: java("kafka.Kafka", &[CONFIG]),
        })
        .collect()
}

fn config(node: usize, sync: Sync, ports: &[u16]) -> String {
    let at = |node: usize, offset: usize| ports[node * PER_NODE + offset];
    let voters: Vec<String> =
        (0..NODES).map(|node| format!("{}@127.0.0.1:{}", node + 1, at(node, 1))).collect();
    let (voters, id, client, controller) = (voters.join(","), node + 1, at(node, 0), at(node, 1));
    let flush = match sync {
        Sync::Default => String::new(),
        Sync::Always => "log.flush.interval.messages=1\n".to_owned(),
        Sync::Every(every) => format!("log.flush.interval.ms={}\n", every.as_millis()),
    };
    format!(
        "process.roles=broker,controller
node.id={id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{client}
initial.broker.registration.timeout.ms=600000
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=store
num.partitions=1
default.replication.factor=3
min.insync.replicas=2
unclean.leader.election.enable=false
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
{flush}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_knows_the_voters_and_three_copies_need_two() {
        let ports: Vec<u16> = (1..=9).collect();
        let text = config(2, Sync::Always, &ports);
        let lines: Vec<&str> = text.lines().collect();
        for line in [
            "node.id=3",
            "controller.quorum.voters=1@127.0.0.1:2,2@127.0.0.1:5,3@127.0.0.1:8",
            "advertised.listeners=PLAINTEXT://127.0.0.1:7",
            "min.insync.replicas=2",
            "unclean.leader.election.enable=false",
            "log.flush.interval.messages=1",
        ] {
            assert!(lines.contains(&line), "{line} is missing in\n{text}");
        }
        assert!(!config(0, Sync::Default, &ports).contains("flush"));
    }
}
