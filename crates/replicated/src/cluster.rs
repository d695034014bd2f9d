//! Starts and ends test clusters: three nodes of an engine on this machine's loopback, by [`up`] and [`down`].
//!
//! ```text
//!   ~/.cache/seawall/engines/nats-server-2.15.2   the program, fetched and built once (`program`), by its checksum
//!   FOLDER/nats-always/cluster.json      which nodes run, where, with which settings (`state`)
//!                     /node-1.log …      their output; stays after `down`
//!                     /node-1/ …         their data; removed by `down`
//! ```
//!
//! A cluster is named by its engine and its sync setting, so that two of the same engine can be compared.
//!
//! Invariants: folders, files and programs that another user owns or may write to are refused, and links are not
//! followed (`owned`); a program runs only while it has the checksum that was noted when it was built (`checksum`);
//! nothing listens on any address but 127.0.0.1; a node is recorded before the next is started, so that
//! `down` ends every one even if `up` was interrupted; a process is only ended if it is the one that was started; an
//! `up` that fails or is interrupted leaves nothing running.

mod checksum;
mod kafka;
mod nats;
mod nodes;
mod owned;
mod ports;
mod program;
mod state;

use crate::{Cause, EngineKind, Error, Named, Result, connect};
use seawall_sys::clock;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use nodes::{Node, NodesUp, state_of};
pub use owned::NotOwn;
pub use state::{State, find};

/// How many nodes a cluster has: as many as copies.
pub const NODES: usize = 3;

/// How long a cluster may take to acknowledge its first record.
const START: Duration = Duration::from_mins(3);

/// When the nodes sync what they accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// The engine's default.
    Default,
    /// Before each acknowledgement.
    Always,
    /// Every so often.
    Every(Duration),
}

impl Sync {
    /// Its name on the command line and in folders.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::Always => "always".to_owned(),
            Self::Every(every) => humantime::format_duration(every).to_string().replace(' ', ""),
        }
    }
}

impl std::str::FromStr for Sync {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "default" => Ok(Self::Default),
            "always" => Ok(Self::Always),
            other => match humantime::parse_duration(other) {
                Ok(every) if (1..=86_400_000).contains(&every.as_millis()) => Ok(Self::Every(every)),
                _ => Err(Error::failed(
                    "no sync setting",
                    "write `default`, `always`, or a time such as 10s, from 1ms to 1day",
                )),
            },
        }
    }
}

/// A cluster to start.
#[derive(Debug, Clone)]
pub struct ClusterSpec {
    /// Of which engine.
    pub kind: EngineKind,
    /// When its nodes sync.
    pub sync: Sync,
    /// The folder that data and logs go below; the caller's own.
    pub folder: PathBuf,
    /// The first of the nine ports that are used; `None`: whichever are free.
    pub first_port: Option<u16>,
}

impl ClusterSpec {
    /// The cluster's own folder.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folder.join(format!("{}-{}", self.kind.known().name, self.sync.name()))
    }
}

/// Starts a cluster and waits for its first replicated acknowledgement; `report` takes lines of progress.
///
/// # Errors
/// What is missing or failed, and the remedy; nothing is left running.
pub fn up(spec: &ClusterSpec, report: &mut dyn FnMut(&str), stop: &'static AtomicBool) -> Result<State> {
    spec.kind.needs_client()?;
    owned::provide_folder(&spec.folder)?;
    let home = spec.home();
    if let Some(state) = state::read(&home)? {
        if nodes::any_runs(&state) {
            let (engine, dir) = (&state.engine, spec.folder.display());
            return Err(Error::failed(
                format!("a cluster of {engine} runs there already"),
                format!(
                    "`seawall cluster status --dir {dir}` shows it, `seawall cluster down {engine}` ends it"
                ),
            ));
        }
        state::forget(&home)?;
    }
    let program = program::provide(spec.kind, report, stop)?;
    owned::provide_folder(&home)?;
    nodes::clear(&home)?;
    let ports = ports::choose(spec.first_port, NODES * ports::PER_NODE)?;
    let plans = match spec.kind {
        EngineKind::Nats => nats::plan(&program, &home, spec.sync, &ports),
        EngineKind::Kafka => kafka::plan(&program, &home, spec.sync, &ports),
    };
    let mut state = State::new(spec, &ports);
    state::claim(&home, &state)?;
    let _ended_on_panic = EndedOnPanic(&home);
    let outcome = nodes::start(&plans, &home, &mut state, report, stop)
        .and_then(|()| healthy(spec, &home, &state, report, stop));
    match outcome {
        Ok(()) => Ok(state),
        Err(error) => match down(&home, &state) {
            Ok(()) => Err(Error::NotStarted { logs: home.clone(), source: Box::new(error) }),
            Err(left) => Err(error.and_left(vec![left.into()])),
        },
    }
}

/// Ends the stored nodes if this thread panics.
struct EndedOnPanic<'a>(&'a Path);

impl Drop for EndedOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(Some(state)) = state::read(self.0)
        {
            let _ = nodes::end(&state);
        }
    }
}

/// Waits for a record to be acknowledged by the cluster's copies.
fn healthy(
    spec: &ClusterSpec,
    home: &Path,
    state: &State,
    report: &mut dyn FnMut(&str),
    stop: &'static AtomicBool,
) -> Result<()> {
    let started_ns = clock::monotonic_ns();
    report("waiting for the first replicated acknowledgement …");
    let named = state.named(Duration::from_secs(10));
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if let Some(died) = nodes::died(state, home) {
            return Err(died);
        }
        match tried(&named, stop) {
            Ok(()) => break,
            Err(error) if (clock::monotonic_ns() - started_ns) / 1_000_000_000 > START.as_secs() => {
                let waited = humantime::format_duration(START);
                return Err(Error::caused(format!("no record was acknowledged in {waited}"), error, ""));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
    let waited_ns = clock::monotonic_ns() - started_ns;
    report(&format!(
        "{} acknowledged its first record in a stream of {NODES} copies after {:.1} s",
        spec.kind.known().title,
        waited_ns as f64 / 1e9
    ));
    Ok(())
}

/// Has one record acknowledged in a stream of three copies, and removes the stream.
fn tried(named: &Named, stop: &'static AtomicBool) -> Result<(), Cause> {
    connect(named, stop)?.iter_mut().try_for_each(|engine| engine.close())
}

/// Waits until `stop` or until a node ends, then ends the cluster.
///
/// # Errors
/// A node ended by itself, or could not be ended.
pub fn stay(spec: &ClusterSpec, state: &State, stop: &AtomicBool) -> Result<()> {
    let home = spec.home();
    let died = loop {
        if stop.load(Ordering::Relaxed) {
            break None;
        }
        if let Some(died) = nodes::died(state, &home) {
            break Some(died);
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    down(&home, state)?;
    died.map_or(Ok(()), Err)
}

/// Ends a cluster and removes what it stored; its logs stay.
///
/// # Errors
/// What is still running or could not be removed.
pub fn down(home: &Path, state: &State) -> Result<()> {
    nodes::end(state)?;
    nodes::clear(home)?;
    state::forget(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_setting_is_read_as_it_is_named() {
        for sync in [Sync::Default, Sync::Always, Sync::Every(Duration::from_secs(90))] {
            assert_eq!(sync.name().parse::<Sync>().expect("its own name"), sync);
        }
        for wrong in ["", "never", "0s", "9days"] {
            assert!(
                wrong.parse::<Sync>().is_err_and(|error| error.to_string().contains("always")),
                "{wrong}"
            );
        }
    }
}
