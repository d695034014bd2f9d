//! Runs other programs from the repository's root and streams or captures their output.
//!
//! Invariant: a program that cannot be started is an error with its name, never an empty output.

use crate::tally::Counts;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository's root: the folder above this package.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The folder that builds go to; the journals of `fidelity` as well.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// `program` with `arguments`, to be run in the repository's root.
pub(crate) fn command<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// This cargo, by the path it gave itself, so that the toolchain stays the same.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    command(&cargo, arguments)
}

/// Installs a tool of cargo's from crates.io: without optimisation, because it runs for seconds and builds for minutes.
pub(crate) fn install(tool: &str) -> Command {
    let mut install = cargo(&["install", tool, "--locked", "--debug"]);
    install.env("CARGO_PROFILE_DEV_DEBUG", "0");
    install
}

/// Whether a program of this name is on the path.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Administrators' tools are not on every user's path.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let mut names = folders.map(|folder: PathBuf| folder.join(program));
    names.any(|name| name.is_file())
}

/// Whether this process may mount file systems: it is root on Linux.
pub(crate) fn is_root() -> bool {
    cfg!(target_os = "linux") && output(command("id", &["-u"])).is_ok_and(|text| text.trim() == "0")
}

/// Runs it to its end with its output passed through.
pub(crate) fn status(mut command: Command) -> Result<(), String> {
    let name = name_of(&command);
    let status = command.status().map_err(|error| format!("cannot start `{name}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{name}` ended with {status}")) }
}

/// Runs it to its end and gives what it printed.
pub(crate) fn output(mut command: Command) -> Result<String, String> {
    let name = name_of(&command);
    let output = command.output().map_err(|error| format!("cannot start `{name}`: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let told = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{name}` ended with {}: {}", output.status, told.trim()))
    }
}

/// Runs it to its end, passes its output on, and adds up the tests that it reports.
pub(crate) fn tests(mut command: Command) -> (Counts, Result<(), String>) {
    let name = name_of(&command);
    let mut counts = Counts::default();
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return (counts, Err(format!("cannot start `{name}`: {error}"))),
    };
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            counts.add_line(&line);
            println!("{line}");
        }
    }
    let outcome = match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{name}` ended with {status}")),
        Err(error) => Err(format!("`{name}`: {error}")),
    };
    (counts, outcome)
}

fn name_of(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    // The first few say which it was; all of them would bury the reason.
    let arguments = command.get_args().take(3).map(|argument| format!(" {}", argument.to_string_lossy()));
    arguments.fold(program.into_owned(), |name, argument| name + &argument)
}
