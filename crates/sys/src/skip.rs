//! Reports tests that cannot run on this machine; in CI they fail.
//!
//! Invariant: a report goes past the test harness's capture, and to the file that `cargo xtask test` names, which counts it.

use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;

/// Whether this is a run of CI, where everything must run.
#[must_use]
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// Reports that the calling test, or a part of it, cannot run here, and why.
///
/// # Panics
/// In CI.
pub fn skipped(why: impl Display) {
    assert!(!in_ci(), "CI must be able to run this: {why}");
    // The macros that print are captured while a test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
    let counted =
        std::env::var_os("SEAWALL_SKIPPED").map(|path| File::options().create(true).append(true).open(path));
    if let Some(Ok(mut counted)) = counted {
        let test = std::env::var("NEXTEST_TEST_NAME").unwrap_or_default();
        // One write for a line: tests run side by side.
        let _ = counted.write_all(format!("{test}: {why}\n").as_bytes());
    }
}
