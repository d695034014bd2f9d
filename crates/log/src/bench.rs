//! What does this log cost beside the raw disk?
//!
//! Each workload is run in rounds, and in every round the *floor* is measured right before it: a plain loop of durable
//! writes of the same size, by the same commit method, into a zero-filled file in the same directory. Quoted is the
//! median of the rounds and the ratio of the medians, so that a machine that is slower today does not change the
//! answer much. Latencies are those of single commits as the caller sees them.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};

use hdrhistogram::Histogram;
use seawall_sys::clock::{monotonic_ns, sleep_until};
use seawall_sys::{Target, methods};

use crate::buffer::AlignedBuf;
use crate::choose::{from_open, from_system};
use crate::error::{Error, Result};
use crate::log::Log;
use crate::lsn::Lsn;
use crate::options::{EngineChoice, MethodChoice, Options};
use crate::stats::Summary;

/// How a benchmark is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rounds of floor and workload. Default 5.
    pub rounds: usize,
    /// Part of the usual number of commits, in per cent. Default 100.
    pub percent: u64,
    /// Only workloads whose name starts with this. Default all.
    pub only: Option<String>,
    /// The commit method. Default the fastest.
    pub method: MethodChoice,
    /// The engine. Default whichever runs the method.
    pub engine: EngineChoice,
}

impl Default for Plan {
    fn default() -> Self {
        let (method, engine) = (MethodChoice::Fastest, EngineChoice::Probe);
        Self { rounds: 5, percent: 100, only: None, method, engine }
    }
}

/// What one round of one workload gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// What the floor did in a second: writes or bytes, as the workload says; 0 if it has no floor.
    pub floor: f64,
    /// What the log did in a second, in the same unit.
    pub log: f64,
    /// Latency of one floor write in nanoseconds.
    pub floor_ns: Summary,
    /// Latency of one commit, append or read as the caller saw it, in nanoseconds; count 0 if not taken.
    pub log_ns: Summary,
    /// CPU seconds of the whole process for a million commits, where the system tells.
    pub cpu_s_per_million: Option<f64>,
    /// Records in a batch on average.
    pub records_per_batch: f64,
}

/// The result of one workload.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name: `W1` …
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// What is counted in a second.
    pub unit: &'static str,
    /// What the ratio must reach, 0 if the target is another figure.
    pub target: f64,
    /// Every round.
    pub rounds: Vec<Round>,
}

impl Row {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        let mut values: Vec<f64> = self.rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    }

    /// The median of the floor.
    #[must_use]
    pub fn floor(&self) -> f64 {
        self.median(|round| round.floor)
    }

    /// The median of the log.
    #[must_use]
    pub fn log(&self) -> f64 {
        self.median(|round| round.log)
    }

    /// The log against the floor, by medians; 0 without a floor.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.floor() > 0.0 { self.log() / self.floor() } else { 0.0 }
    }

    /// The round with the median latency at `quantile`.
    #[must_use]
    pub fn latency(&self, of: impl Fn(&Summary) -> u64) -> (f64, f64) {
        (self.median(|round| of(&round.floor_ns) as f64), self.median(|round| of(&round.log_ns) as f64))
    }

    /// The median CPU time for a million commits.
    #[must_use]
    pub fn cpu(&self) -> Option<f64> {
        self.rounds
            .iter()
            .all(|round| round.cpu_s_per_million.is_some())
            .then(|| self.median(|round| round.cpu_s_per_million.unwrap_or(0.0)))
    }
}

struct Bench<'a> {
    dir: &'a Path,
    percent: u64,
    method: &'static str,
}

struct Workload {
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    target: f64,
    run: fn(&Bench<'_>) -> Result<Round>,
}

const WORKLOADS: [Workload; 10] = [
    Workload {
        name: "W1",
        what: "1 writer, 16 KiB, each committed",
        unit: "commits/s",
        target: 0.95,
        run: w1,
    },
    Workload {
        name: "W2",
        what: "1 writer, 256 B, each committed",
        unit: "commits/s",
        target: 0.95,
        run: w2,
    },
    Workload { name: "W3", what: "16 threads, 256 B, each waits", unit: "commits/s", target: 6.5, run: w3 },
    Workload { name: "W4", what: "64 threads, 1 KiB, each waits", unit: "commits/s", target: 11.0, run: w4 },
    Workload {
        name: "W4a",
        what: "1 thread, 64 outstanding, 1 KiB",
        unit: "commits/s",
        target: 30.0,
        run: w4a,
    },
    Workload {
        name: "W4b",
        what: "1 thread, 512 outstanding, 1 KiB",
        unit: "bytes/s",
        target: 0.85,
        run: w4b,
    },
    Workload { name: "W5", what: "transactions of 100 x 1 KiB", unit: "commits/s", target: 0.95, run: w5 },
    Workload { name: "W6", what: "append only, 256 B, into memory", unit: "appends/s", target: 0.0, run: w6 },
    Workload { name: "W7", what: "open and read back, page cache", unit: "bytes/s", target: 0.0, run: w7 },
    Workload { name: "W8", what: "paced appends while commits run", unit: "appends/s", target: 0.0, run: w8 },
];

/// Runs the workloads in `dir`, which must exist and lie on the disk to be measured; tells `progress` each name.
///
/// # Errors
/// Whatever the log or the floor meets.
pub fn run(dir: &Path, plan: &Plan, mut progress: impl FnMut(&str, usize)) -> Result<Vec<Row>> {
    let probe = Scratch::new(dir, "probe")?;
    let options = Options::default().method(plan.method.clone()).engine(plan.engine);
    let method = Log::open(&probe.0, options)?.opened().method;
    drop(probe);
    let bench = Bench { dir, percent: plan.percent.max(1), method };
    let wanted = |w: &&Workload| plan.only.as_ref().is_none_or(|only| w.name == only.as_str());
    let mut rows: Vec<(Row, &Workload)> = WORKLOADS
        .iter()
        .filter(wanted)
        .map(|w| (Row { name: w.name, what: w.what, unit: w.unit, target: w.target, rounds: Vec::new() }, w))
        .collect();
    for round in 0..plan.rounds.max(1) {
        for (row, workload) in &mut rows {
            progress(workload.name, round);
            row.rounds.push((workload.run)(&bench)?);
        }
    }
    Ok(rows.into_iter().map(|(row, _)| row).collect())
}

/// A directory that is removed afterwards.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(dir: &Path, name: &str) -> Result<Self> {
        let path = dir.join(format!("seawall-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|source| Error::io("create", &path, source))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is named after this benchmark.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn histogram() -> Histogram<u64> {
    // One nanosecond to one hour.
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3)
        .unwrap_or_else(|_| unreachable!("these bounds are sound"))
}

fn summary(h: &Histogram<u64>) -> Summary {
    let at = |quantile| h.value_at_quantile(quantile);
    Summary { count: h.len(), p50: at(0.5), p99: at(0.99), p999: at(0.999), max: h.max() }
}

/// User and system time of the process in seconds, where the system tells.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Bench<'_> {
    fn count(&self, usual: u64) -> u64 {
        (usual * self.percent / 100).max(64)
    }

    /// A plain loop of `bytes`-sized durable writes into a zero-filled file of 64 MiB.
    fn floor(&self, bytes: usize) -> Result<Floor> {
        let scratch = Scratch::new(self.dir, "floor")?;
        let path = scratch.0.join("journal");
        let slots = (64 << 20) / bytes as u64;
        let file_bytes = slots * bytes as u64;
        let file = seawall_sys::store::StoreFile::create(&path, seawall_sys::store::Access::Direct);
        let file = file.map_err(|error| from_system(&error))?;
        let zeros = AlignedBuf::zeroed(1 << 20);
        let mut at = 0;
        while at < file_bytes.next_multiple_of(1 << 20) {
            let written = file.write_at(at, zeros.bytes());
            at += written.map_err(|source| Error::io("write", &path, source))? as u64;
        }
        file.sync().map_err(|source| Error::io("sync", &path, source))?;
        let method = methods::find(self.method);
        let method =
            method.ok_or_else(|| Error::InvalidOption { option: "method", reason: self.method.into() })?;
        let target = Target { path: path.clone(), journal_bytes: file_bytes, write_bytes: bytes };
        let commit = seawall_sys::open(method, &target).map_err(|error| from_open(error, method, &path))?;
        let mut buf = AlignedBuf::zeroed(bytes);
        buf.bytes_mut().fill(0x5A);
        Ok(Floor { _scratch: scratch, commit, buf, slots, next: 0, times: histogram() })
    }

    /// Alternates slices of the floor and of `work`, which does `per_slice` commits and says how many nanoseconds they
    /// took, and takes the median slice of each, so that a busy moment hits both.
    fn interleave(
        &self,
        floor: &mut Floor,
        (slices, floor_writes, per_slice): (u64, u64, u64),
        mut work: impl FnMut(&mut Histogram<u64>) -> Result<u64>,
    ) -> Result<Round> {
        let slices = (slices * self.percent / 100).max(3);
        let (mut floors, mut logs, mut times) = (Vec::new(), Vec::new(), histogram());
        let mut cpu = 0.0;
        for _ in 0..slices {
            let took = floor.run(floor_writes)?;
            floors.push(floor_writes as f64 / seconds(took));
            let before = cpu_seconds();
            logs.push(per_slice as f64 / seconds(work(&mut times)?));
            cpu += cpu_seconds().zip(before).map_or(f64::NAN, |(after, before)| after - before);
        }
        floors.sort_by(f64::total_cmp);
        logs.sort_by(f64::total_cmp);
        let commits = (per_slice * slices) as f64;
        Ok(Round {
            floor: floors[floors.len() / 2],
            log: logs[logs.len() / 2],
            floor_ns: summary(&floor.times),
            log_ns: summary(&times),
            cpu_s_per_million: Some(cpu / commits * 1e6).filter(|cpu| cpu.is_finite()),
            records_per_batch: 1.0,
        })
    }

    /// Writes through two segments and trims them, so that what follows runs on recycled ones.
    fn warm(log: &Log, segment_bytes: u64) -> Result<()> {
        let record = vec![0x5A; 512 << 10];
        for _ in 0..=2 * segment_bytes / (512 << 10) {
            log.append_commit(&record)?;
            log.trim(log.durable_lsn())?;
        }
        while !log.is_prepared() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(())
    }

    fn log(&self, scratch: &Scratch, options: Options) -> Result<Log> {
        let named = MethodChoice::Named(self.method.to_owned());
        let log = Log::open(&scratch.0, options.method(named))?;
        // The first spare is prepared in the background; it must not share the disk with the measurement.
        while !log.is_prepared() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(log)
    }

    /// `threads` writers that each wait for every commit.
    fn waiting(&self, threads: u64, bytes: usize, slices: u64, per_thread: u64) -> Result<Round> {
        let mut floor = self.floor(bytes.next_multiple_of(4096))?;
        let scratch = Scratch::new(self.dir, "log")?;
        let log = self.log(&scratch, Options::default())?;
        Self::warm(&log, 64 << 20)?;
        let record = vec![0x5A; bytes];
        let before = log.stats();
        // A thread that starts late would be counted as a slow log.
        let start = Barrier::new(usize::try_from(threads).unwrap_or(1));
        let work = || -> Result<(u64, u64, Histogram<u64>)> {
            let mut times = histogram();
            start.wait();
            let began = monotonic_ns();
            let mut last = began;
            for _ in 0..per_thread {
                log.append_commit(&record)?;
                let now = monotonic_ns();
                times.saturating_record(now - last);
                last = now;
            }
            Ok((began, last, times))
        };
        let round = self.interleave(&mut floor, (slices, 100, per_thread * threads), |times| {
            log.trim(log.durable_lsn())?;
            let (mut first, mut last) = (u64::MAX, 0);
            std::thread::scope(|scope| {
                let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
                let own = work();
                let joined = others.into_iter().map(|other| other.join().unwrap_or(Err(Error::Closed)));
                std::iter::once(own).chain(joined).try_for_each(|one| {
                    let (began, ended, one) = one?;
                    (first, last) = (first.min(began), last.max(ended));
                    // All have the same bounds.
                    let _ = times.add(one);
                    Ok(())
                })
            })?;
            Ok(last - first)
        })?;
        let after = log.stats();
        let batches = (after.batches - before.batches).max(1) as f64;
        Ok(Round { records_per_batch: (after.records - before.records) as f64 / batches, ..round })
    }

    /// One thread with `outstanding` commits of 1 KiB in flight.
    fn outstanding(
        &self,
        floor_bytes: usize,
        outstanding: usize,
        slices: u64,
        per_slice: u64,
    ) -> Result<Round> {
        let mut floor = self.floor(floor_bytes)?;
        let scratch = Scratch::new(self.dir, "log")?;
        let log = self.log(&scratch, Options::default())?;
        Self::warm(&log, 64 << 20)?;
        let record = [0x5A; 1024];
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let before = log.stats();
        let floor_writes = if floor_bytes > 64 << 10 { 8 } else { 100 };
        let round = self.interleave(&mut floor, (slices, floor_writes, per_slice), |times| {
            log.trim(log.durable_lsn())?;
            let began = monotonic_ns();
            let mut pending: VecDeque<(u64, crate::log::Commit)> = VecDeque::with_capacity(outstanding);
            for i in 0..per_slice {
                if i % 4096 == 0 {
                    // As a user with checkpoints does; without it every segment would have to be filled anew.
                    log.trim(log.durable_lsn())?;
                }
                while pending.len() == outstanding {
                    let Some((_, oldest)) = pending.front_mut() else { break };
                    match std::pin::Pin::new(oldest).poll(&mut context) {
                        Poll::Pending => std::thread::park(),
                        Poll::Ready(done) => {
                            done?;
                            let now = monotonic_ns();
                            while pending.front().is_some_and(|(_, commit)| commit.is_durable()) {
                                let Some((since, _)) = pending.pop_front() else { break };
                                times.saturating_record(now - since);
                            }
                        }
                    }
                }
                let lsn = log.append(&record)?;
                pending.push_back((monotonic_ns(), log.commit_async(lsn)));
            }
            pending.into_iter().try_for_each(|(_, commit)| commit.wait().map(drop))?;
            Ok(monotonic_ns() - began)
        })?;
        let after = log.stats();
        let batches = (after.batches - before.batches).max(1) as f64;
        Ok(Round { records_per_batch: (after.records - before.records) as f64 / batches, ..round })
    }
}

/// A plain loop of durable writes.
struct Floor {
    _scratch: Scratch,
    commit: Box<dyn seawall_sys::Commit>,
    buf: AlignedBuf,
    slots: u64,
    next: u64,
    times: Histogram<u64>,
}

impl Floor {
    /// Writes `count` times; returns how long that took in nanoseconds.
    fn run(&mut self, count: u64) -> Result<u64> {
        let began = monotonic_ns();
        let mut last = began;
        for _ in 0..count {
            let offset = self.next % self.slots * self.buf.capacity() as u64;
            self.next += 1;
            let written = self.commit.write(offset, self.buf.bytes()).and_then(|()| self.commit.sync());
            written.map_err(|error| from_system(&error))?;
            let now = monotonic_ns();
            self.times.saturating_record(now - last);
            last = now;
        }
        Ok(last - began)
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn w1(bench: &Bench<'_>) -> Result<Round> {
    bench.waiting(1, 16 << 10, 60, 100)
}

fn w2(bench: &Bench<'_>) -> Result<Round> {
    bench.waiting(1, 256, 60, 100)
}

fn w3(bench: &Bench<'_>) -> Result<Round> {
    bench.waiting(16, 256, 30, 250)
}

fn w4(bench: &Bench<'_>) -> Result<Round> {
    bench.waiting(64, 1024, 30, 100)
}

fn w4a(bench: &Bench<'_>) -> Result<Round> {
    bench.outstanding(4096, 64, 60, 4000)
}

fn w4b(bench: &Bench<'_>) -> Result<Round> {
    let round = bench.outstanding(1 << 20, 512, 60, 8192)?;
    Ok(Round { floor: round.floor * f64::from(1 << 20), log: round.log * 1024.0, ..round })
}

fn w5(bench: &Bench<'_>) -> Result<Round> {
    let mut floor = bench.floor(100 << 10)?;
    let scratch = Scratch::new(bench.dir, "log")?;
    let log = bench.log(&scratch, Options::default())?;
    Bench::warm(&log, 64 << 20)?;
    let record = [0x5A; 1024];
    let round = bench.interleave(&mut floor, (60, 25, 25), |times| {
        log.trim(log.durable_lsn())?;
        let began = monotonic_ns();
        let mut last = began;
        for _ in 0..25 {
            let end = log.transaction::<Error>(|tx| (0..100).try_for_each(|_| tx.append(&record)))?;
            log.commit(end)?;
            let now = monotonic_ns();
            times.saturating_record(now - last);
            last = now;
        }
        Ok(last - began)
    })?;
    Ok(Round { records_per_batch: 100.0, ..round })
}

fn w6(bench: &Bench<'_>) -> Result<Round> {
    let record = [0x5A; 256];
    let count = bench.count(500_000);
    let mut round = Round::default();
    // Once for the rate, once with a clock around every append.
    for timed in [false, true] {
        let scratch = Scratch::new(bench.dir, "log")?;
        let memory = Options::default().memory_bytes(160 << 20).segment_bytes(160 << 20);
        let log = bench.log(&scratch, memory)?;
        let mut times = histogram();
        let began = monotonic_ns();
        if timed {
            let mut last = began;
            for _ in 0..count {
                log.append(&record)?;
                let now = monotonic_ns();
                times.saturating_record(now - last);
                last = now;
            }
            round.log_ns = summary(&times);
        } else {
            for _ in 0..count {
                log.append(&record)?;
            }
            round.log = count as f64 / seconds(monotonic_ns() - began);
        }
    }
    Ok(round)
}

fn w7(bench: &Bench<'_>) -> Result<Round> {
    let scratch = Scratch::new(bench.dir, "log")?;
    let records = bench.count(1 << 20);
    {
        let log = bench.log(&scratch, Options::default())?;
        let mut lsn = Lsn::ZERO;
        for i in 0..records {
            lsn = log.append(&[u8::try_from(i & 0xFF).unwrap_or(0); 1024])?;
        }
        log.commit(lsn)?;
        log.close()?;
    }
    // The floor is a plain read of the same files from the page cache, which the first pass fills.
    let mut floor = 0.0;
    for _ in 0..2 {
        let began = monotonic_ns();
        let bytes = read_plainly(&scratch.0)?;
        floor = bytes as f64 / seconds(monotonic_ns() - began);
    }
    let began = monotonic_ns();
    let log = Log::open(&scratch.0, Options::default())?;
    let (mut count, mut bytes) = (0_u64, 0_u64);
    let mut reader = log.read(Lsn::ZERO)?;
    while let Some(record) = reader.next_record()? {
        count += 1;
        bytes += record.payload.len() as u64;
    }
    let took = monotonic_ns() - began;
    if count != records {
        return Err(Error::InvalidOption {
            option: "W7",
            reason: format!("{count} of {records} records came back"),
        });
    }
    Ok(Round { floor, log: bytes as f64 / seconds(took), ..Round::default() })
}

fn read_plainly(dir: &Path) -> Result<u64> {
    use std::io::Read;
    let mut buf = vec![0; 1 << 20];
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).map_err(|source| Error::io("list", dir, source))? {
        let path = entry.map_err(|source| Error::io("list", dir, source))?.path();
        let mut file = std::fs::File::open(&path).map_err(|source| Error::io("open", &path, source))?;
        loop {
            match file.read(&mut buf).map_err(|source| Error::io("read", &path, source))? {
                0 => break,
                read => bytes += read as u64,
            }
        }
    }
    Ok(bytes)
}

fn w8(bench: &Bench<'_>) -> Result<Round> {
    const PER_SECOND: u64 = 200_000;
    let scratch = Scratch::new(bench.dir, "log")?;
    let log = bench.log(&scratch, Options::default().segment_bytes(160 << 20))?;
    let stop = AtomicBool::new(false);
    let count = bench.count(200_000);
    let record = [0x5A; 256];
    let mut times = histogram();
    let took = std::thread::scope(|scope| -> Result<u64> {
        let committer = scope.spawn(|| -> Result<u64> {
            let mut commits = 0;
            while !stop.load(Ordering::Relaxed) {
                log.append_commit(&record)?;
                commits += 1;
            }
            Ok(commits)
        });
        let began = monotonic_ns();
        let paced = (0..count).try_for_each(|i| -> Result<()> {
            // Bursts of ten, so that the pace does not hang on the resolution of the timer.
            if i % 10 == 0 {
                sleep_until(began + i * 1_000_000_000 / PER_SECOND);
            }
            let before = monotonic_ns();
            log.append(&record)?;
            times.saturating_record(monotonic_ns() - before);
            Ok(())
        });
        let took = monotonic_ns() - began;
        stop.store(true, Ordering::Relaxed);
        committer.join().unwrap_or(Err(Error::Closed))?;
        paced.map(|()| took)
    })?;
    Ok(Round { log: count as f64 / seconds(took), log_ns: summary(&times), ..Round::default() })
}

/// The rows as a table in text.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    use std::fmt::Write;
    let mut text = String::from(
        "     workload                          unit             floor         log   ratio  target  floor p50  log p50  \
         floor p99.9  log p99.9  CPU s/M  rec/batch   (latencies in microseconds)\n",
    );
    for row in rows {
        let (floor_p50, p50) = row.latency(|summary| summary.p50);
        let (floor_p999, p999) = row.latency(|summary| summary.p999);
        let cpu = row.cpu().map_or_else(|| "n/a".to_owned(), |cpu| format!("{cpu:.2}"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:4} {:33} {:9} {:>12.0} {:>11.0} {:>7.2} {:>7.2} {:>10.2} {:>8.2} {:>12.2} {:>10.2} {:>8} {:>10.1}",
            row.name,
            row.what,
            row.unit,
            row.floor(),
            row.log(),
            row.ratio(),
            row.target,
            floor_p50 / 1e3,
            p50 / 1e3,
            floor_p999 / 1e3,
            p999 / 1e3,
            cpu,
            row.median(|round| round.records_per_batch)
        );
    }
    text
}
