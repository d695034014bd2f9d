//! Defines the arguments of `seawall report`.

use crate::output::Pictures;
use clap::Args;
use std::path::PathBuf;

/// Options of `seawall report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Results of `seawall bench`
    #[arg(value_name = "RESULT.json", required = true)]
    pub(crate) results: Vec<PathBuf>,

    /// The page to write (- for standard output)
    /// [default: report.html, unless --text or --svg is given]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Print the whole report of each as text instead of writing a page
    #[arg(long, conflicts_with = "with")]
    pub(crate) text: bool,

    #[command(flatten)]
    pub(crate) pictures: Pictures,

    /// Published tables to compare them with, by id (see `seawall compare --list`), separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) with: Vec<String>,
}
