//! `seawall log compact`: copies the small objects of an archive into larger ones, which a restore reads in their place.
//!
//! Invariant: no object is removed or changed; the next compaction continues an interrupted one.

use std::io::{self, Write as _};

use bytesize::ByteSize;
use clap::Args;

use super::Stop;
use super::ship::{Place, source};

#[derive(Debug, Args)]
pub(super) struct Compact {
    /// The archive, as in `seawall log ship`
    #[arg(long, value_name = "ADDRESS")]
    at: String,
    #[command(flatten)]
    place: Place,
    /// Print what would be created; change nothing (reads as much)
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(options: &Compact) -> Result<(), Stop> {
    let compacted = source(&options.at, &options.place)?.compact(options.dry_run)?;
    let what = if options.dry_run { "would create" } else { "created" };
    let (packs, messages, bytes) = (compacted.packs, compacted.messages, ByteSize(compacted.bytes));
    writeln!(
        io::stdout().lock(),
        "{what} {packs} packs of {messages} messages, {bytes}; {} are large enough already",
        compacted.left
    )?;
    Ok(())
}
