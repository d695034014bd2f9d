//! Configures three NATS servers with `JetStream`, by one file each.

use super::nodes::{Plan, name};
use super::ports::PER_NODE;
use super::{NODES, Sync};
use std::fmt::Write as _;
use std::path::Path;

const CONFIG: &str = "nats.conf";

pub(super) fn plan(program: &Path, _home: &Path, sync: Sync, ports: &[u16]) -> Vec<Plan> {
    (0..NODES)
        .map(|node| Plan {
            name: name(node + 1),
            port: ports[node * PER_NODE],
            config: (CONFIG, config(node, sync, ports)),
            before: Vec::new(),
            command: vec![program.display().to_string(), "-c".to_owned(), CONFIG.to_owned()],
        })
        .collect()
}

fn config(node: usize, sync: Sync, ports: &[u16]) -> String {
    let at = |node: usize, offset: usize| ports[node * PER_NODE + offset];
    let interval = match sync {
        Sync::Default => String::new(),
        Sync::Always => "  sync_interval: always\n".to_owned(),
        Sync::Every(every) => format!("  sync_interval: \"{}ms\"\n", every.as_millis()),
    };
    let mut text = format!(
        "server_name: {}-{}\nlisten: 127.0.0.1:{}\nhttp: 127.0.0.1:{}\njetstream {{\n  store_dir: store\n{interval}}}\n",
        sync.name(),
        name(node + 1),
        at(node, 0),
        at(node, 2)
    );
    let routes: Vec<String> = (0..NODES).map(|node| format!("nats://127.0.0.1:{}", at(node, 1))).collect();
    let _ = write!(
        text,
        "cluster {{\n  name: seawall\n  listen: 127.0.0.1:{}\n  routes: [{}]\n}}\n",
        at(node, 1),
        routes.join(", ")
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_knows_the_others_and_the_setting_is_written_only_if_it_is_one() {
        let ports: Vec<u16> = (1..=9).collect();
        let text = config(1, Sync::Always, &ports);
        assert!(text.contains("listen: 127.0.0.1:4\nhttp: 127.0.0.1:6\n"), "{text}");
        assert!(text.contains("sync_interval: always"), "{text}");
        for route in [2, 5, 8] {
            assert!(text.contains(&format!("nats://127.0.0.1:{route}")), "{text}");
        }
        assert!(!config(0, Sync::Default, &ports).contains("sync_interval"));
        let every = Sync::Every(std::time::Duration::from_secs(1));
        assert!(config(0, every, &ports).contains("sync_interval: \"1000ms\""));
    }
}
