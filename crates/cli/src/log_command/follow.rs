//! `seawall log follow`: prints records as they become durable, skips what was trimmed, and ends in order.
//!
//! Invariants: records come in order and none twice; a gap is printed once on standard error, with its LSNs; a signal, or
//! the end of the program that reads the output, ends the command between two records, with everything printed.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seawall::{Error, Lsn, Record, View, ViewFollower};

use super::Stop;
use super::records::Output;
use crate::signals::{self, STOP};

/// How often it looks whether it is to end, which reads nothing from the disk.
const LISTEN_EVERY: Duration = Duration::from_millis(100);

/// Follows the log in `dir` from `from`, by default the first record that is left, until `left` records are printed.
pub(super) fn follow<W: Write>(
    dir: &Path,
    from: Option<Lsn>,
    mut left: u64,
    mut output: Output<W>,
) -> Result<(), Stop> {
    // At a signal there is nothing to be done but to end in order.
    signals::handle(|| {})?;
    let (mut follower, mut polls) = (begin(dir, from)?, None);
    while left > 0 && !STOP.load(Ordering::SeqCst) {
        let mut found = next(&mut follower, Duration::ZERO)?;
        if found.is_none() {
            output.flush()?;
            say_if_it_polls(&follower, &mut polls);
            if seawall_host::output::is_standard_output_closed() {
                return Err(Stop::Gone);
            }
            found = next(&mut follower, LISTEN_EVERY)?;
        }
        if let Some(record) = found {
            output.record(&record)?;
            left -= 1;
        }
    }
    output.flush().map_err(Stop::from)
}

fn begin(dir: &Path, from: Option<Lsn>) -> Result<ViewFollower, Stop> {
    let view = View::open(dir)?;
    let first = view.first_lsn();
    let Some(from) = from.filter(|from| *from < first) else {
        return Ok(view.follow(from.unwrap_or(first))?);
    };
    print_gap(from, first);
    Ok(view.follow(first)?)
}

fn next(follower: &mut ViewFollower, limit: Duration) -> Result<Option<Record>, Stop> {
    loop {
        match follower.next_record_timeout(limit) {
            Err(Error::Trimmed { first, .. }) => {
                print_gap(follower.lsn(), first);
                follower.skip_trimmed()?;
            }
            Err(Error::TimedOut { .. }) => return Ok(None),
            next => return Ok(next?),
        }
    }
}

fn print_gap(from: Lsn, first: Lsn) {
    tell!("trimmed: LSN {from} to {first} was removed before it was read; continuing at {first}");
}

/// Says once for each reason why the writer does not wake this command.
fn say_if_it_polls(follower: &ViewFollower, said: &mut Option<String>) {
    if let Some(reason) = follower.polls().filter(|reason| said.as_deref() != Some(reason)) {
        tell!("polling the disk every 50 ms: {reason}");
        *said = Some(reason.to_owned());
    }
}
