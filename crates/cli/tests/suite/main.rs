//! Tests the program as a user runs it, where no root, device or tracer is needed; what needs those is in `real_systems`.
//!
//! * [`bad_input`] and [`path_table`]: what is refused, with its message and its exit code;
//! * [`examples`]: every example of every `--help` does what it says;
//! * [`forged`]: a forged result is refused or reported within bounds;
//! * [`full_outputs`]: no command panics where nothing can be written;
//! * the others: one part of the command line each.

#[cfg(target_os = "linux")]
mod bad_input;
#[cfg(unix)]
mod examples;
#[cfg(target_os = "linux")]
mod forged;
#[cfg(target_os = "linux")]
mod full_outputs;
mod log;
mod pages;
#[cfg(target_os = "linux")]
mod path_table;
#[cfg(target_os = "linux")]
mod paths;
mod powercut;
#[cfg(feature = "s3")]
mod read_ahead;
mod results;
mod ship;
#[cfg(unix)]
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SEAWALL: &str = env!("CARGO_BIN_EXE_seawall");

/// A folder on the file system of the build, because the temporary folder may be in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// A committed result of a scenario.
fn committed(scenario: &str) -> PathBuf {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/2026-11-22-firecracker-ext4");
    results.join(format!("{scenario}.json"))
}

fn seawall(folder: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(SEAWALL).args(arguments).current_dir(folder).output().expect("started");
    assert!(!err(&output).contains("panicked"), "{arguments:?}: {}", err(&output));
    output
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command printed and said that ended with this code.
#[track_caller]
fn coded(code: i32, output: &Output) -> (String, String) {
    let (out, err) = (out(output), err(output));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

/// What a command printed that ended well.
#[track_caller]
fn printed(output: &Output) -> String {
    coded(0, output).0
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
