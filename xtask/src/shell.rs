//! Runs other programs from the repository's root and streams or captures their output.
//!
//! Invariant: a program that cannot be started is an error with its name, never an empty output.

use crate::error::{Error, Result};
use crate::tally::Counts;
use std::borrow::BorrowMut;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Above this the machine is at other work.
const BUSY_LOAD: f64 = 0.7;

/// The repository's root: the folder above this package.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// `program` with `arguments`, to be run in the repository's root.
pub(crate) fn command<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// This cargo, by the path it gave itself, so that the toolchain stays the same. What it says of this package is not passed on:
/// crates whose build depends on such a variable, as `ring` does, would be built again, with all that depends on them, whenever
/// plain cargo and this program take turns.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    cargo_by(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()), arguments)
}

/// The same of `program`, one of cargo's own or of those that extend it.
pub(crate) fn cargo_by<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[S]) -> Command {
    let mut command = command(program, arguments);
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Installs a tool of cargo's from crates.io: without optimisation, because it runs for seconds and builds for minutes.
pub(crate) fn install(tool: &str) -> Command {
    let mut install = cargo(&["install", tool, "--locked", "--debug"]);
    install.env("CARGO_PROFILE_DEV_DEBUG", "0");
    install
}

/// Whether a program of this name, or a file of this whole name, is here.
pub(crate) fn has(program: &str) -> bool {
    find_program(program).is_some()
}

pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Administrators' tools are not on every user's path, nor are cargo's.
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let more = cargo.map(|home| home.join("bin")).into_iter().chain(["/usr/sbin".into(), "/sbin".into()]);
    let folders = std::env::split_paths(&path).chain(more);
    let mut names = folders.map(|folder: PathBuf| folder.join(program));
    names.find(|name| name.is_file())
}

/// Whether this process may mount file systems: it is root on Linux.
pub(crate) fn is_root() -> bool {
    cfg!(target_os = "linux") && output(command("id", &["-u"])).is_ok_and(|text| text.trim() == "0")
}

/// Runs it to its end with its output passed through.
pub(crate) fn status(mut command: impl BorrowMut<Command>) -> Result {
    let command = command.borrow_mut();
    let status = command.status();
    success(command, status, String::new())
}

/// Runs it to its end and gives what it printed.
pub(crate) fn output(command: impl BorrowMut<Command>) -> Result<String> {
    captured(command).map(|(printed, _)| printed)
}

pub(crate) fn captured(mut command: impl BorrowMut<Command>) -> Result<(String, String)> {
    let command = command.borrow_mut();
    let (stdout, stderr, status) = match command.output() {
        Ok(output) => (output.stdout, output.stderr, Ok(output.status)),
        Err(cause) => (Vec::new(), Vec::new(), Err(cause)),
    };
    let errors = String::from_utf8_lossy(&stderr).into_owned();
    success(command, status, errors.trim().to_owned())?;
    Ok((String::from_utf8_lossy(&stdout).into_owned(), errors))
}

/// What is said again of tests that failed: the last lines that were printed, this many bytes of them.
const REPEATED_BYTES: usize = 4_000;

/// Runs it to its end, passes its output on, and adds up the tests that it reports; the error has the last lines.
pub(crate) fn tests(mut command: impl BorrowMut<Command>) -> (Counts, Result) {
    let command = command.borrow_mut();
    let (mut counts, mut printed) = (Counts::default(), String::new());
    let status = std::io::pipe().and_then(|(lines, errors)| {
        let child = command.stdout(errors.try_clone()?).stderr(errors).spawn();
        // The lines end when nobody has the pipe any more.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        for line in BufReader::new(lines).split(b'\n').map_while(std::io::Result::ok) {
            let line = String::from_utf8_lossy(&line);
            counts.add_line(&line);
            println!("{line}");
            printed.extend(["\n", &line]);
        }
        child?.wait()
    });
    let last = printed.floor_char_boundary(printed.len().saturating_sub(REPEATED_BYTES));
    (counts, success(command, status, printed.split_off(last)))
}

/// A process that is ended when this is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let started = command.spawn();
        started.map(Self).map_err(|cause| Error::Start { program: name_of(command), cause })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn built_from() -> String {
    let commit = output(command("git", &["rev-parse", "--short", "HEAD"]));
    let sources = [
        "status",
        "--porcelain",
        "--",
        "crates",
        "bindings",
        "adapters",
        "proof",
        "xtask",
        "Cargo.toml",
        "Cargo.lock",
    ];
    match (commit, output(command("git", &sources))) {
        (Ok(commit), Ok(changed)) if changed.is_empty() => commit.trim().to_owned(),
        (Ok(commit), Ok(_)) => format!("{} and changes", commit.trim()),
        _ => "unknown".to_owned(),
    }
}

/// Asks ten times a second until it holds, for at most this many seconds in which this process runs; whether it held.
pub(crate) fn within(seconds: u32, mut holds: impl FnMut() -> bool) -> bool {
    (0..seconds * 10).any(|_| {
        let held = holds();
        if !held {
            std::thread::sleep(Duration::from_millis(100));
        }
        held
    })
}

/// Waits until the load is low, for at most four minutes, and prints it.
pub(crate) fn rest_and_print_load() {
    let load = || -> Option<f64> {
        std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
    };
    let rested = within(240, || load().is_none_or(|load| load <= BUSY_LOAD));
    let warning = if rested { "" } else { ": this machine is BUSY, and the figures are not worth much" };
    println!("load {}{warning}", load().map_or_else(|| "unknown".to_owned(), |load| load.to_string()));
}

fn success(command: &Command, status: std::io::Result<ExitStatus>, stderr: String) -> Result {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Ended { program: name_of(command), status, stderr }),
        Err(cause) => Err(Error::Start { program: name_of(command), cause }),
    }
}

fn name_of(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    // The first few say which it was; all of them would bury the reason.
    let arguments = command.get_args().take(3).map(|argument| format!(" {}", argument.to_string_lossy()));
    arguments.fold(program.into_owned(), |name, argument| name + &argument)
}
