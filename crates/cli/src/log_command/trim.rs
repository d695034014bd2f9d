//! `seawall log trim`: removes all records before an LSN.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use seawall::{Log, Lsn, Options};

use super::{Network, Stop, print_refusal};

#[derive(Debug, Args)]
pub(super) struct Trim {
    /// The log's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The first LSN to keep
    #[arg(value_name = "LSN")]
    lsn: Lsn,
    #[command(flatten)]
    place: Network,
}

pub(super) fn trim(options: &Trim) -> Result<(), Stop> {
    let settings = Options::default().create(false);
    let settings = settings.network_file_system(options.place.network_file_system);
    let log = Log::open(&options.dir, settings)?;
    print_refusal(log.opened().engine_refused.as_deref());
    let trimmed = log.trim(options.lsn);
    log.close()?;
    let first = trimmed?;
    writeln!(io::stdout().lock(), "first LSN    {first}").map_err(Stop::from)
}
