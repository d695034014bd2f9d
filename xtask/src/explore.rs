//! Runs the exploring test tools: loom (thread orders), Miri (undefined behaviour) and fuzzing.
//!
//! * `loom`: the gates and the group commit of the log in every order of their threads (`crates/log/src/testing/loom_scenes.rs`);
//! * `miri`: the aligned buffers of the system crate, and the log's tests of buffers, checksums, acknowledgement levels,
//!   gates and seals on top of them, run by an interpreter that sees every access to memory. It executes none of the
//!   other system calls: rings, maps and the inspection of devices are left to the tests on real systems;
//! * `fuzz`: the targets of `crates/log/fuzz`, from their corpus, both cores at once.
//!
//! Invariants: a missing tool is installed, or the command fails and names it; each run has a time limit; a finding
//! is printed with the command that repeats it.

use crate::error::{Error, Result};
use crate::files;
use crate::shell::{cargo, command, output, root, status, target, tests};
use crate::tally::Counts;
use crate::tools;
use clap::Args;
use clap::builder::PossibleValuesParser;
use std::ffi::OsStr;
use std::fs::File;
use std::process::Command;

/// Fuzz targets, and the longest input of each in bytes.
pub(crate) const FUZZ_TARGETS: [(&str, u32); 3] =
    [("batch", 16_384), ("recovery", 16_384), ("results", 65_536)];
/// What is shown of a target that found something.
const LINES_OF_A_FINDING: usize = 80;

/// What Miri runs: a package and the modules of its tests. What enumerates tables takes it an hour, and
/// what calls the system beyond allocation, time and threads it does not execute.
const MIRI_RUNS: [(&str, &[&str]); 2] = [
    ("seawall", &["buffer::", "checksum::", "sync_debt::", "gate::", "seal::"]),
    ("seawall-sys", &["buffer::"]),
];

pub(crate) fn loom() -> (Counts, Result) {
    let mut run = cargo(&["test", "--package=seawall", "--lib", "--release", "--quiet"]);
    run.args(["--features=mutants", "loom_scenes::", "--", "--nocapture"]);
    run.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target().join("loom"));
    // Optimised within each crate: the rest would cost the build more than the run gains.
    run.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    run.env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    tests(run)
}

/// Provides a component of the nightly toolchain, and the toolchain with it.
fn provide_nightly(component: &str) -> Result {
    let installed =
        output(command("rustup", &["component", "list", "--installed", "--toolchain", "nightly"]))
            .unwrap_or_default();
    if installed.lines().any(|line| line.starts_with(component)) {
        return Ok(());
    }
    println!("installing {component} for the nightly toolchain");
    status(command(
        "rustup",
        &["toolchain", "install", "nightly", "--profile", "minimal", "--component", component],
    ))
}

/// A program with the nightly toolchain, with what it builds apart from everything else.
fn nightly(program: &OsStr, arguments: &[&str], folder: &str) -> Command {
    let mut run = command("rustup", &["run", "nightly"]);
    run.arg(program).args(arguments);
    // The toolchain that started this program would win otherwise.
    run.env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC").env_remove("CARGO");
    run.env("CARGO_TARGET_DIR", target().join(folder));
    run
}

/// What Miri says of each row; the outer error is that it cannot be had.
pub(crate) fn miri() -> Result<(Counts, Result)> {
    provide_nightly("miri")?;
    let mut all = Counts::default();
    for (package, modules) in MIRI_RUNS {
        let mut words = vec!["miri", "test", "--quiet", "--package", package, "--lib", "--"];
        words.extend(modules);
        let (counts, result) =
            tests(nightly("cargo".as_ref(), &words, "miri").env("MIRIFLAGS", "-Zmiri-disable-isolation"));
        all = all.plus(counts);
        if result.is_err() {
            return Ok((all, result));
        }
    }
    Ok((all, Ok(())))
}

/// Provides cargo-fuzz and builds the targets, one after the other: two builds at once would wait for each other.
pub(crate) fn prepare_fuzzing(targets: &[(&str, u32)]) -> Result {
    provide_nightly("rust-src")?;
    targets.iter().try_for_each(|(name, _)| status(cargo_fuzz(&["build", name])?))
}

fn cargo_fuzz(words: &[&str]) -> Result<Command> {
    let fuzz = tools::of_cargo("fuzz")?;
    let mut run = nightly(fuzz.get_program(), &[&["fuzz"], words].concat(), "fuzz");
    run.current_dir(root().join("crates/log"));
    Ok(run)
}

#[derive(Args)]
pub(crate) struct Options {
    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..1 << 32))]
    pub(crate) seed: u64,
    /// Only this target
    #[arg(long, value_name = "T", value_parser = PossibleValuesParser::new(FUZZ_TARGETS.map(|(name, _)| name)))]
    pub(crate) target: Vec<String>,
}

/// Runs the fuzz targets side by side, each for as long as asked.
pub(crate) fn fuzz(options: &Options) -> Result {
    let mut targets = FUZZ_TARGETS.to_vec();
    targets.retain(|(name, _)| options.target.is_empty() || options.target.iter().any(|one| one == name));
    prepare_fuzzing(&targets)?;
    let mut running = Vec::new();
    for (name, bytes_max) in &targets {
        let learned = target().join("fuzz/learned").join(name);
        files::make_folder(&learned)?;
        let (learned, corpus) = (learned.display().to_string(), format!("fuzz/corpus/{name}"));
        let (time, length) =
            (format!("-max_total_time={}", options.seconds), format!("-max_len={bytes_max}"));
        let seed = format!("-seed={}", options.seed);
        let words = ["run", name, &learned, &corpus, "--", &time, &length, &seed, "-print_final_stats=1"];
        println!("fuzzing {name} for {} s", options.seconds);
        // Thousands of lines about nothing: they are shown when there is something.
        let path = target().join("fuzz").join(format!("{name}.log"));
        let log = File::create(&path).map_err(Error::at(path.display()))?;
        let mut run = cargo_fuzz(&words)?;
        run.stdout(log.try_clone().map_err(Error::at(path.display()))?).stderr(log);
        let child = run.spawn().map_err(|cause| Error::Start { program: "cargo fuzz".to_owned(), cause })?;
        running.push((*name, child, path));
    }
    let mut found = Vec::new();
    for (name, mut child, path) in running {
        let well = child.wait().is_ok_and(|ended| ended.success());
        let text = std::fs::read(&path).map_err(Error::at(path.display()))?;
        let text = String::from_utf8_lossy(&text);
        if well {
            let figures = text.lines().filter(|line| line.starts_with("stat::") || line.contains("DONE"));
            let figures: Vec<&str> = figures.collect();
            ensure!(!figures.is_empty(), "the fuzzer of {name} ended well and printed no figures");
            println!("{name}: {}", figures.join(", "));
        } else {
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(LINES_OF_A_FINDING)..];
            println!("{name}, the end of {}:\n{}", path.display(), last.join("\n"));
            println!(
                "{name}: repeat with `cd crates/log && cargo +nightly fuzz run {name} fuzz/artifacts/{name}/FILE`, \
                 where FILE is named above"
            );
            found.push(name);
        }
    }
    ensure!(found.is_empty(), "findings in {}", found.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::FUZZ_TARGETS;
    use crate::shell::root;

    #[test]
    fn every_target_of_the_table_is_there_with_a_corpus() {
        for (name, _) in FUZZ_TARGETS {
            let folder = root().join("crates/log/fuzz");
            assert!(folder.join(format!("fuzz_targets/{name}.rs")).exists(), "{name}");
            assert!(folder.join("corpus").join(name).exists(), "{name}");
        }
    }
}
