//! `seawall cluster`: starts, shows and ends a three-node test cluster of an engine on this machine.
//!
//! Invariant: after `down`, after a failed or interrupted `up`, and after Ctrl-C of `up --foreground` nothing is left
//! running.

use crate::exit::Failure;
use crate::output;
use crate::signals::{self, STOP};
use clap::{Args, Subcommand, ValueEnum};
use seawall_replicated::EngineKind;
use seawall_replicated::cluster::{self, ClusterSpec, NodesUp, State, Sync};
use seawall_sys::text::printable;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Options of `seawall cluster`.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start three nodes on 127.0.0.1; the first time their program is fetched and built
    Up(Up),
    /// End them and remove what they stored; their logs stay
    Down(Which),
    /// Print which nodes run, where they listen, when they sync
    Status(Which),
}

#[derive(Debug, Args)]
struct Up {
    /// The engine
    engine: EngineName,
    /// When nodes sync: `default` (as the engine comes), `always` (before each acknowledgement), or a time such as 10s
    #[arg(long, value_name = "WHEN", default_value = "default")]
    sync: Sync,
    /// The first of nine ports [default: whichever are free]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Stay, and end the nodes on Ctrl-C
    #[arg(long)]
    foreground: bool,
    #[command(flatten)]
    folder: Folder,
}

#[derive(Debug, Args)]
struct Which {
    /// The engine [default: every one]
    engine: Option<EngineName>,
    /// Only the cluster with this sync setting
    #[arg(long, value_name = "WHEN")]
    sync: Option<Sync>,
    #[command(flatten)]
    folder: Folder,
}

#[derive(Debug, Args)]
struct Folder {
    /// Where data and logs go, a folder of your own; programs are kept in the user's cache
    #[arg(long, value_name = "DIR", default_value = "seawall-cluster")]
    dir: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EngineName {
    /// Apache Kafka; needs a JDK from 17 on, and Maven
    Kafka,
    /// NATS `JetStream`; needs Go 1.26
    Nats,
}

impl From<EngineName> for EngineKind {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Kafka => Self::Kafka,
            EngineName::Nats => Self::Nats,
        }
    }
}

pub(crate) fn run(options: &ClusterArgs) -> Result<ExitCode, Failure> {
    match &options.action {
        Action::Up(options) => up(options),
        Action::Down(options) => down(options),
        Action::Status(options) => status(options),
    }
}

fn up(options: &Up) -> Result<ExitCode, Failure> {
    signals::listen()?;
    let spec = ClusterSpec {
        kind: options.engine.into(),
        sync: options.sync,
        folder: options.folder.dir.clone(),
        first_port: options.port,
    };
    let mut say = |line: &str| anstream::eprintln!("{}", printable(line));
    let state = cluster::up(&spec, &mut say, &STOP).map_err(|error| {
        if STOP.load(Ordering::Relaxed) {
            anstream::eprintln!("{}", printable(&error.to_string()));
            Failure::Interrupted
        } else {
            Failure::message(error)
        }
    })?;
    let dir = options.folder.dir.display();
    output::print(&format!("seawall bench replicated {}\n", state.options()))?;
    anstream::eprintln!("logs: {}", spec.home().display());
    if options.foreground {
        anstream::eprintln!("Ctrl-C ends it");
        cluster::stay(&spec, &state, &STOP).map_err(Failure::message)?;
        anstream::eprintln!("ended; nothing was left running");
    } else {
        anstream::eprintln!("`seawall cluster down {} --dir {dir}` ends it", state.engine);
    }
    Ok(ExitCode::SUCCESS)
}

fn found(options: &Which) -> Result<Vec<(PathBuf, State)>, Failure> {
    cluster::find(&options.folder.dir, options.engine.map(EngineKind::from), options.sync)
        .map_err(Failure::message)
}

fn down(options: &Which) -> Result<ExitCode, Failure> {
    let clusters = found(options)?;
    if clusters.is_empty() {
        anstream::eprintln!("nothing to end: no such cluster below {}", options.folder.dir.display());
    }
    for (home, state) in &clusters {
        cluster::down(home, state).map_err(Failure::message)?;
        anstream::eprintln!("{} ({}) is down; its logs stay in {}", state.engine, state.sync, home.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn status(options: &Which) -> Result<ExitCode, Failure> {
    let clusters = found(options)?;
    if clusters.is_empty() {
        output::print(&format!("no such cluster below {}\n", options.folder.dir.display()))?;
        return Ok(ExitCode::FAILURE);
    }
    let mut whole = true;
    for (home, state) in &clusters {
        let standing = match cluster::state_of(state) {
            NodesUp::All => "all nodes run".to_owned(),
            NodesUp::Some(n) => format!("{n} of {} nodes run", cluster::NODES),
            NodesUp::None => "no node runs".to_owned(),
        };
        whole &= cluster::state_of(state) == NodesUp::All;
        output::print(&listed(&home.display().to_string(), state, &standing))?;
    }
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn listed(home: &str, state: &State, standing: &str) -> String {
    let mut text = format!("{} · sync {} · {standing} · {home}\n", state.engine, state.sync);
    for node in &state.nodes {
        let runs = if node.process.runs() { "runs" } else { "ended" };
        let _ = writeln!(
            text,
            "  {}  {runs:<5}  process {:<8}  port {:<5}  {}",
            node.name,
            node.process.pid,
            node.port,
            node.log.display()
        );
    }
    let _ = writeln!(text, "  seawall bench replicated {}", state.options());
    text
}
