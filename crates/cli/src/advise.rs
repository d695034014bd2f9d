//! `seawall advise`: derives product settings from a result, or from a short measurement.
//!
//! Invariant: nothing is written before the announcement was printed, and nothing at all when a result is given.

use crate::args::Colour;
use crate::exit::Failure;
use crate::progress::Progress;
use crate::{output, signals};
use clap::Args;
use seawall_gauge::plan::{Amount, Plan, choose_methods};
use seawall_gauge::preflight;
use seawall_gauge::report::{self, Style, advice};
use seawall_gauge::result::RunResult;
use seawall_gauge::rig::real::RealRig;
use seawall_gauge::scenario::{RunError, commit};
use seawall_sys::durability::FileState;
use seawall_sys::inspect;
use seawall_sys::journal::Recipe;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The short run writes as the databases do: pages of 8 KiB into blocks that were written before.
const TRANSACTION_BYTES: usize = 8 << 10;
const JOURNAL_BYTES: u64 = 64 << 20;

/// Options of `seawall advise`.
#[derive(Debug, Args)]
pub(crate) struct Advise {
    /// A result of `seawall bench --json`; without one, the disk under --dir is measured for a short while
    #[arg(value_name = "RESULT.json")]
    result: Option<PathBuf>,
    /// The folder whose disk is measured; 64 MiB are written there and removed again
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "result")]
    dir: PathBuf,
    /// How long to measure, such as 10s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration,
          conflicts_with = "result")]
    time: Duration,
    /// Measure on a file system that keeps nothing; nothing can be recommended then
    #[arg(long, conflicts_with = "result")]
    allow_memory: bool,
    /// Tells the advice as JSON
    #[arg(long)]
    json: bool,
    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: Colour,
}

pub(crate) fn run(options: &Advise) -> Result<ExitCode, Failure> {
    options.color.choose();
    let result = match &options.result {
        Some(file) => RunResult::read(file).map_err(Failure::Told)?,
        None => measure(options)?,
    };
    if options.json {
        output::print(&advice::json(&result).map_err(Failure::Told)?)?;
    } else {
        let columns = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        let width =
            columns.map_or(report::WIDTH_DEFAULT, |columns| columns.clamp(report::WIDTH_DEFAULT, 120));
        output::print(&advice::text(&result, width, Style::COLOURED))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(time: Duration) -> Result<Plan, Failure> {
    Ok(Plan {
        methods: choose_methods("durable").map_err(Failure::Usage)?,
        transaction_bytes: TRANSACTION_BYTES,
        journal: Recipe {
            state: FileState::Recycled,
            bytes: JOURNAL_BYTES,
            fill_bytes: TRANSACTION_BYTES as u64,
            keep_cached: true,
        },
        amount: Amount::TimeNs(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        ..Plan::default()
    })
}

fn measure(options: &Advise) -> Result<RunResult, Failure> {
    let dir = options.dir.as_path();
    let plan = plan(options.time)?;
    plan.check().map_err(Failure::Usage)?;
    if !dir.is_dir() {
        return Err(Failure::Told(format!(
            "{} is not a folder: name one on the disk that the database will use, with --dir",
            dir.display()
        )));
    }
    let environment = inspect::environment(dir).map_err(|error| Failure::Told(error.to_string()))?;
    preflight::check(&plan, &environment, options.allow_memory).map_err(Failure::Told)?;
    anstream::eprintln!("{}", preflight::announcement(&plan));
    signals::listen().map_err(Failure::Told)?;
    let mut rig = RealRig::in_folder(dir, environment, plan.journal, plan.transaction_bytes);
    let mut progress = Progress::new(true, None);
    let result = commit::run(&plan, &mut rig, &mut progress);
    progress.done();
    result.map_err(|error| match error {
        RunError::Stopped => Failure::Interrupted,
        other => Failure::Told(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::plan;
    use std::time::Duration;

    #[test]
    fn the_short_run_can_be_carried_out() {
        let plan = plan(Duration::from_secs(10)).expect("a plan");
        assert_eq!(plan.check(), Ok(()));
        assert!(plan.methods.iter().all(|method| method.reach().letter() == 'D'));
    }
}
