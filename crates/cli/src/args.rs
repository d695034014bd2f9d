//! Defines the command line of `seawall`: its commands, and the arguments of the small ones.

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use std::path::PathBuf;

/// Measure durable commits by every method, and check what each outlives on this machine.
#[derive(Debug, Parser)]
#[command(name = "seawall", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The whole command line, with its examples and exit codes.
pub(crate) fn command() -> clap::Command {
    crate::examples::added_to(Cli::command())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print what to set in databases, why, and which commit rates to expect
    Advise(crate::advise::Advise),
    /// Measure every commit method on the disk under a folder
    Bench(Box<crate::bench_args::Bench>),
    /// Compare results, machines and published tables, method by method
    Compare(crate::compare_args::Compare),
    /// Test whether a program keeps what it acknowledged when the power fails (Linux; no root needed)
    CrashTest(Box<crate::crash_test::CrashTest>),
    /// Write, read and check transaction logs
    Log(crate::log_command::LogArgs),
    /// List the commit methods of this system, their calls, and what each outlives in a folder
    Methods(Methods),
    /// Test with real power cuts, and a witness on another host, whether acknowledged data survives
    Powercut(crate::powercut::PowercutArgs),
    /// Measure commit latency in at most 1 s; always returns a result (for the start of services)
    Probe(crate::probe::ProbeArgs),
    /// Follow a program: where its syncs go, which are redundant, which names nobody made durable (Linux)
    Trace(crate::trace::TraceArgs),
    /// Sample a disk gently, for ever, and export what commits cost to Prometheus
    Watch(crate::watch::WatchArgs),
    /// Print the completions of a shell
    Completions(crate::pages::Completions),
    /// Print the manual page
    Man(crate::pages::ManArgs),
    /// Write an HTML page with pictures of one or several results
    Report(crate::report_args::Report),
}

/// Options of `seawall methods`.
#[derive(Debug, Args)]
pub(crate) struct Methods {
    /// Folder for which durability is computed
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Print them as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
