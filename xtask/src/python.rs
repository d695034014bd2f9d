//! `cargo xtask python`: builds the Python package, installs its wheel into a clean environment, and runs its tests.
//!
//! ```text
//!   target/python   build/    what cargo builds      wheels/   the one wheel
//!                   tools/    maturin, pytest, hypothesis, mypy and the wheel: kept, made again when their list changes
//!                   clean/    for each Python here, the wheel and nothing else, made again each time
//! ```
//!
//! Invariants: a machine without Python is named as lacking it; the wheel that is tested is the one that was just built; nothing
//! outside of the build folder is changed.

use crate::error::{Error, Result};
use crate::files;
use crate::shell::{cargo, command, find_program, output, rest_and_print_load, root, status, target, tests};
use crate::tally::Counts;
use clap::Subcommand;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The lowest minor version of Python 3 that the wheel is for.
const MINOR_LEAST: u32 = 10;

fn package() -> PathBuf {
    root().join("bindings/python")
}

pub(crate) fn manifest() -> PathBuf {
    package().join("Cargo.toml")
}

fn folder(name: &str) -> PathBuf {
    target().join("python").join(name)
}

fn of(environment: &str, program: &str) -> PathBuf {
    let programs = if cfg!(windows) { "Scripts" } else { "bin" };
    folder(environment).join(programs).join(program)
}

/// What is done in place of the tests.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Measures it beside sqlite3, persist-queue and huey
    Bench {
        /// `[DIR] [--rounds N] …`: as those of bench.py
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        more: Vec<String>,
    },
}

pub(crate) fn run(bench: Option<Bench>) -> Result {
    match bench {
        None => test()?.1,
        Some(Bench::Bench { more }) => measure(&more),
    }
}

/// Lints, builds, installs and tests; the outer error is that it could not be done at all here.
pub(crate) fn test() -> Result<(Counts, Result)> {
    let python = find()?;
    tools(&python)?;
    lint()?;
    let wheel = build(&[])?;
    for (minor, python) in every() {
        println!("the wheel alone on Python 3.{minor}");
        clean(&python, minor, &wheel)?;
    }
    install("tools", &wheel)?;
    let base = folder("tmp");
    let mut pytest = here(of("tools", "python"), &["-m", "pytest", "--basetemp"]);
    pytest.env("SEAWALL_INTERPRETER", interpreter()?);
    pytest.arg(&base).env("SEAWALL_CACHE", folder("cache")).env("PYTHONDONTWRITEBYTECODE", "1");
    files::make_folder(&folder("cache"))?;
    Ok(tests(pytest))
}

/// The Python of the path, if the wheel is for it and it can make environments.
pub(crate) fn find() -> Result<PathBuf> {
    let python = ["python3", "python"].into_iter().find_map(find_program);
    let lacking = "needed for the tests of the package of Python: install python3 and python3-venv";
    let python = python.ok_or_else(|| Error::lacking(format!("Python is missing, {lacking}")))?;
    match minor_of(&python) {
        Some(minor) if minor >= MINOR_LEAST => Ok(python),
        Some(_) => {
            Err(Error::lacking(format!("{} is older than 3.{MINOR_LEAST}, {lacking}", python.display())))
        }
        None => Err(Error::lacking(format!("{} makes no environments, {lacking}", python.display()))),
    }
}

/// The minor version of a Python that can make environments.
fn minor_of(python: &Path) -> Option<u32> {
    let ask = "import sys, venv; print(sys.version_info.minor * (sys.version_info.major == 3))";
    output(command(python, &["-c", ask])).ok()?.trim().parse().ok()
}

/// Every Python here that the wheel is for, by its minor version: those on the path, and those of pyenv.
fn every() -> BTreeMap<u32, PathBuf> {
    let on_path = (MINOR_LEAST..MINOR_LEAST + 20).map(|minor| format!("python3.{minor}"));
    let on_path = on_path.chain(["python3".to_owned()]).filter_map(|name| find_program(&name));
    let home = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let installed = home.and_then(|home| files::list(&home.join("versions")).ok()).unwrap_or_default();
    let installed =
        installed.into_iter().map(|version| version.join("bin/python3")).filter(|python| python.exists());
    let each = on_path.chain(installed).filter_map(|python| Some((minor_of(&python)?, python)));
    each.filter(|(minor, _)| *minor >= MINOR_LEAST).collect()
}

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

fn tools(python: &Path) -> Result {
    environment(python, "tools", &package().join("tests/requirements.txt")).map(drop)
}

/// Makes an environment with all that a list names, unless it is there; gives its Python.
pub(crate) fn environment(python: &Path, name: &str, list: &Path) -> Result<PathBuf> {
    let wanted = files::read(list)?;
    let (installed, inside) = (folder(name).join("installed.txt"), of(name, "python"));
    if files::read(&installed).is_ok_and(|there| there == wanted) && inside.exists() {
        return Ok(inside);
    }
    let environment = folder(name);
    status(command(python, &["-m".as_ref(), "venv".as_ref(), "--clear".as_ref(), environment.as_os_str()]))?;
    let mut pip = command(&inside, &["-m", "pip", "--disable-pip-version-check", "--quiet", "install"]);
    pip.arg("--requirement").arg(list);
    status(pip).map_err(|error| {
        Error::lacking(format!("what {} lists cannot be installed: {error}", list.display()))
    })?;
    files::write(&installed, wanted)?;
    Ok(inside)
}

/// Cargo in the package's folder, with what it builds apart from the workspace's.
fn built_apart(mut run: Command) -> Command {
    run.current_dir(package()).env("CARGO_TARGET_DIR", folder("build")).env("CARGO_PROFILE_DEV_DEBUG", "0");
    run.env("PYO3_PYTHON", of("tools", "python"));
    run
}

fn interpreter() -> Result<PathBuf> {
    status(cargo(&["build", "--package", "seawall", "--example", "behaviour", "--quiet"]))?;
    Ok(target().join("debug/examples").join(format!("behaviour{}", std::env::consts::EXE_SUFFIX)))
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

fn install(environment: &str, wheel: &Path) -> Result {
    let python = of(environment, "python");
    let into = ["--python".as_ref(), python.as_os_str(), "install".as_ref(), "--no-index".as_ref()];
    let anew = ["--force-reinstall".as_ref(), wheel.as_os_str()];
    status(pip(&[&into[..], &anew].concat()))
}

/// Installs the wheel into an environment with nothing else, and uses it there.
fn clean(python: &Path, minor: u32, wheel: &Path) -> Result {
    let name = format!("clean/3.{minor}");
    let clean = folder(&name);
    let bare =
        ["-m".as_ref(), "venv".as_ref(), "--clear".as_ref(), "--without-pip".as_ref(), clean.as_os_str()];
    status(command(python, &bare))?;
    install(&name, wheel)?;
    let run = [OsStr::new("-I"), "-W".as_ref(), "error".as_ref(), "tests/clean.py".as_ref(), clean.as_ref()];
    status(here(of(&name, "python"), &run))
}

/// Runs the measurements beside the log without an interpreter and the peers.
fn measure(arguments: &[String]) -> Result {
    tools(&find()?)?;
    status(pip(&["install", "persist-queue==1.1.0", "huey==3.5.4"]))?;
    install("tools", &build(&["--release"])?)?;
    status(cargo(&["build", "--quiet", "--release", "--package=seawall", "--example=commits"]))?;
    rest_and_print_load();
    let mut bench = here(of("tools", "python"), &["bench/bench.py"]);
    if arguments.first().is_none_or(|first| first.starts_with('-')) {
        bench.arg(folder("measured"));
    }
    bench.args(arguments).arg("--native").arg(target().join("release/examples/commits"));
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
