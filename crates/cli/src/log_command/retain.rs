//! `seawall log retain`: removes the oldest segments of an archive, which no restore within the retention needs.
//!
//! Invariant: what would go is what goes: both are found in the same way, and `--dry-run` ends before the first change.

use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;
use seawall_ship::destination::Keep;
use seawall_ship::note::hex;

use super::Stop;
use super::ship::{Place, source};

#[derive(Debug, Args)]
pub(super) struct Retain {
    /// The archive, as in `seawall log ship`
    #[arg(long, value_name = "ADDRESS")]
    at: String,
    #[command(flatten)]
    place: Place,
    /// Keep what restores to any point of the last N days need, counted back from the newest message or from now, whichever is earlier
    #[arg(long, value_name = "N", required_unless_present = "keep_segments")]
    keep_days: Option<u32>,
    /// Keep at least N closed segments
    #[arg(long, value_name = "N")]
    keep_segments: Option<usize>,
    /// Print what would be removed; change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(options: &Retain) -> Result<(), Stop> {
    let age = options.keep_days.map(|days| Duration::from_hours(24).saturating_mul(days));
    let keep = Keep { age, segments: options.keep_segments.unwrap_or(0), ..Keep::default() };
    let mut archive = source(&options.at, &options.place)?;
    let removed = archive.retain(&keep, options.dry_run)?;
    let mut output = io::stdout().lock();
    let what = if options.dry_run { "would remove" } else { "removed" };
    let (objects, left_over, first) = (removed.objects, removed.left_over, removed.first);
    writeln!(
        output,
        "{what} {objects} objects, {left_over} of them left over from an interrupted retention"
    )?;
    if removed.all_read {
        writeln!(output, "all messages were read: no valid manifest says where segments begin")?;
    }
    writeln!(output, "the archive begins at LSN {first}")?;
    // A standby that was given up stays on the list: it must not keep a retention from its work.
    for standby in archive.followers()?.iter().filter(|standby| standby.position < removed.position) {
        writeln!(
            output,
            "the standby {} had read {} of the {} messages to go: if it still runs, it must start over",
            hex(&standby.owner),
            standby.position,
            removed.position
        )?;
    }
    Ok(())
}
