//! The archive of a target: packed twice, compared, unpacked elsewhere, and its program run.

use super::{Release, contents::Runs, folder, out, targets::Target};
use crate::error::{Error, Result};
use crate::files;
use crate::shell::{command, output, root, status};
use crate::tools;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn pack(target: &Target, release: &Release, from: &Path) -> Result<PathBuf> {
    let name = target.archive(&release.version);
    let (archive, again) = (out().join(&name), folder(target).join(&name));
    for to in [&archive, &again] {
        status(script()?.args([from, to]).arg(release.seconds.to_string()))?;
    }
    same(&archive, &again)?;
    Ok(archive)
}

pub(crate) fn sums(all: &[PathBuf]) -> Result<String> {
    let mut sums = script()?;
    sums.arg("--sums").args(all);
    output(sums)
}

fn script() -> Result<Command> {
    Ok(command(tools::listed("python")?, &[root().join("xtask/package/archive.py")]))
}

pub(crate) fn same(one: &Path, other: &Path) -> Result {
    let read = |path: &Path| std::fs::read(path).map_err(Error::at(path.display()));
    let same = read(one)? == read(other)?;
    ensure!(same, "{} and {} are of the same files and differ", one.display(), other.display());
    Ok(())
}

/// Unpacks it into an empty folder and runs the program there.
pub(crate) fn try_out(target: &Target, release: &Release, archive: &Path, runs: &Runs) -> Result {
    let here = folder(target).join("unpacked");
    files::empty_folder(&here)?;
    let module =
        if archive.extension().is_some_and(|ending| ending == "zip") { "zipfile" } else { "tarfile" };
    status(command(tools::listed("python")?, &["-m", module, "-e"]).args([archive, &here]))?;
    let program = here.join(target.folder(&release.version)).join(target.program());
    let result = here.join("bench.json");
    measure(release, &here.to_string_lossy(), &result, |words| runs.command(&program, words))
}

/// Asks a program for its version, and measures each published method shortly in `place`, with the result in `result`.
pub(crate) fn measure(
    release: &Release,
    place: &str,
    result: &Path,
    run: impl Fn(&[&str]) -> Command,
) -> Result {
    let version = output(run(&["--version"]))?;
    if version.trim() != format!("seawall {}", release.version) {
        fail!("--version says {version}");
    }
    let json = format!("{place}/bench.json");
    let short = ["--journal", "1MiB", "--transactions", "16", "--rounds", "1"];
    let quiet = ["--no-out", "--no-progress", "--json", &json];
    output(run(&[&["bench", place, "--methods", "published"], &short[..], &quiet].concat()))?;
    println!("{}, and {} methods measured", version.trim(), measured(&files::read_json(result)?)?);
    Ok(())
}

/// How many methods were measured: all of them.
fn measured(result: &Value) -> Result<usize> {
    let rows = result["study"]["rows"].as_array().filter(|rows| !rows.is_empty());
    let rows = rows.ok_or_else(|| Error::check("the packaged program measured nothing"))?;
    for row in rows {
        ensure!(!row["outcome"]["measured"].is_null(), "{} was not measured: {}", row["id"], row["outcome"]);
    }
    Ok(rows.len())
}

#[cfg(test)]
mod tests {
    use super::measured;
    use serde_json::json;

    #[test]
    fn a_method_that_was_not_measured_is_noticed() {
        let result = |outcome: serde_json::Value| json!({ "study": { "rows": [{ "id": "direct", "outcome": outcome }] } });
        assert_eq!(measured(&result(json!({ "measured": { "commits": 16 } }))).expect("measured"), 1);
        assert!(measured(&result(json!({ "failed": { "error": "x" } }))).is_err());
        assert!(measured(&json!({ "study": { "rows": [] } })).is_err());
    }
}
