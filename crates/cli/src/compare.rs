//! `seawall compare`: reads the sides, compares them and prints the result in the requested forms.
//!
//! Invariant: a side that cannot be read ends the command; no side is omitted silently.

use crate::colour::Colour;
use crate::exit::{self, Failure};
use crate::output::{self, Files};
use clap::Args;
use seawall_gauge::compare::families::Families;
use seawall_gauge::compare::gate::{self, Gate};
use seawall_gauge::compare::side::Side;
use seawall_gauge::compare::{formats, text};
use seawall_gauge::report::{self, Style};
use seawall_gauge::result::RunResult;
use seawall_host::text::printable;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Results of `seawall bench`; the others are compared with the first
    #[arg(value_name = "RESULT.json")]
    results: Vec<PathBuf>,

    /// Published tables to compare them with, by id (see --list), separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    with: Vec<String>,

    /// The figure to compare by: cost, p50, p99, p99.9, p99.99, max, min, rate, or a column of a scenario
    /// [default: the first that all have]
    #[arg(long, value_name = "FIGURE")]
    by: Option<String>,

    /// Exit with code 3 if this is true of any row: 'p99>+20%' against the first, 'p99>5ms', 'dsync:commits/s<1000';
    /// several separated by commas. Without a method it applies to all rows that outlive a power cut; a difference
    /// within noise does not fail
    #[arg(long, value_name = "CONDITION", conflicts_with = "list")]
    fail_if: Vec<String>,

    /// Write the outcome of --fail-if as JUnit XML to this file (- for standard output)
    #[arg(long, value_name = "FILE", requires = "fail_if", help_heading = "Output")]
    junit: Option<PathBuf>,

    /// List the published tables
    #[arg(long, conflicts_with_all = ["results", "with", "by"])]
    list: bool,

    #[command(flatten)]
    files: Files,

    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    color: Colour,
}

pub(crate) fn run(options: &Compare) -> Result<ExitCode, Failure> {
    options.color.choose();
    if options.list {
        output::print(&text::list(output::width()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let gates: Vec<Gate> = options
        .fail_if
        .iter()
        .map(|text| gate::parse(text).map_err(Failure::usage))
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    let files = &options.files;
    let [as_json, as_csv, as_markdown] = files.named();
    let targets = output::find_all(&[as_json, as_csv, as_markdown, ("--junit", &options.junit)])?;
    let sides = sides(&options.results, &options.with)?;
    let families = Families::new(sides, options.by.as_deref()).map_err(Failure::usage)?;
    let json = || Ok(formats::json(&families).into_bytes());
    let csv = || Ok(formats::csv(&families).into_bytes());
    let markdown = || Ok(formats::markdown(&families).into_bytes());
    let judged = gate::judge(&families, &gates);
    let junit = || Ok(report::junit::conditions("compare --fail-if", &judged).into_bytes());
    let to_standard_output = output::give_all(&targets, &[&json, &csv, &markdown, &junit])?;
    if !to_standard_output {
        output::print(&text::all(&families, output::width(), Style::COLOURED))?;
    }
    let words: String =
        judged.iter().fold(String::new(), |words, one| words + "fail-if  " + &one.sentence + "\n");
    // With a comparison in another format on standard output, words would make it unreadable.
    if to_standard_output {
        output::tell(format_args!("{words}"));
    } else {
        output::print(&words)?;
    }
    Ok(exit::of_conditions(&judged).map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// The results by their files' names as they were typed, then the published tables.
fn sides(results: &[PathBuf], with: &[String]) -> Result<Vec<Side>, Failure> {
    let own = |path: &PathBuf| {
        let result = RunResult::read(path).map_err(Failure::message)?;
        Ok(Side::own(&printable(&path.display().to_string()), &result))
    };
    let published = |id: &String| Side::published(id.trim()).map_err(Failure::usage);
    results.iter().map(own).chain(with.iter().map(published)).collect()
}
