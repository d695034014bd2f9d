//! Defines the command line of `seawall`: its commands, whose arguments each of them defines.

use clap::{CommandFactory as _, Parser, Subcommand};

/// Measure durable commits by every method, and check what each outlives on this machine.
#[derive(Debug, Parser)]
#[command(name = "seawall", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

pub(crate) fn command() -> clap::Command {
    crate::examples::added_to(Cli::command())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print settings for databases, the reasons, and the commit rates to expect
    Advise(crate::advise::Advise),
    /// Measure every commit method on the disk under a folder
    Bench(Box<crate::bench_args::Bench>),
    /// Compare results, machines and published tables, method by method
    Compare(crate::compare::Compare),
    /// Test whether a program keeps what it acknowledged when the power fails (Linux; no root needed)
    CrashTest(Box<crate::crash_test::CrashTest>),
    /// Write, read and check transaction logs
    Log(crate::log_command::LogArgs),
    /// List the commit methods of this system, their calls, and what each outlives in a folder
    Methods(crate::methods::Methods),
    /// Test whether acknowledged data survives real power cuts, with a witness on another host
    Powercut(crate::powercut::PowercutArgs),
    /// Measure commit latency in at most 1 s; always returns a result (for the start of services)
    Probe(crate::probe::ProbeArgs),
    /// Trace a program's syncs: where they go, which are redundant, which names were never synced (Linux)
    Trace(crate::trace::TraceArgs),
    /// Sample commit latency gently and without end, and export it to Prometheus
    Watch(crate::watch::WatchArgs),
    /// Print shell completions
    Completions(crate::pages::Completions),
    /// Print the manual page
    Man(crate::pages::ManArgs),
    /// Write an HTML page with charts of one or several results
    Report(crate::report::Report),
}
