//! Defines the arguments of `seawall report`.

use clap::Args;
use std::path::PathBuf;

/// Options of `seawall report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Results of `seawall bench`
    #[arg(value_name = "RESULT.json", required = true)]
    pub(crate) results: Vec<PathBuf>,

    /// The page to write (- for standard output)
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub(crate) out: PathBuf,

    /// Published tables to compare them with, by id (see `seawall compare --list`), separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) with: Vec<String>,
}
