//! `seawall log …`: lists its commands, each of which has a file, and holds the arguments and endings that they share.
//!
//! Invariants: records and results go to standard output; a closed output pipe ends the command without an error,
//! except `append`, which continues to read its input; damage ends the command with exit code 1 and the place;
//! nothing but `append` and `trim` opens a log for writing.

mod append;
mod backup;
mod cat;
mod compact;
mod fence;
mod follow;
mod records;
mod retain;
mod salvage;
mod service;
mod ship;
mod standby;
mod stat;
mod status;
mod trim;
mod verify;

use crate::exit::Failure;
use clap::{Args, Subcommand, ValueEnum};
use seawall::{Engine, EngineChoice, MethodChoice, Tail};
use seawall_host::text::printable;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write, read and check transaction logs
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Append records from standard input and print the LSN of each when it is durable
    Append(append::Append),
    /// Print records
    Cat(cat::Cat),
    /// Print records as they become durable; exits with 0 when interrupted or when its output is closed
    Follow(cat::Cat),
    /// Print a log's LSNs, segments, commit method, writer and tail
    Stat(Look),
    /// Check every byte of a log; prints damaged places and exits with 1
    Verify(Look),
    /// Copy the intact records of a damaged log into a new log
    Salvage(salvage::Salvage),
    /// Back up a log, even while it is written; updates an existing backup
    Backup(backup::Backup),
    /// Remove all records before an LSN
    Trim(trim::Trim),
    /// Ship a log to a stream or an archive, even while it is written, until interrupted
    Ship(ship::Ship),
    /// Restore a log from a stream or an archive, and fence its old writer
    Rebuild(ship::Rebuild),
    /// Follow a shipped log and keep a copy of it, until interrupted
    Standby(standby::Standby),
    /// Promote a standby: its folder becomes the log, and the old writer is fenced
    Takeover(standby::Takeover),
    /// Remove the oldest segments of an archive, which no restore within the retention needs
    Retain(retain::Retain),
    /// Copy the small objects of an archive into larger ones, so that a restore reads fewer
    Compact(compact::Compact),
    /// Dry-run a restore and verify every message; exits with 9 if anything is missing or damaged
    Drill(ship::Drill),
    /// Print where a log is shipped, the lag and the last error, for a folder or an address
    Status(status::Status),
}

#[derive(Debug, Args)]
struct Look {
    /// The log's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Answer {
    /// Lines of text
    Text,
    /// One JSON object
    Json,
}

/// Where a log may lie.
#[derive(Debug, Default, Args)]
pub(crate) struct Network {
    /// Allow a network file system, whose server decides what locks and syncs guarantee
    #[arg(long)]
    pub(crate) network_file_system: bool,
}

/// How commits go to the disk.
#[derive(Debug, Default, Args)]
pub(crate) struct LogMethodArgs {
    /// The commit method to use instead of the fastest one of its class (see `seawall methods`)
    #[arg(long, value_name = "ID", value_parser = method)]
    method: Option<String>,
    /// The engine to use: portable, `io_uring` (Linux) or overlapped (Windows); `automatic` takes the fastest one that the
    /// system allows
    #[arg(long, value_name = "NAME", default_value = "automatic", value_parser = engine)]
    pub(crate) engine: EngineChoice,
}

impl LogMethodArgs {
    pub(crate) fn method(&self) -> MethodChoice {
        self.method.clone().map_or(MethodChoice::Fastest, MethodChoice::Named)
    }
}

fn method(id: &str) -> Result<String, Failure> {
    let is_known = seawall_sys::methods::here().iter().any(|method| method.id == id);
    let refusal = || Failure::usage("this system has no method of that id; `seawall methods` lists them");
    is_known.then(|| id.to_owned()).ok_or_else(refusal)
}

fn engine(name: &str) -> Result<EngineChoice, Failure> {
    if name == "automatic" {
        return Ok(EngineChoice::Automatic);
    }
    Engine::find(name).map(EngineChoice::Only).ok_or_else(|| {
        let known: Vec<&str> = Engine::ALL.into_iter().map(Engine::name).collect();
        Failure::Usage(format!(
            "the engines are {}; automatic takes the fastest one that the system allows",
            known.join(", ")
        ))
    })
}

pub(crate) fn run(args: &LogArgs) -> Result<ExitCode, Failure> {
    let done = match &args.command {
        LogCommand::Append(options) => append::append(options),
        LogCommand::Cat(options) => cat::cat(options),
        LogCommand::Follow(options) => cat::follow(options),
        LogCommand::Stat(look) => stat::stat(look),
        LogCommand::Verify(look) => verify::check(look),
        LogCommand::Salvage(options) => salvage::save(options),
        LogCommand::Backup(options) => backup::back_up(options),
        LogCommand::Trim(options) => trim::trim(options),
        LogCommand::Ship(options) => ship::ship(options),
        LogCommand::Rebuild(options) => ship::build(options),
        LogCommand::Standby(options) => standby::follow(options),
        LogCommand::Takeover(options) => standby::take(options),
        LogCommand::Retain(options) => retain::run(options),
        LogCommand::Compact(options) => compact::run(options),
        LogCommand::Drill(options) => ship::check(options),
        LogCommand::Status(options) => status::run(options),
    };
    match done {
        Ok(()) | Err(Stop::Gone) => Ok(ExitCode::SUCCESS),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

/// Why a command ends early.
#[derive(Debug, thiserror::Error)]
enum Stop {
    /// The output pipe is closed.
    #[error("the output is closed")]
    Gone,
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<seawall::Error> for Stop {
    fn from(error: seawall::Error) -> Self {
        let missing = match &error {
            seawall::Error::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound)
            }
            _ => false,
        };
        let remedy = if missing { "; name the folder of a log" } else { "" };
        Failure::Message(format!("{}{remedy}", printable(&error.to_string()))).into()
    }
}

/// Of standard output.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::Gone
        } else {
            Failure::Message(format!("cannot write to standard output: {error}")).into()
        }
    }
}

/// No engine takes over in silence: a slower one must be visible.
fn print_refusal(reason: Option<&str>) {
    if let Some(reason) = reason {
        tell!("using the portable engine: io_uring is refused: {reason}");
    }
}

/// What is gone though it had been acknowledged, where the log did not promise to keep it.
fn loss(tail: Tail) -> Option<String> {
    let Tail::Lost { from, to } = tail else { return None };
    Some(format!(
        "acknowledged records from LSN {from} to {to}: the failure was beyond the log's durability class"
    ))
}
