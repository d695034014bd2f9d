//! Counts tests from the output of cargo-nextest, of Rust's test harness, of Maven and of pytest.
//!
//! Invariant: an ignored test is not passed, it is skipped; but nextest counts as such also what it was not asked for.

use serde::{Deserialize, Serialize};

/// Tests, or steps that are one check each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Counts {
    /// Adds a line of output if it is `test result: ok. 5 passed; 0 failed; 2 ignored; …`.
    pub(crate) fn add_line(&mut self, line: &str) {
        if let Some(of_another) = nextest(line).or_else(|| maven(line)).or_else(|| pytest(line)) {
            *self = self.plus(of_another);
            return;
        }
        let Some(result) = line.trim().strip_prefix("test result: ") else { return };
        let figures = result.split_once(". ").map_or("", |(_, figures)| figures);
        for part in figures.split(';') {
            let mut words = part.split_whitespace();
            let (Some(Ok(figure)), Some(what)) = (words.next().map(str::parse::<u64>), words.next()) else {
                continue;
            };
            match what {
                "passed" => self.passed += figure,
                "failed" => self.failed += figure,
                "ignored" => self.ignored += figure,
                _ => {}
            }
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            ignored: self.ignored + other.ignored,
        }
    }
}

/// The closing line of cargo-nextest: `Summary [   7.001s] 5/10 tests run: 3 passed (1 slow), 1 failed, 1 timed out, 12 skipped`.
fn nextest(line: &str) -> Option<Counts> {
    let figures = line.trim().strip_prefix("Summary [")?.split_once(" run: ")?.1;
    let mut counts = Counts::default();
    for part in figures.split(", ") {
        let (figure, what) = part.split_once(' ')?;
        let figure: u64 = figure.parse().ok()?;
        match what.split(' ').next()? {
            "passed" => counts.passed += figure,
            "skipped" => {}
            // Also what ran out of time, and what could not be started.
            _ => counts.failed += figure,
        }
    }
    Some(counts)
}

/// The closing line of Maven's test runner: `[INFO] Tests run: 16, Failures: 0, Errors: 0, Skipped: 0`. Those of single
/// classes tell a time as well and are in the sum.
fn maven(line: &str) -> Option<Counts> {
    let figures = line.split_once("] Tests run: ")?.1;
    let [run, failures, errors, skipped] = figures.split(", ").collect::<Vec<_>>().try_into().ok()?;
    let figure = |text: &str| text.rsplit(' ').next()?.trim().parse::<u64>().ok();
    let (failed, ignored) = (figure(failures)? + figure(errors)?, figure(skipped)?);
    Some(Counts { passed: figure(run)?.saturating_sub(failed + ignored), failed, ignored })
}

/// The closing line of pytest: `1 failed, 66 passed, 2 skipped in 12.34s`, and ` (0:01:15)` from a minute on.
fn pytest(line: &str) -> Option<Counts> {
    let (figures, time) = line.trim_matches(['=', ' ']).split_once(" in ")?;
    time.split(' ').next()?.strip_suffix('s')?.parse::<f64>().ok()?;
    let mut counts = Counts::default();
    for part in figures.split(", ") {
        let (figure, what) = part.split_once(' ')?;
        let figure: u64 = figure.parse().ok()?;
        match what {
            "passed" => counts.passed += figure,
            "failed" | "error" | "errors" => counts.failed += figure,
            "skipped" | "deselected" | "xfailed" => counts.ignored += figure,
            "warning" | "warnings" => {}
            _ => return None,
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn only_result_lines_count() {
        let mut counts = Counts::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "  test result: FAILED. 1 passed; 2 failed; 4 ignored; 0 measured; 9 filtered out; finished in 1.20s",
            "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 2.6 s -- in seawall.path.JsonTest",
            "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0",
            "[ERROR] Tests run: 6, Failures: 1, Errors: 1, Skipped: 2",
            "he said: test result: ok. 100 passed; 0 failed",
            "     Summary [   7.001s] 5/10 tests run: 3 passed (1 slow), 1 failed, 1 timed out, 12 skipped",
            "     Summary [   0.500s] 1 test run: 1 passed, 0 skipped",
            "= 1 failed, 66 passed, 2 skipped, 1 warning, 2 errors in 75.25s (0:01:15) =",
            "5 passed in 0.12s",
            "7 passed in a row",
        ] {
            counts.add_line(line);
        }
        assert_eq!(counts, Counts { passed: 4 + 4 + 3 + 2 + 71, failed: 2 + 2 + 2 + 3, ignored: 5 + 2 + 2 });
    }
}
