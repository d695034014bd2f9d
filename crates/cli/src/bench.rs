//! `seawall bench`: inspects, refuses or announces, measures, reports, stores and judges a run, in this order.
//!
//! Invariant: nothing is written before the plan was checked and the announcement printed.

use crate::args::Bench;
use crate::exit::{self, Failure};
use crate::job::{Job, Measured, verdict};
use crate::output;
use crate::selection::{Selection, check_options, select};
use crate::signals;
use seawall_gauge::report::{self, Style};
use seawall_gauge::result::RunResult;
use seawall_gauge::scenario::{SCENARIOS, Scenario};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(options: &Bench) -> Result<ExitCode, Failure> {
    options.color.choose();
    if options.list {
        output::print(&report::preview::scenarios(output::width()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let selection = select(&options.words, Path::is_dir).map_err(Failure::Usage)?;
    check_options(&selection, options).map_err(Failure::Usage)?;
    match selection {
        Selection::One(scenario, folders) => one(options, &Job::prepare(options, scenario, &folders)?),
        Selection::All(folder) => {
            let folders = [folder];
            // No cluster is spoken to that was not named, and `all` takes no names.
            let (named, own): (Vec<&'static Scenario>, Vec<_>) =
                SCENARIOS.iter().partition(|scenario| scenario.study.is_some_and(|study| study.clusters));
            for scenario in named {
                anstream::eprintln!(
                    "Leaves out `{}`: run it by itself and name a cluster (--kafka, --nats).",
                    scenario.name
                );
            }
            let jobs = own.into_iter().map(|scenario| Job::prepare(options, scenario, &folders));
            all(options, &jobs.collect::<Result<Vec<Job>, _>>()?)
        }
    }
}

/// Announces one job, and runs it unless only a preview was asked for.
fn one(options: &Bench, job: &Job) -> Result<ExitCode, Failure> {
    anstream::eprintln!("{}", job.announcement());
    if options.dry_run {
        output::print(&job.preview(output::width()))?;
        return Ok(ExitCode::SUCCESS);
    }
    signals::listen().map_err(Failure::Told)?;
    carry_out(options, job)
}

/// Runs one job after the other. One that cannot be done does not keep the others from being run; a signal ends all.
fn all(options: &Bench, jobs: &[Job]) -> Result<ExitCode, Failure> {
    for job in jobs {
        anstream::eprintln!("{}", job.announcement());
        if options.dry_run {
            output::print(&job.preview(output::width()))?;
        }
    }
    if options.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    signals::listen().map_err(Failure::Told)?;
    let mut code = ExitCode::SUCCESS;
    for job in jobs {
        match carry_out(options, job) {
            Ok(ended) if ended == ExitCode::from(exit::INTERRUPTED) => return Ok(ended),
            Ok(ended) if ended == ExitCode::SUCCESS => {}
            Ok(ended) => code = ended,
            Err(Failure::Told(reason)) => {
                anstream::eprintln!(
                    "{}error:{} {}: {reason}",
                    exit::RED.render(),
                    exit::RED.render_reset(),
                    job.scenario.name
                );
                code = ExitCode::FAILURE;
            }
            Err(other) => return Err(other),
        }
        output::print("\n")?;
    }
    Ok(code)
}

/// Measures, tells, keeps and judges.
fn carry_out(options: &Bench, job: &Job) -> Result<ExitCode, Failure> {
    let kept = results_folder(options, job.scenario.name)?;
    let Measured { result, left_behind } = job.measure(options, kept.as_deref())?;
    tell(options, &result, kept.as_deref())?;
    let checked = job.check(&result);
    // Beside a result in another format on standard output, words would spoil it.
    let words = report::requirements(&checked, output::width(), Style::COLOURED);
    if options.prints_a_format() {
        anstream::eprint!("{words}");
    } else {
        output::print(&words)?;
    }
    match left_behind {
        Some(left) => Err(Failure::Told(left)),
        None => Ok(verdict(&result, &checked)),
    }
}

/// Writes the files that were asked for and prints the report, unless one of them goes to standard output.
fn tell(options: &Bench, result: &RunResult, kept: Option<&Path>) -> Result<(), Failure> {
    let json = || result.to_json();
    let csv = || Ok(report::csv::csv(result));
    let markdown = || Ok(report::markdown::markdown(result));
    let html = || Ok(report::html::html(result));
    let files = &options.files;
    let to_standard_output = output::give_all(&[
        (&files.json, &json),
        (&files.csv, &csv),
        (&files.markdown, &markdown),
        (&options.html, &html),
    ])?;
    if !to_standard_output {
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

/// The folder for this run's results, made now so that a wrong name is told before the run, not after it.
fn results_folder(options: &Bench, scenario: &str) -> Result<Option<PathBuf>, Failure> {
    if options.no_out {
        return Ok(None);
    }
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seawall_sys::clock::unix_seconds());
    let stamp = humantime::format_rfc3339_seconds(now).to_string().replace(':', "");
    let folder = options.out.join(format!("{scenario}-{stamp}"));
    std::fs::create_dir_all(&folder).map_err(|error| {
        Failure::Told(format!(
            "cannot make the folder for results, {}: {error}; name another with --out, or none with --no-out",
            folder.display()
        ))
    })?;
    Ok(Some(folder))
}
