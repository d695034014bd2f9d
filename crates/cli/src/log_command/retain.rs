//! `seawall log retain`: removes the oldest part of an archive, which no rebuild within the retention needs.
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
    /// Keep what a rebuild to any time in the last N days needs, counted back from the newest message or from now, whichever is earlier
    #[arg(long, value_name = "N", required_unless_present = "keep_segments")]
    keep_days: Option<u32>,
    /// Keep at least so many closed segments
    #[arg(long, value_name = "N")]
    keep_segments: Option<usize>,
    /// Say what would go, and change nothing
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
    writeln!(output, "{what} {objects} objects, {left_over} of them left over from an interrupted one")?;
    if removed.all_read {
        writeln!(output, "all messages were read: no sound manifests say where segments begin")?;
    }
    writeln!(output, "the archive begins with LSN {first}")?;
    // A standby that was given up stays on the list: it must not keep a retention from its work.
    for standby in archive.followers()?.iter().filter(|standby| standby.position < removed.position) {
        writeln!(
            output,
            "the standby {} had read {} of {} messages that go: it has to begin again, if it is still there",
            hex(&standby.owner),
            standby.position,
            removed.position
        )?;
    }
    Ok(())
}
