//! Stores a running cluster's nodes, addresses and sync setting in its `cluster.json`.
//!
//! Invariants: the file exists as long as a node may be running, and is replaced whole; the process that creates it
//! owns the folder, so that two processes cannot start the same cluster.

use super::nodes::Node;
use super::owned::{self, Thing};
use super::ports::PER_NODE;
use super::{ClusterSpec, NODES};
use crate::{EngineKind, Error, Named, Result};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE: &str = "cluster.json";

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The engine, as on the command line.
    pub engine: String,
    /// When its nodes sync, as on the command line.
    pub sync: String,
    /// What `--kafka` or `--nats` takes.
    pub address: String,
    /// What `--nats-monitor` takes; empty for engines that need none.
    pub monitors: String,
    /// Those that were started.
    pub nodes: Vec<Node>,
}

impl State {
    pub(super) fn new(spec: &ClusterSpec, ports: &[u16]) -> Self {
        let each = |offset: usize, scheme: &str| {
            let at = |node: usize| format!("{scheme}127.0.0.1:{}", ports[node * PER_NODE + offset]);
            (0..NODES).map(at).collect::<Vec<_>>().join(",")
        };
        let (address, monitors) = match spec.kind {
            EngineKind::Nats => (each(0, "nats://"), each(2, "")),
            EngineKind::Kafka => (each(0, ""), String::new()),
        };
        Self {
            engine: spec.kind.known().name.to_owned(),
            sync: spec.sync.name(),
            address,
            monitors,
            nodes: Vec::new(),
        }
    }

    /// The cluster as one to connect to.
    #[must_use]
    pub fn named(&self, ack_timeout: Duration) -> Named {
        let mut named = Named { ack_timeout, ..Named::default() };
        if self.engine == EngineKind::Kafka.known().name {
            named.kafka.push(self.address.clone());
        } else {
            named.nats.push(self.address.clone());
            named.nats_monitors.push(self.monitors.clone());
        }
        named
    }

    /// The words that name it to `seawall bench replicated`.
    #[must_use]
    pub fn options(&self) -> String {
        let monitors = if self.monitors.is_empty() {
            String::new()
        } else {
            format!(" --nats-monitor {}", self.monitors)
        };
        format!("--{} {}{monitors}", self.engine, self.address)
    }
}

/// The cluster in that folder, if there is one.
pub(super) fn read(home: &Path) -> Result<Option<State>> {
    let path = home.join(FILE);
    // Links included; anything else that is wrong with it is an error below.
    if std::fs::symlink_metadata(&path)
        .is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
    {
        return Ok(None);
    }
    owned::is_own(home, Thing::Folder)?;
    let Some(text) = owned::read(&path)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| {
        let remedy = "end the nodes whose command line names that folder, then remove it";
        Error::caused(format!("{} is damaged", path.display()), error, remedy)
    })
}

/// Takes the folder for a new cluster.
pub(super) fn claim(home: &Path, state: &State) -> Result<()> {
    owned::provide_folder(home)?;
    let failed = Error::io("write to", home);
    let mut file = owned::create_new(&home.join(FILE)).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let what = format!("another `seawall cluster up` is at work in {}", home.display());
            Error::failed(what, "wait for its end")
        }
        _ => failed(error),
    })?;
    file.write_all(text(state).map_err(failed)?.as_bytes()).map_err(failed)
}

/// Replaces the stored state.
pub(super) fn write(home: &Path, state: &State) -> Result<()> {
    let replaced = text(state).and_then(|text| owned::replace(&home.join(FILE), text.as_bytes()));
    replaced.map_err(Error::io("write to", home))
}

fn text(state: &State) -> std::io::Result<String> {
    Ok(serde_json::to_string_pretty(state)?)
}

/// Removes the stored state.
pub(super) fn forget(home: &Path) -> Result<()> {
    let path = home.join(FILE);
    owned::remove_file(&path).map_err(Error::io("remove", &path))
}

/// Every cluster below `folder`, with its own folder; only those of `engine` and `sync`, if given.
///
/// # Errors
/// The file that cannot be read, or the folder or file that is not the caller's own.
pub fn find(
    folder: &Path,
    engine: Option<EngineKind>,
    sync: Option<super::Sync>,
) -> Result<Vec<(PathBuf, State)>> {
    if !owned::is_own_folder(folder)? {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder).map_err(Error::io("look into", folder))?;
    let mut homes: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    homes.sort();
    let mut found = Vec::new();
    for home in homes {
        let Some(state) = read(&home)? else { continue };
        let wanted = engine.is_none_or(|kind| kind.known().name == state.engine)
            && sync.is_none_or(|sync| sync.name() == state.sync);
        if wanted {
            found.push((home, state));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::Sync;
    use super::*;

    fn spec(folder: &Path) -> ClusterSpec {
        ClusterSpec {
            kind: EngineKind::Nats,
            sync: Sync::Always,
            folder: folder.to_path_buf(),
            first_port: None,
        }
    }

    #[test]
    fn a_cluster_is_found_as_it_was_written_and_its_folder_is_taken_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let spec = spec(folder.path());
        let state = State::new(&spec, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(
            state.options(),
            "--nats nats://127.0.0.1:1,nats://127.0.0.1:4,nats://127.0.0.1:7 --nats-monitor 127.0.0.1:3,127.0.0.1:6,127.0.0.1:9"
        );
        claim(&spec.home(), &state).expect("taken");
        assert!(claim(&spec.home(), &state).is_err_and(|error| error.to_string().contains("another")));
        let found = |engine, sync| find(folder.path(), engine, sync).expect("readable");
        assert_eq!(found(None, None), [(spec.home(), state.clone())]);
        assert_eq!(found(Some(EngineKind::Nats), Some(Sync::Always)).len(), 1);
        assert_eq!(found(Some(EngineKind::Kafka), None).len(), 0);
        assert_eq!(found(None, Some(Sync::Default)).len(), 0);
        forget(&spec.home()).expect("removed");
        assert_eq!(found(None, None).len(), 0);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_not_taken_for_no_cluster() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = spec(folder.path()).home();
        std::fs::create_dir_all(&home).expect("made");
        std::fs::write(home.join(FILE), "{").expect("written");
        assert!(find(folder.path(), None, None).is_err_and(|error| error.to_string().contains("damaged")));
    }
}
