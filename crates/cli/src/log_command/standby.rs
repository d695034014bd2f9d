//! `seawall log standby` and `takeover`: a copy of a log that grows on another machine, and becomes the log.
//!
//! Invariants: a signal ends a standby in order, with its place saved; a destination that is away is said once and asked again for
//! ever; what damages the copy ends the command.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use seawall_ship::standby::{self, take_over};
use seawall_sys::clock::monotonic_ns;
use seawall_sys::text::printable;

use super::Stop;
use super::ship::{LISTEN_EVERY, Place, print, progress, source};
use crate::signals::{self, STOP};

#[derive(Debug, Args)]
pub(super) struct Standby {
    /// The folder of the copy: a new one, or that of an earlier standby, which goes on
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where from, as in `seawall log ship`
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    #[command(flatten)]
    place: Place,
    /// Read what is there now, and end
    #[arg(long)]
    once: bool,
}

#[derive(Debug, Args)]
pub(super) struct Takeover {
    /// The folder of a standby
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The one that the standby followed, as in `seawall log ship`; behind it others that the log is shipped to
    #[arg(long, value_name = "ADDRESS", required = true)]
    from: Vec<String>,
    #[command(flatten)]
    place: Place,
}

pub(super) fn follow(options: &Standby) -> Result<(), Stop> {
    signals::take_over(|| {}).map_err(|failure| Stop::Failed(failure.to_string()))?;
    let mut from = source(&options.from, &options.place)?;
    let mut standby = standby::Standby::open(&options.dir, from.as_mut())?;
    anstream::eprintln!("following from LSN {}", standby.lsn());
    let mut progress = progress();
    let mut away = false;
    while !STOP.load(Ordering::SeqCst) {
        match standby.read(from.as_mut(), &mut progress) {
            Ok(came) => {
                if std::mem::take(&mut away) {
                    anstream::eprintln!("reachable again");
                }
                if options.once && !came {
                    break;
                }
            }
            Err(error) if error.is_passing() && !options.once => {
                if !std::mem::replace(&mut away, true) {
                    anstream::eprintln!("away: {}", printable(&error.to_string()));
                }
            }
            Err(error) => {
                standby.save(true)?;
                return Err(error.into());
            }
        }
        standby.save(false)?;
        pause(standby.idle());
    }
    standby.save(true)?;
    writeln!(io::stdout().lock(), "followed to LSN {}, term {}", standby.lsn(), standby.term())?;
    Ok(())
}

/// Waits for `time`, or until a signal.
fn pause(time: Duration) {
    let begun_ns = monotonic_ns();
    while !STOP.load(Ordering::SeqCst) {
        let left = time.saturating_sub(Duration::from_nanos(monotonic_ns() - begun_ns));
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(LISTEN_EVERY));
    }
}

pub(super) fn take(options: &Takeover) -> Result<(), Stop> {
    let opened = options.from.iter().map(|address| source(address, &options.place));
    let mut opened = opened.collect::<Result<Vec<_>, Stop>>()?;
    let [from, others @ ..] = &mut opened[..] else { return Ok(()) };
    print(&take_over(&options.dir, from.as_mut(), others, &mut progress())?)
}
