//! Gives each of three nodes a network namespace and an address of its own, and cuts them off.
//!
//! ```text
//! this machine ── bridge .1 ──┬── node 0 .2      cut off:       its end of the bridge is down
//!                             ├── node 1 .3      not heard:     what it sends to everyone goes to nobody
//!                             └── node 2 .4      two apart:     what two send to each other goes to nobody
//! ```
//!
//! Nothing is refused: packets are lost without an answer, as on a wire that is cut.
//!
//! Invariant: the namespaces and the bridge are removed when their [`Network`] is dropped, and those of a process that was killed by
//! the next one.

use crate::error::Result;
use crate::shell::{command, has, is_root, output};
use std::process::Command;

/// What the names begin with; the process that made them comes after it.
const NAMES: &str = "seawall-";
/// A hardware address that nobody has.
const NOBODY: &str = "02:00:00:00:00:01";
/// The interface of a node in its namespace.
const INSIDE: &str = "node";

pub(super) struct Network {
    process: u32,
}

impl Network {
    /// Why there is none here.
    pub(super) fn lacking() -> Option<&'static str> {
        (!is_root() || !has("ip")).then_some("network namespaces need root on Linux and the program ip")
    }

    pub(super) fn new() -> Result<Self> {
        remove_left()?;
        let network = Self { process: std::process::id() };
        let bridge = network.bridge();
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("addr add {}/24 dev {bridge}", network.address(0)))?;
        ip(&format!("link set {bridge} up"))?;
        for node in 0..3 {
            let (name, end) = (network.name(node), network.end(node));
            ip(&format!("netns add {name}"))?;
            ip(&format!("link add {end} type veth peer name {INSIDE} netns {name}"))?;
            ip(&format!("link set {end} master {bridge} up"))?;
            ip(&format!("-n {name} addr add {}/24 dev {INSIDE}", network.host(node)))?;
            ip(&format!("-n {name} link set {INSIDE} up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        Ok(network)
    }

    fn bridge(&self) -> String {
        format!("sw{}", self.process)
    }

    /// The bridge's end of a node's wire.
    fn end(&self, node: usize) -> String {
        format!("sw{}n{node}", self.process)
    }

    fn name(&self, node: usize) -> String {
        format!("{NAMES}{}-{node}", self.process)
    }

    /// Addresses that are kept for measurements of networks, so that no other machine has them.
    fn address(&self, number: usize) -> String {
        format!("198.18.{}.{}", self.process % 256, number + 1)
    }

    pub(super) fn host(&self, node: usize) -> String {
        self.address(node + 1)
    }

    /// Has a program run in a node's namespace, with the process that is started.
    pub(super) fn inside(&self, node: usize, program: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.name(node)]).arg(program.get_program()).args(program.get_args());
        inside
    }

    /// Cuts a node off from everyone, or ends that.
    pub(super) fn cut(&self, node: usize, apart: bool) -> Result {
        let state = if apart { "down" } else { "up" };
        ip(&format!("link set {} {state}", self.end(node)))
    }

    /// Has a node hear everyone and be heard by nobody, or ends that.
    pub(super) fn mute(&self, node: usize, apart: bool) -> Result {
        let mut others = (0..4).filter(|other| *other != node + 1);
        others.try_for_each(|other| self.lose(node, &self.address(other), apart))
    }

    /// Has two nodes not hear each other, while both hear the third and the clients; or ends that.
    pub(super) fn part(&self, one: usize, other: usize, apart: bool) -> Result {
        self.lose(one, &self.host(other), apart)?;
        self.lose(other, &self.host(one), apart)
    }

    /// Has what a node sends to an address get lost, or ends that.
    fn lose(&self, node: usize, address: &str, apart: bool) -> Result {
        let name = self.name(node);
        if apart {
            return ip(&format!(
                "-n {name} neigh replace {address} lladdr {NOBODY} dev {INSIDE} nud permanent"
            ));
        }
        ip(&format!("-n {name} neigh del {address} dev {INSIDE}"))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = remove(self.process);
    }
}

fn ip(words: &str) -> Result {
    output(command("ip", &words.split(' ').collect::<Vec<_>>())).map(drop)
}

/// Removes all of them, also if one is not there.
fn remove(process: u32) -> Result {
    let mut removed: Vec<Result> =
        (0..3).map(|node| ip(&format!("netns del {NAMES}{process}-{node}"))).collect();
    removed.push(ip(&format!("link del sw{process}")));
    removed.into_iter().collect()
}

/// Removes what processes left that do not run any more.
fn remove_left() -> Result {
    let names = output(command("ip", &["netns", "list"]))?;
    for process in makers(&names).filter(|process| !super::runs(process)) {
        remove(process)?;
    }
    Ok(())
}

/// The processes that made the namespaces of a list.
fn makers(names: &str) -> impl Iterator<Item = u32> {
    let first = names.lines().filter_map(|line| line.split(' ').next()?.strip_suffix("-0"));
    first.filter_map(|name| name.strip_prefix(NAMES)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::{Network, makers};

    #[test]
    fn names_and_addresses_tell_nodes_and_processes_apart() {
        let network = std::mem::ManuallyDrop::new(Network { process: 4_194_304 });
        assert!(network.end(2).len() <= 15, "the kernel takes no longer name: {}", network.end(2));
        assert_eq!((network.host(0).as_str(), network.host(2).as_str()), ("198.18.0.2", "198.18.0.4"));
        let listed = "seawall-17-0 (id: 3)\nseawall-17-1\nother-0\nseawall-x-0\nseawall-18-0\n";
        assert_eq!(makers(listed).collect::<Vec<_>>(), [17, 18]);
    }
}
