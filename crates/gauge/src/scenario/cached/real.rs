//! Runs and accounts a block of the `cached` scenario: 100 rewrites of a cached file.
//!
//! Invariants: the file starts each block uncached; the cached share is then measured; the CPU clock is read outside
//! the timed calls; every call's result is checked and its failures counted before the block ends with them.

use super::{BlockRequest, ReadIn, SYNC, Trace, WRITE};
use crate::row::CallTally;
use crate::testbed::real::{Content, RealTestbed};
use crate::testbed::writers::apart;
use crate::testbed::{BlockError, Until};
use seawall_host::journal::sync_and_evict;
use seawall_host::thread::{Accounts, cpu_ns, pin};
use seawall_sys::buffer::Aligned;
use seawall_sys::residency::cached_bytes;
use seawall_sys::store::{Access, StoreFile};
use seawall_sys::{Error, clock};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::atomic::Ordering;

pub(super) fn run(
    testbed: &mut RealTestbed,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Trace, BlockError> {
    let path = testbed.file(request.place, "cached", Content::Written(request.file_bytes), until)?;
    let mut file = File::options()
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| Error::new("open", &path, error))?;
    sync_and_evict(&file, &path, true)?;
    match request.read_in {
        ReadIn::Nothing => {}
        ReadIn::Around => read_around(&path, until)?,
        ReadIn::Through(percent) => {
            read_through(&mut file, &path, request.file_bytes / 100 * percent, until)?;
        }
    }
    let cached = cached_bytes(&file, &path)?;
    let before = testbed.counts_of(request.place);
    let mut trace = apart(|| rewrite(&mut file, &path, request, until))?;
    let counts = testbed.counts_of(request.place);
    trace.counts = before.zip(counts).map(|(before, after)| after.since(&before));
    trace.cached_bytes = cached;
    Ok(trace)
}

fn read_around(path: &Path, until: Until<'_>) -> Result<(), Error> {
    let file = StoreFile::open_read_only(path, Access::Direct)?;
    let mut buffer = Aligned::zeroed(1 << 20);
    let mut offset = 0;
    while !until.stop.load(Ordering::Relaxed) {
        let read =
            file.read_at(offset, buffer.as_mut_slice()).map_err(|error| Error::new("read", path, error))?;
        if read == 0 {
            break;
        }
        offset += read as u64;
    }
    Ok(())
}

/// Reads the first `bytes` bytes through the cache, 4 KiB at a time as the original did.
fn read_through(file: &mut File, path: &Path, bytes: u64, until: Until<'_>) -> Result<(), Error> {
    let failed = |operation, error| Error::new(operation, path, error);
    file.seek(SeekFrom::Start(0)).map_err(|error| failed("lseek", error))?;
    let mut buffer = [0; 4096];
    let mut done = 0;
    while done < bytes && !until.stop.load(Ordering::Relaxed) {
        let read = file.read(&mut buffer).map_err(|error| failed("read", error))?;
        if read == 0 {
            break;
        }
        done += read as u64;
    }
    Ok(())
}

/// The calls of a rewrite, in the order of the table.
const CALLS: [&str; 4] = ["lseek", "read", WRITE, SYNC];

fn rewrite(
    file: &mut File,
    path: &Path,
    request: &BlockRequest<'_>,
    until: Until<'_>,
) -> Result<Trace, Error> {
    let settings = request.settings;
    if let Some(cpu) = settings.pin_to.first() {
        pin(*cpu)?;
    }
    let mut random = fastrand::Rng::with_seed(request.seed);
    let data = Aligned::incompressible(settings.bytes, request.seed);
    let mut buffer = Aligned::zeroed(settings.bytes);
    let places = (request.file_bytes / settings.bytes as u64).max(1);
    let accounts = Accounts::open();
    let times = accounts.times();
    let mut trace = Trace::default();
    let mut counter = Counter::new();
    let start_ns = clock::monotonic_ns();
    for _ in 0..settings.rewrites {
        if until.stop.load(Ordering::Relaxed) {
            break;
        }
        let at = SeekFrom::Start(random.u64(..places) * settings.bytes as u64);
        counter.call(path, 0, || file.seek(at))?;
        counter.call(path, 1, || file.read_exact(buffer.as_mut_slice()))?;
        // The original went back for each write, too.
        counter.call(path, 0, || file.seek(at))?;
        counter.call(path, 2, || file.write_all(data.as_slice()))?;
        let ns = counter.call(path, 3, || file.sync_all())?;
        trace.sync.record(ns);
    }
    trace.elapsed_ns = clock::monotonic_ns() - start_ns;
    trace.times = accounts.times().since(&times);
    trace.calls = counter.calls;
    Ok(trace)
}

/// Counts calls as `truss -c` does.
struct Counter {
    calls: Vec<CallTally>,
}

impl Counter {
    fn new() -> Self {
        let cpu_ns = cpu_ns().map(|_| 0);
        let tally = |call: &str| CallTally { call: call.to_owned(), cpu_ns, ..CallTally::default() };
        Self { calls: CALLS.iter().map(|call| tally(call)).collect() }
    }

    /// Makes a call, the `index`-th of [`CALLS`]; how long it took, nanoseconds.
    fn call<T>(
        &mut self,
        path: &Path,
        index: usize,
        call: impl FnOnce() -> std::io::Result<T>,
    ) -> Result<u64, Error> {
        let cpu = cpu_ns();
        let t0 = clock::monotonic_ns();
        let outcome = call();
        let wall_ns = clock::monotonic_ns() - t0;
        let tally = &mut self.calls[index];
        tally.calls += 1;
        tally.wall_ns += wall_ns;
        let spent = cpu.zip(cpu_ns()).map(|(before, after)| after - before);
        tally.cpu_ns = tally.cpu_ns.zip(spent).map(|(sum, ns)| sum + ns);
        tally.errors += u64::from(outcome.is_err());
        outcome.map(|_| wall_ns).map_err(|error| Error::new(CALLS[index], path, error))
    }
}
