//! `seawall bench`: inspects, refuses or announces, measures, reports, stores and judges a run, in this order.
//!
//! Invariant: nothing is written before the plan was checked and the announcement printed.

use crate::bench_args::{Bench, Common, Outputs};
use crate::exit::{self, Failure};
use crate::job::{Job, Measured, exit_code};
use crate::output::{self, Form, Target};
use crate::progress::RESULT;
use crate::scenario_args::{AllArgs, Choice};
use crate::signals;
use seawall_gauge::preflight::{self, Share};
use seawall_gauge::report::html::Named;
use seawall_gauge::report::{self, Style};
use seawall_gauge::require::Checked;
use seawall_gauge::result::RunResult;
use seawall_host::output::OutputFolder;
use seawall_host::starting_line::spawn_scoped;
use seawall_host::text::printable;
use seawall_host::thread::pin;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const JUNIT: &str = "--junit";

pub(crate) fn run(options: &Bench) -> Result<ExitCode, Failure> {
    let common = &options.common;
    common.color.choose();
    if options.list {
        output::print(&report::preview::scenarios(output::width()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(crate::scenario_args::ScenarioArgs::Peers(_)) = &options.scenario
        && crate::peers().is_empty()
        && !common.dry_run
    {
        return by_other_program();
    }
    let choice = options.choice()?;
    check_pins(common.pins())?;
    let outputs = options.outputs().filter(|_| !common.dry_run);
    let junit = options.junit().filter(|_| !common.dry_run).cloned();
    let mut named = outputs.map_or(Vec::new(), |outputs| outputs.named().to_vec());
    named.push((JUNIT, &junit));
    let targets = output::find_all(&named)?;
    match choice {
        Choice::All(own) => all(options, own),
        Choice::One(wanted) => one(options, &Job::prepare(common, *wanted)?, &targets),
    }
}

/// Runs the program that other logs are part of, with the same arguments.
fn by_other_program() -> Result<ExitCode, Failure> {
    let here = std::env::current_exe().map_err(Failure::message)?;
    let sibling = here.with_file_name(format!("seawall-peers{}", std::env::consts::EXE_SUFFIX));
    let built = sibling.parent().and_then(Path::parent).map(|target| target.join("peers/release"));
    let built = built.unwrap_or_default().join(sibling.file_name().unwrap_or_default());
    let Some(program) = [&sibling, &built].into_iter().find(|path| path.is_file()) else {
        return Err(Failure::Message(format!(
            "other logs are measured by another program, which is neither {} nor {}: build it with `cargo xtask peers --build`",
            sibling.display(),
            built.display()
        )));
    };
    // Ctrl-C reaches both; that one keeps its result and removes its files.
    signals::listen()?;
    let status = std::process::Command::new(program).args(std::env::args_os().skip(1)).status();
    let status = status.map_err(|error| Failure::Message(format!("{}: {error}", program.display())))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

fn check_pins(cpus: &[usize]) -> Result<(), Failure> {
    for cpu in cpus.iter().copied() {
        // In a thread of its own, because this one must not stay pinned.
        let pinned = std::thread::scope(|scope| {
            Ok(spawn_scoped(scope, "--pin", move || pin(cpu))?
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        pinned.and_then(|pinned| pinned.map(drop)).map_err(|error: seawall_sys::Error| {
            Failure::Message(format!(
                "--pin {cpu}: {error}; `nproc` and `taskset -p $$` print which CPUs there are"
            ))
        })?;
    }
    Ok(())
}

fn one(options: &Bench, job: &Job, targets: &[Option<Target>]) -> Result<ExitCode, Failure> {
    // With `--quiet` only what is destroyed is announced.
    if !options.common.quiet || job.destroys() {
        tell!("{}", job.announcement());
    }
    if options.common.dry_run {
        output::print(&job.preview(output::width()))?;
        return Ok(ExitCode::SUCCESS);
    }
    signals::listen()?;
    measure_and_report(options, job, targets).map(|(code, _)| code)
}

/// Runs one job after the other. One that cannot be done does not keep the others from being run; a signal ends all.
fn all(options: &Bench, all: &AllArgs) -> Result<ExitCode, Failure> {
    let common = &options.common;
    let (wanted, left) = all.wanted(common);
    let jobs = wanted.into_iter().map(|wanted| Job::prepare(common, wanted));
    let jobs = jobs.collect::<Result<Vec<Job>, _>>()?;
    if !common.quiet {
        let shares: Vec<Share> = jobs.iter().map(Job::share).collect();
        let left = left.iter().map(|one| format!(" Leaves out `{}`: {}.", one.name, one.alone));
        tell!("{}{}", preflight::joint_announcement(&shares), left.collect::<String>());
    }
    if common.dry_run {
        jobs.iter().try_for_each(|job| output::print(&job.preview(output::width())))?;
        return Ok(ExitCode::SUCCESS);
    }
    signals::listen()?;
    let mut code = ExitCode::SUCCESS;
    let mut results = Vec::new();
    for job in &jobs {
        match measure_and_report(options, job, &[]) {
            Ok((ended, result)) => {
                results.push(result);
                if ended == ExitCode::from(exit::INTERRUPTED) {
                    code = ended;
                    break;
                }
                code = if ended == ExitCode::SUCCESS { code } else { ended };
            }
            Err(Failure::Message(reason)) => {
                let failure = Failure::Message(format!("{}: {reason}", job.scenario.name));
                failure.print();
                code = failure.code();
            }
            Err(other) => return Err(other),
        }
        output::print("\n")?;
    }
    if results.len() > 1 {
        joint(common, &results)?;
    }
    Ok(code)
}

/// What all results say, on the terminal and as one page.
fn joint(common: &Common, results: &[RunResult]) -> Result<(), Failure> {
    output::print(&report::summary::text(results, output::width(), Style::COLOURED))?;
    let Some(folder) = results_folder(common, "all")? else { return Ok(()) };
    let named: Vec<Named<'_>> =
        results.iter().map(|result| Named { name: &result.scenario, result }).collect();
    keep(&folder, "report.html", &report::html::page(&named, &[]))?;
    if !common.quiet {
        tell!("all in {}", folder.path().join("report.html").display());
    }
    Ok(())
}

fn keep(folder: &OutputFolder, name: &str, text: &str) -> Result<(), Failure> {
    folder.replace(name, text.as_bytes()).map_err(|error| {
        Failure::Message(format!("cannot write {}: {error}", folder.path().join(name).display()))
    })
}

fn measure_and_report(
    options: &Bench,
    job: &Job,
    targets: &[Option<Target>],
) -> Result<(ExitCode, RunResult), Failure> {
    let common = &options.common;
    let kept = results_folder(common, job.scenario.name)?;
    let Measured { result, left_behind } = match job.measure(common, kept.as_ref()) {
        Ok(measured) => measured,
        Err(failure) => {
            // Nothing was measured: what is in there is of no use, and the folder is new.
            if let Some(folder) = kept {
                folder.discard(&[RESULT]);
            }
            return Err(failure);
        }
    };
    let checked = job.check(&result);
    write(options, &result, &checked, targets, kept.as_ref())?;
    // With a result in another format on standard output, words would make it unreadable.
    let words = report::requirements(&checked, output::width(), Style::COLOURED);
    let is_printed = |file: &PathBuf| output::is_standard(Some(file));
    if options.outputs().is_some_and(Outputs::are_printed) || options.junit().is_some_and(is_printed) {
        output::tell(format_args!("{words}"));
    } else {
        output::print(&words)?;
    }
    match left_behind {
        Some(left) => Err(Failure::Message(left)),
        None => Ok((exit_code(&result, &checked), result)),
    }
}

/// Writes the files of --json and its kin and prints the report, unless one of them goes to standard output.
fn write(
    options: &Bench,
    result: &RunResult,
    checked: &[Checked],
    targets: &[Option<Target>],
    kept: Option<&OutputFolder>,
) -> Result<(), Failure> {
    let forms: [Form<'_>; 7] = [
        &|| Ok(result.to_json().map_err(Failure::message)?.into_bytes()),
        &|| Ok(report::csv::csv(result).into_bytes()),
        &|| Ok(report::markdown::markdown(result).into_bytes()),
        &|| Ok(report::html::html(result).into_bytes()),
        &|| Ok(output::svg(result)),
        &|| Ok(report::fio::json(result).into_bytes()),
        &|| Ok(report::junit::conditions("bench --require", checked).into_bytes()),
    ];
    let shown = !output::give_all(targets, &forms)?;
    let names_folder = shown && result.study.ranked && !options.common.verbose;
    if shown {
        let (width, style) = (output::width(), Style::COLOURED);
        let report = if names_folder {
            let folder = kept.map(|folder| folder.path().display().to_string());
            report::screen::screen(result, folder.as_deref().map(printable).as_deref(), width, style)
        } else {
            report::terminal(result, width, style)
        };
        output::print(&report)?;
    }
    if let Some(folder) = kept {
        let report = report::markdown::markdown(result);
        for (name, text) in [("report.md", report), ("report.html", report::html::html(result))] {
            keep(folder, name, &text)?;
        }
        if !options.common.quiet && !names_folder {
            tell!("kept in {}", folder.path().display());
        }
    }
    Ok(())
}

/// The folder for this run's results, new and made now, so that a wrong name ends the command before the run, not after it. If
/// no --out is given and none can be made here, the run continues without.
fn results_folder(options: &Common, scenario: &str) -> Result<Option<OutputFolder>, Failure> {
    if options.no_out {
        return Ok(None);
    }
    let out = options.out.as_deref().unwrap_or(Path::new("seawall-results"));
    match new_folder(out, scenario) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if options.out.is_none() => {
            tell!(
                "keeps no results: cannot create a folder in {}: {error}; name another with --out",
                out.display()
            );
            Ok(None)
        }
        Err(error) => Err(Failure::Message(format!(
            "cannot create the folder for results in {}: {error}; name another with --out, or none with --no-out",
            out.display()
        ))),
    }
}

/// A folder below `out` that did not exist, named after the time, and after a number from the second of a second on.
fn new_folder(out: &Path, scenario: &str) -> std::io::Result<OutputFolder> {
    const RUNS_A_SECOND_MAX: u32 = 1000;
    let stamp = report::facts::stamp_of(seawall_sys::clock::unix_seconds()).replace(':', "");
    let first = format!("{scenario}-{stamp}");
    let others = (2..=RUNS_A_SECOND_MAX).map(|number| format!("{scenario}-{stamp}-{number}"));
    OutputFolder::make(out, std::iter::once(first).chain(others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn runs_of_one_second_get_folders_of_their_own_and_no_existing_one_is_taken() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut made: Vec<PathBuf> =
            (0..5).map(|_| new_folder(dir.path(), "commit").expect("made").path().to_owned()).collect();
        made.sort();
        made.dedup();
        assert_eq!(made.len(), 5);
        std::fs::write(dir.path().join("file"), b"x").expect("written");
        assert!(new_folder(&dir.path().join("file"), "commit").is_err());
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_before_the_run() {
        assert!(check_pins(&[]).is_ok());
        let refused = check_pins(&[1_000_000]).expect_err("no such CPU").to_string();
        assert!(refused.contains("--pin 1000000"), "{refused}");
    }
}
