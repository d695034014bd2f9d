//! Provides the benchmark's instruments: scratch directory, latency histogram and CPU time.

use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use seawall_sys::scratch;

use crate::commit::stats::Summary;
use crate::error::{Error, Result, from_system};

/// Writes and commits at the beginning of each slice that are not timed: the workload before left the
/// processor's cache full of other things.
pub(super) const UNTIMED: u64 = 3;

/// A directory that is removed afterwards, in a private scratch folder.
pub(super) struct Scratch {
    path: PathBuf,
    _folder: scratch::Scratch,
}

impl Scratch {
    pub(super) fn new(dir: &Path, name: &str) -> Result<Self> {
        let folder = scratch::Scratch::new_in(dir).map_err(|error| from_system(&error))?;
        let path = folder.path().join(name);
        std::fs::create_dir(&path).map_err(|source| Error::io("create", &path, source))?;
        Ok(Self { path, _folder: folder })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

pub(super) fn histogram() -> Histogram<u64> {
    // One nanosecond to one hour.
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3)
        .unwrap_or_else(|_| unreachable!("these bounds are sound"))
}

pub(super) fn summary(h: &Histogram<u64>) -> Summary {
    let at = |quantile| h.value_at_quantile(quantile);
    Summary { count: h.len(), p50: at(0.5), p99: at(0.99), p999: at(0.999), max: h.max() }
}

/// User and system time of the process in seconds, where the system reports it.
pub(super) fn cpu_seconds() -> Option<f64> {
    seawall_sys::thread::process_cpu_ns().map(seconds)
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
