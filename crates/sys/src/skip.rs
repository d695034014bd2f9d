//! Reports tests that cannot run on this machine; in CI they fail.
//!
//! Invariant: a report goes past the test harness's capture, so that `cargo xtask test` counts it.

use std::fmt::Display;
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
}
