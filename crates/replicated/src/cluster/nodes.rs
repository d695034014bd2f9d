//! Starts, watches and ends a cluster's node processes, each recorded before the next starts.
//!
//! Invariants: a node is ended only while its mark equals the recorded one; `end` returns when no node runs, or names
//! the one that does.

use super::state::{self, State};
use crate::{Error, Result};
use seawall_sys::process::{TrackedProcess, start_apart};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a node may take to end by itself, before it is killed.
const LEAVE: Duration = Duration::from_secs(10);
/// How often it is checked meanwhile.
const LOOK: Duration = Duration::from_millis(50);
/// Last lines of a log that are printed of a node that ended.
const LAST_LINES: usize = 3;

/// A node that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name in the cluster.
    pub name: String,
    /// Its process.
    pub process: TrackedProcess,
    /// The port for clients.
    pub port: u16,
    /// Its output.
    pub log: PathBuf,
}

/// Whether a cluster's nodes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodesUp {
    /// All of them.
    All,
    /// So many of them.
    Some(usize),
    /// None.
    None,
}

/// How many nodes run.
#[must_use]
pub fn state_of(state: &State) -> NodesUp {
    match state.nodes.iter().filter(|node| node.process.runs()).count() {
        0 => NodesUp::None,
        n if n == super::NODES => NodesUp::All,
        n => NodesUp::Some(n),
    }
}

pub(super) fn any_runs(state: &State) -> bool {
    state_of(state) != NodesUp::None
}

/// A node to start.
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) port: u16,
    /// Its configuration: the file's name in its folder, and the text.
    pub(super) config: (&'static str, String),
    /// Commands to be run first and waited for.
    pub(super) before: Vec<Vec<String>>,
    pub(super) command: Vec<String>,
}

/// Starts every node.
pub(super) fn start(
    plans: &[Plan],
    home: &Path,
    state: &mut State,
    report: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<()> {
    for plan in plans {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let folder = home.join(&plan.name);
        let failed = Error::io("start the node in", &folder);
        std::fs::create_dir_all(&folder).map_err(failed)?;
        std::fs::write(folder.join(plan.config.0), &plan.config.1).map_err(failed)?;
        let log = home.join(format!("{}.log", plan.name));
        let file = File::create(&log).map_err(failed)?;
        let into_log = |words: &[String]| -> std::io::Result<Command> {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).current_dir(&folder).stdin(Stdio::null());
            command.stdout(file.try_clone()?).stderr(file.try_clone()?);
            Ok(command)
        };
        for words in &plan.before {
            let ended = into_log(words).and_then(|mut command| command.status()).map_err(failed)?;
            if !ended.success() {
                let what = format!("{} could not be started, `{}` ended with {ended}", plan.name, words[0]);
                return Err(Error::failed(what, last_lines(&log)));
            }
        }
        let mut command = into_log(&plan.command).map_err(failed)?;
        // The child is not waited for: it is found again by the stored state.
        let (_, process) = start_apart(&mut command).map_err(failed)?;
        report(&format!("{}: process {}, port {}", plan.name, process.pid, plan.port));
        state.nodes.push(Node { name: plan.name.clone(), process, port: plan.port, log });
        state::write(home, state)?;
    }
    Ok(())
}

/// The first node that does not run any more, with its last output.
pub(super) fn died(state: &State, home: &Path) -> Option<Error> {
    let node = state.nodes.iter().find(|node| !node.process.runs())?;
    let log = home.join(format!("{}.log", node.name));
    Some(Error::failed(format!("{} ended by itself", node.name), last_lines(&log)))
}

fn last_lines(log: &Path) -> String {
    let text =
        std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return format!("there is no output in {}", log.display());
    }
    lines[lines.len().saturating_sub(LAST_LINES)..].join(" / ")
}

/// Ends every node and waits until none runs.
pub(super) fn end(state: &State) -> Result<()> {
    let what = |node: &Node| format!("{} (process {}) could not be ended", node.name, node.process.pid);
    for node in &state.nodes {
        node.process.ask_to_end().map_err(|error| Error::caused(what(node), error, ""))?;
    }
    // Looks are counted and not time, which goes on while this process and the nodes are stopped or the machine sleeps.
    let most = LEAVE.as_millis() / LOOK.as_millis();
    let mut looks = 0;
    while any_runs(state) {
        if looks == most {
            for node in &state.nodes {
                node.process.end_now().map_err(|error| Error::caused(what(node), error, ""))?;
            }
        }
        if looks > 3 * most
            && let Some(node) = state.nodes.iter().find(|node| node.process.runs())
        {
            return Err(Error::failed(what(node), "it runs on although it was killed"));
        }
        std::thread::sleep(LOOK);
        looks += 1;
    }
    Ok(())
}

/// Removes what nodes stored in a cluster's folder; their logs stay.
pub(super) fn clear(home: &Path) -> Result<()> {
    for node in 1..=super::NODES {
        let folder = home.join(name(node));
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &folder)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The name of a node, counted from 1.
pub(super) fn name(node: usize) -> String {
    format!("node-{node}")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::EngineKind;
    use crate::cluster::{ClusterSpec, NODES, NotOwn, Sync, down};

    fn plan(node: usize, command: &[&str]) -> Plan {
        Plan {
            name: name(node),
            port: 1,
            config: ("config", String::new()),
            before: Vec::new(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    fn started(home: &Path, commands: [&[&str]; NODES]) -> State {
        let spec = ClusterSpec {
            kind: EngineKind::Nats,
            sync: Sync::Default,
            folder: home.to_path_buf(),
            first_port: None,
        };
        let mut state = State::new(&spec, &[0; 9]);
        let plans: Vec<Plan> = (1..).zip(commands).map(|(node, command)| plan(node, command)).collect();
        let stop = AtomicBool::new(false);
        start(&plans, home, &mut state, &mut |_| {}, &stop).expect("started");
        state
    }

    #[test]
    fn every_node_is_ended_even_one_that_does_not_listen_and_one_that_is_stopped() {
        let home = tempfile::tempdir().expect("a folder");
        let deaf = ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"];
        let stopped = ["sh", "-c", "kill -STOP $$; sleep 600"];
        let state = started(home.path(), [&["sleep", "600"], &deaf, &stopped]);
        assert_eq!(state_of(&state), NodesUp::All);
        assert!(died(&state, home.path()).is_none());
        let written = state::read(home.path()).expect("readable").expect("written");
        assert_eq!(written, state, "each node is stored");
        down(home.path(), &written).expect("ended");
        assert_eq!(state_of(&state), NodesUp::None);
        assert!(!home.path().join("node-1").exists() && home.path().join("node-1.log").exists());
        assert_eq!(state::read(home.path()).expect("readable"), None);
    }

    #[test]
    fn a_planted_file_ends_no_process_of_another_start_and_none_is_read_that_others_may_write() {
        let home = tempfile::tempdir().expect("a folder");
        let state = started(home.path(), [&["sleep", "600"], &["sleep", "600"], &["sleep", "600"]]);
        let text = std::fs::read_to_string(home.path().join("cluster.json")).expect("readable");
        // The numbers of running processes, with the start of others: the system notes it in hundredths of a second.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut bystander = std::process::Command::new("sleep").arg("600").spawn().expect("started");
        let planted = text.replace(&state.nodes[0].process.pid.to_string(), &bystander.id().to_string());
        assert_ne!(planted, text);
        let other = tempfile::tempdir().expect("a folder");
        let planted_home = other.path().join("nats-default");
        super::super::owned::provide_folder(&planted_home).expect("made");
        std::fs::write(planted_home.join("cluster.json"), &planted).expect("written");
        let mut read = state::read(&planted_home).expect("readable").expect("is one");
        read.nodes.truncate(1);
        down(&planted_home, &read).expect("nothing to end");
        assert!(bystander.try_wait().expect("its status").is_none(), "the bystander goes on");
        bystander.kill().and_then(|()| bystander.wait()).expect("ended");
        // The true file, where others could have written it.
        let path = home.path().join("cluster.json");
        for (mode, held) in [(0o666, false), (0o620, false), (0o600, true)] {
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("set");
            assert_eq!(state::read(home.path()).is_ok(), held, "{mode:o}");
        }
        std::os::unix::fs::symlink(home.path(), other.path().join("linked")).expect("linked");
        let linked = state::find(other.path(), None, None);
        assert!(matches!(linked, Err(Error::NotOwn { why: NotOwn::Link, .. })));
        down(home.path(), &state).expect("ended");
    }

    #[test]
    fn a_node_that_ends_by_itself_is_reported_with_its_last_output() {
        let home = tempfile::tempdir().expect("a folder");
        let dying = ["sh", "-c", "echo port in use; exec false"];
        let state = started(home.path(), [&dying, &["sleep", "600"], &["sleep", "600"]]);
        let died = loop {
            if let Some(died) = died(&state, home.path()) {
                break died.to_string();
            }
            std::thread::yield_now();
        };
        assert!(died.contains("node-1") && died.contains("port in use"), "{died}");
        down(home.path(), &state).expect("the others are ended");
    }
}
