//! `seawall report`: writes one HTML page of one or several results, prints them in full, or draws the chart of one.
//!
//! Invariant: a result that cannot be read ends the command before anything is written.

use crate::exit::Failure;
use crate::output::{self, Form, Pictures, Target};
use crate::progress::RESULT;
use clap::Args;
use seawall_gauge::compare::side::Side;
use seawall_gauge::report::html::{self, Named};
use seawall_gauge::report::{self, Style};
use seawall_gauge::result::RunResult;
use seawall_host::text::printable;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The page, if nothing else is asked for.
const PAGE: &str = "report.html";

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Results of `seawall bench`
    #[arg(value_name = "RESULT.json", required = true)]
    results: Vec<PathBuf>,

    /// The page to write (- for standard output)
    /// [default: report.html, unless --text or --svg is given]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Print the whole report of each as text instead of writing a page
    #[arg(long, conflicts_with = "with")]
    text: bool,

    #[command(flatten)]
    pictures: Pictures,

    /// Published tables to compare them with, by id (see `seawall compare --list`), separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    with: Vec<String>,
}

pub(crate) fn run(options: &Report) -> Result<ExitCode, Failure> {
    let is_page = options.out.is_some() || !(options.text || options.pictures.are_wanted());
    let page = is_page.then(|| options.out.clone().unwrap_or_else(|| PathBuf::from(PAGE)));
    let targets = output::find_all(&[("--out", &page), options.pictures.named()])?;
    let read = |path: &PathBuf| RunResult::read(path).map_err(Failure::message);
    let read = options.results.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
    let results: Vec<(String, RunResult)> = names(&options.results).into_iter().zip(read).collect();
    let published = options.with.iter().map(|id| Side::published(id.trim()).map_err(Failure::usage));
    let published = published.collect::<Result<Vec<_>, Failure>>()?;
    let one = match &results[..] {
        [(_, one)] => Some(one),
        _ if options.pictures.are_wanted() => {
            return Err(Failure::Usage("--svg draws one result: name one".to_owned()));
        }
        _ => None,
    };
    if options.text {
        let text =
            |(_, result): &(String, RunResult)| report::terminal(result, output::width(), Style::COLOURED);
        output::print(&results.iter().map(text).collect::<Vec<_>>().join("\n"))?;
    }
    let named: Vec<Named<'_>> = results.iter().map(|(name, result)| Named { name, result }).collect();
    let forms: [Form<'_>; 2] = [&|| Ok(html::page(&named, &published).into_bytes()), &|| {
        Ok(one.map(output::svg).unwrap_or_default())
    }];
    output::give_all(&targets, &forms)?;
    written(&targets);
    Ok(ExitCode::SUCCESS)
}

type Way<'a> = &'a dyn Fn(&PathBuf) -> Option<String>;

/// What results are called: by the first of their files' names, their folders' names, and both, that differs for all of
/// them; else by their whole paths.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let word = |part: Option<&OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let file = |path: &PathBuf| word(path.file_name()).filter(|name| name != RESULT || paths.len() == 1);
    let folder = |path: &PathBuf| word(path.parent().and_then(Path::file_name));
    let both = |path: &PathBuf| Some(format!("{}/{}", folder(path)?, word(path.file_name())?));
    let ways: [Way<'_>; 3] = [&file, &folder, &both];
    let differ = |names: &Vec<String>| names.iter().enumerate().all(|(at, name)| !names[..at].contains(name));
    let named = ways.into_iter().filter_map(|way| paths.iter().map(way).collect()).find(differ);
    let whole = || paths.iter().map(|path| path.display().to_string()).collect();
    named.unwrap_or_else(whole).iter().map(|name| printable(name).into_owned()).collect()
}

fn written(targets: &[Option<Target>]) {
    for file in targets.iter().flatten().map(Target::file).filter(|file| *file != Path::new("-")) {
        tell!("written to {}", printable(&file.display().to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_called_by_what_tells_them_apart() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(names(&paths(&["a/new.json", "b/old.json"])), ["new.json", "old.json"]);
        assert_eq!(names(&paths(&["x/run-1/result.json", "x/run-2/result.json"])), ["run-1", "run-2"]);
        assert_eq!(names(&paths(&["x/a/one.json", "x/a/result.json"])), ["a/one.json", "a/result.json"]);
        let alike = ["a/run/result.json", "b/run/result.json"];
        assert_eq!(names(&paths(&alike)), alike);
        assert_eq!(names(&paths(&["result.json"])), ["result.json"]);
    }
}
