//! Runs the Windows rows under Wine: cross-built with mingw, with one fixture.
//!
//! ```text
//!   target/wine/bcryptprimitives.dll   the fixture, built from xtask/wine/bcryptprimitives.c
//!   target/wine/prefix/                Wine's own C: drive and registry, apart from the user's
//! ```
//!
//! Invariants: missing tools are named with their packages, all at once; nothing outside `target/` is written but the
//! Rust target; a test that fails under Wine fails the command.

use crate::error::{Error, Result};
use crate::files;
use crate::shell::{cargo, command, has, output, root, status, tests};
use crate::tally::Counts;
use crate::tools::{self, For};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-pc-windows-gnu";
const COMPILER: &str = "x86_64-w64-mingw32-gcc";

pub(crate) struct Wine {
    program: &'static str,
    folder: PathBuf,
}

/// Runs the tests of `seawall-sys` and `seawall-host`, those of the log's interface and engines, and a short `seawall bench` under Wine: how many
/// there were, and which failed; the outer error is that they could not be run at all.
pub(crate) fn test() -> Result<(Counts, Result)> {
    let wine = Wine::prepare()?;
    let (counts, tested) =
        tests(wine.cargo(&["test", "--package=seawall-sys", "--package=seawall-host", "--target", TARGET]));
    let of_the_log = ["test", "--package=seawall", "--features=simulation", "--target", TARGET];
    let (of_the_log, log_tested) = tests(wine.cargo(
        &[&of_the_log[..], &["--test", "suite", "--", "log::", "engines::", "--skip=golden_log::"]].concat(),
    ));
    let mut counts = counts.plus(of_the_log);
    let measured = wine.bench();
    counts.passed += u64::from(measured.is_ok());
    counts.failed += u64::from(measured.is_err());
    // The server of this prefix would outlive the tests otherwise.
    let ended = status(wine.program("wineboot".as_ref(), &["--kill"]));
    Ok((counts, tested.and(log_tested).and(measured).and(ended)))
}

impl Wine {
    /// Finds the tools, builds the fixture and makes the prefix.
    pub(crate) fn prepare() -> Result<Self> {
        tools::provide(For::Windows)?;
        tools::provide_target(TARGET)?;
        let program = if has("wine") { "wine" } else { "wine64" };
        let wine = Self { program, folder: root().join("target/wine") };
        files::make_folder(&wine.folder)?;
        let (source, library) =
            (root().join("xtask/wine/bcryptprimitives.c"), wine.folder.join("bcryptprimitives.dll"));
        let mut compiler = command(COMPILER, &["-shared", "-O2", "-Wall", "-Werror", "-o"]);
        compiler.args([&library, &source]).arg("-ladvapi32");
        status(compiler)?;
        status(wine.program("wineboot".as_ref(), &["--init"]))?;
        Ok(wine)
    }

    /// Runs `seawall bench` with the methods of the published experiment; it must measure each, know where it is,
    /// and not believe Wine's flags.
    fn bench(&self) -> Result {
        println!("seawall bench under Wine");
        let mut bench =
            self.cargo(&["run", "--quiet", "--package=seawall-cli", "--target", TARGET, "--", "bench"]);
        bench.args(["target/wine", "--methods", "published", "--journal", "1MiB", "--transactions", "16"]);
        bench.args(["--rounds", "1", "--no-out", "--no-progress", "--json", "target/wine/bench.json"]);
        let report = output(bench)?;
        not_believed(&files::read_json(&self.folder.join("bench.json"))?, &report)
    }

    fn cargo(&self, words: &[&str]) -> Command {
        let mut cargo = cargo(words);
        cargo.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", self.program);
        self.surround(&mut cargo);
        cargo
    }

    pub(crate) fn program(&self, program: &Path, words: &[&str]) -> Command {
        let mut run = command(self.program, &[program]);
        run.args(words);
        self.surround(&mut run);
        run
    }

    fn surround(&self, command: &mut Command) {
        command
            .env("WINEPREFIX", self.folder.join("prefix"))
            .env("WINEDEBUG", "-all")
            // The loader looks along this path for what Wine lacks; `Z:` is the host's root.
            .env("WINEPATH", format!("Z:{}", self.folder.display()).replace('/', "\\"))
            // No .NET and no browser engine: their installers would ask in a window.
            .env("WINEDLLOVERRIDES", "mscoree=;mshtml=")
            .env_remove("DISPLAY");
    }
}

/// Whether a run under Wine knows where it was, measured every row, and believed no flag.
fn not_believed(result: &Value, report: &str) -> Result {
    ensure!(
        !result["environment"]["wine"].is_null() && report.contains("Wine"),
        "seawall bench did not see that it ran under Wine:\n{report}"
    );
    let rows = result["study"]["rows"].as_array().filter(|rows| !rows.is_empty());
    for row in rows.ok_or_else(|| Error::check("seawall bench under Wine has no rows"))? {
        let (id, measured) = (row["id"].as_str().unwrap_or_default(), &row["outcome"]["measured"]);
        ensure!(!measured.is_null(), "under Wine {id} was not measured: {}", row["outcome"]);
        // WRITE_THROUGH and NO_BUFFERING do nothing under Wine; FlushFileBuffers is an fsync.
        if !id.ends_with("+flush") && measured["durability"]["class"] != "process-crash" {
            fail!("under Wine {id} was believed: {}", measured["durability"]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Error, not_believed};

    #[test]
    fn a_flag_that_is_believed_under_wine_is_a_failure() {
        let result = |wine: &str, id: &str, class: &str| {
            let text = format!(
                r#"{{"environment":{{"wine":{wine}}},"study":{{"rows":[{{"id":"{id}","outcome":{{"measured":{{"durability":{{"class":"{class}"}}}}}}}}]}}}}"#
            );
            not_believed(&serde_json::from_str(&text).expect("JSON"), "Wine 9")
        };
        assert!(result(r#""9.0""#, "direct", "process-crash").is_ok());
        assert!(result(r#""9.0""#, "buffered+flush", "power-loss").is_ok());
        let believed = result(r#""9.0""#, "direct", "power-loss");
        assert!(matches!(believed, Err(Error::Check(text)) if text.contains("believed")));
        assert!(result("null", "direct", "process-crash").is_err());
        let failed = r#"{"environment":{"wine":"9"},"study":{"rows":[{"id":"direct","outcome":{"failed":{"error":"x"}}}]}}"#;
        assert!(not_believed(&serde_json::from_str(failed).expect("JSON"), "Wine").is_err());
        let none = r#"{"environment":{"wine":"9"},"study":{"rows":[]}}"#;
        assert!(not_believed(&serde_json::from_str(none).expect("JSON"), "Wine").is_err());
    }
}
