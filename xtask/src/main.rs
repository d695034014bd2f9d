//! The table of developer commands, printed by `cargo xtask help`.
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
/// The source of the gauge's own search, and not its crate: a change of the gauge would build this program anew, and
/// all that the gauge stands on, with other features than the tests.
#[path = "../../crates/jvm/src/find.rs"]
#[allow(dead_code, unreachable_pub, reason = "the gauge uses the rest")]
mod jdks;
mod jvm;
mod options;
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

use error::{Error, Result};
use std::process::ExitCode;

struct Command {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result,
}

const COMMANDS: [Command; 19] = [
    Command { name: "help", about: "this table", run: help },
    Command {
        name: "test",
        about: "the quick checks, without root: format, lints, tests, documentation; --full: everything, as in CI; --list; --changed",
        run: test::run,
    },
    Command { name: "setup", about: "installs or names what this machine lacks for `test`", run: setup },
    Command { name: "wine", about: "the tests of the Windows rows, under Wine", run: wine },
    Command {
        name: "deny",
        about: "licences, sources and, where their database can be fetched, advisories of all dependencies (installs cargo-deny, several minutes)",
        run: deny::run,
    },
    Command {
        name: "crash",
        about: "the log's core on a simulated disk; the release binary and the library on recorded file systems, failing disks and kill -9 (root); --long [--minutes N]: the campaign; --second-kernel: power cuts of Debian's kernel in an emulator",
        run: crash::run,
    },
    Command {
        name: "soak",
        about: "looks for faults with fresh seeds: --minutes N; continues from the standing in results/soak",
        run: soak::run,
    },
    Command {
        name: "loom",
        about: "the log's gates and group commit in every order of their threads",
        run: loom,
    },
    Command {
        name: "miri",
        about: "aligned buffers and what uses them (buffers, checksums, gates, seals) under Miri, no other system calls (installs a nightly toolchain)",
        run: miri,
    },
    Command {
        name: "fuzz",
        about: "the fuzz targets of the log and of results: --seconds N --seed N --target T (installs a nightly toolchain and cargo-fuzz)",
        run: explore::fuzz,
    },
    Command {
        name: "peers",
        about: "builds the program of `seawall bench peers` (okaywal, raft-engine, SQLite) and runs it, in two minutes behind a build of three: [DIR] [--rounds N] …, or --build alone",
        run: peers::run,
    },
    Command {
        name: "python",
        about: "the package of Python: its wheel in a clean environment, and its tests; bench [DIR] [--rounds N] …: beside sqlite3 and persist-queue",
        run: python::run,
    },
    Command {
        name: "java",
        about: "the log for Java and its reader on every JDK here; install: both jars into the Maven repository of this user; bench [DIR] [--rounds N] [--seconds S]: beside Chronicle Queue, Artemis' journal and FileChannel, in five minutes",
        run: java::run,
    },
    Command {
        name: "replicated",
        about: "a real JetStream of three nodes under `bench replicated`, its syncs counted, with TLS and a login too; --kafka: Kafka",
        run: replicated::run,
    },
    Command {
        name: "cluster",
        about: "three nodes of an engine on this machine, to try, until Ctrl-C: nats|kafka [--sync default|always|TIME]",
        run: replicated::cluster::run,
    },
    Command {
        name: "install-c",
        about: "builds the C interface and installs header, libraries and pkg-config's file: --prefix DIR [--debug]",
        run: c_interface::install,
    },
    Command {
        name: "c-header",
        about: "makes the header of the C interface anew from the source (installs cbindgen, a minute)",
        run: c_interface::header,
    },
    Command {
        name: "shipped",
        about: "faults while a log is shipped to three real nodes or a store: --engine nats|kafka|s3, --faults N or --minutes N, --seed N",
        run: replicated::shipped::run,
    },
    Command {
        name: "package",
        about: "static programs with pages, completions and bill of materials, deb, rpm, sums: [--target TRIPLE]… [--try]; --collect DIR",
        run: package::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = arguments.split_first().map_or(("help", &[][..]), |(name, rest)| (name, rest));
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprintln!("xtask: there is no command `{name}`; `cargo xtask help` lists them");
        return ExitCode::from(2);
    };
    match (command.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {name}: {error}");
            if matches!(error, Error::Usage(_)) { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "all commands of the table have one signature")]
fn help(_: &[String]) -> Result {
    println!("cargo xtask COMMAND\n");
    for command in &COMMANDS {
        println!("  {:<9} {}", command.name, command.about);
    }
    Ok(())
}

fn setup(_: &[String]) -> Result {
    let lacking = tools::lacking();
    tools::provide(&tools::TESTS)?;
    if lacking == 0 {
        Ok(())
    } else {
        Err(Error::lacking(format!("install the {lacking} tools listed above")))
    }
}

fn loom(_: &[String]) -> Result {
    explore::loom().1
}

fn miri(_: &[String]) -> Result {
    explore::miri()?.1
}

fn wine(_: &[String]) -> Result {
    wine::test()?.1
}

#[cfg(test)]
mod tests {
    use super::COMMANDS;

    #[test]
    fn commands_are_unique_and_described() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert!(!command.about.is_empty(), "{}", command.name);
            assert!(COMMANDS[..index].iter().all(|other| other.name != command.name), "{}", command.name);
        }
    }
}
