//! `seawall report`: makes one HTML page of one or several results.
//!
//! Invariant: a result that cannot be read ends the command before anything is written.

use crate::exit::Failure;
use crate::output::Target;
use crate::report_args::Report;
use seawall_gauge::compare::side::Side;
use seawall_gauge::report::html::{self, Named};
use seawall_gauge::result::RunResult;
use seawall_sys::text::printable;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(options: &Report) -> Result<ExitCode, Failure> {
    let target = Target::find(&options.out)?;
    let read = |path: &std::path::PathBuf| {
        Ok((
            printable(&path.display().to_string()).into_owned(),
            RunResult::read(path).map_err(Failure::message)?,
        ))
    };
    let results = options.results.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
    let published = options.with.iter().map(|id| Side::published(id.trim()).map_err(Failure::usage));
    let published = published.collect::<Result<Vec<_>, Failure>>()?;
    let named: Vec<Named<'_>> = results.iter().map(|(name, result)| Named { name, result }).collect();
    target.give(&html::page(&named, &published))?;
    if options.out != Path::new("-") {
        anstream::eprintln!("written to {}", options.out.display());
    }
    Ok(ExitCode::SUCCESS)
}
