//! What does the `seawall` command do? Parses its arguments, runs one command, ends with that one's exit code.
//!
//! Invariants: results go to standard output, everything else to standard error; an error names the thing and
//! the remedy; the exit codes are those of [`exit`].

mod args;
mod bench;
mod exit;
mod log_command;
mod methods;
mod output;
mod powercut;
mod progress;
mod signals;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = match args::Cli::parse().command {
        args::Command::Bench(options) => bench::run(&options),
        args::Command::Log(options) => log_command::run(&options),
        args::Command::Methods(options) => methods::run(&options),
        args::Command::Powercut(options) => powercut::run(&options),
    };
    outcome.unwrap_or_else(|failure| {
        anstream::eprintln!("{}error:{} {failure}", exit::RED.render(), exit::RED.render_reset());
        failure.code()
    })
}
