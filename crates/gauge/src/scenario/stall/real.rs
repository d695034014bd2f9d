//! Runs a block of the `stall` scenario: one appending and one syncing thread.
//!
//! Invariants: the appending thread allocates nothing and makes no call but its append between two readings of the
//! clock; the syncing thread ends when the appending one has; the first error of either is the block's.

use super::{Append, Appends, BlockRequest, Span, Syncs, Trace};
use crate::latency::Latency;
use crate::measure::Attribution;
use crate::row::Tail;
use crate::testbed::real::{Content, RealTestbed, of_log, put_stamp};
use crate::testbed::{BlockError, Until};
use seawall::Log;
use seawall_host::starting_line::spawn_scoped;
use seawall_host::thread::{Accounts, Times, pin};
use seawall_sys::buffer::Aligned;
use seawall_sys::flush::{Flush, Flusher};
use seawall_sys::method::{Method, OpenSync};
use seawall_sys::{CommitHandle, Error, OpenError, Target, Unavailable, clock, methods};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

/// The file that durable appends go round in, bytes.
const WRITE_THROUGH_BYTES: u64 = 16 << 20;
/// Durable appends are whole blocks.
const BLOCK_BYTES: usize = 4096;
/// Appends of a block at most, so that the trace is bounded.
const APPENDS_MAX: u64 = 1 << 22;

pub(super) fn run(
    testbed: &mut RealTestbed,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Trace, BlockError> {
    let active = ActiveSegment::default();
    let (mut writer, paths) = appender(testbed, request, &active, until)?;
    let mut helper = syncer(testbed, request, &active, &paths)?;
    let done = AtomicBool::new(false);
    let before = testbed.counts_of(0);
    let (trace, spans) = std::thread::scope(|scope| {
        let (done, pause_ns) = (&done, request.settings.sync_sleep_ns);
        let syncing = match helper.as_mut() {
            Some(helper) => {
                let work = move || sync_loop(&mut **helper, pause_ns, done);
                Some(spawn_scoped(scope, "the syncing thread", work).map_err(BlockError::run)?)
            }
            None => None,
        };
        let appending =
            spawn_scoped(scope, "the appending thread", || append_loop(&mut *writer, request, until));
        let trace = appending.map(ScopedJoinHandle::join).map_err(BlockError::run);
        // The syncing thread must end, also when an append failed.
        done.store(true, Ordering::Relaxed);
        Ok::<_, BlockError>((trace?, syncing.map(ScopedJoinHandle::join)))
    })?;
    let mut trace = trace.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    if let Some(spans) = spans {
        trace.syncs = spans.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    trace.counts = before.zip(testbed.counts_of(0)).map(|(before, after)| after.since(&before));
    drop((writer, helper));
    for path in &paths {
        RealTestbed::quiesce_file(path)?;
        testbed.remove(path)?;
    }
    testbed.trim_log()?;
    Ok(trace)
}

trait Appender: Send {
    fn append(&mut self, nth: u64) -> Result<(), Error>;
}

trait Syncer: Send {
    fn sync(&mut self) -> Result<(), Error>;
}

/// Where the two threads agree on the segment that is appended to.
#[derive(Debug, Default, Clone)]
struct ActiveSegment {
    /// 0 or 1: the segment that appends go to.
    current: Arc<AtomicUsize>,
    /// The segment of an append in flight, plus 1; 0 if none is.
    busy: Arc<AtomicUsize>,
}

fn appender(
    testbed: &mut RealTestbed,
    request: &BlockRequest<'_>,
    active: &ActiveSegment,
    until: Until<'_>,
) -> Result<(Box<dyn Appender>, Vec<PathBuf>), BlockError> {
    let bytes = request.settings.bytes;
    let record = Aligned::incompressible(bytes, request.settings.seed);
    let grow = |path: &PathBuf| {
        let target = Target { path: path.clone(), journal_bytes: 0, write_bytes: bytes };
        let row = methods::find("buffered");
        let row = row.ok_or_else(|| unavailable("this system has no buffered writes in its table"))?;
        Ok::<_, OpenError>(Growing { commit: seawall_sys::open(row, &target, None)?, bytes: 0 })
    };
    match request.design.appends {
        Appends::Buffered => {
            let path = testbed.fresh_file("stall", Content::Growing, until)?;
            Ok((Box::new(OneFile { file: grow(&path)?, record }), vec![path]))
        }
        Appends::TwoSegments => {
            let paths = vec![
                testbed.fresh_file("stall-a", Content::Growing, until)?,
                testbed.fresh_file("stall-b", Content::Growing, until)?,
            ];
            let files = [grow(&paths[0])?, grow(&paths[1])?];
            Ok((Box::new(TwoSegments { files, active: active.clone(), record }), paths))
        }
        Appends::WriteThrough => {
            let path = testbed.fresh_file("stall", Content::Written(WRITE_THROUGH_BYTES), until)?;
            let whole = bytes.next_multiple_of(BLOCK_BYTES);
            let target =
                Target { path: path.clone(), journal_bytes: WRITE_THROUGH_BYTES, write_bytes: whole };
            let commit = seawall_sys::open(write_through()?, &target, None)?;
            let record = Aligned::incompressible(whole, request.settings.seed);
            Ok((Box::new(WriteThrough { commit, record }), vec![path]))
        }
        Appends::Log => Ok((Box::new(IntoLog { log: testbed.log()?, record }), Vec::new())),
    }
}

fn unavailable(reason: &str) -> OpenError {
    OpenError::Unavailable(Unavailable(reason.to_owned()))
}

/// The row that writes around the cache and through the device's.
fn write_through() -> Result<&'static Method, OpenError> {
    let through = |method: &&Method| {
        method.needs_alignment()
            && method.reach().letter() == 'D'
            && matches!(method.open_sync, OpenSync::Data | OpenSync::WriteThrough)
    };
    let row = methods::here().iter().find(through);
    row.ok_or_else(|| unavailable("no method here writes around the cache and through the device's"))
}

struct Growing {
    commit: Box<dyn CommitHandle>,
    bytes: u64,
}

impl Growing {
    #[inline]
    fn append(&mut self, record: &mut Aligned, nth: u64) -> Result<(), Error> {
        put_stamp(record.as_mut_slice(), nth);
        self.commit.write(self.bytes, record.as_slice())?;
        self.bytes += record.as_slice().len() as u64;
        Ok(())
    }
}

struct OneFile {
    file: Growing,
    record: Aligned,
}

impl Appender for OneFile {
    fn append(&mut self, nth: u64) -> Result<(), Error> {
        self.file.append(&mut self.record, nth)
    }
}

struct TwoSegments {
    files: [Growing; 2],
    active: ActiveSegment,
    record: Aligned,
}

impl Appender for TwoSegments {
    fn append(&mut self, nth: u64) -> Result<(), Error> {
        // The thread that turns the segment must see either the old one busy or this append in the new one.
        let current = loop {
            let current = self.active.current.load(Ordering::SeqCst);
            self.active.busy.store(current + 1, Ordering::SeqCst);
            if self.active.current.load(Ordering::SeqCst) == current {
                break current;
            }
        };
        let appended = self.files[current].append(&mut self.record, nth);
        self.active.busy.store(0, Ordering::SeqCst);
        appended
    }
}

struct WriteThrough {
    commit: Box<dyn CommitHandle>,
    record: Aligned,
}

impl Appender for WriteThrough {
    fn append(&mut self, nth: u64) -> Result<(), Error> {
        put_stamp(self.record.as_mut_slice(), nth);
        let bytes = self.record.as_slice().len() as u64;
        let places = (WRITE_THROUGH_BYTES / bytes).max(1);
        self.commit.write(nth % places * bytes, self.record.as_slice())?;
        self.commit.sync()
    }
}

struct IntoLog {
    log: Arc<Log>,
    record: Aligned,
}

impl Appender for IntoLog {
    fn append(&mut self, nth: u64) -> Result<(), Error> {
        put_stamp(self.record.as_mut_slice(), nth);
        let appended = self.log.append(self.record.as_slice());
        appended.map(|_| ()).map_err(|error| of_log("append", self.log.dir(), &error))
    }
}

fn syncer(
    testbed: &mut RealTestbed,
    request: &BlockRequest<'_>,
    active: &ActiveSegment,
    paths: &[PathBuf],
) -> Result<Option<Box<dyn Syncer>>, BlockError> {
    Ok(match request.design.syncs {
        Syncs::Never => None,
        Syncs::SameFile(flush) => Some(Box::new(SameFile(Flusher::open(&paths[0], flush)?))),
        Syncs::OtherSegment => {
            let files = [Flusher::open(&paths[0], Flush::Fsync)?, Flusher::open(&paths[1], Flush::Fsync)?];
            Some(Box::new(OtherSegment { files, active: active.clone() }))
        }
        Syncs::Log => Some(Box::new(CommitLog { log: testbed.log()? })),
    })
}

struct SameFile(Flusher);

impl Syncer for SameFile {
    fn sync(&mut self) -> Result<(), Error> {
        self.0.flush()
    }
}

struct OtherSegment {
    files: [Flusher; 2],
    active: ActiveSegment,
}

impl Syncer for OtherSegment {
    fn sync(&mut self) -> Result<(), Error> {
        let left = self.active.current.fetch_xor(1, Ordering::SeqCst);
        while self.active.busy.load(Ordering::SeqCst) == left + 1 {
            std::thread::yield_now();
        }
        self.files[left].flush()
    }
}

struct CommitLog {
    log: Arc<Log>,
}

impl Syncer for CommitLog {
    fn sync(&mut self) -> Result<(), Error> {
        let committed = self.log.commit(self.log.appended_lsn());
        committed.map_err(|error| of_log("commit", self.log.dir(), &error))
    }
}

fn append_loop(
    appender: &mut dyn Appender,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Trace, Error> {
    if let Some(cpu) = request.settings.pin_to.first() {
        pin(*cpu)?;
    }
    let interval_ns = request.settings.write_sleep_ns;
    let due = (until.block_ns / interval_ns.max(1)).clamp(1, APPENDS_MAX);
    let mut appends = Vec::with_capacity(usize::try_from(due).unwrap_or(0));
    let accounts = Accounts::open();
    let times = accounts.times();
    // An append is slow if it makes its successor wait.
    let mut attribution = Attribution::new(Some(interval_ns), accounts.wait_ns());
    let nothing = Latency::new();
    let start_ns = clock::monotonic_ns();
    let end_ns = start_ns + until.block_ns;
    let mut done_ns = start_ns;
    for nth in 0..due {
        if done_ns >= end_ns || until.stop.load(Ordering::Relaxed) {
            break;
        }
        let due_ns = start_ns + nth * interval_ns;
        clock::sleep_until(due_ns);
        let began_ns = clock::monotonic_ns();
        appender.append(nth)?;
        done_ns = clock::monotonic_ns();
        appends.push(Append { due_ns, start_ns: began_ns, end_ns: done_ns });
        attribution.after(done_ns - began_ns, nth + 1, &nothing, || accounts.wait_ns());
    }
    let stopped = until.stop.load(Ordering::Relaxed);
    let missed = if stopped { 0 } else { due - appends.len() as u64 };
    let (times, tail): (Times, Tail) = (accounts.times().since(&times), attribution.tail());
    Ok(Trace { start_ns, elapsed_ns: done_ns - start_ns, appends, missed, times, tail, ..Trace::default() })
}

fn sync_loop(syncer: &mut dyn Syncer, pause_ns: u64, done: &AtomicBool) -> Result<Vec<Span>, Error> {
    let mut spans = Vec::new();
    loop {
        // In short naps, so that a long pause (the original's way to turn syncs off) does not outlast the block.
        let until_ns = clock::monotonic_ns().saturating_add(pause_ns);
        while clock::monotonic_ns() < until_ns && !done.load(Ordering::Relaxed) {
            let left_ns = until_ns - clock::monotonic_ns().min(until_ns);
            std::thread::sleep(std::time::Duration::from_nanos(left_ns.min(10_000_000)));
        }
        if done.load(Ordering::Relaxed) {
            return Ok(spans);
        }
        let start_ns = clock::monotonic_ns();
        syncer.sync()?;
        spans.push(Span { start_ns, end_ns: clock::monotonic_ns() });
    }
}
