//! Runs the Windows rows under Wine: cross-built with mingw, with one fixture.
//!
//! ```text
//!   target/wine/bcryptprimitives.dll   the fixture, built from tests/wine/bcryptprimitives.c
//!   target/wine/prefix/                Wine's own C: drive and registry, apart from the user's
//! ```
//!
//! Invariants: missing tools are named with their packages, all at once; nothing outside `target/` is written but the
//! Rust target; a test that fails under Wine fails the command.

use crate::tally::Counts;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGET: &str = "x86_64-pc-windows-gnu";
const COMPILER: &str = "x86_64-w64-mingw32-gcc";

/// A Wine that is ready to run what cargo builds for Windows.
pub(crate) struct Wine {
    program: &'static str,
    root: PathBuf,
    folder: PathBuf,
}

/// Runs the tests of `seawall-sys`, those of the log's interface and engines, and a short `seawall bench` under Wine: how many there were, and what is missing
/// on this machine or which step failed.
pub(crate) fn test() -> (Counts, Result<(), String>) {
    let wine = match Wine::prepare() {
        Ok(wine) => wine,
        Err(reason) => return (Counts::default(), Err(reason)),
    };
    let mut cargo = wine.cargo();
    cargo.args(["test", "--package", "seawall-sys", "--target", TARGET]);
    let (counts, tested) = crate::shell::tests(cargo);
    let mut cargo = wine.cargo();
    cargo.args(["test", "--package", "seawall", "--features", "simulation", "--target", TARGET]);
    cargo.args(["--test", "log", "--test", "engines"]);
    let (of_the_log, log_tested) = crate::shell::tests(cargo);
    let mut counts = counts.plus(of_the_log);
    let measured = wine.bench();
    counts.passed += u64::from(measured.is_ok());
    counts.failed += u64::from(measured.is_err());
    // The server of this prefix would outlive the tests otherwise.
    let ended = run(wine.command().args(["wineboot", "--kill"]));
    (counts, tested.and(log_tested).and(measured).and(ended))
}

impl Wine {
    /// Finds the tools, builds the fixture and makes the prefix.
    ///
    /// # Errors
    /// What is missing on this machine, or which step failed.
    pub(crate) fn prepare() -> Result<Self, String> {
        let program = tools()?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask lies in no workspace")?;
        // In the workspace, so that rustup adds the target to the toolchain that the workspace asks for.
        run(Command::new("rustup").args(["target", "add", TARGET]).current_dir(root))?;
        let folder = root.join("target").join("wine");
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let wine = Self { program, root: root.to_path_buf(), folder };
        wine.build_fixture()?;
        run(wine.command().args(["wineboot", "--init"]))?;
        Ok(wine)
    }

    fn build_fixture(&self) -> Result<(), String> {
        let source = self.root.join("tests").join("wine").join("bcryptprimitives.c");
        let library = self.folder.join("bcryptprimitives.dll");
        run(Command::new(COMPILER)
            .args(["-shared", "-O2", "-Wall", "-Werror", "-o"])
            .args([&library, &source])
            .arg("-ladvapi32"))
    }

    /// Runs `seawall bench` with the methods of the published experiment; it must measure each, know where it is,
    /// and not believe Wine's flags.
    fn bench(&self) -> Result<(), String> {
        println!("seawall bench under Wine");
        let json = self.folder.join("bench.json");
        let mut cargo = self.cargo();
        cargo.args(["run", "--quiet", "--package", "seawall-cli", "--target", TARGET, "--"]);
        cargo.args([
            "bench",
            "target/wine",
            "--methods",
            "published",
            "--journal",
            "1MiB",
            "--transactions",
            "16",
        ]);
        cargo.args(["--rounds", "1", "--no-out", "--no-progress", "--json", "target/wine/bench.json"]);
        let report = crate::shell::output(cargo)?;
        let text = std::fs::read_to_string(&json).map_err(|error| format!("{}: {error}", json.display()))?;
        let result = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", json.display()))?;
        not_believed(&result, &report)
    }

    /// cargo, told to run Windows programs under this Wine.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.root).env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", self.program);
        self.surround(&mut cargo);
        cargo
    }

    /// Wine itself.
    pub(crate) fn command(&self) -> Command {
        let mut wine = Command::new(self.program);
        wine.stdin(Stdio::null());
        self.surround(&mut wine);
        wine
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
fn not_believed(result: &Value, report: &str) -> Result<(), String> {
    if result["environment"]["wine"].is_null() || !report.contains("Wine") {
        return Err(format!("seawall bench did not see that it ran under Wine:\n{report}"));
    }
    let rows = result["methods"].as_array().filter(|rows| !rows.is_empty());
    for row in rows.ok_or("seawall bench under Wine has no rows")? {
        let (id, measured) = (row["id"].as_str().unwrap_or_default(), &row["outcome"]["measured"]);
        if measured.is_null() {
            return Err(format!("under Wine {id} was not measured: {}", row["outcome"]));
        }
        // WRITE_THROUGH and NO_BUFFERING do nothing under Wine; FlushFileBuffers is an fsync.
        if !id.ends_with("+flush") && measured["durability"]["class"] != "process-crash" {
            return Err(format!("under Wine {id} was believed: {}", measured["durability"]));
        }
    }
    Ok(())
}

/// Wine's program name, if everything is there.
fn tools() -> Result<&'static str, String> {
    let answers = |program: &str| {
        let asked =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    let wine = ["wine", "wine64"].into_iter().find(|program| answers(program));
    let missing: Vec<&str> = [
        (wine.is_some(), "wine and wine64 (Wine)"),
        (answers(COMPILER), "gcc-mingw-w64-x86-64 (the compiler x86_64-w64-mingw32-gcc)"),
    ]
    .into_iter()
    .filter_map(|(there, package)| (!there).then_some(package))
    .collect();
    match wine {
        Some(wine) if missing.is_empty() => Ok(wine),
        _ => Err(format!("missing Debian packages, to be had with apt-get install: {}", missing.join(", "))),
    }
}

/// Runs a command and demands success.
fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed ({status}): {command:?}")) }
}

#[cfg(test)]
mod tests {
    use super::not_believed;

    #[test]
    fn a_flag_that_is_believed_under_wine_is_a_failure() {
        let result = |wine: &str, id: &str, class: &str| {
            let text = format!(
                r#"{{"environment":{{"wine":{wine}}},"methods":[{{"id":"{id}","outcome":{{"measured":{{"durability":{{"class":"{class}"}}}}}}}}]}}"#
            );
            not_believed(&serde_json::from_str(&text).expect("JSON"), "Wine 9")
        };
        assert_eq!(result(r#""9.0""#, "direct", "process-crash"), Ok(()));
        assert_eq!(result(r#""9.0""#, "buffered+flush", "power-loss"), Ok(()));
        assert!(result(r#""9.0""#, "direct", "power-loss").is_err_and(|told| told.contains("believed")));
        assert!(result("null", "direct", "process-crash").is_err());
        let failed =
            r#"{"environment":{"wine":"9"},"methods":[{"id":"direct","outcome":{"failed":{"error":"x"}}}]}"#;
        assert!(not_believed(&serde_json::from_str(failed).expect("JSON"), "Wine").is_err());
        let none = r#"{"environment":{"wine":"9"},"methods":[]}"#;
        assert!(not_believed(&serde_json::from_str(none).expect("JSON"), "Wine").is_err());
    }
}
