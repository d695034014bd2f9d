//! `cargo xtask peers`: builds the program that has other write-ahead logs in it, and runs its scenario `peers`.
//!
//! The program is `crates/log/peers`, a package of its own. Its result is refused if a row acknowledged commits whose
//! bytes had not reached the device, by the device's own counters: such a log is not compared with durable ones.

use crate::error::Result;
use crate::files;
use crate::shell::{cargo, command, rest_and_print_load, root, status, target};
use crate::tools::{self, For};
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// nodedb-wal asks for Rust 1.96, and builds with the one that this project has.
const NEWER_RUST: &str = "--ignore-rust-version";

/// Provides what the program needs and builds it; gives its path.
pub(crate) fn prepare() -> Result<PathBuf> {
    tools::provide(For::Peers)?;
    status(here(&["build", "--release", "--locked", "--quiet", NEWER_RUST]))?;
    Ok(target().join("peers/release/seawall-peers"))
}

#[derive(Args, Default)]
pub(crate) struct Options {
    /// Only builds it
    #[arg(long)]
    build: bool,
    /// `[DIR] [--rounds N] …`: as those of `bench peers`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    more: Vec<String>,
}

/// Builds the program and, unless `--build` is all that is asked for, runs `bench peers` with the others.
pub(crate) fn run(Options { build, more }: &Options) -> Result {
    let program = prepare()?;
    if *build {
        return Ok(());
    }
    let folder = target().join("peers/journals");
    files::make_folder(&folder)?;
    rest_and_print_load();
    let json = target().join("peers/result.json");
    let mut bench = command(&program, &["bench", "peers", "--no-out"]);
    if more.first().is_none_or(|first| first.starts_with('-')) {
        bench.arg(&folder);
    }
    bench.args(more).arg("--json").arg(&json);
    status(bench)?;
    let rows = unsynced(&files::read_json(&json)?);
    ensure!(
        rows.is_empty(),
        "not every commit is synced by {}: it must not be set beside durable logs",
        rows.join(", ")
    );
    Ok(())
}

/// The rows that have no figures, and those whose bytes had not reached the device.
fn unsynced(result: &Value) -> Vec<String> {
    let rows = result["study"]["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let class = |row: &Value| row["outcome"]["measured"]["durability"]["class"].clone();
    let lost = rows.iter().filter(|row| [Value::Null, "process-crash".into()].contains(&class(row)));
    lost.map(|row| row["id"].as_str().unwrap_or("a row without a name").to_owned()).collect()
}

/// Format and lints of the package, which the workspace's do not reach.
pub(crate) fn lint() -> Result {
    status(here(&["fmt", "--check"]))?;
    status(here(&["clippy", "--locked", "--all-targets", "--quiet", NEWER_RUST, "--", "-Dwarnings"]))
}

pub(crate) fn tests() -> Command {
    here(&["test", "--locked", "--quiet", NEWER_RUST])
}

pub(crate) fn manifest() -> PathBuf {
    root().join("crates/log/peers/Cargo.toml")
}

/// Cargo in the package's folder, whose settings SQLite is built by, with what it builds apart from the workspace's.
fn here(arguments: &[&str]) -> Command {
    let mut run = cargo(arguments);
    run.current_dir(root().join("crates/log/peers")).env("CARGO_TARGET_DIR", target().join("peers"));
    // As the workspace's profile has it.
    run.env("CARGO_PROFILE_DEV_DEBUG", "0");
    run
}

#[cfg(test)]
mod tests {
    use super::unsynced;

    #[test]
    fn a_row_that_lost_its_class_or_has_no_figures_is_named() {
        let row = |id: &str, class: &str| serde_json::json!({ "id": id, "outcome": { "measured": { "durability": { "class": class } } } });
        let failed = serde_json::json!({ "id": "W2/other", "outcome": { "failed": { "error": "no" } } });
        let rows = [row("W1/a", "power-loss"), row("W1/b", "process-crash"), failed];
        assert_eq!(unsynced(&serde_json::json!({ "study": { "rows": rows } })), ["W1/b", "W2/other"]);
    }
}
