//! How fast is each of some commit methods here? Tried side by side with a few small writes on a scratch file.
//!
//! Interleaved rounds, so that a busy moment does not pick the winner; within a tenth the earlier row wins.
//!
//! Invariants: the scratch file is ours alone and is removed, whatever happened; a row that cannot run here is left out;
//! one that fails after it was proven ends the trial.

use std::path::Path;

use seawall_sys::clock::monotonic_ns;
use seawall_sys::method::Method;
use seawall_sys::store::{Access, StoreFile};
use seawall_sys::{Commit, Target};

use crate::buffer::AlignedBuf;
use crate::choose::from_system;
use crate::error::{Error, Result};

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Rounds over all rows.
    pub(crate) rounds: usize,
    /// Commits of a row in a round.
    pub(crate) writes_per_round: usize,
    /// When to begin no further commit, on [`monotonic_ns`].
    pub(crate) until_ns: Option<u64>,
}

impl Bounds {
    fn reached(&self) -> bool {
        self.until_ns.is_some_and(|until_ns| monotonic_ns() >= until_ns)
    }
}

/// What a row showed.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub(crate) method: &'static Method,
    /// Each commit's latency, nanoseconds, ascending.
    pub(crate) times_ns: Vec<u64>,
}

impl Trial {
    /// The median, nanoseconds; `None` without commits.
    pub(crate) fn median_ns(&self) -> Option<u64> {
        self.times_ns.get(self.times_ns.len() / 2).copied()
    }
}

/// The trial with the lowest median; within a tenth the earlier one.
pub(crate) fn fastest(trials: &[Trial]) -> Option<&Trial> {
    let mut best: Option<(&Trial, u64)> = None;
    for trial in trials {
        let Some(median) = trial.median_ns() else { continue };
        if best.is_none_or(|(_, fastest)| median + median / 10 < fastest) {
            best = Some((trial, median));
        }
    }
    best.map(|(trial, _)| trial)
}

/// Tries `rows` with writes of `bytes` on a scratch file at `path` of `scratch_bytes`; each row is proven first, which is
/// one commit more.
pub(crate) fn run(
    path: &Path,
    rows: &[&'static Method],
    bytes: usize,
    scratch_bytes: u64,
    bounds: &Bounds,
) -> Result<Vec<Trial>> {
    let scratch = Scratch::make(path, scratch_bytes)?;
    let target = Target { path: path.to_path_buf(), journal_bytes: scratch_bytes, write_bytes: bytes };
    let mut tried: Vec<(Trial, Box<dyn Commit>)> = Vec::new();
    for method in rows {
        if !bounds.reached()
            && seawall_sys::prove(method, &target).is_ok()
            && let Ok(commit) = seawall_sys::open(method, &target)
        {
            tried.push((Trial { method, times_ns: Vec::new() }, commit));
        }
    }
    let buf = AlignedBuf::zeroed(bytes);
    let mut offset = 0;
    for _ in 0..bounds.rounds {
        for (trial, commit) in &mut tried {
            for _ in 0..bounds.writes_per_round {
                if bounds.reached() {
                    break;
                }
                let began = monotonic_ns();
                let written = commit.write(offset, buf.bytes()).and_then(|()| commit.sync());
                written.map_err(|error| from_system(&error))?;
                trial.times_ns.push(monotonic_ns() - began);
                offset = (offset + bytes as u64) % scratch_bytes;
            }
        }
    }
    drop(scratch);
    let sorted = |(mut trial, _): (Trial, Box<dyn Commit>)| {
        trial.times_ns.sort_unstable();
        trial
    };
    Ok(tried.into_iter().map(sorted).collect())
}

/// The file that is written to; removed afterwards.
struct Scratch<'a>(&'a Path);

impl<'a> Scratch<'a> {
    fn make(path: &'a Path, bytes: u64) -> Result<Self> {
        // Left over from a trial that was cut short.
        let _ = std::fs::remove_file(path);
        let file = StoreFile::create(path, Access::Cached).map_err(|error| from_system(&error))?;
        let scratch = Self(path);
        let zeros = AlignedBuf::zeroed(usize::try_from(bytes).unwrap_or(0));
        let mut at = 0;
        while at < zeros.capacity() {
            let written = file.write_at(at as u64, &zeros.bytes()[at..]);
            at += written.map_err(|source| Error::io("write", path, source))?;
        }
        file.sync().map_err(|source| Error::io("sync", path, source))?;
        Ok(scratch)
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        // A scratch file that stays behind is removed by the next trial.
        let _ = std::fs::remove_file(self.0);
    }
}
