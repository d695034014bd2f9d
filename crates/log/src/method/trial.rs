//! Measures the latency of several commit methods in interleaved rounds on a scratch file.
//!
//! The rounds are interleaved, so that a busy moment does not pick the winner; the earlier row wins unless a later
//! one is better by a tenth more than chance explains.
//!
//! Invariants: the scratch file belongs to the trial alone and is removed in every case; a row that cannot run here
//! is left out; one that fails after it was proven ends the trial.

use seawall_sys::clock::monotonic_ns;
use seawall_sys::counters::{CommitWatch, Watched};
use seawall_sys::directory::{Directory, Permissions};
use seawall_sys::inspect::Environment;
use seawall_sys::method::Method;
use seawall_sys::store::{Access, StoreFile};
use seawall_sys::{CommitHandle, Target};

use crate::error::{Error, Result, from_system};
use crate::format::buffer::AlignedBuf;

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Rounds over all rows.
    pub(crate) rounds: usize,
    /// Commits of a row in a round.
    pub(crate) writes_per_round: usize,
    /// Size of the scratch file, bytes.
    pub(crate) scratch_bytes: u64,
    /// Rounds after which only rows within half of the best of their engine are tried further, so that a log is made
    /// quickly.
    pub(crate) screened: Option<usize>,
    /// When to begin no further commit, on [`monotonic_ns`].
    pub(crate) until_ns: Option<u64>,
    /// A row that is tried to the end, however it begins.
    pub(crate) kept: Option<&'static Method>,
}

impl Bounds {
    fn reached(&self) -> bool {
        self.until_ns.is_some_and(|until_ns| monotonic_ns() >= until_ns)
    }
}

/// The latencies of one row.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub(crate) method: &'static Method,
    /// Each commit's latency, nanoseconds, ascending.
    pub(crate) times_ns: Vec<u64>,
    /// What the devices counted meanwhile; `None` where nothing counts.
    pub(crate) watched: Option<Watched>,
}

/// A figure of a sample with its standard error, both in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    value: f64,
    error: f64,
}

/// The standard error of a median in quartile distances, for values that are spread like noise.
const MEDIAN_ERROR: f64 = 1.2533 / 1.349;
/// Standard errors beyond which a difference is no chance: once in twenty it is all the same.
const ERRORS: f64 = 2.0;

impl Trial {
    /// The median, nanoseconds; `None` without commits.
    pub(crate) fn median_ns(&self) -> Option<u64> {
        self.times_ns.get(self.times_ns.len() / 2).copied()
    }

    /// The median as an estimate; `None` without commits.
    pub(crate) fn median(&self) -> Option<Estimate> {
        let count = self.times_ns.len();
        let at = |quarter: usize| self.times_ns.get(count * quarter / 4).map(|ns| *ns as f64);
        let error = MEDIAN_ERROR * (at(3)? - at(1)?) / (count as f64).sqrt();
        Some(Estimate { value: at(2)?, error })
    }

    /// The mean as an estimate; `None` without commits.
    pub(crate) fn mean(&self) -> Option<Estimate> {
        let count = self.times_ns.len() as f64;
        let value = (count > 0.0).then(|| self.times_ns.iter().sum::<u64>() as f64 / count)?;
        let squares: f64 = self.times_ns.iter().map(|ns| (*ns as f64 - value).powi(2)).sum();
        Some(Estimate { value, error: squares.sqrt() / count })
    }
}

/// Whether `a` is there and less than `b`, or than nothing, by a tenth more than chance explains.
pub(crate) fn clearly_less(a: Option<Estimate>, b: Option<Estimate>) -> bool {
    let clearly =
        |a: Estimate, b: Estimate| b.value - a.value > a.value / 10.0 + ERRORS * a.error.hypot(b.error);
    a.is_some_and(|a| b.is_none_or(|b| clearly(a, b)))
}

/// The trial with the lowest median; the earlier one unless the later one is clearly better. `None` if none has commits.
pub(crate) fn fastest<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Option<&'a Trial> {
    let tried = trials.into_iter().filter(|trial| !trial.times_ns.is_empty());
    tried.reduce(|best, next| if clearly_less(next.median(), best.median()) { next } else { best })
}

/// A row at work, and what the devices count meanwhile.
type Candidate = (Trial, Box<dyn CommitHandle>, Option<CommitWatch>);

/// Drops the rows that are far behind the best of their engine, but for `kept`.
fn screen(tried: &mut Vec<Candidate>, kept: Option<&'static Method>) {
    for (trial, ..) in tried.iter_mut() {
        trial.times_ns.sort_unstable();
    }
    let medians: Vec<_> =
        tried.iter().map(|(trial, ..)| (trial.method.engine(), trial.median_ns())).collect();
    tried.retain(|(trial, ..)| {
        let own = medians.iter().filter(|(engine, _)| *engine == trial.method.engine());
        let best = own.filter_map(|(_, median)| *median).min().unwrap_or(u64::MAX);
        let near = trial.median_ns().is_none_or(|median| median <= best.saturating_add(best / 2));
        near || kept.is_some_and(|kept| kept.id == trial.method.id)
    });
}

/// Tries `rows` with writes of `bytes` on a scratch file called `name` in `dir`, which is in `environment`; each row is proven
/// first, which is one commit more.
pub(crate) fn run(
    (dir, name): (&Directory, &str),
    environment: &Environment,
    rows: &[&'static Method],
    bytes: usize,
    bounds: &Bounds,
) -> Result<Vec<Trial>> {
    let scratch_bytes = bounds.scratch_bytes;
    let scratch = Scratch::make(dir, name, scratch_bytes)?;
    let target = Target { path: dir.path().join(name), journal_bytes: scratch_bytes, write_bytes: bytes };
    let mut tried: Vec<Candidate> = Vec::new();
    for method in rows {
        if !bounds.reached()
            && seawall_sys::prove(method, &target, Some(dir)).is_ok()
            && let Ok(commit) = seawall_sys::open(method, &target, Some(dir))
        {
            let watch = CommitWatch::open(environment, method);
            tried.push((Trial { method, times_ns: Vec::new(), watched: None }, commit, watch));
        }
    }
    let mut buf = AlignedBuf::zeroed(bytes);
    let mut offset = 0;
    for round in 0..bounds.rounds {
        if bounds.screened == Some(round) {
            screen(&mut tried, bounds.kept);
        }
        for (trial, commit, watch) in &mut tried {
            for _ in 0..bounds.writes_per_round {
                if bounds.reached() {
                    break;
                }
                let began = monotonic_ns();
                // A device that finds what it holds already may write nothing.
                if let Some(front) = buf.bytes_mut().first_chunk_mut() {
                    *front = began.to_le_bytes();
                }
                counted(watch, CommitWatch::begin);
                let began = monotonic_ns();
                let written = commit.write(offset, buf.bytes()).and_then(|()| commit.sync());
                written.map_err(|error| from_system(&error))?;
                trial.times_ns.push(monotonic_ns() - began);
                counted(watch, CommitWatch::end);
                offset = (offset + bytes as u64) % scratch_bytes;
            }
        }
    }
    drop(scratch);
    let sorted = |(mut trial, _, watch): Candidate| {
        trial.times_ns.sort_unstable();
        trial.watched = watch.map(|watch| watch.watched().clone());
        trial
    };
    Ok(tried.into_iter().map(sorted).collect())
}

/// Reads the counters; without any from the moment on at which a device is gone.
fn counted(watch: &mut Option<CommitWatch>, read: fn(&mut CommitWatch) -> seawall_sys::Result<()>) {
    if watch.as_mut().is_some_and(|watch| read(watch).is_err()) {
        *watch = None;
    }
}

/// The file that is written to; removed afterwards.
struct Scratch<'a>(&'a Directory, &'a str);

impl<'a> Scratch<'a> {
    fn make(dir: &'a Directory, name: &'a str, bytes: u64) -> Result<Self> {
        let path = &dir.path().join(name);
        // Left over from a trial that was cut short.
        dir.remove_if_there(name).map_err(|source| Error::io("remove", path, source))?;
        let file = StoreFile::create_in(dir, name, Access::Cached, Permissions::OwnerOnly);
        let file = file.map_err(|source| Error::io("create", path, source))?;
        let scratch = Self(dir, name);
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
        let _ = self.0.remove(self.1);
    }
}
