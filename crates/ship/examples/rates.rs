//! Measures what shipping costs, each row beside its yardstick in the same run.
//!
//! ```text
//! rates behind DIR [ROUNDS]                 commits of one thread while the log is shipped to a sink in another process, which takes
//!                                           everything, by a log that is not shipped: their medians, in turns
//! rates archive DIR ADDRESS GIB [ROUNDS]    a log archived at ADDRESS, by uploads of as many objects of the same size
//! rates rebuild DIR ADDRESS GIB             a log rebuilt from ADDRESS, by reading its objects
//! ```
//!
//! ADDRESS is `folder:PATH` or an object store's, as in `s3://BUCKET/PREFIX` (feature `s3`); it gets archives of their own below it, which stay there.

use seawall::{Durability, Log, Options, Retention};
use seawall_ship::address::{self, Opening};
use seawall_ship::archive::Store;
use seawall_ship::destination::{Answer, Destination};
use seawall_ship::folder::Folder;
use seawall_ship::shipping::{Settings, Shipping};
use seawall_ship::writer::Outcome;
use seawall_ship::{Facts, ShippedLog, Synced, restore};
use seawall_sys::clock::monotonic_ns;
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

type Fault = Box<dyn std::error::Error>;

/// The sizes of the records that are committed one by one.
const RECORDS: [usize; 2] = [256, 16 << 10];
/// How long each of two logs commits in its turn.
const TURN: Duration = Duration::from_millis(1500);
/// Of the records in archives, which are not to shrink in any store.
const ARCHIVED_RECORD: usize = 64 << 10;
const GIB: f64 = (1_u64 << 30) as f64;

fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["sink"] => sink(),
        ["behind", dir] => behind(Path::new(dir), 11),
        ["behind", dir, rounds] => behind(Path::new(dir), rounds.parse()?),
        ["archive", dir, address, gib] => archive(Path::new(dir), address, gib.parse()?, 3),
        ["archive", dir, address, gib, rounds] => {
            archive(Path::new(dir), address, gib.parse()?, rounds.parse()?)
        }
        ["rebuild", dir, address, gib] => rebuild(Path::new(dir), address, gib.parse()?),
        _ => Err(
            "usage: rates behind DIR [ROUNDS] | archive DIR ADDRESS GIB [ROUNDS] | rebuild DIR ADDRESS GIB"
                .into(),
        ),
    }
}

fn seconds_since(begun_ns: u64) -> f64 {
    Duration::from_nanos(monotonic_ns() - begun_ns).as_secs_f64()
}

/// Takes messages on a connection, each after its length, and answers each with a byte.
fn sink() -> Result<(), Fault> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?.port());
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let (mut from, mut to) = (BufReader::with_capacity(1 << 20, stream.try_clone()?), stream);
    let mut message = Vec::new();
    loop {
        let mut length = [0; 8];
        if from.read_exact(&mut length).is_err() {
            return Ok(());
        }
        message.resize(usize::try_from(u64::from_le_bytes(length))?, 0);
        from.read_exact(&mut message)?;
        to.write_all(&[1])?;
    }
}

/// A destination that only counts, in a process of its own.
struct Sink {
    stream: TcpStream,
    waiting: Arc<Mutex<VecDeque<Answer>>>,
    facts: Facts,
    last: u64,
}

impl Sink {
    fn start() -> Result<(Self, std::process::Child), Fault> {
        let mut child = Command::new(std::env::current_exe()?).arg("sink").stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let stream = TcpStream::connect(("127.0.0.1", line.trim().parse::<u16>()?))?;
        stream.set_nodelay(true)?;
        let waiting: Arc<Mutex<VecDeque<Answer>>> = Arc::default();
        let (mut answers, oldest) = (stream.try_clone()?, Arc::clone(&waiting));
        std::thread::spawn(move || {
            let mut taken = [0; 64];
            while let Ok(count @ 1..) = answers.read(&mut taken) {
                for _ in 0..count {
                    let answer = oldest.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    if let Some(answer) = answer {
                        answer(Outcome::Stored);
                    }
                }
            }
        });
        let facts = Facts {
            name: "a sink".to_owned(),
            acknowledged_by: 1,
            laggard_may_lead: false,
            synced: Synced::Unknown,
            setting: "it keeps nothing".to_owned(),
            on_this_machine: true,
            elsewhere: false,
            keeps_copies: false,
            message_bytes_max: 1 << 20,
            in_flight_max: 64,
            gather_bytes: 0,
            reports: Vec::new(),
        };
        Ok((Self { stream, waiting, facts, last: 0 }, child))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // The thread that takes answers holds the connection too.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Destination for Sink {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn address(&self) -> String {
        "sink:".to_owned()
    }

    fn append(&mut self, position: u64, bytes: Arc<[u8]>, answer: Answer) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(answer);
        let length = (bytes.len() as u64).to_le_bytes();
        if self.stream.write_all(&length).and_then(|()| self.stream.write_all(&bytes)).is_ok() {
            self.last = position;
        }
    }

    fn read(&mut self, _: u64) -> seawall_ship::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn last(&mut self) -> seawall_ship::Result<u64> {
        Ok(self.last)
    }
}

/// Commits of one thread for a turn: nanoseconds each, sorted.
fn commits(log: &Log, record: &[u8]) -> Result<Vec<u64>, Fault> {
    let mut taken = Vec::new();
    let begun_ns = monotonic_ns();
    while Duration::from_nanos(monotonic_ns() - begun_ns) < TURN {
        let from_ns = monotonic_ns();
        log.append_commit(record)?;
        taken.push(monotonic_ns() - from_ns);
    }
    taken.sort_unstable();
    Ok(taken)
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn behind(dir: &Path, rounds: usize) -> Result<(), Fault> {
    let (sink, mut child) = Sink::start()?;
    let retention = || Options::default().retention(Retention::default().bytes(256 << 20));
    let plain = Log::open(dir.join("plain"), retention())?;
    let settings = Settings::default();
    let shipped = ShippedLog::open(
        dir.join("shipped"),
        retention(),
        Durability::PowerLoss,
        vec![Box::new(sink)],
        settings,
    )?;
    println!(
        "commits of one thread, {rounds} rounds of {TURN:?} a log in turns, medians of the rounds' medians"
    );
    println!("| record | not shipped | shipped behind | ratio, least and most | at risk at the end |");
    println!("| ---: | ---: | ---: | --- | ---: |");
    for bytes in RECORDS {
        let record = random_bytes(bytes);
        let (mut alone, mut beside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut risk = 0;
        // The first round fills segments, and is not counted.
        for round in 0..=rounds {
            let mut turn = |is_shipped: bool| -> Result<f64, Fault> {
                let log = if is_shipped { shipped.log() } else { &plain };
                let taken = commits(log, &record)?;
                if is_shipped {
                    risk = shipped.ships()[0].at_risk()?.records;
                    shipped.ships()[0].wait(log.durable_lsn(), None)?;
                }
                Ok(taken[taken.len() / 2] as f64 / 1e3)
            };
            let first = turn(round % 2 == 1)?;
            let second = turn(round % 2 == 0)?;
            let (with, without) = if round % 2 == 1 { (first, second) } else { (second, first) };
            if round > 0 {
                alone.push(without);
                beside.push(with);
                ratios.push(with / without);
            }
        }
        let (ratio, least, most) = median(ratios);
        println!(
            "| {bytes} B | {:.1} µs | {:.1} µs | {ratio:.3} ({least:.3} – {most:.3}) | {risk} records |",
            median(alone).0,
            median(beside).0,
        );
    }
    shipped.close(None)?;
    plain.close()?;
    // Its connection is closed.
    child.wait()?;
    Ok(())
}

/// Two stores of the same kind: of the archive, and of the objects it is measured by.
fn store(address: &str, name: &str) -> Result<Box<dyn Store>, Fault> {
    if let Some(path) = address.strip_prefix("folder:") {
        return Ok(Box::new(Folder::open(Path::new(path).join(name))?));
    }
    #[cfg(feature = "objects")]
    if address.contains("://") {
        let address = format!("{}/{name}", address.trim_end_matches('/'));
        return Ok(Box::new(seawall_ship::object::Bucket::open(&address)?));
    }
    Err(format!("{address}: write folder:PATH, or s3://BUCKET/PREFIX in a build with the feature s3").into())
}

fn random_bytes(count: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    std::iter::repeat_with(|| random.u8(..)).take(count).collect()
}

/// A log of about `gib` GiB, closed.
fn fill(dir: &Path, gib: f64) -> Result<(), Fault> {
    let log = Log::open(dir, Options::default())?;
    let record = random_bytes(ARCHIVED_RECORD);
    let mut end = log.appended_lsn();
    let mut records: u32 = 0;
    while f64::from(records) * ARCHIVED_RECORD as f64 / GIB < gib {
        end = log.append(&record)?.end;
        records += 1;
        if records.is_multiple_of(16) {
            log.commit(end)?;
        }
    }
    log.commit(end)?;
    Ok(log.close()?)
}

/// The archive beside [`store`] of the same name.
fn archive_at(address: &str, name: &str) -> Result<Box<dyn Destination>, Fault> {
    let opening = Opening { create: true, ..Opening::default() };
    Ok(address::open(&format!("{address}/{name}"), &opening)?.destination)
}

/// Archives the log in `dir`; seconds.
fn ship(dir: &Path, archive: Box<dyn Destination>) -> Result<f64, Fault> {
    let end = seawall::View::open(dir)?.end_lsn();
    let begun_ns = monotonic_ns();
    let shipping = Shipping::start(dir, archive, Settings::default())?;
    shipping.finish(None)?;
    let took = seconds_since(begun_ns);
    println!("  archived up to {end} in {took:.2} s");
    Ok(took)
}

/// The objects of an archive, in order.
fn objects(store: &mut dyn Store) -> Result<Vec<String>, Fault> {
    Ok(store.list("messages/", "")?)
}

fn archive(dir: &Path, address: &str, gib: f64, rounds: usize) -> Result<(), Fault> {
    let log = dir.join("log");
    fill(&log, gib)?;
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let name = format!("archive-{}-{round}", std::process::id());
        let archived = ship(&log, archive_at(address, &name)?)?;
        let mut from = store(address, &name)?;
        let mut to = store(address, &format!("plain-{}-{round}", std::process::id()))?;
        let (mut uploading, mut bytes) = (0.0, 0);
        for object in objects(from.as_mut())? {
            let content = from.get(&object, None)?.ok_or("an object is gone")?;
            let begun_ns = monotonic_ns();
            to.create(&object, &content)?;
            uploading += seconds_since(begun_ns);
            bytes += content.len();
        }
        let (with, without) = (bytes as f64 / archived / GIB, bytes as f64 / uploading / GIB);
        println!(
            "round {}: archive {with:.3} GiB/s, plain uploads {without:.3} GiB/s, ratio {:.3}",
            round + 1,
            with / without
        );
        ratios.push(with / without);
    }
    let (ratio, least, most) = median(ratios);
    println!("archive by plain uploads: {ratio:.3} ({least:.3} – {most:.3})");
    Ok(())
}

fn rebuild(dir: &Path, address: &str, gib: f64) -> Result<(), Fault> {
    let log = dir.join("log");
    fill(&log, gib)?;
    let name = format!("archive-{}", std::process::id());
    ship(&log, archive_at(address, &name)?)?;
    std::fs::remove_dir_all(&log)?;
    let mut from = store(address, &name)?;
    let begun_ns = monotonic_ns();
    let mut bytes = 0;
    for object in objects(from.as_mut())? {
        bytes += from.get(&object, None)?.ok_or("an object is gone")?.len();
    }
    let reading = bytes as f64 / seconds_since(begun_ns) / GIB;
    let mut archive = archive_at(address, &name)?;
    let begun_ns = monotonic_ns();
    let from: &mut dyn Destination = archive.as_mut();
    let sources = restore::Sources::new([from])?;
    let rebuilt = restore::rebuild(sources, dir.join("rebuilt"), &mut |_, _| {})?.outcome;
    let whole = bytes as f64 / seconds_since(begun_ns) / GIB;
    println!("{:.2} GiB in {} messages", bytes as f64 / GIB, rebuilt.read.messages);
    println!(
        "read plainly {reading:.3} GiB/s, rebuilt, synced, read back and verified {whole:.3} GiB/s, ratio {:.3}",
        whole / reading
    );
    Ok(())
}
