//! `seawall log ship`, `rebuild` and `drill`: a log beyond this machine, and back.
//!
//! Invariants: what a destination outlives is printed before anything is sent, and requests a day before they are made; a signal
//! ends shipping in order, with its place noted; progress goes to standard error, results to standard output.

use std::io::{self, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use seawall::{Lsn, RebuildTo};
use seawall_ship::address::{Opening, open};
use seawall_ship::destination::Destination;
use seawall_ship::manifest::Indexed;
use seawall_ship::restore::{self, Read, Rebuilt, copy, drill, rebuild};
use seawall_ship::shipping::{Settings, Shipping};
use seawall_ship::sources::{self, Joined, Sources};
use seawall_ship::untrimmed::Untrimmed;
use seawall_ship::{Error, Facts, Failure};
use seawall_sys::clock::monotonic_ns;
use seawall_sys::text::printable;

use super::Stop;
use crate::amounts;
use crate::signals::{STOP, take_over};

/// How often it looks whether it is to end.
pub(super) const LISTEN_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(super) struct Ship {
    /// The log's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where to: <nats://HOST:PORT/STREAM>, <kafka://HOST:PORT/TOPIC>, <s3://BUCKET/PREFIX>, <az://CONTAINER/PREFIX>, <gs://BUCKET/PREFIX>, or folder:PATH
    #[arg(long, value_name = "ADDRESS")]
    to: String,
    #[command(flatten)]
    place: Place,
    /// Copies of each message in a stream or topic that is created
    #[arg(long, value_name = "N", default_value_t = 3)]
    replicas: usize,
    /// Size of the objects of an archive: batches are gathered up to it
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, default_value = "8m")]
    object_bytes: ByteSize,
    /// How long the oldest batch waits for others in an archive
    #[arg(long, value_name = "TIME", value_parser = amounts::time, default_value = "10s")]
    gather: Duration,
    /// Memory for what is on its way
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, default_value = "32m")]
    memory: ByteSize,
    /// Ship what is durable now, and end; 3 minutes without an acknowledgement are an error
    #[arg(long)]
    once: bool,
}

#[derive(Debug, Args)]
pub(super) struct Place {
    /// Monitoring ports of NATS servers, HOST:PORT each: only they say when the servers sync
    #[arg(long, value_name = "HOST:PORT")]
    nats_monitor: Vec<String>,
    /// Let a password or token go unencrypted to another host
    #[arg(long)]
    nats_plain_password: bool,
    /// File of librdkafka's properties: TLS and credentials of Kafka
    #[arg(long, value_name = "FILE")]
    kafka_config: Option<PathBuf>,
    /// It lies at another site: what it acknowledges outlives the loss of this one
    #[arg(long)]
    elsewhere: bool,
}

#[derive(Debug, Args)]
pub(super) struct Rebuild {
    /// The folder of the log that is made; it must not be there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where from, as in `seawall log ship`; more than once for several that hold the same log
    #[arg(long, value_name = "ADDRESS", required = true)]
    from: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// Leave the old writer be: the log that is made cannot be shipped to the same place
    #[arg(long)]
    copy: bool,
    /// Leave out the history that the log itself had trimmed: an archive's manifests say where to begin; of one source
    #[arg(long)]
    skip_trimmed: bool,
    /// No batch that ends behind this LSN; makes a copy
    #[arg(long, value_name = "LSN")]
    lsn: Option<Lsn>,
    /// No batch from the last so long; makes a copy
    #[arg(long, value_name = "TIME", value_parser = amounts::time)]
    ago: Option<Duration>,
}

#[derive(Debug, Args)]
pub(super) struct Drill {
    /// Where from, as in `seawall log ship`; more than once for several that hold the same log
    #[arg(long, value_name = "ADDRESS", required = true)]
    from: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// The folder of the log that is shipped there: what it knows to be acknowledged must be there
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(printable(&error.to_string()).into_owned())
    }
}

fn opening(place: &Place) -> Opening {
    Opening {
        monitors: place.nats_monitor.clone(),
        kafka_config: place.kafka_config.clone(),
        elsewhere: place.elsewhere,
        plain_password: place.nats_plain_password,
        ..Opening::default()
    }
}

/// What an acknowledgement of the destination outlives, and why not more.
fn print_promise(facts: &Facts) {
    anstream::eprintln!("{}: {}", facts.name, facts.setting);
    for failure in Failure::ALL {
        match facts.outlives(failure) {
            Ok(()) => anstream::eprintln!("  outlives {}", failure.name()),
            Err(why) => anstream::eprintln!("  NOT {}: {}", failure.name(), printable(&why)),
        }
    }
}

pub(super) fn ship(options: &Ship) -> Result<(), Stop> {
    take_over(|| {}).map_err(|failure| Stop::Failed(failure.to_string()))?;
    let opening = Opening {
        create: true,
        replicas: options.replicas,
        object_bytes: usize::try_from(options.object_bytes.as_u64()).unwrap_or(usize::MAX),
        gather_time: options.gather,
        ..opening(&options.place)
    };
    // Before anything is made at the destination.
    seawall::View::open(&options.dir)?;
    let opened = open(&options.to, &opening)?;
    print_promise(opened.destination.facts());
    if let Some(requests) = opened.requests_per_day {
        let bytes = options.object_bytes;
        anstream::eprintln!(
            "at most {requests} requests a day, lists included, two more for each {bytes} of the log, and one for each segment"
        );
    }
    let memory_bytes = usize::try_from(options.memory.as_u64()).unwrap_or(usize::MAX);
    let settings = Settings { memory_bytes, gather_time: options.gather };
    let shipping = Shipping::start(&options.dir, opened.destination, settings)?;
    anstream::eprintln!("shipping from LSN {}", shipping.acknowledged());
    if options.once {
        let end = shipping.finish(Some(Duration::from_mins(3)))?;
        return writeln!(io::stdout().lock(), "acknowledged {end}").map_err(Stop::from);
    }
    let mut failing = None;
    while !STOP.load(Ordering::SeqCst) {
        if let Some(error) = shipping.failed() {
            return Err(error.into());
        }
        let now = shipping.failing();
        if now != failing {
            match &now {
                Some(why) => anstream::eprintln!("away: {}", printable(why)),
                None => anstream::eprintln!("reachable again"),
            }
            failing = now;
        }
        std::thread::sleep(LISTEN_EVERY);
    }
    let stats = shipping.stats()?;
    let (acknowledged, risk) = (stats.acknowledged, stats.at_risk);
    drop(shipping);
    writeln!(io::stdout().lock(), "acknowledged {acknowledged}, {} records at risk", risk.records)?;
    Ok(())
}

/// Says now and then how far a read has come.
pub(super) fn progress() -> impl FnMut(Lsn, u64) {
    progress_to(None)
}

/// The same, and how long the rest takes, if it is known where the log begins and ends.
fn progress_to(extent: Option<Range<Lsn>>) -> impl FnMut(Lsn, u64) {
    if let Some(Range { start, end }) = extent {
        anstream::eprintln!("LSN {start} to {end} are there, {} to read", ByteSize(end.since(start)));
    }
    let (begun, mut said) = (monotonic_ns(), monotonic_ns());
    move |lsn, bytes| {
        let now = monotonic_ns();
        if now - said > 2_000_000_000 {
            said = now;
            let rate = bytes as f64 / ((now - begun) as f64 / 1e9);
            let left = extent.as_ref().filter(|extent| lsn < extent.end && rate > 0.0);
            let left = left.map_or_else(String::new, |extent| {
                format!(", about {:.0} s left", extent.end.since(lsn) as f64 / rate)
            });
            anstream::eprintln!("LSN {lsn}, {} read, {:.0} MB/s{left}", ByteSize(bytes), rate / 1e6);
        }
    }
}

/// From where to where the longest of them holds the log, no further than to `until`. What is wrong with one is said by whoever reads it.
fn extent(from: &mut [Box<dyn Destination>], until: Lsn) -> Option<Range<Lsn>> {
    let mut longest: Option<Range<Lsn>> = None;
    for from in from {
        let Ok(Some(here)) = restore::extent(from.as_mut()) else { continue };
        let known = longest.get_or_insert_with(|| here.clone());
        *known = known.start.min(here.start)..known.end.max(here.end);
    }
    longest.map(|known| known.start..known.end.min(until).max(known.start))
}

pub(super) fn read(output: &mut impl io::Write, read: &Read) -> io::Result<()> {
    let seconds = read.time.as_secs_f64();
    let (messages, ignored, bytes) = (read.messages, read.ignored, ByteSize(read.bytes));
    writeln!(
        output,
        "read         {messages} messages of {bytes} in {seconds:.1} s, {ignored} left over from races"
    )
}

pub(super) fn source(address: &str, place: &Place) -> Result<Box<dyn Destination>, Stop> {
    Ok(open(address, &opening(place))?.destination)
}

/// All of them.
fn opened(addresses: &[String], place: &Place) -> Result<Vec<Box<dyn Destination>>, Stop> {
    addresses.iter().map(|address| source(address, place)).collect()
}

/// The outcome, printed by `print`; then an error if something was wrong with a source, although the others made up for it.
pub(super) fn joined<T>(joined: &Joined<T>, print: impl FnOnce(&T) -> Result<(), Stop>) -> Result<(), Stop> {
    print(&joined.outcome)?;
    let said = joined.wrong.iter().map(|wrong| {
        let taken = if wrong.is_taken { "its writer is refused there" } else { "no writer is refused there" };
        format!("{}: {} ({taken})", wrong.address, wrong.error)
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() {
        return Ok(());
    }
    let said = printable(&said.join("; ")).into_owned();
    Err(Stop::Failed(format!("{said}; the other sources made up for it")))
}

pub(super) fn build(options: &Rebuild) -> Result<(), Stop> {
    let is_copy = options.copy || options.lsn.is_some() || options.ago.is_some();
    let before = options.ago.map(|ago| u64::try_from(ago.as_micros()).unwrap_or(u64::MAX));
    let time_us = before.map_or(u64::MAX, |us| seawall_sys::clock::unix_us().saturating_sub(us));
    let until = RebuildTo { lsn: options.lsn.unwrap_or(Lsn::MAX), time_us };
    let mut from = opened(&options.from, &options.place)?;
    if options.skip_trimmed {
        let (Some(one), true) = (from.pop(), from.is_empty()) else {
            return Err(Stop::Failed("--skip-trimmed takes one --from: name the archive alone".to_owned()));
        };
        let untrimmed = Untrimmed::new(one, &until)?;
        if !untrimmed.is_known() {
            anstream::eprintln!("no sound manifests say where to begin: everything is read");
        }
        from.push(Box::new(untrimmed));
    }
    let mut progress = progress_to(extent(&mut from, until.lsn));
    if let [from] = &mut from[..] {
        let rebuilt = if is_copy {
            copy(from.as_mut(), &options.dir, until, &mut progress)
        } else {
            rebuild(from.as_mut(), &options.dir, &mut progress)
        };
        return print(&rebuilt?);
    }
    let from = Sources::new(from)?;
    let rebuilt = if is_copy {
        sources::copy(from, &options.dir, until, &mut progress)
    } else {
        sources::rebuild(from, &options.dir, &mut progress)
    };
    joined(&rebuilt?, print)
}

/// What was rebuilt, and from whom it was taken.
pub(super) fn print(rebuilt: &Rebuilt) -> Result<(), Stop> {
    let report = &rebuilt.report;
    let mut output = io::stdout().lock();
    writeln!(output, "rebuilt      {} records, LSN {} to {}", report.records, report.first, report.end)?;
    writeln!(output, "identity     {}", report.log_id)?;
    read(&mut output, &rebuilt.read)?;
    match rebuilt.term {
        Some(term) => writeln!(output, "writer       taken over with term {term}: the old one is refused")?,
        None => writeln!(output, "writer       left as it is: this is a copy")?,
    }
    Ok(())
}

pub(super) fn check(options: &Drill) -> Result<(), Stop> {
    let dir = options.log.as_deref();
    let mut from = opened(&options.from, &options.place)?;
    let mut progress = progress_to(extent(&mut from, Lsn::MAX));
    if let [from] = &mut from[..] {
        return print_drill(&drill(from.as_mut(), dir, &mut progress)?);
    }
    joined(&sources::drill(Sources::new(from)?, dir, &mut progress)?, print_drill)
}

fn print_drill(drilled: &seawall_ship::restore::Drill) -> Result<(), Stop> {
    let mut output = io::stdout().lock();
    writeln!(output, "sound        {} records, LSN {} to {}", drilled.records, drilled.first, drilled.end)?;
    writeln!(output, "identity     {}, term {}", drilled.log_id, drilled.term)?;
    let Indexed { sound, lacking } = drilled.manifests;
    if sound + lacking > 0 {
        writeln!(output, "manifests    {sound} sound, {lacking} segments have none")?;
    }
    Ok(read(&mut output, &drilled.read)?)
}
