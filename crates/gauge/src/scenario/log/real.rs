//! Runs a block of the `log` and `peers` scenarios in files and logs of its own, which are kept from block to block.
//!
//! A block is measured in slices of [`SLICE_BYTES`], however long it is: a log is trimmed after each, as by a user with
//! checkpoints, because one that is written further and further must fill every segment again.
//!
//! Invariants: opening, warming, trimming and preparing segments are in no block's time or counters; a thread records
//! without allocating; what commits rests before the next block, so that its background work is in no other's block.

use super::contest::{IN_MEMORY_BYTES, Opening, configured, seawall, seawall_for_process};
use super::reading::StreamedLog;
use super::workloads::{Outliving, READ_RECORD_BYTES, Work};
use super::{Case, MEANS, UNTIMED_COMMITS};
use crate::block::{Sample, Slice};
use crate::row::Measured;
use crate::scenario::commit::tally;
use crate::scenario::settings::Settings;
use crate::testbed::real::{Fault, RealTestbed, RecordLane, UNTIMED, Writer, open_log};
use crate::testbed::writers::{self, Crew, slice};
use crate::testbed::{Block, BlockError, Until};
use seawall::{CommitFuture, Log, Lsn, Options, Stats};
use seawall_host::process::{Usage, usage};
use seawall_host::starting_line::{run_together, spawn_scoped};
use seawall_host::thread::{Accounts, pin, process_cpu_ns};
use seawall_sys::buffer::Aligned;
use seawall_sys::clock::{monotonic_ns, sleep_until};
use seawall_sys::method::Method;
use seawall_sys::store::{Access, StoreFile};
use seawall_sys::wait::block_on;
use seawall_sys::{Error, OpenError, methods};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// For what a contestant does by itself between commits.
const REST: Duration = Duration::from_millis(10);
/// Written before the first block: more than all files of any contestant.
const WARM_UP_RECORDS: u64 = 384;
const WARM_UP_RECORD_BYTES: usize = 512 << 10;
/// Not when a segment has just been filled: the next one must be started before anything can be recycled.
const WARM_UP_TIDY_EVERY: u64 = 75;
/// A log that is never trimmed begins again beyond this, bytes.
pub(super) const GROWN_BYTES_MAX: u64 = 512 << 20;
/// What is committed until the next trim, bytes: a quarter of a segment.
pub(super) const SLICE_BYTES: u64 = 8 << 20;
/// Appends of a block that stays in memory.
const APPENDS: usize = 500_000;
/// What such a log appends between two trims, if it writes each record, bytes of the log.
const TRIMMED_BYTES: u64 = 1 << 20;

/// The method that the log chooses in the folder, and why another engine was refused, if one was.
pub(super) fn chosen(
    testbed: &mut RealTestbed,
    settings: &Settings,
) -> Result<(&'static Method, Option<String>), BlockError> {
    let folder = testbed.new_path(0, "probe")?;
    let options = Options::default().method(settings.log_method.clone()).engine(settings.log_engine);
    let log = open_log(&folder, options.network_file_system(settings.network_file_system))?;
    let (id, refused) = (log.opened().method, log.opened().engine_refused.clone());
    drop(log);
    std::fs::remove_dir_all(&folder).map_err(|error| Error::new("remove", &folder, error))?;
    let gone = || Error::new("find", Path::new(id), io::ErrorKind::NotFound.into());
    Ok((methods::find(id).ok_or_else(gone)?, refused))
}

/// A folder of a log, which is removed when this is dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn create(path: PathBuf) -> Result<Self, BlockError> {
        std::fs::create_dir(&path).map_err(|error| BlockError::run(Error::new("create", &path, error)))?;
        Ok(Self(path))
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind lies in the scratch folder, which is swept.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A contestant that is open. Its files are closed before its folder goes.
struct Held {
    writers: Vec<Box<dyn Writer>>,
    folder: Folder,
    /// What it took of this process when it had been opened and warmed.
    taken: Option<Usage>,
}

impl Held {
    fn open(
        folder: PathBuf,
        case: &Case,
        method: &'static Method,
        settings: &Settings,
    ) -> Result<Self, BlockError> {
        let before = usage();
        let mut held = Self { writers: Vec::new(), folder: Folder::create(folder)?, taken: None };
        let opening = Opening {
            folder: &held.folder,
            threads: case.threads(),
            streams: case.streams(),
            bytes: case.bytes,
            method,
            engine: settings.log_engine,
        };
        let opened = (case.by.open)(&opening);
        held.writers = opened.map_err(|fault| match fault.downcast::<OpenError>() {
            Ok(error) => *error,
            Err(fault) => failed("open", &held.folder, fault).into(),
        })?;
        if !(case.is_floor || case.is_bare) {
            held.warm().map_err(|fault| failed("warm", &held.folder, fault))?;
            held.taken = usage().zip(before).map(|(after, before)| after.since(&before));
        }
        Ok(held)
    }

    /// Writes through more than all files, so that what follows runs on space that was written before.
    fn warm(&mut self) -> Result<(), Fault> {
        let record = Aligned::incompressible(WARM_UP_RECORD_BYTES, 7);
        for number in 1..=WARM_UP_RECORDS {
            self.writers.first_mut().ok_or("opened without a writer")?.put(record.as_slice())?;
            if number % WARM_UP_TIDY_EVERY == 0 {
                self.tidy()?;
            }
        }
        self.tidy()
    }

    fn tidy(&mut self) -> Result<(), Fault> {
        self.writers.iter_mut().try_for_each(|writer| writer.tidy())?;
        std::thread::sleep(REST);
        Ok(())
    }

    fn log(&self) -> Result<Arc<Log>, BlockError> {
        let log = self.writers.first().and_then(|writer| writer.log());
        let none = || failed("open", &self.folder, "it is no Seawall log".into());
        Ok(Arc::clone(log.ok_or_else(none)?))
    }

    /// Adds what it took when it was opened, and what its streams take now that all have been trimmed.
    fn add_means(&self, measured: &mut Measured) {
        let taken = self.taken.map(|taken| [taken.resident_bytes, taken.threads, taken.descriptors]);
        for ((sum, _), value) in MEANS.into_iter().zip(taken.into_iter().flatten()) {
            measured.set(sum, value as f64);
        }
        if let Some(stats) = self.stats().filter(|stats| stats.streams > 0) {
            measured.set(MEANS[3].0, stats.stream_memory_bytes as f64 / stats.streams as f64);
        }
    }

    fn stats(&self) -> Option<Stats> {
        self.log().ok().map(|log| log.stats())
    }
}

pub(super) fn failed(operation: &'static str, folder: &Path, fault: Fault) -> Error {
    Error::new(operation, folder, io::Error::other(fault))
}

pub(super) struct Kept<'a> {
    settings: &'a Settings,
    method: &'static Method,
    held: BTreeMap<String, Held>,
    /// The log that is read back.
    readable: Option<Folder>,
    /// The log of many streams that is read in place.
    streamed: Option<StreamedLog<'a>>,
}

impl<'a> Kept<'a> {
    pub(super) fn new(settings: &'a Settings, method: &'static Method) -> Self {
        Self { settings, method, held: BTreeMap::new(), readable: None, streamed: None }
    }

    pub(super) fn block(
        &mut self,
        testbed: &mut RealTestbed,
        (id, case): (&str, &Case),
        until: Until<'_>,
    ) -> Result<Measured, BlockError> {
        let bench = |folder| Bench { settings: self.settings, case, until, folder };
        match case.work {
            Work::Append { log: false } => return bench(Path::new("")).copy(testbed),
            Work::Append { log: true } => {
                let folder = testbed.new_path(0, id)?;
                return bench(&folder).append(testbed, self.method);
            }
            Work::Outlive(how) => {
                let folder = testbed.new_path(0, id)?;
                return bench(&folder).outlive(testbed, self.method, how);
            }
            Work::ReadBack { log, cold } => {
                let folder = match self.readable.take() {
                    Some(folder) => folder,
                    None => readable(testbed.new_path(0, "readable")?, self.method, self.settings)?,
                };
                let measured = bench(&folder).read_back(testbed, log, cold, self.method);
                self.readable = Some(folder);
                return measured;
            }
            Work::Points { .. } | Work::CatchUp { .. } | Work::Open { .. } => {
                let mut log = match self.streamed.take() {
                    Some(log) => log,
                    None => {
                        StreamedLog::create(testbed.new_path(0, "streamed")?, self.method, self.settings)?
                    }
                };
                let measured = log.block(testbed, case, until);
                self.streamed = Some(log).filter(|log| !log.is_worn());
                return measured;
            }
            Work::Waiting(_)
            | Work::Streams { .. }
            | Work::Outstanding { .. }
            | Work::Transactions(_)
            | Work::Paced => {}
        }
        let mut held = match self.held.remove(id) {
            Some(held) => held,
            None => {
                Held::open(testbed.new_path(0, &id.replace('/', "-"))?, case, self.method, self.settings)?
            }
        };
        let (mut measured, before) = (Measured::default(), held.stats());
        let grown = loop {
            let left = Until { block_ns: until.block_ns.saturating_sub(measured.elapsed_ns), ..until };
            measured.absorb(Self::commits(testbed, self.settings, case, &mut held, left)?);
            held.tidy().map_err(|fault| failed("tidy", &held.folder, fault))?;
            let grown = held.stats().map_or(0, |stats| stats.durable.since(stats.first));
            let over = measured.elapsed_ns >= until.block_ns || until.stop.load(Ordering::Relaxed);
            if over || case.work == Work::Paced || grown >= GROWN_BYTES_MAX {
                break grown;
            }
        };
        if let Some((before, after)) = before.zip(held.stats()) {
            // A segment that is started within a slice may be ready only after it.
            measured.set("segments_filled", (after.segments_filled - before.segments_filled) as f64);
        }
        held.add_means(&mut measured);
        if case.work != Work::Paced && grown < GROWN_BYTES_MAX {
            // The other ones begin their next block with empty segments.
            self.held.insert(id.to_owned(), held);
        }
        Ok(measured)
    }

    /// A slice of what commits, with the CPU time of the whole process and what the log counted itself.
    fn commits(
        testbed: &RealTestbed,
        settings: &Settings,
        case: &Case,
        held: &mut Held,
        until: Until<'_>,
    ) -> Result<Measured, BlockError> {
        let (before, cpu_ns) = (held.stats(), process_cpu_ns());
        let block = if case.work.waiting().is_some() {
            let crew = Crew {
                bytes: case.bytes,
                pin_to: &settings.pin_to,
                seed: settings.seed,
                workload: None,
                until,
            };
            // A log chooses where it writes.
            let (capacity, commits_max) = (u64::MAX / case.bytes as u64, case.commits_of_a_slice());
            let slice = Slice { capacity, commits_max, ..slice(0, u64::MAX, until) };
            let folder = &held.folder;
            let lane = |writer| (RecordLane::new(writer, folder), slice);
            let lanes = held.writers.iter_mut().map(|writer| lane(writer.as_mut())).collect();
            writers::run(&crew, lanes, &|| testbed.counts_of(0))?
        } else {
            let log = held.log()?;
            let bench = Bench { settings, case, until, folder: &held.folder };
            bench.alone(testbed, |sample| match case.work {
                Work::Outstanding { commits, polled } => bench.outstanding(&log, commits, polled, sample),
                Work::Transactions(records) => bench.transactions(&log, records, sample),
                _ => bench.paced(&log, sample),
            })?
        };
        let mut measured = tally(&block, case.bytes as u64);
        if let Some((after, before)) = process_cpu_ns().zip(cpu_ns) {
            measured.set("cpu_ns", after.saturating_sub(before) as f64);
            measured.set(UNTIMED_COMMITS, (UNTIMED * case.threads() as u64) as f64);
        }
        if let Some((before, after)) = before.zip(held.stats()) {
            measured.set("records", (after.records - before.records) as f64);
            measured.set("batches", (after.batches - before.batches) as f64);
        }
        Ok(measured)
    }
}

/// Makes the log that is read back.
fn readable(folder: PathBuf, method: &'static Method, settings: &Settings) -> Result<Folder, BlockError> {
    let folder = Folder::create(folder)?;
    let log = seawall(&opening(&folder, method, settings), Options::default())?;
    let written = || -> Result<(), Fault> {
        let mut lsn = Lsn::ZERO;
        for number in 0..read_records(settings) {
            lsn = log.append(&[u8::try_from(number & 0xFF).unwrap_or(0); READ_RECORD_BYTES])?.end;
        }
        log.commit(lsn)?;
        Ok(())
    };
    written().map_err(|fault| failed("write the log in", &folder, fault))?;
    let log = Arc::into_inner(log).ok_or("it is still in use").map_err(Fault::from);
    let closed = log.and_then(|log| Ok(log.close()?));
    closed.map_err(|fault| failed("close the log in", &folder, fault))?;
    Ok(folder)
}

pub(super) fn read_records(settings: &Settings) -> u64 {
    settings.log_bytes / READ_RECORD_BYTES as u64
}

pub(super) fn all_came_back(records: u64, settings: &Settings) -> Result<(), Fault> {
    let written = read_records(settings);
    if records == written { Ok(()) } else { Err(format!("{records} of {written} records came back").into()) }
}

pub(super) fn opening<'a>(folder: &'a Path, method: &'static Method, settings: &Settings) -> Opening<'a> {
    let engine = settings.log_engine;
    Opening { folder, threads: 1, streams: 0, bytes: READ_RECORD_BYTES, method, engine }
}

pub(super) struct Bench<'a> {
    pub(super) settings: &'a Settings,
    pub(super) case: &'a Case,
    pub(super) until: Until<'a>,
    pub(super) folder: &'a Path,
}

impl Bench<'_> {
    pub(super) fn alone(
        &self,
        testbed: &RealTestbed,
        work: impl Fn(&mut Sample) -> Result<(), Fault> + Sync,
    ) -> Result<Block, BlockError> {
        let pin_to = &self.settings.pin_to;
        let prepare = |_, ()| pin_to.first().map_or(Ok(()), |cpu| pin(*cpu).map(drop));
        let folder = self.folder;
        let run = |()| {
            let accounts = Accounts::open();
            let (times, mut sample) = (accounts.times(), Sample::default());
            work(&mut sample).map_err(|fault| failed("run in", folder, fault))?;
            sample.times = accounts.times().since(&times);
            Ok(sample)
        };
        let counts = || testbed.counts_of(0);
        let (before, samples) = run_together(vec![()], prepare, counts, run).map_err(BlockError::run)?;
        let (after, samples) = (counts(), samples?);
        let elapsed_ns = samples.iter().map(|sample| sample.elapsed_ns).sum();
        let counts = before.zip(after).map(|(before, after)| after.since(&before));
        Ok(Block { samples, elapsed_ns, counts, load_bytes: 0 })
    }

    /// The figures of a block in which the device's counters say nothing.
    pub(super) fn uncounted(&self, block: Block) -> Measured {
        tally(&Block { counts: None, ..block }, self.case.bytes as u64)
    }

    /// Does it again and again, at least once; `one` returns how long it took, nanoseconds.
    pub(super) fn again(
        &self,
        sample: &mut Sample,
        mut one: impl FnMut() -> Result<u64, Fault>,
    ) -> Result<(), Fault> {
        while sample.latency.count() == 0 || sample.elapsed_ns < self.until.block_ns && !self.stopped() {
            let took = one()?;
            sample.latency.record(took);
            sample.elapsed_ns += took;
        }
        Ok(())
    }

    pub(super) fn stopped(&self) -> bool {
        self.until.stop.load(Ordering::Relaxed)
    }

    /// Keeps `most` commits outstanding, one of sixteen timed.
    fn outstanding(&self, log: &Log, most: usize, polled: bool, sample: &mut Sample) -> Result<(), Fault> {
        const TRIM_EVERY: u64 = 4096;
        let until = if polled { block_on } else { CommitFuture::wait };
        let record = Aligned::incompressible(self.case.bytes, self.settings.seed);
        let record = record.as_slice();
        for _ in 0..UNTIMED {
            log.append_commit(record)?;
        }
        let mut pending: VecDeque<(Option<u64>, CommitFuture)> = VecDeque::with_capacity(most);
        let began = monotonic_ns();
        let end = began.saturating_add(self.until.block_ns);
        for number in 0.. {
            // Reading the clock takes as long as appending does.
            let since = (number % 16 == 0).then(monotonic_ns);
            if since.is_some_and(|now| now >= end) || self.stopped() {
                break;
            }
            if number % TRIM_EVERY == 0 {
                log.trim(log.durable_lsn())?;
            }
            if pending.len() == most
                && let Some((since, oldest)) = pending.pop_front()
            {
                until(oldest)?;
                let now = monotonic_ns();
                let mut done = |since: Option<u64>| since.map(|since| sample.latency.record(now - since));
                done(since);
                while let Some((since, _)) = pending.pop_front_if(|(_, commit)| commit.is_durable()) {
                    done(since);
                }
            }
            let lsn = log.append(record)?.end;
            let since = since.map(|_| monotonic_ns());
            pending.push_back((since, log.commit_async(lsn)));
            sample.commits += 1;
        }
        pending.into_iter().try_for_each(|(_, commit)| commit.wait().map(drop))?;
        sample.elapsed_ns = monotonic_ns() - began;
        Ok(())
    }

    fn transactions(&self, log: &Log, records: usize, sample: &mut Sample) -> Result<(), Fault> {
        let data = Aligned::incompressible(self.case.bytes / records, self.settings.seed);
        let record = data.as_slice();
        let transact = || {
            let end =
                log.transaction::<seawall::Error>(|tx| (0..records).try_for_each(|_| tx.append(record)))?;
            log.commit(end)
        };
        for _ in 0..UNTIMED {
            transact()?;
        }
        let began = monotonic_ns();
        let mut last = began;
        let most = self.case.commits_of_a_slice();
        while last - began < self.until.block_ns && sample.commits < most && !self.stopped() {
            transact()?;
            let now = monotonic_ns();
            sample.latency.record(now - last);
            (last, sample.commits) = (now, sample.commits + 1);
        }
        sample.elapsed_ns = last - began;
        Ok(())
    }

    /// Appends at a steady pace, each timed, while another thread commits.
    fn paced(&self, log: &Log, sample: &mut Sample) -> Result<(), Fault> {
        const PER_SECOND: u64 = 200_000;
        /// Within a segment, with what the committer writes beside it.
        const BLOCK_NS_MAX: u64 = 1_000_000_000;
        let block_ns = self.until.block_ns.min(BLOCK_NS_MAX);
        let record = [0x5A; 256];
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| -> Result<(), Fault> {
            let committer = spawn_scoped(scope, "the committer", || -> Result<(), seawall::Error> {
                while !stop.load(Ordering::Relaxed) {
                    log.append_commit(&record)?;
                }
                Ok(())
            })?;
            let began = monotonic_ns();
            let mut paced = Ok(());
            for number in 0.. {
                // Bursts of ten, so that the pace does not hang on the resolution of the timer.
                if number % 10 == 0 {
                    let due_ns = number * 1_000_000_000 / PER_SECOND;
                    if due_ns >= block_ns || self.stopped() {
                        break;
                    }
                    sleep_until(began + due_ns);
                }
                let before = monotonic_ns();
                paced = log.append(&record).map(drop);
                if paced.is_err() {
                    break;
                }
                sample.latency.record(monotonic_ns() - before);
            }
            sample.elapsed_ns = monotonic_ns() - began;
            stop.store(true, Ordering::Relaxed);
            committer.join().map_err(|_| "the committer panicked")??;
            log.commit(log.appended_lsn())?;
            Ok(paced?)
        })
    }

    /// The floor of appends: a plain copy of the same bytes into memory as fresh as the log's, once for the rate and
    /// once with a clock around each.
    fn copy(&self, testbed: &RealTestbed) -> Result<Measured, BlockError> {
        let record = vec![0x5A; self.case.bytes];
        let fresh = || {
            let mut memory = vec![0; APPENDS * record.len()];
            seawall_sys::buffer::about_to_write(&mut memory);
            memory
        };
        let block = self.alone(testbed, |sample| {
            for timed in [false, true] {
                let mut memory = fresh();
                let mut places = memory.chunks_exact_mut(record.len());
                each(sample, timed, || {
                    if let Some(place) = places.next() {
                        std::hint::black_box(place).copy_from_slice(&record);
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        Ok(self.uncounted(block))
    }

    /// Appends into the memory of a new log, once for the rate and once with a clock around each.
    fn append(&self, testbed: &RealTestbed, method: &'static Method) -> Result<Measured, BlockError> {
        let append = |log: &Log, record: &[u8]| log.append(record).map(drop);
        self.with_new_logs(testbed, (Some(method), in_memory(true)), append)
    }

    /// The same with a commit that outlives the process only after each.
    fn outlive(
        &self,
        testbed: &RealTestbed,
        method: &'static Method,
        how: Outliving,
    ) -> Result<Measured, BlockError> {
        let commit_as = |log: &Log, record: &[u8]| {
            let lsn = log.append(record)?.end;
            log.commit_as(lsn, seawall::Durability::ProcessCrash)
        };
        match how {
            Outliving::Write => self.write(testbed),
            Outliving::CommitAs { fits } => {
                self.with_new_logs(testbed, (Some(method), in_memory(fits)), commit_as)
            }
            Outliving::OpenedCommitAs => self.with_new_logs(testbed, (None, in_memory(true)), commit_as),
            Outliving::OpenedCommit => {
                let commit = |log: &Log, record: &[u8]| {
                    let end = log.append_commit(record)?.end;
                    // A block of the disk each: what was written goes, about once in four thousand.
                    if end.get() % TRIMMED_BYTES < record.len() as u64 {
                        log.trim(end)?;
                    }
                    Ok(())
                };
                self.with_new_logs(testbed, (None, Options::default()), commit)
            }
        }
    }

    /// Does it to a new log, opened to outlive the process only if there is no method, once for the rate and once with a clock around
    /// each.
    fn with_new_logs(
        &self,
        testbed: &RealTestbed,
        (method, options): (Option<&'static Method>, Options),
        one: impl Fn(&Log, &[u8]) -> seawall::Result<()> + Sync,
    ) -> Result<Measured, BlockError> {
        let record = vec![0x5A; self.case.bytes];
        let block = self.alone(testbed, |sample| {
            for timed in [false, true] {
                let options = options.clone();
                let log = match method {
                    Some(method) => seawall(&opening(self.folder, method, self.settings), options)?,
                    None => seawall_for_process(self.folder, options)?,
                };
                // The first one makes what the others find.
                one(&log, &record)?;
                each(sample, timed, || Ok(one(&log, &record)?))?;
                drop(log);
                std::fs::remove_dir_all(self.folder)?;
            }
            Ok(())
        })?;
        Ok(self.uncounted(block))
    }

    /// The floor of commits that outlive the process only: a buffered write of each record, as above.
    fn write(&self, testbed: &RealTestbed) -> Result<Measured, BlockError> {
        let record = vec![0x5A; self.case.bytes];
        let block = self.alone(testbed, |sample| {
            std::fs::create_dir(self.folder)?;
            for timed in [false, true] {
                let mut file = File::create(self.folder.join("journal"))?;
                each(sample, timed, || Ok(file.write_all(&record)?))?;
            }
            std::fs::remove_dir_all(self.folder)?;
            Ok(())
        })?;
        Ok(self.uncounted(block))
    }

    /// Reads the log again and again: its files plainly, or its records through a log that is opened for it.
    fn read_back(
        &self,
        testbed: &RealTestbed,
        log: bool,
        cold: bool,
        method: &'static Method,
    ) -> Result<Measured, BlockError> {
        let block = self.alone(testbed, |sample| {
            if !cold {
                read_plainly(self.folder)?;
            }
            self.again(sample, || {
                if cold {
                    forget_files(&files(self.folder)?)?;
                }
                let began = monotonic_ns();
                if !log {
                    read_plainly(self.folder)?;
                    return Ok(monotonic_ns() - began);
                }
                let opening = opening(self.folder, method, self.settings);
                let log = Log::open(self.folder, configured(&opening, Options::default()))?;
                let records = count_records(&log)?;
                let took = monotonic_ns() - began;
                all_came_back(records, self.settings)?;
                log.close()?;
                Ok(took)
            })
        })?;
        Ok(self.uncounted(block))
    }
}

/// Options of a log whose segment holds all that a block appends, and its memory if it `fits`.
fn in_memory(fits: bool) -> Options {
    let bytes = usize::try_from(IN_MEMORY_BYTES).unwrap_or(usize::MAX);
    let options = Options::default().segment_bytes(IN_MEMORY_BYTES);
    if fits { options.memory_bytes(bytes).crash_memory_bytes(bytes) } else { options }
}

/// Does it [`APPENDS`] times: for the rate, or `timed` one by one.
fn each(sample: &mut Sample, timed: bool, mut one: impl FnMut() -> Result<(), Fault>) -> Result<(), Fault> {
    let began = monotonic_ns();
    if timed {
        let mut last = began;
        for _ in 0..APPENDS {
            one()?;
            let now = monotonic_ns();
            sample.latency.record(now - last);
            last = now;
        }
    } else {
        (0..APPENDS).try_for_each(|_| one())?;
        sample.elapsed_ns = monotonic_ns() - began;
    }
    Ok(())
}

fn count_records(log: &Log) -> Result<u64, Fault> {
    let (mut records, mut bytes) = (0, 0);
    let mut reader = log.read(Lsn::ZERO)?;
    while let Some(record) = reader.next_record()? {
        records += 1;
        bytes += record.payload.len();
    }
    std::hint::black_box(bytes);
    Ok(records)
}

pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    Ok(std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?)
}

fn read_plainly(folder: &Path) -> Result<(), Fault> {
    read_files(&files(folder)?)
}

pub(super) fn read_files(files: &[PathBuf]) -> Result<(), Fault> {
    let mut buf = vec![0; 1 << 20];
    for path in files {
        let mut file = File::open(path)?;
        while file.read(&mut buf)? > 0 {}
    }
    Ok(())
}

/// Has the page cache forget files; what it holds of them is synced first.
pub(super) fn forget_files(files: &[PathBuf]) -> Result<(), Fault> {
    for path in files {
        let file = StoreFile::open(path, Access::Cached)?;
        file.sync()?;
        file.forget_cached();
    }
    Ok(())
}
