//! `seawall log standby` and `takeover`: follows a shipped log with a copy on another machine, and promotes the copy.
//!
//! Invariants: a signal ends a standby in order, with its place saved; a destination that is away is reported once and retried for
//! ever; damage to the copy ends the command.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use seawall_host::text::printable;
use seawall_ship::destination::Destination;
use seawall_ship::standby::{self, take_over};
use seawall_ship::status::{self, Folder};
use seawall_ship::{Error, address};
use seawall_sys::clock::monotonic_ns;

use super::Stop;
use super::fence::{Act, Fence, refuse_missing_parent};
use super::service::{self, Entry, Pair, Serving, pause};
use super::ship::{Place, opened, print_rebuilt, progress};
use crate::signals::{self, STOP};

#[derive(Debug, Args)]
pub(super) struct Standby {
    /// Folder of the copy: new, or that of an earlier standby to continue
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Source address, as in `seawall log ship`
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    serving: Serving,
    /// Copy what is there now and exit
    #[arg(long)]
    once: bool,
}

#[derive(Debug, Args)]
pub(super) struct Takeover {
    /// The folder of a standby
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Address that the standby followed; then the others that the log is shipped to
    #[arg(long, value_name = "ADDRESS", required = true)]
    from: Vec<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    fence: Fence,
}

struct Gauges {
    lsn: metrics::Gauge,
    behind: metrics::Gauge,
    caught_up_ns: u64,
}

impl Gauges {
    fn new(pair: &Pair) -> Self {
        let labels = [("log", pair.log.clone()), ("from", pair.address.clone())];
        let gauge = |name, says| {
            metrics::describe_gauge!(name, says);
            metrics::gauge!(name, &labels)
        };
        let lsn = gauge("seawall_standby_lsn", "LSN up to which the copy is complete");
        let behind = gauge("seawall_standby_behind_seconds", "seconds since the copy was last complete");
        Self { lsn, behind, caught_up_ns: monotonic_ns() }
    }

    /// How long ago it had everything that was there; `caught_up` if it has now.
    fn looked(&mut self, standby: &standby::Standby, caught_up: bool) -> Duration {
        if caught_up {
            self.caught_up_ns = monotonic_ns();
        }
        let behind = Duration::from_nanos(monotonic_ns() - self.caught_up_ns);
        self.lsn.set(standby.lsn().get() as f64);
        self.behind.set(behind.as_secs_f64());
        behind
    }
}

/// How often a standby records its progress at its destination.
const RECORD_EVERY: Duration = Duration::from_mins(1);

/// When it was recorded last.
struct Recorded {
    /// `None` once the destination takes no records.
    every: Option<Duration>,
    at_ns: u64,
    /// Whether a failure was printed.
    said: bool,
}

impl Recorded {
    /// Records the progress, if it is time. A failure is printed once, and following continues.
    fn record(&mut self, from: &mut dyn Destination, standby: &standby::Standby) {
        let passed = Duration::from_nanos(monotonic_ns() - self.at_ns);
        if self.every.is_none_or(|every| self.at_ns > 0 && passed < every) {
            return;
        }
        self.at_ns = monotonic_ns();
        match from.record_progress(&standby.follower()) {
            Ok(true) => {}
            Ok(false) => self.every = None,
            Err(error) => {
                let why = error.to_string();
                if !std::mem::replace(&mut self.said, true) {
                    tell!(
                        "cannot record the progress of this standby at its destination: {}",
                        printable(&why)
                    );
                }
                self.every = self.every.filter(|_| error.is_passing());
            }
        }
    }
}

pub(super) fn follow(options: &Standby) -> Result<(), Stop> {
    refuse_missing_parent(&options.dir)?;
    signals::handle(|| {})?;
    let log = options.dir.display().to_string();
    let pair = Pair { log, address: address::shown(&options.from), notes: None };
    service::run(std::slice::from_ref(&pair), ("seawall_standby_up", "from"), &options.serving, |_, entry| {
        options.run(entry, &mut Gauges::new(&pair))
    })
}

impl Standby {
    fn run(&self, entry: &Entry, gauges: &mut Gauges) -> Result<(), Stop> {
        let open = || -> Result<(Box<dyn Destination>, standby::Standby), Error> {
            let mut from = self.place.followed(&self.from)?;
            let standby = standby::Standby::open(&self.dir, from.as_mut())?;
            Ok((from, standby))
        };
        let Some((mut from, mut standby)) = entry.begin(self.serving.wait, open)? else { return Ok(()) };
        tell!("following from LSN {}", standby.lsn());
        let mut progress = progress(None);
        let mut recorded = Recorded { every: (!self.once).then_some(RECORD_EVERY), at_ns: 0, said: false };
        while !STOP.load(Ordering::SeqCst) {
            let goes_on = || !STOP.load(Ordering::SeqCst);
            let read = standby.read_while(from.as_mut(), &goes_on, &mut progress);
            let behind = gauges.looked(&standby, read.is_ok());
            match read {
                Ok(came) => {
                    entry.works(None);
                    if self.once && !came {
                        break;
                    }
                }
                Err(error) if error.is_passing() && !self.once => entry.works(Some(&error.to_string())),
                Err(error) => {
                    // After a write that failed the last save stands.
                    let _ = standby.save(true);
                    return Err(error.into());
                }
            }
            standby.save(false)?;
            recorded.record(from.as_mut(), &standby);
            entry.say(|| {
                let (lsn, epoch, seconds) = (standby.lsn(), standby.epoch(), behind.as_secs());
                format!("followed to LSN {lsn}, epoch {epoch}, lag {seconds} s")
            });
            pause(standby.idle());
        }
        standby.save(true)?;
        writeln!(io::stdout().lock(), "followed to LSN {}, epoch {}", standby.lsn(), standby.epoch())?;
        Ok(())
    }
}

pub(super) fn take(options: &Takeover) -> Result<(), Stop> {
    const ACT: Act = Act { command: "takeover", instead: "; --dry-run names the writer" };
    let mut opened = opened(&options.from, &options.place)?;
    match status::of_folder(&options.dir) {
        Ok(Folder::Standby { note, .. }) => {
            let lsn = note.as_ref().map(|note| note.chain.lsn).unwrap_or_default();
            tell!("the standby in {} is saved up to LSN {lsn}", options.dir.display());
            // Fails before the question if a retention has overtaken it: it cannot take over.
            if let (Some(note), [from, ..]) = (note, &mut opened[..]) {
                from.read(note.chain.position + 1)?;
            }
        }
        // A take-over that was killed after its last step is complete.
        Ok(Folder::Log { view, shipped, .. }) => {
            let held = opened.first_mut().map(|from| status::of_destination(from.as_mut())).transpose()?;
            let owner = held.flatten().map(|held| held.owner);
            if shipped.iter().any(|shipped| Some(shipped.note.owner) == owner) {
                let (dir, end) = (view.dir().display(), view.end_lsn());
                writeln!(io::stdout().lock(), "{dir} is the log already, up to LSN {end}: nothing to do")?;
                return Ok(());
            }
        }
        // The take-over fails with what the folder is instead.
        _ => {}
    }
    if !options.fence.confirm(Some(&ACT), &mut opened)? {
        return Ok(());
    }
    let [from, others @ ..] = &mut opened[..] else { return Ok(()) };
    print_rebuilt(&take_over(&options.dir, from.as_mut(), others, &mut progress(None))?)
}
