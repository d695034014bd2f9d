//! Prints the outcomes of the steps as a table that can be pasted into a page.
//!
//! Invariants: a step that could not run is counted as skipped with its reason; in CI (`CI=true`) a step or test skipped
//! for want of root, a loop device or a tool is a failure, and so is a test that no step runs; an exceeded budget is printed and fails nothing, because
//! machines differ.

use super::steps::Step;
use crate::apart::Ran;
use crate::error::Result;
use crate::outcome::{StepOutcome, Tests};
use crate::tally::Counts;

#[derive(Default)]
pub(super) struct Summary {
    rows: Vec<String>,
    counts: Counts,
    skipped: u64,
    /// What tests reported that they could not do here.
    unable: Vec<String>,
    over_budget: Vec<String>,
    /// Steps that failed, each with its whole reason: said again at the end, where a shortened output still shows it.
    failed: Vec<String>,
    wall_seconds: f64,
    cpu_seconds: f64,
}

impl Summary {
    pub(super) fn add(&mut self, step: &Step, ran: Ran, in_ci: bool) {
        let Ran { outcome, wall, cpu_seconds } = ran;
        let wall_seconds = wall.as_secs_f64();
        let text = self.count(outcome, in_ci);
        if text.starts_with("FAILED") {
            self.failed.push(format!("{}: {text}", step.name));
        }
        let text = text.lines().next().unwrap_or_default();
        println!("{text}");
        let cpu = cpu_seconds.map_or("–".to_owned(), |seconds| format!("{seconds:.0}"));
        let Step { name, budget_seconds, .. } = step;
        self.rows
            .push(format!("| {name:<20} | {wall_seconds:>5.0} | {cpu:>5} | {budget_seconds:>6} | {text} |"));
        if wall_seconds > f64::from(*budget_seconds) {
            self.over_budget.push(format!("{name} {wall_seconds:.0}/{budget_seconds}"));
        }
        self.wall_seconds += wall_seconds;
        self.cpu_seconds += cpu_seconds.unwrap_or(0.0);
    }

    fn count(&mut self, outcome: StepOutcome, in_ci: bool) -> String {
        match outcome {
            StepOutcome::Held => {
                self.counts.passed += 1;
                "held".to_owned()
            }
            StepOutcome::HeldWith(remark) => {
                self.counts.passed += 1;
                format!("held; {remark}")
            }
            StepOutcome::Broken(reason) => {
                self.counts.failed += 1;
                format!("FAILED: {reason}")
            }
            StepOutcome::Tests(tests) => self.add_tests(tests, in_ci),
            StepOutcome::Skipped(reason) if in_ci => {
                self.counts.failed += 1;
                format!("FAILED: skipped, which CI does not allow: {reason}")
            }
            StepOutcome::Skipped(reason) => {
                self.skipped += 1;
                format!("SKIPPED: {reason}")
            }
        }
    }

    fn add_tests(&mut self, tests: Tests, in_ci: bool) -> String {
        let Tests { counts, failure, skipped } = tests;
        self.counts = self.counts.plus(counts);
        self.counts.passed = self.counts.passed.saturating_sub(skipped.len() as u64);
        let unable = skipped.len() as u64 + counts.ignored;
        *(if in_ci { &mut self.counts.failed } else { &mut self.skipped }) += unable;
        self.unable.extend(skipped);
        match failure {
            Some(reason) => {
                // A runner that failed without a failed test did not build or did not end well.
                self.counts.failed += u64::from(counts.failed == 0);
                format!("FAILED: {reason}")
            }
            None if counts.passed == 0 => {
                self.counts.failed += 1;
                "FAILED: no test was run".to_owned()
            }
            None if unable > 0 && in_ci => format!("FAILED: {unable} tests skipped, which CI does not allow"),
            None if unable > 0 => format!("{} tests passed, {unable} skipped", counts.passed),
            None => format!("{} tests passed", counts.passed),
        }
    }

    /// Prints all of it. `left_out` are the steps that did not run of all, or `None` if only some were asked for by name.
    pub(super) fn close(self, left_out: Option<&[&str]>) -> Result {
        println!("\n== summary ==\n");
        println!("| {:<20} | {:>5} | {:>5} | {:>6} | outcome |", "step", "s", "CPU s", "budget");
        println!("| {:-<20} | ----: | ----: | -----: | --- |", "");
        for row in &self.rows {
            println!("{row}");
        }
        println!("| {:<20} | {:>5.0} | {:>5.0} |        | |", "all", self.wall_seconds, self.cpu_seconds);
        if !self.over_budget.is_empty() {
            println!("over budget, which fails nothing (s/budget): {}", self.over_budget.join(", "));
        }
        for test in &self.unable {
            println!("could do nothing here: {test}");
        }
        if let Some(left_out) = left_out.filter(|left_out| !left_out.is_empty()) {
            println!("\nleft out: {}", left_out.join(", "));
            println!("everything, as in CI: cargo xtask test --full");
        }
        for step in &self.failed {
            println!("\n{step}");
        }
        let Self { counts, skipped, .. } = self;
        println!("{} passed, {} failed, {skipped} skipped", counts.passed, counts.failed);
        ensure!(counts.failed == 0, "not everything held");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::steps::{STEPS, Step};
    use super::{Counts, Ran, Result, StepOutcome, Summary, Tests};
    use crate::error::Error;
    use std::time::Duration;

    const STEP: &Step = &STEPS[0];

    fn ran(outcome: StepOutcome) -> Ran {
        Ran { outcome, wall: Duration::from_millis(100), cpu_seconds: Some(0.1) }
    }

    fn after(outcome: StepOutcome, in_ci: bool) -> (u64, u64, u64, bool) {
        let mut summary = Summary::default();
        summary.add(STEP, ran(outcome), in_ci);
        (summary.counts.passed, summary.counts.failed, summary.skipped, summary.close(Some(&[])).is_ok())
    }

    fn tests(passed: u64, failed: u64, result: Result) -> StepOutcome {
        StepOutcome::Tests(Tests::from((Counts { passed, failed, ignored: 0 }, result)))
    }

    #[test]
    fn every_outcome_is_counted_for_what_it_is() {
        let ended = || Err(Error::check("ended"));
        assert_eq!(after(StepOutcome::Held, true), (1, 0, 0, true));
        assert_eq!(after(StepOutcome::HeldWith("NOT checked: advisories".into()), true), (1, 0, 0, true));
        assert_eq!(after(StepOutcome::Broken("why".into()), false), (0, 1, 0, false));
        assert_eq!(after(tests(7, 0, Ok(())), true), (7, 0, 0, true));
        assert_eq!(after(tests(6, 1, ended()), true), (6, 1, 0, false));
        assert_eq!(after(tests(0, 0, ended()), true), (0, 1, 0, false));
        assert_eq!(after(tests(0, 0, Ok(())), true), (0, 1, 0, false));
        assert_eq!(after(Error::lacking("no root").into(), false), (0, 0, 1, true));
        assert_eq!(after(Error::lacking("no root").into(), true), (0, 1, 0, false));
    }

    #[test]
    fn a_test_that_skips_itself_is_no_passed_one_and_fails_in_ci() {
        for (in_ci, expected) in [(false, (4, 0, 3)), (true, (4, 3, 0))] {
            let mut tests = Tests::from((Counts { passed: 5, failed: 0, ignored: 2 }, Ok(())));
            tests.skipped.push("log/real_disk a_full_disk: no loop device".to_owned());
            let mut summary = Summary::default();
            summary.add(STEP, ran(StepOutcome::Tests(tests)), in_ci);
            assert_eq!((summary.counts.passed, summary.counts.failed, summary.skipped), expected);
        }
    }

    #[test]
    fn a_budget_that_is_exceeded_is_printed_and_fails_nothing() {
        let mut summary = Summary::default();
        let slow = Ran { outcome: StepOutcome::Held, wall: Duration::from_hours(300), cpu_seconds: None };
        summary.add(STEP, slow, true);
        assert_eq!(summary.over_budget.len(), 1);
        assert!(summary.close(Some(&["fuzzing"])).is_ok());
    }
}
