//! What does `seawall bench` do? Look, refuse or announce, measure, tell, keep, judge: in this order.
//!
//! Invariant: nothing is written before the plan was checked and the announcement printed.

use crate::args::Bench;
use crate::exit::{self, Failure};
use crate::output;
use crate::progress::Progress;
use crate::signals;
use seawall_gauge::plan::Plan;
use seawall_gauge::preflight;
use seawall_gauge::rank::Ranking;
use seawall_gauge::report::{self, Style};
use seawall_gauge::require::{self, Checked, Outcome};
use seawall_gauge::result::RunResult;
use seawall_gauge::rig::real::RealRig;
use seawall_gauge::scenario::{RunError, commit};
use seawall_sys::inspect::{self, Environment};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(options: &Bench) -> Result<ExitCode, Failure> {
    options.color.choose();
    let requirement = options.requirement().map_err(Failure::Usage)?;
    let plan = options.plan(&requirement).map_err(Failure::Usage)?;
    plan.check().map_err(Failure::Usage)?;
    let environment = look(options)?;
    preflight::check(&plan, &environment, options.allow_memory).map_err(Failure::Told)?;
    anstream::eprintln!("{}", preflight::announcement(&plan));
    if options.dry_run {
        output::print(&report::preview::preview(&plan, &environment, output::width()))?;
        return Ok(ExitCode::SUCCESS);
    }
    signals::listen().map_err(Failure::Told)?;
    let kept = results_folder(options)?;
    let result = measure(options, &plan, environment, kept.as_deref())?;
    tell(options, &result, kept.as_deref())?;
    let checked = require::check(&Ranking::new(&result), &requirement);
    // Beside a result in another format on standard output, words would spoil it.
    let words = report::requirements(&checked, output::width(), Style::COLOURED);
    if options.prints_a_format() {
        anstream::eprint!("{words}");
    } else {
        output::print(&words)?;
    }
    Ok(verdict(&result, &checked))
}

fn verdict(result: &RunResult, checked: &[Checked]) -> ExitCode {
    if !result.complete {
        ExitCode::from(exit::INTERRUPTED)
    } else if checked.iter().any(|one| one.outcome != Outcome::Met) {
        ExitCode::from(exit::MISSED)
    } else if result.measured().next().is_none() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Writes the files that were asked for and prints the report, unless one of them goes to standard output.
fn tell(options: &Bench, result: &RunResult, kept: Option<&Path>) -> Result<(), Failure> {
    let json = || result.to_json();
    let csv = || Ok(report::csv::csv(result));
    let markdown = || Ok(report::markdown::markdown(result));
    let html = || Ok(report::html::html(result));
    for (file, text) in [
        (&options.json, &json as &dyn Fn() -> Result<String, String>),
        (&options.csv, &csv),
        (&options.markdown, &markdown),
        (&options.html, &html),
    ] {
        let Some(file) = file else { continue };
        output::give(file, &text().map_err(Failure::Told)?)?;
    }
    if !options.prints_a_format() {
        output::print(&report::terminal(result, output::width(), Style::COLOURED))?;
    }
    if let Some(folder) = kept {
        let report = report::markdown::markdown(result);
        output::give(&folder.join("report.md"), &report)?;
        output::give(&folder.join("report.html"), &report::html::html(result))?;
        anstream::eprintln!("kept in {}", folder.display());
    }
    Ok(())
}

/// What is under the folder or device, which must exist.
fn look(options: &Bench) -> Result<Environment, Failure> {
    let place = options.raw_device_overwrite.as_ref().unwrap_or(&options.folder);
    let name = place.display();
    let metadata = std::fs::metadata(place).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::Told(format!(
            "{name} does not exist: create it, or name a folder on the disk to be measured"
        )),
        _ => Failure::Told(format!("cannot look at {name}: {error}")),
    })?;
    if options.raw_device_overwrite.is_none() && !metadata.is_dir() {
        return Err(Failure::Told(format!(
            "{name} is not a folder: name the folder in which to make the journal"
        )));
    }
    inspect::environment(place).map_err(|error| Failure::Told(error.to_string()))
}

/// The folder for this run's results, made now so that a wrong name is told before the run, not after it.
fn results_folder(options: &Bench) -> Result<Option<PathBuf>, Failure> {
    if options.no_out {
        return Ok(None);
    }
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seawall_sys::clock::unix_seconds());
    let stamp = humantime::format_rfc3339_seconds(now).to_string().replace(':', "");
    let folder = options.out.join(format!("{}-{stamp}", commit::NAME));
    std::fs::create_dir_all(&folder).map_err(|error| {
        Failure::Told(format!(
            "cannot make the folder for results, {}: {error}; name another with --out, or none with --no-out",
            folder.display()
        ))
    })?;
    Ok(Some(folder))
}

fn measure(
    options: &Bench,
    plan: &Plan,
    environment: Environment,
    kept: Option<&Path>,
) -> Result<RunResult, Failure> {
    let mut rig = match &options.raw_device_overwrite {
        Some(device) => RealRig::on_device(device, environment, plan.journal, plan.transaction_bytes)
            .map_err(|error| Failure::Told(error.to_string()))?,
        None => RealRig::in_folder(&options.folder, environment, plan.journal, plan.transaction_bytes),
    };
    let mut progress = Progress::new(!options.no_progress, kept.map(|folder| folder.join("result.json")));
    let result = commit::run(plan, &mut rig, &mut progress);
    progress.done();
    result.map_err(|error| match error {
        RunError::Stopped => Failure::Interrupted,
        other => Failure::Told(other.to_string()),
    })
}
