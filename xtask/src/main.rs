//! The developer commands and their options, printed by `cargo xtask help` and `cargo xtask help COMMAND`.
//!
//! Invariant: each command's exit code states whether its checks passed; nothing is skipped silently.

#[macro_use]
mod error;
mod apart;
mod c_interface;
mod crash;
mod deny;
mod deployment;
mod explore;
mod files;
#[cfg(test)]
mod imports;
mod java;
mod outcome;
mod package;
mod peers;
mod python;
mod replicated;
mod runner;
mod second_kernel;
mod shell;
mod shipped;
mod soak;
mod tally;
mod test;
mod tools;
mod wine;
mod workflows;

use clap::Parser;
use error::Result;
use std::process::ExitCode;

/// The commands of those who work on Seawall.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// The quick checks, without root: format, lints, tests, documentation
    Test(test::Options),
    /// Installs or names what this machine lacks for `test`
    Setup,
    /// The tests of the Windows rows, under Wine
    Wine,
    /// Licences, sources and, where their database can be fetched, advisories of all dependencies (installs cargo-deny)
    Deny,
    /// The log's core on a simulated disk; the release binary and the library on recorded file systems, failing disks and kill -9 (root)
    Crash(crash::Options),
    /// Looks for faults with fresh seeds; continues from the standing in results/soak
    Soak(soak::Options),
    /// The log's gates and group commit in every order of their threads
    Loom,
    /// Aligned buffers and what uses them (buffers, checksums, gates, seals) under Miri, no other system calls (installs a nightly toolchain)
    Miri,
    /// The fuzz targets of the log and of results (installs a nightly toolchain and cargo-fuzz)
    Fuzz(explore::Options),
    /// Builds the program of `seawall bench peers` (okaywal, raft-engine, SQLite, wal-db, nodedb-wal) and runs it
    Peers(peers::Options),
    /// The package of Python: its wheel in a clean environment, and its tests
    Python {
        #[command(subcommand)]
        bench: Option<python::Bench>,
    },
    /// The log for Java and its reader on every JDK here
    Java {
        #[command(subcommand)]
        more: Option<java::More>,
    },
    /// Three real nodes of NATS under `bench replicated`, their syncs counted, with TLS and a login too
    Replicated {
        /// Kafka in place of NATS
        #[arg(long)]
        kafka: bool,
    },
    /// Three nodes of an engine on this machine, to try, until Ctrl-C
    Cluster(replicated::cluster::Options),
    /// Builds the C interface and installs header, libraries and pkg-config's file
    InstallC(c_interface::Installation),
    /// Makes the header of the C interface again from the source (installs cbindgen, a minute)
    CHeader,
    /// Faults while a log is shipped to three real nodes or a store
    Shipped(replicated::shipped::Options),
    /// Static programs with pages, completions and bill of materials, deb, rpm, sums
    Package(package::Options),
}

impl Command {
    fn run(self) -> Result {
        match self {
            Self::Test(options) => test::run(&options),
            Self::Setup => setup(),
            Self::Wine => wine::test()?.1,
            Self::Deny => deny::run(),
            Self::Crash(options) => crash::run(&options),
            Self::Soak(options) => soak::run(&options),
            Self::Loom => explore::loom().1,
            Self::Miri => explore::miri()?.1,
            Self::Fuzz(options) => explore::fuzz(&options),
            Self::Peers(options) => peers::run(&options),
            Self::Python { bench } => python::run(bench),
            Self::Java { more } => java::run(more),
            Self::Replicated { kafka } => replicated::run(kafka),
            Self::Cluster(options) => replicated::cluster::run(&options),
            Self::InstallC(installation) => installation.make(),
            Self::CHeader => c_interface::header(),
            Self::Shipped(options) => replicated::shipped::run(&options).map(drop),
            Self::Package(options) => package::run(&options),
        }
    }
}

fn main() -> ExitCode {
    match Command::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {}: {error}", std::env::args().nth(1).unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

fn setup() -> Result {
    let lacking = tools::lacking();
    tools::provide(tools::For::Tests)?;
    ensure!(lacking == 0, "install the {lacking} tools listed above");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Command;
    use clap::CommandFactory as _;

    #[test]
    fn no_command_s_options_contradict_each_other() {
        Command::command().debug_assert();
    }
}
