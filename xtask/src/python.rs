//! `cargo xtask python`: builds the Python package, installs its wheel into a clean environment, and runs its tests.
//!
//! ```text
//!   target/python   build/    what cargo builds      wheels/   the one wheel
//!                   tools/    maturin, pytest, hypothesis, mypy and the wheel: kept, made anew when their list changes
//!                   clean/    the wheel and nothing else, made anew each time
//! ```
//!
//! Invariants: a machine without Python is named as lacking it; the wheel that is tested is the one that was just built; nothing
//! outside of the build folder is changed.

use crate::error::{Error, Result};
use crate::files;
use crate::shell::{cargo, command, find_program, output, root, status, target, tests};
use crate::studies::print_load;
use crate::tally::Counts;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The lowest minor version of Python 3 that the wheel is for.
const MINOR_LEAST: u32 = 10;

/// Where the package is.
fn package() -> PathBuf {
    root().join("crates/python")
}

/// Where its manifest is.
pub(crate) fn manifest() -> PathBuf {
    package().join("Cargo.toml")
}

fn folder(name: &str) -> PathBuf {
    target().join("python").join(name)
}

/// A program of an environment.
fn of(environment: &str, program: &str) -> PathBuf {
    let programs = if cfg!(windows) { "Scripts" } else { "bin" };
    folder(environment).join(programs).join(program)
}

/// Runs the tests; with `bench` first, the measurements in place of them.
pub(crate) fn run(arguments: &[String]) -> Result {
    match arguments.split_first() {
        Some((first, rest)) if first == "bench" => bench(rest),
        None => test()?.1,
        Some((other, _)) => {
            Err(Error::usage(format!("`python {other}`: `cargo xtask python [bench [DIR] [--rounds N] …]`")))
        }
    }
}

/// Lints, builds, installs and tests; the outer error is that it could not be done at all here.
pub(crate) fn test() -> Result<(Counts, Result)> {
    let python = find()?;
    tools(&python)?;
    lint()?;
    let wheel = build(&[])?;
    clean(&python, &wheel)?;
    install("tools", &wheel)?;
    let base = folder("tmp");
    let mut pytest = here(of("tools", "python"), &["-m", "pytest", "--basetemp"]);
    pytest.arg(&base).env("SEAWALL_CACHE", folder("cache")).env("PYTHONDONTWRITEBYTECODE", "1");
    files::make_folder(&folder("cache"))?;
    Ok(tests(pytest))
}

/// The newest Python on the path that the wheel is for, and that can make environments.
fn find() -> Result<PathBuf> {
    let python = ["python3", "python"].into_iter().find_map(find_program);
    let lacking = "needed for the tests of the package of Python: install python3 and python3-venv";
    let python = python.ok_or_else(|| Error::lacking(format!("Python is missing, {lacking}")))?;
    let ask = "import sys, venv, ensurepip; print(sys.version_info.minor * (sys.version_info.major == 3))";
    let minor = output(command(&python, &["-c", ask]));
    match minor.ok().and_then(|text| text.trim().parse::<u32>().ok()) {
        Some(minor) if minor >= MINOR_LEAST => Ok(python),
        Some(_) => {
            Err(Error::lacking(format!("{} is older than 3.{MINOR_LEAST}, {lacking}", python.display())))
        }
        None => Err(Error::lacking(format!("{} makes no environments, {lacking}", python.display()))),
    }
}

/// In the package's folder.
fn here<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[S]) -> Command {
    let mut run = command(program, arguments);
    run.current_dir(package());
    run
}

fn pip<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut pip = here(of("tools", "python"), &["-m", "pip", "--disable-pip-version-check", "--quiet"]);
    pip.args(arguments);
    pip
}

/// Makes the environment of the tools, unless it is there with all that the list names.
fn tools(python: &Path) -> Result {
    let wanted = files::read(&package().join("tests/requirements.txt"))?;
    let installed = folder("tools").join("installed.txt");
    if files::read(&installed).is_ok_and(|there| there == wanted) && of("tools", "python").exists() {
        return Ok(());
    }
    status(command(
        python,
        &[OsStr::new("-m"), "venv".as_ref(), "--clear".as_ref(), folder("tools").as_ref()],
    ))?;
    status(pip(&["install", "--requirement", "tests/requirements.txt"])).map_err(|error| {
        Error::lacking(format!("the tools of the tests of Python cannot be installed: {error}"))
    })?;
    files::write(&installed, wanted)
}

/// Cargo in the package's folder, with what it builds apart from the workspace's.
fn built_apart(mut run: Command) -> Command {
    run.current_dir(package()).env("CARGO_TARGET_DIR", folder("build")).env("CARGO_PROFILE_DEV_DEBUG", "0");
    run.env("PYO3_PYTHON", of("tools", "python"));
    run
}

/// Format and lints of the package, which the workspace's do not reach.
fn lint() -> Result {
    status(built_apart(cargo(&["fmt", "--check"])))?;
    status(built_apart(cargo(&["clippy", "--locked", "--all-targets", "--quiet", "--", "-Dwarnings"])))
}

/// Builds the wheel, the only one in its folder.
fn build(more: &[&str]) -> Result<PathBuf> {
    let wheels = folder("wheels");
    files::make_folder(&wheels)?;
    for old in files::list(&wheels)? {
        std::fs::remove_file(&old).map_err(Error::at(old.display()))?;
    }
    let mut maturin =
        built_apart(here(of("tools", "python"), &["-m", "maturin", "build", "--locked", "--quiet", "--out"]));
    maturin.arg(&wheels).args(more);
    status(maturin)?;
    match &files::list(&wheels)?[..] {
        [wheel] if wheel.to_string_lossy().contains(&format!("-cp3{MINOR_LEAST}-abi3-")) => Ok(wheel.clone()),
        others => {
            Err(Error::check(format!("not one wheel for every Python from 3.{MINOR_LEAST} on: {others:?}")))
        }
    }
}

/// Installs the wheel, from nowhere else and with nothing else.
fn install(environment: &str, wheel: &Path) -> Result {
    let python = of(environment, "python");
    let into = ["--python".as_ref(), python.as_os_str(), "install".as_ref(), "--no-index".as_ref()];
    let anew = ["--force-reinstall".as_ref(), wheel.as_os_str()];
    status(pip(&[&into[..], &anew].concat()))
}

/// Installs the wheel into an environment with nothing else, and uses it there.
fn clean(python: &Path, wheel: &Path) -> Result {
    let clean = folder("clean");
    let bare =
        ["-m".as_ref(), "venv".as_ref(), "--clear".as_ref(), "--without-pip".as_ref(), clean.as_os_str()];
    status(command(python, &bare))?;
    install("clean", wheel)?;
    let run = [OsStr::new("-I"), "-W".as_ref(), "error".as_ref(), "tests/clean.py".as_ref(), clean.as_ref()];
    status(here(of("clean", "python"), &run))
}

/// Runs the measurements beside the log without an interpreter and the peers.
fn bench(arguments: &[String]) -> Result {
    tools(&find()?)?;
    status(pip(&["install", "persist-queue==1.1.0"]))?;
    install("tools", &build(&["--release"])?)?;
    status(built_apart(cargo(&["build", "--locked", "--release", "--quiet", "--example", "native"])))?;
    print_load();
    let mut bench = here(of("tools", "python"), &["bench/bench.py"]);
    if arguments.first().is_none_or(|first| first.starts_with('-')) {
        bench.arg(folder("measured"));
    }
    bench.args(arguments).arg("--native").arg(folder("build/release/examples/native"));
    status(bench)
}

#[cfg(test)]
mod tests {
    use super::{MINOR_LEAST, manifest, package};
    use crate::files;

    #[test]
    fn the_lowest_python_is_the_same_everywhere() {
        let least = |path: &str, words: String| {
            let text = files::read(&package().join(path)).expect("is there");
            assert!(text.contains(&words), "{path}: {words}");
        };
        least("pyproject.toml", format!("requires-python = \">=3.{MINOR_LEAST}\""));
        least("Cargo.toml", format!("\"abi3-py3{MINOR_LEAST}\""));
        assert!(manifest().exists());
    }
}
