//! Defines the arguments of `seawall report`.

use crate::exit;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  seawall report result.json -o report.html               one run, with pictures
  seawall report old.json new.json -o both.html           two runs beside each other
  seawall report mine.json --with published:i2.2xlarge-linux-ssd -o mine.html
";

/// Options of `seawall report`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n{}", exit::CODES))]
pub(crate) struct Report {
    /// Results of `seawall bench`
    #[arg(value_name = "RESULT.json", required = true)]
    pub(crate) results: Vec<PathBuf>,

    /// The page to write (- for standard output)
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub(crate) out: PathBuf,

    /// Published tables to set beside them, by id (see `seawall compare --list`), separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) with: Vec<String>,
}
