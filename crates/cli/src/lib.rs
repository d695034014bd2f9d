//! Parses the arguments of `seawall`, runs one command and ends with its exit code; also for the program that contains
//! other write-ahead logs.
//!
//! Invariants: results go to standard output, everything else to standard error; an error names the thing and
//! the remedy; the exit codes are those of [`exit`].

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic where nothing can be written")]

/// Prints a line to standard error, for people.
macro_rules! tell {
    ($($words:tt)*) => { $crate::output::tell(format_args!("{}\n", format_args!($($words)*))) };
}

mod advise;
mod amounts;
mod args;
mod bench;
mod bench_args;
mod colour;
mod compare;
mod crash_test;
mod examples;
mod exit;
mod exposition;
mod hints;
mod job;
mod leftovers;
mod log_command;
mod methods;
mod output;
mod pages;
mod paths;
mod powercut;
mod probe;
mod progress;
mod recorder;
mod report;
mod scenario_args;
mod server;
mod settle;
mod signals;
mod trace;
mod watch;

use clap::FromArgMatches as _;
use seawall_gauge::scenario::log::contest::Contestant;
use seawall_host::text::printable;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::OnceLock;

/// The other logs that are part of this program.
static PEERS: OnceLock<&'static [Contestant]> = OnceLock::new();

fn peers() -> &'static [Contestant] {
    PEERS.get().copied().unwrap_or_default()
}

/// Runs the command that the program's arguments name; `peers` are the logs that `bench peers` runs against this one.
#[must_use]
pub fn run(peers: &'static [Contestant]) -> ExitCode {
    let _ = PEERS.set(peers);
    seawall_host::process::outlive_the_file_size_limit();
    let mut line: Vec<OsString> = std::env::args_os().collect();
    if line.get(1..3).is_some_and(|words| words == ["log", "bench"]) {
        // What the scenario `log` was called before it was one.
        line[1..3].reverse();
    }
    let parsed = args::command().try_get_matches_from(line);
    let parsed = parsed.and_then(|matches| args::Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let outcome = match cli.command {
        args::Command::Advise(options) => advise::run(&options),
        args::Command::Bench(options) => bench::run(&options),
        args::Command::Compare(options) => compare::run(&options),
        args::Command::CrashTest(options) => crash_test::run(&options),
        args::Command::Log(options) => log_command::run(&options),
        args::Command::Methods(options) => methods::run(&options),
        args::Command::Powercut(options) => powercut::run(&options),
        args::Command::Probe(options) => probe::run(&options),
        args::Command::Trace(options) => trace::run(&options),
        args::Command::Watch(options) => watch::run(&options),
        args::Command::Completions(options) => pages::completions(&options),
        args::Command::Man(options) => pages::man(&options),
        args::Command::Report(options) => report::run(&options),
    };
    outcome.unwrap_or_else(|failure| failed(&failure))
}

/// The parser's message: a text that was asked for, or why the line is wrong. It quotes arguments: a shell's `*` may have put
/// a hostile file name among them.
fn refused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let shown = output::print(&error.render().ansi().to_string());
        return shown.map_or_else(|failure| failed(&failure), |()| ExitCode::SUCCESS);
    }
    let hostile = |argument: OsString| printable(&argument.to_string_lossy()) != argument.to_string_lossy();
    if std::env::args_os().skip(1).any(hostile) {
        tell!("{}", printable(&error.render().to_string()));
    } else {
        output::tell(format_args!("{}", error.render().ansi()));
    }
    ExitCode::from(2)
}

fn failed(failure: &exit::Failure) -> ExitCode {
    failure.print();
    failure.code()
}
