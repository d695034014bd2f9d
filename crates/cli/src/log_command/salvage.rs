//! `seawall log salvage`: copies the intact records of a damaged log into a new one.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use seawall::{Engine, Options, salvage};
use seawall_host::text::printable;

use super::{Network, Stop, print_refusal};
use crate::exit::Failure;

#[derive(Debug, Args)]
pub(super) struct Salvage {
    /// The damaged log's folder
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The folder of the new log
    #[arg(value_name = "TO")]
    to: PathBuf,
    #[command(flatten)]
    place: Network,
}

pub(super) fn save(options: &Salvage) -> Result<(), Stop> {
    let done = salvage(
        &options.from,
        &options.to,
        Options::default().network_file_system(options.place.network_file_system),
    )?;
    // The library opens the log, and does not report it.
    let refused = Engine::IoUring.probe().err().filter(|_| Engine::IoUring.is_known_here());
    print_refusal(refused.map(|reason| reason.to_string()).as_deref());
    let mut output = io::stdout().lock();
    writeln!(output, "copied       {} records, up to LSN {} of the new log", done.records, done.end)?;
    for damage in &done.report.damage {
        writeln!(output, "damage       {}", printable(&damage.to_string()))?;
    }
    for (from, to) in &done.left_out {
        writeln!(output, "left out     LSN {from} to {to}, {} bytes", to.since(*from))?;
    }
    if done.left_out.is_empty() && done.report.damage.is_empty() {
        return Ok(());
    }
    let places = done.report.damage.len();
    if done.left_out.is_empty() {
        return Err(
            Failure::Message(format!("{places} damaged place(s); no record is known to be missing")).into()
        );
    }
    let bytes: u64 = done.left_out.iter().map(|(from, to)| to.since(*from)).sum();
    let ranges = done.left_out.len();
    Err(Failure::Message(format!(
        "not everything was saved: {bytes} known bytes in {ranges} range(s) were left out, {places} damaged place(s)"
    ))
    .into())
}
