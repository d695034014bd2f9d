//! `cargo xtask test`: the steps that hold the repository to its promises, in two tiers.
//!
//! Invariants: every step runs even if earlier ones failed, so that one run reports everything; the last lines count
//! only the tests that ran and name the steps left out; a step that hangs, and what all steps have no time for, is ended and
//! has failed.

mod changed;
mod steps;
mod summary;

use crate::apart::Starter;
use crate::error::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
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

#[derive(Args)]
pub(crate) struct Options {
    /// Every step, as in CI
    #[arg(long)]
    full: bool,
    /// Only the steps that matter to what differs from a revision, HEAD unless named
    #[arg(long, value_name = "REV", num_args = 0..=1, default_missing_value = "HEAD")]
    changed: Option<String>,
    /// Lists the steps; runs none
    #[arg(long, exclusive = true)]
    list: bool,
    /// These steps, of either tier
    #[arg(value_name = "STEP", conflicts_with_all = ["full", "changed"])]
    #[arg(value_parser = PossibleValuesParser::new(STEPS.iter().map(|step| step.name)), hide_possible_values = true)]
    steps: Vec<String>,
    /// Where the outcome of the step goes, which [`crate::apart`] reads
    #[arg(long, hide = true, requires = "steps")]
    outcome: Option<PathBuf>,
}

/// Runs what was asked for, then the summary.
pub(crate) fn run(options: &Options) -> Result {
    let Options { full, changed, list: listed, steps, outcome } = options;
    if *listed {
        list();
        return Ok(());
    }
    let named = steps.iter().filter_map(|name| STEPS.iter().find(|step| step.name == name));
    let named: Vec<&Step> = named.collect();
    if let Some(outcome) = outcome {
        return named.iter().try_for_each(|step| (step.run)().write(outcome));
    }
    if !named.is_empty() {
        return run_steps(&named, None);
    }
    let differs = changed.as_deref().map(changed::files).transpose()?;
    let due = |step: &&Step| {
        let of_tier = *full || step.tier == Tier::Quick;
        of_tier && differs.as_ref().is_none_or(|files| changed::matters(step.paths, files))
    };
    let (due, left): (Vec<&Step>, Vec<&Step>) = STEPS.iter().partition(due);
    let left: Vec<&str> = left.iter().map(|step| step.name).collect();
    run_steps(&due, Some(&left))
}

fn run_steps(steps: &[&Step], left_out: Option<&[&str]>) -> Result {
    let starter = Starter::new()?;
    let mut summary = Summary::default();
    let started_ns = seawall_sys::clock::monotonic_ns();
    for step in steps {
        println!("\n== {} ==", step.name);
        let passed = Duration::from_nanos(seawall_sys::clock::monotonic_ns() - started_ns);
        let limit = LIMIT.min(TOTAL.saturating_sub(passed));
        summary.add(step, starter.run(&["test", step.name], limit), in_ci());
    }
    summary.close(left_out)
}

fn list() {
    println!("| step | tier | budget, s | matters to |\n| --- | --- | ---: | --- |");
    for Step { name, tier, paths, budget_seconds, .. } in &STEPS {
        let paths = if paths.is_empty() { "everything".to_owned() } else { paths.join(" ") };
        println!("| {name} | {} | {budget_seconds} | {paths} |", tier.name());
    }
}
