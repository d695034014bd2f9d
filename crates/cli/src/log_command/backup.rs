//! `seawall log backup`: backs up a log, even while it is written, or updates a backup.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use seawall::backup;

use super::Stop;

#[derive(Debug, Args)]
pub(super) struct Backup {
    /// The log's folder
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The backup's folder; a new one is first built as TO.partial, an empty one is filled in place
    #[arg(value_name = "TO")]
    to: PathBuf,
}

pub(super) fn back_up(options: &Backup) -> Result<(), Stop> {
    let done = backup(&options.from, &options.to)?;
    let mut output = io::stdout().lock();
    writeln!(
        output,
        "backed up    {} records, LSN {} to {}",
        done.report.records, done.report.first, done.report.end
    )?;
    let (copied, kept, removed) = (done.copied, done.kept, done.removed);
    writeln!(output, "segments     {copied} copied, {kept} kept, {removed} removed")?;
    writeln!(output, "damage       none").map_err(Stop::from)
}
