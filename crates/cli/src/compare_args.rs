//! Defines the arguments of `seawall compare`.

use crate::colour::Colour;
use crate::output::Files;
use clap::Args;
use std::path::PathBuf;

/// Options of `seawall compare`.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Results of `seawall bench`; the others are compared with the first
    #[arg(value_name = "RESULT.json")]
    pub(crate) results: Vec<PathBuf>,

    /// Published tables to compare them with, by id (see --list), separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) with: Vec<String>,

    /// The figure to compare by: cost, p50, p99, p99.9, p99.99, max, min, rate, or a column of a scenario
    /// [default: the first that all have]
    #[arg(long, value_name = "FIGURE")]
    pub(crate) by: Option<String>,

    /// Exit with code 3 if this is true of any row: 'p99>+20%' against the first, 'p99>5ms', 'dsync:commits/s<1000';
    /// several separated by commas. Without a method it applies to all rows that outlive a power cut; a difference
    /// within noise does not fail
    #[arg(long, value_name = "CONDITION", conflicts_with = "list")]
    pub(crate) fail_if: Vec<String>,

    /// Write the outcome of --fail-if as JUnit XML to this file (- for standard output)
    #[arg(long, value_name = "FILE", requires = "fail_if", help_heading = "Output")]
    pub(crate) junit: Option<PathBuf>,

    /// List the published tables
    #[arg(long, conflicts_with_all = ["results", "with", "by"])]
    pub(crate) list: bool,

    #[command(flatten)]
    pub(crate) files: Files,

    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(crate) color: Colour,
}
