//! Runs the blocks that read a log of many streams in place: single records, all records beside commits, and opening it.
//!
//! ```text
//!   files of the log     | half that stays in the page cache | half that is cold      |
//!   records drawn from   |  ...........................      |      ................. |    none near the middle
//! ```
//!
//! Invariants: every record belongs to a stream; where a record lies is indexed before a block, and its half is brought into
//! the page cache or out of it; a record that comes back is the one that was written, or the row fails.

use super::contest::{SEGMENT_BYTES, configured, seawall};
use super::real::{
    Bench, Folder, all_came_back, failed, files, forget_files, opening, read_files, read_records,
};
use super::streams::stream;
use super::workloads::{PointsBy, READ_RECORD_BYTES, Work};
use super::{ALONE, Case, MEANWHILE};
use crate::latency::Latency;
use crate::row::{Measured, NamedLatency};
use crate::scenario::settings::Settings;
use crate::testbed::real::{Fault, RealTestbed};
use crate::testbed::{Block, BlockError, Until};
use seawall::{Log, Lsn, Options, StreamId};
use seawall_host::starting_line::spawn_scoped;
use seawall_sys::buffer::Aligned;
use seawall_sys::clock::{monotonic_ns, sleep_until};
use seawall_sys::method::Method;
use seawall_sys::store::{Access, StoreFile};
use seawall_sys::{OpenError, Unavailable};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const STREAMS: u32 = 10_000;
/// Records that single ones are drawn from, at most: spread over the whole log.
const DRAWN_MAX: u64 = 1 << 16;
/// Cold reads until the page cache forgets what they left in it: few of 512 MiB.
const FORGET_EVERY: u64 = 1000;
/// What a plain read of a record would read, bytes.
const POINT_BYTES: usize = 4096;
/// How long commits are timed without a follower, nanoseconds.
const ALONE_NS: u64 = 300_000_000;
/// What is committed beside followers until the log is made again, bytes on the disk.
pub(super) const GROWN_BYTES_MAX: u64 = 2 << 30;

/// A record that may be read.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    lsn: Lsn,
    stream: StreamId,
    seq: u64,
    number: u64,
}

/// The log, in a folder that goes with it.
pub(super) struct StreamedLog<'a> {
    settings: &'a Settings,
    method: &'static Method,
    /// Before its folder, so that it is closed before that goes.
    log: Option<Arc<Log>>,
    folder: Folder,
    drawn: Vec<Drawn>,
    /// The end of what was written before the first block.
    end: Lsn,
    files: Vec<PathBuf>,
    is_indexed: bool,
    random: fastrand::Rng,
}

fn record(number: u64) -> [u8; READ_RECORD_BYTES] {
    let mut record = [u8::try_from(number & 0xFF).unwrap_or(0); READ_RECORD_BYTES];
    record[..8].copy_from_slice(&number.to_le_bytes());
    record
}

impl<'a> StreamedLog<'a> {
    pub(super) fn create(
        folder: PathBuf,
        method: &'static Method,
        settings: &'a Settings,
    ) -> Result<Self, BlockError> {
        let folder = Folder::create(folder)?;
        let random = fastrand::Rng::with_seed(settings.seed);
        let (log, drawn, files, end) = (None, Vec::new(), Vec::new(), Lsn::ZERO);
        let mut made = Self { settings, method, log, folder, drawn, end, files, is_indexed: false, random };
        made.open()?;
        made.write().map_err(|fault| failed("write the log in", &made.folder, fault))?;
        Ok(made)
    }

    fn open(&mut self) -> Result<(), BlockError> {
        let opening = opening(&self.folder, self.method, self.settings);
        self.log = Some(seawall(&opening, Options::default().segment_bytes(SEGMENT_BYTES.into()))?);
        self.is_indexed = false;
        Ok(())
    }

    fn log(&self) -> Result<&Arc<Log>, Fault> {
        self.log.as_ref().ok_or_else(|| "the log is not open".into())
    }

    fn write(&mut self) -> Result<(), Fault> {
        let log = Arc::clone(self.log()?);
        let records = read_records(self.settings);
        let every = (records / DRAWN_MAX).max(1);
        for number in 0..records {
            let stream = stream(u32::try_from(number % u64::from(STREAMS))?)?;
            let appended = log.stream(stream).append(&record(number))?;
            if number % every == 0 {
                self.drawn.push(Drawn { lsn: self.end, stream, seq: appended.seq, number });
            }
            self.end = appended.end;
        }
        log.commit(self.end)?;
        self.files = files(&self.folder)?;
        self.files.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
        self.files.sort();
        // A segment that is prepared holds nothing yet.
        self.files.truncate(usize::try_from(log.stats().segments)?);
        Ok(())
    }

    /// Whether so much was committed to it that it is to be made again.
    pub(super) fn is_worn(&self) -> bool {
        let segments = self.log.as_ref().map_or(0, |log| log.stats().segments);
        segments.saturating_sub(self.files.len() as u64) * u64::from(SEGMENT_BYTES) > GROWN_BYTES_MAX
    }

    pub(super) fn block(
        &mut self,
        testbed: &RealTestbed,
        case: &Case,
        until: Until<'_>,
    ) -> Result<Measured, BlockError> {
        let folder = self.folder.to_path_buf();
        let bench = Bench { settings: self.settings, case, until, folder: &folder };
        let (block, commits) = match case.work {
            Work::Points { by, cold } => {
                self.index().map_err(|fault| failed("index the log in", &folder, fault))?;
                (self.points(testbed, &bench, by, cold)?, None)
            }
            Work::CatchUp { cold } => self.catch_up(testbed, &bench, cold)?,
            Work::Open { log: true } => {
                let log = self.log.take().and_then(Arc::into_inner);
                let closed =
                    log.ok_or_else(|| Fault::from("it is still in use")).and_then(|log| Ok(log.close()?));
                closed.map_err(|fault| failed("close the log in", &folder, fault))?;
                let block = self.openings(testbed, &bench);
                self.open()?;
                (block?, None)
            }
            _ => (self.direct_reads(testbed, &bench)?, None),
        };
        let mut measured = bench.uncounted(block);
        for ((name, title), latency) in commits.into_iter().flatten() {
            measured.latencies.push(NamedLatency::new(name, title, latency));
        }
        Ok(measured)
    }

    /// Has the log learn where its records are, by reading those that are drawn.
    fn index(&mut self) -> Result<(), Fault> {
        if !self.is_indexed {
            let log = self.log()?;
            for drawn in &self.drawn {
                check(&log.read_at(drawn.lsn)?, drawn)?;
            }
            self.is_indexed = true;
        }
        Ok(())
    }

    /// Reads single records, or blocks of the files.
    fn points(
        &mut self,
        testbed: &RealTestbed,
        bench: &Bench<'_>,
        by: PointsBy,
        cold: bool,
    ) -> Result<Block, BlockError> {
        let half = self.files.len() / 2;
        let files = if cold { &self.files[half..] } else { &self.files[..self.files.len() - half] };
        let edge = self.drawn.len() * 7 / 16;
        let drawn = if cold { &self.drawn[self.drawn.len() - edge..] } else { &self.drawn[..edge] };
        let blocks = open_all(files, if cold { Access::Direct } else { Access::Cached })?;
        let (log, seed) = (self.log.as_ref(), self.random.u64(..));
        bench.alone(testbed, |sample| {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut buf = Aligned::zeroed(POINT_BYTES);
            let log = log.ok_or("the log is not open")?;
            place(files, cold)?;
            while sample.elapsed_ns < bench.until.block_ns && !bench.stopped() {
                if cold && sample.latency.count() % FORGET_EVERY == FORGET_EVERY - 1 {
                    forget_files(files)?;
                }
                let drawn = &drawn[random.usize(..drawn.len())];
                let (file, bytes) = &blocks[random.usize(..blocks.len())];
                let offset = random.u64(..bytes / POINT_BYTES as u64) * POINT_BYTES as u64;
                let began = monotonic_ns();
                let record = match by {
                    PointsBy::Offset => file.read_at(offset, buf.as_mut_slice()).map(|_| None)?,
                    PointsBy::Lsn => Some(log.read_at(drawn.lsn)?),
                    PointsBy::Stream => Some(log.stream(drawn.stream).get(drawn.seq)?),
                };
                let took = monotonic_ns() - began;
                record.map_or(Ok(()), |record| check(&record, drawn))?;
                sample.latency.record(took);
                sample.elapsed_ns += took;
            }
            Ok(())
        })
    }

    /// Follows the log from its start to where it ended before the first block, again and again, beside commits.
    fn catch_up(
        &self,
        testbed: &RealTestbed,
        bench: &Bench<'_>,
        cold: bool,
    ) -> Result<(Block, Option<Commits>), BlockError> {
        let commits = Mutex::new([(MEANWHILE, Latency::new()), (ALONE, Latency::new())]);
        let block = bench.alone(testbed, |sample| {
            let log = self.log()?;
            bench.again(sample, || {
                place(&self.files, cold)?;
                let alone = beside_commits(log, || {
                    sleep_until(monotonic_ns() + ALONE_NS);
                    Ok(())
                })?;
                let mut took = 0;
                let meanwhile = beside_commits(log, || {
                    took = self.follow(log)?;
                    Ok(())
                })?;
                let mut commits = commits.lock().unwrap_or_else(PoisonError::into_inner);
                commits[0].1.add(&meanwhile);
                commits[1].1.add(&alone);
                Ok(took)
            })
        })?;
        Ok((block, Some(commits.into_inner().unwrap_or_else(PoisonError::into_inner))))
    }

    /// How long it took, nanoseconds.
    fn follow(&self, log: &Log) -> Result<u64, Fault> {
        let began = monotonic_ns();
        let mut follower = log.follow(Lsn::ZERO)?;
        let mut records = 0;
        while let Some(record) = follower.next_record()? {
            std::hint::black_box(&record.payload[..]);
            records += 1;
            if record.end >= self.end {
                break;
            }
        }
        let took = monotonic_ns() - began;
        all_came_back(records, self.settings)?;
        Ok(took)
    }

    /// Opens the log again and again, with its files out of the page cache.
    fn openings(&self, testbed: &RealTestbed, bench: &Bench<'_>) -> Result<Block, BlockError> {
        bench.alone(testbed, |sample| {
            bench.again(sample, || {
                place(&self.files, true)?;
                let opening = opening(&self.folder, self.method, self.settings);
                let options = configured(&opening, Options::default());
                let began = monotonic_ns();
                let log = Log::open(&*self.folder, options)?;
                let took = monotonic_ns() - began;
                let streams = log.streams().len() as u64;
                if streams != read_records(self.settings).min(STREAMS.into()) {
                    return Err(format!("it was opened with {streams} streams").into());
                }
                log.close()?;
                Ok(took)
            })
        })
    }

    /// Reads the files past the page cache, again and again.
    fn direct_reads(&self, testbed: &RealTestbed, bench: &Bench<'_>) -> Result<Block, BlockError> {
        let files = open_all(&self.files, Access::Direct)?;
        bench.alone(testbed, |sample| {
            let mut buf = Aligned::zeroed(1 << 20);
            bench.again(sample, || {
                place(&self.files, true)?;
                let began = monotonic_ns();
                for (file, _) in &files {
                    let mut offset = 0;
                    loop {
                        let read = file.read_at(offset, buf.as_mut_slice())?;
                        if read == 0 {
                            break;
                        }
                        offset += read as u64;
                    }
                }
                Ok(monotonic_ns() - began)
            })
        })
    }
}

/// Latencies of commits, with their names.
type Commits = [((&'static str, &'static str), Latency); 2];

fn check(found: &seawall::Record, drawn: &Drawn) -> Result<(), Fault> {
    let number = found.payload.first_chunk().map(|number| u64::from_le_bytes(*number));
    if number == Some(drawn.number) && found.payload.len() == READ_RECORD_BYTES {
        Ok(())
    } else {
        Err(format!("another record than number {} came back from LSN {}", drawn.number, drawn.lsn).into())
    }
}

/// Opens the files, each with its length; without the page cache only where they can be read past it.
fn open_all(paths: &[PathBuf], access: Access) -> Result<Vec<(StoreFile, u64)>, BlockError> {
    let open = |path: &PathBuf| -> Result<(StoreFile, u64), BlockError> {
        let file = StoreFile::open_read_only(path, access)?;
        if access == Access::Direct && !file.reads_past_cache() {
            let reason = "files here cannot be read past the page cache";
            return Err(OpenError::Unavailable(Unavailable(reason.to_owned())).into());
        }
        let bytes = std::fs::metadata(path).map_err(|error| failed("stat", path, error.into()))?.len();
        Ok((file, bytes))
    };
    paths.iter().map(open).collect()
}

/// Brings files out of the page cache, or into it as far as they are not there.
fn place(paths: &[PathBuf], cold: bool) -> Result<(), Fault> {
    if cold {
        return forget_files(paths);
    }
    for path in paths {
        let bytes = std::fs::metadata(path)?.len();
        let cached = StoreFile::open_read_only(path, Access::Cached)?.cached_bytes(0, 0)?;
        if cached.is_none_or(|cached| cached < bytes) {
            read_files(std::slice::from_ref(path))?;
        }
    }
    Ok(())
}

/// Runs `work` while a thread commits records of 256 bytes, each waited for; how long these took.
fn beside_commits(log: &Log, work: impl FnOnce() -> Result<(), Fault>) -> Result<Latency, Fault> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let committer = spawn_scoped(scope, "the committer", || -> Result<Latency, seawall::Error> {
            let mut latency = Latency::new();
            let mut last = monotonic_ns();
            while !stop.load(Ordering::Relaxed) {
                log.append_commit(&[0x5A; 256])?;
                let now = monotonic_ns();
                latency.record(now - last);
                last = now;
            }
            Ok(latency)
        })?;
        let worked = work();
        stop.store(true, Ordering::Relaxed);
        let latency = committer.join().map_err(|_| "the committer panicked")??;
        worked.map(|()| latency)
    })
}
