//! `seawall log ship`, `rebuild` and `drill`: ships a log to another place, restores it, and dry-runs a restore.
//!
//! Invariants: what a destination outlives is printed before anything is sent, and requests a day before they are made; a signal
//! ends shipping in order, with its place noted; progress goes to standard error, results to standard output.

use std::io::{self, Write as _};
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytesize::ByteSize;
use clap::{Args, Parser};
use seawall::{Lsn, RebuildTo, View};
use seawall_host::text::printable;
use seawall_ship::address::{Opened, Opening, open, shown};
use seawall_ship::destination::Destination;
use seawall_ship::manifest::Indexed;
use seawall_ship::note::Note;
use seawall_ship::restore::{Joined, Read, Rebuilt, Sources, copy, drill, rebuild};
use seawall_ship::shipping::{Settings, Shipping};
use seawall_ship::{Error, Facts, status};
use seawall_sys::clock::monotonic_ns;

use super::Stop;
use super::fence::{Act, Fence, refuse_missing_parent};
use super::records;
use super::service::{self, Entry, LISTEN_EVERY, Pair, Serving};
use crate::amounts;
use crate::exit::Failure;
use crate::signals::{self, STOP};

/// How long a service retries a request of a store before it reports the failure.
pub(super) const TRIED_FOR: Duration = Duration::from_secs(10);
/// How long the end waits for what was gathered.
const LAST_WORDS: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
pub(super) struct Ship {
    #[command(flatten)]
    one: Shipment,
    /// Ship several logs: one line each, with the arguments of `seawall log ship` but the options of the service
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dir", "to", "once"], help_heading = "As a service")]
    file: Option<PathBuf>,
    #[command(flatten)]
    serving: Serving,
    /// Ship what is durable now and exit; 3 minutes without an acknowledgement are an error
    #[arg(long)]
    once: bool,
    /// Print what would be shipped and what an acknowledgement would outlive; change nothing
    #[arg(long, help_heading = "Safety")]
    dry_run: bool,
}

#[derive(Debug, Clone, Args)]
struct Shipment {
    /// The log's folder
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Destination: <nats://HOST:PORT/STREAM>, <kafka://HOST:PORT/TOPIC>, <s3://BUCKET/PREFIX>, <az://CONTAINER/PREFIX>, <gs://BUCKET/PREFIX>, or folder:PATH
    #[arg(long, value_name = "ADDRESS")]
    to: Option<String>,
    #[command(flatten)]
    place: Place,
    /// Replicas of each message in a stream or topic that is created
    #[arg(long, value_name = "N", default_value_t = 3)]
    replicas: usize,
    /// Size of an archive's objects: batches are gathered up to it
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, default_value = "8m")]
    object_bytes: ByteSize,
    /// Longest time that an archive's batch waits for others to share its object
    #[arg(long, value_name = "TIME", value_parser = amounts::time, default_value = "10s")]
    gather: Duration,
    /// Compress messages (zstd); writers and readers need a build with the feature `zstd`
    #[arg(long)]
    compress: bool,
}

#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    one: Shipment,
}

#[derive(Debug, Clone, Args)]
pub(super) struct Place {
    /// Monitoring ports of NATS servers, HOST:PORT each; the only source of their sync policy
    #[arg(long, value_name = "HOST:PORT")]
    nats_monitor: Vec<String>,
    /// Allow a password or token to be sent unencrypted to another host
    #[arg(long)]
    nats_plain_password: bool,
    /// File of librdkafka properties: TLS and credentials for Kafka
    #[arg(long, value_name = "FILE")]
    kafka_config: Option<PathBuf>,
    /// The destination is off-site: what it acknowledges outlives the loss of this site
    #[arg(long)]
    elsewhere: bool,
    /// Memory for messages in flight and objects read ahead
    #[arg(long, value_name = "SIZE", value_parser = amounts::size, default_value = "64m")]
    memory: ByteSize,
    /// Limit of the bytes a second that are sent, or read from an archive
    #[arg(long, value_name = "SIZE", value_parser = amounts::size)]
    bandwidth: Option<ByteSize>,
}

impl Place {
    fn memory_bytes(&self) -> usize {
        usize::try_from(self.memory.as_u64()).unwrap_or(usize::MAX)
    }

    fn bytes_per_second(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.bandwidth?.as_u64().max(1))
    }
}

/// Where a log is held.
#[derive(Debug, Args)]
struct Held {
    /// Where from, as in `seawall log ship`; more than once for several that hold the same log
    #[arg(long, value_name = "ADDRESS", required = true)]
    from: Vec<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(super) struct Rebuild {
    /// Folder of the restored log: new or empty, such as the mount point of a new disk
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    held: Held,
    #[command(flatten)]
    fence: Fence,
    /// Restore a copy and do not fence the old writer; the copy cannot be shipped to the same destination
    #[arg(long)]
    copy: bool,
    /// Skip the history that the log had trimmed, by the manifests of one archive
    #[arg(long)]
    skip_trimmed: bool,
    /// Restore whole batches up to this LSN (a copy)
    #[arg(long, value_name = "LSN")]
    lsn: Option<Lsn>,
    /// Restore the state as of TIME ago (a copy)
    #[arg(long, value_name = "TIME", value_parser = amounts::time)]
    ago: Option<Duration>,
}

#[derive(Debug, Args)]
pub(super) struct Drill {
    #[command(flatten)]
    held: Held,
    /// Folder of the shipped log; checks that everything it knows to be acknowledged is there
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
}

fn opening(place: &Place) -> Opening {
    Opening {
        monitors: place.nats_monitor.clone(),
        kafka_config: place.kafka_config.clone(),
        elsewhere: place.elsewhere,
        plain_password: place.nats_plain_password,
        memory_bytes: place.memory_bytes(),
        bytes_per_second: place.bytes_per_second(),
        ..Opening::default()
    }
}

/// What an acknowledgement of the destination outlives, and why not more.
fn print_promise(facts: &Facts) {
    tell!("{}: {}", facts.name, facts.setting);
    for failure in seawall_ship::Failure::ALL {
        match facts.outlives(failure) {
            Ok(()) if facts.reports.is_empty() => tell!("  outlives {}", failure.name()),
            Ok(()) => tell!("  outlives {}, but see the reports below", failure.name()),
            Err(why) => tell!("  NOT {}: {}", failure.name(), printable(&why)),
        }
    }
    for report in &facts.reports {
        tell!("  reported: {}", printable(report));
    }
}

impl Shipment {
    fn named(&self) -> Result<(&Path, &str), Failure> {
        let (Some(dir), Some(to)) = (&self.dir, &self.to) else {
            let what = "name a log's folder and --to ADDRESS, or --file with such a line for each log";
            return Err(Failure::usage(what));
        };
        Ok((dir, to))
    }

    fn opening(&self, create: bool) -> Opening {
        Opening {
            create,
            replicas: self.replicas,
            object_bytes: usize::try_from(self.object_bytes.as_u64()).unwrap_or(usize::MAX),
            gather_time: self.gather,
            log: self.dir.clone(),
            tried_for: TRIED_FOR,
            ..opening(&self.place)
        }
    }

    fn say(&self, opened: &Opened) {
        print_promise(opened.destination.facts());
        if let Some(requests) = opened.requests_per_day {
            let bytes = ByteSize(self.object_bytes.as_u64().min(self.place.memory.as_u64() / 8));
            if bytes < self.object_bytes {
                tell!("objects of at most {bytes}: an eighth of --memory {}", self.place.memory);
            }
            tell!(
                "at most {requests} requests a day, lists included, plus two for each {bytes} of the log and one for each segment"
            );
        }
    }

    /// Begins to ship; `say` once, before anything is sent.
    fn start(&self, serving: &Serving, said: &mut bool) -> Result<Shipping, Error> {
        let (Some(dir), Some(to)) = (&self.dir, &self.to) else { return Err(Error::Closed) };
        // Before anything is made at the destination.
        View::open(dir)?;
        let opened = open(to, &self.opening(true))?;
        if !std::mem::replace(said, true) {
            self.say(&opened);
        }
        let memory_bytes = self.place.memory_bytes();
        let measures = serving.listen.is_some();
        let (gather_time, compresses) = (self.gather, self.compress);
        let bytes_per_second = self.place.bytes_per_second();
        let settings = Settings {
            memory_bytes,
            gather_time,
            measures,
            compresses,
            bytes_per_second,
            ..Settings::default()
        };
        Shipping::start(dir, opened.destination, settings)
    }

    /// Ships until a signal, or with `once` what is durable now.
    fn run(&self, entry: &Entry, serving: &Serving, once: bool) -> Result<(), Stop> {
        let mut said = false;
        let Some(shipping) = entry.begin(serving.wait, || self.start(serving, &mut said))? else {
            return Ok(());
        };
        tell!("{}shipping from LSN {}", entry.prefix(), shipping.acknowledged());
        if once {
            let end = shipping.finish_while_it_moves(Duration::from_mins(3))?;
            return writeln!(io::stdout().lock(), "acknowledged {end}").map_err(Stop::from);
        }
        while !STOP.load(Ordering::SeqCst) {
            if let Some(error) = shipping.failed() {
                print_only_here(&shipping, &error);
                return Err(error.into());
            }
            entry.works(shipping.failing().as_deref());
            entry.say(|| match shipping.stats() {
                Ok(stats) => {
                    let (risk, bytes) = (stats.at_risk, ByteSize(stats.at_risk.bytes));
                    let (records, seconds, messages) = (risk.records, risk.time.as_secs(), stats.messages);
                    let acknowledged = stats.acknowledged;
                    format!(
                        "acknowledged LSN {acknowledged}, lag {records} records, {bytes}, {seconds} s; {messages} messages sent"
                    )
                }
                Err(error) => printable(&error.to_string()).into_owned(),
            });
            std::thread::sleep(LISTEN_EVERY);
        }
        let prefix = entry.prefix();
        // Ships what has gathered, within the time that service managers leave.
        if let Err(error) = shipping.drain(Some(LAST_WORDS)) {
            tell!("{prefix}not everything was shipped: {}", printable(&error.to_string()));
        }
        let stats = shipping.stats()?;
        let (acknowledged, risk) = (stats.acknowledged, stats.at_risk);
        drop(shipping);
        let why = stats.failing.map_or_else(String::new, |why| format!(": {}", printable(&why)));
        writeln!(
            io::stdout().lock(),
            "{prefix}acknowledged {acknowledged}, {} records at risk{why}",
            risk.records
        )?;
        Ok(())
    }

    /// What `run` would do: an error as it would end with, if it would not begin.
    fn dry_run(&self) -> Result<(), Stop> {
        let (dir, to) = self.named()?;
        let view = View::open(dir)?;
        let mut output = io::stdout().lock();
        let opened = match open(to, &self.opening(false)) {
            Err(error @ Error::Unfit { .. }) => {
                writeln!(output, "would make   {to}: {}", printable(&error.to_string()))?;
                return Ok(());
            }
            opened => opened?,
        };
        self.say(&opened);
        let mut to = opened.destination;
        let (note, held) = (Note::read(dir, to.as_mut())?, status::of_destination(to.as_mut())?);
        match (&note, &held) {
            (None, Some(_)) => return Err(Error::NotOwner.into()),
            (Some(note), Some(held)) if held.owner != note.owner => {
                return Err(Error::Replaced { epoch: held.epoch }.into());
            }
            (Some(note), None) if note.chain.position > 0 => {
                return Err(Error::Lost { position: note.chain.position }.into());
            }
            _ => {}
        }
        let from = note.map_or(view.first_sealed(), |note| note.chain.lsn.max(view.first_sealed()));
        let lag = status::lag(&view, from)?;
        let (records, bytes, end) = (lag.records, ByteSize(lag.bytes), view.end_lsn());
        writeln!(
            output,
            "would ship   {records} records, {bytes}, LSN {from} to {end}, to {}",
            to.address()
        )?;
        Ok(())
    }
}

/// The words of a line as a shell has them: between blanks, or within quotes; `#` begins a comment.
fn words(line: &str) -> Result<Vec<String>, &'static str> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if quote.is_some() { Err("a quote is not closed") } else { Ok(words) }
}

fn listed(file: &Path) -> Result<Vec<Shipment>, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::Message(format!("cannot read {}: {error}", file.display())))?;
    let mut listed = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |why: &str| {
            let why = why.trim_start_matches("error: ");
            Failure::Usage(printable(&format!("{}, line {number}: {why}", file.display())).into_owned())
        };
        let words = words(line).map_err(wrong)?;
        if words.is_empty() {
            continue;
        }
        let parsed = Line::try_parse_from(words);
        let one = parsed.map_err(|error| wrong(error.to_string().lines().next().unwrap_or_default()))?.one;
        one.named().map_err(|failure| wrong(&failure.to_string()))?;
        listed.push(one);
    }
    if listed.is_empty() {
        return Err(Failure::Usage(format!("{} lists no log", file.display())));
    }
    Ok(listed)
}

pub(super) fn ship(options: &Ship) -> Result<(), Stop> {
    let shipments = match &options.file {
        Some(file) => listed(file)?,
        None => vec![options.one.clone()],
    };
    let name = |one: &Shipment| {
        let (dir, to) = one.named()?;
        let notes = (!options.once).then(|| dir.to_path_buf());
        Ok(Pair { log: dir.display().to_string(), address: shown(to), notes })
    };
    let pairs = shipments.iter().map(name).collect::<Result<Vec<_>, Failure>>()?;
    if options.dry_run {
        return shipments.iter().try_for_each(Shipment::dry_run);
    }
    signals::handle(|| {})?;
    service::run(&pairs, ("seawall_ship_up", "to"), &options.serving, |index, entry| {
        shipments[index].run(entry, &options.serving, options.once)
    })
}

/// After a take-over: what of the log is nowhere else.
fn print_only_here(shipping: &Shipping, error: &Error) {
    if !matches!(error, Error::Replaced { .. } | Error::Second { .. } | Error::Diverged { .. }) {
        return;
    }
    let from = shipping.acknowledged();
    match shipping.at_risk() {
        Ok(risk) if risk.records > 0 => tell!(
            "only here: {} records after LSN {from}; `seawall log cat DIR --from {from}` prints them",
            risk.records
        ),
        Ok(_) => tell!("no record is only here: all are acknowledged up to LSN {from}"),
        Err(error) => {
            tell!("cannot count the records that are only here: {}", printable(&error.to_string()));
        }
    }
}

/// Says now and then how far a read has come, and how long the rest takes, if it is known where the log begins and ends.
pub(super) fn progress(extent: Option<Range<Lsn>>) -> impl FnMut(Lsn, u64) {
    if let Some(Range { start, end }) = extent {
        tell!("found LSN {start} to {end}, {} to read", ByteSize(end.since(start)));
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
            tell!("LSN {lsn}, {} read, {:.0} MB/s{left}", ByteSize(bytes), rate / 1e6);
        }
    }
}

fn print_read(output: &mut impl io::Write, read: &Read) -> io::Result<()> {
    let seconds = read.time.as_secs_f64();
    let (messages, ignored, bytes) = (read.messages, read.ignored - read.strays, ByteSize(read.bytes));
    writeln!(
        output,
        "read         {messages} messages of {bytes} in {seconds:.1} s, {ignored} left over from races"
    )?;
    if read.strays > 0 {
        writeln!(output, "strays       {} that are not messages of a log: ignored", read.strays)?;
    }
    Ok(())
}

impl Place {
    /// As [`source`], for what continues for ever.
    pub(super) fn followed(&self, address: &str) -> Result<Box<dyn Destination>, Error> {
        Ok(open(address, &Opening { tried_for: TRIED_FOR, ..opening(self) })?.destination)
    }
}

/// What lies at `address`, for reading.
pub(super) fn source(address: &str, place: &Place) -> Result<Box<dyn Destination>, Stop> {
    Ok(open(address, &opening(place))?.destination)
}

pub(super) fn opened(addresses: &[String], place: &Place) -> Result<Vec<Box<dyn Destination>>, Stop> {
    addresses.iter().map(|address| source(address, place)).collect()
}

/// The outcome, printed by `print`; then an error if something was wrong with a source, although the others made up for it.
pub(super) fn joined<T>(joined: &Joined<T>, print: impl FnOnce(&T) -> Result<(), Stop>) -> Result<(), Stop> {
    print(&joined.outcome)?;
    let said = joined.wrong.iter().map(|wrong| {
        let taken = if wrong.is_taken { "its writer is fenced" } else { "no writer is fenced" };
        format!("{}: {} ({taken})", wrong.address, wrong.error)
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() {
        return Ok(());
    }
    let said = format!("{}; the other sources made up for it", printable(&said.join("; ")));
    let coded = joined.wrong.iter().find_map(|wrong| service::code(wrong.error.ending()));
    Err(coded
        .map_or_else(|| Failure::Message(said.clone()), |code| Failure::Coded(code, said.clone()))
        .into())
}

pub(super) fn build(options: &Rebuild) -> Result<(), Stop> {
    const ACT: Act = Act {
        command: "rebuild",
        instead: ", or --copy for a copy that fences nobody; --dry-run names the writer",
    };
    let is_copy = options.copy || options.lsn.is_some() || options.ago.is_some();
    let before = options.ago.map(|ago| u64::try_from(ago.as_micros()).unwrap_or(u64::MAX));
    let time_us = before.map_or(u64::MAX, |us| seawall_sys::clock::unix_us().saturating_sub(us));
    let until = RebuildTo { lsn: options.lsn.unwrap_or(Lsn::MAX), time_us };
    refuse_missing_parent(&options.dir)?;
    let mut from = opened(&options.held.from, &options.held.place)?;
    let act = (!is_copy).then_some(&ACT);
    if !options.fence.confirm(act, &mut from)? {
        return Ok(());
    }
    if options.skip_trimmed && from.len() > 1 {
        return Err(Failure::message("--skip-trimmed takes one --from: name only the archive").into());
    }
    let mut sources = sources(&mut from)?;
    if options.skip_trimmed && !sources.skip_trimmed(&until)? {
        tell!("no valid manifest says where to begin: everything is read");
    }
    let extent = sources.extent().map(|all| all.start..all.end.min(until.lsn).max(all.start));
    let due = extent.as_ref().map_or(0, |due| due.end.since(due.start));
    if let Some(said) = lacks_space(&options.dir, due) {
        tell!("{said}");
    }
    let mut progress = progress(extent);
    let rebuilt = if is_copy {
        copy(sources, &options.dir, until, &mut progress)
    } else {
        rebuild(sources, &options.dir, &mut progress)
    };
    joined(&rebuilt?, print_rebuilt)
}

fn sources(from: &mut [Box<dyn Destination>]) -> Result<Sources<'_>, Error> {
    Sources::new(from.iter_mut().map(|one| -> &mut dyn Destination { one.as_mut() }))
}

/// What to say if there may be no room for this many bytes where the folder `dir` is made: what the log had trimmed takes none in the end.
fn lacks_space(dir: &Path, bytes: u64) -> Option<String> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let at = if dir.is_dir() { dir } else { parent };
    let here = seawall_sys::inspect::environment(at).ok()?;
    let (free, total) = (here.file_system.free_bytes, here.file_system.total_bytes);
    let (amount, at) = (ByteSize(free), at.display());
    (free < bytes && total > 0).then(|| {
        format!(
            "only {amount} are free at {at}: it may not fit; no writer is fenced before all of it is written"
        )
    })
}

/// Prints what was restored, and the epoch that fenced the old writer.
pub(super) fn print_rebuilt(rebuilt: &Rebuilt) -> Result<(), Stop> {
    let report = &rebuilt.report;
    let mut output = io::stdout().lock();
    writeln!(output, "restored     {} records, LSN {} to {}", report.records, report.first, report.end)?;
    writeln!(output, "identity     {}", report.log_id)?;
    print_read(&mut output, &rebuilt.read)?;
    match rebuilt.epoch {
        Some(epoch) => writeln!(output, "writer       taken over with epoch {epoch}: the old one is fenced")?,
        None => writeln!(output, "writer       not fenced: this is a copy")?,
    }
    Ok(())
}

pub(super) fn check(options: &Drill) -> Result<(), Stop> {
    let dir = options.log.as_deref();
    let mut from = opened(&options.held.from, &options.held.place)?;
    let mut sources = sources(&mut from)?;
    let mut progress = progress(sources.extent());
    joined(&drill(sources, dir, &mut progress)?, print_drill)
}

fn print_drill(drilled: &seawall_ship::restore::Drill) -> Result<(), Stop> {
    let mut output = io::stdout().lock();
    writeln!(output, "sound        {} records, LSN {} to {}", drilled.records, drilled.first, drilled.end)?;
    writeln!(output, "identity     {}, epoch {}", drilled.log_id, drilled.epoch)?;
    if let Some(between) = &drilled.between {
        let (end, behind) = (between.end, between.behind);
        writeln!(output, "log          ends at LSN {end}, {behind} records are not shipped yet")?;
        if between.is_replaced {
            writeln!(output, "             another writer has taken over; nothing is only in this log")?;
        }
    }
    if let Some(ahead) = records::ahead(drilled.time_us) {
        writeln!(output, "time         {ahead}; --ago uses the time at which messages were sent")?;
    }
    let Indexed { sound, lacking } = drilled.manifests;
    if sound + lacking > 0 {
        writeln!(output, "manifests    {sound} valid, {lacking} segments have none")?;
    }
    Ok(print_read(&mut output, &drilled.read)?)
}

#[cfg(test)]
mod tests {
    use super::lacks_space;

    #[test]
    fn a_disk_with_too_little_room_is_named_where_the_folder_is_made() {
        let dir = tempfile::tempdir().expect("a directory");
        for to in [dir.path().to_owned(), dir.path().join("new"), "new".into()] {
            assert_eq!(lacks_space(&to, 1), None);
            let said = lacks_space(&to, u64::MAX).expect("no disk holds as much");
            assert!(said.contains("it may not fit"), "{said}");
        }
    }
}
