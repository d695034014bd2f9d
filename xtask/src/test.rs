//! `cargo xtask test`: the steps that hold the repository to its promises, in two tiers.
//!
//! | command | what runs |
//! | --- | --- |
//! | `cargo xtask test` | the quick tier: no root, nothing to download but crates |
//! | `cargo xtask test --full` | every step, as in CI |
//! | `cargo xtask test STEP ...` | these steps, of either tier |
//! | `--changed [REV]` behind the first two | of these only the steps that matter to what differs from REV (`HEAD`) |
//! | `cargo xtask test --list` | the steps, and every test with the step that runs it, run none |
//!
//! Invariants: every step runs even if earlier ones failed, so that one run reports everything; the last lines count
//! only the tests that ran and name the steps left out; a step that hangs, and what all steps have no time for, is ended and
//! has failed.

mod changed;
mod steps;
mod summary;

use crate::apart::Starter;
use crate::error::{Error, Result};
use crate::runner;
use seawall_sys::skip::in_ci;
use std::path::PathBuf;
use std::time::Duration;
use steps::{STEPS, Step, Tier};
use summary::Summary;

/// No step may take longer: a step that hangs is ended, so that CI does not wait for ever. Generous, because a machine may
/// be slow and builds may be cold.
const LIMIT: Duration = Duration::from_mins(30);
/// All steps together: what is ended from outside, without a summary, names no step. CI allows 90 minutes.
const TOTAL: Duration = Duration::from_mins(80);

/// What the command line asks for.
#[derive(Debug, PartialEq)]
enum TestRequest {
    /// Every step of the tier, or of both; of these those that matter to what differs from a revision.
    Tier {
        full: bool,
        changed: Option<String>,
    },
    Named(Vec<String>),
    List,
    /// What [`crate::apart`] starts: one step, whose outcome goes to a file.
    Step {
        name: String,
        outcome: PathBuf,
    },
}

/// Runs what was asked for, then the summary.
pub(crate) fn run(arguments: &[String]) -> Result {
    match request(arguments)? {
        TestRequest::List => list(),
        TestRequest::Step { name, outcome } => (step(&name)?.run)().write(&outcome),
        TestRequest::Named(names) => {
            let steps: Vec<&Step> = names.iter().map(|name| step(name)).collect::<Result<_>>()?;
            run_steps(&steps, None)
        }
        TestRequest::Tier { full, changed } => {
            let differs = changed.as_deref().map(changed::files).transpose()?;
            let due = |step: &&Step| {
                let of_tier = full || step.tier == Tier::Quick;
                of_tier && differs.as_ref().is_none_or(|files| changed::matters(step.paths, files))
            };
            let (due, left): (Vec<&Step>, Vec<&Step>) = STEPS.iter().partition(due);
            let left: Vec<&str> = left.iter().map(|step| step.name).collect();
            run_steps(&due, Some(&left))
        }
    }
}

fn run_steps(steps: &[&Step], left_out: Option<&[&str]>) -> Result {
    let starter = Starter::new()?;
    let mut summary = Summary::default();
    let started_ns = seawall_sys::clock::monotonic_ns();
    for step in steps {
        println!("\n== {} ==", step.name);
        let passed = Duration::from_nanos(seawall_sys::clock::monotonic_ns() - started_ns);
        let limit = LIMIT.min(TOTAL.saturating_sub(passed));
        summary.add(step, starter.run(&["test", "--step", step.name], limit), in_ci());
    }
    summary.close(left_out, in_ci())
}

fn step(name: &str) -> Result<&'static Step> {
    STEPS.iter().find(|step| step.name == name).ok_or_else(|| {
        let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        Error::usage(format!("there is no step `{name}`; there are: {}", known.join(", ")))
    })
}

fn request(arguments: &[String]) -> Result<TestRequest> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["--list"] => TestRequest::List,
        ["--step", name, "--outcome", path] => {
            TestRequest::Step { name: name.to_owned(), outcome: path.into() }
        }
        [] => TestRequest::Tier { full: false, changed: None },
        ["--full"] => TestRequest::Tier { full: true, changed: None },
        ["--changed"] => TestRequest::Tier { full: false, changed: Some("HEAD".to_owned()) },
        ["--changed", rev] => TestRequest::Tier { full: false, changed: Some(rev.to_owned()) },
        ["--full", "--changed"] => TestRequest::Tier { full: true, changed: Some("HEAD".to_owned()) },
        ["--full", "--changed", rev] => TestRequest::Tier { full: true, changed: Some(rev.to_owned()) },
        _ => match words.iter().find(|word| word.starts_with('-')) {
            Some(option) => {
                return Err(Error::usage(format!(
                    "{option} is unknown or stands in the wrong place; it is `cargo xtask test [--full] [--changed [REV]]`, \
                     `cargo xtask test STEP ...` or `cargo xtask test --list`"
                )));
            }
            None => TestRequest::Named(arguments.to_vec()),
        },
    })
}

/// Steps first, then tests.
fn list() -> Result {
    println!("| step | tier | budget, s | matters to |\n| --- | --- | ---: | --- |");
    for Step { name, tier, paths, budget_seconds, .. } in &STEPS {
        let paths = if paths.is_empty() { "everything".to_owned() } else { paths.join(" ") };
        println!("| {name} | {} | {budget_seconds} | {paths} |", tier.name());
    }
    println!("\n| test | run by |\n| --- | --- |");
    for (test, ignored) in runner::list(&runner::build(&[])?)? {
        println!("| {test} | {} |", steps::of_test(&test, ignored).unwrap_or("**no step**"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{TestRequest, request, run, step};
    use crate::options::{refuses, words};

    #[test]
    fn requests_are_understood_or_refused() {
        let tier =
            |full, changed: Option<&str>| TestRequest::Tier { full, changed: changed.map(str::to_owned) };
        let of = |given: &[&str]| request(&words(given)).expect("is understood");
        assert_eq!(of(&[]), tier(false, None));
        assert_eq!(of(&["--full"]), tier(true, None));
        assert_eq!(of(&["--changed"]), tier(false, Some("HEAD")));
        assert_eq!(of(&["--full", "--changed", "main"]), tier(true, Some("main")));
        assert_eq!(of(&["--list"]), TestRequest::List);
        assert_eq!(of(&["format", "lints"]), TestRequest::Named(words(&["format", "lints"])));
        assert!(request(&words(&["--fast"])).is_err_and(|error| refuses(&error, "--fast is unknown")));
        assert!(request(&words(&["format", "--full"])).is_err());
    }

    #[test]
    fn an_unknown_step_is_refused_with_those_that_there_are() {
        assert!(step("nonsense").is_err_and(|error| refuses(&error, "call sequences")));
        assert!(run(&words(&["nonsense"])).is_err());
    }
}
